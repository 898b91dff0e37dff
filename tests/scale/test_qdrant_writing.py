"""Writes to a server that may fail."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from qdrant_client import models
from qdrant_toys import Counting, Failing, corpus, local, qdrant, search

from umi_common import DualRetriever
from umi_common.errors import InvalidChunk, LedgerDamaged, PartlyWritten, StoreClosed, StoreUnavailable
from umi_common.filters import scope
from umi_common.stores.qdrant.points import DENSE, NAMESPACE, point_id
from umi_common.types import Chunk


@pytest.fixture
def small_slices(monkeypatch):
    monkeypatch.setattr("umi_common.stores.qdrant.store.WRITE_AT_ONCE", 10)


def test_a_write_that_fails_half_way_says_so_and_the_same_call_completes_it(small_slices):
    client = local()
    failing = Failing(client, "upsert", lambda count: count == 4)  # the settings are the first
    store, chunks = qdrant(failing), corpus(size=35)
    with pytest.raises(PartlyWritten, match="20 of 35"):
        store.add(chunks)
    assert len(store) == 20
    client = Counting(client)
    store = qdrant(client)
    client.calls.clear()
    store.add(chunks)
    assert client.calls["upsert"] == 2
    assert store.scan() == sorted(chunks, key=lambda chunk: chunk.id)
    assert store.verify()


def test_nothing_is_sent_before_all_is_checked():
    client = Counting(local())
    store = qdrant(client)
    client.calls.clear()
    with pytest.raises(InvalidChunk):
        store.add([*corpus(size=5), "no chunk"])
    assert not client.calls


def test_what_is_stored_already_is_not_sent_again():
    client = Counting(local())
    store = qdrant(client)
    store.add(corpus(size=5))
    client.calls.clear()
    store.add(corpus(size=5))
    assert client.calls == {"retrieve": 1}


def test_a_chunk_has_one_point_whoever_writes_it():
    client = local()
    store = qdrant(client)
    store.add([Chunk("x", "red boat")])
    qdrant(client).add([Chunk("x", "blue boat")])
    assert len(store) == 1
    (record,) = client.retrieve("toys", [str(uuid.uuid5(NAMESPACE, "x"))])
    assert record.payload["id"] == "x" and record.payload["text"] == "blue boat"


def test_a_chunk_that_is_renewed_while_expired_ones_are_deleted_stays(monkeypatch):
    client = local()
    store, renewed = qdrant(client), Chunk("kept", "red boat", metadata={"expires": 9.5})
    store.add(
        [Chunk("kept", "red boat", metadata={"expires": 1.5}), Chunk("gone", "blue boat", metadata={"expires": 2})]
    )
    delete = client.delete

    def late(*arguments, **named):  # another process renews it after its expiry was read
        qdrant(client).add([renewed])
        return delete(*arguments, **named)

    monkeypatch.setattr(client, "delete", late)
    store.delete(where={"expires": {"$lte": 3}})
    assert store.scan() == [renewed]


def test_a_failing_delete_says_so_and_can_be_repeated():
    client = local()
    qdrant(client).add(corpus(size=5))
    store = qdrant(Failing(client, "delete", lambda count: count == 1))
    with pytest.raises(StoreUnavailable):
        store.delete(where={"user": "ann"})
    assert store.delete(where={"user": "ann"}) == 2
    assert len(store) == 3


def test_a_source_that_tenants_share_shows_each_their_own():
    store = qdrant(tenants=["user"])
    store.add(
        [
            Chunk(f"{user}{turn}", f"boat {turn}", metadata={"user": user}, source="shared", position=2 * turn + side)
            for turn in range(6)
            for side, user in enumerate(("ann", "bob"))
        ]
    )
    ann = scope(user="ann").narrow()
    assert {chunk.id for chunk in store.neighbours(["ann2"], reach=3, where=ann)["ann2"]} == {"ann1", "ann2", "ann3"}
    pool = search(store, "boat 2", depth=4, around=3, where=ann)
    assert pool.ids and all(id.startswith("ann") for id in pool.ids)
    assert store.neighbours(["bob2"], reach=0, where=ann) == {"bob2": []}


def test_a_point_that_somebody_changed_is_noticed_and_not_answered():
    client = local()
    store = qdrant(client)
    store.add([Chunk("x", "red boat"), Chunk("y", "blue boat")])
    client.set_payload("toys", {"text": "another text"}, points=[point_id("x")])
    with pytest.raises(LedgerDamaged, match="'x'"):
        store.get(["x"])
    found = store.verify()
    assert not found and found.checked == 2 and "'x'" in found.problems[0]
    store.add([Chunk("x", "red boat", metadata={"again": True})])
    assert store.verify()


@pytest.mark.parametrize(
    "damage, problem",
    [
        (lambda client: client.set_payload("toys", {"facts": []}, points=[point_id("x")]), "facts"),
        (
            lambda client: client.update_vectors(
                "toys", [models.PointVectors(id=point_id("x"), vector={"dense": [1.0] * 64})]
            ),
            "length 1",
        ),
        (
            lambda client: client.update_vectors(
                "toys",
                [
                    models.PointVectors(
                        id=point_id("x"), vector={"lexical": models.SparseVector(indices=[7], values=[0.5])}
                    )
                ],
            ),
            "terms",
        ),
    ],
)
def test_verify_finds_what_searching_would_stumble_over(damage, problem):
    client = local()
    store = qdrant(client)
    store.add([Chunk("x", "red boat", metadata={"user": "ann"})])
    damage(client)
    (found,) = store.verify().problems
    assert problem in found


def test_a_status_says_what_the_collection_is():
    store = qdrant()
    store.add(corpus(size=5))
    status = store.status()
    assert (status.chunks, status.dimension, status.embedder, status.state) == (5, 64, store.embedder.name, "green")


def test_vectors_come_back_to_the_bit():
    store = qdrant()
    store.add([Chunk("x", "red boat")])
    made = store.embedder.embed_documents(["red boat"])[0]
    np.testing.assert_allclose(store.vectors(["x"])[0], made / np.linalg.norm(made), atol=1e-7)


def test_a_closed_store_refuses_and_leaves_the_client_open():
    client = local()
    with qdrant(client) as store:
        store.add(corpus(size=3))
    with pytest.raises(StoreClosed):
        store.get(["x"])
    assert len(qdrant(client)) == 3


@pytest.mark.parametrize("id", [7, "6a0f3f0e-93c1-4c9f-8a53-2f7a2c1b4d5e"])
@pytest.mark.parametrize("payload", [{}, {"text": "x", "metadata": {}}, {"source": "doc0", "position": 1}])
def test_a_point_that_another_program_added_is_left_out_and_named_once(id, payload, caplog):
    client = local()
    store, chunks = qdrant(client), corpus(size=20)
    store.add(chunks)
    found = search(store, chunks[0].text)
    client.upsert("toys", [models.PointStruct(id=id, vector={DENSE: [0.1] * 64}, payload=payload)])
    for _ in range(2):
        assert search(store, chunks[0].text).ids == found.ids
        assert store.ids() == sorted(chunk.id for chunk in chunks)
        assert len(store.scan()) == len(store) == store.status().chunks == 20
    store.neighbours([chunks[0].id], reach=2)
    assert caplog.text.count("points that umi did not write") == 1 and repr(id) in caplog.text
    assert store.verify().problems == (f"point {id!r} was not written by umi; move it to a collection of its own",)


FOREIGN = {
    "a cleared payload": lambda client, id: client.clear_payload("toys", points_selector=[id]),
    "a text as metadata": lambda client, id: client.set_payload("toys", {"metadata": "x"}, points=[id]),
    "a text as time": lambda client, id: client.set_payload("toys", {"time": "x"}, points=[id]),
    "a text as position": lambda client, id: client.set_payload("toys", {"position": "x"}, points=[id]),
    "a number as source": lambda client, id: client.set_payload("toys", {"source": 5}, points=[id]),
    "a float too large": lambda client, id: client.set_payload(
        "toys", {"metadata": {"price": {"float": "0x1p9999"}}}, points=[id]
    ),
    "no id": lambda client, id: client.delete_payload("toys", ["id"], points=[id]),
}


@pytest.mark.parametrize("change", FOREIGN)
def test_a_point_that_another_program_changed_is_an_error_that_names_it(change):
    client = local()
    store, chunks = qdrant(client), corpus(size=20)
    store.add(chunks)
    FOREIGN[change](client, point_id(chunks[0].id))
    for read in (
        lambda: store.scan(),
        lambda: DualRetriever(store).search(chunks[0].text, strategy="vector", limit=50),
    ):
        with pytest.raises(LedgerDamaged, match="not what"):
            read()
    assert not store.verify()


@pytest.mark.parametrize("field, value", [("length", "x"), ("draw", [1])])
def test_a_field_for_statistics_that_another_program_changed_is_an_error_that_names_the_point(field, value):
    client = local()
    store, chunks = qdrant(client), corpus(size=20)
    store.add(chunks)
    client.set_payload("toys", {field: value}, points=[point_id(chunks[0].id)])
    with pytest.raises(LedgerDamaged, match=point_id(chunks[0].id)):
        search(store, chunks[1].text)
    (found,) = store.verify().problems
    assert chunks[0].id in found and field in found


def test_threads_of_two_stores_over_one_client_in_local_mode_call_it_in_turn():
    """A read during a write of the other store would find a point that is written in part, and call it damaged."""

    class Watched(Counting):
        inside, most = 0, 0

        def __getattr__(self, name):
            found = super().__getattr__(name)
            if name not in ("upsert", "retrieve", "query_batch_points"):
                return found

            def call(*args, **named):
                self.inside += 1
                self.most = max(self.most, self.inside)
                time.sleep(0.01)
                try:
                    return found(*args, **named)
                finally:
                    self.inside -= 1

            return call

    client = Watched(local())
    stores = [qdrant(client), qdrant(client)]

    def write_and_read(own):
        for n in range(5):
            stores[own].add([Chunk(f"{own}{n}", f"the roofers want {n} thousand")])
            assert stores[own].get([f"{own}{n}"]) != [None]

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write_and_read, range(2)))
    assert client.most == 1
    assert len(stores[0]) == 10
