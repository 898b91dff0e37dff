"""The same corpora through Qdrant's own engine (`qdrant-edge-py`) and, where one is named, through a server."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient
from qdrant_toys import NOW, Counting, corpus, in_order, local, queries, search

from umi_common import DualRetriever, HybridStore
from umi_common.config import DecayConfig
from umi_common.filters import parse_filter
from umi_common.stores.qdrant import QdrantStore

pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")
from edge_client import EdgeClient

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))
from evaluation_toys import DATA

SERVER = os.environ.get("UMI_TEST_QDRANT_URL")
CONDITIONS = [
    {},
    {"where": parse_filter({"user": {"$in": ["ann", "cleo"]}, "number": {"$gt": 10}})},
    {"where": parse_filter({"$not": {"user": "ann"}})},
    {"decay": DecayConfig(half_life_hours=80.0, floor=0.3)},
]


def meaning(client, name="toys", **options):
    """A store whose vectors differ for all texts, so that there are no ties."""
    return QdrantStore(client, name, **options)


@pytest.fixture(scope="module")
def chunks():
    return in_order(corpus(11, size=100))


@pytest.fixture(scope="module")
def engine(chunks, tmp_path_factory):
    store = meaning(EdgeClient(tmp_path_factory.mktemp("engine") / "shard"), tenants=["user"])
    store.add(chunks)
    return store


def assert_alike(one, other):
    """Assert equal rows and scores, within the error of the engine's float32 idf."""
    assert one.ids == other.ids
    np.testing.assert_allclose(one.background.mean, other.background.mean, atol=1e-12)
    for name in ("dense", "dense_rank", "lexical_rank", "source", "position", "length", "vectors"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-12, err_msg=name)
    for name in ("lexical", "lexical_bound", "coverage", "source_lexical"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6, err_msg=name)


@pytest.mark.parametrize("condition", CONDITIONS, ids=["plain", "filter", "complement", "decay"])
def test_the_real_engine_scores_as_local_mode_does(engine, chunks, condition):
    other = meaning(local())
    other.add(chunks)
    for query in queries(11):
        assert_alike(*(search(store, query, depth=15, around=1, **condition) for store in (engine, other)))


def test_the_real_engine_holds_what_was_written(engine, chunks):
    assert engine.verify() and engine.verify().checked == len(chunks)
    assert engine.scan() == sorted(chunks, key=lambda chunk: chunk.id)
    assert engine.status().chunks == len(chunks)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "locomo").exists(), reason="../shared/data is not there")
def test_a_long_conversation_is_answered_as_from_the_embedded_store(tmp_path):
    from umi_common.evaluation import load_conversations

    dataset = load_conversations(DATA / "locomo")[0]
    stores = HybridStore.open(), QdrantStore(EdgeClient(tmp_path / "shard"), "locomo")
    found = []
    for store in stores:
        store.add(dataset.chunks)
        umi = DualRetriever(store, clock=lambda: NOW)
        found.append([umi.search(query.text, limit=10).ids for query in dataset.judged[:25]])
    same = [len(set(one) & set(other)) / 10 for one, other in zip(*found, strict=True)]
    assert sum(same) / len(same) >= 0.95
    stores[0].close()


@pytest.mark.skipif(SERVER is None, reason="UMI_TEST_QDRANT_URL names no server")
@pytest.mark.parametrize("grpc", [False, True], ids=["rest", "grpc"])
def test_a_server_scores_as_local_mode_does(chunks, grpc):
    name = f"umi-test-{uuid.uuid4().hex}"
    client = Counting(QdrantClient(url=SERVER, prefer_grpc=grpc))
    try:
        store = meaning(client, name, tenants=["user"], ordered=["number"])
        store.add(chunks)
        other = meaning(local())
        other.add(chunks)
        for condition in CONDITIONS:
            for query in queries(11):
                assert_alike(*(search(each, query, depth=15, around=1, **condition) for each in (store, other)))
        client.calls.clear()
        search(store, *queries(11), depth=15, around=1)
        assert client.calls["query_batch_points"] == 1 and sum(client.calls.values()) <= 2
        assert store.verify()
        assert store.delete(where={"user": "ann"}) and len(store) == len(store.ids())
    finally:
        client.delete_collection(name)
