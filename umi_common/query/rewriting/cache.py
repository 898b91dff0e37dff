"""A cache of the LLM's variations: the least recently used entry is evicted; optionally kept on disk."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections import OrderedDict
from errno import ENOENT
from itertools import starmap
from pathlib import Path

from umi_common.runtime.forks import give_lock
from umi_common.types import inode_of, utf8_text

log = logging.getLogger("umi")

FILE_NAME = "rewrites.jsonl"
FILE_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is not read."""
COMPACT_AT = 4
"""The file is rewritten when it has more than this many times the lines of a full cache."""

Variations = tuple[str, ...]


class RewriteCache:
    """The LLM's variations of queries, by model and prompt. Thread-safe.

    Args:
        size: Largest number of entries; 0: nothing is cached.
        directory: Where `rewrites.jsonl` is kept; None: memory only. A file that cannot be read, and damaged lines,
            are skipped with a warning. If the directory is deleted, renamed or replaced later, memory only.
        writable: False: the file is read and never written.

    Keys are stored as SHA-256, so the file holds the variations of queries, but not the queries.
    """

    _lock: threading.Lock

    def __init__(self, size: int, directory: str | Path | None = None, *, writable: bool = True) -> None:
        self._size = size
        give_lock(self)
        self._entries: OrderedDict[str, Variations] = OrderedDict()
        self._path = None if directory is None else Path(directory).absolute() / FILE_NAME
        self._directory_inode = None if self._path is None else inode_of(self._path.parent)
        self._writable = writable
        self._lines_on_disk = 0
        if self._path is not None and size:
            self._load(self._path)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, model: str, prompt: str) -> Variations | None:
        """The cached variations of this prompt, or None; counts as a use."""
        key = _key(model, prompt)
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, model: str, prompt: str, variations: Variations) -> None:
        """Cache variations, in memory and, where there is a directory, on disk."""
        if not self._size:
            return
        key = _key(model, prompt)
        with self._lock:
            self._put_in_memory(key, variations)
            if self._path is not None and self._writable:
                self._append(self._path, key, variations)

    def _put_in_memory(self, key: str, variations: Variations) -> None:
        self._entries[key] = variations
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def _append(self, path: Path, key: str, variations: Variations) -> None:
        try:
            if self._directory_inode is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._directory_inode = inode_of(path.parent)
            elif inode_of(path.parent) != self._directory_inode:
                raise FileNotFoundError(ENOENT, "its directory was deleted, renamed or replaced")
            # One write to an append-only descriptor, so lines of two processes do not mix.
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, _line(key, variations).encode())
            finally:
                os.close(descriptor)
            self._lines_on_disk += 1
            if self._lines_on_disk > COMPACT_AT * self._size:
                self._compact(path)
        except OSError as error:
            log.warning("rewrite cache %s cannot be written (%s); kept in memory only", path, error.strerror)
            self._path = None

    def _load(self, path: Path) -> None:
        try:
            if not path.exists():
                return
            if path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError(f"it is larger than {FILE_BYTES_MAX} bytes")
            lines = path.read_bytes().splitlines()
        except (OSError, ValueError) as error:
            log.warning("rewrite cache %s is ignored: %s", path, error)
            return
        damaged = 0
        for entry in map(_entry, lines):
            if entry is None:
                damaged += 1
            else:
                self._put_in_memory(*entry)
        if damaged:
            log.warning("rewrite cache %s: %d damaged lines ignored", path, damaged)
        self._lines_on_disk = len(lines)
        if self._writable and (damaged or self._lines_on_disk > COMPACT_AT * self._size):
            self._compact(path)

    def _compact(self, path: Path) -> None:
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            temporary.write_text("".join(starmap(_line, self._entries.items())), encoding="utf-8")
            temporary.chmod(0o600)
            temporary.replace(path)
            self._lines_on_disk = len(self._entries)
        except OSError as error:
            log.warning("rewrite cache %s cannot be compacted: %s", path, error.strerror)


def _key(model: str, prompt: str) -> str:
    return hashlib.sha256(f"{model}\0{prompt}".encode("utf-8", "surrogatepass")).hexdigest()


def _line(key: str, variations: Variations) -> str:
    return json.dumps({"key": key, "variations": variations}) + "\n"


def _entry(line: bytes) -> tuple[str, Variations] | None:
    """Key and variations of a line; None: it is damaged."""
    try:
        record = json.loads(line)
        key, variations = record["key"], record["variations"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(key, str) or not isinstance(variations, list):
        return None
    if not all(isinstance(text, str) and text and text == utf8_text(text) for text in variations):
        return None
    return key, tuple(variations)
