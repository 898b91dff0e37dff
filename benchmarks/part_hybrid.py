"""A hybrid search from question to ten hits, without an LLM: umi beside both frameworks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.children import ask_in_turn
from benchmarks.corpus import make_corpus
from benchmarks.harness import Plan, Row, Spec, rows_of
from benchmarks.hybrid_systems import SYSTEMS, UMI
from benchmarks.stores import shared_store

WHAT = "hybrid search, top 10, 384-d"
SIZES = (1_000, 10_000, 100_000)
FOUND_LEAST = 0.95


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a system; "found" is the share of questions whose chunk is among the ten."""
    with shared_store(Spec(size, questions=plan.all_questions), say) as spec:
        outcomes = ask_in_turn(SYSTEMS, spec, plan, say)
    asked = [row for _, row in make_corpus(size).questions(plan.all_questions)]
    found = {name: share_found(asked, outcome.found) for name, outcome in outcomes.items()}
    if outcomes[UMI].skipped is None and found[UMI] < FOUND_LEAST:
        raise SystemExit(f"umi finds only {found[UMI]:.3f} of the chunks that the questions were made from")
    return rows_of(WHAT, size, outcomes, UMI, {name: {"found": share} for name, share in found.items()})


def share_found(asked: Sequence[int], found: Mapping[int, Sequence[int]]) -> float:
    """Of the questions asked."""
    return sum(asked[number] in rows for number, rows in found.items()) / max(1, len(found))
