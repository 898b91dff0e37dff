"""Replies already paid for: in memory, on disk, and when the disk misbehaves."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest

from umi_common.config import RewriteConfig
from umi_common.query.rewriting.cache import COMPACT_AT, FILE_NAME, RewriteCache
from umi_common.query.rewriting.rewrite import Rewriting
from umi_common.sim import ScriptedLLM


def test_the_least_recently_used_goes_first():
    cache = RewriteCache(2)
    cache.put("m", "a", ("1",))
    cache.put("m", "b", ("2",))
    assert cache.get("m", "a") == ("1",)
    cache.put("m", "c", ("3",))
    assert cache.get("m", "b") is None
    assert cache.get("m", "a") == ("1",)


def test_models_do_not_share_replies():
    cache = RewriteCache(2)
    cache.put("m", "a", ("1",))
    assert cache.get("other", "a") is None


def test_size_zero_keeps_nothing(tmp_path: Path):
    cache = RewriteCache(0, tmp_path)
    cache.put("m", "a", ("1",))
    assert cache.get("m", "a") is None
    assert not (tmp_path / FILE_NAME).exists()


def test_another_process_finds_what_was_kept(tmp_path: Path):
    RewriteCache(10, tmp_path / "new").put("m", "a", ("é", "2"))
    assert RewriteCache(10, tmp_path / "new").get("m", "a") == ("é", "2")


def test_the_file_holds_no_prompt(tmp_path: Path):
    RewriteCache(10, tmp_path).put("m", "secret prompt", ("1",))
    assert "secret" not in (tmp_path / FILE_NAME).read_text(encoding="utf-8")
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "damage",
    [
        b"\x00\xff garbage",
        b'{"key": 1, "variations": ["a"]}',
        b'{"key": "k", "variations": "a"}',
        b'{"key": "k", "variations": [1]}',
        b'{"key": "k", "variations": ["\\ud800"]}',
        b'{"key": "k"',
        b"[]",
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_skipped_with_a_warning_and_then_gone(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
):
    RewriteCache(10, tmp_path).put("m", "a", ("1",))
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes() + damage)
    with caplog.at_level(logging.WARNING):
        assert RewriteCache(10, tmp_path).get("m", "a") == ("1",)
    assert "1 damaged lines ignored" in caplog.text
    assert [json.loads(line)["variations"] for line in path.read_text(encoding="utf-8").splitlines()] == [["1"]]


def test_a_directory_in_place_of_the_file_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / FILE_NAME).mkdir()
    with caplog.at_level(logging.WARNING):
        cache = RewriteCache(10, tmp_path)
        cache.put("m", "a", ("1",))
    assert cache.get("m", "a") == ("1",)
    assert "is ignored" in caplog.text
    assert "cannot be written" in caplog.text


def test_the_file_does_not_grow_without_end(tmp_path: Path):
    cache = RewriteCache(3, tmp_path)
    for number in range(100):
        cache.put("m", str(number), (str(number),))
    assert len((tmp_path / FILE_NAME).read_text(encoding="utf-8").splitlines()) <= 3 * COMPACT_AT + 1
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
    assert len(RewriteCache(50, tmp_path)) == len(cache) == 50


def test_kept_variations_obey_the_present_caps(tmp_path: Path):
    llm = ScriptedLLM([["one", "two", "three hundred"]])
    Rewriting(llm, directory=tmp_path).variations("q")
    capped = Rewriting(llm, RewriteConfig(variations_max=2, variation_bytes_max=10), directory=tmp_path)
    assert capped.variations("q").variations == ("one", "two")
    assert len(llm.prompts) == 1
