"""Documents of any retriever, packed into a budget."""

from __future__ import annotations

import copy
import time

import numpy as np
import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import BaseDocumentCompressor, Document
from pytest import approx

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.errors import ConfigError, InvalidChunk
from umi_langchain import UmiCompressor, UmiMMR, UmiRetriever


def words(text: str) -> int:
    return len(text.split())


def packed(documents, max_total=100, **policy):
    compressor = UmiCompressor(
        budget=TokenBudget(max_total=max_total), policy=AssemblyPolicy(citation="", **policy), counter=words
    )
    return compressor.compress_documents(documents, "query")


def test_documents_come_back_with_id_metadata_and_score():
    documents = [Document(id="a", page_content="one thing", metadata={"n": 1}), Document(page_content="another matter")]
    first, second = packed(documents)
    assert first == Document(id="a", page_content="one thing", metadata={"n": 1, "relevance_score": 1.0})
    assert (second.id, second.page_content) == (None, "another matter")


def test_documents_given_are_not_changed(documents):
    before = copy.deepcopy(documents[:10])
    packed(documents[:10])
    assert documents[:10] == before


def test_of_two_that_say_the_same_the_better_is_kept_with_its_id():
    documents = [
        Document(id="better", page_content="the same words", metadata={"relevance_score": 0.9}),
        Document(id="other", page_content="something else entirely", metadata={"relevance_score": 0.5}),
        Document(id="worse", page_content="the same words", metadata={"relevance_score": 0.2}),
    ]
    assert [document.id for document in packed(documents)] == ["better", "other"]


def test_without_scores_the_order_says_which_is_better():
    documents = [Document(id=id, page_content="the same words") for id in ("first", "second")]
    assert [document.id for document in packed(documents)] == ["first"]


def test_scores_of_numpy_as_rerankers_write_them_count():
    texts = [("one thing", 0.9), ("another matter", 0.2)]
    scored = [Document(page_content=text, metadata={"relevance_score": np.float32(score)}) for text, score in texts]
    assert [document.metadata["relevance_score"] for document in packed(scored)] == approx([0.9, 0.2])


class WithoutScores(BaseDocumentCompressor):
    """A reranker that writes no scores, as `CrossEncoderReranker` and `LLMListwiseRerank` do."""

    def compress_documents(self, documents, query, callbacks=None):
        return sorted(documents, key=lambda document: "mayor" not in document.page_content)


@pytest.mark.parametrize("choice", [UmiMMR(top_n=1), UmiCompressor(budget=9, counter=words)])
def test_what_a_reranker_puts_first_stays_although_it_writes_no_scores(choice):
    texts = ["Jarrowby is a small town in the north.", "Ruth Pike is the mayor of it."]
    stages = DocumentCompressorPipeline(transformers=[WithoutScores(), choice])
    with UmiRetriever.from_texts(texts) as retriever:
        assert [found.page_content for found in retriever.invoke("Jarrowby")] == texts
        chain = ContextualCompressionRetriever(base_retriever=retriever, base_compressor=stages)
        assert [found.page_content for found in chain.invoke("Jarrowby")] == texts[1:]


def test_what_long_context_reorder_puts_at_the_end_is_still_the_best():
    reordered = {"another matter": 0.7, "no answer": 0.3, "small talk": 0.5, "one thing": 0.9}
    documents = [Document(page_content=text, metadata={"relevance_score": score}) for text, score in reordered.items()]
    kept = {document.page_content for document in packed(documents, max_total=4)}
    assert kept == {"one thing", "another matter"}


def test_documents_of_two_stores_that_count_their_ids_alike_are_both_kept():
    documents = [
        Document(id="1", page_content="The kettle is red.", metadata={"source": "mails", "position": 1}),
        Document(id="1", page_content="The teapot costs nine euros.", metadata={"source": "orders", "position": 1}),
        Document(id="2", page_content="It is shipped on Monday.", metadata={"source": "orders", "position": 2}),
    ]
    found = UmiCompressor(500).compress_documents(documents, "kettle")
    assert [document.page_content for document in found] == [
        "The kettle is red.",
        "The teapot costs nine euros.\nIt is shipped on Monday.",
    ]
    assert [document.id for document in found] == ["1", "1"] and found[1].metadata["umi_ids"] == ["1", "2"]


def test_a_document_that_comes_twice_is_one():
    twice = Document(page_content="no id at all")
    assert len(packed([twice, twice])) == 1


def test_what_does_not_fit_is_left_out_and_one_part_always_comes():
    documents = [Document(id=str(n), page_content=f"document {n} " + "word " * 10) for n in range(20)]
    kept = packed(documents, max_total=40)
    assert 2 <= len(kept) <= 3
    assert len(packed([Document(id="long", page_content="word " * 1_000)], max_total=30)) == 1


def test_a_small_budget_of_texts_without_source_keeps_the_first():
    texts = [f"Short text number {i} says one thing in ten words" for i in range(5)]
    documents = [Document(page_content=text) for text in texts]
    compressor = UmiCompressor(budget=22, counter=words)
    assert [document.page_content for document in compressor.compress_documents(documents, "query")] == texts[:2]


def test_neighbours_of_one_source_are_joined_and_say_so():
    metadata = [{"source": "a", "position": n} for n in range(2)]
    documents = [Document(id=f"c{n}", page_content=f"sentence number {n}.", metadata=metadata[n]) for n in range(2)]
    (joined,) = packed(documents)
    assert joined.metadata["umi_ids"] == ["c0", "c1"] and joined.id == "c0"


def test_blank_documents_are_left_out_and_none_gives_none():
    assert [d.id for d in packed([Document(id="a", page_content=" "), Document(id="b", page_content="text")])] == ["b"]
    assert packed([]) == []


async def test_it_stands_behind_a_retriever(documents):
    retriever = UmiRetriever.from_documents(documents[:100], k=20)
    compressor = UmiCompressor(budget=TokenBudget(max_total=300), counter=words)
    question = "run a coroutine with a timeout"
    found = retriever.invoke(question)
    kept = compressor.compress_documents(found, question)
    assert 0 < sum(words(document.page_content) for document in kept) <= 300
    assert await compressor.acompress_documents(found, question) == kept
    retriever.close()


def test_unknown_settings_are_refused():
    with pytest.raises(ConfigError, match="max_tokens"):
        UmiCompressor(max_tokens=3)


def test_a_source_that_a_compressor_cannot_read_is_named_without_the_advice_for_a_store():
    with pytest.raises(InvalidChunk, match=r"document 0: metadata\['source'\]") as told:
        packed([Document(page_content="text", metadata={"source": object()})])
    assert "on_invalid" not in str(told.value)


def test_another_retrievers_documents_may_hold_any_object_in_their_metadata():
    graph, raw = object(), b"\xff"
    documents = [
        Document(page_content="one thing", metadata={"graph": graph, "source": "a"}),
        Document(page_content="another matter", metadata={"raw": raw, "ids": {1: 2}}),
    ]
    first, second = packed(documents)
    assert first.metadata["graph"] is graph
    assert second.metadata["raw"] is raw and second.metadata["ids"] == {1: 2}


def test_half_an_emoji_in_a_document_does_not_lose_the_others():
    documents = [Document(page_content="one thing \ud83d"), Document(page_content="another matter")]
    assert [document.page_content for document in packed(documents)] == ["one thing ?", "another matter"]


def test_chunks_whose_start_index_counts_within_their_section_are_not_joined_across_sections():
    places = [("Beta opens section b.", "B", 0), ("The red paint of a.", "A", 22), ("Alpha opens section a.", "A", 0)]
    documents = [
        Document(page_content=text, metadata={"source": "a.md", "H": name, "start_index": start})
        for text, name, start in places
    ]
    assert [document.page_content for document in packed(documents)] == [text for text, _, _ in places]


def test_a_pasted_log_as_the_query_takes_no_seconds(documents):
    question = "ERROR: connection refused by the queue\n" * 200_000 + "how is a heap kept in order?"
    begun = time.perf_counter()
    assert UmiCompressor(budget=200).compress_documents(documents[:20], question)
    assert time.perf_counter() - begun < 2
