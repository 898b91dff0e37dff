"""Rows of something larger, taken when they are looked at: of hundreds of candidates, ranking looks at a few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


class TakenIds(Sequence[str]):
    """ids[row] for each of the rows, equal to a tuple of the same.

    Args:
        ids: Only ever appended to.
        rows: (n,)
    """

    __slots__ = ("_ids", "_rows")

    def __init__(self, ids: Sequence[str], rows: Rows) -> None:
        self._ids, self._rows = ids, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(TakenIds(self._ids, self._rows[place]))
        return self._ids[int(self._rows[place])]

    def __iter__(self) -> Iterator[str]:
        return map(self._ids.__getitem__, self._rows.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, TakenIds)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def ids_at(ids: Sequence[str], rows: Rows) -> list[str]:
    """ids[row] for each of a few rows."""
    if isinstance(ids, TakenIds):
        return ids_at(ids._ids, ids._rows[rows])
    return [ids[row] for row in rows.tolist()]


class TakenRows:
    """matrix[rows], an array to NumPy and to whoever takes some of its rows.

    Args:
        matrix: (m, dim); its values never change.
        rows: (n,)
    """

    __slots__ = ("_matrix", "_rows")

    def __init__(self, matrix: npt.NDArray[np.float32], rows: Rows) -> None:
        self._matrix, self._rows = matrix, rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, dim)"""
        return len(self._rows), self._matrix.shape[1]

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """float32"""
        return self._matrix.dtype

    def __getitem__(self, which: Any) -> npt.NDArray[np.float32]:
        taken: npt.NDArray[np.float32] = self._matrix[self._rows[which]]
        return taken

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("rows of a larger array cannot be had without a copy")
        return self._matrix[self._rows].astype(self.dtype if dtype is None else dtype, copy=False)
