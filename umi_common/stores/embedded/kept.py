"""A cache of values by ledger number: chunks last read, terms of texts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """LRU cache of values by ledger number. Thread-safe.

    Args:
        size: Largest number of values.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[int, Value] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, seqs: Sequence[int]) -> tuple[dict[int, Value], list[int]]:
        """The cached values, and the numbers of the others without repeats."""
        found: dict[int, Value] = {}
        missing: dict[int, None] = {}
        values = self._values
        with self._lock:
            for seq in seqs:
                value = values.get(seq)
                if value is None:
                    missing[seq] = None
                else:
                    values.move_to_end(seq)
                    found[seq] = value
        return found, list(missing)

    def keep(self, read: Mapping[int, Value]) -> None:
        """Add values; the least recently used ones beyond `size` are dropped."""
        values = self._values
        with self._lock:
            values.update(read)
            while len(values) > self._size:
                values.popitem(last=False)
