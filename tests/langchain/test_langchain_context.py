"""The context as a runnable: a question goes in, what fits comes out, in a chain, sync and async."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_text_splitters import RecursiveCharacterTextSplitter

from umi_common import TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_common.errors import InputError
from umi_langchain import UmiCompressor, UmiRetriever, create_umi_context, create_umi_tool

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


async def test_one_question_may_have_its_own_filter_and_number_of_hits():
    """One chain serves many users: the filter is that of the user who asks."""
    context = create_umi_context(UmiRetriever.from_documents(DOCUMENTS))
    bob = context.bind(filter={"user": "bob"})
    for text in (bob.invoke("who works at Acme?"), await bob.ainvoke("who works at Acme?")):
        assert "harbour" in text and "Priya" not in text
    assert "harbour" not in context.invoke("who works at Acme?", k=1)
    with pytest.raises(TypeError, match="no option 'limit'; did you mean k"):
        context.invoke("who works at Acme?", limit=1)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"counter": 5}, "counter"),
        ({"counter": "no such model"}, "no such model"),
        ({"min_relevance": 1.5}, "min_relevance 1.5: expected a number from 0 to 1"),
        ({"budget": "500"}, "budget is str"),
        ({"k": 0}, "k 0: expected"),
    ],
)
def test_a_wrong_argument_is_refused_where_it_is_given_and_not_at_the_first_question(wrong, complaint):
    retriever = UmiRetriever.from_documents(DOCUMENTS)
    with pytest.raises(InputError, match=complaint):
        create_umi_context(retriever, **wrong)


async def test_it_stands_in_a_chain_in_front_of_the_prompt():
    seen = []
    context = create_umi_context(UmiRetriever.from_documents(DOCUMENTS))
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    watch = lambda value: seen.append(value.to_string()) or value  # noqa: E731
    chain = {"context": context, "question": RunnablePassthrough()} | prompt | watch
    chain = chain | FakeListChatModel(responses=["Priya"]) | StrOutputParser()
    assert chain.invoke("who works at Acme?") == await chain.ainvoke("who works at Acme?") == "Priya"
    assert all("accounting at Acme" in text and "who works at Acme?" in text for text in seen)


NOTES = "The committee met again. Lunch was served at noon. Nothing was decided, and the weather stayed fine. "
PAGES = [
    Document(f"{NOTES * 25}\n\nThe code of vault {n} is {code}.\n\n{NOTES * 25}", metadata={"source": f"{n}.pdf"})
    for n, code in enumerate(["alpha7", "bravo8", "carol9"])
]
"""Pages of about 1,000 tokens, as loaders return them and people forget to split them."""
QUESTION, ANSWER = "what is the code of vault 1?", "The code of vault 1 is bravo8."


@pytest.mark.parametrize("budget", [60, 200, 600])
async def test_the_answer_amid_a_long_page_is_in_every_context(budget):
    retriever = UmiRetriever.from_documents(PAGES)
    context, tool = create_umi_context(retriever, budget=budget), create_umi_tool(retriever, budget=budget)
    assert ANSWER in context.invoke(QUESTION) and ANSWER in await context.ainvoke(QUESTION)
    assert ANSWER in tool.invoke({"query": QUESTION}) and ANSWER in await tool.ainvoke({"query": QUESTION})
    assert ANSWER in retriever.umi.get_context(QUESTION, budget=TokenBudget(max_total=budget)).text
    kept = UmiCompressor(budget).compress_documents(retriever.invoke(QUESTION), QUESTION)
    assert any(ANSWER in document.page_content for document in kept)


@pytest.mark.parametrize("budget", [60, 200, 600])
def test_a_section_that_is_too_long_is_cut_around_what_was_found_in_it(budget):
    parts = RecursiveCharacterTextSplitter(chunk_size=300, chunk_overlap=0, add_start_index=True).split_documents(PAGES)
    retriever = UmiRetriever.from_documents(parts, whole="source")
    (best, *_) = retriever.invoke(QUESTION)
    assert len(best.page_content) > 4_000 and ANSWER in best.page_content
    assert ANSWER in create_umi_context(retriever, budget=budget).invoke(QUESTION)
    assert ANSWER in create_umi_tool(retriever, budget=budget).invoke({"query": QUESTION})


@pytest.mark.parametrize("whole", [None, "source"])
def test_a_follow_up_question_cuts_a_long_page_around_what_the_messages_before_it_name(whole):
    notes = NOTES * 25
    text = f"{notes}\n\nThe Viessmann was installed in 1999.\n\n{notes}\n\nThe Bosch was installed in 2004.\n\n{notes}"
    page = Document(text, metadata={"source": "house", "position": 0})
    context = create_umi_context(UmiRetriever.from_documents([page], whole=whole), budget=60)
    for name, year in (("Bosch", "2004"), ("Viessmann", "1999")):
        assert year in context.invoke("and when was it installed?", history=[("human", f"Tell me about the {name}.")])


def test_without_a_query_the_compressor_keeps_the_beginning():
    for query in ("", None):
        (kept,) = UmiCompressor(60).compress_documents(PAGES[:1], query)
        assert PAGES[0].page_content.startswith(kept.page_content)


def test_a_document_cut_by_the_compressor_says_where_it_begins():
    (page,) = [document for document in PAGES if ANSWER in document.page_content]
    placed = page.model_copy(update={"metadata": {"source": "1.pdf", "start_index": 500}})
    (kept,) = UmiCompressor(60).compress_documents([placed], QUESTION)
    start = kept.metadata["start_index"] - 500
    assert start > 0 and page.page_content[start:].startswith(kept.page_content)
