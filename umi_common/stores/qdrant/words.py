"""The query's terms, and what the engine says of each: one request a term rides along in the batch.

Its answer, limit 1, is the chunk where the term weighs most. The engine's score over the stored value is the term's
idf, the chunk gives its largest impact; both are of the whole corpus, whatever a filter says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.points import LEXICAL
from umi_common.stores.qdrant.terms import index_of

TERMS_MAX = 256
"""Distinct terms of one variation that the lexical arm looks for; the rest of a longer query is left out."""

Counts = Mapping[int, int]
"""How often a variation has each term; terms by their index in the sparse vectors."""


@dataclass(frozen=True, slots=True)
class Peak:
    """A term at its heaviest."""

    idf: float
    """Lucene's, as the engine has it now."""
    value: float
    """What the chunk has stored for the term."""
    length: int
    """Of the chunk, in terms."""


def words_of(text: str, analyzer: Analyzer) -> Counts:
    """The terms of a variation, cut to TERMS_MAX."""
    counted = Counter(map(index_of, analyzer.terms(text)))
    return dict(list(counted.items())[:TERMS_MAX])


def indices_of(words: Sequence[Counts]) -> list[int]:
    """Distinct terms of several variations, rising."""
    return sorted({index for counts in words for index in counts})


def query_vector(counts: Counts) -> Any:
    """A variation as the engine takes it."""
    indices = sorted(counts)
    return models().SparseVector(indices=indices, values=[float(counts[index]) for index in indices])


def requests(words: Sequence[Counts]) -> list[Any]:
    """One for each distinct term."""
    return [
        models().QueryRequest(
            query=models().SparseVector(indices=[index], values=[1.0]),
            using=LEXICAL,
            limit=1,
            with_payload=["length"],
            with_vector=[LEXICAL],
        )
        for index in indices_of(words)
    ]


def peaks_of(words: Sequence[Counts], answers: Sequence[Sequence[Any]]) -> dict[int, Peak]:
    """From the answers to `requests`; a term that no chunk has is left out."""
    peaks = {}
    for index, points in zip(indices_of(words), answers, strict=True):
        if points:
            stored = points[0].vector[LEXICAL]
            value = float(stored.values[list(stored.indices).index(index)])
            peaks[index] = Peak(points[0].score / value, value, points[0].payload["length"])
    return peaks
