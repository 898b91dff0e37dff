"""Can umi say that nothing was found? AUROC and coverage of `Hit.relevance` beside best cosine, evidence and min-max.

(a) questions of other sets; (b) leave-answer-out: questions with one answer, asked in two stores, of which each
lacks the answers of one half of the questions; (c) adversarial, underspecified and partly answerable ones.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import numpy as np
from quality_answering import auroc, coverage_at, reliability
from quality_sets import Collection, PrecomputedEmbedder

from umi_common import DualRetriever, HybridStore
from umi_common.config import RecallConfig
from umi_common.evaluation import Dataset, Query
from umi_common.protocols import Embedder, Probe
from umi_common.ranking.evidence import arm_evidence, min_max

MEASURES = ("relevance", "evidence", "cosine", "min-max")
FOREIGN = 200
"""Questions of other sets for each set; each dataset gets its share, at least 4."""
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
BARS = {"foreign": 0.98}
SINGLE = ("locomo", "longmemeval_s", "scifact", "cosqa", "mtrag_pool")
"""Sets with enough questions that have one answer."""
Asked = tuple[Query, Any, str]
"""The question, its recorded vector or None, its kind."""


@dataclass
class Answers:
    """What each measure said for each kind of question, and the hits' relevances with their judgements."""

    by_kind: dict[str, list[tuple[float, ...]]] = field(default_factory=lambda: defaultdict(list))
    hits: list[tuple[float, float]] = field(default_factory=list)


def measure(collections: Sequence[Collection]) -> tuple[str, list[tuple[float, float]]]:
    """The tables as text, and (relevance, 0 or 1) of all hits of all questions."""
    lines = ["AUROC [95 %] and coverage at 5 % false answers, by " + ", ".join(MEASURES)]
    hits: list[tuple[float, float]] = []
    foreign: dict[str, list[float]] = defaultdict(list)
    for place, collection in enumerate(collections):
        others = [other for other in collections if other.encoder == collection.encoder and other is not collection]
        found = _answers(collection, others, seed=place)
        hits += found.hits
        for kind, with_answer, without in _contrasts(found):
            lines.append(_line(f"{collection.title}, {kind}", with_answer, without))
            if kind == "foreign":
                foreign[collection.encoder].append(auroc(*_column(0, with_answer, without)).mean)
    for encoder, values in foreign.items():
        mean = float(np.mean(values))
        verdict = "pass" if mean >= BARS["foreign"] else "FAIL"
        lines.append(
            f"{verdict}  {encoder}, foreign questions, mean AUROC over {len(values)} sets: {mean:.4f}, bar 0.98"
        )
    lines.append("relevance -> share that is relevant (hits), all questions of all sets")
    rows = reliability(*zip(*hits, strict=True)) if hits else []
    lines += [f"  {stated:.2f} -> {true:.2f} ({count})" for stated, true, count in rows]
    return "\n".join(lines), hits


def _contrasts(found: Answers) -> Iterator[tuple[str, list[Any], list[Any]]]:
    kinds = found.by_kind
    pairs = (("foreign", "own"), ("answer left out", "answer in"), ("adversarial", "own"), ("not answerable", "own"))
    for kind, beside in pairs:
        if kinds[kind] and kinds[beside]:
            yield kind, kinds[beside], kinds[kind]


def _line(title: str, with_answer: list[Any], without: list[Any]) -> str:
    cells = [
        f"{auroc(*both)} {coverage_at(*both):.2f}"
        for both in (_column(place, with_answer, without) for place in range(len(MEASURES)))
    ]
    return f"{title} ({len(with_answer)}/{len(without)}): " + "  ".join(cells)


def _column(place: int, *rows: list[Any]) -> list[list[float]]:
    return [[row[place] for row in each] for each in rows]


def _answers(collection: Collection, others: Sequence[Collection], *, seed: int) -> Answers:
    found, rng = Answers(), random.Random(seed)
    share = max(4, FOREIGN // len(collection.datasets))
    for dataset in collection.datasets:
        embedder = collection.embedder(dataset)
        own = [(query, vector, _kind(query)) for query, vector in _embedded(embedder, dataset.judged)]
        foreign = [_foreign(rng.choice(others), rng) for _ in range(share)] if others else []
        _ask(found, dataset, dataset.chunks, embedder, [*own, *foreign])
        if collection.name in SINGLE:
            _leave_out(found, dataset, embedder, rng)
    return found


def _leave_out(found: Answers, dataset: Dataset, embedder: Embedder, rng: random.Random) -> None:
    """Ask each question with one answer in two stores; each lacks one half of the answers."""
    answer = {
        query.id: dataset.relevant(query.id)[0] for query in dataset.judged if len(dataset.relevant(query.id)) == 1
    }
    distinct = sorted(set(answer.values()))
    rng.shuffle(distinct)
    single = [query for query in dataset.judged if query.id in answer]
    for side in (0, 1):
        gone = set(distinct[side::2])
        chunks = [chunk for chunk in dataset.chunks if chunk.id not in gone]
        asked = [
            (query, vector, "answer left out" if answer[query.id] in gone else "answer in")
            for query, vector in _embedded(embedder, single)
        ]
        _ask(found, dataset, chunks, embedder, asked)


def _ask(found: Answers, dataset: Dataset, chunks: Sequence[Any], embedder: Embedder, asked: Sequence[Asked]) -> None:
    with HybridStore.open(embedder=embedder) as store:
        store.add(chunks)
        umi = DualRetriever(store)
        for query, vector, kind in asked:
            now = query.now or NOW
            result = umi.search(query.text, query_vector=vector, now=now)
            pool = store.recall([Probe(query.text, vector)], depth=RecallConfig().depth, now=now)
            lexical, dense = arm_evidence(pool, 1.0)
            convex = 0.45 * min_max(pool.lexical) + 0.55 * min_max(pool.dense)
            relevances = [hit.relevance or 0.0 for hit in result]
            evidence = 0.45 * lexical + 0.55 * dense
            found.by_kind[kind].append(
                (
                    max(relevances, default=0.0),
                    *(float(each.max(initial=0.0)) for each in (evidence, pool.dense, convex)),
                )
            )
            relevant = {*dataset.relevant(query.id)} if kind not in ("foreign", "answer left out") else set()
            found.hits += [(hit.relevance or 0.0, float(hit.chunk.id in relevant)) for hit in result]


def _foreign(other: Collection, rng: random.Random) -> Asked:
    dataset = rng.choice(other.datasets)
    ((query, vector),) = _embedded(other.embedder(dataset), [rng.choice(dataset.queries)])
    return query, vector, "foreign"


def _embedded(embedder: Embedder, queries: Sequence[Query]) -> list[tuple[Query, Any]]:
    """Each query with its recorded vector; None if the store's embedder can make it, as it does for users."""
    if not queries or not isinstance(embedder, PrecomputedEmbedder):
        return [(query, None) for query in queries]
    return list(zip(queries, embedder.embed_queries([query.text for query in queries]), strict=True))


def _kind(query: Query) -> str:
    if "adversarial" in (query.category or ""):
        return "adversarial"
    stated = query.metadata.get("answerability") or ["ANSWERABLE"]
    return "own" if "ANSWERABLE" in stated else "not answerable"
