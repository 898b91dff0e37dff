"""A recall by one arm gives the same scores as that arm in a recall by both, and does not call the other arm."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from corpus import NOW, corpus, queries, search

from umi_common.errors import SearchUnavailable
from umi_common.filters import parse_filter
from umi_common.protocols import Probe, RecallRequest
from umi_common.retriever import DualRetriever
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder, ScriptedLLM

STRATEGIES = ["text", "vector"]
ALL = 1_000
"""A depth at which an arm lists whatever it finds."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_arm_alone_gives_the_rows_scores_and_ranks_that_it_gives_beside_the_other(filled, kind, strategy):
    for query in queries(count=2):
        options = {"depth": ALL, "around": 1, "where": parse_filter({"user": {"$ne": "bob"}})}
        expected = search(filled, query, "river boat", **options).only(strategy)
        pool = search(filled, query, "river boat", strategy=strategy, **options).only(strategy)
        assert pool.mode == strategy and not pool.degraded
        assert tuple(pool.ids) == tuple(expected.ids)
        bound = kind.bm25 * float(expected.lexical_bound.max())
        np.testing.assert_allclose(pool.lexical, expected.lexical, rtol=0, atol=bound)
        np.testing.assert_allclose(pool.dense, expected.dense, rtol=0, atol=kind.cosine)
        for name in ("lexical_rank", "dense_rank", "length"):
            np.testing.assert_array_equal(getattr(pool, name), getattr(expected, name), err_msg=name)


def test_by_text_nothing_is_embedded(new_store):
    embedder = CountingEmbedder(HashEmbedder())
    store = new_store(embedder)
    store.add(corpus(size=30))
    before = embedder.query_calls
    with DualRetriever(store, rewriter=ScriptedLLM(lambda prompt: '["boat"]')) as umi:
        umi.reconfigure(routing={"mode": "always"})
        umi.search("red boat", strategy="text", now=NOW)
        umi.search_many(["red boat", "river"], strategy="text", now=NOW)
    search(store, "snow", strategy="text")
    assert embedder.query_calls == before


def test_by_text_an_embedder_that_fails_is_no_loss(new_store):
    store = new_store(FaultyEmbedder(HashEmbedder(), fail_on="snow zyzzyva"))
    store.add(corpus(size=30))
    assert search(store, "snow zyzzyva").degraded
    pool = search(store, "snow zyzzyva", strategy="text")
    assert pool.mode == "text" and not pool.degraded


def test_by_vector_no_word_is_scored(filled):
    pool = search(filled, "red boat", "river", strategy="vector", around=1)
    assert pool.mode == "vector"
    for name in ("lexical", "lexical_rank", "lexical_bound", "coverage", "source_lexical"):
        assert not getattr(pool, name).any(), name


def test_by_vector_an_embedder_that_fails_is_an_error_that_says_so(new_store):
    store = new_store(FaultyEmbedder(HashEmbedder(), fail_on="snow zyzzyva"))
    store.add(corpus(size=30))
    with pytest.raises(SearchUnavailable, match="embedder"):
        search(store, "snow zyzzyva", strategy="vector")


def test_searches_with_different_strategies_may_be_asked_together(filled):
    asked = [RecallRequest([Probe("red boat")], 10, NOW, strategy=strategy) for strategy in ("hybrid", *STRATEGIES)]
    pools = filled.recall_many(asked)
    assert [pool.mode for pool in pools] == ["hybrid", "text", "vector"]
    for each, pool in zip(asked, pools, strict=True):
        assert tuple(each.run(filled).ids) == tuple(pool.ids)


def test_when_the_embedder_hangs_words_answer_within_the_deadline(new_store):
    class Hanging(HashEmbedder):
        def embed_queries(self, texts):
            released.wait(60)
            return super().embed_queries(texts)

    released = threading.Event()
    store = new_store(Hanging())
    store.add(corpus(size=30))
    begun = time.monotonic()
    asked = RecallRequest([Probe("red boat")], 10, NOW, embedder_timeout_seconds=0.2)
    for pool in (asked.run(store), *store.recall_many([asked, asked])):
        assert pool.mode == "text"
        assert [loss.part for loss in pool.degraded] == ["embedder"]
    assert time.monotonic() - begun < 30.0
    released.set()
