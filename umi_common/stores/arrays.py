"""Tools for numpy arrays: distinct values, the best of many scores, and an array that grows while it is read."""

from __future__ import annotations

import heapq
import math
import mmap
from collections.abc import Callable
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from umi_common.pool import Floats, Ints

FloatArray = npt.NDArray[np.floating[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)
IdOf = Callable[[int], str]
STRIPES = 16
"""Number of scores in a group. `at_most_kth` selects the k-th largest among the largest scores of all groups."""
ROWS_FIRST = 256
"""Number of rows that a new `Growing` array has room for; a full array at least doubles its room."""


def distinct(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The distinct values, rising. Used in place of `np.unique`, whose first call imports numpy.ma in 30 ms or more."""
    ordered = np.sort(values, axis=None)
    return ordered[beginnings(ordered)]


def beginnings(values: npt.NDArray[np.generic]) -> Ints:
    """Index of the first value of each run of equal values."""
    new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new.nonzero()[0]


def kth(scores: FloatArray, k: int, default: float = 0.0) -> float:
    """The k-th largest score; `default` if there are fewer than k scores."""
    if len(scores) < k:
        return default
    parted, index = scores.copy(), len(scores) - k
    parted.partition(index)
    return float(parted[index])


def at_most_kth(scores: FloatArray, k: int, default: float = 0.0) -> float:
    """A lower bound of `kth`, usually close to it: each of k groups holds a score of at least this. For many scores it
    takes a tenth of the time of `kth`."""
    if len(scores) < k * STRIPES:
        return kth(scores, k, default)
    return kth(scores[: len(scores) // STRIPES * STRIPES].reshape(STRIPES, -1).max(axis=0), k)


def best_rows(rows: Ints, scores: Floats, k: int, id_of: IdOf, *, above: float = -math.inf) -> tuple[Ints, Floats]:
    """At most k rows with the best scores above `above`, and their scores; best first, ties by the smaller id.

    Args:
        rows: (n,) distinct rows.
        scores: (n,), aligned with `rows`.
        id_of: Returns the id of a row.
    """
    keep = ((scores >= at_most_kth(scores, k, -math.inf)) & (scores > above)).nonzero()[0]
    rows, scores = rows.take(keep), scores.take(keep)
    order = (-scores).argsort()
    ranked, falling = rows.take(order), scores.take(order)
    starts = beginnings(falling)
    if len(starts) < len(falling):  # some scores are equal
        numbers, stops = ranked.tolist(), np.append(starts[1:], len(falling))
        several = (stops - starts > 1) & (starts < k)
        for start, stop in zip(starts[several].tolist(), stops[several].tolist(), strict=True):
            # At most k rows stay in all: the list gets shorter after its first k items.
            numbers[start:stop] = heapq.nsmallest(k - start, numbers[start:stop], key=id_of)
        ranked = np.array(numbers, np.int64)
    return ranked[:k], falling[:k]


class Growing(Generic[Scalar]):
    """An array that grows at its end. Earlier views stay valid and keep their values. One writer at a time.

    Args:
        width: Number of values in a row; None: the array has one dimension.
        room: Number of rows that fit before the array is copied to a larger one.
    """

    def __init__(self, dtype: type[Scalar], width: int | None = None, room: int = ROWS_FIRST) -> None:
        shape = (room,) if width is None else (room, width)
        self._array: npt.NDArray[Scalar] = np.zeros(shape, dtype=dtype)
        self._size = 0

    @classmethod
    def holding(cls, values: npt.NDArray[Scalar]) -> Growing[Scalar]:
        """An array that starts with these values: it reads them in place, and copies them before it grows."""
        growing = cls(values.dtype.type)
        growing._array, growing._size = values, len(values)
        return growing

    @classmethod
    def copied(cls, values: npt.NDArray[Scalar]) -> Growing[Scalar]:
        """An array that starts with a copy of these values, and has room for a quarter more."""
        growing = cls(values.dtype.type, room=len(values) + len(values) // 4 + ROWS_FIRST)
        growing.extend(values)
        return growing

    @classmethod
    def mapped(cls, file: BinaryIO, dtype: type[Scalar], width: int, size: int) -> Growing[Scalar]:
        """An array that starts with the first `size` rows of a file, mapped into memory; it never changes the file.

        Raises:
            ValueError: If the file has fewer rows.
        """
        whole = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
        row = width * np.dtype(dtype).itemsize
        if len(whole) < size * row:
            raise ValueError(f"{len(whole)} bytes hold no {size} rows of {row} bytes")
        growing = cls(dtype, room=0)
        growing._array = whole[: len(whole) // row * row].view(dtype).reshape(-1, width)
        growing._size = size
        return growing

    def after(self, size: int) -> Growing[Scalar]:
        """An array that starts with the first `size` rows of this one: this array itself if it has no more rows, else
        another array, which copies these rows before it grows."""
        return self if size == self._size else Growing.holding(self._array[:size])

    def extend(self, values: npt.ArrayLike) -> None:
        """Append values or rows."""
        new = np.asarray(values, dtype=self._array.dtype)
        size = self._size + len(new)
        if size > len(self._array):
            grown = np.zeros((max(size, 2 * len(self._array)), *self._array.shape[1:]), dtype=self._array.dtype)
            grown[: self._size] = self._array[: self._size]
            self._array = grown
        self._array[self._size : size] = new
        self._size = size

    @property
    def view(self) -> npt.NDArray[Scalar]:
        """The current values; must not be written to."""
        size = self._size  # read first: `extend` raises the size only after the array has room for it
        return self._array[:size]
