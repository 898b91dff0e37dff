"""One store, one question: the core, LangChain and LlamaIndex give the same ids in the same order."""

from __future__ import annotations

import random

import pytest

from umi_common.retriever import DualRetriever
from umi_common.stores.embedded.hybrid import HybridStore
from umi_langchain import UmiRetriever as LangChainRetriever
from umi_llamaindex import UmiRetriever as LlamaIndexRetriever

QUESTIONS = 100


@pytest.fixture(scope="module")
def store(chunks):
    with HybridStore.open() as opened:
        opened.add(chunks)
        yield opened


@pytest.fixture(scope="module")
def questions(chunks):
    """The second lines of docstrings, without the words that a definition begins with."""
    draw = random.Random(7)
    lines = [line.strip() for chunk in chunks for line in chunk.text.splitlines()[1:] if len(line.split()) > 3]
    return [f"how do I {' '.join(line.split()[1:12])}" for line in draw.sample(lines, QUESTIONS)]


async def test_a_hundred_questions_get_the_same_hits_everywhere(store, questions):
    core = DualRetriever(store)
    through_langchain = LangChainRetriever.from_store(store, k=10)
    through_llamaindex = LlamaIndexRetriever.from_store(store, similarity_top_k=10)
    for question in questions:
        expected = core.search(question, limit=10).ids
        assert expected
        assert [document.id for document in through_langchain.invoke(question)] == expected
        assert [document.id for document in await through_langchain.ainvoke(question)] == expected
        assert [found.node.node_id for found in through_llamaindex.retrieve(question)] == expected
        assert [found.node.node_id for found in await through_llamaindex.aretrieve(question)] == expected


def test_a_store_filled_through_one_framework_is_read_through_the_other(chunks, questions):
    from langchain_core.documents import Document

    documents = [Document(id=c.id, page_content=c.text, metadata={"source": c.source}) for c in chunks]
    filled = LangChainRetriever.from_documents(documents)
    read = LlamaIndexRetriever.from_store(filled.umi.store)
    for question in questions[:10]:
        nodes = [found.node for found in read.retrieve(question)]
        found = filled.invoke(question)
        assert [node.node_id for node in nodes] == [document.id for document in found]
        assert [node.get_content() for node in nodes] == [document.page_content for document in found]
    filled.close()
