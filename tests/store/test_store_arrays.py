"""Rows, positions and the exact scan, compared with simple loops."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from small_store import NOW

from umi_common.config import DecayConfig
from umi_common.pool import unit_vectors
from umi_common.protocols import RecallRequest
from umi_common.stores.arrays import STRIPES, Growing, at_most_kth, best_rows, kth
from umi_common.stores.dense.cosines import cosines, cosines_at, search
from umi_common.stores.ledger.codec import Head
from umi_common.stores.rows.rows import RowTable
from umi_common.types import microseconds

HEADS = st.lists(
    st.tuples(
        st.sampled_from([None, "s", "t", "u"]), st.one_of(st.none(), st.integers(-(2**62), 2**62), st.integers(0, 3))
    ),
    max_size=30,
)


def table(places, dead=()) -> RowTable:
    rows = RowTable()
    rows.append(
        [Head(seq + 1, f"c{seq * 7 % 31:02}", source, place, None) for seq, (source, place) in enumerate(places)]
    )
    rows.remove(np.array(sorted(dead), dtype=np.int64))
    return rows


@given(HEADS, st.data())
def test_places_are_the_order_by_position_then_id_among_the_living(places, data):
    dead = data.draw(st.sets(st.integers(0, len(places) - 1))) if places else set()
    rows = table(places, dead).snapshot()
    for source in ("s", "t", "u"):
        members = [
            row for row, (of, place) in enumerate(places) if of == source and place is not None and row not in dead
        ]
        members.sort(key=lambda row: (places[row][1], rows.ids[row]))
        assert [int(rows.index_in_source[row]) for row in members] == list(range(len(members)))
        for at, row in enumerate(members):
            beside = rows.beside(np.array([row]), 2).tolist()
            assert sorted(beside) == sorted(members[max(0, at - 2) : at + 3])
    placed = sum(
        1 for row, (of, place) in enumerate(places) if of is not None and place is not None and row not in dead
    )
    assert (rows.index_in_source >= 0).sum() == placed


def test_a_snapshot_does_not_change_with_what_follows():
    rows = table([("s", 1), ("s", 2)])
    before = rows.snapshot()
    rows.append([Head(3, "new", "s", 0, None)])
    rows.remove(np.array([0]))
    assert before.alive.tolist() == [True, True]
    assert len(before) == before.living == 2
    assert rows.snapshot().living == 2


def test_views_of_a_growing_array_keep_their_values():
    array = Growing(np.int64)
    array.extend(np.arange(200))
    view = array.view
    array.extend(np.arange(1_000))
    assert view.tolist() == list(range(200))
    assert array.view.tolist() == [*range(200), *range(1_000)]


def test_decay_halves_to_the_floor():
    heads = [
        Head(1, "now", None, None, microseconds(NOW)),
        Head(2, "old", None, None, microseconds(NOW - timedelta(hours=2))),
        Head(3, "future", None, None, microseconds(NOW + timedelta(hours=9))),
        Head(4, "timeless", None, None, None),
    ]
    rows = RowTable()
    rows.append(heads)
    request = RecallRequest((), depth=1, now=NOW, decay=DecayConfig(half_life_hours=2.0, floor=0.2))
    factors = rows.snapshot().decay(request)
    # 0.2 + 0.8 / 2
    assert factors.tolist() == approx([1.0, 0.6, 1.0, 1.0])
    assert rows.snapshot().decay(RecallRequest((), depth=1, now=NOW)) is None


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 12), st.booleans(), st.booleans())
def test_the_scan_is_the_definition(seed, n, k, masked, weighted):
    dice = np.random.default_rng(seed)
    # Few distinct directions, so that there are ties.
    directions = dice.normal(size=(5, 7))
    vectors = directions[dice.integers(0, 5, n)]
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    query = (directions[0] / np.linalg.norm(directions[0])).astype(np.float32)
    ids = [f"c{i:02}" for i in dice.permutation(n)]
    allowed = dice.random(n) < 0.3 if masked else None
    weights = dice.choice([0.25, 0.5, 1.0], n) if weighted else None
    (found,) = search(vectors, query[None], k=k, allowed=allowed, weights=weights, ids=ids)
    scores = cosines(vectors, query[None])[0]
    if weights is not None:
        scores = np.where(scores > 0, scores * weights, scores)
    expected = sorted(
        (row for row in range(n) if allowed is None or allowed[row]), key=lambda row: (-scores[row], ids[row])
    )
    assert found.rows.tolist() == expected[:k]
    assert found.scores.tolist() == scores[expected[:k]].tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 400), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_a_cosine_depends_on_the_pair_alone_to_the_bit(seed, n, dim, several):
    dice = np.random.default_rng(seed)
    vectors = dice.normal(size=(n, dim)).astype(np.float32)
    queries = dice.normal(size=(several, dim)).astype(np.float32)
    order, start = dice.permutation(n)[: n // 2 + 1], int(dice.integers(n))
    every = cosines(vectors, queries)
    np.testing.assert_array_equal(cosines(vectors[order].copy(), queries), every[:, order])
    np.testing.assert_array_equal(cosines_at(vectors, order, queries), every[:, order])
    np.testing.assert_array_equal(cosines(vectors[start:], queries[-1:]), every[-1:, start:])
    np.testing.assert_allclose(every, queries @ vectors.T, rtol=1e-4, atol=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([1e-30, 1e-3, 1.0, 1e30]))
def test_a_row_scaled_to_length_one_stays_as_it_is_for_good(seed, dim, size):
    rows = unit_vectors((np.random.default_rng(seed).normal(size=(50, dim)) * size).astype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(rows.astype(np.float64), axis=1), 1.0, atol=1e-7)
    np.testing.assert_array_equal(unit_vectors(rows), rows)


def test_a_query_without_direction_finds_nothing():
    (found,) = search(
        np.eye(3, dtype=np.float32), np.zeros((1, 3), np.float32), k=2, allowed=None, weights=None, ids="abc"
    )
    assert not len(found.rows)


FEW_SCORES = st.lists(st.integers(-3, 3).map(lambda score: score / 4), min_size=1, max_size=80)


@given(FEW_SCORES, st.integers(1, 12), st.sampled_from([-np.inf, 0.0]))
def test_the_best_rows_are_those_of_a_full_sort_with_ties_by_the_smaller_id(scores, k, above):
    ids = [f"{(7 * row) % 80:02}" for row in range(len(scores))]
    expected = sorted((-score, ids[row], row) for row, score in enumerate(scores) if score > above)[:k]
    rows, falling = best_rows(np.arange(len(scores)), np.array(scores), k, ids.__getitem__, above=above)
    assert rows.tolist() == [row for _, _, row in expected]
    assert falling.tolist() == [-score for score, _, _ in expected]


@given(st.lists(st.floats(-1, 1, width=32), max_size=20 * STRIPES), st.integers(1, 30))
def test_the_score_near_the_kth_is_never_above_it_and_exact_for_few(scores, k):
    given_scores = np.array(scores, np.float32)
    exact, near = kth(given_scores, k, -2.0), at_most_kth(given_scores, k, -2.0)
    assert exact == (sorted(given_scores.tolist())[-k] if len(scores) >= k else -2.0)
    assert near <= exact
    assert near == exact or len(scores) >= k * STRIPES
