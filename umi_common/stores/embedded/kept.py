"""The chunks last read, in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from umi_common.types import Chunk


class KeptChunks:
    """Chunks by ledger number; the longest unread go first. Thread-safe.

    Args:
        size: Most that stay.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._chunks: OrderedDict[int, Chunk] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, seqs: Sequence[int]) -> tuple[dict[int, Chunk], list[int]]:
        """Those that are here, and the numbers of the others, each once."""
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
        """Keep what was missing."""
        chunks = self._chunks
        with self._lock:
            chunks.update(read)
            while len(chunks) > self._size:
                chunks.popitem(last=False)
