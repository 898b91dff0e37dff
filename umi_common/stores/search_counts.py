"""Counts searches: of a retriever, of a store, and of all processes that had a store open for writing.

The counts of all processes are kept in `searches.json` in the store's directory. It holds no text and no ids.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from umi_common.runtime.forks import give_lock

log = logging.getLogger("umi")

FILE = "searches.json"
VERSION = 1
"""Version of the file's format. A file of another version is not read."""
SECONDS = 60.0
"""Shortest time between two writes of the file while the store is open, in seconds."""
BOUNDS: Mapping[str, tuple[float, ...]] = {
    "milliseconds": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0),
    "hits": (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
}
"""Upper bounds of the buckets of each histogram, in milliseconds or hits. If they change, `VERSION` must be raised."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of values in each bucket, and their sum."""

    bounds: tuple[float, ...]
    """Rising upper bounds; a value that equals a bound is in its bucket."""
    counts: tuple[int, ...]
    """Number of values in the bucket of each bound, and last the number of larger values."""
    total: float
    """Sum of the values."""

    @property
    def mean(self) -> float:
        """Arithmetic mean of the values; 0 if there are none."""
        return self.total / max(1, sum(self.counts))

    def quantile(self, share: float) -> float:
        """Upper bound of the bucket that holds the quantile `share`, 0..1. If the quantile exceeds the last bound, inf;
        if there are no values, the first bound."""
        values, seen = sum(self.counts), 0
        rank = max(round(share * values, 6), min(1, values))  # rounded, because 0.55 * 100 is 55.000000000000001
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen >= rank:
                return bound
        return float("inf")

    def __add__(self, other: Histogram) -> Histogram:
        counts = [one + more for one, more in zip(self.counts, other.counts, strict=True)]
        return Histogram(self.bounds, tuple(counts), self.total + other.total)


@dataclass(frozen=True, slots=True)
class SearchMetrics:
    """Counts of the searches of a retriever and its copies, or of all retrievers over a store."""

    searches: int
    """Number of searches that returned a result, searches for a context included."""
    failures: int
    """Number of searches that raised an error."""
    fallbacks: int
    """Number of searches that returned a result although a part failed, so that its `degraded` is not empty."""
    llm_calls: int
    """Prompts that were sent to an LLM, retries included."""
    cache_hits: int
    """Number of searches whose query variations came from the cache of the LLM's replies."""
    milliseconds: Histogram
    """Duration of each search that returned a result."""
    hits: Histogram
    """Number of hits of each search that returned a result."""

    @property
    def fallback_rate(self) -> float:
        """`fallbacks` as a share of `searches`, 0..1."""
        return self.fallbacks / max(1, self.searches)

    def __add__(self, other: SearchMetrics) -> SearchMetrics:
        return SearchMetrics(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


class SearchCounter:
    """Counts searches. Thread-safe.

    Args:
        store: The counter of a store, to which `add` also adds every value; None: there is none.
    """

    _lock: threading.Lock

    def __init__(self, store: SearchCounter | None = None) -> None:
        self._store = store
        self._sums: dict[str, float] = {each.name: 0 for each in fields(SearchMetrics)}
        self._buckets = {name: [0] * (len(bounds) + 1) for name, bounds in BOUNDS.items()}
        give_lock(self)

    def add(self, more: Mapping[str, float]) -> None:
        """Add each value to the sum of its name. If the name has a histogram, also count the value in its bucket."""
        with self._lock:
            for name, value in more.items():
                self._sums[name] += value
            for name in self._buckets.keys() & more:
                self._buckets[name][bisect_left(BOUNDS[name], more[name])] += 1
        if self._store is not None:
            self._store.add(more)

    @property
    def metrics(self) -> SearchMetrics:
        """The sums so far."""
        with self._lock:
            values: dict[str, Any] = dict(self._sums)
            for name, counts in self._buckets.items():
                values[name] = Histogram(BOUNDS[name], tuple(counts), values[name])
        return SearchMetrics(**values)


class DirectoryCounter(SearchCounter):
    """Counts the searches over an open store. A file keeps the sums of all processes that opened the store for writing.

    Args:
        directory: Directory of the store; None: the store is in memory, and there is no file.
        read_only: Never write the file.
    """

    def __init__(self, directory: Path | None, *, read_only: bool) -> None:
        super().__init__()
        self._path = None if directory is None else directory / FILE
        self._read_only = read_only
        self._earlier = self.metrics
        """Counts that the file held when the store was opened for writing; 0 if it is open read-only."""
        self._saved = self.metrics
        """Counts of this object at the last write of the file."""
        self._saved_at = time.monotonic()
        if self._path is not None and not read_only:
            self._earlier = _read(self._path) or self._earlier

    def totals(self) -> SearchMetrics | None:
        """The counts of all processes that opened the store for writing; None: the file cannot be read.

        If the store is open read-only, they are the counts in the file; else the counts of this object are included.
        """
        if self._path is not None and self._read_only:
            return _read(self._path)
        return self._earlier + self.metrics

    def save(self, *, always: bool) -> None:
        """Write the file if searches were counted since the last write.

        Unless `always`, the file is written at most once in `SECONDS`. If writing fails, a warning is logged. The file
        is not synced: if the machine crashes, the counts may be lost.
        """
        due = always or time.monotonic() >= self._saved_at + SECONDS
        counted = self.metrics
        if self._path is None or self._read_only or not due or counted == self._saved:
            return
        unfinished = self._path.with_name(f"{FILE}.new")
        self._saved_at = time.monotonic()
        try:
            unfinished.write_text(json.dumps({"version": VERSION, **asdict(self._earlier + counted)}))
            unfinished.replace(self._path)
            self._saved = counted
        except OSError as error:
            log.warning("%s was not written (%s); the searches of this process may be missing in it", self._path, error)


def _read(path: Path) -> SearchMetrics | None:
    """The counts in a file, all 0 if there is none; None, with a warning, if it cannot be read."""
    zeros = SearchCounter().metrics
    try:
        saved = json.loads(path.read_bytes())
        if saved["version"] != VERSION:
            raise ValueError(f"it has format version {saved['version']!r:.20}; this umi reads {VERSION}")
        values = {each.name: saved[each.name] for each in fields(SearchMetrics)}
        for name, bounds in BOUNDS.items():
            values[name] = Histogram(bounds, tuple(values[name]["counts"]), values[name]["total"])
        return zeros + SearchMetrics(**values)  # the sum raises if a value is no number or a bucket is missing
    except FileNotFoundError:
        return zeros
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("%s cannot be read (%s: %s); its counts are left out", path, type(error).__name__, error)
        return None
