"""Two tools for numpy arrays: distinct values, and an array that grows at its end while other threads read it."""

from __future__ import annotations

import mmap
from typing import BinaryIO, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)
ROWS_FIRST = 256
"""Capacity of a new array; doubled when full."""


def distinct(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The distinct values, rising. The first call of `np.unique` would import numpy.ma, 30 ms or more."""
    ordered = np.sort(values, axis=None)
    return ordered[beginnings(ordered)]


def beginnings(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """(n,) whether each value is the first of a run of equal ones."""
    new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


class Growing(Generic[Scalar]):
    """An array that grows at its end. Earlier views stay valid and keep their values. One writer at a time.

    Args:
        width: Values of a row; None: the array has one dimension.
        room: Rows that fit before the array is copied to a larger one.
    """

    def __init__(self, dtype: type[Scalar], width: int | None = None, room: int = ROWS_FIRST) -> None:
        shape = (room,) if width is None else (room, width)
        self._array: npt.NDArray[Scalar] = np.zeros(shape, dtype=dtype)
        self._size = 0

    @classmethod
    def holding(cls, values: npt.NDArray[Scalar]) -> Growing[Scalar]:
        """A growing array that starts with these values, which it never changes."""
        growing = cls(values.dtype.type)
        growing._array, growing._size = values, len(values)
        return growing

    @classmethod
    def copied(cls, values: npt.NDArray[Scalar]) -> Growing[Scalar]:
        """A copy of these values with room for a quarter more, so that the next write copies nothing."""
        growing = cls(values.dtype.type, room=len(values) + len(values) // 4 + ROWS_FIRST)
        growing.extend(values)
        return growing

    @classmethod
    def mapped(cls, file: BinaryIO, dtype: type[Scalar], width: int, size: int) -> Growing[Scalar]:
        """The first `size` rows of a file, mapped into memory; rows appended later are not written to the file.

        Raises:
            ValueError: If the file is shorter.
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
        """This array if its size is `size`; else a new one of its first `size` values, copied when it first grows."""
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
        size = self._size  # read first: the array is never shorter
        return self._array[:size]
