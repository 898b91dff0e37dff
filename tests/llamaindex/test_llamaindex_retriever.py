"""The LlamaIndex retriever: the contract, the options, what it is made from, and engines over it."""

from __future__ import annotations

import asyncio
import copy
import gc
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import chromadb
import llama_index.core.instrumentation as instrument
import pytest
from llama_index.core import Document, MockEmbedding, PromptTemplate, StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine, TransformQueryEngine
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.vector_stores.chroma import ChromaVectorStore

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))
from loop_watch import held

from umi_common.embedders import default_embedder
from umi_common.errors import (
    ConfigError,
    DuplicateId,
    FilterError,
    InputError,
    InvalidLimit,
    InvalidTimeRange,
    ReindexRequired,
)
from umi_common.sim import FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.tenants import Tenants
from umi_common.types import Chunk
from umi_llamaindex import UmiEmbedding, UmiQuery, UmiRetriever

# resolve_embed_model imports whatever langchain-community is installed, which warns about itself.
pytestmark = pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")

QUESTION = "run a coroutine with a timeout"
LOOP_SECONDS = 0.05
MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)


@pytest.fixture
def retriever(nodes):
    made = UmiRetriever.from_nodes(nodes, similarity_top_k=5)
    yield made
    made.close()


@pytest.fixture
def notes():
    texts = ["Ann met Bob", "Bob met Carl", "Carl met Dora", "Dora met Ann"]
    hidden = {"excluded_embed_metadata_keys": ["user", "timestamp"]}
    made = UmiRetriever.from_nodes(
        [
            TextNode(id_=f"n{i}", text=text, metadata={"user": user, "timestamp": MAY + timedelta(days=i)}, **hidden)
            for i, (text, user) in enumerate(zip(texts, ["ann", "bob", "ann", "bob"], strict=True))
        ]
    )
    yield made
    made.close()


def of_user(name: str) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key="user", value=name, operator=FilterOperator.EQ)])


def ids(found: list[NodeWithScore]) -> list[str]:
    return [item.node.node_id for item in found]


def test_it_is_a_retriever():
    assert BaseRetriever in UmiRetriever.__mro__


def test_nodes_are_those_of_the_core_with_its_scores(retriever, nodes):
    result = retriever.umi.search(QUESTION, limit=5)
    found = retriever.retrieve(QUESTION)
    assert ids(found) == result.ids
    assert [item.score for item in found] == [hit.score for hit in result]
    assert [item.node for item in found] == [next(n for n in nodes if n.node_id == id) for id in result.ids]


async def test_asynchronous_retrieval_gives_the_same(retriever):
    assert await retriever.aretrieve(QUESTION) == retriever.retrieve(QUESTION)


def test_nodes_and_bundles_given_are_not_changed(nodes):
    before = copy.deepcopy(nodes[:20])
    bundle = UmiQuery(QUESTION, limit=3)
    bundle_before = copy.deepcopy(bundle)
    retriever = UmiRetriever.from_nodes(nodes[:20])
    retriever.retrieve(bundle)[0].node.metadata["module"] = "changed"
    assert nodes[:20] == before and bundle == bundle_before
    assert retriever.retrieve(bundle)[0].node.metadata["module"] != "changed"
    retriever.close()


async def test_a_query_carries_its_own_options(notes):
    assert len(notes.retrieve(UmiQuery("met", limit=2))) == 2
    assert len(await notes.aretrieve(UmiQuery("met", limit=2))) == 2
    assert set(ids(await notes.aretrieve(UmiQuery("met", filters=of_user("ann"))))) == {"n0", "n2"}
    assert set(ids(notes.retrieve(UmiQuery("met", filters={"user": "ann"})))) == {"n0", "n2"}
    assert set(ids(notes.retrieve(UmiQuery("met", time_range=(MAY + timedelta(days=2), None))))) == {"n2", "n3"}


async def test_the_present_and_the_history_reach_the_core(notes, monkeypatch):
    seen = []
    search, asearch = notes.umi.search, notes.umi.asearch
    monkeypatch.setattr(notes.umi, "search", lambda query, **options: seen.append(options) or search(query, **options))
    monkeypatch.setattr(
        notes.umi, "asearch", lambda query, **options: seen.append(options) or asearch(query, **options)
    )
    query = UmiQuery("met yesterday", now=MAY, history=("hello",), deep_search=False)
    assert notes.retrieve(query) == await notes.aretrieve(query)
    assert seen[0] == seen[1]
    assert (seen[0]["now"], seen[0]["history"], seen[0]["deep_search"]) == (MAY, ("hello",), False)


def test_a_query_without_a_text_is_refused_by_a_typed_error(notes):
    with pytest.raises(InputError, match="query is NoneType"):
        notes.retrieve(UmiQuery(None))


def test_no_history_may_be_written_as_none_and_a_number_is_refused(notes):
    assert notes.retrieve(UmiQuery("met", history=None)) == notes.retrieve("met")
    with pytest.raises(InputError, match="history is int; expected a list"):
        notes.retrieve(UmiQuery("met", history=5))


def test_a_querys_filters_narrow_the_retrievers_own_and_never_widen_them(notes):
    anns = UmiRetriever.from_store(notes.umi.store, filters=of_user("ann"))
    assert set(ids(anns.retrieve("met"))) == {"n0", "n2"}
    assert anns.retrieve(UmiQuery("met", filters=of_user("bob"))) == []


def test_a_filter_that_its_caller_changes_for_the_next_user_stays_as_it_was():
    nodes = [TextNode(text=f"{user}'s secret", metadata={"user": user}) for user in ("ann", "bob")]
    scope, of = {"user": ""}, {}
    with UmiRetriever.from_nodes(nodes) as every:
        for user in ("ann", "bob"):
            scope["user"] = user
            of[user] = UmiRetriever(every.umi, filters=scope)
        assert [found.text for found in of["ann"].retrieve("secret")] == ["ann's secret"]


@pytest.mark.parametrize("lost", ["", [], 0, False])
def test_a_filter_that_was_lost_is_refused_and_does_not_open_everything(notes, lost):
    with pytest.raises(FilterError, match=r"filter .*expected a dict"):
        notes.retrieve(UmiQuery("met", filters=lost))
    with pytest.raises(FilterError, match=r"filter .*expected a dict"):
        UmiRetriever.from_store(notes.umi.store, filters=lost)
    assert notes.retrieve(UmiQuery("met", filters={})) == notes.retrieve("met")


def test_the_bundles_embedding_is_the_querys_vector(notes):
    vector = default_embedder().embed_documents(["Carl met Dora"])[0].tolist()
    (first, *_) = notes.retrieve(QueryBundle("zzz", embedding=vector))
    assert first.node.node_id == "n2"


async def test_custom_embedding_strings_are_embedded_in_the_querys_place(notes):
    bundle = QueryBundle("zzz", custom_embedding_strs=["Carl met Dora"])
    assert ids(notes.retrieve(bundle))[0] == ids(await notes.aretrieve(bundle))[0] == "n2"


def test_custom_embedding_strings_that_cannot_be_embedded_are_told_and_the_text_is_searched(caplog):
    store = HybridStore.open(embedder=FaultyEmbedder(HashEmbedder(), fail_on="poison"))
    store.add([Chunk("n1", "Carl met Dora"), Chunk("n2", "The roofers come in May")])
    found = UmiRetriever.from_store(store).retrieve(QueryBundle("the roofers", custom_embedding_strs=["poison"]))
    assert ids(found)[0] == "n2"
    assert "custom_embedding_strs of a query could not be embedded" in caplog.text and "poison" not in caplog.text


def test_wrong_options_are_refused(retriever):
    with pytest.raises(ConfigError, match="top_k"):
        UmiRetriever.from_store(retriever.umi.store, top_k=3)
    with pytest.raises(InvalidLimit):
        retriever.retrieve(UmiQuery("x", limit=0))
    with pytest.raises(ConfigError, match="method"):
        UmiRetriever.from_nodes([TextNode(text="x")], fusion={"method": "magic"})
    with pytest.raises(InvalidTimeRange, match="has no time zone"):
        UmiRetriever.from_nodes([TextNode(text="x")], time_range=(datetime(2024, 5, 1), None))


def test_a_directory_keeps_the_nodes_and_what_it_holds_is_not_embedded_again(tmp_path, nodes, embed_model):
    first = UmiRetriever.from_nodes(nodes[:50], embed_model, persist_dir=str(tmp_path / "umi"))
    first.close()
    again = UmiRetriever.from_nodes(nodes[:52], embed_model, persist_dir=str(tmp_path / "umi"))
    assert embed_model.documents == 52
    again.close()


def test_a_failed_construction_lets_go_of_the_directory(tmp_path, nodes):
    with pytest.raises(DuplicateId):
        UmiRetriever.from_nodes([nodes[0], nodes[0]], persist_dir=str(tmp_path / "umi"))
    UmiRetriever.from_nodes(nodes[:2], persist_dir=str(tmp_path / "umi")).close()


def chroma_index(path, nodes, embed_model) -> VectorStoreIndex:
    collection = chromadb.PersistentClient(str(path)).create_collection("nodes")
    storage = StorageContext.from_defaults(vector_store=ChromaVectorStore(chroma_collection=collection))
    index = VectorStoreIndex(nodes, storage_context=storage, embed_model=embed_model)
    assert not index.docstore.docs
    return VectorStoreIndex.from_vector_store(ChromaVectorStore(chroma_collection=collection), embed_model=embed_model)


def test_a_chroma_index_is_copied_and_three_texts_are_embedded_to_check_the_model(tmp_path, nodes, embed_model):
    index = chroma_index(tmp_path / "chroma", nodes[:60], embed_model)
    assert embed_model.documents == 60
    retriever = UmiRetriever.from_index(index, similarity_top_k=5, copy=True)
    found = retriever.retrieve(QUESTION)
    assert embed_model.documents == 60 + 3 and embed_model.queries == 1
    by_id = {node.node_id: node for node in nodes[:60]}
    assert [item.node for item in found] == [by_id[id] for id in ids(found)]
    chunks = [chunk for chunk in retriever.umi.store.get(sorted(by_id)) if chunk is not None]
    assert [chunk.source for chunk in chunks] == [by_id[chunk.id].ref_doc_id for chunk in chunks]
    assert [chunk.position for chunk in chunks] == [by_id[chunk.id].metadata["place"] for chunk in chunks]
    retriever.close()


def test_chunks_that_umi_added_to_a_chroma_index_are_whole_in_its_copy(tmp_path, nodes, embed_model):
    index = chroma_index(tmp_path / "chroma", nodes[:3], embed_model)
    added = Chunk("a", "the roof leaks", metadata={"tags": ["x", 1], "note": None}, source="talk", position=3)
    with UmiRetriever.from_index(index, similarity_top_k=1) as live:
        live.umi.store.add([added])
        found = live.retrieve("roof")
    with UmiRetriever.from_index(index, similarity_top_k=1, copy=True) as copied:
        assert copied.umi.store.get(["a"])[0].position == 3
        assert [item.node for item in copied.retrieve("roof")] == [item.node for item in found]
        assert found[0].node.metadata["tags"] == ["x", 1]


def test_an_index_that_is_made_anew_at_each_start_does_not_fill_its_copy_with_old_texts(tmp_path, embed_model):
    pages = {"a.md": "the roof leaks", "b.md": "the cellar is dry"}

    def copied(**options):
        documents = [Document(text=text, metadata={"file_path": path}) for path, text in pages.items()]
        index = VectorStoreIndex.from_documents(documents, embed_model=embed_model)
        with UmiRetriever.from_index(index, persist_dir=str(tmp_path / "copy"), **options) as retriever:
            return sorted(chunk.text for chunk in retriever.umi.store.scan())

    assert copied() == copied() == sorted(pages.values())
    pages["a.md"] = "the roof is new"
    assert copied() == sorted(pages.values())
    del pages["b.md"]
    assert copied() == ["the cellar is dry", "the roof is new"]
    assert copied(mirror=True) == ["the roof is new"]


def test_on_invalid_is_refused_for_an_index_whose_blank_nodes_are_left_out_anyway(embed_model):
    index = VectorStoreIndex([TextNode(id_="pear", text="a pear"), TextNode(text="  ")], embed_model=embed_model)
    with pytest.raises(ConfigError, match="leave it out here: records of a vector store that have no text are always"):
        UmiRetriever.from_index(index, on_invalid="skip")
    with UmiRetriever.from_index(index) as retriever:
        assert [hit.node_id for hit in retriever.retrieve("pear")] == ["pear"]


def test_mirror_is_refused_for_an_index_that_is_searched_where_it_is(tmp_path, nodes, embed_model):
    with pytest.raises(ConfigError, match="copy=True"):
        UmiRetriever.from_index(chroma_index(tmp_path / "chroma", nodes[:3], embed_model), mirror=True)


def test_a_chroma_index_is_searched_live(tmp_path, nodes, embed_model):
    index = chroma_index(tmp_path / "chroma", nodes[:60], embed_model)
    retriever = UmiRetriever.from_index(index, similarity_top_k=5)
    assert embed_model.documents <= 60 + 4  # a sample of the stored texts
    by_id = {node.node_id: node for node in nodes[:60]}
    found = retriever.retrieve(QUESTION)
    assert [item.node for item in found] == [by_id[id] for id in ids(found)]
    index.insert_nodes([TextNode(id_="new", text="A zebra crosses the street.", metadata={"about": "animals " * 40})])
    assert ids(retriever.retrieve("zebra"))[0] == "new"
    index.delete_nodes(["new"])
    assert "new" not in ids(retriever.retrieve("zebra"))
    retriever.close()
    UmiRetriever.from_index(index).close()


@pytest.mark.parametrize("copy", [False, True])
def test_metadata_that_another_program_changes_in_the_collection_is_what_filters_see(tmp_path, embed_model, copy):
    notes = [
        TextNode(id_="a", text="the roof leaks", metadata={"user": "ann", "owner": None, "share": 0.1}),
        TextNode(id_="b", text="a grey cat", metadata={"user": "bob"}),
    ]
    index = chroma_index(tmp_path / "chroma", notes, embed_model)
    collection = index.vector_store._collection
    live = None if copy else UmiRetriever.from_index(index)
    collection.update("a", metadatas={"user": "bob", "seen": 3})
    for retriever in filter(None, (live, UmiRetriever.from_index(index, copy=copy))):
        with retriever:
            assert retriever.retrieve(UmiQuery("roof", filters={"user": "ann"})) == []
            (found,) = retriever.retrieve(UmiQuery("roof", filters={"seen": 3}))
            assert found.node.metadata == {"user": "bob", "owner": None, "share": 0.1, "seen": 3}
            assert found.node.get_content() == "the roof leaks"


def test_a_record_whose_node_cannot_be_read_is_left_out_and_the_others_are_found(tmp_path, nodes, embed_model):
    index = chroma_index(tmp_path / "chroma", nodes[:20], embed_model)
    index.vector_store._collection.update(nodes[0].node_id, metadatas={"_node_content": "not JSON"})
    with UmiRetriever.from_index(index, similarity_top_k=20) as retriever:
        assert set(ids(retriever.retrieve(QUESTION))) == {node.node_id for node in nodes[1:20]}
        assert retriever.umi.store.status().skipped == (nodes[0].node_id,)


def test_an_index_in_memory_is_taken_over_too(nodes, embed_model):
    index = VectorStoreIndex(nodes[:60], embed_model=embed_model)
    retriever = UmiRetriever.from_index(index, similarity_top_k=5)
    assert embed_model.documents == 60 + 3 and len(retriever.umi.store) == 60
    assert retriever.retrieve(QUESTION)[0].node in nodes
    retriever.close()


@pytest.mark.parametrize("in_chroma", [False, True])
def test_an_index_of_another_model_is_refused_where_it_is_copied(tmp_path, nodes, embed_model, in_chroma):
    index = VectorStoreIndex(nodes[:6], embed_model=embed_model)
    if in_chroma:
        index = chroma_index(tmp_path / "chroma", nodes[:6], embed_model)
    with pytest.raises(ReindexRequired, match="were not made by embedder"):
        UmiRetriever.from_index(index, UmiEmbedding(HashEmbedder()), copy=True)


def test_an_index_with_a_blank_node_is_taken_over_without_it_and_the_node_is_named(embed_model, caplog):
    blank = TextNode(id_="blank", text=" ", metadata={"file_name": "scan.pdf"})
    index = VectorStoreIndex([blank, TextNode(id_="cat", text="a grey cat")], embed_model=embed_model)
    with UmiRetriever.from_index(index) as retriever:
        assert ids(retriever.retrieve("cat")) == ["cat"]
    assert "1 nodes without text are left out: blank" in caplog.text


def test_any_other_vector_store_is_refused_with_the_way_to_go(nodes):
    index = VectorStoreIndex(nodes[:2], embed_model=MockEmbedding(embed_dim=4))
    index._vector_store = object()
    with pytest.raises(ConfigError, match=r"object; expected ChromaVectorStore or SimpleVectorStore.*from_nodes"):
        UmiRetriever.from_index(index)


@pytest.mark.parametrize("copy", [False, True])
def test_an_index_over_a_collection_of_another_database_is_refused_too(nodes, copy):
    """MongoDB's vector store keeps a `_collection`, too."""

    class MongoDBAtlasVectorSearch:
        _collection = object()

    index = VectorStoreIndex(nodes[:2], embed_model=MockEmbedding(embed_dim=4))
    index._vector_store = MongoDBAtlasVectorSearch()
    with pytest.raises(ConfigError, match=r"MongoDBAtlasVectorSearch; expected ChromaVectorStore or.*from_nodes"):
        UmiRetriever.from_index(index, copy=copy)


async def test_a_query_engine_answers_from_what_umi_found(retriever):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query(QUESTION)
    assert "wait_for" in str(response) and QUESTION in str(response)
    assert ids(response.source_nodes) == ids(retriever.retrieve(QUESTION))
    response = await engine.aquery(QUESTION)
    assert "wait_for" in str(response) and QUESTION in str(response)


def test_a_hypothetical_answer_is_searched_by_its_meaning(notes):
    engine = RetrieverQueryEngine.from_args(notes, llm=MockLLM())
    transform = HyDEQueryTransform(llm=MockLLM(), include_original=True)
    assert len(TransformQueryEngine(engine, transform).query("who met whom").source_nodes) == 4


def test_an_index_node_leads_to_its_object(nodes):
    inner = UmiRetriever.from_nodes(nodes[:30], similarity_top_k=2)
    pointer = IndexNode(text="everything about coroutines and timeouts", index_id="inner", obj=inner)
    outer = UmiRetriever.from_nodes([pointer, TextNode(text="cooking rice")], similarity_top_k=1)
    assert ids(outer.retrieve(QUESTION)) == ids(inner.retrieve(QUESTION))


@pytest.mark.parametrize("how", ["nodes", "objects"])
def test_an_index_node_leads_to_its_object_in_a_retriever_from_an_index(tmp_path, embed_model, how):
    table = TextNode(id_="table", text="lamp 20, car 3000")
    store = ChromaVectorStore.from_params("nodes", persist_dir=str(tmp_path))
    context = StorageContext.from_defaults(vector_store=store)
    given = [IndexNode(text="a table of prices", index_id="prices", obj=table)]
    index = VectorStoreIndex(**{"nodes": [], how: given}, storage_context=context, embed_model=embed_model)
    for copied in (False, True):
        with UmiRetriever.from_index(index, copy=copied) as retriever:
            assert table.text in retriever.retrieve("prices")[0].text  # its JSON, with llama-index-core 0.13


async def test_spans_show_synchronous_and_asynchronous_retrieval(retriever):
    handler = SimpleSpanHandler()
    instrument.get_dispatcher().add_span_handler(handler)
    try:
        retriever.retrieve(QUESTION)
        await retriever.aretrieve(QUESTION)
    finally:
        instrument.get_dispatcher().span_handlers.remove(handler)
    names = {span.id_.split("-")[0] for span in handler.completed_spans}
    assert {"UmiRetriever._retrieve", "UmiRetriever._aretrieve"} <= names


def test_the_rewriting_prompt_can_be_read_and_replaced(notes):
    (template,) = notes.get_prompts().values()
    assert "{query}" in template.get_template()
    notes.update_prompts({"rewrite": PromptTemplate("Say it otherwise: {query}")})
    assert notes.umi.config.rewrite.template == "Say it otherwise: {query}"


@pytest.fixture
def others_garbage():
    """Collecting the garbage of thousands of earlier tests takes half a second, in whatever thread it starts."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("others_garbage")
async def test_fifty_questions_at_once_leave_the_loop_free(retriever):
    async def ask() -> None:
        found = await asyncio.gather(*(retriever.aretrieve(f"{QUESTION} {n}") for n in range(50)))
        assert all(len(nodes) == 5 for nodes in found)

    begun = time.perf_counter()
    for n in range(50):
        retriever.retrieve(f"{QUESTION} {n}")
    one_by_one = time.perf_counter() - begun
    assert await held(ask) < max(LOOP_SECONDS, one_by_one / 2)  # a busy machine takes longer for both


def test_the_callers_store_stays_open():
    with HybridStore.open() as store:
        UmiRetriever.from_store(store).close()
        assert len(store) == 0


def test_importing_the_adapter_needs_llama_index_core_only():
    import subprocess

    code = "import sys, umi_llamaindex; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"chromadb", "langchain_core", "llama_index.vector_stores.chroma"} & set(loaded)


def test_a_retriever_over_a_tenants_own_store_finds_the_same_whatever_others_hold(tmp_path):
    texts = ["the boiler leaks", "a new valve in June", "the roofers want nine thousand", "the canteen is excellent"]

    def shown(store) -> list[tuple[str, float]]:
        retriever = UmiRetriever.from_store(store)
        found = retriever.retrieve("the valve of the boiler")
        retriever.close()
        return [(hit.node.node_id, hit.score) for hit in found]

    with Tenants(tmp_path) as tenants, tenants.store("ann") as ann, tenants.store("bob") as bob:
        ann.add(Chunk(f"a{at}", text) for at, text in enumerate(texts))
        alone = shown(ann)
        bob.add(Chunk(f"b{at}", texts[at % 2]) for at in range(200))
        assert shown(ann) == alone
        assert {id[0] for id, _ in shown(bob)} == {"b"}


async def test_between_the_answers_of_a_batch_the_loop_runs_other_tasks(retriever):
    seen: list[int] = []
    turns = 0

    class Noting(UmiRetriever):
        def nodes(self, result):
            seen.append(turns)
            return super().nodes(result)

    async def other_task() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_task())
    await Noting(umi=retriever.umi).abatch([f"{QUESTION} {n}" for n in range(3)])
    other.cancel()
    assert len(set(seen)) == 3
