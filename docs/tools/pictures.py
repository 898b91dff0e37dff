"""Draw the pictures of the documentation: python docs/tools/pictures.py writes them.

Numbers in them come from umi's own functions and constants; a test fails for a picture that is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from scale_picture import scale
from svg import Drawing

from umi_common import Chunk, HybridStore, UmiConfig
from umi_common.config import RoutingConfig
from umi_common.pool import NOT_RANKED, Background, Pool
from umi_common.protocols import Probe
from umi_common.query.routing import EVIDENCE_SIGNALS, Decision, weigh_evidence
from umi_common.ranking.evidence import dense_evidence
from umi_common.ranking.neighbours import shares_of
from umi_common.search.rank import rank
from umi_common.search.trace import TraceBuilder
from umi_common.sim import HashEmbedder

FOLDER = Path(__file__).parents[1] / "pictures"
NOW = datetime(2024, 6, 14, tzinfo=timezone.utc)
TURNS = (
    "Priya started in accounting at Acme.",
    "She says the canteen is excellent.",
    "The roofers want nine thousand.",
    "We took the house by the canal.",
    "Acme moves to the old mill in June.",
    "Luna is the grey cat of my sister.",
)


def pipeline() -> str:
    """From the query to the prompt."""
    drawing = Drawing(1076, "The pipeline: understand, recall, fuse, rank, assemble")
    drawing.box(20, 10, 310, 40, "“who works at Acme?”", "plain")
    stages = (
        ("understand", "questions, period, route of the query", "teal", 62),
        ("recall", "BM25 and embeddings; if the result", "is weak, the LLM's variations too", "blue", 104),
        ("pool", "candidates as arrays, ids not texts", "plain", 62),
        ("fuse", "evidence of both arms, one score", "teal", 62),
        ("feedback", "chunks like the best ones gain", "teal", 62),
        ("neighbours", "adjacent chunks, the whole source", "teal", 62),
        ("references", "chunks that the best ones refer to", "teal", 62),
        ("period, decay", "raise or lower by time", "teal", 62),
        ("fetch", "the texts of the best", "blue", 62),
        ("reorder", "by their texts: numbers, phrases", "teal", 62),
        ("rerank, MMR", "your reranker; diversity, if on", "blue", 62),
        ("assemble", "token budget, stitching, sources", "teal", 62),
    )
    top = 72
    drawing.arrow(175, 50, 175, top - 1)
    outside = {
        "recall": (("store", "one call"), ("LLM", "optional")),
        "fetch": (("store", "the texts"),),
        "rerank, MMR": (("reranker", "optional"),),
    }
    for name, *what, fill, height in stages:
        drawing.box(20, top, 310, height, (name, *what), fill)
        drawing.arrow(175, top + height, 175, top + height + 13)
        for number, part in enumerate(outside.get(name, ())):
            middle = top + 27 + 50 * number if name == "recall" else top + 31
            drawing.box(390, middle - 22, 115, 44, part, "brown")
            drawing.arrow(390, middle, 331, middle)
        if name == "neighbours":
            drawing.box(360, top + 4, 145, 54, ("pure functions", "no I/O"), "teal")
        top += height + 14
    drawing.box(20, top, 310, 40, "context.text, with its sources", "plain")
    return drawing.text()


def store() -> str:
    """The ledger and its indexes."""
    drawing = Drawing(470, "The store: one ledger, and indexes made from it")
    drawing.box(20, 10, 220, 40, "add, delete", "plain")
    drawing.arrow(130, 50, 130, 78)
    drawing.box(20, 80, 480, 106, (
        "umi.db: the ledger", "SQLite; texts, metadata, times, float32 vectors",
        "one commit: acknowledged, durable, all or nothing", "a checksum over every row",
    ), "blue")  # fmt: skip
    drawing.arrow(130, 186, 130, 222, dashed=True)
    drawing.arrow(390, 186, 390, 222, dashed=True)
    drawing.box(166, 191, 188, 26, "rebuilt, not embedded", "plain")
    drawing.box(20, 224, 230, 84, ("lexical/", "BM25 postings", "exact, any write history"), "teal")
    drawing.box(270, 224, 230, 84, ("vectors in memory", "an exact scan: byte codes", "first, then float32"), "teal")
    drawing.arrow(135, 308, 135, 340)
    drawing.arrow(385, 308, 385, 340)
    drawing.box(20, 342, 480, 62, ("recall", "one snapshot; both arms score every candidate"), "plain")
    drawing.arrow(260, 404, 260, 424)
    drawing.box(20, 426, 480, 40, "every hit is read from the ledger and checked", "blue")
    return drawing.text()


def recalled(query: str) -> Pool:
    """The pool of six turns of a chat, with an embedder that needs no model."""
    with HybridStore.open(embedder=HashEmbedder(32)) as store:
        store.add([Chunk(f"t{i}", text, source="chat", position=i) for i, text in enumerate(TURNS, 1)])
        return store.recall([Probe(query)], depth=10, now=NOW)


def pool() -> str:
    """The arrays of one call."""
    found = recalled("who works at Acme?")
    drawing = Drawing(134 + 30 * len(found), "The pool: one row per candidate, one column per array")
    columns = (
        ("ids", 20, 60),
        ("lexical", 86, 84),
        ("rank", 176, 56),
        ("dense", 238, 76),
        ("rank", 320, 56),
        ("position", 382, 118),
    )
    drawing.box(86, 10, 146, 32, "BM25 arm", "blue")
    drawing.box(238, 10, 138, 32, "dense arm", "teal")
    drawing.box(382, 10, 118, 32, "place", "brown")
    for name, x, width in columns:
        drawing.box(x, 48, width, 30, name, "plain")
    for row, id in enumerate(found.ids):
        lexical, dense = (
            (f"{round(float(scores[0, row]), 2) + 0.0:.2f}", "–" if ranks[0, row] == NOT_RANKED else str(ranks[0, row]))
            for scores, ranks in ((found.lexical, found.lexical_rank), (found.dense, found.dense_rank))
        )
        values = (id, *lexical, *dense, str(found.position[row]))
        for (_, x, width), value in zip(columns, values, strict=True):
            drawing.box(x, 84 + 30 * row, width, 26, value, "plain")
    drawing.box(20, 92 + 30 * len(found), 480, 34, "both arms score every row: no score is missing", "plain")
    return drawing.text()


def evidence() -> str:
    """The dense arm's evidence over its distance from the background."""
    drawing = Drawing(420, "Dense evidence grows with the square of the distance from the background")
    drawing.box(10, 10, 500, 400, (), "plain")
    left, bottom, wide, high, most = 70.0, 340.0, 410.0, 270.0, 1.2
    deviations = np.linspace(-2, 8, 101)
    evidence = dense_evidence(deviations[np.newaxis, :], Background(np.zeros(1), np.ones(1), 10**9))[0]

    def place(z: float, value: float) -> tuple[float, float]:
        return left + (z + 2) / 10 * wide, bottom - value / most * high

    drawing.arrow(left, bottom, left + wide + 6, bottom)
    drawing.arrow(left, bottom, left, bottom - high - 16)
    drawing.curve([place(float(z), float(value)) for z, value in zip(deviations, evidence, strict=True)], "teal")
    for mark in range(0, 9, 2):
        drawing.label(place(mark, 0)[0], bottom + 22, str(mark), anchor="middle")
    drawing.label(left + wide / 2, bottom + 50, "deviations of the cosine above this query's mean", anchor="middle")
    drawing.label(left + 8, bottom - high - 4, "evidence", bold=True)
    for z in (3.0, 6.0):
        value = float(np.interp(z, deviations, evidence))
        x, y = place(z, value)
        drawing.bar(x - 5, y - 5, 10, 10, "brown")
        drawing.label(x - 14, y - 8, f"{z:g} deviations: {value:.2f}", anchor="end")
    return drawing.text()


def shares() -> str:
    """The shares of neighbours and sources over the intraclass correlation of the corpus."""
    drawing = Drawing(400, "The shares of neighbours and sources over the corpus' intraclass correlation")
    drawing.box(10, 10, 500, 380, (), "plain")
    left, bottom, wide, high = 60.0, 310.0, 420.0, 210.0
    correlations = np.linspace(0, 1, 201)
    seen = {"autocorrelation": 0.2, "autocorrelation_pairs": 1e9, "icc_chunks": 1e9, "shared_source_share": 1.0}
    found = [shares_of({**seen, "icc": float(correlation)}) for correlation in correlations]
    drawing.arrow(left, bottom, left + wide + 6, bottom)
    drawing.arrow(left, bottom, left, bottom - high - 20)
    for fill, values in (("blue", [share.position for share in found]), ("brown", [share.source for share in found])):
        drawing.curve(
            [
                (left + correlation * wide, bottom - value * high)
                for correlation, value in zip(correlations, values, strict=True)
            ],
            fill,
        )
    for value in (0.0, 0.5, 1.0):
        drawing.label(left + value * wide, bottom + 22, f"{value:g}", anchor="middle")
        drawing.label(left - 10, bottom - value * high + 5, f"{value:g}", anchor="end")
    drawing.label(
        left + wide / 2, bottom + 50, "intraclass correlation: share of the variance between sources", anchor="middle"
    )
    drawing.box(left + 40, 28, 170, 30, "share of neighbours", "blue")
    drawing.box(left + 240, 28, 170, 30, "share of the source", "brown")
    for correlation, what in ((0.05, "chats"), (0.43, "a manual")):
        drawing.bar(left + correlation * wide - 1, bottom - high, 2, high, "violet")
        drawing.label(left + correlation * wide + 8, bottom - 14, what)
    return drawing.text()


def gate() -> str:
    """Two queries before the evidence gate."""
    threshold = RoutingConfig().weakness
    queries = ("roofers want nine thousand?", "what did she tell them?")
    drawing = Drawing(30 + 260 * len(queries), "The evidence gate: five signals, one weakness, one threshold")
    for number, query in enumerate(queries):
        found = recalled(query)
        scores = rank(found, UmiConfig(), boost=None, trace=TraceBuilder()).scores
        _weighed(drawing, 10 + 260 * number, query, weigh_evidence(found, scores, query), threshold)
    return drawing.text()


def _weighed(drawing: Drawing, top: float, query: str, decision: Decision, threshold: float) -> None:
    drawing.box(10, top, 500, 244, (), "plain")
    drawing.label(24, top + 26, f"“{query}”", bold=True)
    verdict = "the LLM is asked" if decision.deep else "the LLM is not asked"
    drawing.box(316, top + 8, 184, 30, verdict, "brown" if decision.deep else "teal")
    names = [*EVIDENCE_SIGNALS, "weakness"]
    for row, name in enumerate(names):
        y = top + 50 + 32 * row
        value = decision.signals[name]
        weight = EVIDENCE_SIGNALS[name][0] if name in EVIDENCE_SIGNALS else None
        title = f"weakness ≥ {threshold:g}?" if weight is None else f"{name} × {weight:g}"
        drawing.label(24, y + 16, title, bold=weight is None)
        drawing.bar(180, y, 260 * value, 22, "violet" if weight is None else "blue")
        drawing.label(488, y + 16, f"{value:.2f}", anchor="end")
    at = 180 + 260 * threshold
    drawing.bar(at - 1, top + 50 + 32 * (len(names) - 1) - 3, 3, 28, "brown")


PICTURES: dict[str, Callable[[], str]] = {
    "pipeline": pipeline,
    "store": store,
    "pool": pool,
    "evidence": evidence,
    "shares": shares,
    "gate": gate,
    "scale": scale,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
