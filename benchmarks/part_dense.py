"""Nearest neighbours alone: umi's dense arm beside Chroma's own call on the same vectors and one exact product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.children import ask_in_turn
from benchmarks.corpus import NOW, row_of
from benchmarks.harness import Asking, Build, Plan, Prepare, Row, Skipped, Spec, rows_of
from benchmarks.oracle import agreement, cosine_scores
from benchmarks.stores import chroma_collection, material, open_store, shared_store
from umi_common.pool import FIRST_RANK
from umi_common.protocols import Probe

WHAT = "nearest neighbours, top 10"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
TOP = 10
NARROW_FROM = 1_000_000
"""Chunks from which vectors have 64 dimensions in place of 384."""
UMI, EXACT, CHROMA = "umi", "exact, one numpy product", "Chroma's own call"
AGREES_LEAST = 0.98


def with_words(spec: Spec) -> bool:
    """Whether the store is that of the hybrid; the largest has only vectors, and no index of Chroma's."""
    return spec.size < NARROW_FROM


def umi(spec: Spec) -> Build:
    """`HybridStore.recall` of a probe with a vector and an empty text, so that only the dense arm finds chunks."""
    made = material(spec, words=with_words(spec))

    def build() -> Asking:
        store = open_store(spec, made, words=with_words(spec))

        def ask(number: int) -> list[int]:
            pool = store.recall([Probe("", made.question_vectors[number])], depth=TOP, now=NOW)
            ranks = pool.dense_rank[0]
            found = np.flatnonzero((ranks >= FIRST_RANK) & (ranks <= TOP))
            return [row_of(pool.ids[at]) for at in found[np.argsort(ranks[found])].tolist()]

        ask(0)
        return Asking(ask)

    return build


def exact(spec: Spec) -> Build:
    """Product of matrix and query, and a partial sort: the lower bound of an exact scan in float32."""
    made = material(spec, words=with_words(spec))

    def build() -> Asking:
        def ask(number: int) -> list[int]:
            scores = made.vectors @ made.question_vectors[number]
            best = np.argpartition(-scores, TOP)[:TOP]
            rows: list[int] = best[np.argsort(-scores[best])].tolist()
            return rows

        return Asking(ask)

    return build


def chroma(spec: Spec) -> Build:
    """`collection.query` on a collection of the same vectors: the lower bound of a search through Chroma."""
    if not with_words(spec):
        raise Skipped("building its index takes longer than all the rest")
    made = material(spec)

    def build() -> Asking:
        collection = chroma_collection(spec, made, "chroma")

        def ask(number: int) -> list[int]:
            vector = made.question_vectors[number : number + 1]
            found = collection.query(query_embeddings=vector, n_results=TOP, include=[])
            return [int(id) - 1 for id in found["ids"][0]]

        ask(0)
        return Asking(ask)

    return build


SYSTEMS: dict[str, Prepare] = {UMI: umi, EXACT: exact, CHROMA: chroma}


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a system; "agrees" is the share of the true ten nearest that it found."""
    plan = replace(plan, questions=min(plan.questions, 40))
    wanted = Spec(size, dim=64 if size >= NARROW_FROM else 384, questions=plan.all_questions)
    with shared_store(wanted, say, words=with_words(wanted)) as spec:
        outcomes = ask_in_turn(SYSTEMS, spec, plan, say)
    made = material(spec, words=with_words(spec))
    numbers = list(plan.of_round(0))
    scores = cosine_scores(made.vectors, made.question_vectors[numbers])
    truth = dict(zip(numbers, scores, strict=True))
    agrees = {name: agreement(truth, outcome.found, TOP, slack=1e-6) for name, outcome in outcomes.items()}
    if outcomes[UMI].skipped is None and agrees[UMI] < AGREES_LEAST:
        raise SystemExit(f"umi finds only {agrees[UMI]:.3f} of the true ten nearest at {size} chunks")
    more: dict[str, Row] = {name: {"agrees": share, "dim": spec.dim} for name, share in agrees.items()}
    return rows_of(WHAT, size, outcomes, UMI, more)
