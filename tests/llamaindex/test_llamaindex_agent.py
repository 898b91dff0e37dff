"""Agents over umi: LlamaIndex's own tools and umi's, in a FunctionAgent with a scripted model."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llamaindex_toys import AskingLLM

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_common.embedders import WordLlamaEmbedder
from umi_common.errors import BudgetError
from umi_common.retriever import DualRetriever
from umi_common.stores.embedded.hybrid import HybridStore
from umi_llamaindex import UmiMemoryBlock, UmiQuery, UmiRetriever, create_umi_tool
from umi_llamaindex.query import query_text

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
# The agents' workflow machinery of llama-index-core 0.13 leaves coroutines and warnings of its own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::pydantic.warnings.PydanticDeprecatedSince20"
)


@pytest.fixture
def retriever():
    people = [("ann", "Ann lives in Oslo"), ("bob", "Bob lives in Rome"), ("ann", "Ann has a boat in Oslo")]
    nodes = [
        TextNode(id_=f"n{i}", text=text, metadata={"user": user, "timestamp": (MAY + timedelta(days=i)).isoformat()})
        for i, (user, text) in enumerate(people)
    ]
    made = UmiRetriever.from_nodes(nodes, similarity_top_k=2)
    yield made
    made.close()


async def words_asked(retriever, monkeypatch, tool, arguments) -> list[str]:
    """The words that reach the core when an agent calls a tool with these arguments."""
    seen: list[str] = []
    asearch = retriever.umi.asearch
    monkeypatch.setattr(
        retriever.umi, "asearch", lambda query, **options: seen.append(query) or asearch(query, **options)
    )
    agent = FunctionAgent(tools=[tool], llm=AskingLLM(tool=tool.metadata.name, arguments=arguments), streaming=False)
    answer = str(await agent.run(user_msg="where does Bob live?"))
    assert "Rome" in answer
    return seen


async def test_a_retriever_tool_asks_for_the_words_alone(retriever, monkeypatch):
    tool = RetrieverTool.from_defaults(retriever, name="people", description="people")
    assert await words_asked(retriever, monkeypatch, tool, {"input": "where does Bob live"}) == ["where does Bob live"]


async def test_a_query_engine_tool_works_too(retriever, monkeypatch):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    tool = QueryEngineTool.from_defaults(engine, name="people", description="people")
    assert await words_asked(retriever, monkeypatch, tool, {"input": "where does Bob live"}) == ["where does Bob live"]


async def test_umis_own_tool_takes_a_limit_a_filter_and_a_period(retriever, monkeypatch):
    tool = create_umi_tool(retriever, name="people")
    arguments = {"query": "lives", "limit": 3, "filter": {"user": "bob"}, "start": "2024-05-01", "end": "2024-05-03"}
    assert await words_asked(retriever, monkeypatch, tool, arguments) == ["lives"]
    found = await tool.acall(**arguments)
    assert [one.node.node_id for one in found.raw_output] == ["n1"] and not found.is_error
    assert tool.call(**arguments).content == found.content
    assert {"query", "limit", "filter", "start", "end"} == set(tool.metadata.get_parameters_dict()["properties"])


def test_the_positional_argument_is_the_query_beside_an_argument_of_this_name(retriever):
    found = create_umi_tool(retriever).call("where does Bob live?", query="boat")
    assert found.content == create_umi_tool(retriever).call("where does Bob live?").content


def test_a_second_value_without_a_name_is_refused_and_not_ignored(retriever):
    with pytest.raises(TypeError, match=r"3.*name it: limit=3"):
        create_umi_tool(retriever).call("where does Bob live?", 3)


def test_the_tool_cannot_widen_what_its_retriever_may_see(retriever):
    anns = UmiRetriever.from_store(
        retriever.umi.store, filters={"user": "ann"}, time_range=(MAY, MAY + timedelta(days=2))
    )
    tool = create_umi_tool(anns)
    assert [one.node.node_id for one in tool.call("lives in").raw_output] == ["n0"]
    assert tool.call(query="lives", filter={"user": "bob"}).raw_output == []
    told = tool.call(query="lives", filter={"user": "bob"}).content
    assert told.startswith("Nothing found") and "'user' ('ann')" in told and "bob" not in told
    outside = tool.call(query="boat", start="2024-05-03")
    assert outside.is_error and "outside" in outside.content


def test_a_model_whose_filter_finds_nothing_is_shown_the_keys_of_the_nodes_alone(retriever):
    told = create_umi_tool(retriever).call(query="lives", filter={"person": "ann"}).content
    assert "Keys of the texts, with an example of each: 'timestamp' ('2024-05-01T00:00:00+00:00'), 'user'" in told


def test_a_long_example_of_a_key_is_seen_to_be_cut():
    made = UmiRetriever.from_nodes([TextNode(text="Unopened goods", metadata={"terms": "within 30 days " * 9})])
    told = create_umi_tool(made).call(query="goods", filter={"term": "x"}).content
    assert re.search(r"'terms' \('within[^']*\.\.\.[^']*days '\)", told)
    made.close()


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"query": "x", "limit": 99}, "limit"),
        ({}, "query"),
        ({"query": " "}, "empty"),
        ({"query": "x", "start": "soon"}, "no ISO date"),
        ({"query": "x", "filter": {"user": {"$like": "a"}}}, r"\$like"),
    ],
)
async def test_what_the_model_asks_wrongly_comes_back_as_an_error_it_can_read(retriever, arguments, said):
    tool = create_umi_tool(retriever)
    for found in (tool.call(**arguments), await tool.acall(**arguments)):
        assert found.is_error and re.search(said, found.content)


def test_the_tools_text_holds_its_budget(retriever):
    tool = create_umi_tool(retriever, budget=TokenBudget(max_total=60))
    assert 0 < counter_for().count(tool.call("Oslo").content) <= 60
    with pytest.raises(BudgetError):  # the programmer's mistake, not the model's
        create_umi_tool(retriever, budget=TokenBudget(max_total=2)).call("Oslo")


@pytest.mark.parametrize(
    "given, words",
    [
        ("\ninput is where is Bob\n", "where is Bob"),
        ("\ninput is two\nlines\n", "two\nlines"),
        ("where is Bob\n\n", "where is Bob"),
        ("input is invalid", "input is invalid"),
        (f"\ninput is {'x ' * 4_997}end\n", f"{'x ' * 4_997}end"),
        ("why: input is invalid\n", "why: input is invalid"),
    ],
)
def test_only_the_frame_of_a_retriever_tool_is_taken_off(given, words):
    assert query_text(QueryBundle(given)) == query_text(UmiQuery(given)) == words


class KeyExpires(WordLlamaEmbedder):
    """umi's model under another name; refuses queries, as a provider does once the key has expired."""

    name = "provider"

    def embed_queries(self, texts):
        raise PermissionError("key sk-1 has expired")


async def test_tool_and_memory_tell_the_model_what_was_lost():
    note = "Note: some texts may be missing (embedder failed, searched with the lexical arm alone)."
    with HybridStore.open(embedder=KeyExpires()) as store:
        block = UmiMemoryBlock(umi=DualRetriever(store), user="ann")
        await block.aput([ChatMessage("Bob lives in Rome")], session_id="old")
        tool = create_umi_tool(UmiRetriever.from_store(store))
        assert str(tool.call(query="where does Bob live?")).endswith(f"\n{note}")
        told = await block.aget([ChatMessage("where does Bob live?")], session_id="old")
        assert "Rome" in told and told.endswith(f"\n{note}")
        assert await block.aget([ChatMessage("where does Bob live?")], session_id="new") == ""


async def test_the_tool_brings_the_neighbours_that_its_policy_asks_for_and_none_that_the_filter_hides():
    texts = ["Ann opened the meeting", "The zeppelin is sold", "It was a secret of Bob", "Everyone went home"]
    nodes = [
        TextNode(text=text, metadata={"source": "minutes", "position": n, "user": "bob" if n == 2 else "ann"})
        for n, text in enumerate(texts)
    ]
    with UmiRetriever.from_nodes(nodes, similarity_top_k=1) as minutes:
        tool = create_umi_tool(minutes, policy=AssemblyPolicy(neighbours=1))
        for found in (tool.call(query="zeppelin"), await tool.acall(query="zeppelin")):
            assert all(text in found.content for text in texts[:3]) and len(found.raw_output) == 1
        wide = create_umi_tool(minutes, policy=AssemblyPolicy(neighbours=2))
        content = wide.call(query="zeppelin", filter={"user": "ann"}).content
        assert texts[0] in content and texts[3] in content and "secret" not in content


def test_the_tool_does_not_join_texts_of_two_files_of_one_name():
    nodes = [
        TextNode(text=text, metadata={"file_name": "README.md", "file_path": path, "source": path, "position": place})
        for place, (path, text) in enumerate(
            [("a/README.md", "Alpha: press the kettle twice."), ("b/README.md", "Beta: never press the kettle.")]
        )
    ]
    with UmiRetriever.from_nodes(nodes) as retriever:
        content = create_umi_tool(retriever).call(query="press the kettle").content
    assert sorted(re.findall(r"^\[\d\] (\w+): ", content, re.MULTILINE)) == ["Alpha", "Beta"]
    assert "README.md (a/README.md)" in content and "README.md (b/README.md)" in content


def test_the_tool_does_not_join_texts_of_two_parts_of_one_file():
    """A reader of Markdown may make a document of each section, all with the name and path of the file."""
    metadata = {"file_name": "notes.md", "file_path": "/home/notes.md"}
    texts = {
        "house": ["The roof of the house costs 9,000 euros.", "Paint."],
        "barn": ["Dogs.", "The roof of the barn."],
    }
    nodes = [
        TextNode(text=text, metadata={**metadata, "source": section, "position": place})
        for section, parts in texts.items()
        for place, text in enumerate(parts)
    ]
    with UmiRetriever.from_nodes(nodes) as retriever:
        content = create_umi_tool(retriever).call(query="what does the roof cost?", limit=2).content
    assert "notes.md (house)" in content and "notes.md (barn)" in content


def test_a_file_and_a_source_of_the_same_name_are_cited_apart():
    nodes = [
        TextNode(text="The roof of the house.", metadata={"file_name": "a.pdf", "file_path": "x/a.pdf", "source": "s"}),
        TextNode(text="The roof of the barn.", metadata={"source": "a.pdf"}),
    ]
    with UmiRetriever.from_nodes(nodes) as retriever:
        content = create_umi_tool(retriever).call(query="roof").content
    assert "a.pdf (x/a.pdf)" in content and re.search(r"^\[\d\] a\.pdf$", content, re.MULTILINE)
