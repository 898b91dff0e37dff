"""SparseArm: a learned sparse encoder's exact scores, in step with the store, kept in its directory."""

from __future__ import annotations

import pickle
import random
import sqlite3
import threading
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient
from sparse_toys import SimSparseEncoder, SimSparseFunction, SimSparseTextEmbedding

from umi_common.config import UmiConfig
from umi_common.errors import ConfigError, EmbedderError
from umi_common.filters import parse_filter
from umi_common.retriever import DualRetriever
from umi_common.search.extra_arms import SparseArm
from umi_common.sim import HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.qdrant import QdrantStore
from umi_common.types import Chunk, TimeRange

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
LATE = TimeRange(NOW - timedelta(days=5), None)
WORDS = [f"word{n}" for n in range(40)]
TEXTS = {"cat": "Luna is a grey cat", "job": "Priya works in accounting", "roof": "the roofers want nine thousand"}
EXPANSIONS = {"pet": {"cat": 2.0, "dog": 1.5}, "salary": {"accounting": 1.0}}


class HashEmbeddings(Embeddings):
    """LangChain's view of the stores' embedder."""

    def embed_documents(self, texts):
        return HashEmbedder(16).embed_documents(texts).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class Tensor:
    """As a sparse tensor of torch: `indices` and `values` are methods."""

    def indices(self):
        return [1]

    def values(self):
        return [2.0]


def opened(path=None, **options) -> HybridStore:
    return HybridStore.open(path, embedder=HashEmbedder(16), **options)


def chunks(texts=TEXTS) -> list[Chunk]:
    return [Chunk(id, text) for id, text in texts.items()]


def found(arm, query, k=50, where=None, window=None) -> list[tuple[str, float]]:
    return arm.search(query, k, parse_filter(where), window)


def ids(arm, query, **options) -> list[str]:
    return [id for id, _ in found(arm, query, **options)]


def by_hand(encode, stored, query, passes=lambda chunk: True) -> dict[str, float]:
    """The definition: the sum over the query's terms of the product of both weights."""
    (asked,) = encode([query])
    texts = [chunk for chunk in stored if passes(chunk)]
    weights = encode([chunk.indexed_text for chunk in texts])
    scores = {
        c.id: sum(w * own.get(term, 0.0) for term, w in asked.items()) for c, own in zip(texts, weights, strict=True)
    }
    return {id: score for id, score in scores.items() if score > 0}


@pytest.fixture
def store():
    with opened() as made:
        made.add(chunks())
        yield made


async def test_a_chunk_that_shares_only_an_expanded_term_is_found_and_says_by_which_arm(store):
    umi = DualRetriever(store, arms=[SparseArm(store, SimSparseFunction(EXPANSIONS), weight=1.0)])
    for result in (umi.search("what pet has she?"), await umi.asearch("what pet has she?")):
        assert result.ids[0] == "cat" and not result.degraded
        (signal,) = [signal for signal in result.hits[0].signals if signal.arm == "sparse"]
        assert (signal.rank, signal.score) == (1, 2.0)  # 2.0 for "cat" in the query, 1.0 in the text


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_the_sum_of_products_after_any_history_of_writes(seed):
    rng = random.Random(seed)
    encode = SimSparseFunction({word: {rng.choice(WORDS): rng.random() * 3} for word in WORDS[:9]})
    stored: dict[str, Chunk] = {}
    with opened() as store:
        arm = SparseArm(store, encode)
        for _ in range(30):
            for _ in range(rng.randint(1, 6)):
                id, text = f"c{rng.randrange(25)}", " ".join(rng.choices(WORDS, k=rng.randint(0, 12))) or "-"
                if rng.random() < 0.3 and id in stored:
                    store.delete([id])
                    del stored[id]
                else:
                    when = NOW - timedelta(days=rng.randrange(9)) if rng.random() < 0.8 else None
                    stored[id] = Chunk(id, text, metadata={"user": rng.choice("ab")}, event_time=when)
                    store.add([stored[id]])
            if rng.random() < 0.1:
                store.compact()
            query = " ".join(rng.choices(WORDS, k=5))
            expected = by_hand(encode, stored.values(), query)
            assert dict(found(arm, query)) == pytest.approx(expected, rel=1e-6)
            assert found(arm, query) == sorted(found(arm, query), key=lambda pair: (-pair[1], pair[0]))
            assert found(arm, query, k=3) == found(arm, query)[:3]
            anns = by_hand(encode, stored.values(), query, lambda c: c.metadata["user"] == "a")
            assert dict(found(arm, query, where={"user": "a"})) == pytest.approx(anns, rel=1e-6)
            late = by_hand(encode, stored.values(), query, lambda c: c.event_time and c.event_time in LATE)
            assert dict(found(arm, query, window=LATE)) == pytest.approx(late, rel=1e-6)


def test_thousands_of_edits_leave_the_newest_texts_findable_and_no_others():
    encode = SimSparseFunction()
    with opened() as store:
        store.add([Chunk("stays", "a text that stays")])
        arm = SparseArm(store, encode)
        for edit in range(40):
            store.add([Chunk(f"c{n}", f"edit{edit} number{n}") for n in range(100)])
            assert set(ids(arm, f"edit{edit}", k=200)) == {f"c{n}" for n in range(100)}
        assert ids(arm, "stays edit7 edit39", k=200)[-1] == "stays" and not ids(arm, "edit38")


def test_what_is_added_edited_and_deleted_counts_at_the_next_search_and_each_text_is_encoded_once(store):
    encode = SimSparseFunction(EXPANSIONS)
    arm = SparseArm(store, encode)
    assert ids(arm, "dog") == []
    store.add([Chunk("dog", "Rex is a dog"), Chunk("twin", "Rex is a dog")])
    assert ids(arm, "dog") == ["dog", "twin"]
    store.add([Chunk("twin", "Rex ran away"), Chunk("dog", "Rex is a dog", metadata={"user": "ann"})])
    assert ids(arm, "dog") == ids(arm, "dog", where={"user": "ann"}) == ["dog"]
    store.delete(["dog"])
    assert ids(arm, "dog") == []
    documents = [text for text in encode.texts if text != "dog"]
    assert sorted(documents) == sorted([*TEXTS.values(), "Rex is a dog", "Rex ran away"])


def test_a_filter_leaves_the_arm_as_many_hits_as_pass():
    with opened() as store:
        store.add([Chunk(f"b{n:03}", "apples apples", metadata={"user": "bob"}) for n in range(300)])
        store.add([Chunk(f"a{n}", "apples", metadata={"user": "ann"}) for n in range(7)])
        arm = SparseArm(store, SimSparseFunction())
        assert ids(arm, "apples", k=5, where={"user": "ann"}) == ["a0", "a1", "a2", "a3", "a4"]
        assert ids(arm, "apples", k=9, where={"user": "ann"}) == [f"a{n}" for n in range(7)]


def test_all_kinds_of_encoders_find_the_same(store):
    kinds = SimSparseFunction, SimSparseEncoder, SimSparseTextEmbedding
    arms = [SparseArm(store, kind(EXPANSIONS)) for kind in kinds]
    for query in ("pet", "the salary", "nothing of it", "the roofers of Luna", "?"):
        assert found(arms[0], query) == found(arms[1], query) == found(arms[2], query)
    assert ids(arms[0], "nothing of it") == [] and ids(arms[0], "the salary") == ["job", "roof"]


def test_queries_and_documents_may_be_encoded_by_different_methods(store):
    class Asymmetric:
        def encode_document(self, texts):
            return [dict.fromkeys(text.split(), 1.0) for text in texts]

        def encode_query(self, texts):
            return [{"cat": 3.0} for _ in texts]

    assert found(SparseArm(store, Asymmetric()), "anything") == [("cat", 3.0)]


def test_a_store_opened_again_encodes_nothing_and_another_encoder_encodes_all(tmp_path):
    first, again, other, unnamed = (SimSparseFunction(EXPANSIONS) for _ in range(4))
    with opened(tmp_path) as store:
        store.add(chunks())
        SparseArm(store, first, model="words/1")
    with opened(tmp_path) as store:
        before = found(SparseArm(store, again, model="words/1"), "pet")
        assert before == [("cat", 2.0)] and again.texts == ["pet"]
        SparseArm(store, other, model="words/2")
        SparseArm(store, unnamed)
        store.add([Chunk("dog", "Rex is a dog")])
        assert len(other.texts) == len(unnamed.texts) == len(first.texts) == 3
        library = SimSparseTextEmbedding()  # it states its name
        SparseArm(store, library)
        library.texts.clear()
        SparseArm(store, library)
        assert library.texts == []


def test_a_pickled_retriever_has_its_sparse_arm_and_encodes_nothing_again(tmp_path):
    with opened(tmp_path) as store:
        store.add(chunks())
        arm = SparseArm(store, SimSparseFunction(EXPANSIONS), model="words/1", name="splade", weight=0.7)
        with DualRetriever(store, arms=[arm]) as umi:
            again = pickle.loads(pickle.dumps(umi))  # noqa: S301 our own bytes
            result = again.search("pet")
            assert result.ids == umi.search("pet").ids
        assert "splade" in {signal.arm for signal in result[0].signals}
        again.store.close()


def test_a_reader_encodes_nothing_writes_nothing_and_follows_the_writer(tmp_path):
    encode = SimSparseFunction(EXPANSIONS)
    with opened(tmp_path / "store") as writer:
        writer.add(chunks())
        SparseArm(writer, SimSparseFunction(EXPANSIONS), model="words/1")
        weights = (tmp_path / "store" / "sparse.db").read_bytes()
        with opened(tmp_path / "store", read_only=True) as reader:
            arm = SparseArm(reader, encode, model="words/1")
            assert ids(arm, "pet") == ["cat"] and encode.texts == ["pet"]
            writer.add([Chunk("dog", "Rex is a dog")])
            assert ids(arm, "pet") == ["cat", "dog"] and encode.texts == ["pet", "Rex is a dog", "pet"]
    assert (tmp_path / "store" / "sparse.db").read_bytes() == weights
    with opened(tmp_path / "bare") as writer:
        writer.add(chunks())
    with opened(tmp_path / "bare", read_only=True) as reader:
        assert ids(SparseArm(reader, encode, model="words/1"), "pet") == ["cat"]
        assert not (tmp_path / "bare" / "sparse.db").exists()
        SparseArm(reader, encode, model="words/1", directory=tmp_path)
        assert (tmp_path / "sparse.db").exists()


def test_compacting_a_store_forgets_the_words_of_deleted_chunks_and_encodes_no_other_text_again(tmp_path, caplog):
    weights, words = tmp_path / "sparse.db", (b"luna", b"accounting")
    with opened(tmp_path) as store:
        store.add(chunks())
        for model in ("words/1", "words/2"):
            SparseArm(store, SimSparseFunction(), model=model)
        assert all(word in weights.read_bytes() for word in words)
        store.delete(["cat"])
        store.compact()
        assert [word in weights.read_bytes() for word in words] == [False, True]
        for model in ("words/1", "words/2"):
            encode = SimSparseFunction()
            assert ids(SparseArm(store, encode, model=model), "accounting") == ["job"]
            assert encode.texts == ["accounting"]
        store.delete(["job"])
        with closing(sqlite3.connect(weights)) as elsewhere:
            elsewhere.execute("BEGIN EXCLUSIVE")
            store.compact()
    assert "sparse.db still holds values of removed texts" in caplog.text


def test_damaged_weights_are_encoded_again(tmp_path, caplog):
    with opened(tmp_path) as store:
        store.add(chunks())
        SparseArm(store, SimSparseFunction(), model="words/1")
        (tmp_path / "sparse.db").write_bytes(b"no database" * 500)
        for expected in (3, 0):
            encode = SimSparseFunction()
            assert ids(SparseArm(store, encode, model="words/1"), "cat") == ["cat"]
            assert len(encode.texts) == expected + 1
        assert "sparse.db is damaged" in caplog.text


@pytest.mark.parametrize("error", [EmbedderError, KeyboardInterrupt])
def test_an_encoding_that_was_cut_short_goes_on_where_it_ended(tmp_path, error):
    encode = SimSparseFunction()

    def cut_short(texts):
        if any("text 33" in text for text in texts):
            raise error("cut short")
        return encode(texts)

    config = UmiConfig(embedder={"batch_texts": 10, "document_calls": 1})
    with opened(tmp_path, config=config) as store:
        store.add([Chunk(f"c{n:02}", f"text {n}") for n in range(50)])
        with pytest.raises(error):
            SparseArm(store, cut_short, model="words/1")
        assert len(encode.texts) == 30
        SparseArm(store, encode, model="words/1")
        assert len(encode.texts) == 50 == len(set(encode.texts))


def test_an_encoder_that_fails_costs_the_arm_and_the_next_search_tries_again(store):
    encode = SimSparseFunction(EXPANSIONS)
    umi = DualRetriever(store, arms=[SparseArm(store, encode)])
    encode.fail_on = "pet"
    result = umi.search("Luna, my pet")
    assert result.ids[0] == "cat"
    assert [(loss.part, loss.consequence) for loss in result.degraded] == [("sparse", "searched without it")]
    encode.fail_on = "Rex"
    store.add([Chunk("dog", "Rex is a dog")])
    assert umi.search("dog").degraded and umi.search("dog").ids[0] == "dog"
    encode.fail_on = None
    assert not umi.search("dog").degraded
    with pytest.raises(EmbedderError, match="down"):
        encode.fail_on = "cat"
        SparseArm(store, encode)


def test_an_encoder_that_fails_on_a_text_is_named_and_the_chunks_count_as_stored(store):
    def encode(texts):
        raise RuntimeError("out of memory")

    with pytest.raises(EmbedderError, match=r"^sparse encoder .* 'cat' to .*are stored, but not searched") as told:
        SparseArm(store, encode)
    assert "nothing was stored" not in str(told.value)


@pytest.mark.parametrize(
    "returned, said",
    [
        ([], "0 results for 3 texts"),
        ([{"cat": float("nan")}] * 3, "NaN"),
        ([{"cat": 1e300}] * 3, "above 3e38"),
        (None, "returned NoneType for 3 texts; expected one {term: weight} for each"),
        (3.0, "returned float for 3 texts"),
        ([Tensor()] * 3, "returned Tensor for a text; expected {term: weight}"),
        ([{"cat": "heavy"}] * 3, "expected {term: weight}"),
        ([[0.1, 0.2]] * 3, "expected {term: weight}"),
    ],
)
def test_an_encoder_that_returns_something_else_is_told_so(store, returned, said):
    with pytest.raises(EmbedderError, match=said):
        SparseArm(store, lambda texts: returned)


def test_a_wrong_encoder_store_name_or_weight_is_refused_before_anything_is_encoded(store):
    encode = SimSparseFunction()
    for wrong in ("splade", SimSparseFunction, None):
        with pytest.raises(ConfigError, match="sparse encoder is"):
            SparseArm(store, wrong)
    with pytest.raises(ConfigError, match="QdrantStore"):
        SparseArm(QdrantStore(QdrantClient(":memory:"), "texts", HashEmbedder(16)), encode)
    for options in ({"name": "dense"}, {"weight": -1.0}):
        with pytest.raises(ConfigError):
            SparseArm(store, encode, **options)
    assert encode.texts == []


def test_a_search_does_not_wait_long_for_a_large_write_that_another_thread_encodes(store):
    encode, entered, go_on = SimSparseFunction(), threading.Event(), threading.Event()

    def slow(texts):
        if "a long text" in texts:
            entered.set()
            go_on.wait(60)
        return encode(texts)

    arm = SparseArm(store, slow)
    umi = DualRetriever(store, arms=[arm])
    store.add([Chunk("long", "a long text")])
    thread = threading.Thread(target=arm.update)
    thread.start()
    assert entered.wait(60)
    (loss,) = umi.search("long").degraded
    assert loss.reason == "failed with IndexUnavailable"
    go_on.set()
    thread.join()
    assert not umi.search("long").degraded and ids(arm, "long") == ["long"]


def test_a_progress_bar_counts_the_chunks(store, capsys):
    SparseArm(store, SimSparseFunction(), show_progress=True)
    assert "3/3" in capsys.readouterr().err


def test_a_chroma_collection_is_followed_also_when_it_is_deleted_and_made_again(tmp_path):
    encode = SimSparseFunction(EXPANSIONS)
    collection = Chroma(embedding_function=HashEmbeddings(), persist_directory=str(tmp_path / "chroma"))
    collection.add_texts(list(TEXTS.values()), ids=list(TEXTS))
    with ChromaStore(collection, HashEmbedder(16), sync_seconds=1_000) as store:
        arm = SparseArm(store, encode, model="words/1", directory=tmp_path)
        assert ids(arm, "pet") == ["cat"]
        store.add([Chunk("dog", "Rex is a dog", metadata={"user": "ann"})])
        store.delete(["job"])
        assert ids(arm, "pet accounting") == ["cat", "dog"]
        assert ids(arm, "pet accounting", where={"user": "ann"}) == ["dog"]
        store.add([Chunk("cat", "Luna ran away")])
        assert ids(arm, "pet") == ["dog"]
        encode.texts.clear()
        assert ids(SparseArm(store, encode, model="words/1", directory=tmp_path), "pet") == ["dog"]
        assert encode.texts == ["pet"]
        collection.reset_collection()
        collection.add_texts(["a dog", "a pet", "Luna"], ids=["one", "two", "three"])
        for _ in range(2):
            assert ids(arm, "Luna") == ["three"] and ids(arm, "pet") == ["two", "one"]
