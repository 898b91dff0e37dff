"""Readers that cannot write, or do not: a read-only mount, a directory of another user, read_only=True."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from umi_common.config import UmiConfig
from umi_common.errors import StoreError, StoreReadOnly
from umi_common.retriever import DualRetriever
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.ledger.sqlite import as_umi_error
from umi_common.types import Chunk

resource = pytest.importorskip("resource", reason="limits of open files are a Unix matter")
ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("UMI_TEST_SHARED_SECONDS", "3"))
NOBODY = 65534
MOUNTED = "mount --make-rprivate / && mount --bind {0} {1} && mount -o remount,ro,bind {1} && exec {2}"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read-only mounts and setuid as Linux has them")


class Reader:
    """A process with the store open for reading."""

    def __init__(self, command: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            command, cwd="/", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, what: str) -> Any:
        """The answer, or (error class, message)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the reader process died"
        said = json.loads(line)
        return tuple(said["error"]) if "error" in said else said["said"]

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that any user may read; only its owner may read pytest's own."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def path(home: Path) -> Path:
    """A closed store of three chunks."""
    with HybridStore.open(home / "s", embedder=HashEmbedder(16)) as store:
        store.add([Chunk("a", "one apple"), Chunk("b", "one banana"), Chunk("c", "one cherry")])
    return home / "s"


@pytest.fixture(params=["read-only mount", "directory of another user", "writable directory"])
def reader_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Path], Reader]]:
    """Starts readers that see a directory in one of three ways."""
    how = request.param
    if how != "writable directory" and os.geteuid() != 0:
        pytest.skip(f"only root can set up a {how}")
    if how == "read-only mount":
        probe = tmp_path / "probe"
        probe.mkdir()
        tried = subprocess.run(["unshare", "-m", "sh", "-c", MOUNTED.format(probe, probe, "true")], check=False)
        if tried.returncode:
            pytest.skip("this machine does not allow a mount in a namespace of its own")
    with ExitStack() as started:

        def start(path: Path) -> Reader:
            script = [sys.executable, str(ROOT / "tests" / "faults" / "store_reader.py")]
            if how == "read-only mount":
                seen = tmp_path / "mounted"
                seen.mkdir(exist_ok=True)
                words = " ".join([*script, str(seen), "0"])
                reader = Reader(["unshare", "-m", "sh", "-c", MOUNTED.format(path, seen, words)])
            else:
                user = NOBODY if how == "directory of another user" else 0
                reader = Reader([*script, str(path), str(user)])
            started.callback(reader.close)
            return reader

        yield start


@contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Within the block, this process can open `count` further files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, limits[1]))
    opened: list[int] = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(opened.pop())
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def open_store(path: Path, **options: Any) -> HybridStore:
    return HybridStore.open(path, embedder=HashEmbedder(16), **options)


def files_of(path: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Each file and folder with inode, size, time of its last change and content."""
    found = {}
    for file in (path, *sorted(path.rglob("*"))):
        stat = file.stat()
        content = file.read_bytes() if file.is_file() and not file.name.startswith("umi.db") else b""
        found[str(file)] = (stat.st_ino, stat.st_size, stat.st_mtime_ns, content)
    return found


def killed_while_writing(path: Path) -> None:
    """A writer adds a chunk, removes another and is killed: both writes are in umi.db-wal alone."""
    script = (
        "import os, signal, sys\n"
        "from umi_common import Chunk, HybridStore\n"
        "from umi_common.sim import HashEmbedder\n"
        "store = HybridStore.open(sys.argv[1], embedder=HashEmbedder(16))\n"
        "store.add([Chunk('d', 'one date')]); store.delete(['a'])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, check=False)
    assert (path / "umi.db-wal").stat().st_size > 0


def test_a_reader_that_was_there_first_sees_what_a_later_writer_writes(path, reader_of):
    reader = reader_of(path)
    assert reader.ask("ids") == ["a", "b", "c"]
    with open_store(path) as writer:
        assert reader.ask("ids") == ["a", "b", "c"]
        writer.add([Chunk("d", "one date")])
        assert reader.ask("search date") == ["a", "b", "c", "d"]
        writer.delete(["a"])
        assert reader.ask("texts") == ["one banana", "one cherry", "one date"]
    assert reader.ask("ids") == ["b", "c", "d"]
    with open_store(path) as writer:
        writer.add([Chunk("b", "one blueberry")])
        writer.compact()
    assert reader.ask("texts") == ["one blueberry", "one cherry", "one date"]
    assert reader.ask("search blueberry") == ["b", "c", "d"]
    assert reader.ask("verify") == []


def test_a_reader_sees_writes_that_came_and_went_between_two_calls(path, reader_of):
    reader = reader_of(path)
    for turn in range(4):
        assert len(reader.ask("texts")) == 3 + turn
        with open_store(path) as writer:
            writer.add([Chunk(f"n{turn}", "a new one")])
            writer.delete(["a"])
            writer.add([Chunk("a", f"apple {turn}")])
        assert reader.ask("texts")[0] == f"apple {turn}"


def test_a_reader_opened_while_a_store_is_empty_sees_what_is_added_then(path):
    with open_store(path) as writer:
        writer.delete(["a", "b", "c"])
        with open_store(path, read_only=True) as reader:
            assert reader.ids() == []
            writer.add([Chunk("d", "one date")])
            assert reader.ids() == ["d"]
            assert reader.verify()


def test_a_reader_reads_what_a_killed_writer_acknowledged(path, reader_of):
    killed_while_writing(path)
    before = files_of(path)
    reader = reader_of(path)
    assert reader.ask("texts") == ["one banana", "one cherry", "one date"]
    assert files_of(path) == before
    with open_store(path) as writer:
        writer.add([Chunk("e", "one elderberry")])
        assert reader.ask("ids") == ["b", "c", "d", "e"]
    assert reader.ask("ids") == ["b", "c", "d", "e"]


def test_a_reader_says_what_to_do_about_unfinished_writes_that_it_cannot_read(path, reader_of):
    killed_while_writing(path)
    (path / "umi.db-shm").unlink()
    before = files_of(path)
    reader = reader_of(path)
    name, message = reader.ask("ids")
    assert name == "StoreReadOnly"
    assert "umi.db-wal" in message
    assert "open the store once for writing" in message
    assert files_of(path) == before
    open_store(path).close()
    assert reader.ask("ids") == ["b", "c", "d"]


def test_a_healthy_store_is_never_called_damaged_while_writers_come_and_go(path, reader_of):
    """Each writer replaces the same chunks, one version for all, and closes: umi.db itself changes under the reader."""
    reader = reader_of(path)
    number, end = 0, time.monotonic() + SECONDS
    seen = set()
    script = (
        "import sys\n"
        "from umi_common import Chunk, HybridStore\n"
        "from umi_common.sim import HashEmbedder\n"
        "number, ids = 0, [f'n{i}' for i in range(60)]\n"
        "for line in sys.stdin:\n"
        "    number += 1\n"
        "    with HybridStore.open(sys.argv[1], embedder=HashEmbedder(16)) as store:\n"
        "        store.delete(['a', 'b', 'c'])\n"
        "        store.add(Chunk(id, f'version {number} ' + 'words ' * (number % 50)) for id in ids)\n"
        "    print(number, flush=True)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        while number < 4 or time.monotonic() < end:
            number += 1
            writer.stdin.write("go\n")
            writer.stdin.flush()
            for _ in range(10):
                texts = reader.ask("texts")
                assert isinstance(texts, list), texts
                # get() drops chunks that were replaced between ids() and get(); what it gives is one or two versions.
                versions = {text.split()[1] for text in texts if text is not None and text.startswith("version")}
                seen |= versions
            assert int(writer.stdout.readline()) == number
            texts = reader.ask("texts")
            assert {text.split()[1] for text in texts} == {str(number)}, texts
            assert len(texts) == 60
    finally:
        writer.communicate()
    assert len(seen) > 1


@pytest.mark.parametrize("state", ["closed", "being written", "killed"])
def test_a_reader_changes_no_file_in_a_folder_that_it_could_write(path, state):
    with ExitStack() as opened:
        if state == "killed":
            killed_while_writing(path)
        elif state == "being written":
            writer = opened.enter_context(open_store(path))
            writer.add([Chunk("d", "one date")])
        before = files_of(path)
        script = (
            "import sys\n"
            "from umi_common import DualRetriever, HybridStore\n"
            "from umi_common.sim import HashEmbedder\n"
            "with HybridStore.open(sys.argv[1], embedder=HashEmbedder(16), read_only=True) as store:\n"
            "    assert len(store.get(store.ids())) == len(store) >= 3\n"
            "    with DualRetriever(store, rewriter=lambda prompt: '[\"cherry\"]') as umi:\n"
            "        assert umi.search('what is a banana', deep_search=True, ).hits\n"
            "    assert store.verify() and store.status().chunks\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, check=True)
        assert files_of(path) == before


def test_a_reader_keeps_no_llm_replies_in_the_stores_folder(path):
    before = files_of(path)
    config = UmiConfig(rewrite={"keep_replies": True})
    with open_store(path, read_only=True) as store:
        with DualRetriever(store, rewriter=lambda prompt: '["cherry"]', config=config) as umi:
            result = umi.search("what is a banana", deep_search=True)
        assert "cherry" in result.query_variations
    assert files_of(path) == before


@pytest.mark.parametrize("state", ["closed", "killed"])
def test_a_writer_opens_beside_a_reader_of_the_same_process(path, state):
    if state == "killed":
        killed_while_writing(path)
    with open_store(path, read_only=True) as reader:
        first = reader.ids()
        with open_store(path) as writer:
            writer.add([Chunk("z", "one zucchini")])
            assert reader.ids() == sorted([*first, "z"]) == writer.ids()
            assert reader.get(["z"])[0] == writer.get(["z"])[0]
        with open_store(path) as writer:
            writer.delete(["z"])
            assert reader.ids() == first
        assert reader.verify()


def test_a_reader_refuses_to_write_and_says_why(path):
    with open_store(path, read_only=True) as reader:
        add, delete = partial(reader.add, [Chunk("x", "y")]), partial(reader.delete, ["a"])
        for write in (add, delete, reader.rebuild, reader.compact):
            with pytest.raises(StoreReadOnly, match="read_only=True"):
                write()


def test_a_file_beside_the_ledger_that_may_not_be_written_is_named_too():
    """A reader of a ledger without write permission leaves a umi.db-shm without it, which `ls` of umi.db hides."""
    told = as_umi_error(sqlite3.OperationalError("attempt to write a readonly database"), Path("umi.db"), writing=True)
    assert isinstance(told, StoreReadOnly)
    assert "the ending -wal or -shm beside it" in str(told)
    assert "check their permissions" in str(told)


def test_a_copy_without_the_lock_files_is_read(path, home, reader_of):
    copy = home / "copy"
    copy.mkdir()
    copy.chmod(0o755)
    shutil.copy(path / "umi.db", copy / "umi.db")
    before = files_of(copy)
    assert reader_of(copy).ask("texts") == ["one apple", "one banana", "one cherry"]
    assert files_of(copy) == before


def test_a_reader_that_may_not_read_the_saved_index_makes_its_own(path, reader_of):
    (path / "lexical").chmod(0o700)
    reader = reader_of(path)
    assert "b" in reader.ask("search banana")
    assert reader.ask("status") == "ready, 3 chunks"


def test_a_folder_that_may_be_listed_but_not_entered_is_named(path):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    path.chmod(0o744)
    reader = Reader([sys.executable, str(ROOT / "tests" / "faults" / "store_reader.py"), str(path), str(NOBODY)])
    error, message = reader.ask("ids")
    reader.close()
    assert (error, "Permission denied" in message) == ("StoreError", True)


def test_a_reader_of_a_process_with_too_many_open_files_says_so_at_once(path):
    with open_store(path, read_only=True) as reader:
        first = reader.ids()
        with free_descriptors(0):
            begun = time.monotonic()
            with pytest.raises(StoreError, match="Too many open files"):
                reader.get(first)
            assert time.monotonic() - begun < 5
        assert [chunk.text for chunk in reader.get(first)] == ["one apple", "one banana", "one cherry"]


@pytest.mark.parametrize("read_only", [True, False])
def test_an_opening_with_too_few_free_descriptors_raises_an_error_of_umis_and_changes_nothing(path, read_only):
    for count in range(9):
        with free_descriptors(count), suppress(StoreError):
            open_store(path, read_only=read_only).close()
    with open_store(path) as store:
        assert store.verify() and store.ids() == ["a", "b", "c"]


def test_an_error_of_opening_a_store_with_unfinished_writes_is_not_its_own_cause(tmp_path):
    HybridStore.open(tmp_path, embedder=HashEmbedder(16)).close()
    (tmp_path / "umi.db-journal").write_bytes(b"unfinished")
    with pytest.raises(StoreReadOnly) as caught:
        HybridStore.open(tmp_path, embedder=HashEmbedder(16), read_only=True)
    assert caught.value.__cause__ is not caught.value
