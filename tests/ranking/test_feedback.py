from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pytest import approx

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.config import FeedbackConfig
from umi_common.pool import Pool
from umi_common.ranking.feedback import BEST, apply

NORTH, EAST = (1.0, 0.0), (0.0, 1.0)
SCORES = arrays.arrays(np.float64, st.integers(BEST + 1, 30), elements=st.floats(0, 5, allow_subnormal=False))


def after(scores, vectors, weight=0.5):
    pool = Pool.of(
        [f"c{row:03d}" for row in range(len(scores))],
        dense=np.array([scores], dtype=np.float64),
        vectors=np.array(vectors, dtype=np.float32),
    )
    return apply(pool, np.array(scores, dtype=np.float64), FeedbackConfig(weight=weight), {})


def test_of_two_equal_candidates_the_one_that_resembles_the_best_comes_first():
    final = after([1.0, 0.9, 0.8, 0.5, 0.5], [NORTH, NORTH, NORTH, NORTH, EAST])
    assert final[3] > final[4] == 0.5


def test_the_gain_is_that_of_the_formula():
    own = [1.0, 0.8, 0.5, 0.4, 0.2, 0.1]
    vectors = np.array([(math.cos(a), math.sin(a)) for a in (0.0, 0.3, 0.9, 0.1, 1.2, 3.0)])
    similar = []
    for row in range(6):
        others = [best for best in (0, 1, 2) if best != row]
        weights = [own[best] ** 2 for best in others]
        cosines = [float(vectors[row] @ vectors[best]) for best in others]
        similar.append(sum(w * c for w, c in zip(weights, cosines, strict=True)) / sum(weights))
    mean = sum(similar) / 6
    deviation = math.sqrt(sum((each - mean) ** 2 for each in similar) / 6)
    z = [max(0.0, (each - mean) / deviation) for each in similar]
    expected = [e + 0.5 * (1 - e) ** 2 * min(1.0, (each / 4) ** 2) for e, each in zip(own, z, strict=True)]
    assert after(own, vectors).tolist() == approx(expected, abs=1e-6)


def test_candidates_that_all_resemble_the_best_alike_keep_their_scores():
    generator = np.random.default_rng(1)
    vectors = np.array([1.0, 0.0, 0.0]) + 0.01 * generator.standard_normal((40, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = np.linspace(1.0, 0.2, 40)
    assert after(scores, vectors) == approx(scores, abs=1e-3)


def test_scores_of_0_change_nothing():
    assert after([0.0] * 5, [NORTH] * 5).tolist() == [0.0] * 5


@given(SCORES, st.integers(0, 2**32 - 1), st.floats(0, 0.5))
def test_no_chunk_passes_the_best_and_no_score_falls(scores, seed, weight):
    scores[0] = max(scores[0], 0.1)
    vectors = np.random.default_rng(seed).standard_normal((len(scores), 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    own = scores / scores.max()
    final = after(scores, vectors, weight)
    assert (final >= own).all()
    assert (final <= own + weight * (1 - own) ** 2).all()
    assert (final[own == 1.0] == 1.0).all()


@given(SCORES, st.floats(0, 0.5))
def test_of_candidates_with_equal_vectors_the_better_stays_ahead(scores, weight):
    ordered = np.sort(scores)[::-1] + np.array([0.5, *[0.0] * (len(scores) - 1)])
    vectors = [NORTH] * BEST + [EAST if row % 2 else NORTH for row in range(BEST, len(ordered))]
    final = after(ordered, vectors, weight)
    for start in (BEST, BEST + 1):
        assert (np.diff(final[start::2]) <= 1e-12).all()


@given(SCORES, st.floats(0.01, 100))
def test_the_unit_of_the_scores_does_not_matter(scores, factor):
    scores[0] = max(scores[0], 0.1)
    vectors = np.random.default_rng(len(scores)).standard_normal((len(scores), 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ordered = np.sort(scores)[::-1]
    assert after(ordered * factor, vectors) == approx(after(ordered, vectors), abs=1e-6)


DIRECTIONS = {"tide": (1.0, 0.0, 0.0), "moon": (0.9, 0.44, 0.0), "tax": (0.0, 0.0, 1.0)}


class Directions:
    """An embedder of typed vectors."""

    name, dim = "directions", 3

    def embed_documents(self, texts):
        return [DIRECTIONS[text.split(":")[0]] for text in texts]

    def embed_queries(self, texts):
        return [(0.61, 0.04, 0.57)] * len(texts)


@pytest.fixture
def tides():
    texts = [f"tide: high water number {at}" for at in range(3)]
    texts += ["moon: it pulls at the sea", *(f"tax: form {at}" for at in range(12))]
    with HybridStore.open(embedder=Directions()) as store:
        store.add([Chunk(f"c{at:02d}", text) for at, text in enumerate(texts)])
        yield store


def test_a_text_without_a_word_of_the_question_is_found_by_what_it_shares_with_the_answers(tides):
    off = UmiConfig(feedback={"enabled": False})
    ranks = [
        DualRetriever(tides, config=config).search("when is high water", limit=16).ids.index("c03")
        for config in (UmiConfig(), off)
    ]
    assert ranks[0] == 3 < ranks[1]


@pytest.mark.parametrize("strategy", ["text", "vector"])
def test_a_search_by_one_arm_alone_is_in_the_order_of_that_arm(tides, strategy):
    result = DualRetriever(tides).search("when is high water", limit=16, strategy=strategy)
    assert all("feedback" not in hit.stages for hit in result.hits)


def test_with_three_candidates_feedback_changes_nothing():
    with HybridStore.open(embedder=Directions()) as store:
        store.add([Chunk(f"c{at}", f"tide: high water number {at}") for at in range(3)])
        result = DualRetriever(store).search("when is high water")
    assert "feedback" not in result[0].stages


def test_a_best_candidate_that_is_alone_does_not_change_what_the_others_gain():
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((6, 300))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    final = after([1.0, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9], vectors)
    cosines = np.float32(vectors) @ np.float32(vectors[0])
    similar = np.array([0.0, *cosines[1:]])
    z = np.maximum(0.0, (similar - similar.mean()) / max(similar.std(), 0.05))
    assert final[1:] == approx(0.5 * np.minimum(1.0, (z[1:] / 4) ** 2), abs=1e-4)
