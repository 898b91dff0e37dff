"""The lexical index on disk: `lexical/<n>/`, written whole beside the old one, then named by `lexical/current`.

Disposable: whatever is wrong with it, the index is built again from the ledger.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from umi_common.pool import Ints
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.file import sync_directory
from umi_common.stores.ledger.history import Mark
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import PostingsIndex
from umi_common.stores.rows.rows import Mask

log = logging.getLogger(__name__)

FOLDER = "lexical"
MANIFEST = "manifest.json"
ROWS = "rows.npy"
POSTINGS = "postings"
DEAD_SHARE_MAX = 0.5
"""Above this share of dead rows a snapshot is not used, so that rows are numbered afresh."""


@dataclass(frozen=True, slots=True)
class Saved:
    """An index and the rows it speaks of."""

    mark: Mark
    seqs: Ints
    """(n,) ledger number of each row."""
    alive: Mask
    """(n,) rows the postings hold."""
    sources: list[str]
    """Names by code."""
    postings: PostingsIndex


def save(directory: Path, saved: Saved, analyzer: Analyzer) -> None:
    """Write a snapshot and make it the current one; the one before is removed.

    Raises:
        OSError: If the disk refuses; the old snapshot stays.
    """
    home = directory / FOLDER
    home.mkdir(exist_ok=True)
    old = _generations(home)
    target = home / f"{max(old, default=0) + 1:08d}"
    unfinished = home / f"{target.name}.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    saved.postings.save(unfinished / POSTINGS)
    failpoint("snapshot.files")
    rows = np.stack([saved.seqs, saved.alive.astype(np.int64)])
    np.save(unfinished / ROWS, rows, allow_pickle=False)
    body = {
        "mark": list(saved.mark),
        "analyzer": analyzer.fingerprint,
        "rows": zlib.crc32(rows.tobytes()),
        "sources": saved.sources,
    }
    text = json.dumps(body, ensure_ascii=False)
    (unfinished / MANIFEST).write_text(json.dumps({"check": zlib.crc32(text.encode()), "body": text}), encoding="utf-8")
    for path in unfinished.rglob("*"):
        _sync(path)
    failpoint("snapshot.publish")
    unfinished.replace(target)
    sync_directory(home)
    failpoint("snapshot.published")
    for number in old:
        shutil.rmtree(home / f"{number:08d}", ignore_errors=True)


def load(directory: Path | None, analyzer: Analyzer, ledger: Ledger, connection: sqlite3.Connection) -> Saved | None:
    """The newest usable snapshot of this ledger as `connection` sees it; None: build the index anew."""
    home = None if directory is None else directory / FOLDER
    if home is None or not home.is_dir():
        return None
    for number in sorted(_generations(home), reverse=True):
        try:
            saved = _read(home / f"{number:08d}", analyzer)
        except Exception as error:  # noqa: BLE001 damaged in any way: it can be made again
            log.warning("lexical snapshot %d cannot be used (%s); building it from the ledger", number, error)
            continue
        if saved is not None and _usable(saved) and ledger.descends_from(connection, saved.mark):
            return saved
    return None


def drop(directory: Path) -> None:
    """Forget every snapshot."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)


def _read(path: Path, analyzer: Analyzer) -> Saved | None:
    wrapper = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    if zlib.crc32(wrapper["body"].encode()) != wrapper["check"]:
        raise ValueError("its manifest fails its checksum")
    body = json.loads(wrapper["body"])
    if body["analyzer"] != analyzer.fingerprint:
        return None
    rows = np.load(path / ROWS, allow_pickle=False)
    if zlib.crc32(rows.tobytes()) != body["rows"]:
        raise ValueError("its rows fail their checksum")
    postings = PostingsIndex.load(path / POSTINGS, analyzer)
    return Saved(Mark(*body["mark"]), rows[0], rows[1].astype(np.bool_), body["sources"], postings)


def _usable(saved: Saved) -> bool:
    return bool(saved.alive.sum() >= (1 - DEAD_SHARE_MAX) * len(saved.alive))


def _generations(home: Path) -> list[int]:
    return [int(path.name) for path in home.iterdir() if path.name.isdigit() and path.is_dir()]


def _sync(path: Path) -> None:
    if path.is_file():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
