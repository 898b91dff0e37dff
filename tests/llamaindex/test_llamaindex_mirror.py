"""`from_nodes` with a directory: the store mirrors what it is given, whatever ids splitters and readers make."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.readers import SimpleDirectoryReader
from llama_index.core.schema import TextNode

from umi_common.errors import ConfigError, InputError, StoreReadOnly
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_llamaindex import UmiEmbedding, UmiRetriever, UmiVectorStore


@pytest.fixture
def start(tmp_path, embed_model):
    """Does what a program does at each start; gives the texts that its store holds, one for each chunk."""

    def run(documents, **options) -> list[str]:
        nodes = TokenTextSplitter(chunk_size=64, chunk_overlap=0)(documents)
        retriever = UmiRetriever.from_nodes(nodes, embed_model, persist_dir=str(tmp_path / "umi"), **options)
        store = retriever.umi.store
        texts = sorted(chunk.text for chunk in store.get(store.ids()))
        retriever.close()
        return texts

    return run


def long_text(topic: str) -> str:
    return " ".join(f"Sentence {number} about {topic} and nothing else in the world." for number in range(12))


@pytest.mark.parametrize("named", [True, False], ids=["documents with ids", "documents without"])
def test_a_splitters_new_ids_do_not_grow_the_store_at_each_start(start, embed_model, named):
    sizes = []
    for _ in range(3):
        ids = {"doc_id": "cats"} if named else {}
        sizes.append(len(start([Document(text=long_text("cats"), **ids)])))
    assert sizes[0] > 1 and len(set(sizes)) == 1
    assert embed_model.documents == sizes[0]


@pytest.mark.parametrize("mirror", [False, True])
def test_a_users_notes_do_not_replace_those_of_another_user_that_have_the_same_name(start, mirror):
    def notes(user: str, text: str) -> list[Document]:
        return [Document(text=text, doc_id="notes.md", metadata={"user": user})]

    start(notes("ann", "Ann's fee is 3 euros."), filters={"user": "ann"})
    start(notes("bob", "Bob's fee is 4 euros."), filters={"user": "bob"}, mirror=mirror)
    kept = start(notes("bob", "Bob's fee is 5 euros."), filters={"user": "bob"}, mirror=mirror)
    assert kept == ["Ann's fee is 3 euros.", "Bob's fee is 5 euros."]


def test_an_edited_file_answers_with_its_new_text_though_readers_make_new_ids(start, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("The fee is 3 euros.")
    (folder / "b.txt").write_text("Pets are allowed.")
    start(SimpleDirectoryReader(folder).load_data())
    (folder / "a.txt").write_text("The fee is 5 euros.")
    assert start(SimpleDirectoryReader(folder).load_data()) == ["Pets are allowed.", "The fee is 5 euros."]
    (folder / "b.txt").unlink()
    documents = SimpleDirectoryReader(folder).load_data()
    assert len(start(documents)) == 2
    assert start(documents, mirror=True) == ["The fee is 5 euros."]


def test_a_document_that_eight_threads_ingest_at_once_is_stored_once(tmp_path):
    def ingest(thread: int) -> None:
        nodes = [TextNode(text=f"{number} of {thread}", metadata={"file_path": "a.txt"}) for number in range(20)]
        UmiRetriever.from_nodes(nodes, persist_dir=str(tmp_path / "umi")).close()

    with UmiVectorStore(persist_dir=str(tmp_path / "umi")) as store:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(ingest, range(8)))
        texts = [node.text for node in store.get_nodes()]
    assert len(texts) == 20 and len({text.split(" of ")[1] for text in texts}) == 1


def test_threads_that_add_nodes_of_the_same_ids_at_once_store_each_once(tmp_path):
    def add(thread: int) -> None:
        store.add([TextNode(id_=f"n{number}", text=f"{number} of {thread}") for number in range(20)])

    with UmiVectorStore(persist_dir=str(tmp_path / "umi")) as store:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(add, range(8)))
        assert len(store.get_nodes()) == 20


def test_a_file_that_is_empty_now_does_not_answer_with_its_old_text(start, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("The fee is 3 euros.")
    (folder / "b.txt").write_text("Pets are allowed.")
    start([*SimpleDirectoryReader(folder).load_data(), Document(text="A note.", doc_id="note")])
    (folder / "a.txt").write_text("")
    emptied = [*SimpleDirectoryReader(folder).load_data(), Document(text="", doc_id="note")]
    assert start(emptied, on_invalid="skip") == ["Pets are allowed."]


def test_an_edited_document_with_an_id_answers_with_its_new_text(start):
    start([Document(text="The fee is 3 euros.", doc_id="fees"), Document(text="Pets are allowed.", doc_id="pets")])
    assert start([Document(text="The fee is 5 euros.", doc_id="fees")]) == ["Pets are allowed.", "The fee is 5 euros."]


def test_two_named_documents_of_one_text_are_both_kept(start):
    start([Document(text="Yes.", doc_id="a")])
    assert start([Document(text="Yes.", doc_id="b")]) == ["Yes.", "Yes."]


@pytest.mark.parametrize("path", [None, "", float("nan"), {"drive": "c"}])
def test_documents_without_a_path_are_not_one_file(start, path):
    """Of rows of a table whose column for the path is empty."""
    start([Document(text="Priya works at Acme.", metadata={"file_path": path})])
    kept = start([Document(text="The roofers want nine thousand.", metadata={"file_path": path})])
    assert kept == ["Priya works at Acme.", "The roofers want nine thousand."]


def test_mirror_does_not_empty_a_store_because_a_reader_found_nothing(start):
    start([Document(text="One.")])
    with pytest.raises(InputError, match="mirror=True with nothing to store would empty"):
        start([], mirror=True)


def test_a_second_process_reads_what_the_first_writes(tmp_path):
    nodes = TokenTextSplitter()([Document(text="The fee is 3 euros.")])
    writer = UmiRetriever.from_nodes(nodes, persist_dir=str(tmp_path))
    reader = UmiRetriever.from_nodes(persist_dir=str(tmp_path), read_only=True)
    store = UmiVectorStore(persist_dir=str(tmp_path), read_only=True)
    for found in (reader.retrieve("fee"), store.retriever().retrieve("fee")):
        assert [item.text for item in found] == ["The fee is 3 euros."]
    with pytest.raises(StoreReadOnly):
        store.clear()
    with pytest.raises(ConfigError, match="read_only=True stores nothing"):
        UmiRetriever.from_nodes(nodes, persist_dir=str(tmp_path), read_only=True)
    for each in (reader, store, writer):
        each.close()


def test_a_blank_node_is_skipped_and_listed_if_asked(embed_model):
    nodes = [TextNode(text="One.", id_="1"), TextNode(text=" ", id_="blank"), TextNode(text="Again.", id_="1")]
    nodes[0].embedding = embed_model.get_text_embedding("One.")
    nodes[2].embedding = embed_model.get_text_embedding("Again.")
    retriever = UmiRetriever.from_nodes(nodes, embed_model, on_invalid="skip")
    assert [item.text for item in retriever.retrieve("one")] == ["One."]
    assert [(gone.place, gone.id) for gone in retriever.skipped] == [(1, "blank"), (2, "1")]
    retriever.close()


def test_of_two_nodes_with_one_id_the_one_that_can_be_stored_keeps_its_own_embedding():
    model = UmiEmbedding()
    lions, cats = model.get_text_embedding_batch(["lions", "cats"])
    nodes = [
        TextNode(id_="a", text="lions", embedding=lions, metadata={"size": 10**30}),
        TextNode(id_="a", text="cats", embedding=cats),
    ]
    with UmiRetriever.from_nodes(nodes, model, on_invalid="skip") as retriever:
        assert retriever.umi.store.vectors(["a"])[0].tolist() == pytest.approx(cats, abs=1e-3)


def test_nodes_with_embeddings_that_are_stored_already_are_not_embedded_again(tmp_path):
    model = CountingEmbedder(HashEmbedder(16))
    nodes = [TextNode(id_="a", text="lions", embedding=model.embed_documents(["lions"])[0].tolist())]
    UmiRetriever.from_nodes(nodes, model, persist_dir=str(tmp_path)).close()
    calls = model.document_calls
    UmiRetriever.from_nodes(nodes, model, persist_dir=str(tmp_path)).close()
    assert model.document_calls == calls
