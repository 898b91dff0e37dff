"""The usual cosines of a query: mean and deviation over a sample of the corpus that its content alone decides."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.stores.growing import Growing
from umi_common.stores.rows.rows import Rows

SAMPLE_SIZE = 1_024
"""Chunks in the sample: the living with the smallest (checksum of the id, id)."""


class Background(NamedTuple):
    """The usual cosines of V queries."""

    mean: Floats
    """(V,)"""
    deviation: Floats
    """(V,)"""
    chunks: int
    """How many were looked at."""


class Sample:
    """The sample of one moment, carried on from the one before. One caller at a time."""

    def __init__(self) -> None:
        self._checksums: Growing[np.uint32] = Growing(np.uint32)
        self._rows: Rows | None = None
        self._drawn: Ints = np.zeros(0, dtype=np.int64)
        self._vectors: Vectors | None = None

    def vectors(self, rows: Rows, vectors: Vectors) -> Vectors:
        """(at most SAMPLE_SIZE, dim) of one moment."""
        drawn = self.draw(rows)
        if self._vectors is None:
            self._vectors = vectors[drawn]
        return self._vectors

    def draw(self, rows: Rows) -> Ints:
        """The sampled rows of one moment, in the order of the sample."""
        if self._rows is rows:
            return self._drawn
        drawn = self._carried_on(rows)
        if drawn is None:
            drawn = self._smallest(rows, np.flatnonzero(rows.alive))
        if not np.array_equal(drawn, self._drawn):
            self._drawn, self._vectors = drawn, None
        self._rows = rows
        return drawn

    def _carried_on(self, rows: Rows) -> Ints | None:
        """What the last sample becomes where none of it was removed; None: draw afresh."""
        before, drawn = self._rows, self._drawn
        if before is None or len(rows) < len(before) or not rows.alive[drawn].all():
            return None
        if (rows.alive[: len(before)] & ~before.alive).any():
            return None  # an older moment: rows live in it that the last had lost
        self._note(rows)
        new = len(before) + np.flatnonzero(rows.alive[len(before) :])
        if len(drawn) == SAMPLE_SIZE:
            new = new[self._checksums.view[new] <= self._checksums.view[drawn[-1]]]
        return self._smallest(rows, np.concatenate([drawn, new])) if len(new) else drawn

    def _note(self, rows: Rows) -> None:
        new = rows.ids[len(self._checksums.view) : len(rows)]
        self._checksums.extend(np.fromiter((crc32(id.encode()) for id in new), dtype=np.uint32, count=len(new)))

    def _smallest(self, rows: Rows, among: Ints) -> Ints:
        self._note(rows)
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


def background_of(cosines: Vectors) -> Background:
    """Of V queries, from their cosines with the sample (V, n)."""
    count = cosines.shape[1]
    if not count:
        return Background(np.zeros(len(cosines)), np.zeros(len(cosines)), 0)
    usual = cosines.astype(np.float64, order="C")
    mean = usual.sum(axis=1) / count
    usual -= mean[:, np.newaxis]
    return Background(mean, np.sqrt(np.einsum("ij,ij->i", usual, usual) / count), count)
