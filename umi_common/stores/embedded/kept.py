"""Cache of the chunks read last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from umi_common.types import Chunk


class KeptChunks:
    """LRU cache of chunks by ledger number. Thread-safe.

    Args:
        size: Largest number of chunks.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._chunks: OrderedDict[int, Chunk] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, seqs: Sequence[int]) -> tuple[dict[int, Chunk], list[int]]:
        """The cached chunks, and the numbers of the others without repeats."""
        found: dict[int, Chunk] = {}
        missing: dict[int, None] = {}
        chunks = self._chunks
        with self._lock:
            for seq in seqs:
                chunk = chunks.get(seq)
                if chunk is None:
                    missing[seq] = None
                else:
                    chunks.move_to_end(seq)
                    found[seq] = chunk
        return found, list(missing)

    def keep(self, read: Mapping[int, Chunk]) -> None:
        """Add chunks; the least recently used ones beyond `size` are dropped."""
        chunks = self._chunks
        with self._lock:
            chunks.update(read)
            while len(chunks) > self._size:
                chunks.popitem(last=False)
