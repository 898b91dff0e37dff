"""What umi tells LlamaIndex and reads from it: events, callbacks, prompts, Settings."""

from __future__ import annotations

import asyncio
from typing import Any

import llama_index.core.instrumentation as instrument
import pytest
from llama_index.core import PromptTemplate, Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.schema import TextNode

from umi_common.errors import ConfigError
from umi_common.sim import FaultyLLM, HashEmbedder, ScriptedLLM
from umi_llamaindex import UmiDegradationEvent, UmiEmbedding, UmiQuery, UmiRetriever, UmiStageEvent, create_umi_tool

# Settings imports whatever langchain-community is installed, which warns about itself.
pytestmark = pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")

NODES = [TextNode(id_=f"n{i}", text=text) for i, text in enumerate(["Ann met Bob", "Bob met Carl", "rice and salt"])]
ALWAYS = {"mode": "always"}


class Listening(BaseEventHandler):
    """Keeps umi's events."""

    heard: list[Any]

    def handle(self, event, **_):
        if isinstance(event, (UmiStageEvent, UmiDegradationEvent)):
            self.heard.append(event)


@pytest.fixture
def heard():
    handler = Listening(heard=[])
    dispatcher = instrument.get_dispatcher()
    dispatcher.add_event_handler(handler)
    yield handler.heard
    dispatcher.event_handlers.remove(handler)


@pytest.fixture
def settings():
    """LlamaIndex's Settings, put back afterwards."""
    before = {name: getattr(Settings, name) for name in ("_llm", "_embed_model", "_callback_manager")}
    yield Settings
    for name, value in before.items():
        setattr(Settings, name, value)


async def test_gate_rewrite_recall_and_fusion_are_events(heard):
    retriever = UmiRetriever.from_nodes(NODES, llm=ScriptedLLM([["Bob", "Carl"]]), routing=ALWAYS)
    retriever.retrieve("who met Bob?")
    stages = [event.stage for event in heard]
    assert {"route", "rewrite", "recall", "fuse"} <= set(stages)
    facts = {event.stage: event.facts for event in heard}
    assert facts["route"]["deep"] is True and facts["rewrite"]["variations"] == 2
    assert all(event.milliseconds >= 0 and "Bob" not in str(event.facts) for event in heard)
    heard.clear()
    await retriever.aretrieve("who met Bob?")
    assert [event.stage for event in heard] == stages
    retriever.close()


async def test_a_part_that_fails_is_an_event_and_the_answer_comes(heard):
    retriever = UmiRetriever.from_nodes(NODES, llm=FaultyLLM("raises"), routing=ALWAYS)
    for ask in (retriever.aretrieve, lambda query: asyncio.to_thread(retriever.retrieve, query)):
        found = await ask("who met Bob?")
        assert {one.node.node_id for one in found[:2]} == {"n0", "n1"}
        (lost,) = [event for event in heard if isinstance(event, UmiDegradationEvent)]
        assert lost.part == "rewriter" and lost.consequence and lost.class_name() == "UmiDegradationEvent"
        heard.clear()
    retriever.close()


def test_events_belong_to_the_span_of_their_search(heard):
    UmiRetriever.from_nodes(NODES).retrieve("Bob")
    assert {event.span_id.split("-")[0] for event in heard} == {"UmiRetriever._retrieve"}


async def test_legacy_callbacks_see_retrieval_start_and_end(settings):
    debug = LlamaDebugHandler(print_trace_on_end=False)
    retriever = UmiRetriever.from_nodes(NODES, callback_manager=CallbackManager([debug]))
    settings.callback_manager = CallbackManager([])
    found = retriever.retrieve("Bob")
    await retriever.aretrieve("Bob")
    (start, end), _ = debug.get_event_pairs(CBEventType.RETRIEVE)
    assert start.payload["query_str"] == "Bob" and end.payload["nodes"] == found
    retriever.close()


async def test_settings_callbacks_are_read_at_each_query(settings):
    retriever = UmiRetriever.from_nodes(NODES)
    for ask in (1, 2):
        debug = LlamaDebugHandler(print_trace_on_end=False)
        settings.callback_manager = CallbackManager([debug])
        retriever.retrieve("Bob")
        await retriever.aretrieve("Bob")
        assert len(debug.get_event_pairs(CBEventType.RETRIEVE)) == 2, ask
    own = CallbackManager([])
    retriever.callback_manager = own
    retriever.retrieve("Bob")
    assert retriever.callback_manager is own
    retriever.close()


async def test_settings_llm_is_read_when_it_is_asked(settings):
    settings._llm = None
    retriever = UmiRetriever.from_nodes(NODES, llm=settings, routing=ALWAYS)
    settings._llm = ScriptedLLM(lambda prompt: ["people who met"])
    assert retriever.search("who met Bob?").deep_search_used
    assert (await retriever.asearch("who met Carl?")).deep_search_used
    assert not retriever.search(UmiQuery("who met Ann?", deep_search=False)).deep_search_used
    retriever.close()


def test_settings_embed_model_is_taken_where_it_is_asked_for(settings):
    settings._embed_model = UmiEmbedding(HashEmbedder(32))
    asked = UmiRetriever.from_nodes(NODES, embed_model=settings)
    plain = UmiRetriever.from_nodes(NODES)
    assert (asked.umi.store.embedder.dim, plain.umi.store.embedder.dim) == (32, 256)


def test_no_llm_is_needed_and_none_is_touched(settings, monkeypatch):
    monkeypatch.setattr(type(settings), "llm", property(lambda self: pytest.fail("Settings.llm was read")))
    retriever = UmiRetriever.from_nodes(NODES)
    assert retriever.retrieve(UmiQuery("who met Bob?", deep_search=True))
    retriever.close()


@pytest.mark.parametrize(
    "prompt",
    [
        PromptTemplate("Say otherwise: {query}"),
        PromptTemplate("Say otherwise: {query_str}", template_var_mappings={"query": "query_str"}),
        PromptTemplate("{tone}: {query}").partial_format(tone="Say otherwise"),
        RichPromptTemplate("Say otherwise: {{ query }}"),
    ],
    ids=["plain", "mapped", "partial", "rich"],
)
def test_the_rewriting_prompt_can_be_replaced_by_any_kind_of_template(prompt):
    llm = ScriptedLLM([["Bob"]])
    retriever = UmiRetriever.from_nodes(NODES, llm=llm, routing=ALWAYS)
    retriever.update_prompts({"rewrite": prompt})
    assert retriever.get_prompts()["rewrite"].get_template() == "Say otherwise: {query}"
    retriever.retrieve('who {"met"} Bob?')
    assert llm.prompts == ['Say otherwise: who {"met"} Bob?']
    retriever.update_prompts({"other": PromptTemplate("x")})
    retriever.close()


def test_a_prompt_without_a_place_for_the_query_is_refused_and_changes_nothing():
    retriever = UmiRetriever.from_nodes(NODES)
    before = retriever.get_prompts()["rewrite"].get_template()
    with pytest.raises(ConfigError, match="query"):
        retriever.update_prompts({"rewrite": PromptTemplate("no place")})
    assert retriever.get_prompts()["rewrite"].get_template() == before
    retriever.close()


async def test_the_stages_of_a_tools_search_are_events(heard):
    with UmiRetriever.from_nodes(NODES) as retriever:
        tool = create_umi_tool(retriever)
        tool.call(query="who met Bob?")
        stages = [event.stage for event in heard]
        assert {"route", "recall", "fuse"} <= set(stages)
        heard.clear()
        await tool.acall(query="who met Bob?")
        assert [event.stage for event in heard] == stages
