from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.decay import decay, decay_factors, rate_of
from umi_common.errors import ConfigError
from umi_common.sim.embedders import HashEmbedder

NOW = datetime(2024, 5, 1, tzinfo=timezone.utc)
AGES = st.one_of(st.floats(-1e5, 1e6), st.just(math.nan))


def test_after_one_half_life_the_factor_is_halfway_to_the_floor():
    factors = decay_factors(np.array([0.0, 24.0, 48.0]), rate=rate_of(24.0), floor=0.2)
    assert factors.tolist() == approx([1.0, 0.2 + 0.8 * 0.5, 0.2 + 0.8 * 0.25])


def test_a_missing_time_is_neutral_and_the_future_is_now():
    assert decay_factors(np.array([math.nan, -5.0]), rate=1.0, floor=0.0).tolist() == [1.0, 1.0]


def test_the_oldest_keeps_the_floor():
    assert decay_factors(np.array([1e9]), rate=1.0, floor=0.5).tolist() == [0.5]


def test_a_rate_of_0_changes_no_score():
    assert decay(np.array([3.0, 2.0]), np.array([0.0, 1e6]), rate=0.0, floor=0.0).tolist() == [3.0, 2.0]


def test_a_score_below_0_does_not_rise_with_age():
    assert decay(np.array([-2.0, -2.0]), np.array([0.0, 1e6]), rate=1.0, floor=0.5).tolist() == [-2.0, -2.0]


@pytest.mark.parametrize(("rate", "floor"), [(-1.0, 0.5), (math.inf, 0.5), (math.nan, 0.5), (1.0, -0.1), (1.0, 1.1)])
def test_wrong_rates_and_floors_are_refused(rate, floor):
    with pytest.raises(ConfigError):
        decay_factors(np.array([1.0]), rate=rate, floor=floor)


@pytest.mark.parametrize("half_life", [0.0, -1.0, math.inf, math.nan])
def test_wrong_half_lives_are_refused(half_life):
    with pytest.raises(ConfigError):
        rate_of(half_life)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), AGES, st.floats(0, 10), st.floats(0.01, 1))
def test_equal_ages_keep_their_order(scores, age, rate, floor):
    given_scores = np.array(scores)
    after = decay(given_scores, np.full(len(scores), age), rate=rate, floor=floor)
    order = np.argsort(given_scores, kind="stable")
    assert (np.diff(after[order]) >= 0).all()


@given(st.lists(AGES, min_size=1, max_size=20), st.floats(0, 10), st.floats(0, 1))
def test_factors_lie_between_the_floor_and_1_and_never_rise_with_age(ages, rate, floor):
    factors = decay_factors(np.array(ages), rate=rate, floor=floor)
    assert ((factors >= floor) & (factors <= 1)).all()
    known = sorted((age, factor) for age, factor in zip(ages, factors, strict=True) if not math.isnan(age))
    assert all(younger[1] >= older[1] for younger, older in pairwise(known))


def a_store_of_old_chunks():
    store = HybridStore.open(embedder=HashEmbedder())
    texts = ["the zeppelin protocol", "zeppelin tables", "a zeppelin among many other words", "unrelated words"]
    store.add([Chunk(f"c{i}", text, event_time=NOW - timedelta(days=2_000 + i)) for i, text in enumerate(texts)])
    return store


@pytest.mark.parametrize("strategy", ["hybrid", "text", "vector"])
def test_however_old_a_chunk_is_it_is_found_and_ranked_by_its_text(strategy):
    config = UmiConfig(decay={"half_life_hours": 24, "floor": 0})  # 2 ** -2000 is 0 in float64
    with a_store_of_old_chunks() as store:
        found = DualRetriever(store, config=config).search("zeppelin protocol", now=NOW, strategy=strategy)
        assert {"c0", "c1", "c2"} <= set(found.ids)
        assert found.ids[0] == "c0"
        assert found[0].score > found[1].score > 0
        assert found[0].relevance == approx(
            DualRetriever(store).search("zeppelin protocol", now=NOW, strategy=strategy)[0].relevance
        )


def test_mmr_sees_the_differences_of_scores_that_decay_made_small():
    config = UmiConfig(decay={"half_life_hours": 24, "floor": 0}, mmr={"enabled": True, "trade_off": 1})
    with a_store_of_old_chunks() as store:
        found = DualRetriever(store, config=config).search("a zeppelin among many words", now=NOW)
        assert found.ids[0] == "c2"
