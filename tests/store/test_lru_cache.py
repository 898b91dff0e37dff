from __future__ import annotations

import sqlite3
import subprocess
import sys

from umi_common.embedders.cache import FileCache, LruCache
from umi_common.types import Chunk

CHUNKS = {seq: Chunk(f"c{seq}", "a boat") for seq in range(1, 5)}


def test_cached_values_are_found_and_other_keys_are_left_out():
    cache = LruCache(3)
    cache.put({1: CHUNKS[1]})
    assert cache.get([2, 1, 3, 2]) == {1: CHUNKS[1]}


def test_the_least_recently_used_value_is_dropped_first():
    cache = LruCache(3)
    cache.put({seq: CHUNKS[seq] for seq in (1, 2, 3)})
    cache.get([1])
    cache.put({4: CHUNKS[4]})
    assert [*cache.get([1, 2, 3, 4])] == [1, 3, 4]


def test_a_value_that_is_written_again_to_a_file_drops_no_other(tmp_path):
    """As where two processes embed the same texts at the same time."""
    cache = FileCache(tmp_path / "cache.db", "model", 4, pack=str.encode, unpack=bytes.decode)
    for text in "abcaaad":
        cache.put({text: f"value of {text}"})
    assert sorted(cache.get("abcd")) == ["a", "b", "c", "d"]
    cache.put({"e": "value of e"})
    assert sorted(cache.get("abcde")) == ["b", "c", "d", "e"]


def test_the_warning_about_values_that_stay_names_the_reason(tmp_path, caplog, monkeypatch):
    cache = FileCache(tmp_path / "cache.db", "model", 4, pack=str.encode, unpack=bytes.decode)
    cache.put({"a": "value"})
    monkeypatch.setattr("os.open", _full)
    cache.keep([])
    assert "still holds values of removed texts (disk full)" in caplog.text


def test_a_damaged_file_is_deleted_and_holds_nothing_of_removed_texts(tmp_path, caplog):
    cache = FileCache(tmp_path / "cache.db", "model", 4, pack=str.encode, unpack=bytes.decode)
    (tmp_path / "cache.db").write_bytes(b"no database" * 500)
    cache.keep([])
    assert "cache.db is damaged" in caplog.text
    assert "still holds" not in caplog.text


def test_the_path_may_be_a_link_to_a_file_that_does_not_exist_yet(tmp_path):
    (tmp_path / "cache.db").symlink_to(tmp_path / "elsewhere.db")
    cache = FileCache(tmp_path / "cache.db", "model", 4, pack=str.encode, unpack=bytes.decode)
    cache.put({"a": "value"})
    assert cache.get(["a"]) == {"a": "value"}
    assert (tmp_path / "elsewhere.db").stat().st_size


def test_no_other_process_writes_the_file_while_this_one_does(tmp_path):
    """POSIX drops a process's locks on a file when it closes any of its handles of this file."""
    cache = FileCache(tmp_path / "cache.db", "model", 4, pack=str.encode, unpack=bytes.decode)
    cache.put({"a": "value"})
    writer = sqlite3.connect(tmp_path / "cache.db")
    writer.execute("BEGIN IMMEDIATE")
    assert cache.get(["a"]) == {"a": "value"}
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    other = subprocess.run([sys.executable, "-c", script, tmp_path / "cache.db"], capture_output=True, text=True)
    writer.close()
    assert "database is locked" in other.stderr


def _full(*arguments):
    raise OSError("disk full")
