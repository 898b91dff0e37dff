"""What a corpus tells about itself without labels, for ranking to lean on; of its content alone, not its history.

Of a query, the background: mean and deviation of its cosines over a sample of the corpus, "nothing special".

Of the corpus, whether positions and sources mean anything here:

    succession   how much more alike chunks one and two apart are than any two of their source: the lag-1 plus the
                 lag-2 autocorrelation of the vectors around their source's mean, less what chance gives. Lag 2
                 matters because speakers alternate. 0: positions carry nothing.
    unity        the share of the vectors' variance that lies between sources (intra-class correlation).
                 0: sources carry nothing, 1: all chunks of a source say the same.
    company      the share of chunks whose source has more than one.

All are sums over sources, so a write costs the sums of the sources that it touched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

import numpy as np

from umi_common.pool import NO_SOURCE, Floats, Ints, Vectors
from umi_common.stores.background import Background, Sample, background_of
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.rows.rows import MISSING, Rows

WEIGHT_TERMS_MAX = 30
"""A chunk weighs as many terms as it has, up to this: "mm-hm" says nothing about the order."""
LAGS = (1, 2)
SOURCE_CHUNKS_MAX = 1_024
SAMPLE_CHUNKS_MAX = 8_192
"""First chunks of a source, and chunks in all, that are looked at; the numbers are settled long before."""
EPSILON = 1e-12
CHUNKS, SQUARES, WEIGHTS_SQUARED, PAIRS, WITHIN = range(5)
ALIKE, BOTH = slice(5, 5 + len(LAGS)), slice(5 + len(LAGS), 5 + 2 * len(LAGS))
COLUMNS = BOTH.stop
"""What one source adds, as a row of numbers: chunks, the sum of squared weighted deviations from its weighted mean, the
sum of squared weights, pairs, the squared deviations from its plain mean; by lag the products of deviations, less
chance, and the products of weights."""


class Calibration:
    """The numbers of one store, remembered by moment and by source. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sample = Sample()
        self._rows: Rows | None = None
        self._numbers: Mapping[str, float] = {}
        self._order: list[tuple[int, str, int]] = []
        self._codes: Ints = np.zeros(0, dtype=np.int64)
        self._chosen: list[int] = []
        self._sums = np.zeros((0, COLUMNS))
        self._totals = np.zeros((0, 0))

    def background(self, rows: Rows, vectors: Vectors, queries: Vectors, every: Vectors | None = None) -> Background:
        """Of V unit queries (V, dim) over a sample of the living chunks of one moment; `every`: their cosines with all
        rows (V, n), where they are known.
        """
        if every is None:
            with self._lock:
                among = self._sample.vectors(rows, vectors)
            return background_of(cosines(among, queries))
        with self._lock:
            drawn = self._sample.draw(rows)
        return background_of(every[:, drawn])

    def numbers(
        self, rows: Rows, vectors: Vectors, lengths: Callable[[], Ints], sources: Sequence[str]
    ) -> Mapping[str, float]:
        """succession, succession_pairs, unity, unity_chunks, company; empty where no source has two chunks.

        Args:
            rows: One moment.
            vectors: (n, dim) unit rows; rows of zeros are left out.
            lengths: Gives (n,) terms; asked once a moment.
            sources: Names by code.
        """
        with self._lock:
            if self._rows is not rows:
                self._numbers = self._measured(rows, vectors, lengths(), sources)
                self._rows = rows
            return self._numbers

    def _measured(self, rows: Rows, vectors: Vectors, lengths: Ints, sources: Sequence[str]) -> Mapping[str, float]:
        placed = rows.source[rows.alive & (rows.source != NO_SOURCE) & (rows.position != MISSING)]
        # A writer may add sources meanwhile; this moment knows those of this line.
        sizes = np.bincount(placed, minlength=max(len(sources), len(self._order)))
        in_company = int(sizes[sizes > 1].sum())
        if not in_company:
            return {}
        self._sum_up(self._choose(sizes, sources), sizes, rows, vectors, lengths)
        return {
            **_succession(self._sums),
            **_unity(self._sums, self._totals),
            "company": in_company / len(placed),
        }

    def _choose(self, sizes: Ints, sources: Sequence[str]) -> list[int]:
        """Codes of the sources that are looked at, by (checksum, name), until there are chunks enough."""
        if len(sizes) > len(self._order):
            new = range(len(self._order), len(sizes))
            self._order += [(crc32(sources[code].encode()), sources[code], code) for code in new]
            self._order.sort()
            self._codes = np.array([code for _, _, code in self._order], dtype=np.int64)
        several = self._codes[sizes[self._codes] > 1]
        looked_at = np.minimum(sizes[several], SOURCE_CHUNKS_MAX)
        chosen: list[int] = several[np.cumsum(looked_at) - looked_at < SAMPLE_CHUNKS_MAX].tolist()
        return chosen

    def _sum_up(self, chosen: list[int], sizes: Ints, rows: Rows, vectors: Vectors, lengths: Ints) -> None:
        """Bring the rows of `_sums` and `_totals` to the chosen sources of this moment."""
        touched = _touched(self._rows, rows)
        before, self._chosen = self._chosen, []  # whatever fails below, nothing half-done is taken for known
        if chosen != before:
            known = {code: at for at, code in enumerate(before)}
            touched |= set(chosen) - known.keys()
            old = [known.get(code, -1) for code in chosen]
            if not before:
                self._sums, self._totals = np.zeros((0, COLUMNS)), np.zeros((0, vectors.shape[1]))
            # The last row, for those that are new, is overwritten below.
            self._sums = np.append(self._sums, np.zeros((1, COLUMNS)), axis=0)[old]
            self._totals = np.append(self._totals, np.zeros((1, vectors.shape[1])), axis=0)[old]
        stale = [at for at, code in enumerate(chosen) if code in touched]
        if stale:
            ordered = rows.succession
            codes = rows.source[ordered]
        for at in stale:
            first = int(codes.searchsorted(chosen[at]))
            mine = ordered[first : first + min(int(sizes[chosen[at]]), SOURCE_CHUNKS_MAX)]
            self._sums[at], self._totals[at] = _sums_of(mine, rows.place[mine], vectors, lengths)
        self._chosen = chosen


def _touched(before: Rows | None, now: Rows) -> frozenset[int]:
    """Codes of the sources that have other chunks than in the moment `before`, which may be the later one."""
    if before is None:
        return frozenset()
    shared = min(len(before), len(now))
    longer = before if len(before) > len(now) else now
    changed = np.flatnonzero(before.alive[:shared] != now.alive[:shared])
    return frozenset(longer.source[changed].tolist()) | frozenset(longer.source[shared:].tolist())


def _sums_of(mine: Ints, places: Ints, vectors: Vectors, lengths: Ints) -> tuple[Floats, Floats]:
    """What one source adds: its row of numbers, and the sum of its vectors."""
    own = vectors[mine].astype(np.float64)
    present = own.any(axis=1)
    own, places = own[present], places[present]
    sums, chunks = np.zeros(COLUMNS), len(own)
    if chunks < 2:
        return sums, np.zeros(vectors.shape[1])
    weights = np.clip(lengths[mine][present], 1, WEIGHT_TERMS_MAX).astype(np.float64)
    heavy = weights.sum()
    away = (own - weights @ own / heavy) * weights[:, np.newaxis]
    squares = float(np.einsum("ij,ij->", away, away))
    weights_squared = float(weights @ weights)
    # Weighted deviations from a mean sum to 0, which fixes what chance gives.
    chance = -squares / max(heavy**2 - weights_squared, EPSILON)
    alike, both, pairs = np.zeros(len(LAGS)), np.zeros(len(LAGS)), 0
    for at, lag in enumerate(LAGS):
        first = np.flatnonzero(places[lag:] - places[:-lag] == lag)
        both[at] = (weights[first] * weights[first + lag]).sum()
        alike[at] = np.einsum("ij,ij->", away[first], away[first + lag]) - chance * both[at]
        pairs += len(first)
    total = own.sum(axis=0)
    sums[: ALIKE.start] = chunks, squares, weights_squared, pairs, chunks - float(total @ total) / chunks
    sums[ALIKE], sums[BOTH] = alike, both
    return sums, total


def _succession(sums: Floats) -> dict[str, float]:
    whole = sums.sum(axis=0)
    scale = whole[SQUARES] / max(whole[WEIGHTS_SQUARED], EPSILON)
    both = whole[BOTH]
    per_lag = np.where(both > 0, whole[ALIKE] / np.maximum(both, EPSILON), 0.0) / max(scale, EPSILON)
    return {
        "succession": float(np.sum(per_lag)) if scale > EPSILON else 0.0,
        "succession_pairs": float(whole[PAIRS]),
    }


def _unity(sums: Floats, totals: Floats) -> dict[str, float]:
    """1 - (variance within sources) / (variance over all), of unit vectors; one source is no evidence."""
    parts = int(np.count_nonzero(sums[:, CHUNKS]))
    if parts < 2:
        return {"unity": 0.0, "unity_chunks": 0.0}
    whole = totals.sum(axis=0)
    chunks, within = sums.sum(axis=0)[[CHUNKS, WITHIN]]
    spread = (chunks - float(whole @ whole) / chunks) / (chunks - 1)
    freedom = chunks - parts
    unity = 1.0 - within / freedom / spread if spread > EPSILON else 0.0
    return {"unity": float(unity), "unity_chunks": float(freedom)}
