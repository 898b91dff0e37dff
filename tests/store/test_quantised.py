"""The scan over codes gives the same result as the scan over floats, to the bit, and no error exceeds its bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umi_common.pool import Vectors
from umi_common.stores.arrays import Growing
from umi_common.stores.dense import cosines as dense
from umi_common.stores.dense.cosines import Quantised, QuantisedRows, search


def _unit(vectors: Any) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _rows(seed: int, count: int, dim: int, *, kind: str) -> Vectors:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, dim))
    if kind == "few values":
        vectors = np.sign(vectors)
    if kind == "one coordinate rules":
        vectors[:, 0] *= 1_000
    if kind == "crowded":
        vectors = vectors[:1] + vectors * 1e-3
    if kind == "tiny":
        vectors[:, 1:] *= 1e-30
    vectors[random.random(count) < 0.1] = 0.0
    vectors[random.random(count) < 0.2] = vectors[0]
    return _unit(vectors)


KINDS = st.sampled_from(["usual", "few values", "one coordinate rules", "crowded", "tiny"])


@given(st.integers(0, 10_000), st.integers(1, 300), st.integers(1, 70), KINDS)
@settings(max_examples=200, deadline=None)
def test_no_score_is_farther_off_than_the_bound_says(seed: int, count: int, dim: int, kind: str):
    rows, queries = _rows(seed, count, dim, kind=kind), _rows(seed + 1, 3, dim, kind="usual")
    scan = Quantised.of(rows).scan(queries)
    for query, about, bound in zip(queries, scan.scores, scan.bounds, strict=True):
        far = np.abs(about - rows.astype(np.float64) @ query.astype(np.float64))
        assert (far <= bound.at(np.arange(count))).all() and (far <= bound.largest).all()


@given(st.integers(0, 10_000), st.integers(1, 200), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_cores_that_divide_a_scan_find_what_one_finds(seed: int, count: int, asked: int):
    rows, queries = _rows(seed, count, 16, kind="usual"), _rows(seed + 1, asked, 16, kind="usual")
    alone = Quantised.of(rows).scan(queries).scores
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "BYTES_A_THREAD", 64)
        divided = Quantised.of(rows).scan(queries).scores
    assert divided.tobytes() == alone.tobytes()


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 400),
    dim=st.integers(1, 70),
    kind=KINDS,
    k=st.integers(1, 50),
    masked=st.booleans(),
    weighted=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_both_scans_find_the_same_rows_in_the_same_order(
    seed: int, count: int, dim: int, kind: str, k: int, masked: bool, weighted: bool
):
    random = np.random.default_rng(seed)
    rows, queries = _rows(seed, count, dim, kind=kind), _rows(seed + 1, 3, dim, kind="usual")
    asked: dict[str, Any] = {
        "k": k,
        "allowed": random.random(count) < 0.6 if masked else None,
        "weights": random.random(count) if weighted else None,
        "ids": [f"{number * 7919 % 1_000:03d}" for number in range(count)],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "QUANTISED_FROM", 0)
        patch.setattr(dense, "QUANTISED_FROM_FOR_SEVERAL", 0)
        fast = search(rows, queries, **asked, quantised=QuantisedRows(Growing(np.int8, dim)))
    slow = search(rows, queries, **asked)
    for one, other in zip(fast, slow, strict=True):
        assert one.rows.tolist() == other.rows.tolist()
        assert one.scores.tobytes() == other.scores.tobytes()


def test_codes_are_carried_on_as_rows_come_and_an_older_moment_sees_its_own():
    rows = _rows(3, 9_000, 8, kind="usual")
    grown = QuantisedRows(Growing(np.int8, 8))
    for count in (1, 5_000, 9_000, 7):
        now, fresh = grown.of(rows[:count]), Quantised.of(rows[:count])
        assert len(now.codes) == count
        assert (now.codes == fresh.codes).all() and (now.steps == fresh.steps).all()
