"""Collections as LangChain and LlamaIndex write them to Chroma are imported with positions, times and vectors."""

from __future__ import annotations

import pytest
from small_store import search

from umi_common.errors import ConfigError, StoreUnavailable
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

pytestmark = pytest.mark.slow
TEXTS = ["the red boat", "a blue boat", "night train to the coast"]


def imported(theirs) -> tuple[HybridStore, int]:
    """A store into which the collection was imported, and how many texts were embedded for it."""
    embedder = CountingEmbedder(HashEmbedder(64))
    store = HybridStore.open(embedder=embedder)
    report = store.import_collection(theirs)
    assert (report.chunks, report.skipped) == (3, ())
    assert not store.drift(theirs)
    return store, len(embedder.texts)


@pytest.mark.parametrize("given", ["docs", None, [], {}])
def test_what_is_no_collection_is_refused_by_name(given):
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        for read in (store.import_collection, store.drift):
            with pytest.raises(
                ConfigError, match=f"collection is {type(given).__name__}; expected a Chroma collection"
            ):
                read(given)


def test_langchains_chroma_comes_over(tmp_path):
    langchain_chroma = pytest.importorskip("langchain_chroma")
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    class Hashes(Embeddings):
        def embed_documents(self, texts):
            return HashEmbedder(64).embed_documents(texts).tolist()

        def embed_query(self, text):
            return self.embed_documents([text])[0]

    theirs = langchain_chroma.Chroma("docs", Hashes(), persist_directory=str(tmp_path / "theirs"))
    documents = [
        Document(text, id=f"d{at}", metadata={"source": "log.txt", "chunk_index": at, "timestamp": 86_400.0 * at})
        for at, text in enumerate(TEXTS)
    ]
    theirs.add_documents(documents)
    store, texts_embedded = imported(theirs)
    with store:
        assert texts_embedded <= 3
        assert [chunk.id for chunk in store.neighbours(["d1"], reach=1)["d1"]] == ["d0", "d1", "d2"]
        assert store.get(["d1"])[0].event_time.isoformat() == "1970-01-02T00:00:00+00:00"
        assert search(store, "night train").ids[search(store, "night train").dense[0].argmax()] == "d2"
        assert store.verify()


def test_a_langchain_store_whose_collection_was_deleted_is_an_error_that_says_so(tmp_path):
    langchain_chroma = pytest.importorskip("langchain_chroma")
    theirs = langchain_chroma.Chroma("deleted", persist_directory=str(tmp_path))
    theirs.delete_collection()
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        for read in (store.import_collection, store.drift):
            with pytest.raises(StoreUnavailable, match="collection was deleted"):
                read(theirs)


def test_a_collection_without_a_text_comes_over_as_nothing(tmp_path):
    chromadb = pytest.importorskip("chromadb")
    theirs = chromadb.PersistentClient(str(tmp_path)).create_collection("without-texts", embedding_function=None)
    theirs.add(ids=["a"], embeddings=HashEmbedder(64).embed_documents(["a"]))
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        report = store.import_collection(theirs)
        assert (report.chunks, report.skipped) == (0, ("a",))


def test_llama_indexs_chroma_comes_over(tmp_path):
    module = pytest.importorskip("llama_index.vector_stores.chroma")
    import chromadb
    from chromadb.config import Settings
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

    client = chromadb.PersistentClient(str(tmp_path / "theirs"), settings=Settings(anonymized_telemetry=False))
    theirs = module.ChromaVectorStore(chroma_collection=client.create_collection("docs", embedding_function=None))
    nodes = [
        TextNode(
            id_=f"n{at}",
            text=text,
            metadata={"file": "log.txt", "position": at},
            embedding=HashEmbedder(64).embed_documents([text])[0].tolist(),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="the-file")},
        )
        for at, text in enumerate(TEXTS)
    ]
    theirs.add(nodes)
    store, texts_embedded = imported(theirs)
    with store:
        assert texts_embedded <= 3
        chunk = store.get(["n1"])[0]
        assert (chunk.text, chunk.source, chunk.position) == ("a blue boat", "the-file", 1)
        assert not any(key.startswith("_node") for key in chunk.metadata)
        assert [each.id for each in store.neighbours(["n1"], reach=1)["n1"]] == ["n0", "n1", "n2"]
        assert store.verify()
    client.close()


def test_what_umi_wrote_into_a_collection_comes_over_whole(tmp_path):
    """None, a mixed list, source, position and search text, which Chroma cannot hold, are JSON in the record."""
    chromadb = pytest.importorskip("chromadb")
    from umi_common.stores.chroma import ChromaStore

    chunk = Chunk(
        "a",
        TEXTS[0],
        metadata={"tags": ["x", 1], "note": None, "year": 2024},
        source="talk",
        position=3,
        search_text="a ship of the fleet",
    )
    theirs = chromadb.PersistentClient(str(tmp_path)).create_collection("written-by-umi")
    with ChromaStore(theirs, HashEmbedder(64)) as live, HybridStore.open(embedder=HashEmbedder(64)) as store:
        live.add([chunk])
        store.import_collection(theirs)
        assert store.get(["a"]) == live.get(["a"]) == [chunk]
        assert search(store, "fleet").ids == ("a",)
        assert not store.drift(theirs)


def test_empty_strings_which_stand_for_none_in_chroma_are_no_source_and_no_time(tmp_path):
    chromadb = pytest.importorskip("chromadb")
    theirs = chromadb.PersistentClient(str(tmp_path)).create_collection("empty-strings", embedding_function=None)
    empty = {"source": "", "event_time": "", "position": ""}
    metadatas = [empty, {**empty, "ref_doc_id": "log", "chunk_index": 4.0, "timestamp": "2024-05-01"}, {"source": True}]
    theirs.add(
        ids=list("abc"), documents=TEXTS, embeddings=HashEmbedder(64).embed_documents(TEXTS), metadatas=metadatas
    )
    store, _ = imported(theirs)
    with store:
        empty, full, odd = store.get(list("abc"))
        assert (empty.source, empty.position, empty.event_time) == (None, None, None)
        assert (full.source, full.position, full.event_time.isoformat()) == ("log", 4, "2024-05-01T00:00:00+00:00")
        assert odd.source is None
        assert empty.metadata == {"source": "", "event_time": "", "position": ""}
