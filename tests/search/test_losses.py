"""What a search goes without is logged once, on the logger `umi`, and reaches everything made of the result."""

from __future__ import annotations

import logging
import operator
import threading
from datetime import datetime, timezone

import numpy as np
import pytest

from umi_common import AssemblyPolicy, Chunk, DualRetriever, HybridStore
from umi_common.embedders import WordLlamaEmbedder
from umi_common.search.extra_arms import Arm

CHUNKS = [Chunk(str(place), text, source="s", position=place) for place, text in enumerate(
    ["Ann signed the contract.", "Acme wants the delivery in June.", "Bob moved to Lisbon."]
)]  # fmt: skip
QUERY = "what does Acme want, my secret 4711?"


class Embedding(WordLlamaEmbedder):
    """umi's model under a name of its own, whose queries fail or come in another dimension."""

    name = "mine"
    answer: Exception | int

    def embed_queries(self, texts):
        if isinstance(self.answer, Exception):
            raise self.answer
        return np.ones((len(texts), self.answer), dtype=np.float32)


def umi_with(answer, **parts):
    embedder = Embedding()
    embedder.answer = answer
    store = HybridStore.open(embedder=embedder)
    store.add(CHUNKS)
    return DualRetriever(store, **parts)


def umi_by_words(**parts):
    store = HybridStore.open()
    store.add(CHUNKS)
    return DualRetriever(store, **parts)


def failing(name):
    """A function of any arguments that fails with an exception class of this name, whose message tells secrets."""

    def fail(*_):
        raise type(name, (Exception,), {})(f"key sk-12345 is wrong for {QUERY}")

    return fail


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: umi_with(type("ApiKeyExpired", (Exception,), {})("sk-12345")),
            ["embedder", "ApiKeyExpired", "with the lexical arm alone", "key"],
        ),
        (lambda: umi_with(77), ["embedder", "77", "256", "with the lexical arm alone", "dimension"]),
        (
            lambda: umi_by_words(
                rewriter=failing("LlmDown")
            ).with_config(routing={"mode": "always"}, rewrite={"retries": 0}),
            ["rewriter", "LlmDown", "original query alone", "LLM"],
        ),
        (lambda: umi_by_words(reranker=failing("RerankerDown")), ["reranker", "RerankerDown", "kept the order"]),
    ],
    ids=["an expired API key", "an embedder of another dimension", "an LLM that fails", "a reranker that fails"],
)  # fmt: skip
def test_a_thousand_searches_log_a_failing_part_once(make, said, caplog):
    umi = make()
    with caplog.at_level(logging.WARNING, logger="umi"):
        for _ in range(1_000):
            result = umi.search(QUERY)
    assert result.hits and result.degraded
    (record,) = [record for record in caplog.records if record.name == "umi"]
    assert record.levelno == logging.WARNING
    for word in said:
        assert word in record.getMessage()
    for secret in ("sk-12345", "4711", "Acme"):
        assert secret not in record.getMessage()


def test_a_threshold_that_was_compared_without_vectors_is_said():
    umi = umi_with(ConnectionError())
    assert [loss.part for loss in umi.search("Acme").degraded] == ["embedder"]
    embedder, relevance = umi.search("Acme", min_relevance=0.1).degraded
    assert embedder.part == "embedder" and relevance.part == "relevance"
    assert relevance.consequence.startswith("min_relevance was compared with a relevance from BM25 alone")
    assert umi_by_words().search("Acme", min_relevance=0.1, strategy="text").degraded == ()


def broken(*_, **__):
    """A function with a mistake in it."""
    return {QUERY: 0}[f"{QUERY}, misspelt"]


def broken_later(*_):
    """Another one."""
    return QUERY.no_such_method()


def broken_from_the_second_call():
    calls = iter([np.array([], dtype=np.int64)])
    return lambda *_: next(calls) if operator.length_hint(calls) else broken()


@pytest.mark.parametrize("break_store", [
    lambda patch: patch.setattr("umi_common.stores.lexical.index.LexicalIndex.search", broken),
    lambda patch: patch.setattr("umi_common.stores.references.References.links_of", broken),
], ids=["lexical", "references"])  # fmt: skip
def test_a_bug_in_a_part_is_logged_once_with_the_place_where_it_was_raised(break_store, monkeypatch, caplog):
    umi = umi_by_words()
    break_store(monkeypatch)
    for _ in range(20):
        assert umi.search(QUERY).degraded
    bug, loss = (record.getMessage() for record in caplog.records)
    assert "failed with KeyError, which may be a bug" in bug and loss.startswith("search without")
    assert "test_losses.py" in bug and "in broken" in bug and "umi_common/stores/text_search.py" in bug
    assert "4711" not in caplog.text


@pytest.mark.parametrize("make", [
    lambda function: umi_by_words(rewriter=function).with_config(routing={"mode": "always"}, rewrite={"retries": 0}),
    lambda function: umi_by_words(reranker=function),
    lambda function: umi_by_words(arms=[Arm("mine", function)]),
], ids=["rewriter", "reranker", "arm"])  # fmt: skip
def test_a_mistake_in_a_given_function_is_logged_with_its_place_and_so_is_the_next_one(make, caplog):
    for function in (broken, broken, broken_later):
        assert make(function).search(QUERY).degraded
    bugs = [record.getMessage() for record in caplog.records if "may be a bug" in record.getMessage()]
    assert [bug.rpartition(" in ")[2] for bug in bugs] == ["broken", "broken_later"]
    assert "4711" not in caplog.text and "QUERY" not in caplog.text


def test_a_store_that_fails_to_score_what_an_arm_found_is_told(monkeypatch, caplog):
    umi = umi_by_words(arms=[Arm("mine", lambda *_: [(Chunk("x", "Acme pays late."), 1.0)])])
    monkeypatch.setattr("umi_common.stores.text_search.TextSearch.known", broken_from_the_second_call())
    result = umi.search(QUERY)
    assert "x" in result.ids and [(loss.part, loss.reason) for loss in result.degraded] == [("arms", "KeyError")]
    assert "arms failed with KeyError, which may be a bug" in caplog.text and "4711" not in caplog.text
    assert "Call the store's verify()" in caplog.text


def test_eight_threads_log_a_failing_part_once(caplog):
    umi = umi_by_words(reranker=failing("RerankerDownInThreads"))
    with caplog.at_level(logging.WARNING, logger="umi"):
        threads = [threading.Thread(target=umi.search, args=(QUERY,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len([record for record in caplog.records if "RerankerDownInThreads" in record.getMessage()]) == 1


def test_a_search_with_nothing_lost_logs_nothing(caplog):
    umi_by_words().search(QUERY)
    assert not [record for record in caplog.records if record.name == "umi"]


def test_a_context_says_what_its_search_went_without():
    umi = umi_with(78)
    assert [loss.part for loss in umi.get_context(QUERY).degraded] == ["embedder"]
    assert umi_by_words().get_context(QUERY).degraded == ()


class StoreWithoutNeighbours:
    """A store whose neighbours cannot be read."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def neighbours(self, ids, **_):
        raise OSError("disk")


def test_a_context_says_that_it_is_packed_without_neighbours():
    store = HybridStore.open()
    store.add(CHUNKS)
    umi = DualRetriever(StoreWithoutNeighbours(store))
    context = umi.get_context(QUERY, policy=AssemblyPolicy(neighbours=1))
    assert context.parts
    assert [(loss.part, loss.reason) for loss in context.degraded] == [("neighbours", "OSError")]


def test_a_damaged_file_is_told_by_the_same_logger(tmp_path, caplog):
    HybridStore.open(tmp_path).close()
    (tmp_path / "searches.json").write_text("{")
    HybridStore.open(tmp_path).close()
    assert {record.name for record in caplog.records} == {"umi"} and "searches.json" in caplog.text


def test_a_filter_whose_key_no_chunk_has_is_said_once_without_its_value(caplog):
    store = HybridStore.open()
    store.add([Chunk("a", "Ann signed the contract.", metadata={"user": "ann"})])
    umi = DualRetriever(store)
    for where in ({"usr": "secret"}, {"user": "ann", "usr": {"$gt": "secret"}}, {"user": "bob"}):
        assert umi.search(QUERY, where=where).ids == []
    assert umi.search(QUERY, where={"usr": {"$ne": "bob"}}).ids == ["a"]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("a filter passes no chunk, and no chunk of the store has its key 'usr'")
    assert "secret" not in message


@pytest.mark.parametrize("where", [{"user": "ann"}, {"user": {"$in": ["bob", "ANN"]}}])
def test_a_filter_whose_value_is_stored_in_other_capitals_is_said_once_without_its_value(caplog, where):
    store = HybridStore.open()
    store.add([Chunk("a", "Ann signed the contract.", metadata={"user": "Ann", "year": 2024})])
    umi = DualRetriever(store)
    assert umi.search(QUERY, where={"user": "anna"}).ids == [] and not caplog.records
    assert umi.search(QUERY, where=where).ids == umi.search(QUERY, where=where).ids == []
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("a filter passes no chunk: the store holds its value of the key 'user' in other capitals")
    assert "ann" not in message.lower()


def test_the_trace_says_that_the_filter_passes_no_chunk_or_that_only_the_time_range_does(caplog):
    store = HybridStore.open()
    moment = datetime(2024, 5, 1, tzinfo=timezone.utc)
    store.add([Chunk("a", "Ann signed the contract.", metadata={"user": "ann"}, event_time=moment)])
    umi, later = DualRetriever(store), (datetime(2030, 1, 1, tzinfo=timezone.utc), None)
    assert umi.search(QUERY, where={"user": "bob"}).trace["recall"].facts["passing_filter"] == 0
    late = umi.search(QUERY, where={"user": "ann"}, time_range=later)
    assert late.trace["recall"].facts["passing_filter"] == 1 and late.ids == []
    assert "passing_filter" not in umi.search(QUERY, where={"user": "ann"}).trace["recall"].facts


def test_a_filter_that_looks_for_an_item_where_texts_are_stored_is_said_once(caplog):
    store = HybridStore.open()
    store.add([Chunk("a", "Ann signed the contract.", metadata={"user": "Ann Hale"})])
    assert DualRetriever(store).search(QUERY, where={"user": {"$contains": "Ann"}}).ids == []
    (message,) = [record.getMessage() for record in caplog.records]
    assert "with lists or nested values, and the store holds text under it; $text_match looks into a text" in message


@pytest.mark.parametrize("where", [{"draft": None}, {"$or": [{"draft": True}, {"user": "ann"}]}])
def test_a_filter_that_passes_chunks_is_not_blamed_for_a_time_range_that_passes_none(caplog, where):
    store = HybridStore.open()
    store.add(
        [
            Chunk(
                "a",
                "Ann signed the contract.",
                metadata={"user": "ann"},
                event_time=datetime(2024, 5, 1, tzinfo=timezone.utc),
            )
        ]
    )
    umi = DualRetriever(store)
    assert umi.search(QUERY, where=where).ids == ["a"]
    assert umi.search(QUERY, where=where, time_range=(datetime(2030, 1, 1, tzinfo=timezone.utc), None)).ids == []
    assert not caplog.records


def test_a_filter_is_not_blamed_for_a_kind_of_value_that_one_chunk_of_many_has(caplog):
    store = HybridStore.open()
    numbers = [Chunk(f"c{n}", "Ann signed the contract.", metadata={"number": n, "user": "ann"}) for n in range(1_200)]
    store.add([*numbers, Chunk("last", "Bob signed.", metadata={"number": "A-17", "user": "bob"})])
    assert DualRetriever(store).search(QUERY, where={"number": "A-17", "user": "ann"}).ids == []
    assert not caplog.records


@pytest.mark.parametrize(
    ("where", "asked", "held"),
    [
        ({"year": "2021"}, "text", "a number"),
        ({"year": {"$gte": "2020"}}, "text", "a number"),
        ({"user": "ann", "code": {"$in": [17, 18]}}, "a number", "text"),
        ({"signed": "true"}, "text", "true or false"),
        ({"signed": 1}, "a number", "true or false"),
        ({"tags": "red"}, "text", "lists or nested values"),
        ({"tags": {"$in": ["red", "blue"]}}, "text", "lists or nested values"),
    ],
)
def test_a_filter_that_compares_a_value_of_another_kind_is_said_once_without_its_value(caplog, where, asked, held):
    metadata = {"user": "ann", "year": 2021, "code": "17", "signed": True, "tags": ("red", "green")}
    store = HybridStore.open()
    store.add([Chunk("a", "Ann signed the contract.", metadata=metadata)])
    umi = DualRetriever(store)
    lists = ({"tags": {"$eq": ["red"]}}, {"tags": {"$contains": "blue"}})
    for other in ({"year": 2020}, {"code": "18"}, {"signed": False}, {"year": {"$ne": "2021"}}, *lists):
        umi.search(QUERY, where=other)  # of the kind that the store holds
    assert not caplog.records
    assert umi.search(QUERY, where=where).ids == umi.search(QUERY, where=where).ids == []
    (message,) = [record.getMessage() for record in caplog.records]
    assert f"with {asked}, and the store holds {held} under it" in message and "202" not in message
    advice = {"true or false": "give True or False, in LlamaIndex by a dict", "lists or nested values": "$contains"}
    assert advice.get(held, "") in message


@pytest.mark.parametrize(
    "where",
    [
        {"$or": [{"year": {"$in": [None, ""]}}, {"year": {"$eq": []}}]},  # LlamaIndex's `is_empty`
        {"$or": [{"year": 2019}, {"year": "2019"}]},
    ],
)
def test_a_filter_that_also_asks_for_the_stored_kind_or_for_empty_values_is_not_told_to_compare_wrongly(caplog, where):
    store = HybridStore.open()
    store.add([Chunk("a", "Ann signed the contract.", metadata={"year": 2021})])
    assert DualRetriever(store).search(QUERY, where=where).ids == []
    assert not caplog.records


def test_a_time_range_where_no_chunk_has_a_time_is_said_once_with_what_to_do(caplog, monkeypatch):
    store = HybridStore.open()
    store.add([Chunk("a", "Ann signed the contract.", metadata={"date": "2024-05-01"})])
    umi = DualRetriever(store)
    may = (datetime(2024, 5, 1, tzinfo=timezone.utc), None)
    assert umi.search("What did Ann sign in May 2024?").ids == ["a"] and not caplog.records  # only a caller filters
    assert umi.search(QUERY, time_range=may).ids == umi.search(QUERY, time_range=may).ids == []
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("a time range passes no chunk, because no chunk of the store has a time")
    store.add([Chunk("b", "Ann signed the lease.", event_time=datetime(2023, 5, 1, tzinfo=timezone.utc))])
    monkeypatch.setattr("umi_common.runtime.losses._logged", {})
    assert umi.search(QUERY, time_range=may).ids == [] and len(caplog.records) == 1
