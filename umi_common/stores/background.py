"""Mean and deviation of a query's cosines over a sample of the corpus that depends on the living chunks alone."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.stores.growing import Growing
from umi_common.stores.rows.rows import Rows

SAMPLE_SIZE = 1_024
"""Chunks in the sample: the living chunks with the smallest (CRC-32 of the id, id)."""


class CosineBackground(NamedTuple):
    """Mean and standard deviation of the cosines of V queries over a sample of the corpus."""

    mean: Floats
    """(V,)"""
    deviation: Floats
    """(V,)"""
    chunks: int
    """Size of the sample."""


class Sample:
    """The sample of the last snapshot asked for. Not thread-safe."""

    def __init__(self) -> None:
        self._checksums: Growing[np.uint32] = Growing(np.uint32)
        self._rows: Rows | None = None
        self._drawn: Ints = np.zeros(0, dtype=np.int64)
        self._vectors: Vectors | None = None

    def vectors(self, rows: Rows, vectors: Vectors) -> Vectors:
        """(at most SAMPLE_SIZE, dim) vectors of the sampled rows."""
        drawn = self.draw(rows)
        if self._vectors is None:
            self._vectors = vectors[drawn]
        return self._vectors

    def draw(self, rows: Rows) -> Ints:
        """The sampled rows of a snapshot, in the order of the sample."""
        if self._rows is rows:
            return self._drawn
        drawn = self._smallest(rows, np.flatnonzero(rows.alive))
        if not np.array_equal(drawn, self._drawn):
            self._drawn, self._vectors = drawn, None
        self._rows = rows
        return drawn

    def _compute_checksums(self, rows: Rows) -> None:
        new = rows.ids[len(self._checksums.view) : len(rows)]
        self._checksums.extend(np.fromiter((crc32(id.encode()) for id in new), dtype=np.uint32, count=len(new)))

    def _smallest(self, rows: Rows, among: Ints) -> Ints:
        self._compute_checksums(rows)
        checksums = self._checksums.view[among]
        if len(among) > SAMPLE_SIZE:
            cut = np.partition(checksums, SAMPLE_SIZE - 1)[SAMPLE_SIZE - 1]
            among = among[checksums <= cut]
            checksums = self._checksums.view[among]
        order = np.argsort(checksums, kind="stable")
        if (np.diff(checksums[order]) == 0).any():
            ties = sorted(among.tolist(), key=lambda row: (self._checksums.view[row], rows.ids[row]))
            return np.array(ties[:SAMPLE_SIZE], dtype=np.int64)
        return among[order][:SAMPLE_SIZE]


def cosine_background(cosines: Vectors) -> CosineBackground:
    """The background of V queries from their cosines (V, n) with the n sampled chunks."""
    count = cosines.shape[1]
    if not count:
        return CosineBackground(np.zeros(len(cosines)), np.zeros(len(cosines)), 0)
    usual = cosines.astype(np.float64, order="C")
    mean = usual.sum(axis=1) / count
    usual -= mean[:, np.newaxis]
    return CosineBackground(mean, np.sqrt(np.einsum("ij,ij->i", usual, usual) / count), count)
