"""One search: the number of calls to the server, and a pool equal to the embedded store's."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from qdrant_client import QdrantClient
from qdrant_client.local import payload_filters
from qdrant_toys import NOW, Counting, Failing, Remote, by_id, corpus, in_order, local, qdrant, queries, search

from umi_common import DualRetriever, HybridStore, UmiConfig
from umi_common.config import DecayConfig, LexicalConfig
from umi_common.errors import ConfigError, InvalidVector, SearchUnavailable
from umi_common.filters import parse_filter
from umi_common.pool import NOT_RANKED
from umi_common.protocols import Probe
from umi_common.sim import FaultyEmbedder, HashEmbedder
from umi_common.stores.qdrant import QdrantStore
from umi_common.types import Chunk, TimeRange

EXACT = ("dense", "lexical_rank", "dense_rank", "source", "length", "age_hours", "vectors")
NEAR = ("lexical", "coverage")


@pytest.fixture(scope="module")
def chunks():
    return in_order(corpus(size=90))


@pytest.fixture(scope="module")
def filled(chunks):
    """Client, QdrantStore and HybridStore with the same chunks."""
    client = Counting(local())
    ours, embedded = qdrant(client), HybridStore.open(embedder=HashEmbedder())
    for store in (ours, embedded):
        store.add(chunks)
    yield client, ours, embedded
    embedded.close()


def asked(client, call):
    """The calls of the client during a search."""
    client.calls.clear()
    call()
    return dict(client.calls)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"where": parse_filter({"user": {"$ne": "ann"}})},
        {"window": TimeRange(NOW - timedelta(hours=300), NOW)},
        {"decay": DecayConfig(half_life_hours=50, floor=0.2)},
    ],
    ids=["plain", "filter", "window", "decay"],
)
def test_three_variations_are_one_query_and_their_neighbours_one_more(filled, options):
    client, store, _ = filled
    assert asked(client, lambda: search(store, *queries(1, 4), **options)) == {"query_batch_points": 1}
    calls = asked(client, lambda: search(store, *queries(1, 4), depth=4, around=1, **options))
    assert calls == {"query_batch_points": 1, "scroll": 1}


def test_statistics_that_have_aged_ride_along(chunks):
    client = Counting(local())
    store = qdrant(client)
    store.add(chunks[:40])
    assert asked(client, lambda: search(store, "red boat")) == {"query_batch_points": 1}
    store.add(chunks[40:])
    pools = []
    assert asked(client, lambda: pools.append(search(store, "red boat"))) == {"query_batch_points": 1}
    assert pools[0].facts["chunks"] == len(chunks)


@pytest.mark.parametrize("depth", [5, 20])
@pytest.mark.parametrize("around", [0, 2])
@pytest.mark.parametrize(
    "options",
    [{}, {"where": parse_filter({"number": {"$gte": 20}})}, {"lexical": LexicalConfig(k1=0.4, b=0.1)}],
    ids=["plain", "filter", "other k1 and b"],
)
def test_the_pool_is_the_embedded_stores(filled, depth, around, options):
    _, ours, embedded = filled
    for query in queries(3):
        one, other = (search(store, query, depth=depth, around=around, **options) for store in (ours, embedded))
        assert one.ids == other.ids
        np.testing.assert_allclose(one.background.mean, other.background.mean, atol=1e-12)
        for name in EXACT:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-12, err_msg=name)
        for name in NEAR:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6, err_msg=name)
        assert one.calibration == pytest.approx(dict(other.calibration), abs=1e-6)


@pytest.mark.parametrize("variant", ["l", "plus"])
def test_other_variants_are_scored_from_the_same_statistics(filled, variant):
    _, ours, embedded = filled
    config = LexicalConfig(variant=variant, delta=1.0)
    one, other = (search(store, "red boat river", depth=90, lexical=config) for store in (ours, embedded))
    assert one.ids == other.ids
    np.testing.assert_allclose(one.lexical, other.lexical, atol=1e-6)


def test_what_needs_all_terms_is_refused(filled):
    with pytest.raises(ConfigError):
        search(filled[1], "boat", lexical=LexicalConfig(variant="okapi"))


def test_hits_are_the_embedded_stores(filled):
    _, ours, embedded = filled
    for query in queries(4, 6):
        one, other = (DualRetriever(store, clock=lambda: NOW).search(query, limit=5) for store in (ours, embedded))
        assert [hit.chunk for hit in one][:3] == [hit.chunk for hit in other][:3]


def test_many_queries_at_once_find_what_each_finds_alone(filled):
    umi = DualRetriever(filled[1], clock=lambda: NOW)
    many = queries(5, 20)
    together = umi.search_many(many, limit=5)
    assert [result.ids for result in together] == [umi.search(query, limit=5).ids for query in many]


def test_a_server_gives_the_neighbours_of_the_embedded_store_across_gaps_and_equal_positions():
    places = [("a", 3), ("a", 3), ("a", 7), ("b", 0), ("a", -2), ("a", 3), ("b", 5), ("a", 90), ("b", None)]
    chunks = [Chunk(f"c{n}", f"text {n}", source=source, position=at) for n, (source, at) in enumerate(places)]
    server, embedded = qdrant(Remote()), HybridStore.open(embedder=HashEmbedder())
    server.add(chunks)
    embedded.add(chunks)
    for reach in (1, 2, 9):
        assert server.neighbours(server.ids(), reach=reach) == embedded.neighbours(embedded.ids(), reach=reach)
    embedded.close()


def test_named_chunks_join_if_they_may_be_seen(filled, chunks):
    ids = tuple(chunk.id for chunk in chunks[:6])
    where = parse_filter({"user": "ann"})
    probe = Probe("zyzzyva", np.zeros(64, dtype=np.float32), ids=(*ids, "nobody"))
    pool = filled[1].recall([probe], depth=3, now=NOW, where=where)
    assert set(pool.ids) == {chunk.id for chunk in chunks[:6] if chunk.metadata["user"] == "ann"}
    assert (pool.dense_rank == NOT_RANKED).all() and (pool.lexical_rank == NOT_RANKED).all()


def test_a_widened_filter_asks_again_until_the_depth_is_reached():
    store = qdrant(client := Counting(local()))
    late = [Chunk(f"late{n:03}", "boat", metadata={"when": "2024-05-20"}) for n in range(150)]
    early = [Chunk(f"zz{n}", f"boat {n} on a river", metadata={"when": "2024-01-02"}) for n in range(10)]
    store.add([*late, *early])
    client.calls.clear()
    pool = search(store, "boat", depth=8, where=parse_filter({"when": {"$lt": "2024-02"}}))
    assert {id for id, rank in by_id(pool, pool.lexical_rank).items() if rank} <= {chunk.id for chunk in early}
    assert int(pool.lexical_rank.max()) == int(pool.dense_rank.max()) == 8
    assert pool.facts["filter"] == "widened"
    assert 1 < client.calls["query_batch_points"] <= 4


@pytest.mark.parametrize("late", [15, 90])
def test_a_widened_filter_asks_once_if_the_first_answer_held_all_that_an_arm_can_rank(late):
    """Qdrant compares "2024-0" only, so the filter lets the chunks of March through. The word is in three chunks; the
    vectors rank `depth` chunks, or all that pass."""
    store = qdrant(client := Counting(local()))
    whens = ["2024-05-20" if n < late else "2024-03-01" for n in range(late + 5)]
    store.add(Chunk(f"c{n:03}", "boat" if n < 3 else f"word{n}", metadata={"when": w}) for n, w in enumerate(whens))
    client.calls.clear()
    pool = search(store, "boat", depth=20, where=parse_filter({"when": {"$gt": "2024-04"}}))
    assert pool.facts["filter"] == "widened"
    assert int(pool.lexical_rank.max()) == 3 and int(pool.dense_rank.max()) == min(20, late)
    assert client.calls["query_batch_points"] == 1


def test_without_an_embedder_words_alone_answer(chunks):
    client = local()
    qdrant(client).add(chunks)
    store = QdrantStore(client, "toys", FaultyEmbedder(HashEmbedder(), fail_on="boat"))
    pool = search(store, "red boat", around=1)
    assert pool.mode == "text" and [loss.part for loss in pool.degraded] == ["embedder"]
    assert pool.lexical.any() and not pool.dense.any() and pool.query_vectors.shape == (1, 0)


def test_a_server_that_fails_is_no_arm_at_all(chunks):
    client = local()
    qdrant(client).add(chunks)
    store = qdrant(Failing(client, "query_batch_points", lambda count: True))
    with pytest.raises(SearchUnavailable) as caught:
        search(store, "a secret query")
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__.__cause__, ConnectionError)


def test_a_query_vector_of_another_dimension_is_refused(filled):
    with pytest.raises(InvalidVector):
        filled[1].recall([Probe("boat", np.ones(3, dtype=np.float32))], depth=5, now=NOW)


def test_a_query_of_thousands_of_words_is_cut_not_refused(filled):
    pool = search(filled[1], " ".join(f"word{n}" for n in range(900)) + " boat")
    assert pool.coverage.tolist() == [0.0]
    pool = search(filled[1], "boat " + " ".join(f"word{n}" for n in range(900)))
    assert pool.lexical.any()


def test_a_store_on_a_path_is_found_again(tmp_path, chunks):
    client = QdrantClient(path=str(tmp_path))
    qdrant(client).add(chunks[:20])
    before = search(qdrant(client), "red boat")
    client.close()
    client = QdrantClient(path=str(tmp_path))
    after = search(qdrant(client), "red boat")
    assert before.ids == after.ids
    np.testing.assert_array_equal(before.lexical, after.lexical)
    client.close()


async def test_an_event_loop_may_ask_too(filled):
    umi = DualRetriever(filled[1], config=UmiConfig(), clock=lambda: NOW)
    assert (await umi.asearch("red boat")).ids == umi.search("red boat").ids


def test_positions_with_gaps_are_bridged_in_one_more_round_trip_too():
    client = Counting(local())
    store, embedded = qdrant(client), HybridStore.open(embedder=HashEmbedder())
    made = [Chunk(f"c{n:02}", f"word{n} boat", source="s", position=n * n) for n in range(40)]
    for each in (store, embedded):
        each.add(made)
    one, other = (search(each, "word20", depth=10, around=2) for each in (store, embedded))
    assert {f"c{n}" for n in range(18, 23)} <= set(one.ids) & set(other.ids)
    at = dict(zip(one.ids, one.position.tolist(), strict=True))
    assert [at[f"c{n}"] - at["c20"] for n in range(18, 23)] == [-2, -1, 0, 1, 2]
    client.calls.clear()
    search(store, "word20", depth=10, around=2)
    assert client.calls == {"query_batch_points": 2}
    embedded.close()


@pytest.mark.parametrize("step", [1, 3])
def test_in_local_mode_a_search_compares_each_chunk_few_times_with_or_without_gaps(monkeypatch, step):
    store = qdrant(local())
    store.add([Chunk(f"c{n}", f"boat word{n}", source=f"s{n // 5}", position=n % 5 * step) for n in range(600)])
    with DualRetriever(store) as umi:
        umi.search("boat word17")
        compared, check = [], payload_filters.check_filter
        monkeypatch.setattr(payload_filters, "check_filter", lambda *each: compared.append(each) or check(*each))
        assert umi.search("boat word23").ids[0] == "c23"
    assert len(compared) < 16 * 600
