"""Statistics of a whole collection from two samples, which a search requests in its batch.

    sample      the chunks with the smallest checksum of their id: average length, background cosines of a query, and
                from the size of the checksums the number of chunks (Bar-Yossef et al., RANDOM 2002)
    sources     the chunks of the sources with the smallest checksum of their name: `Calibration.numbers`

Both depend on the content alone. They are requested again when an eighth of the chunks was written, in a collection no
larger than the sample after every write, and every five minutes.
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

from umi_common.pool import Ints, Vectors
from umi_common.runtime.forks import give_lock
from umi_common.stores.corpus_stats import SAMPLE_SIZE, Calibration
from umi_common.stores.ledger.codec import Head
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.points import DENSE
from umi_common.stores.rows.rows import RowTable

SOURCE_SAMPLE_SIZE = 2_048
"""Chunks in the sample of sources; a larger one changes the numbers little."""
GAPLESS_FROM = 0.9
"""If at least this share of successive positions differs by 1, positions have no gaps, and only chunks whose positions
differ by 1 are adjacent."""
CHECKSUMS = 2**32
"""Number of values of a CRC-32."""
CHANGED_SHARE = 8
"""In a collection larger than the sample, statistics are drawn again when at least one chunk in 8 was written."""
SECONDS = 300.0
"""Age in seconds at which statistics are drawn again, because other processes may have written."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the collection when they were drawn."""

    chunks: int
    """Number of chunks: exact up to SAMPLE_SIZE, above it within a few percent."""
    average_length: float
    """Average number of terms of a chunk, > 0."""
    sample: Vectors
    """(at most SAMPLE_SIZE, dim) vectors of the sampled chunks."""
    calibration: Mapping[str, float]
    """See `Calibration.numbers`."""
    gapless: bool = True
    """Whether positions mostly follow one another without gaps."""


class CachedStatistics:
    """The statistics drawn last, and whether they must be drawn again. Thread-safe."""

    _lock: threading.Lock

    def __init__(self) -> None:
        give_lock(self)
        self._drawn: Statistics | None = None
        self._written = self._seen = 0
        self._drawn_at = 0.0

    def mark(self) -> int | None:
        """The number of chunks written so far, if statistics must be drawn again; None: the cached ones are used."""
        with self._lock:
            changes = self._written - self._seen
            if self._drawn is not None and time.monotonic() - self._drawn_at < SECONDS:
                few = self._drawn.chunks <= SAMPLE_SIZE
                if not changes or not (few or changes * CHANGED_SHARE >= self._drawn.chunks):
                    return None
            return self._written

    def changed(self, chunks: int) -> None:
        """Count chunks written or removed."""
        with self._lock:
            self._written += chunks

    def latest(self, drawn: Statistics | None, mark: int | None) -> Statistics:
        """`drawn`, which is then cached; None: the cached statistics.

        Args:
            mark: From `mark()`, called before they were drawn.
        """
        with self._lock:
            if drawn is not None and mark is not None:
                self._drawn, self._seen, self._drawn_at = drawn, max(mark, self._seen), time.monotonic()
            found = self._drawn if drawn is None else drawn
        assert found is not None, "the first search draws statistics"
        return found


def sample_requests() -> list[Any]:
    """The requests of the two samples."""
    return [
        _smallest("draw", SAMPLE_SIZE, ["draw", "length"]),
        _smallest("source_draw", SOURCE_SAMPLE_SIZE, ["id", "source", "position", "length"]),
    ]


def statistics_of(sample: Sequence[Any], sources: Sequence[Any], dim: int) -> Statistics:
    """The statistics from the two answers to `sample_requests`."""
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
    """Whether most sampled chunks are one position after the chunk before them in their source."""
    positions: list[tuple[str, int]] = [
        (p.payload["source"], p.payload["position"]) for p in points if p.payload.get("position") is not None
    ]
    steps = [second[1] - first[1] for first, second in pairwise(sorted(positions)) if first[0] == second[0]]
    return steps.count(1) >= GAPLESS_FROM * len(steps)


def _smallest(field_name: str, limit: int, payload: list[str]) -> Any:
    order = models().OrderBy(key=field_name, direction=models().Direction.ASC)
    query = models().OrderByQuery(order_by=order)
    return models().QueryRequest(query=query, limit=limit, with_payload=payload, with_vector=[DENSE])


def _count(draws: Sequence[int]) -> int:
    """Number of chunks: the k-th smallest of n numbers spread evenly over 0..1 is near k / n."""
    if len(draws) < SAMPLE_SIZE:
        return len(draws)
    return max(round((len(draws) - 1) / (draws[-1] + 1) * CHECKSUMS), len(draws))


def _vector(point: Any, dim: int) -> Any:
    return (point.vector or {}).get(DENSE) or [0.0] * dim


def _calibration(points: Sequence[Any], dim: int) -> Mapping[str, float]:
    """`Calibration.numbers` over the sources of which all chunks are in the sample."""
    if len(points) == SOURCE_SAMPLE_SIZE:  # chunks of the last source may be missing
        cut = max(crc32(point.payload["source"].encode()) for point in points)
        points = [point for point in points if crc32(point.payload["source"].encode()) != cut]
    points = sorted(points, key=lambda point: str(point.payload["id"]))
    table = RowTable()
    payloads = [point.payload for point in points]
    table.append([Head(row, p["id"], p["source"], p.get("position"), None) for row, p in enumerate(payloads)])
    vectors = np.array([_vector(point, dim) for point in points], dtype=np.float32).reshape(len(points), dim)
    lengths: Ints = np.array([payload["length"] for payload in payloads], dtype=np.int64)
    return Calibration().numbers(table.snapshot(), vectors, lambda: lengths, table.sources)
