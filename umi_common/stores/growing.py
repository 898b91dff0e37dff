"""An array that grows at its end while other threads read it."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)
ROWS_FIRST = 256
"""Capacity of a new array; doubled when full."""


class Growing(Generic[Scalar]):
    """An array that grows at its end. Earlier views stay valid and keep their values. One writer at a time."""

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

    def after(self, size: int) -> Growing[Scalar]:
        """This array if its size is `size`; else a copy of its first `size` values that grows by itself."""
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
