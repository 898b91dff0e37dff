"""`umi mcp`: a real process, asked by the MCP SDK's own client over stdio."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest
from llama_index.core.schema import TextNode
from mcp import Client, StdioServerParameters, stdio_client

from umi_common.cli import main
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk
from umi_llamaindex import UmiRetriever

ROOT = Path(__file__).parents[1]
TEXTS = {
    "a1": ("Ann keeps the spare key under the blue flower pot.", "ann", "2024-05-01T09:00:00+00:00"),
    "a2": ("Ann's boiler was inspected and the valve leaks.", "ann", "2024-06-01T09:00:00+00:00"),
    "b1": ("Bob keeps the spare key in the safe, its code is 1234.", "bob", "2024-06-02T09:00:00+00:00"),
}


@pytest.fixture
def store(tmp_path):
    where = tmp_path / "store"
    with HybridStore.open(where) as made:
        made.add(
            {
                "id": id,
                "text": text,
                "metadata": {"user": user},
                "source": f"{user}.md",
                "event_time": datetime.fromisoformat(time),
            }
            for id, (text, user, time) in TEXTS.items()
        )
    return where


@asynccontextmanager
async def client(*arguments):
    """A session with a server process of its own."""
    command = ["-m", "umi_common.cli", "mcp", *map(str, arguments)]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    async with Client(stdio_client(server)) as session:
        yield session


async def call(session, name, **arguments):
    answer = await session.call_tool(name, arguments)
    return "\n".join(block.text for block in answer.content), answer


async def found(session, query, **arguments):
    text, answer = await call(session, "search", query=query, **arguments)
    assert not answer.is_error, text
    assert json.loads(text) == answer.structured_content
    return [hit["id"] for hit in answer.structured_content["hits"]]


async def test_an_agent_searches_packs_and_explains_and_cannot_write(store):
    async with client(store) as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == ["search", "context", "explain"]
        assert all(tool.description and "query" in tool.input_schema["properties"] for tool in tools)
        assert (await found(session, "where is Ann's spare key?", limit=1)) == ["a1"]
        (hit,) = (await call(session, "search", query="boiler", limit=1))[1].structured_content["hits"]
        assert hit["text"] == TEXTS["a2"][0] and 0 < hit["relevance"] <= 1
        assert hit["metadata"] == {"user": "ann", "source": "ann.md", "timestamp": "2024-06-01T09:00:00+00:00"}
        notes = {}
        for query in ("where is Ann's spare key?", "capital of Mongolia"):
            answer = (await call(session, "search", query=query, limit=1))[1].structured_content
            assert len(answer["hits"]) == 1
            notes[query] = answer["note"]
        assert list(notes.values()) == ["", "None of these texts is likely to answer the question."]
        assert set(await found(session, "key", filter={"user": "ann"})) == {"a1", "a2"}
        assert set(await found(session, "key", start="2024-06-01", end="2024-06-02")) == {"a2"}
        packed, _ = await call(session, "context", query="what leaks?", tokens=200)
        assert TEXTS["a2"][0] in packed and "ann.md" in packed
        explained, _ = await call(session, "explain", query="what leaks?", limit=2)
        assert "lexical" in explained and "a2" in explained
        refused, answer = await call(session, "add", text="The moon is made of cheese.")
        assert answer.is_error and "add" in refused
        # What the model gets wrong comes back as words.
        for arguments, says in [
            ({"query": " "}, "query is empty"),
            ({"query": "key", "filter": {"user": {"$like": "a"}}}, "unknown operator '$like'"),
            ({"query": "key", "start": "soon"}, "no ISO date"),
            ({"query": "key", "limit": 500}, "limit"),
            ({"query": "key", "where": {"user": "ann"}}, "where"),
        ]:
            text, answer = await call(session, "search", **arguments)
            assert answer.is_error and says in text
        nothing, _ = await call(session, "context", query="key", filter={"user": "nobody"})
        assert nothing.startswith("Nothing found") and "Keys of the texts" in nothing and "'user'" in nothing
        misspelt, _ = await call(session, "search", query="key", filter={"usr": "ann"})
        assert "Keys of the texts" in misspelt
        # What another process writes is found.
        with HybridStore.open(store) as writer:
            writer.add([Chunk("n", "The parcel is at the post office in Vine Street.")])
        assert (await found(session, "where is the parcel?", limit=1)) == ["n"]


async def test_a_store_of_llamaindex_is_searched_without_the_nodes_that_it_keeps_in_the_metadata(tmp_path):
    node = TextNode(text="The boiler is in the cellar.", id_="n1", metadata={"room": "cellar"})
    UmiRetriever.from_nodes([node], persist_dir=str(tmp_path / "nodes")).close()
    async with client(tmp_path / "nodes") as session:
        (hit,) = (await call(session, "search", query="boiler"))[1].structured_content["hits"]
    assert hit["text"] == node.text and hit["metadata"]["room"] == "cellar"
    assert not [key for key in hit["metadata"] if key.startswith("_")]


async def test_null_and_the_empty_string_stand_for_a_missing_argument(store):
    async with client(store, "--writable") as session:
        for missing in (None, ""):
            rest = dict.fromkeys(("filter", "start", "end"), missing)
            assert await found(session, "boiler", limit=missing, **rest) == await found(session, "boiler")
            packed, answer = await call(session, "context", query="what leaks?", tokens=missing, **rest)
            assert not answer.is_error and TEXTS["a2"][0] in packed
            explained, answer = await call(session, "explain", query="what leaks?", limit=missing, **rest)
            assert not answer.is_error and "a2" in explained
            said = dict.fromkeys(("source", "time", "metadata"), missing)
            text, answer = await call(session, "add", text=f"The lamp is new, {missing!r}.", **said)
            assert not answer.is_error, text


async def test_no_argument_widens_the_servers_filter(store):
    async with client(store, "--filter", '{"user": "ann"}') as session:
        for asked in (None, {"user": "bob"}, {"$or": [{"user": "ann"}, {"user": "bob"}]}, {"user": {"$ne": "x"}}):
            assert "b1" not in await found(session, "the code of the safe", limit=50, filter=asked)
            for tool in ("context", "explain"):
                assert "1234" not in (await call(session, tool, query="the code of the safe", filter=asked))[0]
        assert set(await found(session, "key", filter={})) == {"a1", "a2"}


async def test_a_writable_server_remembers_within_its_filter_alone(tmp_path):
    where = tmp_path / "new"
    async with client(where, "--writable", "--filter", "user=ann") as session:
        said = {"text": "Ann's dentist is Dr. Weiss.", "source": "chat-1", "time": "2024-07-01"}
        id, answer = await call(session, "add", **said, metadata={"kind": "health"})
        assert not answer.is_error and await found(session, "who is the dentist?") == [id]
        text, answer = await call(session, "add", text="Bob owes 10 Euro.", metadata={"user": "bob"})
        assert answer.is_error and "outside" in text
        assert "set 'user' to another value" in text
        text, answer = await call(session, "add", text="x", time="soon")
        assert answer.is_error and "time 'soon' is no ISO date" in text
    with HybridStore.open(where) as store:
        (chunk,) = store.get(store.ids())
        assert (chunk.id, chunk.source, chunk.text) == (id, "chat-1", said["text"])
        assert chunk.metadata["user"] == "ann" and chunk.event_time.isoformat() == "2024-07-01T00:00:00+00:00"


async def test_what_an_agent_adds_without_a_time_is_found_as_of_today_and_told_again_is_one_text(tmp_path):
    today = datetime.now(timezone.utc).date().isoformat()
    async with client(tmp_path / "new", "--writable") as session:
        ids = {(await call(session, "add", text="I moved from Berlin to Paris."))[0] for _ in range(2)}
        assert set(await found(session, "where do I live?", start=today)) == ids and len(ids) == 1
        assert await found(session, "where do I live?", end=today) == []
        packed, _ = await call(session, "context", query="where do I live?")
        assert today in packed


async def test_the_store_may_be_named_by_the_option_that_other_commands_have(store):
    async with client("--store", store) as session:
        assert "a1" in await found(session, "the spare key of Ann")


def test_two_stores_are_refused(store, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["umi", "mcp", str(store), "--store", "another"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "two stores" in capsys.readouterr().err


def test_without_a_store_or_the_package_one_line_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["umi", "mcp", str(tmp_path / "x")])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert "holds no store; make one" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    monkeypatch.setattr(sys, "argv", ["umi", "mcp", "--writable", str(tmp_path / "x")])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert "pip install 'umi-retrieval[mcp]'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("writable", [False, True])
async def test_a_file_of_settings_holds_for_the_server_as_for_a_search(store, tmp_path, writable):
    settings = tmp_path / "umi.toml"
    settings.write_text("[embedder]\ncached_queries = 10\n\n[relevance]\nminimum = 1.0\n")
    async with client(store, "--config", settings, *(["--writable"] if writable else [])) as session:
        assert await found(session, "where is the spare key?") == []
