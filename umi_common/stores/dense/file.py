"""Vectors and their codes on disk: `dense/<name>` and `dense/<name>.codes`, row by row, opened by memory map.

Both files only grow: a save appends the rows that they lack. The saved lexical index, which is written afterwards,
names them and states their rows and checksums; what lies behind these rows is free room. So a save that was interrupted
leaves the rows of the one before, and files that do not fit cost time only: vectors are then read from the ledger.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from umi_common.pool import Vectors
from umi_common.stores.dense.int8 import Int8Codes
from umi_common.stores.growing import Growing

FOLDER = "dense"
SUFFIXES = ("", ".codes")
SAVED_FROM = 10_000
"""Rows from which vectors are saved beside the ledger; fewer are read from it in less than 0.1 s."""
_WORDS = 8_192
_BLOCK = 8 * _WORDS
Sums = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SavedVectors:
    """The rows that two files hold."""

    name: str
    rows: int
    dim: int
    sums: tuple[Sums, Sums]
    """Checksums of the vectors' bytes and of the codes', see `_sums`."""


def append_rows(directory: Path, before: SavedVectors | None, vectors: Vectors, codes: Int8Codes) -> SavedVectors:
    """Append what `before` lacks of (n, dim) vectors and codes to its files; None: make new files.

    Raises:
        OSError: If the disk refuses; the rows of `before` stay.
    """
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    name, known = (secrets.token_hex(8), 0) if before is None else (before.name, before.rows)
    sums, parts = [], (vectors, codes)
    for place, suffix in enumerate(SUFFIXES):
        rows: npt.NDArray[Any] = parts[place]
        new, start = _bytes_of(rows[known:]), known * rows.strides[0]
        added = _sums(new, start)
        sums.append(added if before is None else before.sums[place] + added)
        with (folder / f"{name}{suffix}").open("wb" if before is None else "r+b") as file:
            file.seek(start)
            file.write(new.data)
            room = (len(rows) + len(rows) // 4) * rows.strides[0]
            file.truncate(max(file.seek(0, 2), room))  # never shorter: other processes map it
    return SavedVectors(name, len(vectors), vectors.shape[1], (sums[0], sums[1]))


def map_rows(
    directory: Path, saved: SavedVectors, *, checked: bool = True
) -> tuple[Growing[np.float32], Growing[np.int8]]:
    """Maps of the vectors and codes.

    Args:
        checked: Compare the checksums, which reads both files once.

    Raises:
        OSError, ValueError: If they are not what was saved.
    """
    folder = directory / FOLDER
    with (folder / saved.name).open("rb") as floats, (folder / f"{saved.name}{SUFFIXES[1]}").open("rb") as bytes_:
        vectors = _mapped(floats, np.float32, saved, saved.sums[0] if checked else None)
        return vectors, _mapped(bytes_, np.int8, saved, saved.sums[1] if checked else None)


def remove_others(directory: Path, name: str) -> None:
    """Remove all files but those of this name, where the system lets them go."""
    for path in (directory / FOLDER).iterdir():
        if path.stem != name:
            with suppress(OSError):
                path.unlink()


def _mapped(file: BinaryIO, dtype: Any, saved: SavedVectors, sums: Sums | None) -> Growing[Any]:
    rows = Growing.mapped(file, dtype, saved.dim, saved.rows)
    data = _bytes_of(rows.view)
    whole = len(data) // _BLOCK * _BLOCK
    if sums is not None and not np.array_equal(_sums(data[:whole], 0) + _sums(data[whole:], whole), sums):
        raise ValueError("its content fails its checksum")
    return rows


def _bytes_of(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)


def _sums(data: npt.NDArray[np.uint8], start: int) -> Sums:
    """(_WORDS,) sums modulo 2**64 of the 8-byte words of `data`, by their place in a block of the file.

    `data` begins at byte `start`. Sums of parts add up to those of the whole, and take a quarter of a CRC-32's time.
    """
    stop = start + len(data)
    if start % _BLOCK or stop % _BLOCK:
        data = np.pad(data, (start % _BLOCK, -stop % _BLOCK))
    sums: Sums = data.view("<u8").reshape(-1, _WORDS).sum(axis=0, dtype=np.uint64)
    return sums
