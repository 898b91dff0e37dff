"""Copies of a store and the ways to restore them; another store with as many rows; damage to files."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedule import TENANTS, WORDS

from umi_common import HybridStore
from umi_common.types import Chunk

LEDGER = ("umi.db", "umi.db-wal")
TWIN_VERSIONS = 100_000
"""Versions in a twin are counted from here, so that none is one of the store's."""


def back_up_ledger(store: Path, target: Path) -> None:
    """Copy `umi.db` of a store in use with SQLite's backup, as docs/operate.md describes."""
    target.mkdir(parents=True)
    with closing(sqlite3.connect(store / "umi.db")) as live, closing(sqlite3.connect(target / "umi.db")) as copy:
        live.backup(copy)


def put_back(copy: Path, store: Path, how: str) -> None:
    """Restore a copy into the folder of a closed store."""
    if how == "in place of the folder":
        shutil.rmtree(store)
        shutil.copytree(copy, store, ignore=shutil.ignore_patterns("*-shm"))
        return
    for leftover in ("umi.db-wal", "umi.db-shm"):
        (store / leftover).unlink(missing_ok=True)
    if how == "over the files":
        shutil.copytree(copy, store, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*-shm"))
        return
    for name in (*LEDGER, "umi.mark") if how == "umi.db and umi.mark" else LEDGER:
        if (copy / name).exists():
            shutil.copyfile(copy / name, store / name)
    if how == "umi.db and umi.mark" and not (copy / "umi.mark").exists():
        (store / "umi.mark").unlink(missing_ok=True)


@dataclass(frozen=True)
class Twin:
    """Another store, with as many rows ever written as the first."""

    path: Path
    content: Mapping[str, Chunk]


def make_twin(store: Path, path: Path, embedder: Any) -> Twin:
    """A closed store of other chunks, with as many rows ever written and as many ever removed."""
    with closing(sqlite3.connect(store / "umi.db")) as connection:
        last = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    written, removed = last.get("chunks", 0), last.get("deletions", 0)
    chunks = [
        Chunk(
            f"c{number}",
            f"{WORDS[number % 6]} {WORDS[number // 6 % 6]} v{TWIN_VERSIONS + number}v",
            metadata={"user": TENANTS[number % 2], "turn": number},
            source="s",
            position=number,
        )
        for number in range(written)
    ]
    with HybridStore.open(path, embedder=embedder) as twin:
        if chunks:
            twin.add(chunks)
        if removed:
            twin.delete([chunk.id for chunk in chunks[:removed]])
    return Twin(path, {chunk.id: chunk for chunk in chunks[removed:]})


def scribble(store: Path, what: str, seed: int) -> None:
    """Flip a bit of a file of an index or of the mark, cut the file, or delete it."""
    dice = random.Random(seed)
    files = sorted(file for file in store.rglob("*") if file.is_file() and what in file.relative_to(store).parts)
    if not files:
        return
    file = dice.choice(files)
    data = bytearray(file.read_bytes())
    how = dice.choice(("flip", "cut", "delete"))
    if how == "delete":
        file.unlink()
        return
    if how == "cut":
        data = data[: dice.randint(0, len(data))]
    elif data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    file.write_bytes(data)
