"""The snapshot: whole or refused, the same bytes for the same content, cheap to open."""

from __future__ import annotations

import struct
import time
import zlib
from pathlib import Path

import pytest

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.errors import IndexUnavailable
from umi_common.stores.lexical import file as postings_file
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import IndexState, PostingsIndex

PLAIN = Analyzer(AnalyzerConfig(language="none"))
LUCENE = LexicalConfig()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    index = PostingsIndex(PLAIN)
    index.add([0, 2, 3], ["ant bee ant", "bee", "日本語"], [0, 0, 1])
    index.save(tmp_path / "postings")
    return tmp_path / "postings"


def test_a_loaded_index_answers_as_before_and_goes_on(saved: Path):
    index = PostingsIndex.load(saved, PLAIN)
    assert index.status().state is IndexState.READY
    assert index.search(["ant", "本語"], k=3, config=LUCENE, id_of=str)[1].rows.tolist() == [3]
    index.add([4], ["ant"], [2])
    index.remove([0])
    assert index.search(["ant"], k=3, config=LUCENE, id_of=str)[0].rows.tolist() == [4]


def test_an_empty_index_can_be_saved(tmp_path: Path):
    PostingsIndex(PLAIN).save(tmp_path / "postings")
    assert PostingsIndex.load(tmp_path / "postings", PLAIN).status().state is IndexState.EMPTY


def test_the_same_content_gives_the_same_bytes_whatever_came_before(saved: Path, tmp_path: Path):
    index = PostingsIndex(PLAIN)
    index.add([0], ["ant bee ant"], [0])
    index.add([1, 2], ["zebra", "bee"], [7, 0])
    index.remove([1])
    index.add([3], ["日本語"], [1])
    index.save(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == saved.read_bytes()


def test_every_flipped_byte_is_noticed(saved: Path, tmp_path: Path):
    whole, damaged = saved.read_bytes(), tmp_path / "damaged"
    for place in range(len(whole)):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        with pytest.raises(IndexUnavailable, match=str(damaged)):
            PostingsIndex.load(damaged, PLAIN)


def test_every_cut_is_noticed(saved: Path, tmp_path: Path):
    whole, damaged = saved.read_bytes(), tmp_path / "damaged"
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        damaged.write_bytes(whole[:length])
        with pytest.raises(IndexUnavailable, match=str(damaged)):
            PostingsIndex.load(damaged, PLAIN)
    damaged.write_bytes(whole + b"\0")
    with pytest.raises(IndexUnavailable, match="bytes of content"):
        PostingsIndex.load(damaged, PLAIN)


def test_another_version_is_named(saved: Path):
    whole = bytearray(saved.read_bytes())
    struct.pack_into("<I", whole, 8, 99)
    struct.pack_into("<I", whole, 60, zlib.crc32(whole[:60]))
    saved.write_bytes(whole)
    with pytest.raises(IndexUnavailable, match="format version 99; this umi reads 1 to 2"):
        PostingsIndex.load(saved, PLAIN)


def test_another_analyzer_is_refused(saved: Path):
    with pytest.raises(IndexUnavailable, match="another analyzer"):
        PostingsIndex.load(saved, Analyzer(AnalyzerConfig(language="english")))


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(IndexUnavailable, match="rebuild the lexical index"):
            PostingsIndex.load(path, PLAIN)


def test_a_save_that_fails_leaves_the_old_file_and_no_other(saved: Path, monkeypatch: pytest.MonkeyPatch):
    before = saved.read_bytes()

    def refuse(handle: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(postings_file.os, "fsync", refuse)
    with pytest.raises(OSError, match="no space"):
        PostingsIndex(PLAIN).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_saving_over_the_file_an_index_was_loaded_from_leaves_that_index_alone(saved: Path):
    index = PostingsIndex.load(saved, PLAIN)
    PostingsIndex(PLAIN).save(saved)
    assert index.search(["ant"], k=3, config=LUCENE, id_of=str)[0].rows.tolist() == [0]


@pytest.mark.slow
def test_a_hundred_thousand_documents_open_within_300_ms(tmp_path: Path):
    index = PostingsIndex(PLAIN)
    texts = [
        " ".join(f"w{(row * 31 + word * word * 7) % (50 + row % 40_000)}" for word in range(43))
        for row in range(100_000)
    ]
    index.add(range(len(texts)), texts, [-1] * len(texts))
    index.save(tmp_path / "postings")
    began = time.perf_counter()
    PostingsIndex.load(tmp_path / "postings", PLAIN)
    assert time.perf_counter() - began < 0.3
