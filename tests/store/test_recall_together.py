"""Searches that share a scan of the codes have the same results as alone, to the last bit."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from umi_common.config import DecayConfig
from umi_common.filters import parse_filter
from umi_common.pool import PER_ROW, PER_VARIATION, PER_VARIATION_AND_ROW
from umi_common.protocols import Probe, RecallRequest
from umi_common.sim import HashEmbedder
from umi_common.stores.dense import cosines as dense
from umi_common.stores.embedded import recall
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk, TimeRange

NOW = datetime(2024, 5, 1, tzinfo=timezone.utc)
SIZE = 300


@pytest.fixture(scope="module")
def store():
    dice = np.random.default_rng(3)
    with HybridStore.open(embedder=HashEmbedder(32)) as opened:
        vectors = dice.standard_normal((SIZE, 32)).astype(np.float32)
        vectors[::17] = 0.0  # no vector
        words = "red blue green boat train night coast snow river".split()  # noqa: SIM905
        opened.add(
            [
                Chunk(
                    f"c{int(dice.integers(10**6))}-{n}",
                    " ".join(dice.choice(words, 5)),
                    metadata={"even": n % 2 == 0, "rare": n % 60 == 0},
                    source=f"s{n // 20}",
                    position=n,
                    event_time=NOW - timedelta(hours=n),
                )
                for n in range(SIZE)
            ],
            vectors=vectors,
        )
        yield opened


@pytest.mark.parametrize(
    "codes_from, codes_together_from, scores_max",
    [(50, 50, 10**6), (50, 10**6, 10**6), (10**6, 10**6, 10**6), (50, 50, 100)],
    ids=["codes and codes", "codes and floats", "floats and floats", "too many scores for one scan"],
)
def test_pools_are_equal_to_the_bit(store, monkeypatch, codes_from, codes_together_from, scores_max):
    monkeypatch.setattr(dense, "QUANTISED_FROM", codes_from)
    monkeypatch.setattr(dense, "QUANTISED_FROM_FOR_SEVERAL", codes_together_from)
    monkeypatch.setattr(recall, "SHARED_SCORES_MAX", scores_max)
    asked = [
        RecallRequest([Probe("red boat")], 10, NOW, around=1),
        RecallRequest([Probe("night train"), Probe("blue river"), Probe("snow")], 10, NOW, around=1),
        RecallRequest([Probe("coast")], 5, NOW, where=parse_filter({"even": True})),
        RecallRequest([Probe("coast")], 5, NOW, where=parse_filter({"rare": True})),
        RecallRequest([Probe("", np.zeros(32, dtype=np.float32))], 5, NOW),
        RecallRequest([Probe("green")], 20, NOW + timedelta(days=3), decay=DecayConfig(half_life_hours=48.0)),
        RecallRequest([Probe("green")], 20, NOW, window=TimeRange(NOW - timedelta(hours=90), None)),
    ]
    for each, pool in zip(asked, store.recall_many(asked), strict=True):
        (alone,) = store.recall_many([each])
        assert tuple(pool.ids) == tuple(alone.ids)
        assert len(pool) or not each.probes[0].text
        assert (pool.background is None) == (alone.background is None)
        if pool.background is not None:
            assert pool.background.mean.tobytes() == alone.background.mean.tobytes()
            assert pool.background.deviation.tobytes() == alone.background.deviation.tobytes()
        for name in (*PER_ROW, *PER_VARIATION, *PER_VARIATION_AND_ROW):
            assert np.asarray(getattr(pool, name)).tobytes() == np.asarray(getattr(alone, name)).tobytes(), name
