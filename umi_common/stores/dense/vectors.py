"""The vectors of a store by row, with their codes, in memory or in `dense/<name>` and `dense/<name>.codes`.

Both files are read by memory map and only grow: a save appends the rows that they lack. Then the lexical index is
saved, with the name of the files, their number of rows and their checksums. Bytes after these rows are ignored, so
after an interrupted save the rows of the previous save are still valid. If the files fail their checksums, the vectors
are read from the ledger, which is slower.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.pool import Vectors
from umi_common.stores.arrays import Growing
from umi_common.stores.dense.cosines import Int8Codes, QuantisedRows
from umi_common.stores.rows.rows import Mask

FOLDER = "dense"
SUFFIXES = ("", ".codes")
SAVED_FROM = 10_000
"""Smallest number of rows that are saved in files; fewer rows are read from the ledger in less than 0.1 s."""
_WORDS = 8_192
"""Number of checksums of a file; checksum i sums the words of 8 bytes i, i + 8,192, i + 16,384, ..."""
_BLOCK = 8 * _WORDS
"""Number of bytes that hold one word for each checksum."""
VECTORS = "vectors"
"""Key of the saved facts under which `VectorRows.save` puts [name of the two files, number of rows, dimension]."""
Sums = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SavedVectors:
    """Name, shape and checksums of the rows that the two files hold."""

    name: str
    rows: int
    dim: int
    sums: tuple[Sums, Sums]
    """Checksums of the file of vectors and of the file of codes, from `_sums`."""


class VectorRows:
    """A growing array of vectors, each of length 1 or zeros. One writer at a time; earlier views stay valid."""

    def __init__(
        self, vectors: Growing[np.float32], present: Mask, quantised: QuantisedRows, saved: SavedVectors | None
    ) -> None:
        self.quantised = quantised
        self._vectors = vectors
        self._present = Growing.copied(present)
        """(n,) whether each vector is not zeros."""
        self._saved = saved
        """The files that hold the first rows; None: there are none."""

    @classmethod
    def of(cls, vectors: Vectors) -> VectorRows:
        """The rows of a matrix (n, dim)."""
        present = np.asarray(vectors.any(axis=1), dtype=np.bool_)
        return cls(Growing.holding(vectors), present, QuantisedRows(Growing(np.int8, vectors.shape[1])), None)

    @classmethod
    def restored(cls, directory: Path, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> VectorRows:
        """The rows that were saved with these facts and arrays, mapped into memory.

        Raises:
            OSError, ValueError: If the files are missing or are not what was saved.
        """
        name, rows, dim = facts[VECTORS]
        saved = SavedVectors(name, rows, dim, (arrays["vector sums"], arrays["code sums"]))
        vectors, codes = _map_rows(directory, saved)
        both: tuple[npt.NDArray[Any], ...] = (vectors.view, codes.view)
        for stored, sums in zip(both, saved.sums, strict=True):
            if not np.array_equal(_sums(_bytes_of(stored), 0), sums):
                raise ValueError("the saved vectors or their codes do not have their checksums")
        return cls(vectors, arrays["present"], QuantisedRows(codes, arrays["steps"], arrays["errors"]), saved)

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
        if len(vectors) < SAVED_FROM:
            return None
        codes = self.quantised.of(vectors)
        saved = _append_rows(directory, self._saved, vectors, codes.codes)
        facts[VECTORS] = [saved.name, saved.rows, saved.dim]
        arrays |= {"steps": codes.steps, "errors": codes.errors, "present": self._present.view}
        arrays |= {"vector sums": saved.sums[0], "code sums": saved.sums[1]}
        return saved

    def remove_unsaved(self, directory: Path) -> None:
        """Remove all files but those of the last save: files of an interrupted save, or of an earlier `VectorRows`."""
        remove_others(directory, self._saved)

    def use_saved(self, directory: Path, saved: SavedVectors | None) -> None:
        """From now on, read the rows from the files of a save. Its facts and arrays must have been saved.

        Args:
            saved: Result of `save`; None: it saved nothing, and the rows stay in memory.

        Raises:
            OSError, ValueError: If the files cannot be mapped; the rows stay in memory.
        """
        self._saved = saved
        if saved is not None:
            self._vectors, codes = _map_rows(directory, saved)  # the files have room for more rows
            self.quantised.continue_in(codes)


def _append_rows(directory: Path, before: SavedVectors | None, vectors: Vectors, codes: Int8Codes) -> SavedVectors:
    """Append the rows of (n, dim) vectors and codes that the files of `before` lack; `before` None: create new files.

    Raises:
        OSError: If the files cannot be written; the rows of `before` stay valid.
    """
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    name, known = (secrets.token_hex(8), 0) if before is None else (before.name, before.rows)
    sums: list[Sums] = []
    arrays: tuple[npt.NDArray[Any], ...] = (vectors, codes)
    for index, (suffix, rows) in enumerate(zip(SUFFIXES, arrays, strict=True)):
        new, start = _bytes_of(rows[known:]), known * rows.strides[0]
        added = _sums(new, start)
        sums.append(added if before is None else before.sums[index] + added)
        with (folder / f"{name}{suffix}").open("wb" if before is None else "r+b") as file:
            file.seek(start)
            file.write(new.data)
            room = (len(rows) + len(rows) // 4) * rows.strides[0]
            file.truncate(max(file.seek(0, 2), room))  # never shorter than before: other processes map the file
    return SavedVectors(name, len(vectors), vectors.shape[1], (sums[0], sums[1]))


def _map_rows(directory: Path, saved: SavedVectors) -> tuple[Growing[np.float32], Growing[np.int8]]:
    """Memory maps of the vectors and of the codes. Raises OSError or ValueError if a file is missing or too short."""
    folder = directory / FOLDER
    with (folder / saved.name).open("rb") as floats, (folder / f"{saved.name}{SUFFIXES[1]}").open("rb") as codes:
        shape = saved.dim, saved.rows
        return Growing.mapped(floats, np.float32, *shape), Growing.mapped(codes, np.int8, *shape)


def remove_others(directory: Path, saved: SavedVectors | None) -> None:
    """Remove all files of vectors and codes but those of `saved`. On Windows, a file that a process maps stays."""
    for path in (directory / FOLDER).glob("*"):
        if saved is None or path.stem != saved.name:
            with suppress(OSError):
                path.unlink()


def _bytes_of(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)


def _sums(data: npt.NDArray[np.uint8], start: int) -> Sums:
    """(_WORDS,) checksums of a part of a file, see _WORDS: sums modulo 2**64 of words of 8 bytes.

    The checksums of two adjacent parts add up to the checksums of the whole, so rows can be appended without reading
    the file. They take a quarter of the time of a CRC-32.

    Args:
        data: The bytes of the part.
        start: Position of the first byte in the file.
    """
    sums: Sums = np.zeros(_WORDS, dtype=np.uint64)
    first = -start % _BLOCK  # where the first whole block begins
    last = first + max(0, len(data) - first) // _BLOCK * _BLOCK
    for part in (data[:first], data[first:last], data[last:]):
        stop = start + len(part)
        if start % _BLOCK or stop % _BLOCK:  # not for the whole blocks, which would be copied
            part = np.pad(part, (start % _BLOCK, -stop % _BLOCK))
        sums += part.view("<u8").reshape(-1, _WORDS).sum(axis=0, dtype=np.uint64)
        start = stop
    return sums
