"""Search small, return the section: `UmiRetriever(whole="section")`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from langchain_core.documents import Document
from langchain_text_splitters import MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter

from umi_common import Chunk, HybridStore
from umi_common.files import index
from umi_langchain import UmiRetriever, UmiVectorStore, create_umi_context, create_umi_tool

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
BOOK = [
    ("house.md", "Boiler", "The boiler was inspected in May."),
    ("house.md", "Boiler", "Its valve leaks."),
    ("house.md", "Boiler", "A new one costs ninety Euro."),
    ("house.md", "Roof", "The roofers want nine thousand."),
    ("house.md", "Boiler", "A second boiler stands in the barn."),
    ("garden.md", "Trees", "The pear tree needs a stake."),
    ("loose.md", None, "The valve of the bicycle leaks, too."),
]


@pytest.fixture(scope="module")
def retriever():
    documents = [
        Document(
            id=str(place),
            page_content=text,
            metadata={
                "source": source,
                "timestamp": MAY + timedelta(days=place),
                "user": "ann" if place != 2 else "bob",
                **({"section": section} if section else {}),
            },
        )
        for place, (source, section, text) in enumerate(BOOK)
    ]
    made = UmiRetriever.from_documents(documents, whole="section", k=4)
    yield made
    made.close()


async def ways(retriever, query, **options):
    """What the four calls answer, which must be the same."""
    answers = [
        retriever.invoke(query, **options),
        await retriever.ainvoke(query, **options),
        retriever.batch([query], **options)[0],
        (await retriever.abatch([query], **options))[0],
    ]
    assert answers == [answers[0]] * 4
    return answers[0]


async def test_a_chunk_that_is_found_brings_its_whole_section_once(retriever):
    found = await ways(retriever, "which valve leaks?")
    boiler = next(document for document in found if document.metadata.get("umi_ids") == ["0", "1", "2"])
    assert boiler.page_content.split() == " ".join(text for _, _, text in BOOK[:3]).split()
    assert boiler.metadata["section"] == "Boiler" and boiler.id in {"0", "1", "2"}
    assert boiler.metadata["timestamp"] == (MAY + timedelta(days=int(boiler.id))).isoformat()  # of the chunk found
    assert sum("valve leaks" in document.page_content for document in found) == 1
    (loose,) = (document for document in found if document.id == "6")
    assert loose.page_content == BOOK[6][2] and "umi_ids" not in loose.metadata


async def test_a_section_of_the_same_name_elsewhere_in_the_source_stays_apart(retriever):
    (barn,) = await ways(retriever, "what stands in the barn?", k=1)
    assert barn.page_content == BOOK[4][2] and barn.metadata["umi_ids"] == ["4"]


async def test_a_section_shows_nothing_that_filter_and_time_range_hide(retriever):
    (first,) = await ways(retriever, "boiler inspected in May", k=1, filter={"user": "ann"})
    assert first.metadata["umi_ids"] == ["0", "1"]
    (first,) = await ways(retriever, "its valve leaks", k=1, time_range=(MAY + timedelta(days=1), None))
    assert first.metadata["umi_ids"] == ["1", "2"]


async def test_documents_are_grouped_by_source_in_the_same_way(retriever):
    by_source = UmiRetriever.from_store(retriever.umi.store, whole="source", k=7)
    found = await ways(by_source, "boiler, valve, roofers, trees")
    assert len(found) == 3 and {document.metadata["source"] for document in found} == {
        "house.md",
        "garden.md",
        "loose.md",
    }
    house = next(document for document in found if document.metadata["source"] == "house.md")
    assert house.metadata["umi_ids"] == ["0", "1", "2", "3", "4"]
    assert [document.metadata["relevance_score"] for document in found] == sorted(
        (document.metadata["relevance_score"] for document in found), reverse=True
    )
    by_source.close()


@pytest.mark.parametrize("filter", [None, {"user": "ann"}])
async def test_a_long_source_is_one_document_with_all_of_its_text(filter):
    texts = [f"{'alpha' if place in (0, 899) else 'filler'} {place}" for place in range(900)]
    documents = [Document(id=text, page_content=text, metadata={"source": "big.md", "user": "ann"}) for text in texts]
    retriever = UmiRetriever.from_documents(documents, whole="source")
    (found,) = await ways(retriever, "alpha", filter=filter)
    assert found.metadata["umi_ids"] == texts and found.page_content.split() == " ".join(texts).split()
    retriever.close()


async def test_a_tool_and_a_context_bring_the_whole_section_too(retriever):
    tool, context = create_umi_tool(retriever), create_umi_context(retriever, k=1)
    asked = {"query": "which valve leaks?", "k": 1, "filter": {"source": "house.md"}}
    call = {"name": tool.name, "args": asked, "id": "1", "type": "tool_call"}
    section = " ".join(text for _, _, text in BOOK[:3])
    for said in (tool.invoke(call), await tool.ainvoke(call)):
        assert section in " ".join(said.content.split())
        assert [document.metadata["umi_ids"] for document in said.artifact] == [["0", "1", "2"]]
    for text in (context.invoke("what was inspected in May?"), await context.ainvoke("what was inspected in May?")):
        assert section in " ".join(text.split())


def test_a_section_that_is_one_long_table_has_its_head_once_and_begins_where_it_says(tmp_path):
    rows = "\n".join(f"| Valve {number} | {number % 9} bar |" for number in range(120))
    text = f"Intro.\n\n# Valves\n\n| Name | Burst pressure |\n|---|---|\n{rows}\n"
    (tmp_path / "valves.md").write_text(text)
    with HybridStore.open(tmp_path / "store") as store:
        index(store, [tmp_path / "valves.md"])
        (found,) = UmiRetriever.from_store(store, whole="file", k=1).invoke("burst pressure of valve 97")
    assert found.page_content == text.strip() and len(found.metadata["umi_ids"]) > 2
    assert found.metadata["start_index"] == 0 and "table_head" not in found.metadata


def test_sections_whose_nested_values_differ_are_not_joined():
    places = [{"page": 1}, {"page": 1}, {"page": 2}]
    parts = [
        Document(id=str(n), page_content=f"part {n} of the plan", metadata={"source": "plan.pdf", "place": place})
        for n, place in enumerate(places)
    ]
    with UmiRetriever.from_documents(parts, whole="place") as plan:
        found = plan.invoke("part 2 of the plan")
    assert sorted(document.metadata["umi_ids"] for document in found) == [["0", "1"], ["2"]]


def test_documents_that_cannot_be_joined_because_they_have_no_position_are_told(caplog):
    parts = [Document(page_content=f"part {n}", metadata={"source": "a.md", "section": "S"}) for n in range(2)]
    with UmiVectorStore() as store:
        store.add_documents(parts)
        assert len(store.retriever(whole="section").invoke("part")) == 2
    (record,) = caplog.records
    assert "no source or no position" in record.getMessage() and "add_start_index=True" in record.getMessage()


def test_chunks_that_cannot_be_joined_because_they_have_no_source_are_told(caplog):
    with HybridStore.open() as store:
        store.add([Chunk(f"c{n}", f"part {n}", position=n, metadata={"section": "S"}) for n in range(2)])
        assert len(UmiRetriever.from_store(store, whole="section").invoke("part")) == 2
    (record,) = caplog.records
    assert "no source or no position" in record.getMessage()


async def test_a_store_that_fails_beside_the_hits_costs_the_sections_and_not_the_answer(retriever, monkeypatch):
    def broken(*_, **__):
        raise OSError("disk")

    alone = retriever.model_copy(update={"whole": None}).invoke("valve")
    monkeypatch.setattr(retriever.umi.store, "neighbours", broken)
    assert await ways(retriever, "valve") == alone
    assert "neighbours failed, returned the found chunks" in create_umi_tool(retriever).invoke({"query": "valve"})


def test_a_section_that_a_second_splitter_cut_is_whole():
    page = "## Boiler\n\nE23 means low pressure.\n\nE40 means no flame.\n\n## Roof\n\nThe roof is new.\n\nTwo windows."
    sections = MarkdownHeaderTextSplitter([("##", "section")]).split_text(page)
    for section in sections:
        section.metadata["source"] = "house.md"
    parts = RecursiveCharacterTextSplitter(chunk_size=25, chunk_overlap=0, add_start_index=True).split_documents(
        sections
    )
    with UmiRetriever.from_documents(parts, whole="section", k=1) as by_section:
        assert by_section.invoke("E23")[0].page_content == "E23 means low pressure.\n\nE40 means no flame."
    with UmiRetriever.from_documents(parts, whole="source", k=1) as by_source:
        texts = [part.page_content for part in parts]
        assert by_source.invoke("E23")[0].page_content == "\n\n".join(texts)


def test_the_pages_of_a_whole_pdf_are_in_order():
    pages = [
        f"Page {name} begins here.\n\nThe {name} boiler is {colour}." for name, colour in zip("ABC", "xyz", strict=True)
    ]
    documents = [Document(page_content=text, metadata={"source": "m.pdf", "page": n}) for n, text in enumerate(pages)]
    splitter = RecursiveCharacterTextSplitter(chunk_size=25, chunk_overlap=0, add_start_index=True)
    with UmiRetriever.from_documents(splitter.split_documents(documents), whole="source", k=1) as by_source:
        assert by_source.invoke("boiler")[0].page_content == "\n\n".join(pages)


def test_a_misspelt_key_of_sections_is_told_once_and_a_search_without_sections_is_not(retriever, caplog):
    misspelt = UmiRetriever.from_store(retriever.umi.store, whole="sektion", k=4)
    assert all("umi_ids" not in document.metadata for document in misspelt.invoke("which valve leaks?"))
    misspelt.invoke("which valve leaks?")
    (told,) = [record.getMessage() for record in caplog.records if "whole=" in record.getMessage()]
    assert "'sektion'" in told and "check its spelling" in told
    caplog.clear()
    assert retriever.invoke("valve of the bicycle", filter={"source": "loose.md"})
    assert not caplog.records
