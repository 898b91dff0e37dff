"""The promises of `Store.recall`, compared with brute force."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from inspect import signature
from itertools import pairwise

import numpy as np
import pytest
from corpus import NOW, by_id, corpus, queries, search
from oracle import Oracle, best

from umi_common.config import DecayConfig
from umi_common.filters import parse_filter
from umi_common.pool import FIRST_RANK, NO_POSITION, NO_SOURCE, NOT_RANKED
from umi_common.protocols import NEIGHBOURS_OF, Probe, RecallRequest
from umi_common.ranking.evidence import pool_background
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.qdrant import QdrantStore
from umi_common.types import Chunk, TimeRange

WEEK = TimeRange(NOW - timedelta(hours=300), NOW - timedelta(hours=50))
ANN = parse_filter({"user": "ann"})
FORGETTING = DecayConfig(half_life_hours=100.0, floor=0.2)
CONDITIONS = [
    pytest.param({}, id="everything"),
    pytest.param({"where": ANN}, id="one tenant"),
    pytest.param({"window": WEEK}, id="a window"),
    pytest.param({"decay": FORGETTING}, id="decay"),
    pytest.param({"where": ANN, "window": WEEK, "decay": FORGETTING}, id="all three"),
]


@pytest.fixture(scope="module")
def oracle():
    """The results that a store of `corpus()` must give."""
    return Oracle(corpus())


@pytest.mark.parametrize("store_class", [HybridStore, ChromaStore, QdrantStore])
def test_an_editor_shows_every_option_of_recall(store_class):
    shown = list(signature(store_class.recall).parameters)
    assert shown == ["self", *(each.name for each in fields(RecallRequest))]


def expected(oracle, query, where=None, window=None, decay=None):
    """For each arm, the decayed scores of the chunks that pass, and the tolerance of the store."""
    may = oracle.passing(where, window)
    for scores in (oracle.bm25(query), oracle.cosines(query)):
        seen = {id: score for id, score in scores.items() if id in may}
        yield seen if decay is None else oracle.decayed(seen, decay, NOW)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("depth", [1, 5, 30])
def test_the_best_of_each_arm_are_in_the_pool_and_ranked(filled, kind, oracle, condition, depth):
    wanted = held = 0
    for query in queries():
        pool = search(filled, query, depth=depth, **condition)
        bound = pool.lexical_bound[0]
        lexical, dense = expected(oracle, query, **condition)
        for scores, ranks, slack in (
            (lexical, pool.lexical_rank, kind.bm25 * bound),
            (dense, pool.dense_rank, kind.cosine),
        ):
            must = best(scores, depth, slack)
            ranked = {id for id, rank in by_id(pool, ranks).items() if rank != NOT_RANKED}
            wanted, held = wanted + len(must), held + len(must & ranked)
    assert wanted
    assert held >= kind.found * wanted


@pytest.mark.parametrize("condition", CONDITIONS)
def test_nothing_comes_that_may_not_be_seen(filled, oracle, condition):
    may = oracle.passing(condition.get("where"), condition.get("window"))
    for query in queries(1):
        assert set(search(filled, query, depth=40, around=3, **condition).ids) <= may


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_row_has_the_raw_score_of_both_arms(filled, kind, oracle, condition):
    for query in queries(2):
        pool = search(filled, query, around=1, **condition)
        assert pool.mode == "hybrid" and not pool.degraded
        bm25, cosines = oracle.bm25(query), oracle.cosines(query)
        for id, score in by_id(pool, pool.lexical).items():
            assert score == pytest.approx(bm25.get(id, 0.0), abs=kind.bm25 * pool.lexical_bound[0] + 1e-12)
        for id, score in by_id(pool, pool.dense).items():
            assert score == pytest.approx(cosines.get(id, 0.0), abs=kind.cosine)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("depth", [3, 20])
def test_ranks_count_from_one_along_falling_scores(filled, kind, oracle, condition, depth):
    for query in queries(3):
        pool = search(filled, query, depth=depth, around=1, **condition)
        scored = list(expected(oracle, query, **condition))
        slacks = kind.bm25 * pool.lexical_bound[0], kind.cosine
        for ranks, scores, slack in zip((pool.lexical_rank, pool.dense_rank), scored, slacks, strict=True):
            ranked = sorted((rank, id) for id, rank in by_id(pool, ranks).items() if rank != NOT_RANKED)
            assert [rank for rank, _ in ranked] == list(range(FIRST_RANK, len(ranked) + FIRST_RANK))
            along = [scores[id] for _, id in ranked]  # a KeyError: ranked by an arm that cannot have found it
            assert all(one >= other - 2 * slack for one, other in pairwise(along))
            if kind.found == 1.0:
                assert len(ranked) >= min(depth, len(scores))


def test_words_that_nobody_wrote_are_no_lexical_hit(filled):
    pool = search(filled, "zyzzyva")
    assert not pool.lexical.any()
    assert (pool.lexical_rank == NOT_RANKED).all()
    assert pool.coverage.tolist() == [0.0]


def test_a_chunk_without_a_word_is_a_chunk_to_bm25(store, kind):
    chunks = [*corpus(size=20), *(Chunk(f"mute {number}", "?!") for number in range(5))]
    store.add(chunks)
    pool = search(store, "red boat night train", depth=50)
    bm25 = Oracle(chunks).bm25("red boat night train")
    assert {id: score for id, score in by_id(pool, pool.lexical).items() if score} == pytest.approx(bm25, rel=kind.bm25)


def test_the_pool_is_sorted_by_id_and_each_id_comes_once(filled):
    pool = search(filled, *queries(4), around=2)
    assert list(pool.ids) == sorted(set(pool.ids))


def test_ties_fall_to_the_smaller_id(store):
    store.add([Chunk(f"c{number:02}", "the very same words") for number in reversed(range(30))])
    pool = search(store, "same words", depth=10)
    for ranks in (pool.lexical_rank, pool.dense_rank):
        ranked = sorted((rank, id) for id, rank in by_id(pool, ranks).items() if rank != NOT_RANKED)
        assert [id for _, id in ranked] == sorted(id for _, id in ranked)
        assert [id for _, id in ranked][:10] == [f"c{number:02}" for number in range(10)]


def test_decay_decides_among_equals(store):
    aged = [
        Chunk(f"c{number:02}", "the very same words", event_time=NOW - timedelta(hours=number)) for number in range(30)
    ]
    store.add(aged)
    pool = search(store, "the very same words", depth=10, decay=DecayConfig(half_life_hours=1.0, floor=0.0))
    ranked = sorted((rank, id) for id, rank in by_id(pool, pool.dense_rank).items() if rank != NOT_RANKED)
    assert [id for _, id in ranked][:10] == [f"c{number:02}" for number in range(10)]


def test_several_probes_share_one_pool_in_which_each_scores_every_row(filled, kind):
    asked = queries(5)
    together = search(filled, *asked, depth=8)
    assert together.lexical.shape == together.dense.shape == (len(asked), len(together))
    union = set()
    for variation, query in enumerate(asked):
        alone = search(filled, query, depth=8)
        union |= set(alone.ids)
        rows = [together.ids.index(id) for id in alone.ids]
        np.testing.assert_allclose(together.dense[variation, rows], alone.dense[0], rtol=0, atol=kind.cosine)
        np.testing.assert_allclose(
            together.lexical[variation, rows], alone.lexical[0], rtol=0, atol=kind.bm25 * alone.lexical_bound[0]
        )
    assert union <= set(together.ids)


def side_by_side(pool):
    """Pairs of rows that are neighbours by source and position."""
    place = {
        (source, position): row
        for row, (source, position) in enumerate(zip(pool.source.tolist(), pool.position.tolist(), strict=True))
        if source != NO_SOURCE and position != NO_POSITION
    }
    return {(row, place.get((source, position + 1))) for (source, position), row in place.items()}


def test_searches_asked_together_find_what_each_finds_alone(new_store, kind):
    embedder = CountingEmbedder(HashEmbedder())
    store, fresh = new_store(embedder), new_store(embedder)
    chunks = corpus()
    for each in (store, fresh):  # one keeps the vectors of its queries
        each.add(chunks)
    first, second, third, fourth = ([Probe(query)] for query in queries())
    asked = [
        RecallRequest(first, 5, NOW, around=1),
        RecallRequest(second, 5, NOW, around=1),
        RecallRequest([*third, Probe("night train", ids=(chunks[0].id,))], 5, NOW, around=1),
        RecallRequest(fourth, 8, NOW - timedelta(hours=30), where=ANN, decay=FORGETTING),
        RecallRequest(first, 5, NOW, window=WEEK),
    ]
    alone = [each.run(store) for each in asked]
    before = embedder.query_calls
    for own, pool in zip(alone, fresh.recall_many(asked), strict=True):
        assert tuple(pool.ids) == tuple(own.ids)
        assert pool.mode == own.mode
        assert (pool.lexical_rank == own.lexical_rank).all() and (pool.dense_rank == own.dense_rank).all()
        assert side_by_side(pool) == side_by_side(own)
        bound = kind.bm25 * float(own.lexical_bound.max())
        np.testing.assert_allclose(pool.lexical, own.lexical, rtol=0, atol=bound)
        np.testing.assert_allclose(pool.dense, own.dense, rtol=0, atol=kind.cosine)
        np.testing.assert_allclose(pool_background(pool).mean, pool_background(own).mean, rtol=0, atol=1e-6)
    assert embedder.query_calls == before + 1
    assert store.recall_many([]) == []


def test_all_probes_are_embedded_in_one_call_and_those_with_a_vector_not_at_all(new_store):
    embedder = CountingEmbedder(HashEmbedder())
    store = new_store(embedder)
    store.add(corpus(size=10))
    embedder.texts.clear()
    own = HashEmbedder().embed_queries(["red boat"])[0]
    store.recall([Probe("red boat", own), Probe("night train"), Probe("river")], depth=5, now=NOW)
    assert embedder.query_calls == 1
    assert embedder.texts == ["night train", "river"]


def test_the_vector_of_a_probe_is_what_is_searched(filled, kind):
    far = HashEmbedder().embed_queries(["music"])[0]
    pool = filled.recall([Probe("boat", far * 3)], depth=5, now=NOW)
    meant = search(filled, "music", depth=5)
    ranked = {id for id, rank in by_id(pool, pool.dense_rank).items() if rank}
    assert ranked == {id for id, rank in by_id(meant, meant.dense_rank).items() if rank}


def test_named_chunks_join_if_they_may_be_seen(filled, oracle):
    anns, others = (
        sorted(oracle.passing(parse_filter(where))) for where in ({"user": "ann"}, {"user": {"$ne": "ann"}})
    )
    probe = Probe("zyzzyva", ids=(anns[0], anns[-1], others[0], "nobody"))
    pool = filled.recall([probe], depth=1, now=NOW, where=ANN)
    assert {anns[0], anns[-1]} <= set(pool.ids)
    assert others[0] not in pool.ids and "nobody" not in pool.ids
    late = parse_filter({"number": {"$gte": 0}})
    outside = next(id for id in anns if id not in oracle.passing(None, WEEK))
    assert outside not in filled.recall([Probe("x", ids=(outside,))], depth=1, now=NOW, where=late, window=WEEK).ids


def test_what_stands_beside_the_best_joins_if_it_may_be_seen(filled, kind, oracle):
    depth = 12
    for query in queries(6):
        for where in (None, ANN):
            may = oracle.passing(where)
            pool = search(filled, query, depth=depth, around=2, where=where)
            for ranks in (pool.lexical_rank, pool.dense_rank):
                for id, rank in by_id(pool, ranks).items():
                    if NOT_RANKED < rank <= depth // NEIGHBOURS_OF:
                        assert set(oracle.beside(id, 2, may)) <= set(pool.ids)


def test_positions_differ_by_one_exactly_where_chunks_stand_side_by_side(filled, oracle):
    pool = search(filled, *queries(7), depth=30, around=1)
    places = dict(zip(pool.ids, zip(pool.source.tolist(), pool.position.tolist(), strict=True), strict=True))
    for id, (source, position) in places.items():
        chunk = oracle.chunks[id]
        assert (source == NO_SOURCE) == (chunk.source is None)
        assert (position == NO_POSITION) == (chunk.source is None or chunk.position is None)
        if position == NO_POSITION:
            continue
        side_by_side = set(oracle.beside(id, 1)) & set(places)
        assert side_by_side == {
            other
            for other, at in places.items()
            if at[0] == source and abs(at[1] - position) <= 1 and at[1] != NO_POSITION
        }


def test_rows_of_one_source_share_its_code(filled, oracle):
    pool = search(filled, *queries(8), depth=30)
    for one, code in zip(pool.ids, pool.source.tolist(), strict=True):
        for other, another in zip(pool.ids, pool.source.tolist(), strict=True):
            same = oracle.chunks[one].source == oracle.chunks[other].source
            assert (code == another) == same


def test_ages_are_hours_at_now_and_negative_in_the_future(store):
    store.add([Chunk("past", "boat", event_time=NOW - timedelta(hours=2)), Chunk("none", "boat")])
    store.add([Chunk("future", "boat", event_time=NOW + timedelta(minutes=30))])
    pool = search(store, "boat")
    assert by_id(pool, pool.age_hours[np.newaxis]) == pytest.approx(
        {"past": 2.0, "none": np.nan, "future": -0.5}, nan_ok=True
    )


def test_a_window_is_half_open_and_leaves_out_what_has_no_time(store):
    tick = timedelta(microseconds=1)
    start, end = NOW - timedelta(hours=5), NOW
    times = {"before": start - tick, "start": start, "last": end - tick, "end": end, "none": None}
    store.add([Chunk(id, "boat", event_time=when) for id, when in times.items()])
    assert set(search(store, "boat", window=TimeRange(start, end)).ids) == {"start", "last"}
    assert set(search(store, "boat", window=TimeRange(start, None)).ids) == {"start", "last", "end"}
    assert set(search(store, "boat", window=TimeRange(None, start)).ids) == {"before"}


def test_what_a_pool_says_of_its_rows_and_queries(filled, kind, oracle):
    pool = search(filled, *queries(9), around=1)
    np.testing.assert_array_equal(pool.vectors, filled.vectors(pool.ids))
    np.testing.assert_allclose(np.linalg.norm(pool.query_vectors, axis=1), 1.0, atol=1e-6)
    assert (pool.lexical <= pool.lexical_bound[:, np.newaxis] + 1e-9).all()
    assert ((pool.coverage >= 0) & (pool.coverage <= 1)).all()
    words = [len(oracle.chunks[id].text.split()) for id in pool.ids]
    assert pool.length.tolist() == words
    for name in ("lexical", "dense", "lexical_bound", "source_lexical", "coverage", "vectors"):
        assert np.isfinite(getattr(pool, name)).all(), name


def test_an_empty_store_answers_with_an_empty_pool(store):
    pool = search(store, "anything", "else", around=1)
    assert len(pool) == 0
    assert pool.lexical.shape == pool.dense.shape == pool.lexical_rank.shape == (2, 0)


def test_a_filter_that_nothing_passes_gives_an_empty_pool(filled):
    assert len(search(filled, "red boat", where=parse_filter({"user": "nobody"}), around=2)) == 0


def test_a_chunk_the_model_knows_nothing_of_is_found_by_words_only(store):
    store.add(
        [Chunk("x", "words"), Chunk("y", "other")],
        vectors=np.eye(1, 64, dtype=np.float32).repeat(2, axis=0) * [[0], [1]],
    )
    pool = store.recall([Probe("words", np.eye(1, 64, dtype=np.float32)[0])], depth=10, now=NOW)
    assert pool.ids == ("x", "y")
    assert pool.dense_rank[0].tolist() == [0, 1]
    assert pool.lexical_rank[0].tolist() == [1, 0]


def test_a_row_with_a_rare_term_of_the_query_is_marked(store):
    if not isinstance(store, (HybridStore, ChromaStore, QdrantStore)):
        pytest.skip("a store need not say which terms are rare")
    store.add([*corpus(), Chunk("rare", "a quokka at the river")])
    pool = search(store, "which river has a quokka", "river")
    assert pool.ids_at(np.flatnonzero(pool.rare[0])) == ["rare"]
    assert not pool.rare[1].any()
