"""The saved index: whole or refused, of this ledger or not used, the same bytes for the same content, cheap to open."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from stopwatch import processor_seconds

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.errors import IndexUnavailable
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.file import FOLDER, read
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.types import Chunk

PLAIN = Analyzer(AnalyzerConfig(language="none"))
LUCENE = LexicalConfig()
MARK = Mark(4, 1, 0, 7, "abc")


def save(index: LexicalIndex, directory: Path) -> Path:
    """The file that the save made, the only one there."""
    index.save(directory, MARK, np.arange(len(index._snapshot.corpus.alive)), ["s", "t"])
    (path,) = (directory / FOLDER).iterdir()
    return path


def load(directory: Path) -> LexicalIndex | None:
    found = LexicalIndex.load(directory, PLAIN, MARK.__eq__)
    return None if found is None else found[0]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    index = LexicalIndex(PLAIN)
    index.update([0, 2, 3], ["ant bee ant", "bee", "日本語"], [0, 0, 1])
    return save(index, tmp_path)


def test_a_loaded_index_answers_as_before_and_goes_on(saved: Path, tmp_path: Path):
    found = LexicalIndex.load(tmp_path, PLAIN, MARK.__eq__)
    assert found is not None
    index, origin = found
    assert (origin.mark, origin.seqs.tolist(), origin.sources) == (MARK, [0, 1, 2, 3], ["s", "t"])
    assert origin.corpus.alive.tolist() == [True, False, True, True]
    assert index.search(["ant", "本語"], k=3, config=LUCENE, id_of=str)[1].rows.tolist() == [3]
    index.update([4], ["ant"], [2], removed=[0])
    assert index.search(["ant"], k=3, config=LUCENE, id_of=str)[0].rows.tolist() == [4]


def test_an_empty_index_can_be_saved(tmp_path: Path):
    save(LexicalIndex(PLAIN), tmp_path)
    index = load(tmp_path)
    assert index is not None
    assert not len(index)


def test_the_same_content_gives_the_same_bytes_whatever_came_before(saved: Path, tmp_path: Path):
    index = LexicalIndex(PLAIN)
    index.update([0], ["ant bee ant"], [0])
    index.update([1, 2], ["zebra", "bee"], [7, 0])
    index.update(removed=[1])
    index.update([3], ["日本語"], [1])
    (tmp_path / "other").mkdir()
    assert save(index, tmp_path / "other").read_bytes() == saved.read_bytes()


def test_every_flipped_byte_is_noticed(saved: Path, tmp_path: Path):
    whole, damaged = saved.read_bytes(), tmp_path / "damaged"
    for place in range(len(whole)):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        with pytest.raises(IndexUnavailable, match=str(damaged)):
            read(damaged, PLAIN.fingerprint)


def test_every_cut_is_noticed(saved: Path, tmp_path: Path):
    whole, damaged = saved.read_bytes(), tmp_path / "damaged"
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        damaged.write_bytes(whole[:length])
        with pytest.raises(IndexUnavailable, match=str(damaged)):
            read(damaged, PLAIN.fingerprint)
    damaged.write_bytes(whole + b"\0")
    with pytest.raises(IndexUnavailable, match="bytes of content"):
        read(damaged, PLAIN.fingerprint)


def test_another_version_is_named_and_not_used(saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    whole = bytearray(saved.read_bytes())
    struct.pack_into("<I", whole, 8, 99)
    struct.pack_into("<I", whole, 60, zlib.crc32(whole[:60]))
    saved.write_bytes(whole)
    assert load(tmp_path) is None
    assert "format version 99; this umi reads 5" in caplog.text


def test_an_index_of_another_analyzer_or_another_ledger_is_not_used(saved: Path, tmp_path: Path):
    assert LexicalIndex.load(tmp_path, Analyzer(AnalyzerConfig(language="english")), MARK.__eq__) is None
    assert LexicalIndex.load(tmp_path, PLAIN, lambda mark: False) is None


def test_the_index_of_another_store_answers_nothing_here(tmp_path: Path):
    for name, word in (("here", "ant"), ("there", "bee")):
        with HybridStore.open(tmp_path / name, embedder=HashEmbedder()) as store:
            store.add([Chunk("c", word), Chunk("d", word)])
    shutil.rmtree(tmp_path / "here" / FOLDER)
    shutil.copytree(tmp_path / "there" / FOLDER, tmp_path / "here" / FOLDER)
    with HybridStore.open(tmp_path / "here", embedder=HashEmbedder()) as store:
        assert store.verify(full=True)
        assert [id for id, _ in store.search_lexical("ant", k=2)] == ["c", "d"]
        assert not store.search_lexical("bee", k=2)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    assert load(tmp_path) is None
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(IndexUnavailable, match="cannot be read"):
            read(path, PLAIN.fingerprint)


def test_a_save_that_fails_leaves_the_old_file_and_no_other(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = saved.read_bytes()

    def refuse(handle: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="no space"):
        save(LexicalIndex(PLAIN), tmp_path)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_save_removes_older_files_and_leaves_an_index_loaded_from_one_alone(saved: Path, tmp_path: Path):
    index = load(tmp_path)
    assert index is not None
    assert save(LexicalIndex(PLAIN), tmp_path) != saved
    assert index.search(["ant"], k=3, config=LUCENE, id_of=str)[0].rows.tolist() == [0]


def test_twenty_thousand_documents_open_within_60_ms(tmp_path: Path):
    index = LexicalIndex(PLAIN)
    texts = [
        " ".join(f"w{(row * 31 + word * word * 7) % (50 + row % 40_000)}" for word in range(43))
        for row in range(20_000)
    ]
    index.update(range(len(texts)), texts, [-1] * len(texts))
    save(index, tmp_path)
    assert load(tmp_path) is not None
    assert min(processor_seconds(lambda: load(tmp_path)) for _ in range(3)) < 0.06
