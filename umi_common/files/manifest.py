"""What a store holds of which file. A cache: where it is lost or behind, the ids are read from the store again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from umi_common.stores.embedded.hybrid import HybridStore

NAME = "umi.db-files.json"
"""Beside the ledger, under a name that the store knows for its own."""
FILE_KEY = "file"
"""Metadata of every chunk from a file: which."""
ROWS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as it was when it was indexed."""

    ids: tuple[str, ...]
    stamp: str = ""
    """Of the file as it was; see `reading.stamp_of`. "": not known, the file has to be read."""
    version: str = ""
    """Of the content; see `chunks.version_of`."""


class Manifest:
    """Entries by source. While a run changes the store, the file says so; a run that was killed is so found out."""

    def __init__(self, store: HybridStore) -> None:
        self._path = None if store.path is None else store.path / NAME
        entries = self._read()
        self.entries = _from_store(store) if entries is None else entries

    def save(self, *, settled: bool) -> None:
        """Write all entries in one step; `settled`: the store and the entries agree."""
        if self._path is not None:
            files = {source: asdict(entry) for source, entry in sorted(self.entries.items())}
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps({"settled": settled, "files": files}, ensure_ascii=False), encoding="utf-8")
            fresh.replace(self._path)

    def _read(self) -> dict[str, Entry] | None:
        """The entries; None where they are missing, damaged or behind."""
        if self._path is None:
            return None
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            files = {
                source: Entry(tuple(entry["ids"]), str(entry.get("stamp", "")), str(entry["version"]))
                for source, entry in kept["files"].items()
            }
            return files if kept["settled"] is True else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def _from_store(store: HybridStore) -> dict[str, Entry]:
    ids: dict[str, list[str]] = {}
    every = store.ids()
    for start in range(0, len(every), ROWS_AT_ONCE):
        for chunk in store.get(every[start : start + ROWS_AT_ONCE]):
            file = None if chunk is None else chunk.metadata.get(FILE_KEY)
            if chunk is not None and isinstance(file, str):
                ids.setdefault(file, []).append(chunk.id)
    return {source: Entry(tuple(found)) for source, found in ids.items()}
