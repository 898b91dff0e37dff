"""Chunks that are replaced again and again are never missing from what another thread reads."""

from __future__ import annotations

import threading
import time

import chromadb
import pytest

from umi_common import Chunk
from umi_common.sim import HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.lexical.index import LexicalIndex

MODEL = HashEmbedder(8)
IDS = [f"c{number:02}" for number in range(40)]


@pytest.fixture
def collection(tmp_path):
    return chromadb.PersistentClient(str(tmp_path / "chroma")).create_collection("notes")


def read_while(write, read):
    """What `read` returned, again and again for a second, while another thread calls `write(1)`, `write(2)`, ..."""
    stop = threading.Event()

    def replace() -> None:
        version = 0
        while not stop.is_set():
            version += 1
            write(version)

    writer = threading.Thread(target=replace)
    writer.start()
    until, answers = time.monotonic() + 1.0, []
    while time.monotonic() < until:
        answers.append(read())
    stop.set()
    writer.join()
    return answers


def test_neighbours_that_are_always_there_are_always_read(collection):
    with ChromaStore(collection, MODEL) as store:

        def write(version: int) -> None:
            store.add([Chunk(id, f"Boat {version}.", source="s", position=at) for at, id in enumerate(IDS)])

        write(0)
        answers = read_while(write, lambda: store.neighbours(["c01"], reach=1).get("c01", []))
    wrong = [ids for chunks in answers if (ids := [chunk.id for chunk in chunks]) != ["c00", "c01", "c02"]]
    assert wrong == []


def test_a_record_that_states_no_position_keeps_the_one_it_got_while_it_is_replaced(collection):
    with ChromaStore(collection, MODEL) as store:

        def write(version: int) -> None:
            texts = [f"Boat {version} {id}." for id in IDS]
            collection.upsert(IDS, MODEL.embed_documents(texts).tolist(), [{"source": "s"}] * len(IDS), texts)
            store.sync()

        write(0)
        answers = read_while(write, lambda: store.get(["c01"])[0].position)
    assert set(answers) == {1}


def test_a_record_is_read_after_an_update_that_was_interrupted_while_it_replaced_it(collection, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    def write(text: str) -> None:
        collection.upsert(["c01"], MODEL.embed_documents([text]).tolist(), [{"source": "s"}], [text])

    write("Boat 1.")
    with ChromaStore(collection, MODEL) as store:
        store.sync()
        write("Boat 2.")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(LexicalIndex, "update", interrupted)
            store.sync()
        assert [chunk.text for chunk in (*store.get(["c01"]), *store.last_read(["c01"]))] == ["Boat 2.", "Boat 2."]
