"""A full disk: a typed error, the stored chunks are intact, and with room again writes succeed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from umi_common.errors import StoreFull, StoreLocked
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.ledger import sqlite as ledger_sqlite
from umi_common.stores.ledger.ledger import Ledger
from umi_common.types import Chunk

ROOT = Path(__file__).parents[2]
resource = pytest.importorskip("resource", reason="file-size limits are a Unix matter")

SCRIPT = """
import os, resource, sys
size = int(sys.argv[3])
from umi_common.errors import StoreFull
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

store = HybridStore.open(sys.argv[1], embedder=HashEmbedder(16))
store.add([Chunk(f"old{i}", f"old words {i}") for i in range(50)])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
added = 0
try:
    for batch in range(400):
        store.add([Chunk(f"new{batch}-{i}", "many more words " * 50) for i in range(size)])
        added = batch + 1
    sys.exit("the limit was never met")
except StoreFull as error:
    print(error)
assert len(store) == 50 + size * added, (len(store), added)
assert len([c for c in store.get(store.ids()) if c is not None]) == len(store)
assert store.verify(), store.verify()
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
if sys.argv[2] == "disk":
    os.unlink(sys.argv[4])
store.add([Chunk("after", "there is room again")])
store.close()
with HybridStore.open(sys.argv[1], embedder=HashEmbedder(16)) as store:
    assert len(store) == 51 + size * added
    assert store.verify()
"""


OPENING = """
import resource, sys
from umi_common.errors import StoreFull
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

with HybridStore.open(sys.argv[1], embedder=HashEmbedder(16)) as store:
    store.add([Chunk("old", "old words")])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # umi.db-shm takes 32,768 bytes
for call in (HybridStore.open, HybridStore.reindex):
    try:
        call(sys.argv[1], embedder=HashEmbedder(16))
        sys.exit("the limit was never met")
    except StoreFull as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
with HybridStore.open(sys.argv[1], embedder=HashEmbedder(16)) as store:
    assert store.ids() == ["old"] and store.verify()
"""

FILLED = """
import sys
from pathlib import Path
from umi_common.errors import StoreFull
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

folder = Path(sys.argv[1])
with HybridStore.open(folder, embedder=HashEmbedder(16)) as store:
    store.add([Chunk(f"old{i}", "old words " * 100) for i in range(500)])
    try:
        store.add([Chunk(f"new{i}", "many more words " * 100) for i in range(10_000)])
        sys.exit("the disk was never full")
    except StoreFull as error:
        print(error)
    store.add([Chunk("next", "there is room for this")])
with HybridStore.open(folder, embedder=HashEmbedder(16)) as store:
    store.add([Chunk("after", "and for this")])
    assert store.delete(["old0"]) == 1
    store.compact()
    assert len(store) == 501 and store.verify(), store.verify()
"""


def run(*arguments: str, script: str = SCRIPT) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-1500:]
    assert "free space" in done.stdout


@pytest.mark.parametrize("size", [20, 250])
def test_a_file_size_limit(tmp_path, size: int):
    run(str(tmp_path / "s"), "limit", str(size))


def test_a_store_that_cannot_be_opened_because_the_disk_is_full_is_not_called_damaged(tmp_path):
    run(str(tmp_path / "s"), script=OPENING)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MiB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "umi-test", str(tmp_path)], check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=False)


def test_a_full_disk(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6_000_000))
    run(str(small_disk / "s"), "disk", "20", str(ballast))


def test_a_write_that_does_not_fit_leaves_the_disk_as_free_as_it_was(small_disk):
    run(str(small_disk / "s"), script=FILLED)


def test_a_compact_whose_log_cannot_be_copied_into_the_file_loses_nothing(tmp_path, monkeypatch):
    def full(_ledger):
        raise sqlite3.OperationalError("database or disk is full")

    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16)) as store:
        store.add([Chunk(f"old{i}", "old words " * 50) for i in range(100)])
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "_emptied_log", full)
            with pytest.raises(StoreFull):
                store.compact()
        assert store.verify() and None not in store.get(store.ids())
        store.add([Chunk("next", "there is room again")])
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16)) as store:
        assert len(store) == 101 and store.verify()


def test_a_write_that_does_not_get_the_lock_leaves_what_the_program_with_the_lock_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_sqlite, "BUSY_SECONDS", 1.0)
    with (
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16)) as store,
        closing(sqlite3.connect(tmp_path / "s" / "umi.db", isolation_level=None)) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        other.execute("PRAGMA cache_size = 5")  # so that it writes before its commit
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE notes (note)")
        added = threads.submit(store.add, [Chunk("new", "words")])
        time.sleep(0.2)
        other.executemany("INSERT INTO notes VALUES (?)", [("a note " * 400,)] * 200)
        assert isinstance(added.exception(), StoreLocked)
        other.execute("COMMIT")
        assert other.execute("SELECT count(*) FROM notes").fetchone() == (200,)
        store.add([Chunk("new", "words")])
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16)) as store:
        assert store.ids() == ["new"] and store.verify()
