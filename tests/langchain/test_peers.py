"""What LangChain's own parts do badly, row by row of the peers' table; here it is done well."""

from __future__ import annotations

import inspect
import json
import threading
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever, MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import ConfigurableField, RunnableLambda

from umi_common.errors import EmptyQuery
from umi_common.ranking.mmr import mmr
from umi_langchain import UmiCompressor, UmiRetriever, UmiVectorStore, create_umi_tool

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
ALONE = {"neighbours": {"enabled": False}}
"""Scores of one chunk owe nothing to the chunks beside it."""


def ids(documents) -> list[str]:
    return [document.id for document in documents]


def made(*texts: str, metadatas=None, **options) -> UmiRetriever:
    return UmiRetriever.from_texts(texts, metadatas, ids=[f"d{n}" for n in range(len(texts))], **{**ALONE, **options})


# BM25Retriever


def test_bm25_words_match_whatever_their_case_punctuation_and_ending():
    retriever = made("The RUNNERS ran, quickly.", "Cats sleep.", "Dogs bark.")
    assert ids(retriever.invoke("runner", strategy="text")) == ["d0"]


def test_bm25_chunks_without_a_word_of_the_query_are_no_hits():
    assert made("apples", "pears", "plums").invoke("zebra", strategy="text") == []


def test_bm25_two_documents_are_a_corpus():
    found = made("apples are red", "pears are green").invoke("pears", strategy="text")
    assert ids(found) == ["d1"] and found[0].metadata["relevance_score"] > 0


def test_bm25_ties_fall_to_the_smaller_id_whatever_the_order_of_writing():
    texts = {"a": "same words", "b": "same words", "c": "same words"}
    for order in ("abc", "cba"):
        options = {**ALONE, "duplicates": {"enabled": False}}
        retriever = UmiRetriever.from_texts([texts[id] for id in order], ids=list(order), **options)
        assert ids(retriever.invoke("same words", strategy="text")) == ["a", "b", "c"]


def test_bm25_is_kept_filtered_added_to_and_deleted_from(tmp_path):
    store = UmiVectorStore(persist_directory=str(tmp_path / "umi"))
    store.add_texts(["red apples", "green apples"], [{"c": 1}, {"c": 2}], ids=["r", "g"])
    store.close()
    store = UmiVectorStore(persist_directory=str(tmp_path / "umi"))
    store.add_texts(["yellow apples"], ids=["y"])
    store.delete(["r"])
    found = store.similarity_search("apples", strategy="text")
    assert sorted(ids(found)) == ["g", "y"]
    assert ids(store.similarity_search("apples", k=1, filter={"c": 2}, strategy="text")) == ["g"]
    store.close()


# EnsembleRetriever


def test_ensemble_documents_of_one_text_stay_two_by_their_ids():
    retriever = made("same text", "same text", duplicates={"enabled": False})
    assert sorted(ids(retriever.invoke("same text"))) == ["d0", "d1"]


class Broken(Embeddings):
    """Embeds documents, and fails on queries."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return DeterministicFakeEmbedding(size=8).embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        raise RuntimeError("the service is down")


async def test_ensemble_one_arm_that_fails_does_not_take_the_answer_down():
    retriever = made("apples are red", "pears are green", embedding=Broken())
    assert ids(retriever.invoke("pears")) == ["d1"]
    assert ids(await retriever.ainvoke("pears")) == ["d1"]
    assert retriever.search("pears").degraded[0].part in ("dense", "embedder")


def test_ensemble_calls_options_count_and_unknown_ones_are_refused():
    retriever = made("red apple", "green apple", "yellow apple", metadatas=[{"n": n} for n in range(3)])
    assert len(retriever.invoke("apple", k=2)) == 2
    assert ids(retriever.invoke("apple", filter={"n": 2})) == ["d2"]
    with pytest.raises(TypeError, match="kk"):
        retriever.invoke("apple", kk=2)


def test_ensemble_documents_carry_scores_and_runs_carry_tracing_parameters():
    retriever = made("red apple", "green pear")
    scores = [document.metadata["relevance_score"] for document in retriever.invoke("apple")]
    assert scores == sorted(scores, reverse=True)
    assert retriever._get_ls_params()["ls_retriever_name"] == "umi"


def test_ensemble_returns_the_hits_of_all_its_retrievers_where_umi_returns_k():
    texts = [f"apple {number}" for number in range(6)]
    halves = [RunnableLambda(lambda query, at=at: [Document(text) for text in texts[at : at + 3]]) for at in (0, 3)]
    assert len(EnsembleRetriever(retrievers=halves).invoke("apple")) == 6
    assert len(made(*texts, k=3).invoke("apple")) == 3


def test_ensemble_searches_for_a_blank_query_where_umi_raises():
    always = RunnableLambda(lambda query: [Document("red apple")])
    assert len(EnsembleRetriever(retrievers=[always]).invoke(" ")) == 1
    with pytest.raises(EmptyQuery, match="query is empty"):
        made("red apple").invoke(" ")


# Chains


def test_history_aware_the_messages_are_searched_without_an_llm():
    retriever = made("Refunds are paid to the card.", "Refunds above 500 need a lead.", "The garden above the wall.")
    found = RunnableLambda(lambda asked: retriever.invoke(asked["input"], history=asked["chat_history"]))
    chain = create_retrieval_chain(found, RunnableLambda(lambda given: given["context"][0].page_content))
    talk = [("human", "How are refunds paid?"), ("ai", "To the card.")]
    answered = chain.invoke({"input": "and above that?", "chat_history": talk})
    assert ids(retriever.invoke("and above that?"))[0] == "d2"  # the garden
    assert answered["answer"].startswith("Refunds")


def test_compression_options_of_a_call_reach_the_retriever_where_configurable_fields_do_not():
    retriever = made("red apple", "green apple", metadatas=[{"user": "ann"}, {"user": "bob"}])
    field = retriever.configurable_fields(filter=ConfigurableField(id="filter"))
    compressing = ContextualCompressionRetriever(base_retriever=field, base_compressor=UmiCompressor(budget=100))
    assert ids(compressing.invoke("apple", filter={"user": "bob"})) == ["d1"]
    configured = {"configurable": {"filter": {"user": "bob"}}}
    assert ids(field.invoke("apple", configured)) == ["d1"]
    assert sorted(ids(compressing.invoke("apple", configured))) == ["d0", "d1"]  # LangChain passes on callbacks alone


# MultiQueryRetriever


def test_multi_query_an_llm_is_asked_only_when_the_gate_says_so():
    asked = []
    llm = RunnableLambda(lambda prompt: asked.append(prompt) or '["other words"]')
    retriever = made("red apple", "green pear", llm=llm, routing={"mode": "never"})
    retriever.invoke("apple")
    assert asked == []
    always = UmiRetriever.from_store(retriever.umi.store, llm=llm, routing={"mode": "always"})
    always.invoke("apple", deep_search=False)
    assert asked == []
    always.invoke("apple")
    assert len(asked) == 1


def test_multi_query_the_original_is_always_searched():
    retriever = made("red apple", "green pear", llm=lambda prompt: '["green pear"]', routing={"mode": "always"})
    variations = {signal.variation for hit in retriever.search("red apple") for signal in hit.signals}
    assert 0 in variations and 1 in variations


@pytest.mark.parametrize(
    "reply",
    [
        'Here are three variations:\n```json\n["one pear", "two pears"]\n```',
        "<think>hmm</think>\n1. one pear\n2. two pears",
        '["one pear", "two pears", "one pear"]',
    ],
)
def test_multi_query_preambles_numbers_and_fences_are_no_queries(reply):
    retriever = made("red apple", llm=FakeListChatModel(responses=[reply]), routing={"mode": "always"})
    assert retriever.search("apple").query_variations == ("one pear", "two pears")


def test_multi_query_ten_thousand_lines_are_three_queries():
    reply = json.dumps([f"query {n}" for n in range(10_000)])
    retriever = made("red apple", llm=lambda prompt: reply, routing={"mode": "always"})
    assert len(retriever.search("apple").query_variations) <= 3


async def test_multi_query_an_llm_that_fails_leaves_the_plain_search():
    def llm(prompt):
        raise RuntimeError("no quota")

    retriever = made("red apple", llm=llm, routing={"mode": "always"})
    assert ids(retriever.invoke("apple")) == ids(await retriever.ainvoke("apple")) == ["d0"]
    assert [loss.part for loss in retriever.search("apple").degraded] == ["rewriter"]


@pytest.mark.parametrize("options", [{}, {"whole": "source"}], ids=["chunks", "sections"])
async def test_multi_query_over_umi_without_scores_returns_each_document_once(options):
    texts = ["red apple", "green apple"]
    retriever = made(*texts, metadatas=[{"source": text} for text in texts], score_key=None, **options)
    llm = FakeListChatModel(responses=["green fruit\nred fruit"])
    several = MultiQueryRetriever.from_llm(retriever=retriever, llm=llm)
    for found in (several.invoke("apple"), await several.ainvoke("apple")):
        assert sorted(document.page_content for document in found) == ["green apple", "red apple"]


def test_multi_query_over_the_vector_store_returns_each_document_once():
    store = UmiVectorStore()
    store.add_documents([Document(id=name, page_content=f"{name} apple") for name in ("red", "green")])
    llm = FakeListChatModel(responses=["green fruit\nred fruit"])
    several = MultiQueryRetriever.from_llm(retriever=store.as_retriever(), llm=llm)
    assert sorted(ids(several.invoke("apple"))) == ["green", "red"]


def test_multi_query_a_slow_llm_is_not_waited_for():
    replied = threading.Event()
    llm = RunnableLambda(lambda prompt: replied.wait(60) and "[]")
    retriever = made("red apple", llm=llm, routing={"mode": "always"}, rewrite={"timeout_seconds": 0.1})
    begun = time.perf_counter()
    assert ids(retriever.invoke("apple")) == ["d0"]
    assert time.perf_counter() - begun < 30.0
    replied.set()


# Both: the standard retriever tests


async def test_both_k_is_exact_at_construction_and_per_call():
    retriever = made(*[f"apple number {n}" for n in range(12)], k=4)
    assert len(retriever.invoke("apple")) == len(await retriever.ainvoke("apple")) == 4
    assert len(retriever.invoke("apple", k=7)) == len(await retriever.ainvoke("apple", k=7)) == 7


def test_both_options_reach_the_search_because_the_signatures_take_them():
    for method in (UmiRetriever._get_relevant_documents, UmiRetriever._aget_relevant_documents):
        assert "options" in inspect.signature(method).parameters
    assert UmiRetriever._expects_other_args


# Chroma


def test_chroma_mmr_comes_in_the_order_of_choice_in_a_tenth_of_a_millisecond():
    draw = np.random.default_rng(3)
    vectors = draw.normal(size=(50, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = vectors @ vectors[0]
    times = []
    for _ in range(30):
        begun = time.perf_counter()
        chosen = mmr(relevance, vectors, limit=10)
        times.append(time.perf_counter() - begun)
    assert chosen[0] == 0 and len(set(chosen.tolist())) == 10
    assert min(times) < 0.5e-3  # the bar is 0.1 ms; this machine may be busy


def test_chroma_relevance_lies_between_0_and_1():
    store = UmiVectorStore.from_texts(["red apple", "tax law"], embedding=DeterministicFakeEmbedding(size=4))
    assert all(0 <= relevance <= 1 for _, relevance in store.similarity_search_with_relevance_scores("apple", k=2))


def test_chroma_a_filter_of_two_keys_means_both():
    metadatas = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert ids(made("red apple", "red pear", metadatas=metadatas).invoke("red", filter={"a": 1, "b": 2})) == ["d0"]


def test_chroma_get_keeps_the_order_of_the_ids_with_metadata_or_without():
    store = UmiVectorStore.from_texts(["one", "two", "three"], ids=["a", "b", "c"])
    assert ids(store.get_by_ids(["c", "a", "b"])) == ["c", "a", "b"]


def test_chroma_what_is_stored_is_listed_by_a_filter_and_replaced_by_id():
    with UmiVectorStore.from_texts(["one", "two"], metadatas=[{"n": 1}, {"n": 2}], ids=["a", "b"]) as store:
        store.add_documents([Document(page_content="zwei", metadata={"n": 2})], ids=["b"])
        assert store.store.ids() == ["a", "b"]
        assert [(chunk.id, chunk.text) for chunk in store.store.scan(where={"n": 2})] == [("b", "zwei")]


@pytest.mark.slow
def test_chroma_merges_the_metadata_of_a_second_writing_and_stores_equal_texts_again_where_umi_replaces(tmp_path):
    chroma_store = pytest.importorskip("langchain_chroma").Chroma
    embedding = DeterministicFakeEmbedding(size=8)
    chroma = chroma_store("written_twice", embedding_function=embedding, persist_directory=str(tmp_path))
    umi = UmiVectorStore(embedding)
    for store in (chroma, umi):
        store.add_documents([Document(id="a", page_content="A cat.", metadata={"x": 1, "y": 2})])
        store.add_documents([Document(id="a", page_content="A dog.", metadata={"x": 3})])
        for _ in range(2):
            store.add_texts(["A bird."])
    assert chroma.get_by_ids(["a"])[0].metadata == {"x": 3, "y": 2}
    assert umi.get_by_ids(["a"])[0].metadata == {"x": 3}
    assert (len(chroma.get()["ids"]), len(umi.store)) == (3, 2)
    scores = [[score for _, score in store.similarity_search_with_score("A dog.", k=2)] for store in (chroma, umi)]
    assert scores[0] == sorted(scores[0]) and scores[1] == sorted(scores[1], reverse=True)


def test_chroma_more_texts_than_one_batch_holds():
    store = UmiVectorStore()
    assert len(store.add_texts([f"text {n}" for n in range(6_000)])) == len(store.store) == 6_000


def test_chroma_a_datetime_is_metadata_like_any_other():
    (found,) = made("red apple", metadatas=[{"timestamp": MAY}]).invoke("apple", time_range=(MAY, None))
    assert found.metadata["timestamp"] == "2024-05-01T00:00:00+00:00"


# TimeWeightedVectorStoreRetriever


def test_time_weighted_reading_changes_nothing_and_the_clock_is_the_callers(tmp_path):
    metadatas = [{"timestamp": MAY - timedelta(days=days)} for days in (300, 1)]
    texts = ("apple pie", "apple tart")
    options = {"decay": {"half_life_hours": 24.0, "floor": 0.0}, "persist_directory": str(tmp_path / "umi")}
    retriever = made(*texts, metadatas=metadatas, **options)
    answers = [retriever.invoke("apple pie", now=MAY) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert ids(answers[0])[0] == "d1"
    assert ids(retriever.invoke("apple pie", now=MAY - timedelta(days=301)))[0] == "d0"  # nothing has an age yet
    retriever.close()
    again = made(*texts, metadatas=metadatas, **options)
    assert again.invoke("apple pie", now=MAY) == answers[0]
    again.close()


# EmbeddingsRedundantFilter


def test_redundant_filter_keeps_the_better_of_two_and_its_id():
    documents = [
        Document(id="better", page_content="the very same words", metadata={"relevance_score": 0.9}),
        Document(id="worse", page_content="the very same words", metadata={"relevance_score": 0.1}),
    ]
    assert ids(UmiCompressor(counter=lambda text: len(text.split())).compress_documents(documents, "words")) == [
        "better"
    ]


# SelfQueryRetriever


def test_self_query_the_model_overrides_neither_the_callers_filter_nor_k():
    metadatas = [{"user": "ann"}, {"user": "bob"}, {"user": "ann"}]
    retriever = made("red apple", "green apple", "blue apple", metadatas=metadatas, filter={"user": "ann"}, k=1)
    tool = create_umi_tool(retriever, k_max=2)
    request = {"name": tool.name, "args": {"query": "apple", "filter": {"user": "bob"}, "k": 2}, "id": "1"}
    assert tool.invoke({**request, "type": "tool_call"}).artifact == []
    model = FakeListChatModel(responses=['{"filter": {"user": "bob"}, "limit": 100, "query": "apple"}'])
    told = UmiRetriever.from_store(
        retriever.umi.store, llm=model, filter={"user": "ann"}, k=1, routing={"mode": "always"}
    )
    assert len(told.invoke("apple")) == 1 and told.invoke("apple")[0].metadata["user"] == "ann"


# Rows of the table in docs/langchain.md that no test above covers


def test_parity_weights_silence_an_arm():
    fusion = {"lexical_weight": 1.0, "dense_weight": 0.0, "adaptive": False}
    retriever = made("zebra crossing", "striped horse", "tax law", fusion=fusion)
    (first, *others) = retriever.search("zebra")
    assert first.chunk.id == "d0" and all(hit.score == 0 for hit in others)


def test_parity_analyzer_speaks_other_languages_and_drops_words():
    analyzer = {"language": "german", "stop_words": ["die"]}
    retriever = made("die Häuser am See", "die Katze", analyzer=analyzer)
    assert ids(retriever.invoke("Haus", strategy="text")) == ["d0"]
    assert retriever.invoke("die", strategy="text") == []


def test_parity_mmr_chooses_unlike_texts():
    texts = ("red apples are sweet", "red apples are so sweet", "red cars are fast")
    options = {"duplicates": {"enabled": False}, "k": 2}
    plain = made(*texts, **options)
    diverse = UmiRetriever.from_store(plain.umi.store, mmr={"enabled": True, "trade_off": 0.2}, **ALONE, **options)
    assert set(ids(plain.invoke("sweet red apples"))) == {"d0", "d1"}
    assert "d2" in ids(diverse.invoke("sweet red apples"))


def test_parity_prompt_is_the_callers():
    prompts = []
    llm = RunnableLambda(lambda prompt: prompts.append(prompt) or "[]")
    made("red apple", llm=llm, routing={"mode": "always"}, rewrite={"template": "Otherwise: {query}"}).invoke("apple")
    assert prompts == ["Otherwise: apple"]
