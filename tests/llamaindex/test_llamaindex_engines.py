"""umi inside LlamaIndex's engines: sync and async, in a running loop, and in a Jupyter kernel."""

from __future__ import annotations

import asyncio
import textwrap
import threading
from typing import Any

import nbformat
import pytest
from llama_index.core import SummaryIndex
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from umi_common.context.budget import TokenBudget
from umi_common.errors import FilterError
from umi_llamaindex import (
    UmiContextBudget,
    UmiDecay,
    UmiMMR,
    UmiNearDuplicates,
    UmiPostprocessor,
    UmiQuery,
    UmiRetriever,
)

# Settings imports whatever langchain-community is installed, which warns about itself.
pytestmark = pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")

QUESTION = "run a coroutine with a timeout"


@pytest.fixture
def retriever(nodes):
    made = UmiRetriever.from_nodes(nodes, similarity_top_k=5)
    yield made
    made.close()


def ids(found: list[NodeWithScore]) -> list[str]:
    return [one.node.node_id for one in found]


def chat_over(retriever: UmiRetriever, kind: type = ContextChatEngine) -> Any:
    memory = ChatMemoryBuffer.from_defaults(token_limit=3_000, tokenizer_fn=str.split)
    return kind.from_defaults(retriever=retriever, llm=MockLLM(), memory=memory)


async def test_a_chat_engine_reads_what_umi_found(retriever):
    engine = chat_over(retriever)
    assert ids(engine.chat(QUESTION).source_nodes) == ids(retriever.retrieve(QUESTION))
    response = await engine.achat("merge sorted inputs with a heap")
    assert "heapq" in response.source_nodes[0].node.metadata["module"]
    assert [message.role.value for message in engine.chat_history] == ["user", "assistant"] * 2


@pytest.mark.parametrize("blank", ["", " \n", QueryBundle(""), UmiQuery(" ", limit=3), "\ninput is \n"])
async def test_a_blank_question_finds_nothing_and_is_told_once(retriever, blank, caplog):
    assert retriever.retrieve(blank) == await retriever.aretrieve(blank) == []
    (record,) = caplog.records
    assert record.name == "umi" and "blank query" in record.getMessage()
    first = retriever.retrieve(QUESTION)
    assert retriever.batch([blank, QUESTION, blank]) == await retriever.abatch([blank, QUESTION, blank])
    assert [ids(found) for found in retriever.batch([blank, QUESTION])] == [[], ids(first)]


async def test_an_engine_goes_on_after_a_blank_question(retriever):
    engine = chat_over(retriever, CondensePlusContextChatEngine)
    assert engine.chat("").source_nodes == [] and len(engine.chat_history) == 2
    engine = chat_over(retriever)
    assert engine.chat("").source_nodes == (await engine.achat(" ")).source_nodes == []
    fused = QueryFusionRetriever([retriever], llm=MockLLM(), num_queries=1, use_async=False)
    assert fused.retrieve("") == []
    assert str(RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query("")) == "Empty Response"


async def test_a_blank_question_with_wrong_options_is_refused(retriever):
    with pytest.raises(FilterError, match="unknown operator"):
        retriever.retrieve(UmiQuery("", filters={"user": {"$regex": "a"}}))
    with pytest.raises(FilterError, match="unknown operator"):
        await retriever.aretrieve(UmiQuery("", filters={"user": {"$regex": "a"}}))


async def test_a_query_engine_with_all_of_umis_postprocessors(retriever):
    steps = [UmiDecay(half_life_hours=24), UmiNearDuplicates(), UmiMMR(top_n=3)]
    budget = UmiContextBudget(budget=TokenBudget(max_total=200))
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=MockLLM(), node_postprocessors=[UmiPostprocessor(steps=[*steps, budget])]
    )
    response = engine.query(QUESTION)
    assert 1 <= len(response.source_nodes) <= 3
    assert ids((await engine.aquery(QUESTION)).source_nodes) == ids(response.source_nodes)


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "relative_score", "dist_based_score", "simple"])
async def test_umi_is_a_child_of_a_fusion_retriever(retriever, nodes, mode):
    other = SummaryIndex(nodes[:3]).as_retriever()
    for use_async in (False, True):
        fusion = QueryFusionRetriever(
            [retriever, retriever, other],
            llm=MockLLM(),
            num_queries=1,
            mode=mode,
            use_async=use_async,
            similarity_top_k=8,
        )
        best = retriever.retrieve(QUESTION)[0].node.node_id
        found = await asyncio.to_thread(fusion.retrieve, QUESTION)
        assert best in ids(found) and best in ids(await fusion.aretrieve(QUESTION))
    assert retriever.retrieve(QUESTION) == retriever.retrieve(QUESTION), "scores written into its nodes stay there"


async def test_synchronous_calls_work_inside_a_running_loop(retriever):
    """Where `asyncio_run` would refuse: umi's sync path never touches the loop."""
    expected = ids(await retriever.aretrieve(QUESTION))
    assert ids(retriever.retrieve(QUESTION)) == expected
    assert ids(RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUESTION).source_nodes) == expected
    fusion = QueryFusionRetriever([retriever], llm=MockLLM(), num_queries=1, use_async=False)
    assert fusion.retrieve(QUESTION)


def test_one_retriever_serves_many_loops_and_threads(retriever):
    expected = ids(retriever.retrieve(QUESTION))
    answers: list[list[str]] = []

    def work() -> None:
        for _ in range(5):
            answers.append(ids(asyncio.run(retriever.aretrieve(QUESTION))))
            answers.append(ids(retriever.retrieve(QUESTION)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 40


async def test_a_cancelled_search_leaves_the_retriever_usable(retriever):
    task = asyncio.create_task(retriever.aretrieve(QUESTION))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(await retriever.aretrieve(QUESTION)) == 5


NOTEBOOK = """

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from umi_llamaindex import UmiMMR, UmiRetriever, UmiVectorStore
retriever = UmiRetriever.from_nodes([TextNode(text="Ann met Bob", id_="a"), TextNode(text="rice and salt", id_="b")])
fusion = QueryFusionRetriever([retriever], llm=MockLLM(), num_queries=1, use_async=False)
---
[one.node.node_id for one in retriever.retrieve("who met Bob?")][0]
---
[one.node.node_id for one in await retriever.aretrieve("who met Bob?")][0]
---
RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query("who met Bob?").source_nodes[0].node.node_id
---
(await RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).aquery("who met Bob?")).source_nodes[0].node.node_id
---
(await fusion.aretrieve("who met Bob?"))[0].node.node_id
---
fusion.retrieve("who met Bob?")[0].node.node_id
---
store = UmiVectorStore()
(await store.async_add([TextNode(text="Ann met Bob", id_="a")]))[0]
"""


def test_everything_runs_in_a_jupyter_kernel(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in NOTEBOOK.split("---")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": "."}}).execute()
    answers = [cell.outputs[-1]["data"]["text/plain"] for cell in notebook.cells[1:]]
    assert answers == ["'a'"] * 7
