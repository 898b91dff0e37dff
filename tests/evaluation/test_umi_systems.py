"""The real retriever and store in `compare` and `tune`, on a toy collection."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace

import numpy as np
import pytest
from evaluation_toys import by_words, toy

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.embedders import CallableEmbedder
from umi_common.errors import ConfigError, EmbedderError
from umi_common.evaluation import Between, UmiSystem, arm, compare, tune
from umi_common.evaluation.compare import run_key
from umi_common.evaluation.systems import Stores, open_system
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder, ScriptedLLM, SimLLM

ALWAYS = UmiConfig().replaced(routing={"mode": "always"})


@pytest.fixture
def run(letters):
    def run(systems, datasets=None, **options):
        datasets = toy() if datasets is None else datasets
        return compare(systems, datasets, embedder=letters, show_progress=False, **options)

    return run


def test_umi_finds_the_document_that_holds_the_word(run):
    comparison = run({"umi": UmiConfig(), "words": by_words}, ks=(5,))
    assert comparison.value("umi", "recall@5") == 1.0
    assert comparison.row("umi").llm_calls == 0.0


def test_a_text_is_embedded_with_its_titles_as_a_store_embeds_it(letters):
    bare = toy()
    titled = replace(bare, chunks=tuple(replace(c, search_text=f"zzz {c.text}") for c in bare.chunks))
    with Stores(letters) as stores, HybridStore.open(embedder=letters) as store:
        store.add(titled.chunks)
        np.testing.assert_allclose(
            stores.vectors(titled), store.vectors([chunk.id for chunk in titled.chunks]), atol=1e-6
        )
        other_texts = [run_key("umi", UmiConfig(), each, stores, depth=5, top=5) for each in (bare, titled)]
    assert len(set(other_texts)) == 2


def test_the_texts_of_a_collection_are_embedded_in_batches_and_a_failing_model_is_named():
    dataset = replace(toy(), chunks=tuple(Chunk(f"c{n}", f"text {n}") for n in range(1_000)), qrels={})
    model = CountingEmbedder(HashEmbedder(8))
    with Stores(model) as stores:
        assert stores.vectors(dataset).shape == (1_000, 8)
    assert model.document_calls > 1
    with Stores(FaultyEmbedder(HashEmbedder(8), fault="nan")) as stores, pytest.raises(EmbedderError, match="NaN"):
        stores.vectors(dataset)


def test_settings_that_name_a_model_are_measured_with_it_unless_the_call_names_one(letters):
    other = UmiConfig().replaced(embedder={"model": "no-such-model"})
    for measure in (
        lambda **options: compare({"umi": UmiConfig(), "other": other}, toy(), show_progress=False, **options),
        lambda **options: tune(toy(), {"embedder.model": ["no-such-model"]}, show_progress=False, **options),
        lambda **options: tune(toy(), {"lexical.k1": [1.2]}, base=other, show_progress=False, **options),
    ):
        with pytest.raises(ConfigError, match="no-such-model"):
            measure()
        measure(embedder=letters)


def test_settings_of_the_embedders_calls_are_measured_and_tuned_as_all_others(run, letters):
    small = UmiConfig().replaced(embedder={"batch_texts": 2})
    comparison = run({"umi": UmiConfig(), "small batches": small}, ks=(5,))
    assert comparison.value("umi", "ndcg@5") == comparison.value("small batches", "ndcg@5")
    tuning = tune(toy(), {"embedder.batch_texts": [1, 2]}, embedder=letters, show_progress=False)
    assert [trial.score for trial in tuning.history] == [tuning.history[0].score] * 3


def test_the_lexical_arm_alone_returns_only_what_shares_a_word(run):
    comparison = run({"lexical": arm("lexical"), "dense": arm("dense")}, ks=(5,))
    ids = {run.system: run.ids["q1"] for run in comparison.runs}
    assert sorted(ids["lexical"]) == ["a", "b"]
    assert len(ids["dense"]) == 5


def test_failures_say_at_which_rank_each_arm_had_the_document(run):
    comparison = run({"umi": UmiConfig()}, ks=(1,), depth=5)
    missed = comparison.failures("umi")
    assert missed
    for failure in missed:
        assert set(failure.arms) == {"lexical", "dense"}
        assert failure.rank is not None and failure.rank > 1


def test_llm_calls_are_counted_a_query(run):
    llm = ScriptedLLM(lambda prompt: ["boats", "aircraft"])
    row = run(
        {"always": UmiSystem(ALWAYS, llm), "never": UmiSystem(UmiConfig().replaced(routing={"mode": "never"}), llm)}
    )
    assert row.row("always").llm_calls == 1.0
    assert row.row("never").llm_calls == 0.0
    assert len(llm.prompts) == 2


def test_a_failing_llm_shows_as_degraded_not_as_an_error(run):
    def broken(prompt: str) -> str:
        raise RuntimeError("no quota")

    row = run({"umi": UmiSystem(ALWAYS, broken)}).row("umi")
    assert row.degraded == {"rewriter": 2}
    assert row.metrics["recall@10"].mean == 1.0


def test_the_question_is_asked_at_its_own_time_and_with_its_history(letters):
    from dataclasses import replace

    asked = {}
    moment = datetime(2023, 5, 30, tzinfo=timezone.utc)
    dataset = toy()
    queries = tuple(replace(query, now=moment, history=("user: hi",)) for query in dataset.queries)

    class Retriever(DualRetriever):
        def search(self, query, **options):
            asked.update(options)
            return super().search(query, **options)

    def build(dataset):
        store = HybridStore.open(None, embedder=letters)
        store.add(dataset.chunks)
        return Retriever(store)

    compare({"umi": build}, replace(dataset, queries=queries), embedder=letters, show_progress=False)
    assert (asked["now"], asked["history"], asked["limit"]) == (moment, ("user: hi",), 10)


@pytest.mark.parametrize("kind", ["langchain", "llama_index", "sentence_transformers"])
def test_a_model_of_a_framework_embeds_the_texts_and_not_the_dataset(kind):
    class SentenceModel:
        def encode(self, texts, **_):
            return np.ones((len(texts), 3), np.float32)

        def __call__(self, batch):
            raise AssertionError("its own method `forward` is called")

    if kind == "sentence_transformers":
        model = SentenceModel()
    elif kind == "langchain":
        model = pytest.importorskip("langchain_core.embeddings").DeterministicFakeEmbedding(size=3)
    else:
        model = pytest.importorskip("llama_index.core").MockEmbedding(embed_dim=3)
    with Stores(model) as stores:
        assert stores.vectors(toy()).shape == (len(toy().chunks), 3)


def test_a_document_whose_first_key_has_no_value_is_known_by_the_next(run):
    class Documents:
        def invoke(self, text):
            return [SimpleNamespace(id=None, metadata={"id": None, "doc_id": "a"})]

        def __call__(self, text):
            raise AssertionError("a retriever that is a function, too, is asked by its method")

    assert run({"documents": Documents()}).value("documents", "recall@5") > 0


def test_configurations_of_one_analyzer_share_a_store(letters):
    with Stores(letters) as stores:
        plain, tuned = UmiConfig(), UmiConfig().replaced(lexical={"k1": 2.0})
        german = UmiConfig().replaced(analyzer={"language": "german"})
        dataset = toy()
        assert stores.open(dataset, plain) is stores.open(dataset, tuned)
        assert stores.open(dataset, plain) is stores.open(dataset.with_queries(["q1"]), plain)
        assert stores.open(dataset, plain) is not stores.open(dataset, german)


def ask_one_model(prompt):
    return "[]"


def ask_another_model(prompt):
    return "[]"


def test_a_changed_configuration_is_another_run(letters):
    stores, dataset = Stores(letters), toy()
    words = frozenset({"the", "of", "and", "a"})
    configs = [
        UmiConfig(),
        UmiConfig().replaced(lexical={"k1": 2.0}),
        UmiConfig().replaced(analyzer={"stop_words": words}),
        arm("lexical"),
        UmiSystem(UmiConfig(), ScriptedLLM([])),
        UmiSystem(UmiConfig(), SimLLM(1)),
        UmiSystem(UmiConfig(), SimLLM(2)),  # another model of the same class
        UmiSystem(UmiConfig(), ask_one_model),
        UmiSystem(UmiConfig(), ask_another_model),
    ]
    keys = [run_key("umi", config, dataset, stores, depth=10, top=10) for config in configs]
    assert len(set(keys)) == len(configs)


def test_tuning_finds_the_setting_that_matters_and_writes_it(tmp_path):
    # To a blind encoder all texts are one, so ids decide and q2's answer comes fourth; words bring it second.
    blind = CallableEmbedder(lambda texts: np.ones((len(texts), 2), np.float32), name="blind", dim=2)
    base = UmiConfig().replaced(
        fusion={"adaptive": False, "lexical_weight": 0.0}, neighbours={"enabled": False}, duplicates={"enabled": False}
    )
    tuning = tune(
        [toy(f"g{i}") for i in range(4)],
        {"fusion.lexical_weight": [0.0, 1.0]},
        base=base,
        metric="mrr@5",
        embedder=blind,
        show_progress=False,
    )
    assert tuning.settings == {"fusion.lexical_weight": 1.0}
    assert [trial.score for trial in tuning.history] == pytest.approx(
        [(1 + 1 / 4) / 2, (1 + 1 / 4) / 2, (1 + 1 / 2) / 2]
    )
    assert (tuning.baseline_test_score, tuning.test_score) == pytest.approx((0.625, 0.75))
    tuning.save(tmp_path / "umi.toml")
    assert UmiConfig.load(tmp_path / "umi.toml") == tuning.best
    assert "mrr@5 on held-out data: 0.7500 (before tuning: 0.6250)" in (tmp_path / "umi.toml").read_text()


def test_tuning_is_the_same_for_the_same_seed(letters):
    def found(seed):
        space = {"lexical.k1": Between(0.5, 2.0), "neighbours.previous": [0.0, 0.5]}
        return tune(
            [toy(f"g{i}") for i in range(3)],
            space,
            method="random",
            trials=4,
            seed=seed,
            embedder=letters,
            show_progress=False,
        )

    assert found(1).history == found(1).history
    assert [t.settings for t in found(1).history] != [t.settings for t in found(2).history]


def test_patience_stops_a_search_that_gets_no_better(letters):
    space = {"lexical.k1": [1.2, 1.3, 1.4, 1.5, 1.6, 1.7]}
    tuning = tune(toy(), space, patience=2, metric="recall@5", test_share=0.5, embedder=letters, show_progress=False)
    assert len(tuning.history) == 1 + 2


def test_the_arm_by_itself_is_a_system(letters):
    with Stores(letters) as stores:
        answer = open_system("lexical", arm("lexical"), toy(), stores)(toy().queries[0], 5)
    assert set(answer.ids) == {"a", "b"}
    assert answer.llm_calls == 0


def test_an_unknown_arm_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="arm 'words'; expected 'lexical' or 'dense'"):
        arm("words")


def test_an_arm_by_itself_is_scored_by_no_further_stage(letters):
    """A heading that the query names, and what it refers to, are a stage of ranking and not BM25."""
    play = Chunk("play", "Brand (play). A verse tragedy in five acts.", source="plays", position=0)
    note = Chunk("note", "The author of Brand is a citizen of this country.", source="plays", position=1)
    with HybridStore.open(embedder=letters) as store:
        store.add([play, note])
        for system, stages in ((UmiSystem(), {"fused", "neighbours", "references"}), (arm("lexical"), {"fused"})):
            hit = DualRetriever(store, config=system.config).search("author of Brand", strategy="text").hits[0]
            assert set(hit.stages) == stages
