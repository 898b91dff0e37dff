"""A search with an LLM that takes a fixed time: the wall time that is not the LLM's."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial
from random import Random

from benchmarks.corpus import SEED
from benchmarks.harness import Plan, Row, Spec, timing
from benchmarks.stores import material, open_store, shared_store
from umi_common.config import RoutingConfig, UmiConfig
from umi_common.retriever import DualRetriever
from umi_common.sim import ScriptedLLM

SIZES = (10_000,)
WHAT = "deep search, three variations, LLM of 300 ms"
DELAY = 0.3
VARIATIONS = 3
QUESTIONS = 8
"""In each round: each waits for the LLM."""


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """Wall time of deep and fast searches; "above_ms" is deep less the larger of the LLM's time and the fast pass."""
    with shared_store(Spec(size, questions=plan.rounds * QUESTIONS * 2), say) as spec:
        made = material(spec)
        # The LLM proposes other questions: their vectors are known, and they find something.
        random = Random(SEED)
        llm = ScriptedLLM(lambda _: random.sample(made.questions, VARIATIONS), delay=DELAY)
        with (
            open_store(spec, made) as store,
            DualRetriever(store, rewriter=llm, config=UmiConfig(routing=RoutingConfig(mode="always"))) as umi,
        ):
            umi.search(made.questions[0], deep_search=False)
            return _rounds(umi, made.questions, plan, size)


def _rounds(umi: DualRetriever, questions: list[str], plan: Plan, size: int) -> list[Row]:
    fast: list[list[float]] = []
    deep: list[list[float]] = []
    adeep: list[list[float]] = []
    for at in range(plan.rounds):
        asked = questions[at * 2 * QUESTIONS : (at + 1) * 2 * QUESTIONS]
        fast.append([_timed(partial(umi.search, q, deep_search=False)) for q in asked])
        deep.append([_timed(partial(umi.search, q)) for q in asked[:QUESTIONS]])
        adeep.append(asyncio.run(_async_times(umi, asked[QUESTIONS:])))
    rows = []
    least = max(DELAY * 1e3, statistics.median(map(statistics.median, fast)))
    for name, rounds in (("umi, fast pass alone", fast), ("umi", deep), ("umi, async", adeep)):
        row: Row = {"what": WHAT, "size": size, "system": name, **timing(rounds)}
        rows.append(row if rounds is fast else row | {"above_ms": row["p50_ms"] - least})
    return rows


async def _async_times(umi: DualRetriever, asked: list[str]) -> list[float]:
    spent = []
    for question in asked:
        begun = time.perf_counter()
        await umi.asearch(question)
        spent.append((time.perf_counter() - begun) * 1e3)
    return spent


def _timed(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return (time.perf_counter() - begun) * 1e3
