"""What umi knows of a whole collection without reading it: two samples that ride along in a search's one batch.

    sample      the chunks with the smallest checksum of their id: their average length, the usual cosine of a query,
                and, by how small the checksums are, how many chunks there are (Bar-Yossef et al., RANDOM 2002)
    sources     the chunks of the sources with the smallest checksum of their name: whether sources and positions carry
                anything here (`store.calibration`)

Content alone decides both samples. They are drawn anew after writes of this store that may show, and every few minutes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from umi_common.pool import NO_SOURCE, Ints, Vectors
from umi_common.runtime.forks import give_lock
from umi_common.stores.background import SAMPLE_SIZE
from umi_common.stores.corpus_stats import Calibration
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.points import DENSE
from umi_common.stores.rows.rows import MISSING, Rows

SOURCE_SAMPLE_SIZE = 2_048
"""Chunks whose sources are looked at; the numbers are settled by then."""
GAPLESS_FROM = 0.9
"""Share of successions that are one position apart, from which a position missing nearby counts as nobody's."""
CHECKSUMS = 2**32
SHOWS_FROM = 8
"""Writes of one in so many chunks show in the statistics."""
SECONDS = 300.0
"""After which others' writes are looked for."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The collection at one moment."""

    chunks: int
    """Exact up to SAMPLE_SIZE, above it within a few percent."""
    average_length: float
    """In terms, > 0."""
    sample: Vectors
    """(at most SAMPLE_SIZE, dim)"""
    calibration: Mapping[str, float]
    gapless: bool = True
    """Whether positions mostly follow one another without gaps."""


class Remembered:
    """The statistics last drawn, and whether they still hold. Thread-safe."""

    _lock: threading.Lock

    def __init__(self) -> None:
        give_lock(self)
        self._latest: Statistics | None = None
        self._written = self._seen = 0
        self._drawn = 0.0

    def mark(self) -> int | None:
        """Where the writes stand, if the next search should draw the statistics anew; None: they hold."""
        with self._lock:
            changes = self._written - self._seen
            if self._latest is not None and time.monotonic() - self._drawn < SECONDS:
                few = self._latest.chunks <= SAMPLE_SIZE
                if not changes or not (few or changes * SHOWS_FROM >= self._latest.chunks):
                    return None
            return self._written

    def changed(self, chunks: int) -> None:
        """So many were written or removed."""
        with self._lock:
            self._written += chunks

    def latest(self, drawn: Statistics | None, mark: int | None) -> Statistics:
        """What to go by: what was drawn at a mark, which is kept, or what was drawn before."""
        with self._lock:
            if drawn is not None and mark is not None:
                self._latest, self._seen, self._drawn = drawn, max(mark, self._seen), time.monotonic()
            found = self._latest if drawn is None else drawn
        assert found is not None, "the first search draws them"
        return found


def requests() -> list[Any]:
    """The two samples as part of a batch."""
    return [
        _smallest("draw", SAMPLE_SIZE, ["draw", "length"]),
        _smallest("source_draw", SOURCE_SAMPLE_SIZE, ["id", "source", "position", "length"]),
    ]


def statistics_of(sample: Sequence[Any], sources: Sequence[Any], dim: int) -> Statistics:
    """From the two answers to `requests`."""
    lengths = [point.payload["length"] for point in sample]
    total = sum(lengths)
    sample = sorted(sample, key=lambda point: (point.payload["draw"], str(point.id)))
    return Statistics(
        chunks=_count([point.payload["draw"] for point in sample]),
        average_length=total / len(lengths) if total else 1.0,
        sample=np.array([_vector(point, dim) for point in sample], dtype=np.float32).reshape(len(sample), dim),
        calibration=_calibration(sources, dim),
        gapless=_gapless(sources),
    )


def _gapless(points: Sequence[Any]) -> bool:
    """Whether of the sampled chunks that follow one in their source most are one position further."""
    placed: list[tuple[str, int]] = [
        (p.payload["source"], p.payload["position"]) for p in points if p.payload.get("position") is not None
    ]
    steps = [second[1] - first[1] for first, second in pairwise(sorted(placed)) if first[0] == second[0]]
    return steps.count(1) >= GAPLESS_FROM * len(steps)


def _smallest(field_name: str, limit: int, payload: list[str]) -> Any:
    order = models().OrderBy(key=field_name, direction=models().Direction.ASC)
    query = models().OrderByQuery(order_by=order)
    return models().QueryRequest(query=query, limit=limit, with_payload=payload, with_vector=[DENSE])


def _count(draws: Sequence[int]) -> int:
    """Of a sample that was cut off, the k-th smallest of n even draws lies near k / n."""
    if len(draws) < SAMPLE_SIZE:
        return len(draws)
    return max(round((len(draws) - 1) / (draws[-1] + 1) * CHECKSUMS), len(draws))


def _vector(point: Any, dim: int) -> Any:
    return (point.vector or {}).get(DENSE) or [0.0] * dim


def _calibration(points: Sequence[Any], dim: int) -> Mapping[str, float]:
    """`Calibration.numbers` over the sources that came whole."""
    if len(points) == SOURCE_SAMPLE_SIZE:  # the last source may have been cut short
        cut = max(crc32(point.payload["source"].encode()) for point in points)
        points = [point for point in points if crc32(point.payload["source"].encode()) != cut]
    points = sorted(points, key=lambda point: str(point.payload["id"]))
    codes: dict[str, int] = {}
    payloads = [point.payload for point in points]
    positions = [payload.get("position") for payload in payloads]
    source = [codes.setdefault(payload["source"], len(codes)) for payload in payloads]
    rows = Rows(
        [payload["id"] for payload in payloads],
        np.arange(len(points)),
        np.array(source, dtype=np.int64),
        np.array([MISSING if position is None else position for position in positions], dtype=np.int64),
        np.full(len(points), MISSING),
        np.ones(len(points), dtype=np.bool_),
        len(points),
    )
    vectors = np.array([_vector(point, dim) for point in points], dtype=np.float32).reshape(len(points), dim)
    lengths: Ints = np.array([payload["length"] for payload in payloads], dtype=np.int64)
    return (
        Calibration().numbers(rows, vectors, lambda: lengths, list(codes)) if (rows.source != NO_SOURCE).any() else {}
    )
