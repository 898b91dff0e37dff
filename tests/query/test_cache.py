"""Replies already paid for: in memory, on disk, and when the disk misbehaves."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from umi_common.config import RewriteConfig
from umi_common.embedders.cache import REPLIES as FILE_NAME
from umi_common.query.rewriting.rewrite import RewriteCache, Rewriting
from umi_common.sim import ScriptedLLM


def test_the_least_recently_used_goes_first():
    cache = RewriteCache(2)
    cache.put("m", "a", ("1",))
    cache.put("m", "b", ("2",))
    assert cache.get("m", "a") == ("1",)
    cache.put("m", "c", ("3",))
    assert cache.get("m", "b") is None
    assert cache.get("m", "a") == ("1",)


def test_models_do_not_share_replies(tmp_path: Path):
    for cache in (RewriteCache(2), RewriteCache(2, tmp_path)):
        cache.put("m", "a", ("1",))
        assert cache.get("other", "a") is None


def test_size_zero_keeps_nothing(tmp_path: Path):
    cache = RewriteCache(0, tmp_path)
    cache.put("m", "a", ("1",))
    assert cache.get("m", "a") is None
    assert not (tmp_path / FILE_NAME).exists()


def test_another_process_finds_what_was_kept(tmp_path: Path):
    RewriteCache(10, tmp_path).put("m", "a", ("é", "2"))
    assert RewriteCache(10, tmp_path).get("m", "a") == ("é", "2")


def test_a_prompt_that_no_utf_8_holds_is_kept_like_any_other(tmp_path: Path):
    RewriteCache(10, tmp_path).put("m", "\ud800", ("1",))
    assert RewriteCache(10, tmp_path).get("m", "\ud800") == ("1",)


def test_the_file_holds_no_prompt_and_only_its_owner_reads_it(tmp_path: Path):
    RewriteCache(10, tmp_path).put("m", "secret prompt", ("1",))
    assert b"secret" not in (tmp_path / FILE_NAME).read_bytes()
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_replaced_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / FILE_NAME).write_bytes(b"\x00\xff garbage" * 500)
    cache = RewriteCache(10, tmp_path)
    with caplog.at_level(logging.WARNING):
        cache.put("m", "a", ("1",))
        cache.put("m", "b", ("2",))
    assert cache.get("m", "a") == ("1",)
    assert f"{FILE_NAME} is damaged" in caplog.text
    assert RewriteCache(10, tmp_path).get("m", "b") == ("2",)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


def test_a_damaged_reply_is_not_used(tmp_path: Path):
    RewriteCache(10, tmp_path).put("m", "a", ("1",))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE vectors SET vector = ?", (b'["2"]',))
    assert RewriteCache(10, tmp_path).get("m", "a") is None


def test_a_directory_in_place_of_the_file_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / FILE_NAME).mkdir()
    with caplog.at_level(logging.WARNING):
        cache = RewriteCache(10, tmp_path)
        cache.put("m", "a", ("1",))
    assert cache.get("m", "a") == ("1",)
    assert f"{FILE_NAME} cannot be used" in caplog.text


def test_the_file_does_not_grow_without_end(tmp_path: Path):
    cache = RewriteCache(3, tmp_path)
    for number in range(100):
        cache.put("m", str(number), (str(number),))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (3,)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    again = RewriteCache(3, tmp_path)
    assert [again.get("m", str(number)) for number in (97, 98, 99)] == [("97",), ("98",), ("99",)]


def test_many_threads_may_share_it(tmp_path: Path):
    cache = RewriteCache(50, tmp_path)

    def work(start: int) -> None:
        for number in range(start, start + 40):
            cache.put("m", str(number), (str(number),))
            assert cache.get("m", str(number)) in (None, (str(number),))

    threads = [threading.Thread(target=work, args=(20 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = RewriteCache(50, tmp_path)
    kept = sum(again.get("m", str(number)) is not None for number in range(100))
    assert 0 < kept <= 50  # a reply that two threads wrote counts twice


def test_kept_variations_obey_the_present_caps(tmp_path: Path):
    llm = ScriptedLLM([["one", "two", "three hundred"]])
    Rewriting(llm, directory=tmp_path).variations("q")
    capped = Rewriting(llm, RewriteConfig(variations_max=2, variation_bytes_max=10), directory=tmp_path)
    assert capped.variations("q").variations == ("one", "two")
    assert len(llm.prompts) == 1
