"""A search by one arm has the hits and scores that it has when both arms run and one is left out afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from umi_common.retriever import DualRetriever
from umi_common.sim import HashEmbedder, ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
WORDS = ["red", "blue", "boat", "train", "night", "coast", "snow", "river", "boiler", "roof", "garden", "house"]
QUERIES = ["red boat", "the night train to the coast", "snow zyzzyva", "boiler roof garden last week"]


class Older:
    """A store whose `recall` has no strategy and no time limit: it always searches both arms."""

    def __init__(self, store):
        self._store = store

    def recall(self, probes, *, depth, now, where=None, window=None, lexical=None, decay=None, around=0):
        options = {"where": where, "window": window, "lexical": lexical, "decay": decay, "around": around}
        return self._store.recall(probes, depth=depth, now=now, **options)

    def get(self, ids):
        return self._store.get(ids)

    def neighbours(self, ids, *, reach, where=None):
        return self._store.neighbours(ids, reach=reach, where=where)


@pytest.fixture()
def store():
    dice = np.random.default_rng(7)
    texts = [" ".join(dice.choice(WORDS, size=dice.integers(2, 9))) for _ in range(180)]
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add(
            Chunk(f"c{n:03}", text, source=f"s{n % 9}", position=n // 9, event_time=NOW - timedelta(hours=5 * n))
            for n, text in enumerate(texts)
        )
        yield store


def plain(result):
    return [(hit.chunk.id, hit.score, hit.signals, hit.stages, hit.ranks) for hit in result]


@pytest.mark.parametrize(
    "settings", [{}, {"fusion": {"adaptive": False}}, {"decay": {"half_life_hours": 48.0}}], ids=str
)
@pytest.mark.parametrize("mode", ["never", "evidence", "always"])
@pytest.mark.parametrize("strategy", ["hybrid", "text", "vector"])
def test_one_arm_gives_what_it_gave_when_the_other_was_left_out_afterwards(store, strategy, mode, settings):
    llm = ScriptedLLM(lambda prompt: '["snow on the market", "green house"]')
    config = {"routing": {"mode": mode}, **settings}
    new, old = (DualRetriever(each, rewriter=llm).with_config(**config) for each in (store, Older(store)))
    with new, old:
        for query in QUERIES:
            result, expected = (umi.search(query, now=NOW, strategy=strategy, limit=50) for umi in (new, old))
            assert result.hits
            assert result.mode == expected.mode == strategy
            assert result.query_variations == expected.query_variations
            assert plain(result) == plain(expected)
