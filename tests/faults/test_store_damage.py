"""Every file of a store, deleted, cut, zeroed and flipped: the answer is right or there is a typed error."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing, suppress
from datetime import datetime, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner

from umi_common import DualRetriever
from umi_common.cli.program import app
from umi_common.errors import LedgerDamaged, NotAStore, ReindexRequired, StoreError, UmiError
from umi_common.protocols import Probe
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

pytestmark = pytest.mark.slow
NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
WORDS = ["red", "blue", "green", "boat", "train", "coast", "night", "rain", "snow", "sun", "wind", "hill", "lake"]
FLIPS = int(os.environ.get("UMI_TEST_FLIPS", "40"))
LEDGER_FLIPS = int(os.environ.get("UMI_TEST_LEDGER_FLIPS", "200"))


def content() -> list[Chunk]:
    dice = random.Random(1)
    return [
        Chunk(f"c{i:03}", " ".join(dice.choices(WORDS, k=12)), metadata={"user": i % 3}, source=f"s{i % 5}", position=i)
        for i in range(120)
    ]


QUERIES = ("red boat", "night train to the coast", "snow")


def answers(store: HybridStore) -> list:
    """All results and facts that a user can read from a store."""
    pools = [store.recall([Probe(query)], depth=20, now=NOW, around=1) for query in QUERIES]
    seen = [(pool.ids, pool.lexical.tolist(), pool.dense.tolist(), pool.position.tolist()) for pool in pools]
    return [store.ids(), store.get(store.ids()), seen]


@pytest.fixture(scope="module")
def closed(tmp_path_factory) -> Path:
    """A store that was closed properly."""
    path = tmp_path_factory.mktemp("closed") / "s"
    with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
        store.add(content())
        store.delete(["c005"])
    return path


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Path:
    """A store whose writer was killed, so that part of it is in the write-ahead log."""
    path = tmp_path_factory.mktemp("killed") / "s"
    script = (
        "import os, signal, sys; sys.path[:0] = [sys.argv[2], sys.argv[3]]\n"
        "from test_store_damage import *\n"
        "store = HybridStore.open(sys.argv[1], embedder=HashEmbedder(16))\n"
        "store.add(content()); store.delete(['c005']); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", script, str(path), str(here), str(here.parents[1])], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (path / "umi.db-wal").stat().st_size > 0
    return path


@pytest.fixture(scope="module")
def truth(closed, tmp_path_factory) -> list:
    copy = tmp_path_factory.mktemp("truth") / "s"
    shutil.copytree(closed, copy)
    with HybridStore.open(copy, embedder=HashEmbedder(16)) as store:
        return answers(store)


def damage(file: Path, how: str, dice: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if how == "delete":
        file.unlink()
        return
    if how == "truncate":
        data = data[: dice.randint(0, max(0, len(data) - 1))]
    elif how == "zero":
        start = dice.randrange(max(1, len(data)))
        data[start : start + 4096] = bytes(len(data[start : start + 4096]))
    elif data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    file.write_bytes(data)


def files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name != "umi.lock")


@pytest.mark.parametrize("origin", ["closed", "killed"])
@pytest.mark.parametrize("how", ["delete", "truncate", "zero", "flip"])
def test_damage_is_repaired_or_named(origin, how, truth, tmp_path, request):
    original = request.getfixturevalue(origin)
    for number, file in enumerate(files(original)):
        rounds = FLIPS if file.name.startswith("umi.db") and how != "delete" else 3
        for attempt in range(1 if how == "delete" else rounds):
            dice = random.Random(f"{origin} {how} {file.name} {attempt}")
            path = tmp_path / f"{number}-{attempt}"
            shutil.copytree(original, path)
            damage(path / file.relative_to(original), how, dice)
            embedder = CountingEmbedder(HashEmbedder(16))
            what = f"{file.name}, {how}, {attempt}"
            try:
                with HybridStore.open(path, embedder=embedder) as store:
                    found = answers(store)
            except (LedgerDamaged, NotAStore, ReindexRequired, StoreError):
                assert file.name.startswith("umi.db"), f"{what}: a disposable file stopped the store"
            else:
                assert found == truth, f"{what}: another answer"
                assert embedder.document_calls == 0
            shutil.rmtree(path)


def cut_an_index_page(file: Path, cells: int = 1) -> None:
    """Let one leaf page of SQLite's index of ids say that it holds `cells` ids. SQLite finds fewer, without error."""
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    with closing(sqlite3.connect(file)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_chunks_1'"
        ).fetchone()
    at = (root - 1) * size
    if data[at] == 2:  # an inner page: on to the page of its second cell
        cell = int.from_bytes(data[at + 14 : at + 16], "big")
        at = (int.from_bytes(data[at + cell : at + cell + 4], "big") - 1) * size
    assert data[at] == 10
    data[at + 3 : at + 5] = cells.to_bytes(2, "big")
    file.write_bytes(data)


@pytest.fixture
def large(tmp_path) -> Path:
    """A closed store whose index of ids has several pages."""
    with HybridStore.open(tmp_path / "large", embedder=HashEmbedder(16)) as store:
        store.add([Chunk(f"{'x' * 80}{number:04}", f"red boat {number}") for number in range(600)])
    return tmp_path / "large"


def walk(store: HybridStore, limit: int, where: dict | None = None) -> list[str]:
    ids, after = [], None
    while page := store.scan(where=where, after=after, limit=limit):
        ids += [chunk.id for chunk in page]
        after = page[-1].id
        if len(page) < limit:
            break
    return ids


@pytest.mark.parametrize("limit", [50, 600, 601, 1_000])
def test_a_walk_over_a_store_with_a_damaged_index_says_so(large, limit):
    cut_an_index_page(large / "umi.db")
    with (
        HybridStore.open(large, embedder=HashEmbedder(16), read_only=True) as store,
        pytest.raises(LedgerDamaged, match=r"finds \d+ of 600 chunks.*umi repair"),
    ):
        walk(store, limit)


def test_a_damaged_index_is_found_and_made_anew(large):
    cut_an_index_page(large / "umi.db")
    embedder = CountingEmbedder(HashEmbedder(16))
    with HybridStore.open(large, embedder=embedder) as store:
        assert any("index" in problem for problem in store.verify().problems)
        assert store.repair()
        assert walk(store, 50) == store.ids()
        store.delete(store.ids()[90:200])
        store.add([Chunk("new", "green hill")])
        assert store.verify()
        assert walk(store, 50) == store.ids()
    assert embedder.document_calls == 1


def test_a_store_with_a_damaged_index_is_not_migrated_in_part(large, tmp_path):
    cut_an_index_page(large / "umi.db")
    command, program = ["migrate", str(large), str(tmp_path / "copy")], CliRunner()
    done = program.invoke(app, command)
    assert done.exit_code == 1
    assert re.search(r"finds \d+ of 600 chunks.*umi repair", str(done.exception))
    assert program.invoke(app, ["repair", "--store", str(large)]).exit_code == 0
    assert "holds the same 600 chunks" in program.invoke(app, command).output


def cut_a_table_page(file: Path) -> None:
    """Let one leaf page of SQLite's table of chunks say that it holds one chunk; SQLite finds no error."""
    with closing(sqlite3.connect(file)) as connection:
        size, root = 8_192, connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'chunks'").fetchone()[0]
    data = bytearray(file.read_bytes())
    at = (root - 1) * size
    assert data[at] == 5
    cell = int.from_bytes(data[at + 14 : at + 16], "big")
    at = (int.from_bytes(data[at + cell : at + cell + 4], "big") - 1) * size
    data[at + 3 : at + 5] = b"\0\1"
    file.write_bytes(data)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_chunk_that_the_ledger_has_lost_is_no_chunk_that_was_never_there(large, read_only):
    cut_a_table_page(large / "umi.db")
    with HybridStore.open(large, embedder=HashEmbedder(16), read_only=read_only) as store:
        with pytest.raises(LedgerDamaged, match="the ledger has lost row"):
            store.get(store.ids())
        with DualRetriever(store) as umi, pytest.raises(LedgerDamaged, match="the ledger has lost row"):
            umi.search("red boat", limit=100)


def test_a_damaged_table_is_not_reindexed_away(large):
    """The index holds rows that the table has lost, so it is not made again from the table."""
    with HybridStore.open(large, embedder=HashEmbedder(16)) as store:
        cut_a_table_page(large / "umi.db")
        before = (large / "umi.db").read_bytes()
        assert not store.verify()
        with pytest.raises(LedgerDamaged, match=r"cannot mend .*umi\.db: .* rows; restore it from a copy$"):
            store.repair()
    assert (large / "umi.db").read_bytes() == before


def everything(path: Path) -> list:
    """The results of searching, reading, scanning, verifying, writing to and reopening a store."""
    with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
        seen = [answers(store), walk(store, 50), store.scan(where={"user": 1}), store.verify().checked]
        store.add([Chunk("new", "green hill"), Chunk("c007", "red lake")])
        store.delete(["c010"])
        store.delete(where={"user": 2})
        seen.append(answers(store))
    with HybridStore.open(path, embedder=HashEmbedder(16), read_only=True) as store:
        return [*seen, answers(store)]


def structure(data: bytes) -> list[int]:
    """Offsets where a flip does the most harm: heads of SQLite's pages, its schema, the first bytes of each row."""
    size, places = int.from_bytes(data[16:18], "big"), list(range(100))
    for page in range(0, len(data), size):
        head = page + (100 if page == 0 else 0)
        if data[head] not in (2, 5, 10, 13):
            continue
        cells = int.from_bytes(data[head + 3 : head + 5], "big")
        first = head + (12 if data[head] in (2, 5) else 8)
        places += range(head, first + 2 * cells)
        for cell in range(first, first + 2 * cells, 2):
            start = page + int.from_bytes(data[cell : cell + 2], "big")
            places += range(start, min(start + (20 if cells > 20 else 400), page + size))
    return places


@pytest.mark.parametrize("origin", ["closed", "killed"])
def test_a_flipped_byte_in_the_ledger_gives_right_answers_or_an_error_of_umis(origin, tmp_path, request):
    """Any other exception, a UnicodeDecodeError or a TypeError say, would not be caught by `except UmiError`."""
    original = request.getfixturevalue(origin)
    shutil.copytree(original, tmp_path / "true")
    truth = everything(tmp_path / "true")
    file = "umi.db" if origin == "closed" else "umi.db-wal"
    data = (original / file).read_bytes()
    places = structure(data) if origin == "closed" else range(len(data))
    dice = random.Random(origin)
    for attempt in range(LEDGER_FLIPS):
        place, flip = dice.choice(places), dice.choice([1 << dice.randrange(8), dice.randrange(1, 256)])
        path = tmp_path / str(attempt)
        shutil.copytree(original, path)
        with (path / file).open("r+b") as handle:
            handle.seek(place)
            handle.write(bytes([data[place] ^ flip]))
        with suppress(UmiError):
            assert everything(path) == truth, f"{file}: byte {place} ^ {flip} gives another answer"
        shutil.rmtree(path)


def test_a_schema_that_is_no_text_is_damage(closed, tmp_path):
    """SQLite quotes the broken schema in its message, and Python cannot decode that."""
    shutil.copytree(closed, tmp_path / "s")
    data = (tmp_path / "s/umi.db").read_bytes()
    (tmp_path / "s/umi.db").write_bytes(data.replace(b"TABLE vectors (", b"TABLE vectors \xa8", 1))
    with pytest.raises(LedgerDamaged):
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = 'many' WHERE key = 'count'",
        "UPDATE meta SET value = '-1' WHERE key = 'epoch'",
        "UPDATE meta SET value = replace(value, 'auto', 'finnish') WHERE key = 'analyzer'",
        "UPDATE meta SET value = 'hash/32' WHERE key = 'embedder'",
        "DELETE FROM meta WHERE key = 'embedder'",
        "UPDATE sqlite_sequence SET seq = 'last' WHERE name = 'chunks'",
        "UPDATE vectors SET vector = '' WHERE seq = 1",
    ],
)
def test_a_setting_that_was_not_written_so_is_damage(closed, tmp_path, change):
    shutil.copytree(closed, tmp_path / "s")
    with closing(sqlite3.connect(tmp_path / "s/umi.db")) as connection:
        assert connection.execute(change).rowcount == 1
        connection.commit()
    for options in ({}, {"read_only": True}):
        with pytest.raises(LedgerDamaged):
            HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16), **options)


@pytest.mark.parametrize("vector", [b"\0\0\xc0\x7f" * 16, b"short", b"", "text"], ids=["NaN", "short", "empty", "text"])
def test_a_damaged_vector_is_named_by_its_chunk_and_reindexing_mends_it(closed, tmp_path, vector):
    shutil.copytree(closed, tmp_path / "s")
    with closing(sqlite3.connect(tmp_path / "s/umi.db")) as connection:
        connection.execute(
            "UPDATE vectors SET vector = ? WHERE seq = (SELECT seq FROM chunks WHERE id = 'c042')", (vector,)
        )
        connection.commit()
    with pytest.raises(LedgerDamaged, match=r"1 vectors .* of chunks \['c042'\]; restore .*, or .*reindex"):
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16))
    HybridStore.reindex(tmp_path / "s", embedder=HashEmbedder(16))
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16)) as store:
        assert store.verify()
        assert len(store) == 119


@pytest.mark.parametrize("which", [" WHERE seq = 42", ""])
def test_a_vector_of_no_whole_number_of_floats_is_damage_although_its_checksum_is_right(closed, tmp_path, which):
    shutil.copytree(closed, tmp_path / "s")
    with closing(sqlite3.connect(tmp_path / "s/umi.db")) as connection:
        connection.execute(f"UPDATE vectors SET vector = ?, checksum = ?{which}", (b"abcdef", zlib.crc32(b"abcdef")))
        connection.commit()
    with pytest.raises(LedgerDamaged, match=r"holds (1|119) vectors that are not what was written, of chunks \['c0"):
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16))


LOST, WRONG = "DELETE FROM deletions WHERE seq = 3", "UPDATE deletions SET chunk = 50 WHERE seq = 3"


def test_a_reader_that_misses_deletions_reads_everything_again(closed, tmp_path):
    """Rows of the list of deletions are lost, or name another chunk: none of the deleted chunks stays."""
    for number, change in enumerate([LOST, WRONG]):
        path = tmp_path / str(number)
        shutil.copytree(closed, path)
        with HybridStore.open(path, embedder=HashEmbedder(16), read_only=True) as reader:
            assert len(reader) == 119
            with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
                store.delete(["c010", "c011", "c012"])
                expected = answers(store)
            with closing(sqlite3.connect(path / "umi.db")) as connection:
                connection.execute(change)
                connection.commit()
            assert answers(reader) == expected
