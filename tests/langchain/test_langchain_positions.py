"""The reading order of sections that LangChain users add in several calls."""

from __future__ import annotations

import asyncio
import copy

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_text_splitters import CharacterTextSplitter

from umi_common.errors import InputError
from umi_common.sim import RemoteModel
from umi_langchain import UmiRetriever, UmiVectorStore

SPLITTER = CharacterTextSplitter(separator=" ", chunk_size=6, chunk_overlap=0, add_start_index=True)


def sections(names, **metadata):
    """Each name as a section "N one. N two." of one file, cut into two documents."""
    texts = [f"{name} one. {name} two." for name in names]
    given = [{"source": "a.md", **{key: value(name) for key, value in metadata.items()}} for name in names]
    return SPLITTER.create_documents(texts, given)


def with_headings(names):
    return sections(names, heading=lambda name: name)


def reading_order(store):
    chunks = store.get(store.ids())
    assert len({chunk.position for chunk in chunks}) == len(chunks)
    return " ".join(chunk.text for chunk in sorted(chunks, key=lambda chunk: chunk.position))


@pytest.mark.parametrize("split", [with_headings, sections])
@pytest.mark.parametrize("kind", ["vector store", "retriever"])
def test_sections_that_are_added_one_by_one_follow_one_another(kind, split):
    adding = UmiVectorStore() if kind == "vector store" else UmiRetriever.from_documents(split("A"))
    for name in ("A", "B", "C", "A", "B"):  # the program runs a second time
        adding.add_documents(split(name))
    assert reading_order(adding.umi.store) == "A one. A two. B one. B two. C one. C two."
    (document,) = UmiRetriever(umi=adding.umi, whole="source").invoke("A", k=1)
    assert " ".join(document.page_content.split()) == "A one. A two. B one. B two. C one. C two."
    adding.close()


async def test_sections_that_are_added_at_the_same_time_follow_one_another_in_some_order():
    """As `asyncio.gather(*(store.aadd_documents(part) for part in parts))` does while a service embeds."""
    names = "ABCDEFGH"
    async with UmiVectorStore(RemoteModel(seconds=0.05)) as store:
        await asyncio.gather(*(store.aadd_documents(with_headings(name)) for name in names))
        read = reading_order(store.store)
    assert all(f"{name} one. {name} two." in read for name in names)


async def test_a_store_and_its_retriever_may_add_sections_at_the_same_time():
    names = "ABCDEFGH"
    async with UmiVectorStore(RemoteModel(seconds=0.05)) as store:
        adding = [store, store.retriever()] * 4
        parts = zip(adding, names, strict=True)
        await asyncio.gather(*(each.aadd_documents(with_headings(name)) for each, name in parts))
        read = reading_order(store.store)
    assert all(f"{name} one. {name} two." in read for name in names)


def test_a_section_that_could_not_be_stored_leaves_the_next_one_its_place():
    with UmiVectorStore() as store:
        store.add_documents(with_headings("A"))
        refused = [*with_headings("B"), Document("", metadata={"source": "a.md", "heading": "B", "start_index": 20})]
        twice = [document.model_copy(update={"id": "same"}) for document in with_headings("B")]
        for wrong in (refused, twice):
            with pytest.raises(InputError):
                store.add_documents(wrong)
        store.add_documents(with_headings("C"))
        ends = sorted(chunk.position for chunk in store.store.get(store.store.ids()))
        with UmiVectorStore() as other:
            other.add_documents(with_headings("A"))
            other.add_documents(with_headings("C"))
            assert ends == sorted(chunk.position for chunk in other.store.get(other.store.ids()))


def test_a_text_whose_chunks_come_in_several_calls_is_in_order():
    with UmiVectorStore() as store:
        chunks = SPLITTER.create_documents(["A one. B two. C six. D ten."], [{"source": "a"}])
        for chunk in chunks:
            store.add_documents([chunk])
        assert [chunk.position for chunk in store.store.get(sorted(store.store.ids()))] == [
            document.metadata["start_index"] for document in store.get_by_ids(sorted(store.store.ids()))
        ]
        assert reading_order(store.store) == "A one. B two. C six. D ten."


def test_pages_are_in_their_order_in_whatever_order_they_are_added():
    with UmiVectorStore() as store:
        for page in (2, 0, 1):
            store.add_documents(sections(str(page), page=int))
        assert reading_order(store.store) == "0 one. 0 two. 1 one. 1 two. 2 one. 2 two."


def test_a_section_that_is_added_between_others_stands_between_them():
    with UmiVectorStore() as store:
        store.add_documents(with_headings("AC"))
        store.add_documents(with_headings("ABC"))
        assert reading_order(store.store) == "A one. A two. B one. B two. C one. C two."


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_an_edited_section_of_an_index_stays_where_it_was(batch_size):
    records = InMemoryRecordManager("a")
    records.create_schema()
    with UmiVectorStore() as store:
        options = {"cleanup": "incremental", "source_id_key": "source", "key_encoder": "sha256"}
        documents = with_headings("ABC")
        index(documents, records, store, batch_size=batch_size, **options)
        edited = [*documents[:2], documents[2].model_copy(update={"page_content": "B new."}), *documents[3:]]
        index(edited, records, store, batch_size=batch_size, **options)
        assert reading_order(store.store) == "A one. A two. B new. B two. C one. C two."


def test_an_edited_text_of_an_index_whose_metadata_change_too_is_in_order():
    records = InMemoryRecordManager("a")
    records.create_schema()
    with UmiVectorStore() as store:
        for day in (1, 2, 3):
            chunks = SPLITTER.create_documents(["A one. B two. C six. D ten."], [{"source": "a", "changed": day}])
            index(chunks, records, store, cleanup="full", source_id_key="source", key_encoder="sha256", batch_size=2)
            assert reading_order(store.store) == "A one. B two. C six. D ten."


def test_a_section_that_follows_a_removed_one_takes_no_position_of_another():
    with UmiRetriever.from_documents(with_headings("ABC")) as retriever:
        retriever.delete(where={"heading": "B"})
        copy.deepcopy(retriever).add_documents(with_headings("D"))
        assert reading_order(retriever.umi.store) == "A one. A two. C one. C two. D one. D two."


def test_sections_that_are_added_by_turns_through_two_objects_over_one_store_follow_one_another():
    with UmiVectorStore() as store:
        adding = [store, store.retriever()]
        for turn, name in enumerate("ABCD"):
            adding[turn % 2].add_documents(with_headings(name))
        assert reading_order(store.store) == "A one. A two. B one. B two. C one. C two. D one. D two."


def test_a_position_that_the_metadata_states_is_kept():
    with UmiVectorStore() as store:
        for place in (5, 3):
            store.add_documents(sections(str(place), position=int)[:1])
        assert reading_order(store.store) == "3 one. 5 one."


def test_sections_of_a_directory_that_is_opened_again_follow_those_in_it(tmp_path):
    for name in "AB":
        with UmiVectorStore(persist_directory=str(tmp_path / "store")) as store:
            store.add_documents(with_headings(name))
            text = reading_order(store.store)
    assert text == "A one. A two. B one. B two."


def test_sections_that_two_vector_stores_add_to_one_store_follow_one_another():
    with UmiVectorStore() as first, UmiVectorStore(store=first.store) as second:
        first.add_documents([*with_headings("A"), Document("away", id="x")])
        second.delete(["x"])
        second.add_documents(with_headings("B")[:1])  # the store holds as many documents as before
        first.add_documents(with_headings("C"))
        assert reading_order(first.store) == "A one. A two. B one. C one. C two."
