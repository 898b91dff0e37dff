"""`search_text=`: metadata that a reader wants found is searched, while the text is shown."""

from __future__ import annotations

from enum import Enum

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_text_splitters import MarkdownHeaderTextSplitter

from umi_common.errors import ConfigError
from umi_langchain import UmiRetriever, UmiVectorStore
from umi_langchain._search_text import searched_text

DOCUMENTS = [
    Document(id="a", page_content="It lasts two years.", metadata={"title": "Warranty", "keywords": ["guarantee"]}),
    Document(id="b", page_content="It takes a week.", metadata={"title": "Delivery"}),
]


@pytest.mark.parametrize("search_text", ["{title}: {text} {keywords}", ["title", "keywords"]])
def test_titles_and_keywords_are_found_and_the_text_is_shown(search_text):
    retriever = UmiRetriever.from_documents(DOCUMENTS, search_text=search_text, k=1)
    for query, id in (("Warranty", "a"), ("guarantee", "a"), ("delivery", "b"), ("a week", "b")):
        (found,) = retriever.invoke(query, strategy="text")
        assert found.id == id and found.page_content == {d.id: d.page_content for d in DOCUMENTS}[id]
    retriever.close()


def test_without_it_the_text_alone_is_searched():
    retriever = UmiRetriever.from_documents(DOCUMENTS)
    assert retriever.invoke("guarantee", strategy="text") == []
    retriever.close()


GUIDE = """# Guide

## Encryption

Some data should not be readable by others.

## Fields

The format asks for no encryption algorithm, but encryption needs the encryption key.

## Backups

They are made at night."""


@pytest.mark.parametrize("keys", [("Header 1", "Header 2"), ("h1", "h2"), ("heading_1", "heading_2")])
def test_headings_that_a_splitter_moved_into_the_metadata_are_found(keys):
    sections = MarkdownHeaderTextSplitter([*zip(("#", "##"), keys, strict=True)]).split_text(GUIDE)
    with UmiRetriever.from_documents(sections, k=1) as retriever:
        for heading, text in (("backups", "They are made at night."), ("guide to backups", "They are made at night.")):
            (found,) = retriever.invoke(heading, strategy="text")
            assert found.page_content == text
    with UmiRetriever.from_documents(sections, search_text=[]) as retriever:
        assert retriever.invoke("backups", strategy="text") == []


def test_other_values_under_such_a_key_are_no_headings():
    assert (
        searched_text(Document(page_content="Profit", metadata={"h1": 0.31, "H2": None, "header": "Acme"}), None)
        is None
    )


def test_a_vector_store_searches_titles_of_what_is_added_in_any_way():
    store = UmiVectorStore.from_texts(["It lasts two years."], metadatas=[{"title": "Warranty"}], search_text=["title"])
    store.add_texts(["It takes a week."], [{"title": "Delivery", "sku": "ZX81"}])
    store.add_documents([Document(page_content="It is red.", metadata={"sku": "QL68"})], search_text="{sku} {text}")
    for query, text in (("warranty", "It lasts two years."), ("delivery", "It takes a week."), ("QL68", "It is red.")):
        (found, *_) = store.similarity_search(query, strategy="text")
        assert found.page_content == text
    assert store.similarity_search("ZX81", strategy="text") == []
    store.close()


def test_the_retriever_of_a_vector_store_adds_documents_as_the_store_does():
    with UmiVectorStore(search_text=["title"], on_invalid="skip") as store:
        given = [Document("It lasts two years.", metadata={"title": "Warranty"}), Document(" ", id="blank")]
        assert len(store.retriever().add_documents(given)) == 1
        assert store.similarity_search("warranty", strategy="text")
        assert [each.id for each in store.skipped] == ["blank"]


@pytest.mark.parametrize("make", [UmiRetriever.from_documents, UmiVectorStore.from_documents])
@pytest.mark.parametrize("search_text", ["{titel}: {text}", ["titel"]])
def test_a_key_that_no_document_has_is_told(make, search_text, caplog):
    with make(DOCUMENTS, search_text=["title", "keywords"]):
        assert caplog.records == []
    with make(DOCUMENTS, search_text=search_text):
        assert ["'titel', which no document has" in record.getMessage() for record in caplog.records] == [True]


def test_what_is_neither_a_template_nor_a_list_of_keys_is_refused():
    for wrong in (5, [5], {"title": 1}):
        with pytest.raises(ConfigError, match="names no metadata key; expected a template"):
            UmiRetriever.from_documents(DOCUMENTS, search_text=wrong)


def test_a_template_without_a_key_is_refused_with_an_example():
    with pytest.raises(ConfigError, match=r"search_text 'title' names no metadata key.*\{title\}: \{text\}"):
        UmiRetriever.from_documents(DOCUMENTS, search_text="title")


INSURED = (
    "1. What is insured\nThe insurer pays for loss of the insured object as described in the schedule, provided that "
    "the event occurs during the term. Persons not named in the schedule are insured only if the insurer has agreed.",
    "2. Beginning\nCover starts after a waiting period of three months, except in the case of an accident. The "
    "contract runs for one year and is renewed tacitly, and the discount starts again in the following year.",
    "3. Complaints\nComplaints may be addressed to the ombudsman. Recourse to the courts remains open. The limitation "
    "period is three years and is suspended from the notification of the claim until the decision.",
)


@pytest.mark.parametrize("head", ["{title}", "# {title}", "GENERAL TERMS\n**{title}**"])
def test_a_title_that_the_first_chunk_repeats_does_not_rank_it_above_the_chunk_that_answers(head):
    titles = ["Bicycle Insurance", "Travel Insurance", "Pet Insurance", "Dental Insurance"]
    terms = [
        Document(id=f"{title} {part}", page_content=text, metadata={"title": title, "source": title})
        for title in titles
        for part, text in enumerate((f"{head.format(title=title)}\n\n{INSURED[0]}", *INSURED[1:]), start=1)
    ]
    with UmiRetriever.from_documents(terms, search_text=["title"], k=1) as retriever:
        for title in titles:
            (found,) = retriever.invoke(f"no-claims discount {title.lower()}")
            assert found.id == f"{title} 2"


def test_a_title_within_a_sentence_is_still_put_before_the_text():
    metadata = {"title": "Warranty", "keywords": ["red", "new"]}
    document = Document(page_content="The warranty is void.", metadata=metadata)
    assert searched_text(document, ["title", "keywords"]) == "Warranty\nred, new\nThe warranty is void."
    assert searched_text(document, ["text", "title"]) == "Warranty\nThe warranty is void."


class Kind(Enum):
    MANUAL = "manual"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), ""),  # a cell without a value in a table of pandas
        ({"red", "blue", "green", "yellow"}, "blue, green, red, yellow"),
        (frozenset({"red"}), "red"),
        (np.array(["red", "blue"]), "red, blue"),
        (Kind.MANUAL, "manual"),
    ],
)
def test_a_value_is_searched_as_the_metadata_shows_it(value, said):
    document = Document("The text.", metadata={"title": value})
    assert searched_text(document, "{title}: {text}") == f"{said}: The text."
    assert searched_text(document, ["title"]) == "\n".join(filter(None, (said, "The text.")))
