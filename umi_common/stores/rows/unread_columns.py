"""The metadata of rows while no filter has asked for it: columns as they were saved, and the JSON of later rows.

They become `MetadataColumns` at the first filter, or for the next save. Until then, they take less memory, and a write
does not read the values of the saved columns.
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
"""Name in `Saved.facts` of the keys. A key without arrays has values, but no column."""
KEYS = "metadata keys"
"""The earlier name of COLUMNS; under this name, each key has a column."""
KEYS_MAX = 64
"""Largest number of keys. If there are more, no column is saved. A column takes 1 to 4 bytes a row in the file, and 4
to 8 in memory."""
BYTES_A_ROW_MAX = 256
"""Largest size of all columns together, in bytes for each living row. If they are larger, because of long texts in the
metadata, the largest are left out, and the first filter on one of their keys reads all from the ledger. Otherwise they
would slow down each save, which writes them, and each opening, which reads them to compute their checksum."""

Arrays = Mapping[str, npt.NDArray[Any]]


class UnreadColumns:
    """The metadata of rows 0..n-1, n growing. One writer at a time.

    Args:
        mark: State of the ledger at which the columns were saved. They may lack chunks that were removed before.
        keys, arrays: What `MetadataColumns.saved` returned.
        rows: Number of rows of the saved columns.
    """

    def __init__(self, mark: Mark, keys: Sequence[str] = (), arrays: Arrays | None = None, rows: int = 0) -> None:
        self.mark = mark
        self._saved = (keys, arrays or {}, rows)
        self._later: list[tuple[Ints, Sequence[str]]] = []
        self.later = 0
        """Number of rows that were added after the columns were saved."""

    def add(self, rows: Ints, metadata: Sequence[str]) -> None:
        """Append new rows; metadata[i], in JSON, belongs to rows[i]."""
        self._later.append((rows, metadata))
        self.later += len(rows)

    def read(self) -> MetadataColumns | None:
        """The columns of all rows; None if there are more keys than KEYS_MAX."""
        columns = MetadataColumns.restored(*self._saved)
        for rows, texts in list(self._later):
            metadatas = json.loads(f"[{','.join(texts)}]")  # takes a third of the time of `decode_metadata` of each
            if len(columns.keys | set().union(*metadatas)) > KEYS_MAX:
                return None
            columns.add(rows.tolist(), metadatas)
        return columns


def to_save(columns: MetadataColumns | None, alive: Mask) -> tuple[list[str], Arrays] | None:
    """What `MetadataColumns.saved` returns, without the arrays of the largest columns if all are larger than
    BYTES_A_ROW_MAX; None: there are no columns, or more than KEYS_MAX."""
    if columns is None or len(columns.keys) > KEYS_MAX:
        return None
    keys, arrays = columns.saved(alive)
    names = [(f"codes {at}", f"values {at}") for at in range(len(columns.left_out), len(keys))]
    largest_last = sorted(names, key=lambda pair: arrays[pair[0]].nbytes + arrays[pair[1]].nbytes)
    while sum(array.nbytes for array in arrays.values()) > BYTES_A_ROW_MAX * np.count_nonzero(alive):
        for name in largest_last.pop():
            del arrays[name]
    return keys, arrays
