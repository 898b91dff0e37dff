"""The metadata of rows before the first filter: the columns as they were saved, and the JSON of later rows.

`MetadataColumns` are made of them at the first filter, and for a save. Unread, they take less memory, and a write does
not read the values of the saved columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.pool import Ints
from umi_common.stores.ledger.history import Mark
from umi_common.stores.rows.metadata import MetadataColumns
from umi_common.stores.rows.rows import Mask

COLUMNS = "metadata columns"
"""Name in `Saved.facts` of the list of keys. The column of a key without arrays was left out (BYTES_A_ROW_MAX)."""
KEYS = "metadata keys"
"""The name in earlier versions, which left out no column."""
KEYS_MAX = 64
"""Largest number of keys. If there are more, no column is saved. A column takes 1 to 4 bytes a row in the file, and 4
to 8 in memory."""
BYTES_A_ROW_MAX = 256
"""Largest size of all saved columns, in bytes for each living row. Above it, the largest are left out, and the first
filter on one of their keys reads all columns from the ledger. Large columns would slow down each save, which writes
them, and each opening, which computes their checksum."""

Arrays = Mapping[str, npt.NDArray[Any]]


class UnreadColumns:
    """The metadata of rows 0..n-1, to which later rows are added. One writer at a time.

    Args:
        mark: State of the ledger at which the columns were saved. They may lack chunks that were removed before.
        keys, arrays: The result of `MetadataColumns.saved`; nothing if no columns were saved.
        rows: Number of rows of the saved columns.
    """

    def __init__(self, mark: Mark, keys: Sequence[str] = (), arrays: Arrays | None = None, rows: int = 0) -> None:
        self.mark = mark
        self._saved = (keys, arrays or {}, rows)
        self._added: list[tuple[Ints, Sequence[str]]] = []
        self.later = 0
        """Number of rows that were added after the columns were saved."""

    def add(self, rows: Ints, metadata: Sequence[str]) -> None:
        """Append new rows; metadata[i], in JSON, belongs to rows[i]."""
        self._added.append((rows, metadata))
        self.later += len(rows)

    def read(self) -> MetadataColumns | None:
        """The columns of all rows; None if there are more keys than KEYS_MAX."""
        columns = MetadataColumns.restored(*self._saved)
        for rows, texts in list(self._added):  # a copy: a write may append meanwhile
            metadatas = json.loads(f"[{','.join(texts)}]")  # takes a third of the time of `decode_metadata` of each
            if len(columns.keys | set().union(*metadatas)) > KEYS_MAX:
                return None
            columns.add(rows.tolist(), metadatas)
        return columns


def to_save(columns: MetadataColumns | None, alive: Mask) -> tuple[list[str], Arrays] | None:
    """The result of `MetadataColumns.saved`, without the arrays of the largest columns if all exceed BYTES_A_ROW_MAX.
    None: there are no columns, or more than KEYS_MAX."""
    if columns is None or len(columns.keys) > KEYS_MAX:
        return None
    keys, arrays = columns.saved(alive)
    pairs = [(f"codes {at}", f"values {at}") for at in range(len(columns.left_out), len(keys))]
    largest_last = sorted(pairs, key=lambda pair: sum(arrays[name].nbytes for name in pair))
    while sum(array.nbytes for array in arrays.values()) > BYTES_A_ROW_MAX * np.count_nonzero(alive):
        for name in largest_last.pop():
            del arrays[name]
    return keys, arrays
