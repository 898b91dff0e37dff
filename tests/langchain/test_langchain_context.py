"""The context as a runnable: a question goes in, what fits comes out, in a chain, sync and async."""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from umi_common import TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_langchain import UmiRetriever, create_umi_context

DOCUMENTS = [
    Document("Priya started in accounting at Acme.", id="t1", metadata={"user": "ann"}),
    Document("Acme moved to the old harbour.", id="t2", metadata={"user": "bob"}),
]


async def test_the_context_obeys_the_budget_and_the_filter_of_its_retriever():
    retriever = UmiRetriever.from_documents(DOCUMENTS, filter={"user": "ann"})
    context = create_umi_context(retriever, budget=TokenBudget(max_total=40), counter=counter_for())
    for text in (context.invoke("who works at Acme?"), await context.ainvoke("who works at Acme?")):
        assert "Priya" in text
        assert "harbour" not in text
        assert counter_for().count(text) <= 40


async def test_it_stands_in_a_chain_in_front_of_the_prompt():
    seen = []
    context = create_umi_context(UmiRetriever.from_documents(DOCUMENTS))
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    watch = lambda value: seen.append(value.to_string()) or value  # noqa: E731
    chain = {"context": context, "question": RunnablePassthrough()} | prompt | watch
    chain = chain | FakeListChatModel(responses=["Priya"]) | StrOutputParser()
    assert chain.invoke("who works at Acme?") == await chain.ainvoke("who works at Acme?") == "Priya"
    assert all("accounting at Acme" in text and "who works at Acme?" in text for text in seen)
