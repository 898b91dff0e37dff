"""`min_relevance` in LangChain: a question about foreign matter gives an empty list, one about the texts its text."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from umi_common.errors import ConfigError
from umi_langchain import UmiRetriever, UmiVectorStore, create_umi_context, create_umi_tool

ROOFS = [
    Document("The roof of the barn is covered with red tiles.", id="barn"),
    Document("A flat roof needs a slope of two percent so that rain runs off.", id="flat"),
    Document("Slate roofs last for more than a hundred years.", id="slate"),
]
FOREIGN = "quantum chromodynamics"
QUESTIONS = {
    "How long do slate roofs last?": "slate",
    "what slope does a flat roof need": "flat",
    "which tiles are on the barn": "barn",
}


@pytest.fixture(scope="module")
def strict():
    retriever = UmiRetriever.from_documents(ROOFS, min_relevance=0.1)
    yield retriever
    retriever.close()


@pytest.fixture(scope="module")
def store():
    made = UmiVectorStore()
    made.add_documents(ROOFS)
    yield made
    made.close()


def ids(documents) -> list[str]:
    return [document.id for document in documents]


async def test_foreign_matter_finds_nothing_and_a_question_about_roofs_its_text(strict):
    assert strict.invoke(FOREIGN) == await strict.ainvoke(FOREIGN) == []
    for question, right in QUESTIONS.items():
        assert strict.invoke(question)[0].id == right
        assert (await strict.ainvoke(question))[0].id == right
    foreign, *found = strict.batch([FOREIGN, *QUESTIONS])
    assert foreign == []
    assert [documents[0].id for documents in found] == list(QUESTIONS.values())


def test_a_call_goes_before_the_retriever_and_zero_leaves_nothing_out(strict):
    assert len(strict.invoke(FOREIGN, min_relevance=0)) == len(ROOFS)
    plain = UmiRetriever(umi=strict.umi)
    assert len(plain.invoke(FOREIGN)) == len(ROOFS)
    assert plain.invoke(FOREIGN, min_relevance=0.1) == []
    suppressed = plain.search(FOREIGN, min_relevance=0.1).suppressed
    assert {left_out.reason for left_out in suppressed} == {"relevance"}


def test_a_minimum_adds_nothing_to_the_metadata(strict):
    assert set(strict.invoke("How long do slate roofs last?")[0].metadata) == {"relevance_score"}


@pytest.mark.parametrize("search_type", ["similarity", "similarity_score_threshold"])
async def test_langchains_own_retriever_finds_nothing_about_foreign_matter(store, search_type):
    name = "score_threshold" if search_type == "similarity_score_threshold" else "min_relevance"
    retriever = store.as_retriever(search_type=search_type, search_kwargs={name: 0.1})
    assert retriever.invoke(FOREIGN) == await retriever.ainvoke(FOREIGN) == []
    for question, right in QUESTIONS.items():
        assert retriever.invoke(question)[0].id == right
        assert (await retriever.ainvoke(question))[0].id == right
    assert store.retriever(min_relevance=0.1).invoke(FOREIGN) == []


@pytest.mark.parametrize("wrong", [-0.1, 1.5, "high", True])
def test_a_minimum_out_of_range_is_refused_where_it_is_given(strict, store, wrong):
    with pytest.raises(ConfigError, match="min_relevance"):
        UmiRetriever(umi=strict.umi, min_relevance=wrong)
    with pytest.raises(ConfigError, match="min_relevance"):
        strict.invoke("roof", min_relevance=wrong)
    with pytest.raises(ConfigError, match="min_relevance"):
        store.similarity_search_with_relevance_scores("roof", score_threshold=wrong)


def test_a_misspelt_minimum_is_corrected(strict):
    with pytest.raises(ConfigError, match="min_relevance"):
        UmiRetriever(umi=strict.umi, min_relevence=0.1)
    with pytest.raises(TypeError, match="min_relevance"):
        strict.invoke("roof", min_relevence=0.1)


async def test_tool_and_context_say_that_nothing_was_found(strict):
    call = {"name": "search_memory", "args": {"query": FOREIGN}, "id": "1", "type": "tool_call"}
    for message in (create_umi_tool(strict).invoke(call), await create_umi_tool(strict).ainvoke(call)):
        assert message.artifact == []
        assert "roof" not in message.content
    assert create_umi_context(strict).invoke(FOREIGN) == ""
    context = create_umi_context(UmiRetriever(umi=strict.umi), min_relevance=0.1)
    assert context.invoke(FOREIGN) == await context.ainvoke(FOREIGN) == ""
    assert "hundred years" in context.invoke("How long do slate roofs last?")


NOTES = [
    "The office dog is called Biscuit.",
    "Invoices are paid within thirty days.",
    "The VPN password changes every quarter.",
    "Lunch is served at noon on the second floor.",
    "Ben plays the cello on Sundays.",
    "The fire drill takes place in October.",
    "New laptops are ordered from the IT desk.",
    "Visitors sign in at the reception.",
]


@pytest.mark.parametrize("count", [3, 8])
@pytest.mark.parametrize("question", ["What is the office dog called?", "When are invoices paid?"])
def test_a_threshold_of_a_half_finds_the_one_text_of_a_small_store_that_answers(count, question):
    with UmiVectorStore.from_texts(NOTES[:count]) as store:
        retriever = store.as_retriever(
            search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5, "k": 3}
        )
        (found,) = retriever.invoke(question)
        assert found.page_content in NOTES[:2]
        assert retriever.invoke("Who won the world cup in 1998?") == []
        assert retriever.invoke("recipe for apple pie") == []


def test_a_threshold_that_leaves_out_relevant_documents_says_what_it_means(caplog):
    with UmiVectorStore.from_texts(NOTES) as store:
        assert store.similarity_search_with_relevance_scores("the office dog", score_threshold=0.99) == []
        assert "0.1 is a good threshold to start with" in caplog.text
        caplog.clear()
        assert store.similarity_search_with_relevance_scores("quantum chromodynamics", score_threshold=0.5) == []
        assert not caplog.text
