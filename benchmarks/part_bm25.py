"""BM25, the ten best of a question: umi beside what the frameworks use and beside the fast engines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.children import ask_in_turn
from benchmarks.corpus import make_corpus
from benchmarks.harness import Plan, Row, Spec, rows_of
from benchmarks.lexical_systems import SYSTEMS, TOP, keep_material
from benchmarks.oracle import Bm25Oracle, agreement, tied_at

WHAT = "BM25, top 10"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
CHECKED = 40
"""Questions whose answers are compared with the definition."""
EXACT = "umi"
"""Must give the definition's answers, all of them."""


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a system; "agrees" is the share of the definition's ten best that it found."""
    with tempfile.TemporaryDirectory() as home:
        corpus = make_corpus(size)
        spec = Spec(size, questions=plan.all_questions, home=home)
        keep_material(corpus, spec)
        say("texts written")
        outcomes = ask_in_turn(SYSTEMS, spec, replace(plan, build_seconds=600.0), say)
    questions = corpus.questions(plan.all_questions)
    numbers = list(plan.of_round(0))[:CHECKED]
    scores = Bm25Oracle(corpus).scores([questions[number][0] for number in numbers])
    truth = dict(zip(numbers, scores, strict=True))
    agrees = {name: agreement(truth, outcome.found, TOP) for name, outcome in outcomes.items()}
    if outcomes[EXACT].skipped is None and agrees[EXACT] < 1.0:
        raise SystemExit(f"umi's ten best agree with the definition only to {agrees[EXACT]:.4f} at {size} chunks")
    more = {name: {"agrees": share} for name, share in agrees.items() if name != "umi, filter and decay on"}
    rows = rows_of(WHAT, size, outcomes, EXACT, more)
    tied = {f"tied_at_{place}": float(np.mean([tied_at(each, place) for each in scores])) for place in (10, 200)}
    return [*rows, {"what": "chunks with the same BM25 score as the n-th", "size": size, "system": "synthetic", **tied}]
