"""The vectors of a store by row, with their codes and their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.pool import Vectors
from umi_common.stores.arrays import Growing
from umi_common.stores.dense import file
from umi_common.stores.dense.file import SavedVectors
from umi_common.stores.dense.int8 import QuantisedRows
from umi_common.stores.rows.rows import Mask

VECTORS = "vectors"
"""Key of the saved facts under which `VectorRows.save` puts [name of the two files, number of rows, dimension]."""


class VectorRows:
    """A growing array of vectors, each of length 1 or zeros. One writer at a time; earlier views stay valid.

    Args:
        vectors: (n, dim) the first rows.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = Growing.holding(vectors)
        self._present = Growing(np.bool_)
        self._present.extend(vectors.any(axis=1))
        self.quantised = QuantisedRows(vectors.shape[1])
        self._saved: SavedVectors | None = None

    @classmethod
    def restored(cls, directory: Path, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> VectorRows:
        """The rows that were saved with these facts and arrays, mapped into memory.

        Raises:
            OSError, ValueError: If the files are missing or are not what was saved.
        """
        name, rows, dim = facts[VECTORS]
        restored = cls(np.zeros((0, dim), dtype=np.float32))
        restored._saved = SavedVectors(name, rows, dim, (arrays["vector sums"], arrays["code sums"]))
        restored._vectors, codes = file.map_rows(directory, restored._saved)
        restored.quantised = QuantisedRows.restored(codes, arrays["steps"], arrays["errors"])
        restored._present = Growing.copied(arrays["present"])
        return restored

    @property
    def view(self) -> Vectors:
        """(n, dim) the rows so far."""
        return self._vectors.view

    @property
    def present(self) -> Mask | None:
        """(n,) whether each row has a coordinate other than 0; None: every row has."""
        present = self._present.view
        return None if present.all() else present

    def extend(self, vectors: Vectors) -> None:
        """Append (m, dim) rows."""
        self._vectors.extend(vectors)
        self._present.extend(vectors.any(axis=1))

    def save(self, directory: Path, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> SavedVectors | None:
        """Save the rows, and add the values that `restored` reads to `facts` and `arrays`.

        Returns None, and saves nothing, if there are fewer than SAVED_FROM rows.

        Raises:
            OSError: If the files cannot be written; the rows of the last save stay valid.
        """
        vectors = self.view
        if len(vectors) < file.SAVED_FROM:
            return None
        codes = self.quantised.of(vectors)
        saved = file.append_rows(directory, self._saved, vectors, codes.codes)
        facts[VECTORS] = [saved.name, saved.rows, saved.dim]
        arrays |= {"steps": codes.steps, "errors": codes.errors, "present": self._present.view}
        arrays |= {"vector sums": saved.sums[0], "code sums": saved.sums[1]}
        return saved

    def remove_unsaved(self, directory: Path) -> None:
        """Remove the files of a failed or killed save, and the files of an earlier `VectorRows` of this store."""
        file.remove_others(directory, self._saved)

    def use_saved(self, directory: Path, saved: SavedVectors | None) -> None:
        """Read the rows from the files of this save from now on; its facts and arrays must be saved before.

        Args:
            saved: Result of `save`; None: it saved nothing, and the rows stay in memory.
        """
        if saved is not None:
            self._vectors, codes = file.map_rows(directory, saved, checked=False)  # the files have room for more rows
            self.quantised.continue_in(codes)
        self._saved = saved
