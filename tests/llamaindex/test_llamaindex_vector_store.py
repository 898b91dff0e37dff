"""UmiVectorStore: a sink for pipelines and a store for indexes, both arms in step."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import numpy as np
import pytest
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.memory import VectorMemoryBlock
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import ImageNode, IndexNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryMode
from llamaindex_toys import page_nodes

from umi_common import Chunk, HybridStore
from umi_common.errors import (
    ConfigError,
    EmbedderError,
    EmptyQuery,
    FilterError,
    InputError,
    InvalidChunk,
    InvalidLimit,
    InvalidVector,
)
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder, RemoteModel
from umi_common.stores.ledger.ledger import Ledger
from umi_llamaindex import UmiEmbedding, UmiQuery, UmiRetriever, UmiVectorStore

# resolve_embed_model imports whatever langchain-community is installed, which warns about itself.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.langchain-community. is being sunset:DeprecationWarning",
    "ignore:Call to deprecated method get_doc_id:DeprecationWarning",  # llama-index-core 0.13, of itself
)

Mode = VectorStoreQueryMode


def node(id: str, text: str, doc: str | None = None, vector=None, **metadata) -> TextNode:
    related = {} if doc is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=doc)}
    return TextNode(id_=id, text=text, metadata=metadata, relationships=related, embedding=vector)


@pytest.fixture
def store():
    made = UmiVectorStore()
    yield made
    made.close()


@pytest.fixture
def filled(store):
    store.add(
        [
            node("cats", "cats sleep all day", "animals", kind="pet"),
            node("dogs", "dogs guard the house", "animals", kind="pet"),
            node("code", "error ERR-4711 at boot", "manual", kind="log"),
            node("lone", "a remark without a document"),
        ]
    )
    return store


def found(store, words: str | None = None, **options) -> list[str]:
    return store.query(VectorStoreQuery(query_str=words, **{"similarity_top_k": 10, **options})).ids


def test_it_is_a_vector_store_that_keeps_texts(store):
    assert BasePydanticVectorStore in UmiVectorStore.__mro__
    assert store.stores_text and store.class_name() == "UmiVectorStore" and len(store.client) == 0


async def test_nodes_come_back_as_they_were(filled):
    (back,) = filled.get_nodes(["cats"])
    assert back == node("cats", "cats sleep all day", "animals", kind="pet")
    assert [one.node_id for one in await filled.aget_nodes(["code", "none", "cats"])] == ["code", "cats"]
    pets = MetadataFilters(filters=[MetadataFilter(key="kind", value="pet")])
    assert [one.node_id for one in filled.get_nodes(filters=pets)] == ["cats", "dogs"]
    assert [one.node_id for one in filled.get_nodes(["dogs", "code"], pets)] == ["dogs"]


async def test_adding_an_id_again_replaces_it_in_both_arms(filled):
    await filled.async_add([node("cats", "quarterly tax statement", "animals")])
    assert found(filled, "sleep all day", mode=Mode.TEXT_SEARCH) == []
    vector = filled.embed_model.get_query_embedding("quarterly tax statement")
    assert found(filled, None, query_embedding=vector)[0] == "cats"
    assert len(filled.client) == 4


async def test_a_document_leaves_both_arms_whole(filled):
    filled.delete("animals")
    assert {"cats", "dogs"}.isdisjoint(found(filled, "cats dogs"))
    filled.delete("animals")
    filled.delete("None")
    await filled.adelete("manual")
    assert [one.node_id for one in filled.get_nodes()] == ["lone"], "a node without a document is in none"


def test_metadata_that_looks_like_a_document_id_is_no_document_id(store):
    store.add([node("a", "text one", "mine", ref_doc_id="yours"), node("b", "text two", ref_doc_id="yours")])
    store.delete("mine")
    assert [one.node_id for one in store.get_nodes()] == ["b"]
    assert store.get_nodes(["b"])[0].metadata == {"ref_doc_id": "yours"}


def test_a_document_that_was_stored_without_a_splitter_leaves_with_its_id(store):
    pipeline = IngestionPipeline(
        transformations=[store.embed_model],
        docstore=SimpleDocumentStore(),
        vector_store=store,
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    mails = [Document(id_=f"mail{n}", text=f"order {n} has shipped") for n in range(3)]
    pipeline.run(documents=mails)
    pipeline.run(documents=mails[:2])
    assert [one.node_id for one in store.get_nodes()] == ["mail0", "mail1"]
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    assert [one.node_id for one in index.as_retriever(doc_ids=["mail1"]).retrieve("order")] == ["mail1"]
    index.delete_ref_doc("mail0")
    assert [one.node_id for one in store.get_nodes()] == ["mail1"]


def test_a_filter_by_ones_own_doc_id_finds_the_nodes_that_state_it(store):
    invoices = [Document(id_=f"file{n}", text="invoice", metadata={"doc_id": f"INV-{n}"}) for n in range(3)]
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(invoices, storage_context=context, embed_model=store.embed_model)
    wanted = MetadataFilters(filters=[MetadataFilter(key="doc_id", value="INV-1")])
    assert [one.node.ref_doc_id for one in index.as_retriever(filters=wanted).retrieve("invoice")] == ["file1"]
    index.delete_ref_doc("file1")
    assert len(store.get_nodes()) == 2


async def test_nodes_can_be_removed_by_id_and_by_filter(filled):
    filled.delete_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="kind", value="log")]))
    await filled.adelete_nodes(["cats"])
    assert [one.node_id for one in filled.get_nodes()] == ["dogs", "lone"]
    with pytest.raises(InputError, match=r"needs node_ids or filters; clear\(\) removes all nodes"):
        filled.delete_nodes()
    await filled.aclear()
    assert len(filled.client) == 0
    filled.clear()


async def test_each_mode_means_what_it_says(filled):
    vector = filled.embed_model.get_query_embedding("sleeping felines")
    words = "ERR-4711"
    assert found(filled, words, mode=Mode.TEXT_SEARCH) == found(filled, words, mode=Mode.SPARSE) == ["code"]
    assert found(filled, words, query_embedding=vector, mode=Mode.HYBRID, alpha=0.0) == ["code"]
    assert found(filled, words, query_embedding=vector, mode=Mode.HYBRID, alpha=1.0)[0] == "cats"
    assert {"code", "cats"} <= set(found(filled, words, query_embedding=vector, mode=Mode.HYBRID, alpha=0.4)[:2])
    assert found(filled, words, query_embedding=vector) == found(
        filled, words, query_embedding=vector, mode=Mode.HYBRID
    )
    assert len(found(filled, words, mode=Mode.HYBRID, hybrid_top_k=1)) == 1
    diverse = VectorStoreQuery(query_str="cats", similarity_top_k=2, mode=Mode.MMR, mmr_threshold=0.0)
    assert filled.query(diverse).ids[0] == "cats" and len((await filled.aquery(diverse)).ids) == 2


@pytest.mark.parametrize(
    "mode", [Mode.SVM, Mode.LOGISTIC_REGRESSION, Mode.LINEAR_REGRESSION, Mode.SEMANTIC_HYBRID, "hybird"]
)
def test_a_mode_that_umi_has_not_is_refused_and_not_silently_dense(filled, mode):
    with pytest.raises(ConfigError, match=getattr(mode, "value", mode)):
        found(filled, "cats", mode=mode)


def test_an_alpha_of_numpy_is_a_number(filled):
    query = {"query_embedding": filled.embed_model.get_query_embedding("cats"), "mode": Mode.HYBRID}
    assert found(filled, "cats", alpha=np.float32(0.5), **query) == found(filled, "cats", alpha=0.5, **query)


@pytest.mark.parametrize("alpha", [2.0, "0.5"])
def test_an_alpha_that_is_no_share_is_refused(filled, alpha):
    with pytest.raises(ConfigError, match="alpha"):
        found(filled, "cats", mode=Mode.HYBRID, alpha=alpha)


def test_a_query_can_be_held_to_documents_nodes_and_filters(filled):
    assert set(found(filled, "the day house error", doc_ids=["animals"])) == {"cats", "dogs"}
    assert found(filled, "the day house error", node_ids=["dogs", "code"], doc_ids=["animals"]) == ["dogs"]
    pets = MetadataFilters(filters=[MetadataFilter(key="kind", value="pet", operator=FilterOperator.NE)])
    assert set(found(filled, "cats", filters=pets)) <= {"code", "lone"}
    assert found(filled, "cats", doc_ids=[]) == found(filled, "", doc_ids=[], filters=pets) == []
    with pytest.raises(FilterError):
        found(filled, "cats", filters=MetadataFilters(filters=[]))


async def test_asynchronous_answers_are_the_same(filled):
    query = VectorStoreQuery(query_str="cats in the house", similarity_top_k=3)
    assert await filled.aquery(query) == filled.query(query)


def test_embeddings_given_are_used_and_missing_ones_are_made():
    embedder = CountingEmbedder(HashEmbedder(16))
    store = UmiVectorStore(embedder)
    store.add([node("given", "text one", vector=HashEmbedder(16).embed_documents(["x"])[0].tolist())])
    assert embedder.texts == []
    store.add([node("a", "text two", vector=[1.0] * 16), node("b", "text three")])
    assert embedder.texts == ["text three"]
    with pytest.raises(InvalidVector):
        store.add([node("c", "text four", vector=[1.0] * 8)])
    assert len(store.client) == 3
    store.close()


def test_a_service_that_fails_once_and_takes_small_batches_embeds_the_nodes_without_an_embedding():
    class Service(HashEmbedder):
        calls = 0

        def embed_documents(self, texts):
            self.calls += 1
            if self.calls == 1:
                raise ConnectionError("502 Bad Gateway")
            assert len(texts) <= 256
            return super().embed_documents(texts)

    nodes = [node(f"n{at}", f"text {at}", vector=None if at else [1.0] * 16) for at in range(600)]
    with UmiVectorStore(Service(16)) as store:
        store.add(nodes)
        assert len(store.client) == 600
    with UmiVectorStore(FaultyEmbedder(HashEmbedder(16), fault="nan")) as store:
        with pytest.raises(EmbedderError, match=r"NaN or infinity for chunk 'n1'; nothing was stored"):
            store.add(nodes)
        assert store.get_nodes() == []


def test_embeddings_of_another_dimension_are_refused_before_a_store_holds_them(tmp_path):
    """Else the directory holds vectors that no model can search, and cannot be opened again."""
    store = UmiVectorStore(persist_dir=str(tmp_path / "s"))
    with pytest.raises(InvalidVector, match=r"node 'c': .*has 8 .* gives 256; .*embed_model=store\.embed_model"):
        store.add([node("c", "text four", vector=[1.0] * 8)])
    store.add([node("c", "text four")])
    index = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(8))
    with pytest.raises(InvalidVector, match=r"embed_model=store\.embed_model"):
        index.as_retriever().retrieve("text")
    store.close()


def test_embeddings_of_another_model_with_the_same_dimension_are_told_once_before_a_search(caplog):
    texts = ["The boiler leaks.", "Ann moved to Lisbon.", "The canteen serves fish."]
    theirs = [vector.tolist() for vector in HashEmbedder(256).embed_documents(texts)]
    for vectors, warned in ((theirs, 1), (UmiEmbedding().get_text_embedding_batch(texts), 0), ([None] * 3, 0)):
        caplog.clear()
        with UmiVectorStore() as store:
            store.retriever()
            store.add([node(id, text, vector=vector) for id, text, vector in zip("abc", texts, vectors, strict=True)])
            assert [len(store.retriever().retrieve("boiler")) for _ in range(2)] == [3, 3]
        told = [record.message for record in caplog.records if "another model" in record.message]
        assert len(told) == warned and all("embed_model=store.embed_model" in line for line in told)


def test_a_model_that_is_down_does_not_keep_a_store_from_giving_its_retriever():
    with UmiVectorStore(FaultyEmbedder(HashEmbedder(8))) as store:
        store.add([node("a", "text one", vector=[1.0] * 8)])
        assert [hit.node.node_id for hit in store.retriever().retrieve("text")] == ["a"]


def test_a_model_that_hangs_does_not_keep_a_store_from_giving_its_retriever():
    answers = threading.Event()

    class Hanging(HashEmbedder):
        def embed_documents(self, texts):
            answers.wait(30)
            return super().embed_documents(texts)

    with UmiVectorStore(Hanging(8), recall={"embedder_timeout_seconds": 0.1}) as store:
        store.add([node("a", "text one", vector=[1.0] * 8)])
        begun = time.monotonic()
        store.retriever()
        assert time.monotonic() - begun < 10
        answers.set()


async def test_a_blank_query_lists_what_passes_its_filter(filled):
    pets = MetadataFilters(filters=[MetadataFilter(key="kind", value="pet")])
    vector = filled.embed_model.get_query_embedding("")
    for blank in ({"words": ""}, {"words": " "}, {"words": "", "query_embedding": vector}):
        assert found(filled, filters=pets, **blank) == ["cats", "dogs"]
    asked = VectorStoreQuery(query_str="", query_embedding=vector, similarity_top_k=1, doc_ids=["animals"])
    answer = await filled.aquery(asked)
    assert answer.ids == ["cats"] and answer.similarities == [0.0] and answer.nodes[0].text == "cats sleep all day"
    assert found(filled, "") == []


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.HYBRID, Mode.MMR, Mode.SPARSE, Mode.TEXT_SEARCH])
def test_a_query_without_text_and_vector_says_what_to_give_and_lists_by_its_filter(filled, mode):
    with pytest.raises(EmptyQuery, match="nothing to search for; give query_str"):
        filled.query(VectorStoreQuery(similarity_top_k=2, mode=mode))
    assert found(filled, None, doc_ids=["animals"], mode=mode) == ["cats", "dogs"]


@pytest.mark.parametrize("mode", [Mode.SPARSE, Mode.TEXT_SEARCH])
def test_the_limit_of_sparse_search_is_that_of_its_mode(filled, mode):
    assert len(found(filled, "cats dogs ERR-4711", mode=mode)) > 1
    assert len(found(filled, "cats dogs ERR-4711", mode=mode, sparse_top_k=1)) == 1
    assert len(found(filled, "cats dogs ERR-4711", sparse_top_k=1)) > 1
    with pytest.raises(InvalidLimit, match="sparse_top_k 0"):
        found(filled, "cats", mode=mode, sparse_top_k=0)


def test_its_embed_model_makes_the_stores_vectors(store):
    model = store.embed_model
    assert isinstance(model, UmiEmbedding) and model.class_name() == "UmiEmbedding"
    assert model.get_text_embedding("cats") == store.client.embedder.embed_documents(["cats"])[0].tolist()


def documents(*texts: str) -> list[Document]:
    return [Document(id_=f"doc{i}", text=text) for i, text in enumerate(texts)]


def pipeline_into(store: UmiVectorStore, strategy: DocstoreStrategy) -> IngestionPipeline:
    splitter = TokenTextSplitter(chunk_size=20, chunk_overlap=0)
    return IngestionPipeline(
        transformations=[splitter, store.embed_model],
        vector_store=store,
        docstore=SimpleDocumentStore(),
        docstore_strategy=strategy,
    )


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_pipeline_with_a_docstore_keeps_both_arms_in_step(store, asynchronous):
    pipeline = pipeline_into(store, DocstoreStrategy.UPSERTS_AND_DELETE)

    async def run(*texts: str) -> int:
        given = documents(*texts)
        return len(await pipeline.arun(documents=given) if asynchronous else pipeline.run(documents=given))

    zebras = "zebras graze near the river " * 10
    assert await run(zebras, "lions wait in the grass") > 2
    assert await run(zebras, "lions wait in the grass") == 0, "nothing changed"
    before = len(store.client)
    assert await run("otters swim", "lions wait in the grass") == 1
    assert len(store.client) == 2 < before
    assert found(store, "zebras", mode=Mode.TEXT_SEARCH) == []
    assert all("zebra" not in one.get_content() for one in store.query(VectorStoreQuery(query_str="zebras")).nodes)
    assert await run("otters swim") == 0
    assert [one.get_content() for one in store.get_nodes()] == ["otters swim"], "doc1 is gone, and from both arms"
    assert found(store, "lions", mode=Mode.TEXT_SEARCH) == []


def test_a_document_that_cannot_be_stored_does_not_take_the_others_out_of_a_pipelines_store():
    """The pipeline removes the old nodes of all changed documents before it adds, and passes no arguments."""
    with UmiVectorStore(on_invalid="skip") as store:
        pipeline = IngestionPipeline(
            transformations=[store.embed_model],
            vector_store=store,
            docstore=SimpleDocumentStore(),
            docstore_strategy=DocstoreStrategy.UPSERTS,
        )
        for what, size in (("old", 1), ("new", 10**30)):
            pipeline.run(
                documents=[
                    Document(id_="a", text=f"{what} zebras"),
                    Document(id_="b", text=f"{what} lions", metadata={"size": size}),
                    Document(id_="c", text=" "),
                    Document(id_="d", text=f"{what} otters"),
                ]
            )
        assert sorted(kept.get_content() for kept in store.get_nodes()) == ["new otters", "new zebras"]
        assert [gone.id for gone in store.skipped if "64 bits" in gone.reason] == ["b"]


def test_a_node_that_cannot_be_stored_says_how_to_leave_it_out():
    wrong = [node("a", "zebras"), node("b", "lions", size=10**30), node("b", "twice")]
    with UmiVectorStore() as store, pytest.raises(InvalidChunk, match=r'node 1: .*UmiVectorStore\(on_invalid="skip"\)'):
        store.add(wrong)
    with UmiVectorStore(on_invalid="skip") as store:
        assert store.add([*wrong, node("a", "lynxes")]) == ["a", "b", "b", "a"]  # aligned, as an index expects
        assert sorted(kept.get_content() for kept in store.get_nodes()) == ["twice", "zebras"]
        assert [(gone.place, gone.id) for gone in store.skipped] == [(1, "b"), (3, "a")]
        of_lions, of_cats = store.embed_model.get_text_embedding_batch(["lions", "cats"])
        store.add([node("c", "lions", vector=of_lions, size=10**30), node("c", "cats", vector=of_cats)])
        assert store.client.vectors(["c"])[0].tolist() == pytest.approx(of_cats, abs=1e-3)
    with pytest.raises(ConfigError, match="expected 'raise' or 'skip'"):
        UmiVectorStore(on_invalid="ignore")


def test_a_node_with_a_source_but_no_document_is_in_no_document(store):
    store.add([node("a", "zebras", source="zoo.md"), node("b", "lions", "doc1", source="zoo.md")])
    assert {id: info.node_ids for id, info in store.ref_doc_info.items()} == {"doc1": ["b"]}


def test_a_node_may_replace_a_chunk_without_a_position(store):
    store.client.add([Chunk("a", "zebras", source="doc1")])
    assert store.add([node("a", "zebras graze", "doc1")]) == ["a"]


def test_a_source_beyond_64_bits_does_not_take_the_other_nodes_out():
    with UmiVectorStore(on_invalid="skip") as store:
        store.add([TextNode(text="lions", metadata={"source": 2**70}), TextNode(text="zebras", metadata={"source": 5})])
        assert [kept.get_content() for kept in store.get_nodes()] == ["zebras"]
        assert ["64 bits" in gone.reason for gone in store.skipped] == [True]


async def test_a_blank_document_does_not_take_the_others_out_of_a_pipelines_store(store, caplog):
    """A pipeline removes the old nodes of changed documents before it adds the new ones."""
    pipeline = pipeline_into(store, DocstoreStrategy.UPSERTS_AND_DELETE)
    pipeline.run(documents=documents("zebras graze", "lions wait"))
    pipeline.run(documents=documents("otters swim", "", "lions wait"))
    assert sorted(one.get_content() for one in store.get_nodes()) == ["lions wait", "otters swim"]
    assert "1 nodes without text are left out" in caplog.text
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    index.refresh_ref_docs(documents("", "birds sing"))
    assert found(store, "birds", mode=Mode.TEXT_SEARCH)


def test_nodes_of_one_document_stand_in_the_order_of_their_text(store):
    pipeline_into(store, DocstoreStrategy.UPSERTS).run(documents=documents(" ".join(f"word{i}" for i in range(40))))
    chunks = [chunk for chunk in store.client.get(store.client.ids()) if chunk is not None]
    in_order = sorted(chunks, key=lambda chunk: chunk.position)
    assert " ".join(chunk.text for chunk in in_order) == " ".join(f"word{i}" for i in range(40))
    assert {chunk.source for chunk in chunks} == {"doc0"}


async def test_an_index_over_it_inserts_retrieves_and_deletes(store):
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(
        documents("cats sleep", "dogs bark"),
        storage,
        embed_model=store.embed_model,
        transformations=[TokenTextSplitter()],
    )
    retriever = index.as_retriever(similarity_top_k=2)
    assert retriever.retrieve("cats")[0].node.get_content() == "cats sleep"
    assert (await retriever.aretrieve("dogs"))[0].node.ref_doc_id == "doc1"
    index.insert(Document(id_="doc2", text="birds sing"))
    assert store.retriever().retrieve(UmiQuery("birds", limit=1))[0].node.ref_doc_id == "doc2"
    index.delete_ref_doc("doc0", delete_from_docstore=True)
    assert len(store.client) == 2


async def test_llamaindexs_own_vector_memory_runs_on_it(store):
    block = VectorMemoryBlock(vector_store=store, embed_model=store.embed_model)
    await block.aput([ChatMessage(role="user", content="my cat is called Minka")], session_id="s")
    assert "Minka" in await block.aget([ChatMessage(role="user", content="cat?")], session_id="s")


def test_what_was_written_is_there_after_reopening(tmp_path):
    first = UmiVectorStore(persist_dir=str(tmp_path / "umi"))
    first.add([node("a", "a durable text")])
    with pytest.raises(ConfigError):
        UmiVectorStore(persist_dir=str(tmp_path / "other"), llm=object())
    twice = UmiVectorStore(persist_dir=str(tmp_path / "umi"))
    first.close()
    assert found(twice, "durable") == ["a"]
    twice.close()
    second = UmiVectorStore(persist_dir=str(tmp_path / "umi"))
    assert found(second, "durable") == ["a"]
    second.close()
    again = UmiVectorStore(persist_dir=str(tmp_path / "other"))
    again.close()


def test_the_first_filter_after_reopening_does_not_read_every_node(tmp_path, monkeypatch):
    store = UmiVectorStore(persist_dir=str(tmp_path))
    store.add([node(f"n{at}", f"cats sleep {at}", "animals", kind="pet" if at % 2 else "wild") for at in range(6)])
    store.close()
    again, read = UmiVectorStore(persist_dir=str(tmp_path)), []
    monkeypatch.setattr(Ledger, "texts", lambda *arguments, **options: read.append(arguments) or iter(()))
    pets = MetadataFilters(filters=[MetadataFilter(key="kind", value="pet")])
    assert sorted(each.node.node_id for each in again.retriever(filters=pets).retrieve("cats")) == ["n1", "n3", "n5"]
    again.delete("animals")
    assert again.get_nodes() == [] and read == []
    again.close()


def test_a_table_that_an_index_node_refers_to_is_found_also_after_reopening(tmp_path):
    table = TextNode(id_="table", text="lamp 20, car 3000", metadata={"on": date(2024, 5, 1)})
    summary = IndexNode(id_="summary", text="a table of prices", index_id="prices", obj=table)
    for _ in range(2):
        with UmiVectorStore(persist_dir=str(tmp_path)) as store:
            if not store.get_nodes():
                store.add([summary, IndexNode(text="an engine", index_id="engine", obj=object())])
            index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
            for retriever in (store.retriever(), index.as_retriever()):
                assert retriever.retrieve("prices")[0].node.get_content() == table.text
    assert summary.obj is table and table.metadata == {"on": date(2024, 5, 1)}


class Engine(CustomQueryEngine):
    """Answers every question alike."""

    def custom_query(self, query_str: str) -> str:
        return "Zebras: 30, lions: 2."


def test_an_engine_that_an_index_node_refers_to_answers_in_the_stores_retriever(tmp_path):
    with UmiVectorStore(persist_dir=str(tmp_path)) as store:
        store.add([IndexNode(text="the table of animals", index_id="table", obj=Engine()), node("a", "tea")])
        assert "Zebras: 30, lions: 2." in [hit.node.get_content() for hit in store.retriever().retrieve("animals")]
        with pickle.loads(pickle.dumps(store)) as other:  # noqa: S301 - our own bytes
            assert other.retriever().retrieve("animals")


def test_messages_that_are_added_at_the_same_time_get_places_of_their_own():
    """As `asyncio.gather(*(store.async_add(part) for part in parts))` does."""
    with UmiVectorStore(RemoteModel(seconds=0.05)) as store, ThreadPoolExecutor(8) as threads:
        list(threads.map(store.add, [[node(str(n), f"message {n}", source="chat")] for n in range(24)]))
        assert len({chunk.position for chunk in store.client.scan()}) == 24


@pytest.mark.parametrize("session", ["5", 5, 1.5])
def test_messages_added_after_a_restart_follow_the_stored_ones_if_the_session_is_a_number(tmp_path, session):
    for number in range(3):
        with UmiVectorStore(HashEmbedder(8), str(tmp_path)) as store:
            store.add([node(str(number), f"message {number}", source=session)])
            assert store.client.get([str(number)])[0].position == number


def test_many_messages_with_one_number_as_session_are_added_at_once(monkeypatch):
    monkeypatch.setattr("umi_common.filters.parse.VALUES_MAX", 20)
    with UmiVectorStore(HashEmbedder(8)) as store:
        store.add([node(str(number), f"message {number}", source=5) for number in range(30)])
        assert store.client.get(["29"])[0].position == 29


def test_a_message_that_could_not_be_embedded_leaves_its_place_to_the_next():
    with UmiVectorStore(FaultyEmbedder(HashEmbedder(8), "fails")) as store:
        store.add([node("a", "message one", source="chat")])
        with pytest.raises(EmbedderError):
            store.add([node("b", "message two fails", source="chat")])
        store.add([node("c", "message three", source="chat")])
        assert {chunk.id: chunk.position for chunk in store.client.scan()} == {"a": 0, "c": 1}


def test_a_store_of_the_callers_stays_open(filled):
    with pytest.raises(ConfigError, match="store="):
        UmiVectorStore(HashEmbedder(), store=filled.client)
    borrowed = UmiVectorStore(store=filled.client)
    borrowed.close()
    assert len(filled.client) == 4


async def test_where_among_the_kwargs_filters_as_over_chroma(filled):
    index = VectorStoreIndex.from_vector_store(filled, embed_model=filled.embed_model)
    retriever = index.as_retriever(similarity_top_k=10, vector_store_kwargs={"where": {"kind": "log"}})
    assert [found.node_id for found in retriever.retrieve("cats")] == ["code"]
    assert [found.node_id for found in await retriever.aretrieve("cats")] == ["code"]
    pets = MetadataFilters(filters=[MetadataFilter(key="kind", value="pet")])
    both = VectorStoreQuery(query_str="cats", similarity_top_k=10, filters=pets)
    assert filled.query(both, where={"kind": "log"}).ids == []
    with pytest.raises(ConfigError, match="no option 'where_document'"):
        filled.query(both, where_document={"$contains": "cats"})


def test_the_threshold_of_mmr_may_stand_among_the_kwargs_as_in_llamaindexs_own_stores(store):
    store.add(
        [node("c1", "cats sleep all day"), node("c2", "cats sleep all the day"), node("d", "cats and dogs guard")]
    )
    asked = {"query_str": "cats sleep all day", "similarity_top_k": 2, "mode": Mode.MMR}
    for threshold in (0.0, 1.0):
        stated = store.query(VectorStoreQuery(**asked, mmr_threshold=threshold)).ids
        assert store.query(VectorStoreQuery(**asked), mmr_threshold=threshold).ids == stated
    assert store.query(VectorStoreQuery(**asked), mmr_threshold=0.0).ids != stated
    assert store.query(VectorStoreQuery(**asked), mmr_threshold=1.0, mmr_prefetch_k=None).ids == stated
    assert store.query(VectorStoreQuery(**asked), mmr_threshold=1.0, mmr_prefetch_factor=None).ids == stated


async def test_a_delete_of_nodes_with_an_argument_that_there_is_not_removes_nothing(filled):
    with pytest.raises(ConfigError, match="expected one of node_ids, filters"):
        filled.delete_nodes(["cats", "code"], where={"kind": "log"})
    with pytest.raises(ConfigError, match="expected one of node_ids, filters"):
        await filled.adelete_nodes(["cats", "code"], where={"kind": "log"})
    with pytest.raises(ConfigError, match="no option 'where'"):
        filled.delete("animals", where={"kind": "log"})
    with pytest.raises(ConfigError, match="no option 'where'"):
        await filled.adelete("animals", where={"kind": "log"})
    assert len(filled.client) == 4


def test_nodes_of_a_generator_are_stored_like_those_of_a_list(store):
    texts = ["Ann met Bob in Paris.", "Carl met Dora in Oslo."]
    assert store.add(node(str(n), text) for n, text in enumerate(texts)) == ["0", "1"]
    assert found(store, "Ann")[0] == "0"
    with UmiRetriever.from_nodes(node(str(n), text) for n, text in enumerate(texts)) as retriever:
        assert len(retriever.retrieve("who met Bob?")) == 2
    splitter = TokenTextSplitter()
    with UmiRetriever.from_documents((Document(text=text) for text in texts), [splitter]) as retriever:
        assert len(retriever.retrieve("who met Bob?")) == 2


@pytest.mark.parametrize("lost", [None, 5])
async def test_the_id_of_a_document_that_was_lost_does_not_remove_the_nodes_without_a_document(filled, lost):
    with pytest.raises(InputError, match=f"ref_doc_id is {lost}; expected the id of a document"):
        filled.delete(lost)
    with pytest.raises(InputError, match="ref_doc_id"):
        await filled.adelete(lost)
    assert len(filled.client) == 4


def test_half_an_emoji_in_a_question_does_not_stop_an_index_over_the_store(filled):
    index = VectorStoreIndex.from_vector_store(filled, embed_model=filled.embed_model)
    assert index.as_retriever().retrieve("who guards the house? \ud83d")[0].node.node_id == "dogs"


class OfPets(UmiVectorStore):
    """Searches pets alone."""

    def query(self, query, **kwargs):
        return super().query(query, where={"kind": "pet"}, **kwargs)


async def test_what_a_subclass_changes_in_a_query_holds_for_the_asynchronous_one(filled):
    retriever = VectorStoreIndex.from_vector_store(
        OfPets(store=filled.client), embed_model=filled.embed_model
    ).as_retriever(similarity_top_k=10)
    pets = {hit.node.node_id for hit in retriever.retrieve("error at boot")}
    assert pets == {hit.node.node_id for hit in await retriever.aretrieve("error at boot")} == {"cats", "dogs"}


def test_a_cell_with_a_store_or_a_retriever_in_it_shows_where_the_nodes_are(tmp_path):
    with UmiVectorStore(persist_dir=str(tmp_path / "memory")) as store:
        where = f"HybridStore({str(tmp_path / 'memory')!r})"
        assert repr(store) == f"UmiVectorStore({where})"
        assert repr(store.retriever()) == f"UmiRetriever(DualRetriever({where}), similarity_top_k=10)"


def places(store):
    return {chunk.id: chunk.position for chunk in store.client.get(store.client.ids())}


def turn(number, text="said {}", **more):
    return TextNode(id_=f"t{number}", text=text.format(number), metadata={"source": "chat", **more})


def test_sections_that_are_added_in_several_calls_follow_one_another():
    with UmiVectorStore() as store:
        for number in range(3):
            store.add([turn(number)])
        store.add([turn(3), turn(4), TextNode(id_="x", text="elsewhere", metadata={"source": "other"})])
        assert places(store) == {"t0": 0, "t1": 1, "t2": 2, "t3": 3, "t4": 4, "x": 0}
        near = store.client.neighbours(["t1"], reach=1)["t1"]
        assert [chunk.id for chunk in near] == ["t0", "t1", "t2"]


def test_sections_that_are_added_again_keep_their_places():
    with UmiVectorStore() as store:
        store.add([turn(0), turn(1)])
        store.add([turn(2), turn(3)])
        before = places(store)
        store.add([turn(2), turn(3, "changed {}")])
        assert places(store) == before
        store.add([turn(0), turn(1), turn(2), turn(3), turn(4)])
        assert places(store) == {**before, "t4": 4}
        store.add([turn(9, position=2)])  # its metadata states one
        assert places(store)["t9"] == 2


def test_places_are_counted_anew_after_a_source_was_removed_and_go_on_in_another_process(tmp_path):
    with UmiVectorStore(persist_dir=str(tmp_path)) as store:
        store.add([turn(0), turn(1)])
        store.delete_nodes(["t0", "t1"])
        store.add([turn(2)])
    with UmiVectorStore(persist_dir=str(tmp_path)) as store:
        store.add([turn(3)])
        assert places(store) == {"t2": 0, "t3": 1}


def test_nodes_of_more_sources_than_one_filter_should_name_follow_the_stored_ones():
    with UmiVectorStore(HashEmbedder(dim=8)) as store:  # 50,001 sources were refused as the values of a filter
        store.add([turn(0, source="page 7")])
        store.add([turn(number, source=f"page {number}") for number in range(1, 1_010)])
        assert places(store)["t7"] == 1 and places(store)["t1009"] == 0


def test_pages_of_a_file_that_are_added_one_by_one_follow_one_another():
    with UmiVectorStore(source_key="file_path") as store:
        for page in (1, 2):
            store.add(page_nodes(page))
        assert places(store) == {"1/0": 0, "1/400": 400, "2/0": 401, "2/400": 801}


def test_messages_that_two_vector_stores_add_to_one_chat_by_turns_follow_one_another(store):
    with UmiVectorStore(store=store.client) as other:
        for turn in range(4):
            (store, other)[turn % 2].add([node(f"{turn}{n}", f"message {n}", source="chat") for n in range(2)])
    assert [chunk.position for chunk in store.client.scan()] == list(range(8))


def test_a_vector_store_is_not_read_from_json_and_the_message_says_how_to_open_it(store):
    with pytest.raises(ConfigError, match=r"cannot be read from JSON.*UmiVectorStore\(persist_dir="):
        UmiVectorStore.from_json(store.to_json())


def test_an_engine_that_the_directory_cannot_hold_is_told(tmp_path, caplog):
    with UmiVectorStore(persist_dir=str(tmp_path)) as store:
        store.add([node("a", "tea")])
        assert "engines" not in caplog.text
        engine = Engine()
        store.add([IndexNode(text="the table of animals", index_id="table", obj=engine)])
        assert "must give them to retriever(object_map={index_id: engine})" in caplog.text
    with UmiVectorStore(persist_dir=str(tmp_path), read_only=True) as again:
        (best, *_) = again.retriever(object_map={"table": engine}).retrieve("animals")
        assert best.node.get_content() == "Zebras: 30, lions: 2."


async def test_an_index_with_images_and_objects_still_finds_its_texts(tmp_path):
    text = TextNode(text="The valve was ordered from Kessler.", id_="text")
    lion = ImageNode(text="photo of a lion", image="aGk=", id_="lion")
    plan = IndexNode(text="plan of the valve", index_id="plan", id_="plan", obj=TextNode(text="the plan", id_="drawn"))
    store = UmiVectorStore(persist_dir=str(tmp_path / "store"))
    kept = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex([text], objects=[plan], storage_context=kept, embed_model=store.embed_model)
    index.insert_nodes([lion])

    async def found(index, **options):
        retriever = index.as_retriever(similarity_top_k=5, **options)
        ids = {item.node_id for item in retriever.retrieve("who sold the valve?")}
        assert ids == {item.node_id for item in await retriever.aretrieve("who sold the valve?")}
        return ids

    assert await found(index) == {"text", "lion", "drawn"}
    assert await found(index, vector_store_query_mode="mmr") == {"text", "lion", "drawn"}
    index.delete_nodes(["lion", "plan"])  # a VectorStoreIndex keeps the ids of its list
    assert await found(index) == {"text"}
    index.insert_nodes([lion])
    kept.persist(str(tmp_path / "index"))
    store.close()
    with UmiVectorStore(persist_dir=str(tmp_path / "store")) as again:
        kept = StorageContext.from_defaults(vector_store=again, persist_dir=str(tmp_path / "index"))
        assert await found(load_index_from_storage(kept, embed_model=again.embed_model)) == {"text", "lion"}


def test_node_ids_that_name_a_text_filter_however_many_images_are_among_them():
    with UmiVectorStore() as store:
        store.add([TextNode(text=f"valve {name}", id_=name) for name in ("a", "b")])
        store.add([ImageNode(text="photo of a valve", image="aGk=", id_="lion")])
        assert found(store, "valve", node_ids=["lion", "a"]) == found(store, "valve", node_ids=["a", "lion", "gone"])
        assert set(found(store, "valve", node_ids=["lion", "a"])) == {"a", "lion"}
        assert found(store, "valve", node_ids=["gone"]) == []


@pytest.mark.parametrize("removed_first", [True, False])
def test_a_node_id_that_was_an_images_and_is_a_texts_now_filters(removed_first):
    with UmiVectorStore() as store:
        store.add([TextNode(text="valve a", id_="a"), ImageNode(text="photo of a valve", image="aGk=", id_="lion")])
        if removed_first:
            store.delete_nodes(["lion"])
        store.add([TextNode(text="the valve is broken", id_="lion")])
        assert found(store, "valve", node_ids=["lion"]) == ["lion"]


def test_a_document_that_a_text_of_another_writer_states_is_known_and_can_be_deleted():
    with HybridStore.open() as core, UmiVectorStore(store=core) as store:
        core.add(
            [Chunk("c1", "valve", source="doc1", position=0), Chunk("c2", "pump", source="doc2"), Chunk("c3", "?x")]
        )
        store.add([node("n1", "valve of a node", "doc1"), node("n2", "pump of a node", "doc3", source="doc2")])
        assert [one.ref_doc_id for one in store.get_nodes(["c1", "c2", "c3"])] == ["doc1", "doc2", None]
        assert {id: info.node_ids for id, info in store.ref_doc_info.items()} == {
            "doc1": ["c1", "n1"],
            "doc2": ["c2"],
            "doc3": ["n2"],
        }
        store.delete("doc1")
        assert sorted(core.ids()) == ["c2", "c3", "n2"]
        store.delete("doc2")
        assert sorted(core.ids()) == ["c3", "n2"]
