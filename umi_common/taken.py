"""A lazy view of some rows of a matrix: of hundreds of candidates, ranking reads the vectors of a few."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class TakenRows:
    """Lazy view of `matrix[rows]`. NumPy functions take it as an array; an index copies only the indexed rows.

    Args:
        matrix: (m, dim); its values never change.
        rows: (n,)
    """

    __slots__ = ("_matrix", "_rows")

    def __init__(self, matrix: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> None:
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
