"""A cache of the LLM's variations, in memory, and if wanted in a file where later processes find them."""

from __future__ import annotations

import json
from pathlib import Path

from umi_common.embedders.cache import FileCache, MemoryCache

FILE_NAME = "rewrites.db"

Variations = tuple[str, ...]


class RewriteCache:
    """The LLM's variations of queries, by model and prompt. Thread-safe.

    Args:
        size: Largest number of entries, in memory and in the file; 0: nothing is cached.
        directory: The existing directory where `rewrites.db` is kept; None: memory only.
        writable: False: the file is read and never written.

    The file holds hashes of the prompts and, in plain text, the variations. Only its owner may read it.
    """

    def __init__(self, size: int, directory: str | Path | None = None, *, writable: bool = True) -> None:
        self._memory: MemoryCache[Variations] = MemoryCache(size, tuple)
        self._file: FileCache[Variations] | None = None
        if directory is not None:
            path = Path(directory).absolute() / FILE_NAME
            self._file = FileCache(path, "", size, _packed, _unpacked, writable=writable, private=True)

    def get(self, model: str, prompt: str) -> Variations | None:
        """The cached variations of this prompt, or None; counts as a use."""
        key = f"{model}\0{prompt}"
        found = self._memory.get([key])
        if not found and self._file is not None:
            found = self._file.get([key])
            self._memory.put(list(found), found.values())
        return found.get(key)

    def put(self, model: str, prompt: str, variations: Variations) -> None:
        """Cache variations, in memory and, where there is a directory, in the file."""
        for cache in (self._memory, self._file):
            if cache is not None:
                cache.put([f"{model}\0{prompt}"], [variations])


def _packed(variations: Variations) -> bytes:
    return json.dumps(variations).encode()


def _unpacked(stored: bytes) -> Variations:
    return tuple(json.loads(stored))
