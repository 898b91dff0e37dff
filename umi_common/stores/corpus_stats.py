"""Statistics of a corpus that ranking uses. They depend on the chunks in the store, not on the order of writes.

Of a query, the background: mean and standard deviation of its cosines with a sample of the chunks.

Of the corpus, numbers that tell how much information positions and sources carry:

    autocorrelation      how much more similar chunks one or two places apart in their source are than any two of its
                         chunks: the lag-1 plus the lag-2 autocorrelation of the vectors around their source's mean,
                         less the value expected by chance. Lag 2 matters because speakers alternate. 0: positions carry
                         no information.
    icc                  intraclass correlation, the share of the vectors' variance that lies between sources. 0:
                         sources carry no information, 1: all chunks of a source have the same vector.
    shared_source_share  among the chunks with a source, the share whose source has several chunks.

`autocorrelation` and `icc` are computed from sums over each source. After a write, only the sums of the changed sources
are computed again. A row is alive until its chunk is removed or replaced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from umi_common.pool import NO_SOURCE, Background, Floats, Ints, Vectors
from umi_common.stores.arrays import Growing
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.rows.rows import MISSING, Mask, Rows

SAMPLE_SIZE = 1_024
"""Largest number of chunks in the sample: the stored chunks with the smallest (CRC-32 of the id, id)."""
WEIGHT_TERMS_MAX = 30
"""Largest weight of a chunk. The weight is its number of terms, since very short chunks tell little about the order."""
LAGS = (1, 2)
"""Distances, in places, between the chunks that `autocorrelation` compares."""
SOURCE_CHUNKS_MAX = 1_024
"""Largest number of chunks of one source from which the statistics are computed; more chunks hardly change them."""
SAMPLE_CHUNKS_MAX = 8_192
"""Sources are added to the statistics until they hold this many chunks together; further sources hardly change them."""
DIVISOR_MIN = 1e-12
"""Smallest divisor; a variance below it counts as 0."""
SUMS = 5 + 2 * len(LAGS)
"""Number of the sums of one source, apart from the sum of its vectors."""

Lengths = npt.NDArray[np.integer]
Checksums = npt.NDArray[np.uint32]
NO_CHECKSUMS: Checksums = np.zeros(0, dtype=np.uint32)


class SourceSums(NamedTuple):
    """The sums of one source, or of several sources together. As one array they are the fields in this order."""

    chunks: float
    """Number of chunks."""
    squares: float
    """Sum of the squared weighted deviations from the weighted mean."""
    weights_squared: float
    pairs: float
    """Number of pairs of chunks, of all lags."""
    within: float
    """Sum of the squared deviations from the unweighted mean."""
    products: Floats
    """By lag: sum of the products of the weighted deviations of a pair, less the value by chance."""
    weight_products: Floats
    """By lag: sum of the products of the weights of a pair."""
    total: Floats
    """(dim,) sum of the vectors."""

    @classmethod
    def of_array(cls, sums: Floats) -> SourceSums:
        """The sums in an array (SUMS + dim,)."""
        chunks, squares, weights_squared, pairs, within = sums[:5].tolist()
        products, weight_products = sums[5:SUMS].reshape(2, len(LAGS))
        return cls(chunks, squares, weights_squared, pairs, within, products, weight_products, sums[SUMS:])


class RowVectors(Protocol):
    """(n, dim) unit vectors, read by row: an array, or an object that reads them from a database."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: Ints, /) -> Vectors: ...


class Calibration:
    """Computes the statistics of one store, and caches them for the latest snapshot of its rows. Thread-safe.

    Args:
        checksums: CRC-32 of the ids of the first rows, as far as they are already computed.
    """

    def __init__(self, checksums: Checksums = NO_CHECKSUMS) -> None:
        self._lock = threading.Lock()
        self._rows: Rows | None = None
        """The snapshot that `_numbers` and `_sums` describe; None: they are not computed yet."""
        self._numbers: Mapping[str, float] = {}
        self._sums: dict[int, Floats] = {}
        """Code of each measured source -> its `SourceSums` as an array."""
        self._source_checksums: Growing[np.uint32] = Growing(np.uint32)
        """CRC-32 of the names of the first sources."""
        self._checksums: Growing[np.uint32] = Growing.copied(checksums)
        """CRC-32 of the ids of the first rows."""
        self._drawn_from: Rows | None = None
        """The snapshot that the sample describes; None: no sample was drawn yet."""
        self._drawn: Ints = np.zeros(0, dtype=np.int64)
        """The sampled rows of `_drawn_from`, by rising (CRC-32 of the id, id)."""
        self._sample: Vectors | None = None
        """The vectors of the sampled rows; None: not needed yet."""

    def numbers(
        self, rows: Rows, vectors: RowVectors, lengths: Callable[[], Lengths], sources: Sequence[str]
    ) -> Mapping[str, float]:
        """The statistics of the corpus by name; empty if no chunk has a source.

        The names are "autocorrelation", "icc" and "shared_source_share", which the module's docstring explains,
        "autocorrelation_pairs" (number of pairs of chunks that "autocorrelation" compares) and "icc_chunks" (degrees of
        freedom of "icc"). If no source has two chunks with a position, only "shared_source_share" is given.

        Args:
            vectors: (n, dim) unit rows; rows of zeros are left out.
            lengths: Returns (n,), the number of terms of each row; called once for a snapshot.
            sources: sources[code] is the name of a source.
        """
        with self._lock:
            if self._rows is not rows:
                self._numbers = self._measured(rows, vectors, lengths(), sources)
                self._rows = rows
            return self._numbers

    def _measured(
        self, rows: Rows, vectors: RowVectors, lengths: Lengths, sources: Sequence[str]
    ) -> Mapping[str, float]:
        sourced = rows.alive & (rows.source != NO_SOURCE)
        if not sourced.any():
            return {}
        chunks = np.bincount(rows.source[sourced])
        shared = {"shared_source_share": float(chunks[chunks > 1].sum() / chunks.sum())}
        sizes = np.bincount(rows.source[sourced & (rows.position != MISSING)])  # by source, its chunks with a position
        if sizes.max(initial=0) < 2:
            return shared
        self._sum_up(self._choose(sizes, sources), sizes, rows, vectors, lengths)
        return {**_numbers_of(list(self._sums.values())), **shared}

    def _choose(self, sizes: Ints, sources: Sequence[str]) -> list[int]:
        """Codes of the sources from which the statistics are computed: those with several chunks, by rising (CRC-32 of
        the name, name), until they hold SAMPLE_CHUNKS_MAX chunks together."""
        checksums = _extended(self._source_checksums, sources, len(sizes))
        several = _smallest(sizes > 1, SAMPLE_CHUNKS_MAX // 2, checksums, sources)
        counted = np.minimum(sizes[several], SOURCE_CHUNKS_MAX)
        before = np.cumsum(counted) - counted  # of each source, the chunks of the sources before it
        chosen: list[int] = several[before < SAMPLE_CHUNKS_MAX].tolist()
        return chosen

    def _sum_up(self, chosen: list[int], sizes: Ints, rows: Rows, vectors: RowVectors, lengths: Lengths) -> None:
        """Set `_sums` to the sums of the chosen sources in this snapshot."""
        known, self._sums = self._sums, {}  # if a step below fails, no source counts as measured
        for code in _touched(self._rows, rows):
            known.pop(code, None)
        if missing := [code for code in chosen if code not in known]:
            codes = rows.source[rows.source_order]
            for code, first in zip(missing, codes.searchsorted(missing).tolist(), strict=True):
                mine = rows.source_order[first : first + min(int(sizes[code]), SOURCE_CHUNKS_MAX)]
                known[code] = _sums_of(mine, rows.index_in_source[mine], vectors, lengths)
        self._sums = {code: known[code] for code in chosen}

    def background(
        self, rows: Rows, vectors: RowVectors, queries: Vectors, all_cosines: Vectors | None = None
    ) -> Background:
        """Mean and standard deviation of the cosines of V queries with a sample of the living rows.

        Args:
            vectors: (n, dim) unit rows.
            queries: (V, dim) unit rows.
            all_cosines: (V, n) cosines of the queries with all rows; None: they are not known.
        """
        with self._lock:
            if self._drawn_from is not rows:
                # The SAMPLE_SIZE living rows with the smallest checksums.
                checksums = _extended(self._checksums, rows.ids, len(rows))
                drawn = _smallest(rows.alive, SAMPLE_SIZE, checksums, rows.ids)
                if not np.array_equal(drawn, self._drawn):
                    self._drawn, self._sample = drawn, None
                self._drawn_from = rows
            if all_cosines is not None:
                return cosine_background(all_cosines[:, self._drawn])
            if self._sample is None:
                self._sample = vectors[self._drawn]
            sample = self._sample
        return cosine_background(cosines(sample, queries))

    @classmethod
    def restored(cls, rows: Rows, saved: Mapping[str, npt.NDArray[Any]]) -> Calibration:
        """A calibration from the arrays that `saved` returned. It reuses the sums of sources that have not changed.

        Args:
            rows: A snapshot that holds the rows of the snapshot that was saved, and perhaps later rows.
        """
        made = cls(saved["id checksums"])
        drawn, chosen, alive = saved["drawn"], saved["chosen"], saved["alive then"]
        made._drawn = drawn
        made._sample = saved["sample"].reshape(len(drawn), saved["sample"].size // max(len(drawn), 1))
        if len(chosen):
            sums = np.hstack([saved[name].reshape(len(chosen), -1) for name in ("sums", "totals")])
            made._sums, made._rows = dict(zip(chosen.tolist(), sums, strict=True)), rows.earlier(alive)
        return made

    def saved(self, rows: Rows) -> dict[str, npt.NDArray[Any]]:
        """One-dimensional arrays for `restored`: the checksums of `rows`, and the sample and sums last computed."""
        with self._lock:
            sums = self._sums.values()
            arrays: dict[str, npt.NDArray[Any]] = {
                "id checksums": _extended(self._checksums, rows.ids, len(rows)),
                "drawn": self._drawn[:0] if self._sample is None else self._drawn,
                "sample": np.zeros(0, np.float32) if self._sample is None else self._sample,
                "chosen": np.array(list(self._sums), np.int64),
                "sums": np.array([each[:SUMS] for each in sums]),
                "totals": np.array([each[SUMS:] for each in sums]),
                "alive then": rows.alive[:0] if self._rows is None else self._rows.alive,
            }
            return {name: array.ravel() for name, array in arrays.items()}


def cosine_background(cosines: Vectors) -> Background:
    """The background of V queries from their cosines (V, n) with the n sampled chunks."""
    count = cosines.shape[1]
    if not count:
        return Background(np.zeros(len(cosines)), np.zeros(len(cosines)), 0)
    deviations = cosines.astype(np.float64, order="C")
    mean = deviations.sum(axis=1) / count
    deviations -= mean[:, np.newaxis]
    return Background(mean, np.sqrt(np.einsum("ij,ij->i", deviations, deviations) / count), count)


def _extended(checksums: Growing[np.uint32], names: Sequence[str], count: int) -> Checksums:
    """(count,) CRC-32 of the first names; those that `checksums` lacks are appended to it."""
    new = names[len(checksums.view) : count]
    checksums.extend(np.fromiter((crc32(name.encode()) for name in new), dtype=np.uint32, count=len(new)))
    return checksums.view[:count]


def _smallest(among: Mask, count: int, checksums: Checksums, names: Sequence[str]) -> Ints:
    """At most `count` of the indices where the mask is True: those with the smallest (checksum, name), rising."""
    # Checksums are spread evenly: about twice `count` of them are at most this limit.
    limit = int(min(2 * count / max(int(among.sum()), 1), 1.0) * (2**32 - 1))
    indices = np.flatnonzero(among & (checksums <= limit))
    if len(indices) < count:
        indices = np.flatnonzero(among)
    indices = indices[np.argsort(checksums[indices], kind="stable")]
    if (np.diff(checksums[indices]) == 0).any():
        ordered = sorted(indices.tolist(), key=lambda index: (checksums[index], names[index]))
        indices = np.array(ordered, dtype=np.int64)
    return indices[:count]


def _touched(before: Rows | None, now: Rows) -> frozenset[int]:
    """Codes of the sources whose chunks differ between two snapshots; `before` may be the later one."""
    if before is None:
        return frozenset()
    shared = min(len(before), len(now))
    longer = before if len(before) > len(now) else now
    changed = np.flatnonzero(before.alive[:shared] != now.alive[:shared])
    return frozenset(longer.source[changed].tolist()) | frozenset(longer.source[shared:].tolist())


def _sums_of(mine: Ints, indices: Ints, vectors: RowVectors, lengths: Lengths) -> Floats:
    """(SUMS + dim,) the `SourceSums` of one source; zeros if fewer than two of its vectors are not zero.

    Args:
        mine: The rows of the source, by position.
        indices: Index of each row in its source, aligned with `mine`.
    """
    own = vectors[mine].astype(np.float64)
    present = own.any(axis=1)
    own, indices, chunks = own[present], indices[present], int(np.count_nonzero(present))
    if chunks < 2:
        return np.zeros(SUMS + vectors.shape[1])
    weights = np.clip(lengths[mine][present], 1, WEIGHT_TERMS_MAX).astype(np.float64)
    total_weight = weights.sum()
    weights_squared = float(weights @ weights)
    deviations = (own - weights @ own / total_weight) * weights[:, np.newaxis]
    squares = float(np.einsum("ij,ij->", deviations, deviations))
    # Weighted deviations from a mean sum to 0, which determines the product expected by chance.
    chance = -squares / max(total_weight**2 - weights_squared, DIVISOR_MIN)
    pairs, products, weight_products = 0, [], []
    for lag in LAGS:
        first = np.flatnonzero(indices[lag:] - indices[:-lag] == lag)
        weight_product = (weights[first] * weights[first + lag]).sum()
        product = np.einsum("ij,ij->", deviations[first], deviations[first + lag])
        pairs += len(first)
        products.append(product - chance * weight_product)
        weight_products.append(weight_product)
    total = own.sum(axis=0)
    within = chunks - float(total @ total) / chunks
    by_lag = np.array(products), np.array(weight_products)
    return np.hstack(SourceSums(chunks, squares, weights_squared, pairs, within, *by_lag, total))


def _numbers_of(sums: Sequence[Floats]) -> dict[str, float]:
    """`autocorrelation` and its number of pairs; `icc`, 1 - (variance within sources) / (total variance), and its
    degrees of freedom, both 0 for a single source; from the sums of each source."""
    whole, sources = SourceSums.of_array(np.array(sums).sum(axis=0)), sum(bool(each[0]) for each in sums)
    scale, weights = whole.squares / max(whole.weights_squared, DIVISOR_MIN), whole.weight_products
    per_lag = np.where(weights > 0, whole.products / np.maximum(weights, DIVISOR_MIN), 0.0) / max(scale, DIVISOR_MIN)
    autocorrelation = float(np.sum(per_lag)) if scale > DIVISOR_MIN else 0.0
    icc = freedom = 0.0
    if sources > 1:
        chunks, freedom = whole.chunks, whole.chunks - sources
        spread = (chunks - float(whole.total @ whole.total) / chunks) / (chunks - 1)
        icc = 1.0 - whole.within / freedom / spread if spread > DIVISOR_MIN else 0.0
    return {"autocorrelation": autocorrelation, "autocorrelation_pairs": whole.pairs, "icc": icc, "icc_chunks": freedom}
