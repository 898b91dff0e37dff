"""`from_documents` with a directory: the store mirrors what it is given, and a repeated start costs nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from umi_common.errors import ConfigError, EmbedderError, InputError, InvalidChunk, StoreLocked, StoreReadOnly
from umi_langchain import UmiRetriever, UmiVectorStore


def page(text: str, source: str = "a.md", **more) -> Document:
    return Document(page_content=text, metadata={"source": source}, **more)


@pytest.fixture
def start(tmp_path, embeddings):
    """Does what a program does at each start; gives the texts that its store holds."""

    def run(documents, **options) -> set[str]:
        retriever = UmiRetriever.from_documents(documents, embeddings, persist_directory=str(tmp_path), **options)
        store = retriever.umi.store
        texts = {chunk.text for chunk in store.get(store.ids())}
        retriever.close()
        return texts

    return run


def test_an_edited_file_answers_with_its_new_text(start):
    start([page("The fee is 3 euros."), page("Pets are allowed.", "b.md")])
    assert start([page("The fee is 5 euros.")]) == {"The fee is 5 euros.", "Pets are allowed."}


def test_a_day_of_a_chat_that_replaces_the_day_before_is_told(start, caplog):
    start([page("The dog is called Rex.", "chat")])
    start([page("I moved to Oslo.", "chat")])
    assert "1 stored texts were removed" in caplog.text and "add_documents" in caplog.text


def test_messages_that_were_added_later_and_are_lost_at_the_next_start_are_told(tmp_path, caplog):
    """A program that gives its first texts at every start, and adds the messages of a chat as they come."""
    first = [page("The dog is called Rex.", "chat"), page("I live in Oslo.", "chat")]
    with UmiRetriever.from_documents(first, persist_directory=str(tmp_path)) as retriever:
        retriever.add_documents([page("The cat is called Tom.", "chat")])
    with UmiRetriever.from_documents([], persist_directory=str(tmp_path)) as retriever:
        assert len(retriever.umi.store) == 3 and not caplog.records
    with UmiRetriever.from_documents(first, persist_directory=str(tmp_path)):
        assert "1 stored texts were removed" in caplog.text and "give an empty list" in caplog.text


@pytest.mark.parametrize("options", [{}, {"mirror": True}])
def test_an_edit_of_one_page_of_several_is_not_told(start, caplog, options):
    start([page("Page 0."), page("Page 1.")])
    start([page("Page 0."), page("Page 1 is new.")], **options)
    start([page("All is new.")], mirror=True)
    assert not caplog.records


def test_pages_that_are_found_by_another_title_than_before_are_not_told(start, caplog):
    for title in ("Rules", "Rules of 2024"):
        pages = [Document(page_content=f"Page {n}.", metadata={"source": "a.md", "title": title}) for n in range(2)]
        assert len(start(pages, search_text=["title"])) == 2
    assert not caplog.records


def test_a_second_start_embeds_nothing_and_an_edit_only_itself(start, embeddings):
    pages = [page(f"Page {number} of the rules.") for number in range(5)]
    start(pages)
    assert embeddings.documents == 5
    assert len(start(pages)) == 5 and embeddings.documents == 5
    assert len(start([*pages[:4], page("Page 4 is new.")])) == 5 and embeddings.documents == 6


def test_new_ids_for_the_same_pages_replace_the_old_ones_without_embedding(start, embeddings):
    for round in range(3):
        documents = [page(f"Page {number}.", id=f"{round}-{number}") for number in range(4)]
        assert len(start(documents)) == 4
    assert embeddings.documents == 4


def test_mirror_also_removes_files_that_are_gone(start):
    both = [page("One."), page("Two.", "b.md")]
    start(both)
    assert start(both[:1]) == {"One.", "Two."}
    assert start(both[:1], mirror=True) == {"One."}


@pytest.mark.parametrize("mirror", [False, True])
def test_a_users_notes_do_not_replace_those_of_another_user_that_have_the_same_name(start, mirror):
    def notes(user: str, *texts: str) -> list[Document]:
        return [Document(page_content=text, metadata={"source": "notes.md", "user": user}) for text in texts]

    start(notes("ann", "Ann's fee is 3 euros."), filter={"user": "ann"})
    start(notes("bob", "Bob's fee is 4 euros."), filter={"user": "bob"}, mirror=mirror)
    kept = start(notes("bob", "Bob's fee is 5 euros."), filter={"user": "bob"}, mirror=mirror)
    assert kept == {"Ann's fee is 3 euros.", "Bob's fee is 5 euros."}


def test_mirror_does_not_empty_a_store_because_a_loader_found_nothing(start):
    start([page("One.")])
    with pytest.raises(InputError, match="mirror=True with nothing to store would empty"):
        start([], mirror=True)
    assert start([]) == {"One."}


def test_a_mirror_that_is_neither_true_nor_false_is_refused_and_removes_nothing(start):
    """A setting read from a file or the environment is a string, and "false" would count as true."""
    start([page("One."), page("Two.", "b.md")])
    with pytest.raises(InputError, match="mirror is 'false'; expected True or False"):
        start([page("One.")], mirror="false")
    assert start([]) == {"One.", "Two."}


def test_documents_without_a_source_are_kept_and_added_to(start):
    start([Document(page_content="One.")])
    assert start([Document(page_content="Two.")]) == {"One.", "Two."}


def test_a_file_that_eight_threads_ingest_at_once_is_stored_once(tmp_path):
    """Two workers of a web service read the same upload: one version of the file remains, whole."""

    def ingest(thread: int) -> None:
        pages = [page(f"Page {number} as thread {thread} reads it.") for number in range(20)]
        UmiRetriever.from_documents(pages, persist_directory=str(tmp_path)).close()

    with UmiRetriever.from_documents(persist_directory=str(tmp_path)) as retriever:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(ingest, range(8)))
        store = retriever.umi.store
        texts = [chunk.text for chunk in store.get(store.ids())]
    assert len(texts) == 20 and len({text.split(" as ")[1] for text in texts}) == 1


def test_a_second_process_reads_what_the_first_writes(tmp_path):
    writer = UmiRetriever.from_documents([page("The fee is 3 euros.")], persist_directory=str(tmp_path))
    reader = UmiRetriever.from_documents(persist_directory=str(tmp_path), read_only=True)
    store = UmiVectorStore(persist_directory=str(tmp_path), read_only=True)
    for found in (reader.invoke("fee"), store.similarity_search("fee")):
        assert [document.page_content for document in found] == ["The fee is 3 euros."]
    with pytest.raises(StoreReadOnly):
        store.add_texts(["more"])
    with pytest.raises(ConfigError, match="read_only=True stores nothing"):
        UmiRetriever.from_documents([page("more")], persist_directory=str(tmp_path), read_only=True)
    for each in (reader, store, writer):
        each.close()


def test_a_store_that_is_open_elsewhere_says_how_to_read_it(tmp_path):
    import subprocess
    import sys

    code = f"from umi_langchain import UmiRetriever; UmiRetriever.from_documents(persist_directory={str(tmp_path)!r})"
    writer = UmiRetriever.from_documents([page("One.")], persist_directory=str(tmp_path))
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert StoreLocked.__name__ in other.stderr and "read_only=True" in other.stderr
    writer.close()


@pytest.mark.parametrize("named", [False, True])
def test_a_failure_says_whether_what_was_embedded_is_kept(tmp_path, named):
    class Model(Embeddings):
        calls, texts, failing = 0, 0, True

        def embed_documents(self, texts):
            self.calls += 1
            if self.failing and self.calls > 1:
                raise ValueError
            self.texts += len(texts)
            return [[float(len(text)), 1.0] for text in texts]

        def embed_query(self, text):
            return [1.0, 1.0]

    model, pages = Model(), [page(f"Page {number} of the rules.") for number in range(600)]
    if named:
        model.model_name = "rules-1"
    told = "the cache holds are not embedded again" if named else "needs a directory and a model with a model_name"
    with pytest.raises(EmbedderError, match=told):
        UmiRetriever.from_documents(pages, model, persist_directory=str(tmp_path))
    kept, model.failing = model.texts, False
    UmiRetriever.from_documents(pages, model, persist_directory=str(tmp_path)).close()
    assert model.texts == (600 if named else 600 + kept) and kept > 0


def test_a_file_that_is_empty_now_does_not_answer_with_its_old_text(start):
    start([page("The fee is 3 euros."), page("Pets are allowed.", "b.md"), Document("A note.", id="note")])
    emptied = [page(""), Document(" ", id="note")]
    assert start(emptied, on_invalid="skip") == {"Pets are allowed."}


def test_a_blank_page_is_skipped_and_listed_if_asked(start, tmp_path):
    pages = [page("One."), page(" ", "b.pdf", id="blank"), page("Two.", id="2"), page("Twice.", id="2")]
    with pytest.raises(InvalidChunk, match="document 1"):
        start(pages)
    retriever = UmiRetriever.from_documents(pages, on_invalid="skip")
    assert {document.page_content for document in retriever.invoke("one two")} == {"One.", "Two."}
    assert [(gone.id, gone.source) for gone in retriever.skipped] == [("blank", "b.pdf"), ("2", "a.md")]
    assert [gone.place for gone in retriever.skipped] == [1, 3]
    assert "text is empty" in retriever.skipped[0].reason
    retriever.close()
