"""What a LlamaIndex engineer types first, in the ecosystem's own words."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas
import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import StorageContext, SummaryIndex, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.schema import (
    Document,
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters, SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from umi_common import DualRetriever, HybridStore, TokenBudget
from umi_common.config import UmiConfig
from umi_common.errors import (
    ConfigError,
    FilterError,
    InputError,
    InvalidChunk,
    InvalidLimit,
    InvalidTimeRange,
    InvalidVector,
    StoreClosed,
    StoreLocked,
)
from umi_common.sim import ScriptedLLM
from umi_llamaindex import (
    UmiContextBudget,
    UmiDecay,
    UmiEmbedding,
    UmiMemoryBlock,
    UmiMMR,
    UmiNearDuplicates,
    UmiPostprocessor,
    UmiQuery,
    UmiRetriever,
    UmiVectorStore,
    create_umi_tool,
)
from umi_llamaindex.query import history_texts

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
NODES = [TextNode(id_=str(n), text=text) for n, text in enumerate(["Ann met Bob", "Bob met Carl", "Carl met Dora"])]


async def test_forty_queries_with_alpha_start_no_forty_threads():
    store = UmiVectorStore()
    store.add(NODES)
    query = VectorStoreQuery(query_str="who met Carl?", mode=VectorStoreQueryMode.HYBRID, alpha=0.3, similarity_top_k=2)
    before = threading.active_count()
    most = 0

    async def ask():
        nonlocal most
        found = await store.aquery(query)
        most = max(most, threading.active_count())
        return found.ids

    answers = await asyncio.gather(*(ask() for _ in range(40)))
    assert all(answer == answers[0] for answer in answers)
    assert most - before < 12
    store.close()


def test_embeddings_of_nodes_are_used_again(embed_model):
    nodes = [node.model_copy(update={"embedding": embed_model.get_text_embedding(node.text)}) for node in NODES[:2]]
    made = embed_model.documents
    retriever = UmiRetriever.from_nodes([*nodes, NODES[2]], embed_model)
    assert embed_model.documents - made <= 2  # the third node, and one of the two for comparison
    assert np.allclose(retriever.umi.store.vectors(["0"])[0], nodes[0].embedding, atol=1e-6)
    retriever.close()


def test_embeddings_of_another_model_are_refused(embed_model):
    strange = [NODES[0].model_copy(update={"embedding": [1.0, *[0.0] * 255]})]
    with pytest.raises(InvalidVector, match="node '0': its embedding is not what embed_model gives for it"):
        UmiRetriever.from_nodes(strange, embed_model)
    UmiRetriever.from_nodes(strange).close()  # umi's own model makes its own


def test_a_budget_is_a_number_of_tokens():
    assert UmiContextBudget(500).budget.max_total == UmiContextBudget(budget=500).budget.max_total == 500
    nodes = [NodeWithScore(node=node, score=1.0) for node in NODES]
    assert UmiContextBudget(500).postprocess_nodes(nodes)


def test_a_long_chat_message_is_searched_by_its_end():
    retriever = UmiRetriever.from_nodes(NODES)
    (first, *_) = retriever.retrieve("blah é " * 5_000 + "who met Dora?")
    assert first.node.node_id == "2"
    retriever.close()


def test_a_cut_message_is_told_in_the_log(caplog):
    with UmiRetriever.from_nodes(NODES) as retriever:
        retriever.retrieve("llama " * 3_001 + "who met Dora?")
    (record,) = caplog.records
    assert "a message of 18,019 bytes is too long: only its last 10,000 are searched" in record.getMessage()


def test_documents_are_split_and_searched():
    book = Document(text="Ann met Bob in Paris. " * 30 + "Carl met Dora in Oslo.", id_="book")
    with UmiRetriever.from_documents([book], [TokenTextSplitter(chunk_size=80, chunk_overlap=0)]) as retriever:
        (first, *others) = retriever.retrieve("who met Dora?")
    assert "Dora" in first.text and len(first.text) < len(book.text) and others
    assert first.node.ref_doc_id == "book"
    with UmiRetriever.from_documents([book], similarity_top_k=3) as retriever:  # one node by the default splitter
        assert [item.text for item in retriever.retrieve("who met Dora?")] == [book.text]


def test_a_second_run_of_from_documents_replaces_the_first(tmp_path):
    for text in ("Ann met Bob.", "Ann met Carl."):
        with UmiRetriever.from_documents([Document(text=text, id_="note")], persist_dir=str(tmp_path)) as retriever:
            assert [item.text for item in retriever.retrieve("who met Ann?")] == [text]


@pytest.mark.parametrize("wrong", [None, "Ann met Bob", ["Ann met Bob"], Document(text="Ann met Bob"), 5])
def test_what_is_no_list_of_documents_is_refused(wrong):
    with pytest.raises(InvalidChunk, match=r"expected a list of LlamaIndex .*Documents") as raised:
        UmiRetriever.from_documents(wrong)
    assert type(wrong[0] if isinstance(wrong, list) else wrong).__name__ in str(raised.value)


@pytest.mark.parametrize("wrong", [TokenTextSplitter(), "split", len])
def test_one_transformation_in_place_of_a_list_is_refused(wrong):
    with pytest.raises(ConfigError, match=rf"transformations is {type(wrong).__name__}; expected a list"):
        UmiRetriever.from_documents([Document(text="Ann met Bob")], wrong)


def test_an_option_of_a_vector_store_index_says_what_it_is_called():
    with pytest.raises(ConfigError, match="no option 'storage_context'; each store has its directory: persist_dir"):
        UmiRetriever.from_documents([Document(text="Ann")], storage_context=None)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda umi: UmiMemoryBlock(umi=umi.store, user="ann"), r"expected a DualRetriever: DualRetriever\(store\)"),
        (lambda umi: UmiMemoryBlock(umi=UmiRetriever(umi), user="ann"), "expected a DualRetriever: the property umi"),
        (lambda umi: UmiMemoryBlock(umi=umi, user_id="ann"), "did you mean user"),
        (lambda umi: UmiMemoryBlock(umi=umi), r"UmiMemoryBlock\.user is missing; UmiMemoryBlock\(user=\.\.\.\)"),
        (lambda umi: UmiMMR(topn=1), "did you mean top_n"),
        (lambda umi: UmiMMR(top_n="many"), r"UmiMMR\.top_n: .*valid integer"),
        (lambda umi: UmiDecay(half_life=3), "did you mean half_life_hours"),
        (lambda umi: UmiContextBudget(max_tokens=4), "expected one of .*budget"),
        (lambda umi: UmiPostprocessor(stages=[]), "did you mean steps"),
        (lambda umi: UmiPostprocessor([]), r"expected fields by name: steps=\.\.\.$"),
        (lambda umi: UmiEmbedding(embed_batchsize=3), "did you mean embed_batch_size"),
        (lambda umi: create_umi_tool(umi.store), r"retriever is HybridStore; .*UmiRetriever\.from_store\(store\)"),
    ],
)
def test_a_wrong_field_says_what_was_meant(make, advice):
    with HybridStore.open() as store, DualRetriever(store) as umi, pytest.raises(ConfigError, match=advice):
        make(umi)


def test_a_memory_takes_a_number_of_tokens():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        assert UmiMemoryBlock(umi=umi, user="ann", budget=500).budget.max_total == 500


def test_millisecond_timestamps_are_times():
    node = TextNode(text="May Day", metadata={"timestamp": int(MAY.timestamp() * 1000)})
    retriever = UmiRetriever.from_nodes([node])
    assert retriever.retrieve(UmiQuery("day", time_range=(MAY, MAY + timedelta(days=1))))
    retriever.close()


def test_two_retrievers_of_one_class_may_be_arms():
    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle):
            return [NodeWithScore(node=NODES[0], score=1.0)]

    retriever = UmiRetriever.from_nodes(NODES, arms=[Fixed(), Fixed()])
    assert {"Fixed", "Fixed 2"} <= {signal.arm for hit in retriever.search("Ann") for signal in hit.signals}
    retriever.close()


def test_a_tool_cites_files_by_name():
    nodes = [
        TextNode(
            text=text,
            metadata={"file_name": "fees.pdf", "page_label": page},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"6f1c{page}")},
        )
        for page, text in (("1", "The fee is 3 euros."), ("2", "Fees are due in May."))
    ]
    retriever = UmiRetriever.from_nodes(nodes)
    content = create_umi_tool(retriever).call(query="fee").content
    assert "fees.pdf, page 1" in content and "fees.pdf, page 2" in content and "6f1c" not in content
    retriever.close()


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"persist_directory": "x"}, "did you mean persist_dir"),
        ({"config": None}, "fusion="),
        ({"retriever_weights": [1]}, "lexical_weight"),
    ],
)
def test_an_unknown_parameter_says_what_was_meant(option, advice):
    for make in (UmiRetriever.from_nodes, UmiVectorStore):
        with pytest.raises(ConfigError, match=f"no option '{next(iter(option))}'.*{advice}"):
            make(**option)


def test_top_k_is_called_similarity_top_k():
    with pytest.raises(ConfigError, match="did you mean similarity_top_k"):
        UmiRetriever.from_nodes(NODES, top_k=3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that LlamaIndex imports
def test_an_index_over_umi_deletes_nodes_and_clears():
    store = UmiVectorStore()
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    index.insert(Document(text="Ann met Bob", doc_id="d"))
    index.insert_nodes(NODES[1:])
    index.delete_nodes(["1"])
    index.delete_ref_doc("d")
    assert [node.node_id for node in store.get_nodes()] == ["2"]
    store.clear()
    assert store.get_nodes() == []
    store.close()


def test_a_present_without_a_time_zone_is_said_when_the_retriever_is_made():
    with pytest.raises(InvalidTimeRange, match="has no time zone"):
        UmiRetriever.from_nodes(NODES, now=datetime(2024, 5, 1))


def test_a_time_range_of_a_query_narrows_the_retrievers_own():
    nodes = [TextNode(id_=str(d), text=f"met {d}", metadata={"timestamp": MAY + timedelta(days=d)}) for d in range(3)]
    retriever = UmiRetriever.from_nodes(nodes, time_range=(MAY + timedelta(days=1), None))
    found = retriever.retrieve(UmiQuery("who met?", time_range=(MAY, MAY + timedelta(days=2))))
    assert [each.node.node_id for each in found] == ["1"]
    with pytest.raises(InvalidTimeRange, match="lies outside the retriever's own"):
        retriever.retrieve(UmiQuery("who met?", time_range=(MAY, MAY + timedelta(hours=1))))
    retriever.close()


def test_a_pickled_retriever_reads_the_same_directory_and_one_in_memory_says_what_to_do(tmp_path):
    kept = UmiRetriever.from_nodes([TextNode(id_="1", text="Ann met Bob")], persist_dir=str(tmp_path))
    again = pickle.loads(pickle.dumps(kept))  # noqa: S301 our own bytes
    assert [each.node.node_id for each in again.retrieve("Bob")] == ["1"]
    for retriever in (again, kept):
        retriever.close()
    fleeting = UmiRetriever.from_nodes([TextNode(text="Ann met Bob")])
    with pytest.raises(ConfigError, match=r"in memory cannot be pickled.*directory"):
        pickle.dumps(fleeting)
    fleeting.close()


def test_a_retriever_with_parts_of_llamaindexs_can_be_pickled(tmp_path):
    """As Ray, Dask and `multiprocessing` do."""
    other = UmiRetriever.from_nodes([TextNode(id_="2", text="Emil met Fay in Prag")], persist_dir=str(tmp_path / "b"))
    parts = {"reranker": SimilarityPostprocessor(), "arms": [other], "persist_dir": str(tmp_path / "a")}
    with other, UmiRetriever.from_nodes([TextNode(id_="1", text="Ann met Bob")], **parts) as kept:
        again = pickle.loads(pickle.dumps(kept))  # noqa: S301 - our own bytes
        found = again.search("Emil")
        assert found.ids == kept.search("Emil").ids and "2" in found.ids and not found.degraded
        again.close()


async def test_a_query_that_has_only_a_vector_is_searched_by_it():
    """As of an image, or of a text that the caller has embedded."""
    asked_llm = []
    llm = ScriptedLLM(lambda prompt: asked_llm.append(prompt) or ["tea"])
    with UmiRetriever.from_nodes(NODES, llm=llm, routing={"mode": "always"}) as retriever:
        vector = retriever.umi.store.embedder.embed_queries([NODES[0].text])[0].tolist()
        only = QueryBundle("", embedding=vector)
        strings = QueryBundle(" ", custom_embedding_strs=[NODES[0].text])
        for found in (
            [*retriever.batch([only, strings])],
            [retriever.retrieve(only), await retriever.aretrieve(strings)],
        ):
            assert [nodes[0].node_id for nodes in found] == [NODES[0].node_id] * 2
        assert NODES[0].text in retriever.get_context(only).text and not asked_llm


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that LlamaIndex imports
def test_a_copy_of_a_vector_store_shares_the_store_and_one_in_memory_says_why_it_is_not_pickled(tmp_path):
    with UmiVectorStore() as store:
        for copied in (copy.deepcopy(store), store.model_copy(deep=True)):
            copied.add(NODES)
            assert len(store.client) == len(NODES)
        with pytest.raises(ConfigError, match="in memory cannot be pickled"):
            pickle.dumps(store)
    with UmiVectorStore(persist_dir=str(tmp_path)) as store:
        store.add(NODES)
        with pickle.loads(pickle.dumps(store)) as again:  # noqa: S301 our own bytes
            assert again.retriever().retrieve("Dora")[0].node == store.retriever().retrieve("Dora")[0].node


def test_nodes_with_the_ids_of_the_run_before_are_not_written_again(tmp_path):
    """As the page on LlamaIndex advises."""
    splitter = TokenTextSplitter(
        chunk_size=20, chunk_overlap=0, id_func=lambda index, document: f"{document.node_id}-{index}"
    )
    writes = set()
    for _ in range(2):
        nodes = splitter([Document(text="Ann met Bob in Oslo. " * 30, doc_id="a.txt")])
        with UmiRetriever.from_nodes(nodes, persist_dir=str(tmp_path)) as retriever:
            writes.add(retriever.umi.store.last_write)
            assert len(retriever.umi.store) == len(nodes) > 5
    assert len(writes) == 1


def test_documents_of_langchain_and_hits_in_place_of_nodes_say_what_to_give():
    for take in (UmiRetriever.from_nodes, UmiVectorStore().add):
        with pytest.raises(InvalidChunk, match=r"umi_langchain.UmiRetriever.from_documents takes LangChain Documents"):
            take([LangChainDocument("Ann met Bob")])
        with pytest.raises(InvalidChunk, match=r"node 0 is NodeWithScore.*give its \.node"):
            take([NodeWithScore(node=TextNode(text="Ann met Bob"), score=1.0)])
        with pytest.raises(InvalidChunk, match="nodes is DataFrame, a table"):
            take(pandas.DataFrame({"text": ["Ann met Bob"]}))


def test_one_query_in_place_of_a_list_is_not_read_letter_by_letter():
    with UmiRetriever.from_nodes(NODES) as retriever:
        for one in ("who met Dora?", UmiQuery("who met Dora?"), None):
            with pytest.raises(InputError, match="expected a list of queries"):
                retriever.batch(one)


def test_a_store_knows_its_documents():
    store = UmiVectorStore()
    index = VectorStoreIndex.from_documents(
        [Document(text="Ann met Bob", doc_id="d", metadata={"by": "ann"})],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=store.embed_model,
    )
    index.insert_nodes(NODES)  # of no document
    (document,) = store.ref_doc_info
    assert document == "d" and store.ref_doc_info["d"].metadata == {"by": "ann"}
    assert [node.text for node in store.get_nodes(store.ref_doc_info["d"].node_ids)] == ["Ann met Bob"]
    store.close()


@pytest.mark.parametrize("count", [3, 7, 8])
def test_after_long_context_reorder_the_budget_keeps_the_best_and_the_order(count):
    nodes = [TextNode(id_=str(n), text=f"note {n} says nothing new of day {n}") for n in range(count)]
    ranked = [NodeWithScore(node=node, score=1 - n / 10) for n, node in enumerate(nodes)]
    reordered = LongContextReorder().postprocess_nodes(ranked)
    for tokens in (12, 25, 40, 200):
        best = {item.node_id for item in UmiContextBudget(tokens).postprocess_nodes(ranked)}
        kept = [item.node_id for item in UmiContextBudget(tokens).postprocess_nodes(reordered)]
        assert kept == [item.node_id for item in reordered if item.node_id in best]


@pytest.mark.parametrize("given", [[0.5, -1.0, 3.0], [None, 0.2, None], [float("nan"), 1.0, 0.0]])
def test_choosing_nodes_leaves_their_scores_alone(given):
    nodes = [NodeWithScore(node=node, score=score) for node, score in zip(NODES, given, strict=True)]
    scores = {item.node_id: repr(item.score) for item in nodes}
    for step in (UmiMMR(), UmiMMR(top_n=2), UmiNearDuplicates()):
        assert all(repr(item.score) == scores[item.node_id] for item in step.postprocess_nodes(nodes))
    assert UmiDecay(half_life_hours=1).postprocess_nodes(nodes)[0].score is not None  # makes new ones


async def test_a_memory_is_asked_by_the_end_of_a_long_message():
    block = UmiMemoryBlock(umi=DualRetriever(HybridStore.open()), user="ann", budget=TokenBudget(max_total=30))
    said = ["the code of my safe is 4711", "blah blah, blah and blah"]
    await block.aput([ChatMessage(role="user", content=text) for text in said], session_id="s")
    question = "blah é " * 5_000 + "what is the code of the safe?"
    assert "4711" in await block.aget([ChatMessage(role="user", content=question)], session_id="s")


async def test_many_queries_at_once():
    retriever = UmiRetriever.from_nodes(NODES)
    vector = retriever.umi.store.embedder.embed_queries(["Dora"])[0].tolist()
    queries = ["who met Bob?", UmiQuery("Dora", limit=1), "who met Carl?", UmiQuery("?", embedding=vector, limit=1)]
    alone = [[(item.node_id, item.score) for item in retriever.retrieve(query)] for query in queries]
    assert [len(found) for found in alone] == [3, 1, 3, 1] and alone[3][0][0] == "2"
    for found in (retriever.batch(queries), await retriever.abatch(queries)):
        assert [[(item.node_id, item.score) for item in each] for each in found] == alone
    assert retriever.batch([]) == []
    retriever.close()


async def test_a_context_for_the_prompt_with_history_and_filter():
    asked = []

    def llm(prompt):
        asked.append(prompt)
        return '["Dora"]'

    retriever = UmiRetriever.from_nodes(
        NODES, llm=llm, routing={"mode": "always"}, rewrite={"template": "{history} {query}"}
    )
    query = UmiQuery("who did she meet?", history=("Ann came home",), limit=2)
    context = retriever.get_context(query, budget=TokenBudget(max_total=200))
    assert len(context.ids) == 2 and context.stats.budget == 200 and "Ann came home" in asked[0]
    assert (await retriever.aget_context(query, budget=TokenBudget(max_total=200))).text == context.text
    assert len(retriever.get_context("Bob").ids) == 3
    retriever.close()


@pytest.mark.parametrize("given", [["Ann met Bob"], TextNode(text="Ann met Bob"), "Ann met Bob"])
def test_what_is_no_list_of_nodes_says_what_to_pass(given):
    for take in (UmiRetriever.from_nodes, UmiVectorStore().add):
        with pytest.raises(InvalidChunk, match=r"is (str|TextNode); expected a list of LlamaIndex nodes or Documents"):
            take(given)


def test_a_blank_node_says_how_to_leave_blank_nodes_out():
    with pytest.raises(InvalidChunk, match=r"node 1: .*on_invalid=\"skip\""):
        UmiRetriever.from_nodes([NODES[0], TextNode(text="  ")])


def test_an_index_over_umi_has_its_retriever_in_its_vector_store():
    index = VectorStoreIndex.from_vector_store(vectors := UmiVectorStore(), embed_model=vectors.embed_model)
    with pytest.raises(ConfigError, match=r"UmiVectorStore.*\.retriever\(\)"):
        UmiRetriever.from_index(index)


ASKED = ("", "  ", "who met Dora? " + "blah " * 3_000, "blah " * 3_000 + "who met Dora?")


def chat(index):
    memory = ChatMemoryBuffer.from_defaults(llm=MockLLM())
    return index.as_chat_engine(chat_mode="condense_plus_context", llm=MockLLM(), memory=memory)


async def test_an_index_over_umi_takes_a_blank_and_a_long_message():
    store = UmiVectorStore()
    store.add(NODES)
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    for mode in ("default", "hybrid", "text_search", "mmr"):
        retriever = index.as_retriever(vector_store_query_mode=mode)
        for query in ASKED[:2]:
            assert retriever.retrieve(query) == await retriever.aretrieve(query) == []
        for query in ASKED[2:]:
            assert retriever.retrieve(query) == await retriever.aretrieve(query)
        assert retriever.retrieve(ASKED[3])[0].text == "Carl met Dora"
    for query in ASKED[:2]:
        assert chat(index).chat(query).source_nodes == []
        assert (await chat(index).achat(query)).source_nodes == []
        assert index.as_query_engine(llm=MockLLM()).query(query).source_nodes == []
    store.close()


def test_a_query_of_a_vector_and_no_words_is_searched_by_the_vector():
    store = UmiVectorStore()
    store.add(NODES)
    vector = store.embed_model.get_query_embedding("Dora")
    (found,) = store.query(VectorStoreQuery(query_str="", query_embedding=vector, similarity_top_k=1)).nodes
    assert found.text == "Carl met Dora"
    store.close()


def test_with_closes_a_retriever_and_a_vector_store(tmp_path):
    path = str(tmp_path / "store")
    with UmiRetriever.from_nodes(NODES, persist_dir=path) as retriever:
        assert retriever.retrieve("who met Bob?")
    with UmiVectorStore(persist_dir=path) as store:
        assert len(store.get_nodes()) == 3
    for closed in (retriever.umi.store, store):
        with pytest.raises(StoreClosed):
            closed.add([])


async def test_async_with_closes_a_retriever_and_a_vector_store():
    async with UmiRetriever.from_nodes(NODES) as retriever:
        assert await retriever.aretrieve("who met Bob?")
    async with UmiVectorStore() as store:
        await store.async_add(NODES)
    for closed in (retriever.umi.store, store):
        with pytest.raises(StoreClosed):
            closed.add([])


@pytest.mark.parametrize("wrong", ["similarity_top_k", "top_k", "k"])
def test_a_query_says_what_its_number_of_results_is_called(wrong):
    with pytest.raises(TypeError, match=f"no option '{wrong}'; did you mean limit"):
        UmiQuery("who?", **{wrong: 3})


def test_a_value_without_a_name_after_the_query_is_refused():
    with pytest.raises(TypeError, match=r"3\): only the query goes without a name; name it: limit=3"):
        UmiQuery("who?", 3)


def test_a_query_says_what_was_meant_and_is_copied_and_pickled():
    with pytest.raises(TypeError, match=r"no option 'filter'; did you mean filters\?"):
        UmiQuery("who?", filter={"user": "ann"})
    query = UmiQuery("who?", limit=3)
    assert copy.copy(query) == pickle.loads(pickle.dumps(query)) == query  # noqa: S301 - its own bytes


def test_a_second_run_that_stores_everything_once_more_says_so(tmp_path, caplog):
    def run(texts):
        store = UmiVectorStore(persist_dir=str(tmp_path / "store"))
        context = StorageContext.from_defaults(vector_store=store)
        documents = [Document(text=text) for text in texts]
        VectorStoreIndex.from_documents(documents, storage_context=context, embed_model=store.embed_model)
        store.close()

    run(["Ann met Bob in Paris.", "Bob met Carl in Rome."])
    run(["Carl met Dora in Oslo."])
    assert not caplog.records, "new documents are no copies"
    run(["Ann met Bob in Paris.", "Bob met Carl in Rome.", "Dora met Emil in Bonn."])
    (record,) = caplog.records
    assert "UmiRetriever.from_nodes(nodes, persist_dir=...) replaces" in record.getMessage()
    assert "mirror=True" in record.getMessage()


def test_nodes_that_are_refused_are_not_said_to_be_stored_twice(caplog):
    with UmiVectorStore() as store:
        store.add([TextNode(text="Ann met Bob in Paris.")])
        with pytest.raises(InvalidVector):
            store.add([TextNode(text="Ann met Bob in Paris.", embedding=[1.0, 0.0])])
        assert caplog.records == []
        store.add([TextNode(text="Ann met Bob in Paris.")])
        assert ["now stored twice" in record.getMessage() for record in caplog.records] == [True]


def test_a_store_that_is_open_elsewhere_says_what_a_llamaindex_user_types(tmp_path):
    opened = f"store = HybridStore.open({str(tmp_path)!r})"
    code = f"from umi_common import HybridStore; {opened}; print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        with pytest.raises(StoreLocked, match=r"read_only=True to UmiVectorStore, .*UmiRetriever\.from_nodes"):
            UmiVectorStore(persist_dir=str(tmp_path))
        UmiVectorStore(persist_dir=str(tmp_path), read_only=True).close()
        writer.communicate(b"\n")


def test_a_list_that_a_value_should_contain_names_the_operators_that_take_one():
    tags = MetadataFilter(key="tags", value=["cat", "dog"], operator=FilterOperator.CONTAINS)
    with UmiVectorStore() as store, pytest.raises(FilterError, match=r"'tags', contains: .*; any and all take a list"):
        store.retriever(filters=MetadataFilters(filters=[tags]))


def test_what_is_no_list_of_nodes_and_no_retriever_is_refused():
    with pytest.raises(InvalidChunk, match="nodes is NoneType; expected a list of LlamaIndex nodes or Documents"):
        UmiRetriever.from_nodes(None)
    with HybridStore.open() as store, pytest.raises(ConfigError, match=r"umi is HybridStore; .*from_store takes"):
        UmiRetriever(store)


def test_nodes_or_a_vector_store_given_to_the_constructor_are_told_what_takes_them():
    with UmiVectorStore() as store:
        for wrong in ([TextNode(text="a")], store):
            with pytest.raises(ConfigError, match=r"from_nodes takes nodes.* a UmiVectorStore has \.retriever\(\)"):
                UmiRetriever(wrong)


def test_a_retriever_over_a_vector_store_says_what_was_meant():
    with UmiVectorStore() as store:
        with pytest.raises(ConfigError, match="no option 'top_k'; did you mean similarity_top_k"):
            store.retriever(top_k=3)
        with pytest.raises(ConfigError, match=r"no option 'filter'; did you mean filters\?"):
            store.retriever(filter={"user": "ann"})
        with pytest.raises(ConfigError, match=r"llm is an option of .*, and of UmiVectorStore; give it there"):
            store.retriever(llm=MockLLM())


def test_a_context_takes_a_number_of_tokens_and_says_what_was_meant():
    with UmiRetriever.from_nodes(NODES) as retriever:
        assert retriever.get_context("who met Dora?", budget=500).stats.budget == 500
        with pytest.raises(TypeError, match="no option 'max_tokens'; expected one of limit"):
            retriever.get_context("who met Dora?", max_tokens=500)


async def test_a_context_takes_a_vector_of_the_callers_in_place_of_the_querys():
    with UmiRetriever.from_nodes(NODES) as retriever:
        vector = retriever.umi.store.embedder.embed_queries(["Dora"])[0]
        context = retriever.get_context("who?", strategy="vector", query_vector=vector, limit=1)
        assert "Dora" in context.text
        assert (
            context.text == (await retriever.aget_context("who?", strategy="vector", query_vector=vector, limit=1)).text
        )


async def test_many_queries_at_once_are_searched_by_the_search_of_a_subclass():
    class First(UmiRetriever):
        def search(self, query):
            return super().search(UmiQuery(query.query_str, limit=1))

        async def asearch(self, query):
            return self.search(query)

    with First.from_nodes(NODES) as retriever:
        for found in (retriever.batch(["who met Bob?"]), await retriever.abatch(["who met Bob?"])):
            assert found == [retriever.retrieve("who met Bob?")] and len(found[0]) == 1


async def test_the_history_of_a_query_may_be_chat_messages():
    prompts = []

    def llm(prompt):
        prompts.append(prompt)
        return "[]"

    retriever = UmiRetriever.from_nodes(NODES, llm=llm, routing={"mode": "always"})
    history = [ChatMessage(role="user", content="I mean Ann of Oslo."), "assistant: I see."]
    query = UmiQuery("who met her?", history=history)
    retriever.retrieve(query)
    await retriever.aretrieve(query)
    retriever.batch([query])
    retriever.retrieve(UmiQuery("who met her?", history=iter(history)))
    assert all("user: I mean Ann of Oslo." in prompt and "assistant: I see." in prompt for prompt in prompts)
    with pytest.raises(InputError, match=r"history\[0\] is 3; expected a string or a ChatMessage"):
        retriever.retrieve(UmiQuery("who met her?", history=[3]))
    for unordered in ({"user": "I mean Ann."}, {"I mean Ann.", "I see."}):
        with pytest.raises(InputError, match=f"history is {type(unordered).__name__}; expected a list"):
            retriever.retrieve(UmiQuery("who met her?", history=unordered))
    with pytest.raises(InputError, match="history is ChatMessage; expected a list"):
        retriever.retrieve(UmiQuery("who met her?", history=history[0]))
    with pytest.raises(InputError, match=r"history is ChatMemoryBuffer; .*give memory\.get_all\(\)"):
        retriever.retrieve(UmiQuery("who met her?", history=ChatMemoryBuffer.from_defaults(history[:1])))
    retriever.close()


def test_a_message_without_text_is_no_part_of_the_conversation_and_a_cut_emoji_is_sent_as_a_question_mark():
    asked = ChatMessage(role="user", content="Who is Ann\ud83d?")
    call = ChatMessage(role="assistant", additional_kwargs={"tool_calls": []}, blocks=[])
    assert history_texts([asked, call, "I see\ud83d."]) == ("user: Who is Ann??", "I see?.")


def test_too_many_nodes_are_refused_where_the_number_is_given():
    store = UmiVectorStore()
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    for make in (
        store.retriever,
        lambda similarity_top_k: UmiRetriever.from_nodes(NODES, similarity_top_k=similarity_top_k),
    ):
        with pytest.raises(InvalidLimit, match="similarity_top_k 200: expected a whole number from 1 to 100"):
            make(similarity_top_k=200)
    with pytest.raises(InvalidLimit, match="similarity_top_k 200: expected a whole number from 1 to 100"):
        index.as_retriever(similarity_top_k=200).retrieve("who?")
    store.close()


def test_persisting_a_store_in_memory_says_that_it_is_not_kept(tmp_path, caplog):
    with UmiVectorStore() as store:
        index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
        index.insert_nodes(NODES)
        index.storage_context.persist(str(tmp_path / "storage"))
    (record,) = caplog.records
    assert record.getMessage() == (
        "persist() does not keep the 3 nodes of a UmiVectorStore in memory; UmiVectorStore(persist_dir=...) keeps each "
        "write at once"
    )
    caplog.clear()
    with UmiVectorStore(persist_dir=str(tmp_path / "store")) as store:
        store.add(NODES)
        store.persist(str(tmp_path / "storage.json"))
    assert not caplog.records


@pytest.mark.parametrize("given", [SummaryIndex([]), SimpleVectorStore(), "index", None])
def test_what_is_no_vector_index_is_refused_with_what_to_pass(given):
    with pytest.raises(ConfigError, match=f"index is {type(given).__name__}; expected a VectorStoreIndex"):
        UmiRetriever.from_index(given)


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"index": None}, "no option 'index'; from_index takes it"),
        ({"nodes": []}, "no option 'nodes'; from_nodes takes them"),
        ({"retrievers": []}, "no option 'retrievers'; .*arms="),
        ({"similarity_cutoff": 0.5}, "no option 'similarity_cutoff'; did you mean min_relevance"),
        ({"docstore": None}, "no option 'docstore'; from_nodes takes its nodes"),
        ({"embedding": None}, "no option 'embedding'; did you mean embed_model"),
        ({"alpha": 0.5}, "no option 'alpha'; .*lexical_weight"),
        ({"llm": None}, "llm is an option of from_nodes and from_store"),
        ({"fusion": {}}, "fusion is an option of from_nodes and from_store"),
    ],
)
def test_what_other_retrievers_are_made_of_has_its_place_here_too(option, advice):
    with pytest.raises(ConfigError, match=advice):
        UmiRetriever(**option)


@pytest.mark.parametrize("stage", UmiConfig.model_fields)
def test_every_stage_of_the_configuration_is_an_option_of_a_retriever_and_of_a_vector_store(stage):
    for made in (UmiRetriever.from_nodes([TextNode(text="Ann met Bob")], **{stage: {}}), UmiVectorStore(**{stage: {}})):
        made.close()


def test_an_open_store_in_place_of_a_directory_says_what_takes_it():
    with HybridStore.open() as store, pytest.raises(ConfigError, match=r"from_store\(store\) searches an open store"):
        UmiRetriever.from_nodes([TextNode(text="Ann met Bob")], store=store)


def test_a_model_may_be_named_by_the_setting_of_the_embedder():
    with UmiRetriever.from_nodes([TextNode(text="Ann met Bob")], embedder={"model": "minilm"}) as retriever:
        assert retriever.umi.store.embedder.name.startswith("minilm")


@pytest.mark.parametrize("option", ["persist_dir", "embed_model", "mirror", "read_only"])
def test_an_option_of_a_new_store_is_refused_for_an_open_one(option):
    with pytest.raises(ConfigError, match=f"^{option} is an option of from_nodes, which opens a store itself"):
        UmiRetriever.from_store(HybridStore.open(), **{option: None})


async def test_a_batch_follows_index_nodes_and_is_seen_by_callbacks_as_retrieve_is():
    inner = UmiRetriever.from_nodes([TextNode(id_="deep", text="The minutes of the meeting: Ann met Bob.")])
    seen = LlamaDebugHandler(print_trace_on_end=False)
    outer = UmiRetriever.from_nodes(
        [
            IndexNode(id_="way", text="minutes of the meeting", index_id="m", obj=inner),
            TextNode(id_="t", text="a moon"),
        ],
        callback_manager=CallbackManager([seen]),
    )

    def of(nodes):
        return [(node.node_id, node.score) for node in nodes]

    queries = ["who met Bob?", UmiQuery("the moon", limit=1)]
    one_by_one = [of(outer.retrieve(query)) for query in queries]
    events = len(seen.get_events(CBEventType.RETRIEVE))
    assert one_by_one[0][0][0] == "deep"
    assert [of(nodes) for nodes in outer.batch(queries)] == one_by_one
    assert len(seen.get_events(CBEventType.RETRIEVE)) == 2 * events
    assert [of(nodes) for nodes in await outer.abatch(queries)] == one_by_one
    assert len(seen.get_events(CBEventType.RETRIEVE)) == 3 * events
    outer.close()
    inner.close()


def test_a_directory_opens_with_the_embed_model_of_its_own_store(tmp_path):
    with UmiVectorStore(persist_dir=str(tmp_path)) as store:
        store.add(NODES)
        model = store.embed_model
    with UmiRetriever.from_nodes(embed_model=model, persist_dir=str(tmp_path)) as retriever:
        assert len(retriever.retrieve("who met Bob?")) == 3


def test_an_argument_that_a_tool_does_not_have_is_told_and_not_left_out():
    with UmiRetriever.from_nodes(NODES) as retriever:
        output = create_umi_tool(retriever).call(query="who met Bob?", user="ann")
    assert output.is_error and "user" in output.content and "Extra inputs are not permitted" in output.content


def test_wrong_arguments_are_told_to_the_model_without_an_address_to_visit():
    with UmiRetriever.from_nodes(NODES) as retriever:
        output = create_umi_tool(retriever).call(query="who met Bob?", limit=0, filter="user=ann")
    assert output.is_error
    assert output.content == (
        "limit: Input should be greater than or equal to 1; filter: Input should be a valid dictionary"
    )


def test_the_class_of_an_embed_model_is_refused_with_what_is_missing():
    with pytest.raises(ConfigError, match=r"embedder is the class UmiEmbedding; expected an instance of it"):
        UmiVectorStore(embed_model=UmiEmbedding)


@pytest.mark.parametrize("limit_max", [0, 101, "5"])
def test_a_tool_with_an_impossible_limit_is_refused_when_it_is_made(limit_max):
    with pytest.raises(InvalidLimit, match=f"^limit_max {limit_max!r}: expected a whole number from 1 to 100"):
        create_umi_tool(UmiRetriever.from_store(HybridStore.open()), limit_max=limit_max)


class WithoutAnn(UmiRetriever):
    """Leaves out nodes about Ann, as a subclass does that checks permissions."""

    def _retrieve(self, query_bundle):
        return [item for item in super()._retrieve(query_bundle) if "Ann" not in item.node.get_content()]


async def test_a_subclass_that_leaves_nodes_out_leaves_them_out_of_every_call():
    with WithoutAnn.from_nodes(NODES) as retriever:
        expected = [item.node.node_id for item in retriever.retrieve("who met Bob?")]
        assert 0 < len(expected) < len(NODES)
        several = [*retriever.batch(["who met Bob?"]), *await retriever.abatch(["who met Bob?"])]
        several.append(await retriever.aretrieve("who met Bob?"))
        assert [[item.node.node_id for item in found] for found in several] == [expected] * 3


def test_a_tool_refuses_a_subclass_whose_own_search_it_would_pass_over():
    with WithoutAnn.from_nodes(NODES) as own, pytest.raises(ConfigError, match="WithoutAnn has its own _retrieve"):
        create_umi_tool(own)


class OfTenant(UmiRetriever):
    """Has an argument of its own, and passes on the others."""

    def __init__(self, *args, tenant="", **options):
        super().__init__(*args, **options)
        self.tenant = tenant


async def test_a_query_that_is_no_query_says_what_to_give():
    with UmiRetriever.from_nodes(NODES) as retriever:
        for ask in (retriever.search, retriever.get_context, lambda query: retriever.batch([query])):
            with pytest.raises(InputError, match="query is int; expected a string, a QueryBundle or a UmiQuery"):
                ask(3)
        for ask in (retriever.asearch, retriever.aget_context, lambda query: retriever.abatch([query])):
            with pytest.raises(InputError, match="query is int; expected a string"):
                await ask(3)


class Shortest(UmiRetriever):
    """Returns one node, unless it is asked for more."""

    def __init__(self, umi, similarity_top_k=1, **options):
        super().__init__(umi, similarity_top_k, **options)


def test_a_subclass_with_another_default_limit_keeps_it_however_it_is_made():
    with Shortest.from_nodes(NODES) as retriever:
        assert len(retriever.retrieve("who met Bob?")) == 1
        assert Shortest.from_store(retriever.umi.store).similarity_top_k == 1
        assert Shortest.from_store(retriever.umi.store, similarity_top_k=2).similarity_top_k == 2


def test_a_subclass_may_have_arguments_of_its_own_and_pass_on_the_others():
    with OfTenant.from_nodes(NODES, tenant="ann", similarity_top_k=1) as retriever:
        assert retriever.tenant == "ann" and len(retriever.retrieve("who met Bob?")) == 1
        assert OfTenant(retriever.umi, similarity_top_k=2, tenant="bob").similarity_top_k == 2
        with pytest.raises(ConfigError, match="no option 'tenent'; did you mean tenant"):
            OfTenant.from_store(retriever.umi.store, tenent="ann")


async def test_the_options_of_a_context_narrow_the_retrievers_own_filter_and_period_and_never_widen_them():
    ann = TextNode(text="ann's safe code is 1", metadata={"user": "ann", "timestamp": "2024-05-01"})
    bob = TextNode(text="bob's safe code is 2", metadata={"user": "bob", "timestamp": "2023-05-01"})
    both = datetime(2023, 1, 1, tzinfo=timezone.utc), datetime(2025, 1, 1, tzinfo=timezone.utc)
    store = UmiVectorStore()
    store.add([ann, bob])
    for own in ({"filters": {"user": "ann"}}, {"time_range": (datetime(2024, 1, 1, tzinfo=timezone.utc), None)}):
        retriever = store.retriever(**own)
        for asked in ({"where": None}, {"where": {}}, {"time_range": None}, {"time_range": both}, {"limit": None}):
            for context in (
                retriever.get_context("safe code", budget=99, **asked),
                await retriever.aget_context("safe code", budget=99, **asked),
            ):
                assert ann.text in context.text and bob.text not in context.text
        assert retriever.get_context("safe code", budget=99, where={"user": "bob"}).text == ""
    query = UmiQuery("safe code", filters={"user": "ann"})
    assert store.retriever().get_context(query, budget=99, where={"user": "bob"}).text == ""
    store.close()


def test_an_object_map_adds_to_the_objects_of_the_index_nodes_wherever_it_is_given():
    plan, table = (IndexNode(text=f"the {name} of the valve", index_id=name, id_=name) for name in ("plan", "table"))
    drawn, counted = TextNode(text="a drawing", id_="drawn"), TextNode(text="a count", id_="counted")
    held = table.model_copy(update={"obj": counted})
    index = VectorStoreIndex([], embed_model=UmiEmbedding(), objects=[held.model_copy()])  # sets obj to None
    index.insert_nodes([plan])
    store = UmiVectorStore()
    store.add([plan, held])
    given = {"object_map": {"plan": drawn}}
    for retriever in (
        UmiRetriever.from_nodes([plan, held], **given),
        UmiRetriever.from_nodes([plan, table], **given, objects=[held]),
        UmiRetriever.from_documents([plan, held], [], **given),
        UmiRetriever.from_index(index, **given),
        store.retriever(**given),
        UmiRetriever(store.umi, **given, objects=[held]),
    ):
        assert {item.node_id for item in retriever.retrieve("valve")} == {"drawn", "counted"}
        retriever.close()


def test_a_directory_with_the_name_that_sqlite_has_for_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for make in (UmiVectorStore, UmiRetriever.from_nodes):
        with pytest.raises(ConfigError, match="path is ':memory:'; leave it out for a store in memory"):
            make(persist_dir=":memory:")
    assert not list(tmp_path.iterdir())


def test_progress_bars_show_that_texts_are_embedded_and_stored(capsys):
    documents = [Document(text=f"Note {number}.") for number in range(20)]

    def shown(write, progress):
        write(show_progress=progress)
        bars = capsys.readouterr().err
        return [step for step in ("embedding", "storing") if f"{step}: 100%" in bars]

    store = UmiVectorStore()
    for write in (
        lambda **options: UmiRetriever.from_documents(documents, **options).close(),
        lambda **options: UmiRetriever.from_nodes(documents, **options).close(),
        lambda **options: store.add(documents, **options),
    ):
        store.clear()
        assert shown(write, False) == []
        store.clear()
        assert shown(write, True) == ["embedding", "storing"]
    store.close()
