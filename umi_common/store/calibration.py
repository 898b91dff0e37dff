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
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.store.rows import Growing, Rows

BACKGROUND_SAMPLE = 1_024
"""Chunks whose cosines make a background: those with the smallest checksum of the id."""
WEIGHT_TERMS_MAX = 30
"""A chunk weighs as many terms as it has, up to this: "mm-hm" says nothing about the order."""
LAGS = (1, 2)
SOURCE_CHUNKS_MAX = 1_024
SAMPLE_CHUNKS_MAX = 8_192
"""First chunks of a source, and chunks in all, that are looked at; the numbers are settled long before."""
EPSILON = 1e-12


class Background(NamedTuple):
    """The usual cosines of V queries."""

    mean: Floats
    """(V,)"""
    deviation: Floats
    """(V,)"""
    chunks: int
    """How many were looked at."""


class Sums(NamedTuple):
    """What one source adds."""

    chunks: int
    total: Floats
    """(dim,) sum of its vectors."""
    squares: float
    """Sum of squared weighted deviations from its weighted mean."""
    weights_squared: float
    alike: Floats
    """(lags,) products of deviations, less chance."""
    both: Floats
    """(lags,) products of weights."""
    pairs: int


class Calibration:
    """The numbers of one store, remembered by moment and by source. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checksums: Growing[np.uint32] = Growing(np.uint32)
        self._sample: tuple[Rows | None, Ints] = (None, np.zeros(0, dtype=np.int64))
        self._sums: dict[int, tuple[bytes, Sums]] = {}
        self._numbers: tuple[Rows | None, Mapping[str, float]] = (None, {})

    def background(self, rows: Rows, vectors: Vectors, queries: Vectors) -> Background:
        """Of V unit queries (V, dim) over a sample of the living chunks of one moment."""
        with self._lock:
            if self._sample[0] is not rows:
                self._sample = (rows, self._drawn(rows))
            drawn = self._sample[1]
        if not len(drawn):
            return Background(np.zeros(len(queries)), np.zeros(len(queries)), 0)
        among = vectors[drawn]
        cosines = np.stack([np.einsum("ij,j->i", among, query) for query in queries]).astype(np.float64)
        return Background(cosines.mean(axis=1), cosines.std(axis=1), len(drawn))

    def numbers(self, rows: Rows, vectors: Vectors, lengths: Ints, sources: Sequence[str]) -> Mapping[str, float]:
        """succession, succession_pairs, unity, unity_chunks, company; empty where no source has two chunks.

        Args:
            rows: One moment.
            vectors: (n, dim) unit rows; rows of zeros are left out.
            lengths: (n,) terms.
            sources: Names by code.
        """
        with self._lock:
            if self._numbers[0] is not rows:
                self._numbers = (rows, self._measured(rows, vectors, lengths, sources))
            return self._numbers[1]

    def _drawn(self, rows: Rows) -> Ints:
        new = rows.ids[len(self._checksums.view) : len(rows)]
        self._checksums.extend(np.fromiter((crc32(id.encode()) for id in new), dtype=np.uint32, count=len(new)))
        living = np.flatnonzero(rows.alive)
        checksums = self._checksums.view[living]
        if len(living) > BACKGROUND_SAMPLE:
            cut = np.partition(checksums, BACKGROUND_SAMPLE - 1)[BACKGROUND_SAMPLE - 1]
            living = living[checksums <= cut]
            checksums = self._checksums.view[living]
        ordered = living[np.argsort(checksums, kind="stable")]
        if (np.diff(np.sort(checksums)) == 0).any():
            by_id = sorted(living.tolist(), key=lambda row: (self._checksums.view[row], rows.ids[row]))
            ordered = np.array(by_id, dtype=np.int64)
        return ordered[:BACKGROUND_SAMPLE]

    def _measured(self, rows: Rows, vectors: Vectors, lengths: Ints, sources: Sequence[str]) -> Mapping[str, float]:
        ordered = rows.succession
        codes = rows.source[ordered]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        sizes = np.diff(np.append(starts, len(codes)))
        in_company = int(sizes[sizes > 1].sum())
        if not in_company:
            return {}
        found: list[Sums] = []
        seen = 0
        several = np.flatnonzero(sizes > 1).tolist()
        names = {at: sources[codes[starts[at]]] for at in several}
        for at in sorted(several, key=lambda at: (crc32(names[at].encode()), names[at])):
            if seen >= SAMPLE_CHUNKS_MAX:
                break
            mine = ordered[starts[at] : starts[at] + min(int(sizes[at]), SOURCE_CHUNKS_MAX)]
            found.append(self._sums_of(int(codes[starts[at]]), mine, rows.place[mine], vectors, lengths))
            seen += len(mine)
        return {**_succession(found), **_unity(found), "company": in_company / len(codes)}

    def _sums_of(self, code: int, mine: Ints, places: Ints, vectors: Vectors, lengths: Ints) -> Sums:
        key = mine.tobytes()  # rows never change what they hold
        known = self._sums.get(code)
        if known is None or known[0] != key:
            own = vectors[mine].astype(np.float64)
            present = own.any(axis=1)
            weights = np.clip(lengths[mine][present], 1, WEIGHT_TERMS_MAX).astype(np.float64)
            known = self._sums[code] = (key, _sums(own[present], places[present], weights))
        return known[1]


def _sums(vectors: Floats, places: Ints, weights: Floats) -> Sums:
    chunks = len(vectors)
    if chunks < 2:
        return Sums(0, np.zeros(vectors.shape[1]), 0.0, 0.0, np.zeros(len(LAGS)), np.zeros(len(LAGS)), 0)
    heavy = weights.sum()
    away = (vectors - weights @ vectors / heavy) * weights[:, np.newaxis]
    squares = float(np.einsum("ij,ij->", away, away))
    weights_squared = float(weights @ weights)
    # Weighted deviations from a mean sum to 0, which fixes what chance gives.
    chance = -squares / max(heavy**2 - weights_squared, EPSILON)
    alike, both, pairs = np.zeros(len(LAGS)), np.zeros(len(LAGS)), 0
    for at, lag in enumerate(LAGS):
        first = np.flatnonzero(places[lag:] - places[:-lag] == lag)
        products = weights[first] * weights[first + lag]
        both[at] = products.sum()
        alike[at] = np.einsum("ij,ij->", away[first], away[first + lag]) - chance * both[at]
        pairs += len(first)
    return Sums(chunks, vectors.sum(axis=0), squares, weights_squared, alike, both, pairs)


def _succession(found: Sequence[Sums]) -> dict[str, float]:
    weights_squared = sum(part.weights_squared for part in found)
    scale = sum(part.squares for part in found) / max(weights_squared, EPSILON)
    alike, both = sum(part.alike for part in found), sum(part.both for part in found)
    per_lag = np.where(both > 0, alike / np.maximum(both, EPSILON), 0.0) / max(scale, EPSILON)
    return {
        "succession": float(np.sum(per_lag)) if scale > EPSILON else 0.0,
        "succession_pairs": float(sum(part.pairs for part in found)),
    }


def _unity(found: Sequence[Sums]) -> dict[str, float]:
    """1 - (variance within sources) / (variance over all), of unit vectors; one source is no evidence."""
    parts = [part for part in found if part.chunks]
    chunks = sum(part.chunks for part in parts)
    if len(parts) < 2:
        return {"unity": 0.0, "unity_chunks": 0.0}
    whole = np.sum([part.total for part in parts], axis=0)
    spread = (chunks - float(whole @ whole) / chunks) / (chunks - 1)
    within = sum(part.chunks - float(part.total @ part.total) / part.chunks for part in parts)
    freedom = chunks - len(parts)
    unity = 1.0 - within / freedom / spread if spread > EPSILON else 0.0
    return {"unity": unity, "unity_chunks": float(freedom)}
