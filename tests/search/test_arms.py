"""Further arms: asked beside the store's two, fused with their own weight, failing alone."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from umi_common.config import UmiConfig
from umi_common.errors import ConfigError, StoreUnavailable
from umi_common.retriever import DualRetriever
from umi_common.search.extra_arms import Arm
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
TEXTS = {
    "apple": "red apples in the garden",
    "pear": "green pears in the kitchen",
    "plum": "blue plums in the cellar",
    "fig": "ripe figs on the roof",
}
ALONE = {stage: {"enabled": False} for stage in ("feedback", "neighbours", "references")}
ALONE["fusion"] = {"lookup_weight": 0.0}
"""Scores of one chunk owe nothing to the chunks beside it, nor to the order of the query's words in it."""


@pytest.fixture
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as opened:
        days = {id: number for number, id in enumerate(TEXTS)}
        opened.add(
            [
                Chunk(
                    id, text, metadata={"user": "ann" if days[id] % 2 else "bob"}, event_time=NOW - timedelta(days[id])
                )
                for id, text in TEXTS.items()
            ]
        )
        yield opened


def arm(*found, name="web", **options) -> Arm:
    return Arm(name, lambda query, k, where, window: found, **options)


def made(store, *arms, **stages) -> DualRetriever:
    return DualRetriever(store, arms=arms, config=UmiConfig(**{**ALONE, **stages}))


async def both(umi, *args, **kwargs):
    """The result by all three doors; they must agree in everything but time."""
    result, other = umi.search(*args, **kwargs), await umi.asearch(*args, **kwargs)
    (many,) = umi.search_many([args[0]], **kwargs)
    for twin in (other, many):
        assert [(hit.chunk, hit.score, hit.signals) for hit in result] == [
            (hit.chunk, hit.score, hit.signals) for hit in twin
        ]
        assert result.degraded == twin.degraded
    return result


def signals_of(result, id):
    return {s.arm: (s.rank, s.score) for hit in result if hit.chunk.id == id for s in hit.signals}


async def test_what_a_further_arm_finds_rises_and_says_so(store):
    plain = DualRetriever(store, config=UmiConfig(**ALONE)).search("red apples")
    result = await both(made(store, arm(("fig", 7.5), ("plum", 3.0), weight=3.0)), "red apples")
    assert plain.ids[0] == "apple" and result.ids[0] == "fig"
    assert signals_of(result, "fig")["web"] == (1, 7.5)
    assert signals_of(result, "plum")["web"] == (2, 3.0)
    assert "web" not in signals_of(result, "apple")
    assert result.trace["recall"].facts["arms"] == {"web": 2}


async def test_the_convex_score_is_the_weighted_mean_of_shares_of_the_best(store):
    umi = DualRetriever(store, config=UmiConfig(**ALONE))
    own = {hit.chunk.id: hit.stages["fused"] for hit in umi.search("red apples")}
    result = await both(made(store, arm(("fig", 8.0), ("apple", 2.0), weight=0.5)), "red apples")
    # own weights 0.45 + 0.55; shares of the arm's best: fig 8/8, apple 2/8
    expected = {id: (score + 0.5 * {"fig": 1.0, "apple": 0.25}.get(id, 0.0)) / 1.5 for id, score in own.items()}
    best = max(expected.values())
    assert {hit.chunk.id: hit.score for hit in result} == pytest.approx({id: e / best for id, e in expected.items()})


async def test_rrf_adds_the_arms_weighted_reciprocal_rank(store):
    rrf = {"fusion": {"method": "rrf"}}
    own = {hit.chunk.id: hit.score for hit in made(store, **rrf).search("red apples")}
    result = await both(made(store, arm(("fig", 8.0), ("apple", 2.0), weight=0.5), **rrf), "red apples")
    gained = {"fig": 0.5 / 61, "apple": 0.5 / 62}
    assert {hit.chunk.id: hit.score for hit in result} == pytest.approx(
        {id: score + gained.get(id, 0.0) for id, score in own.items()}
    )


async def test_a_chunk_that_the_store_lacks_is_carried_along(store):
    stranger = Chunk("web-1", "red apples on sale", metadata={"user": "ann"}, event_time=NOW)
    result = await both(made(store, arm((stranger, 1.0), weight=2.0)), "red apples")
    assert result.ids[0] == "web-1"
    assert result[0].chunk == stranger
    assert signals_of(result, "web-1")["web"] == (1, 1.0)


@pytest.mark.parametrize("method", ["convex", "rrf"])
async def test_an_arm_of_default_weight_brings_its_best_among_the_first_though_the_store_lacks_it(store, method):
    stranger = Chunk("web-1", "ripe pears for sale")
    result = await both(made(store, arm((stranger, 1.0)), fusion={"method": method}), "red apples")
    assert "web-1" in result.ids[:2] and "apple" in result.ids[:2]


@pytest.mark.parametrize(("weight", "expected"), [(0.1, 0.2), (0.4, 0.8), (0.5, 1.0), (0.9, 1.0), (1.0, 1.0)])
async def test_what_the_store_lacks_gets_double_the_arms_weight_up_to_the_stores(store, weight, expected):
    stranger = Chunk("web-1", "ripe pears for sale")
    result = await both(made(store, arm((stranger, 1.0), weight=weight)), "red apples")
    assert {hit.chunk.id: hit.stages["fused"] for hit in result}["web-1"] == pytest.approx(expected, abs=0.02)


async def test_carried_chunks_are_found_even_where_the_store_is_empty():
    with HybridStore.open(embedder=HashEmbedder(64)) as empty:
        result = await both(made(empty, arm((Chunk("web-1", "red apples on sale"), 1.0))), "red apples")
    assert result.ids == ["web-1"]


async def test_an_arm_that_ignores_filter_and_period_cannot_get_past_them(store):
    strangers = [
        (Chunk("anns", "red apples", metadata={"user": "ann"}, event_time=NOW), 5.0),
        (Chunk("bobs", "red apples", metadata={"user": "bob"}, event_time=NOW), 4.0),
        (Chunk("old", "red apples", metadata={"user": "ann"}, event_time=NOW - timedelta(900)), 3.0),
        (Chunk("timeless", "red apples", metadata={"user": "ann"}), 2.0),
        ("apple", 1.0),  # bob's
        ("unknown", 1.0),
    ]
    umi = made(store, arm(*strangers, weight=9.0))
    options = {"where": {"user": "ann"}, "time_range": (NOW - timedelta(30), None)}
    assert set((await both(umi, "apples", **options)).ids) == {"anns", "pear", "fig"}


async def test_what_the_store_says_of_a_chunk_counts_and_not_the_arms_copy_of_it(store):
    forged = Chunk("apple", "forged", metadata={"user": "ann"})
    umi = made(store, arm((forged, 9.0), weight=9.0))
    assert "apple" not in (await both(umi, "apples", where={"user": "ann"})).ids
    result = await both(umi, "apples")
    assert next(hit.chunk.text for hit in result if hit.chunk.id == "apple") == TEXTS["apple"]


class FailsToGetOnce:
    """A store whose first `get` fails."""

    def __init__(self, store):
        self._store, self._failed = store, False
        self.recall = store.recall

    def get(self, ids):
        if not self._failed:
            self._failed = True
            raise StoreUnavailable("the server did not answer")
        return self._store.get(ids)


async def test_chunks_that_are_left_out_because_the_store_failed_are_told(store):
    carried = arm((Chunk("new", "red apples of the web"), 1.0))
    result = DualRetriever(FailsToGetOnce(store), arms=[carried]).search("red apples")
    assert result.ids and "new" not in result.ids
    assert [(loss.part, loss.reason) for loss in result.degraded] == [("arms", "StoreUnavailable")]
    assert result.degraded[0].consequence == "left out the chunks that the store lacks"


async def test_the_arm_is_told_query_depth_filter_and_period(store):
    told = []
    umi = made(store, Arm("web", lambda *asked: told.append(asked) or []), extra_arms={"depth": 7})
    umi.search("red apples", where={"user": "ann"}, time_range=(None, NOW))
    ((query, k, where, window),) = told
    assert (query, k, where.key, window.end) == ("red apples", 7, "user", NOW)


def failing(*asked):
    raise RuntimeError("secret words of the query")


@pytest.mark.parametrize(
    "search, reason",
    [
        (failing, "failed with RuntimeError"),
        (lambda *asked: None, "gave NoneType; expected (chunk or id, score) pairs"),
        (lambda *asked: ["apple"], "gave list; expected (chunk or id, score) pairs"),
        (lambda *asked: ["t1", "t2"], "gave list; expected (chunk or id, score) pairs"),  # no pairs ("t", 1)
        (lambda *asked: {"t1": 0.5}, "gave dict; expected (chunk or id, score) pairs"),
        (lambda *asked: [(7, 1.0)], "gave int and a score; expected a chunk or id and a finite number"),
        (lambda *asked: [("apple", float("nan"))], "gave str and a score; expected a chunk or id and a finite number"),
    ],
)
async def test_an_arm_that_fails_costs_its_hits_alone_and_is_named(store, search, reason):
    plain = made(store).search("red apples")
    result = await both(made(store, Arm("web", search), arm(("fig", 1.0), name="graph", weight=0.0)), "red apples")
    assert [(loss.part, loss.reason) for loss in result.degraded] == [("web", reason)]
    assert [(hit.chunk.id, hit.score) for hit in result] == [(hit.chunk.id, hit.score) for hit in plain]
    assert "graph" in signals_of(result, "fig")


def test_a_pair_with_a_score_of_0_is_dropped_with_its_chunk(store):
    new = Chunk("new", "red apples of the neighbours")
    umi = made(store, arm((new, 0.0)), arm(("new", 0.9), name="graph"))
    assert "new" not in umi.search("red apples").ids


async def test_a_slow_arm_is_not_waited_for(store):
    released = threading.Event()

    async def hang(*asked):
        await asyncio.sleep(60)

    slow = Arm("web", lambda *asked: released.wait(60) and [])
    for arms in ([slow], [Arm("web", slow.search, asearch=hang)]):
        umi = made(store, *arms, extra_arms={"timeout_seconds": 0.1})
        begun = time.perf_counter()
        results = [umi.search("red apples"), await umi.asearch("red apples")]
        assert time.perf_counter() - begun < 30.0
        for result in results:
            assert [(loss.part, loss.reason) for loss in result.degraded] == [("web", "no reply in time")]
            assert result.ids[0] == "apple"
    released.set()


async def test_arms_are_asked_at_the_same_time_as_the_store(store):
    meeting = threading.Barrier(2, timeout=60)

    def search(*asked):
        meeting.wait()
        return [("fig", 1.0)]

    result = made(store, Arm("web", search), Arm("graph", search)).search("red apples")
    assert not result.degraded


async def test_an_event_loop_awaits_the_arm_that_can_be_awaited(store):
    async def asearch(query, k, where, window):
        await asyncio.sleep(0)
        return [("fig", 1.0)]

    umi = made(store, Arm("web", failing, weight=5.0, asearch=asearch))
    assert (await umi.asearch("red apples")).ids[0] == "fig"


async def test_an_arm_without_async_code_is_searched_in_a_thread_by_an_event_loop(store):
    async def asearch(query, k, where, window):
        raise NotImplementedError("as the base class of a framework does")

    umi = made(store, arm(("fig", 1.0), weight=5.0, asearch=asearch))
    result = await umi.asearch("red apples")
    assert result.ids[0] == "fig" and not result.degraded


@pytest.mark.parametrize("strategy", ["text", "vector"])
async def test_a_search_by_one_own_arm_asks_no_other(store, strategy):
    umi = made(store, Arm("web", failing))
    assert not (await both(umi, "red apples", strategy=strategy)).degraded


async def test_without_arms_and_with_one_that_finds_nothing_the_scores_are_the_same(store):
    plain = made(store).search("red apples")
    for idle in (arm(), arm(("fig", 0.0), ("plum", -1.0))):
        result = await both(made(store, idle), "red apples")
        assert [(hit.chunk.id, hit.score) for hit in result] == [(hit.chunk.id, hit.score) for hit in plain]


async def test_one_call_finds_a_chunk_once_at_its_best_rank(store):
    result = await both(made(store, arm(("fig", 3.0), ("fig", 2.0), ("plum", 1.0))), "red apples")
    assert signals_of(result, "fig")["web"] == (1, 3.0)
    assert len(result.ids) == len(set(result.ids))


async def test_arms_and_deep_search_work_together(store):
    umi = DualRetriever(
        store,
        rewriter=lambda prompt: '["figs on the roof"]',
        arms=[arm((Chunk("web-1", "on sale"), 1.0), ("plum", 0.5))],
        config=UmiConfig(routing={"mode": "always"}, **ALONE),
    )
    result = await both(umi, "red apples")
    assert result.deep_search_used and {"web-1", "plum"} <= set(result.ids)
    assert {s.variation for hit in result if hit.chunk.id == "plum" for s in hit.signals if s.arm == "web"} == {0}


async def test_a_reranker_and_diversity_see_carried_chunks_too(store):
    seen = []
    umi = DualRetriever(
        store,
        reranker=lambda query, texts: seen.extend(texts) or [float("sale" in text) for text in texts],
        arms=[arm((Chunk("web-1", "on sale"), 1.0))],
        config=UmiConfig(mmr={"enabled": True}),
    )
    assert (await both(umi, "red apples", limit=1)).ids == ["web-1"]
    assert "on sale" in seen


def test_a_context_holds_carried_chunks(store):
    umi = made(store, arm((Chunk("web-1", "apples on sale today"), 1.0), weight=3.0))
    assert "apples on sale today" in umi.get_context("red apples").text


async def awaited(*asked):
    return []


def test_wrong_arms_are_refused(store):
    with pytest.raises(ConfigError, match="other than lexical, dense"):
        Arm("dense", failing)
    with pytest.raises(ConfigError, match="arm 'web': search is NoneType; expected a function"):
        Arm("web", None)
    with pytest.raises(ConfigError, match="arm 'web': search is async; give it as asearch"):
        Arm("web", awaited)
    with pytest.raises(ConfigError, match="arm 'web': asearch is int; expected a function"):
        Arm("web", failing, asearch=5)
    for weight in (float("nan"), "high"):
        with pytest.raises(ConfigError, match="expected a number >= 0"):
            Arm("web", failing, weight=weight)
    with pytest.raises(ConfigError, match="name of its own"):
        DualRetriever(store, arms=[arm(), arm()])
    with pytest.raises(ConfigError, match="expected Arm"):
        DualRetriever(store, arms=[failing])
    for one in (arm(), failing, "web"):
        with pytest.raises(ConfigError, match=r"expected a list of arms: arms=\[\.\.\.\]"):
            DualRetriever(store, arms=one)


def test_arms_none_means_no_further_arms(store):
    with DualRetriever(store, arms=None) as umi, DualRetriever(store) as plain:
        assert umi.search("red apples").ids == plain.search("red apples").ids


@pytest.mark.parametrize("awaited_first", [True, False], ids=["while it is awaited", "before it is awaited"])
async def test_an_async_arm_that_raises_what_is_no_exception_is_left_out(store, awaited_first):
    class TheEnd(BaseException):
        pass

    async def later(*asked):
        raise TheEnd

    def at_once(*asked):
        raise TheEnd

    arm = Arm("web", lambda *asked: [], asearch=later if awaited_first else at_once)
    result = await DualRetriever(store, arms=[arm]).asearch("red apples")
    assert result.ids
    assert [loss.part for loss in result.degraded] == ["web"]
