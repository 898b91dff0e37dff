"""Statistics of a whole collection from two samples of its chunks.

BM25 needs the number and the average length of all chunks. The ranking needs to know how high the cosines of a query
are for chunks in general, and how much the positions and sources of chunks tell about them.

    sample      the chunks with the smallest checksums of their ids. From them are computed: the average length; for
                each query, the mean and deviation of its cosines with them (`pool.Background`); and the number of
                chunks, since the more chunks there are, the smaller are the smallest checksums (see `_count`).
    sources     the chunks of the sources with the smallest checksums of their names. From them are computed the
                numbers about positions and sources that `stores.corpus_stats` explains (`Calibration.numbers`), and
                whether positions are gapless.

A checksum is a CRC-32; it is stored with each point, in the payload field "draw" or "source_draw". So both samples
depend only on the content of the collection. The statistics are cached. If they are five minutes old, or an eighth of
the chunks was written since, a search requests new samples in the batch of its own requests to Qdrant; in a collection
no larger than the sample, after each write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from umi_common.pool import Ints, Vectors
from umi_common.runtime.forks import give_lock
from umi_common.stores.corpus_stats import SAMPLE_SIZE, Calibration
from umi_common.stores.ledger.codec import Head
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.points import DENSE, payload_of
from umi_common.stores.rows.rows import RowTable

SOURCE_SAMPLE_SIZE = 2_048
"""Number of chunks in the sample of sources; a larger sample changes the calibration little."""
GAPLESS_FROM = 0.9
"""If at least this share of successive positions in the sample of sources differ by 1, positions count as gapless.
Chunks are then adjacent only if their positions differ by 1."""
CHECKSUMS = 2**32
"""Number of values of a CRC-32."""
CHANGED_SHARE = 1 / 8
"""In a collection larger than the sample, statistics are drawn again after writes of this share of its chunks."""
SECONDS = 300.0
"""Age in seconds at which statistics are drawn again, because other processes may have written."""
_OF_CHUNKS = ["draw", "length"]
"""Payload fields of the points in the sample of chunks, first the checksum of the id."""
_OF_SOURCES = ["source_draw", "id", "source", "position", "length"]
"""Payload fields of the points in the sample of sources, first the checksum of the source's name."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the collection at the time when they were drawn."""

    chunks: int
    """Number of chunks: exact below SAMPLE_SIZE, else an estimate within a few percent."""
    average_length: float
    """Average number of terms of a chunk, > 0."""
    sample: Vectors
    """(at most SAMPLE_SIZE, dim) vectors of the sampled chunks."""
    calibration: Mapping[str, float]
    """The numbers about positions and sources; see `stores.corpus_stats`."""
    gapless: bool = True
    """Whether successive positions in a source mostly differ by 1; see GAPLESS_FROM."""


class CachedStatistics:
    """The statistics drawn last, and whether they must be drawn again. Thread-safe."""

    _lock: threading.Lock

    def __init__(self) -> None:
        give_lock(self)
        self._drawn: Statistics | None = None
        self._written = 0
        """Number of chunks that this process has written or removed."""
        self._seen = 0
        """`_written` at the time when the statistics were drawn."""
        self._drawn_at = 0.0
        """`time.monotonic()` when they were drawn."""

    def mark(self) -> int | None:
        """The number of chunks written so far, if statistics must be drawn again; None: the cached ones are used.

        Give it to `keep` with the new statistics: chunks written while they were drawn then count as later writes.
        """
        with self._lock:
            if self._drawn is not None and time.monotonic() - self._drawn_at < SECONDS:
                chunks = self._drawn.chunks
                needed = 1 if chunks <= SAMPLE_SIZE else chunks * CHANGED_SHARE
                if self._written - self._seen < needed:
                    return None
            return self._written

    def changed(self, chunks: int) -> None:
        """Count chunks written or removed."""
        with self._lock:
            self._written += chunks

    def keep(self, drawn: Statistics, mark: int) -> Statistics:
        """Return new statistics, and cache them unless later ones are cached already; `mark` is the result of `mark()`
        before they were drawn."""
        with self._lock:
            if mark >= self._seen:
                self._drawn, self._seen, self._drawn_at = drawn, mark, time.monotonic()
        return drawn

    def cached(self) -> Statistics:
        assert self._drawn is not None
        return self._drawn


def sample_requests() -> list[Any]:
    return [_smallest(SAMPLE_SIZE, _OF_CHUNKS), _smallest(SOURCE_SAMPLE_SIZE, _OF_SOURCES)]


def statistics_of(sample: Sequence[Any], sources: Sequence[Any], dim: int) -> Statistics:
    """The statistics from the two answers to `sample_requests`."""
    lengths = [payload_of(point, _OF_CHUNKS)["length"] for point in sample]
    in_sources = [payload_of(point, _OF_SOURCES) for point in sources]
    sample = sorted(sample, key=lambda point: (point.payload["draw"], str(point.id)))
    return Statistics(
        chunks=_count([point.payload["draw"] for point in sample]),
        average_length=sum(lengths) / len(lengths) if any(lengths) else 1.0,
        sample=_vectors(sample, dim),
        calibration=_calibration(sources, dim),
        gapless=_gapless(in_sources),
    )


def _gapless(payloads: Sequence[dict[str, Any]]) -> bool:
    """Whether most sampled chunks are one position after the chunk before them in their source."""
    positions = sorted((p["source_draw"], p["position"]) for p in payloads if p.get("position") is not None)
    steps = [second[1] - first[1] for first, second in pairwise(positions) if first[0] == second[0]]
    return steps.count(1) >= GAPLESS_FROM * len(steps)


def _smallest(limit: int, payload: list[str]) -> Any:
    """The request for the `limit` points with the smallest values of the payload field `payload[0]`."""
    order = models().OrderBy(key=payload[0], direction=models().Direction.ASC)
    query = models().OrderByQuery(order_by=order)
    return models().QueryRequest(query=query, limit=limit, with_payload=payload, with_vector=[DENSE])


def _count(checksums: Sequence[int]) -> int:
    """The number n of chunks, from the k smallest checksums of their ids, rising: k if the sample is not full, else

        n = (k - 1) / v        v: the k-th smallest checksum as a share of all CHECKSUMS, 0..1

    The k-th smallest of n numbers spread evenly over 0..1 is near k / n; with k - 1, the estimate has the right mean.

    Source: Bar-Yossef et al., RANDOM 2002.
    """
    if len(checksums) < SAMPLE_SIZE:
        return len(checksums)
    return max(round((len(checksums) - 1) / (checksums[-1] + 1) * CHECKSUMS), len(checksums))


def _vectors(points: Sequence[Any], dim: int) -> Vectors:
    """(n, dim) vectors of points; zeros for a point without one."""
    made = [(point.vector or {}).get(DENSE) or [0.0] * dim for point in points]
    return np.array(made, dtype=np.float32).reshape(len(points), dim)


def _calibration(points: Sequence[Any], dim: int) -> Mapping[str, float]:
    """`Calibration.numbers` over the sources whose chunks are all in the sample; empty if one source fills it."""
    if len(points) == SOURCE_SAMPLE_SIZE:  # chunks of the last source may be missing
        last = max(point.payload["source_draw"] for point in points)
        points = [point for point in points if point.payload["source_draw"] != last]
    points = sorted(points, key=lambda point: str(point.payload["id"]))
    payloads = [point.payload for point in points]
    table = RowTable()
    table.append([Head(row, p["id"], p.get("source"), p.get("position"), None) for row, p in enumerate(payloads)])
    lengths: Ints = np.array([payload["length"] for payload in payloads], dtype=np.int64)
    return Calibration().numbers(table.snapshot(), _vectors(points, dim), lambda: lengths, table.sources)
