"""Terms as sparse vectors, and term frequencies from them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from umi_common.stores.qdrant.points import Saturation, frequencies, index_of, sparse

SATURATION = Saturation(k1=1.2, b=0.75, average_length=64.0)


def test_a_value_is_the_share_of_bm25_that_the_text_decides():
    indices, values = sparse(["boat", "red", "boat"], SATURATION)
    norm = 1.2 * (0.25 + 0.75 * 3 / 64)
    expected = {index_of("boat"): 2 / (2 + norm), index_of("red"): 1 / (1 + norm)}
    assert dict(zip(indices, values, strict=True)) == approx(expected, abs=1e-7)
    assert indices == sorted(indices)


def test_a_term_has_its_place_forever():
    assert [index_of(term) for term in ("boat", "日本", "ac12")] == [1274525083, 3135195086, 1917037213]


def test_a_text_without_terms_has_one_that_no_query_can_ask_for():
    assert sparse([], SATURATION) == ([index_of("")], [1.0])


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 400)), min_size=1, max_size=30),
    st.floats(0.1, 10.0),
    st.floats(0.0, 1.0),
    st.floats(1.0, 1_000.0),
)
def test_the_term_frequency_comes_back_exactly(terms, k1, b, average):
    words = [f"t{name}" for name, count in dict(terms).items() for _ in range(count)]
    saturation = Saturation(k1, b, average)
    counts = Counter(index_of(word) for word in words)
    indices, values = sparse(words, saturation)
    found = frequencies(np.array(values), np.full(len(values), len(words)), saturation)
    assert dict(zip(indices, found.tolist(), strict=True)) == dict(counts)


def test_what_is_not_there_stays_0_and_what_is_there_is_at_least_1():
    assert frequencies(np.array([0.0, 1e-9, 1.0]), np.array([5, 5, 5]), SATURATION).tolist()[:2] == [0.0, 1.0]
