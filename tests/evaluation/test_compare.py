from __future__ import annotations

import json
import pickle
import sys
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evaluation_toys import by_words, toy
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from benchmarks.quality_sets import with_shuffled_positions
from umi_common import DualRetriever, HybridStore
from umi_common.config import UmiConfig
from umi_common.errors import ConfigError, DatasetError, MissingExtra, SystemFailed
from umi_common.evaluation import Answer, SystemComparison, compare


class FromLangChain(LangChainRetriever):
    """Documents that share a word with the query."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [d for d in self.documents if set(query.split()) & set(d.page_content.split())]


class FromLlamaIndex(LlamaIndexRetriever):
    """Nodes that share a word with the query."""

    def __init__(self, nodes: list[TextNode]) -> None:
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        words = set(query_bundle.query_str.split())
        return [NodeWithScore(node=node, score=1.0) for node in self.nodes if words & set(node.text.split())]


def langchain(dataset):
    return FromLangChain(documents=[Document(id=c.id, page_content=c.text) for c in dataset.chunks])


def langchain_metadata(dataset):
    return FromLangChain(documents=[Document(c.text, metadata={"doc_id": c.id}) for c in dataset.chunks])


def llama_index(dataset):
    return FromLlamaIndex([TextNode(id_=c.id, text=c.text) for c in dataset.chunks])


def nothing(dataset):
    return lambda query, k: []


@pytest.fixture
def run(letters):
    def run(systems, datasets=None, **options):
        datasets = toy() if datasets is None else datasets
        return compare(systems, datasets, embedder=letters, show_progress=False, **options)

    return run


def test_a_function_langchain_and_llama_index_with_the_same_order_score_the_same(run):
    comparison = run(
        {"mine": by_words, "lc": langchain, "lc metadata": langchain_metadata, "li": llama_index}, ks=(1, 5)
    )
    # q1: a, b of {a, b}; q2: c, d of {d}
    assert comparison.value("mine", "recall@1") == pytest.approx((1 / 2 + 0) / 2)
    assert comparison.value("mine", "mrr@5") == pytest.approx((1 + 1 / 2) / 2)
    for other in ("lc", "lc metadata", "li"):
        assert comparison.row(other).metrics == comparison.row("mine").metrics


def test_a_retriever_that_somebody_already_has_is_compared_as_it_is(run, letters):
    dataset = toy()
    with HybridStore.open(embedder=letters) as store:
        store.add(dataset.chunks)
        mine = {"umi": DualRetriever(store), "lc": langchain(dataset), "li": llama_index(dataset)}
        had = run(mine, ks=(1, 5))
        built = run({name: lambda dataset, made=made: made for name, made in mine.items()}, ks=(1, 5))
    for name in mine:
        assert had.row(name).metrics == built.row(name).metrics


def test_a_system_may_be_built_with_the_embedder_of_the_dataset(run, letters):
    seen = []
    run({"mine": lambda dataset, embedder: seen.append(embedder) or nothing(dataset)})
    assert seen == [letters]


def test_the_llm_calls_and_arms_that_a_system_states_are_kept(run):
    answer = Answer(("x", "b"), llm_calls=2, arms={"b": {"lexical": 7, "dense": None}})
    comparison = run({"mine": lambda dataset: lambda query, k: answer, "silent": nothing}, ks=(1,), depth=5)
    assert comparison.row("mine").llm_calls == 2.0
    assert comparison.row("silent").llm_calls is None
    missed = {failure.id: failure for failure in comparison.failures("mine")}
    assert missed["b"].rank == 2
    assert missed["b"].arms == {"lexical": 7, "dense": None}


def test_an_answer_counts_the_first_k_distinct_ids_as_a_list_does(run):
    found = ("x", "x", "b", "a", "c")
    compared = run(
        {"answer": lambda _: lambda query, k: Answer(found), "list": lambda _: lambda query, k: found}, ks=(2,)
    )
    assert {run.ids["q1"] for run in compared.runs} == {("x", "b")}


def test_failures_name_missed_documents_and_their_ranks_in_other_systems(run):
    missed = run({"mine": by_words, "none": nothing}, ks=(1,), depth=5).failures("mine")
    assert [(f.query.id, f.id, f.rank, f.elsewhere) for f in missed] == [
        ("q1", "b", 2, {"none": None}),
        ("q2", "d", 2, {"none": None}),
    ]
    assert missed[0].text == "ships sink"


def test_ranks_elsewhere_are_those_in_the_same_group(run):
    datasets = [toy("one"), toy("two")]
    systems = {"none": nothing, "half": lambda each: by_words(each) if each.group == "one" else nothing(each)}
    missed = run(systems, datasets, ks=(5,)).failures("none")
    assert [(f.group, f.id, f.elsewhere["half"]) for f in missed] == [
        *(("one", "a", 1), ("one", "b", 2), ("one", "d", 2)),
        *(("two", "a", None), ("two", "b", None), ("two", "d", None)),
    ]


def test_each_set_has_a_table_of_its_own_rows(run):
    datasets = [toy("x", name="first"), toy("x", name="second")]
    systems = {"half": lambda each: by_words(each) if each.name == "first" else nothing(each)}
    first, second = str(run(systems, datasets, ks=(5,))).split("\n\n")
    assert [table.splitlines()[1].split()[1] for table in (first, second)] == ["recall@5", "recall@5"]
    assert [[line.split()[:2] for line in table.splitlines()[2:]] for table in (first, second)] == [
        [["half", "1.000"]],
        [["half", "0.000"]],
    ]


def test_the_llm_calls_are_unknown_if_those_of_one_query_are(run):
    stated = {"q1": 2, "q2": None}
    comparison = run({"mine": lambda dataset: lambda query, k: Answer(("a",), llm_calls=stated[query.id])})
    assert comparison.row("mine").llm_calls is None


def test_queries_without_a_category_are_a_category_of_their_own(run):
    dataset = toy()
    queries = (replace(dataset.queries[0], metadata={}), *dataset.queries[1:])
    assert list(run({"mine": by_words}, replace(dataset, queries=queries)).by_category("mine", "mrr@10")) == ["", "2"]


def test_a_document_twice_counts_once_at_its_better_rank(run):
    comparison = run({"echo": lambda dataset: lambda query, k: ["x", "x", "b"]}, ks=(2,))
    assert comparison.value("echo", "mrr@2") == pytest.approx((1 / 2 + 0) / 2)


def test_a_list_longer_than_asked_for_is_cut_to_the_depth(run):
    comparison = run({"long": lambda dataset: lambda query, k: list("edcba")}, ks=(2,))
    assert comparison.value("long", "recall@2") == pytest.approx((0 + 1) / 2)


def test_groups_of_one_set_make_one_row_and_are_what_is_resampled(run):
    comparison = run({"mine": by_words, "none": nothing}, [toy("one"), toy("two"), toy("x", name="other")])
    assert comparison.sets == ("toy", "other")
    assert comparison.row("mine", "toy").metrics["ndcg@10"].groups == 2
    assert comparison.row("mine", "toy").metrics["ndcg@10"].queries == 4
    assert comparison.row("mine", "other").metrics["ndcg@10"].groups == 2  # one group: its queries
    assert set(comparison.values("mine", "mrr@10", "toy")) == {"toy/one/q1", "toy/one/q2", "toy/two/q1", "toy/two/q2"}


def test_versus_compares_the_same_queries(run):
    difference = run({"mine": by_words, "none": nothing}).versus("none", "recall@10")["mine"]
    assert (difference.mean, difference.better, difference.worse) == (1.0, 2, 0)
    assert difference.p_value == pytest.approx(0.5, abs=0.03)  # two queries: half of all sign vectors


def test_categories_split_the_queries(run):
    kinds = run({"mine": by_words}).by_category("mine", "mrr@10")
    assert {kind: estimate.mean for kind, estimate in kinds.items()} == {"1": 1.0, "2": 0.5}


def test_diversity_and_duplication_come_from_the_vectors_of_the_hits(run):
    comparison = run({"mine": by_words, "none": nothing})
    assert 0.0 < comparison.value("mine", "diversity") < 1.0
    assert comparison.value("mine", "duplication") == 0.0
    assert "diversity" not in comparison.row("none").metrics


def test_json_is_json_and_names_every_row(run, tmp_path):
    text = run({"mine": by_words, "none": nothing}).to_json(tmp_path / "out.json")
    body = json.loads((tmp_path / "out.json").read_text(), parse_constant=pytest.fail)
    assert body == json.loads(text)
    assert [(row["system"], row["set"]) for row in body["rows"]] == [("mine", "toy"), ("none", "toy")]
    assert body["rows"][0]["metrics"]["recall@5"]["mean"] == 1.0


def test_tables_in_both_formats_hold_the_same_figures(run):
    comparison = run({"mine": by_words}, ks=(1,))
    text, markdown = comparison.table(metrics=["mrr@1"]), comparison.table("markdown", ["mrr@1"])
    assert text.splitlines()[0] == "toy: 2 queries, 1 group"
    assert text.splitlines()[2].split()[:2] == ["mine", "0.500"]
    assert "| system | mrr@1 | p50 ms | LLM calls |" in markdown
    assert markdown.splitlines()[-1].startswith("| mine | 0.500 |")
    assert str(comparison).startswith("toy: 2 queries")
    assert repr(comparison) == str(comparison)
    with pytest.raises(ConfigError, match="expected one of text, markdown"):
        comparison.table("html")  # type: ignore[arg-type]


def test_a_comparison_that_was_copied_or_pickled_has_the_same_results(run):
    comparison = run({"mine": by_words, "none": nothing})
    for copied in (deepcopy(comparison), pickle.loads(pickle.dumps(comparison))):  # noqa: S301 our own bytes
        assert copied.values("mine", "mrr@10") == comparison.values("mine", "mrr@10")
        assert copied.versus("none", "mrr@10") == comparison.versus("none", "mrr@10")
        assert copied.by_category("mine", "mrr@10") == comparison.by_category("mine", "mrr@10")


def test_a_name_with_a_pipe_is_one_cell_of_the_markdown_table(run):
    assert (
        run({"mine | best": by_words}, ks=(1,))
        .table("markdown", ["mrr@1"])
        .splitlines()[-1]
        .startswith("| mine \\| best | ")
    )


def test_a_notebook_shows_a_comparison_as_a_table_with_its_names_escaped(run):
    shown = run({"<mine>": by_words, "none": nothing})._repr_html_()
    assert "<td>&lt;mine&gt;</td>" in shown and "<mine>" not in shown
    assert "<th scope='col'>mrr@10</th>" in shown


def test_a_frame_has_one_row_a_system_and_set(run):
    pytest.importorskip("pandas")
    frame = run({"mine": by_words, "none": nothing}).to_frame()
    assert list(frame["system"]) == ["mine", "none"]
    assert frame.loc[0, "recall@10"] == 1.0


@dataclass
class Flaky:
    """A retriever that counts its queries and breaks at one of them."""

    break_at: int
    asked: int = 0

    def __call__(self, dataset):
        def search(query, k):
            self.asked += 1
            if self.asked == self.break_at:
                raise KeyboardInterrupt
            return by_words(dataset)(query, k)

        return search


def test_an_interrupted_comparison_goes_on_where_it_was(run, tmp_path):
    datasets, path = [toy("one"), toy("two")], tmp_path / "runs.jsonl"
    flaky = Flaky(break_at=4)
    with pytest.raises(KeyboardInterrupt):
        run({"mine": flaky}, datasets, resume=path)
    resumed = run({"mine": flaky}, datasets, resume=path)
    assert flaky.asked == 4 + 2  # group one was not asked again
    fresh = run({"mine": by_words}, datasets)
    assert resumed.row("mine").metrics == fresh.row("mine").metrics
    again = run({"mine": flaky}, datasets, resume=path)
    assert flaky.asked == 6
    assert again.rows == resumed.rows


def test_a_line_torn_by_a_kill_is_run_again(run, tmp_path):
    path, flaky = tmp_path / "runs.jsonl", Flaky(break_at=0)
    run({"mine": flaky}, [toy("one"), toy("two")], resume=path)
    path.write_text(path.read_text()[:-30])
    run({"mine": flaky}, [toy("one"), toy("two")], resume=path)
    assert flaky.asked == 4 + 2
    assert len(path.read_text().splitlines()) == 2


def test_a_changed_dataset_name_or_depth_is_run_again(run, tmp_path):
    path, flaky = tmp_path / "runs.jsonl", Flaky(break_at=0)
    run({"mine": flaky}, resume=path)
    run({"mine": flaky}, with_shuffled_positions(toy(), 1), resume=path)
    run({"other name": flaky}, resume=path)
    run({"mine": flaky}, resume=path, depth=50)
    assert flaky.asked == 8


def test_a_dataset_whose_metadata_changed_is_run_again(run, tmp_path):
    path, flaky, dataset = tmp_path / "runs.jsonl", Flaky(break_at=0), toy()
    run({"mine": flaky}, dataset, resume=path)
    chunks = [replace(chunk, metadata={"user": "ann"}) for chunk in dataset.chunks]
    run({"mine": flaky}, replace(dataset, chunks=tuple(chunks)), resume=path)
    assert flaky.asked == 4


def test_a_run_cut_off_after_its_last_character_is_not_run_again(run, tmp_path):
    path, flaky = tmp_path / "runs.jsonl", Flaky(break_at=0)
    run({"mine": flaky}, [toy("one")], resume=path)
    path.write_text(path.read_text().removesuffix("\n"))
    for _ in range(2):
        run({"mine": flaky}, [toy("one"), toy("two")], resume=path)
    assert flaky.asked == 4
    assert len(path.read_text().splitlines()) == 2


def test_two_runs_of_one_system_on_one_dataset_are_refused_and_not_scored_as_one():
    dataset = toy()
    runs = compare({"mine": by_words}, [dataset]).runs
    with pytest.raises(ConfigError, match="'mine' has 2 runs on toy/one"):
        SystemComparison([*runs, replace(runs[0], ids={})], [dataset], ks=(10,), depth=10)


def test_a_torn_line_is_removed_without_writing_the_finished_runs_again(run, tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    run({"mine": by_words}, [toy("one")], resume=path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "ab')

    monkeypatch.setattr(Path, "write_text", lambda *given, **how: pytest.fail("a process killed here loses all runs"))
    run({"mine": by_words}, [toy("one")], resume=path)
    assert path.read_bytes() == whole


def test_a_retriever_of_another_kind_does_not_get_the_runs_of_its_name(run, tmp_path):
    path, dataset = tmp_path / "runs.jsonl", toy()
    run({"mine": nothing}, resume=path)
    for system in (by_words, langchain(dataset), llama_index(dataset)):
        assert run({"mine": system}, resume=path).value("mine", "recall@5") == run({"a": system}).value("a", "recall@5")


def test_a_stored_run_whose_code_may_have_changed_is_named_in_the_log(run, tmp_path, caplog):
    path = tmp_path / "runs.jsonl"
    systems = {"mine": by_words, "umi": UmiConfig()}
    run(systems, [toy("one"), toy("two")], resume=path)
    assert not caplog.records
    run(systems, [toy("one"), toy("two")], resume=path)
    (said,) = caplog.messages
    assert "the runs of ['mine'] are taken from" in said


def test_the_runs_of_another_version_of_umi_are_made_again(run, tmp_path, monkeypatch):
    path, flaky = tmp_path / "runs.jsonl", Flaky(break_at=0)
    run({"mine": flaky}, resume=path)
    monkeypatch.setitem(compare.__globals__, "__version__", "99.0.0")
    run({"mine": flaky}, resume=path)
    assert flaky.asked == 4


def test_without_ir_measures_no_system_is_run(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtra, match="ir-measures"):
        run({"mine": lambda dataset: pytest.fail("a system was run")})


def test_a_folder_in_place_of_a_file_of_runs_is_named(run, tmp_path):
    with pytest.raises(DatasetError, match=r"cannot be read .*; give another resume= path"):
        run({"mine": by_words}, resume=tmp_path)


def test_a_run_with_values_of_other_types_is_refused(run, tmp_path):
    path = tmp_path / "runs.jsonl"
    run({"mine": by_words}, resume=path)
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "ids": 3}) + "\n")
    with pytest.raises(DatasetError, match="line 1: not a run of this version"):
        run({"mine": by_words}, resume=path)


@pytest.mark.parametrize("content", ["# my notes", "my notes\n", '{"key": "k", "foo": 1}\n', "[]\n", "\udcff\udcfe\0"])
def test_a_file_that_holds_no_runs_is_refused_and_not_changed(run, tmp_path, content):
    path: Path = tmp_path / "notes.md"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DatasetError, match="notes"):
        run({"mine": by_words}, resume=path)
    assert path.read_bytes() == content.encode(errors="surrogateescape")


def test_a_file_of_runs_in_no_folder_is_refused_before_the_first_run(run, tmp_path):
    with pytest.raises(DatasetError, match=r"nowhere is no folder; create it"):
        run({"mine": lambda dataset: pytest.fail("a system was run")}, resume=tmp_path / "nowhere" / "runs.jsonl")


def test_a_system_that_raises_is_named_with_dataset_and_query(run):
    def broken(dataset):
        def search(query, k):
            raise RuntimeError("no index")

        return search

    with pytest.raises(SystemFailed, match="'mine' failed on query 'q1' of toy/one: RuntimeError: no index") as caught:
        run({"mine": broken})
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("systems", "options", "complaint"),
    [
        ({}, {}, "no system"),
        ({"mine": 3}, {}, "'mine' is int"),
        ({"mine": lambda dataset: 3}, {}, "'mine' built a int"),
        ({"mine": by_words}, {"ks": ()}, "at least one cut-off"),
        ({"mine": by_words}, {"ks": (0,)}, "at least one cut-off"),
        ({"mine": by_words}, {"ks": (True,)}, "at least one cut-off"),
        ({"mine": by_words}, {"ks": (5, 5)}, "at least one cut-off, .* each once"),
        ({"mine": by_words}, {"ks": 5}, "ks 5; expected a list of at least one cut-off"),
        ({"mine": by_words}, {"ks": "10"}, "ks '10'; expected a list of at least one cut-off"),
        ({"mine": by_words}, {"depth": "10"}, "depth 10; expected"),
        ([UmiConfig()], {}, "systems is list; expected systems by name"),
        ({"mine": by_words}, {"ks": (101,)}, r"1\.\.100"),
        ({"mine": by_words}, {"ks": (10,), "depth": 5}, "expected 10 .* to 100"),
        ({"mine": by_words}, {"datasets": []}, "no query of the datasets"),
        ({"mine": by_words}, {"datasets": [toy().with_queries(["q3"])]}, "no query of the datasets"),
        ({"mine": by_words}, {"datasets": [toy(), toy()]}, "same name and group"),
        ({"mine": by_words}, {"datasets": "talks"}, r"dataset 'talks' is str; expected load_folder\(folder\)"),
        ({"mine": by_words}, {"datasets": [Path("talks")]}, r"expected load_folder\(folder\)"),
    ],
)
def test_a_wrong_argument_is_an_error_that_says_what_was_expected(run, systems, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        run(systems, **options)


def test_a_builtin_or_a_retriever_of_strings_is_named_with_what_was_wrong(run):
    with pytest.raises(SystemFailed, match="'mine' failed when it was built for toy/one: TypeError"):
        run({"mine": max})  # Python knows no signature of it
    with pytest.raises(SystemFailed, match=r"'mine' returned a document without \.id and without .*: 'ships sail'"):
        run({"mine": SimpleNamespace(invoke=lambda query: ["ships sail"])})


def test_a_system_that_cannot_be_built_or_returns_one_string_is_named(run):
    with pytest.raises(SystemFailed, match="'mine' failed when it was built for toy/one: TypeError") as caught:
        run({"mine": UmiConfig})
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(SystemFailed, match="the search returned 'abc'; expected a list of ids"):
        run({"mine": lambda dataset: lambda query, k: "abc"})


def test_a_document_without_an_id_is_named_as_the_systems_fault(run):
    anonymous = lambda dataset: FromLangChain(documents=[Document("ships planes")])  # noqa: E731
    with pytest.raises(SystemFailed, match="without metadata id"):
        run({"anonymous": anonymous})


def test_a_system_that_returns_ids_of_another_collection_is_named_in_place_of_scored_0(run):
    numbered = lambda dataset: lambda query, k: ["0", "1"]  # noqa: E731
    with pytest.raises(SystemFailed, match="'numbered' returned ids such as '0', none of which is in toy/one: 'a'"):
        run({"mine": by_words, "numbered": numbered})


def test_an_unknown_row_is_an_error_that_lists_the_measured_ones(run):
    comparison = run({"mine": by_words}, [toy(), toy("x", name="other")])
    with pytest.raises(ConfigError, match="name one of the sets"):
        comparison.row("mine")
    with pytest.raises(ConfigError, match=r"systems: .*mine"):
        comparison.row("yours", "toy")
    with pytest.raises(ConfigError, match="'ndcg@7' was not measured; there is recall@5"):
        comparison.value("mine", "ndcg@7", "toy")


@pytest.mark.parametrize("read", ["values", "versus", "by_category"])
def test_a_metric_that_was_not_measured_is_an_error_that_lists_the_measured_ones(run, read):
    comparison = run({"mine": by_words, "none": nothing})
    with pytest.raises(ConfigError, match=r"'ndgc@10' was not measured; there is .*ndcg@10"):
        getattr(comparison, read)("mine", "ndgc@10")


def test_a_misspelt_system_or_set_is_an_error_and_not_a_system_without_failures(run):
    comparison = run({"mine": by_words})
    for ask in (
        lambda: comparison.failures("mien"),
        lambda: comparison.failures("mine", set="tyo"),
        lambda: comparison.by_category("mien", "mrr@10"),
    ):
        with pytest.raises(ConfigError, match=r"systems: \('mine',\), sets: \('toy',\)"):
            ask()
    for k in ("3", 0, 2.5):
        with pytest.raises(ConfigError, match=f"k is {k!r}; expected a whole number above 0"):
            comparison.failures("mine", k=k)
