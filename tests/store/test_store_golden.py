"""A stored directory that version 1 wrote: the present code opens it, verifies it and searches it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from pytest import approx

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
import store_v1  # noqa: E402

from umi_common.errors import LedgerDamaged, StoreError  # noqa: E402
from umi_common.stores.embedded.hybrid import HybridStore  # noqa: E402
from umi_common.stores.lexical.file import FOLDER  # noqa: E402
from umi_common.types import Chunk  # noqa: E402


@pytest.fixture
def path(tmp_path) -> Path:
    shutil.copytree(store_v1.STORE, tmp_path / "s")
    return tmp_path / "s"


@pytest.mark.parametrize("how", ["as it is", "without its indexes", "read only"])
def test_the_store_of_version_1_opens_verifies_and_answers(how, path):
    if how == "without its indexes":
        shutil.rmtree(path / FOLDER)
    with HybridStore.open(path, embedder=store_v1.embedder(), read_only=how == "read only") as store:
        assert store.verify()
        expected = {chunk.id: chunk for chunk in store_v1.chunks()}
        assert store.ids() == sorted(expected)
        assert store.get(sorted(expected)) == [expected[id] for id in sorted(expected)]
        told = json.loads(store_v1.ANSWERS.read_text(encoding="utf-8"))
        for query, answer in store_v1.answers(store).items():
            assert answer["ids"] == told[query]["ids"], query
            assert answer["lexical"] == approx(told[query]["lexical"], abs=1e-9), query
            assert answer["dense"] == approx(told[query]["dense"], abs=1e-6), query


def test_the_store_of_version_1_can_be_written_to(path):
    with HybridStore.open(path, embedder=store_v1.embedder()) as store:
        store.add([Chunk("new", "A purple submarine.")])
        store.delete(["t1"])
    with HybridStore.open(path, embedder=store_v1.embedder()) as store:
        assert store.ids() == ["new", "t0", "t2", "t3", "日本"]
        assert store.verify()


def test_the_store_of_version_1_can_be_compacted_before_its_first_write(path):
    with HybridStore.open(path, embedder=store_v1.embedder()) as store:
        store.compact()
        assert store.verify()
        assert len(store.ids()) == len(store_v1.chunks())


def test_the_index_of_a_store_of_version_1_is_saved_again_over_its_old_folder(path, caplog):
    """Version 1 saved its index as a folder, which had the name that the new file gets."""
    with HybridStore.open(path, embedder=store_v1.embedder()) as store:
        store.add([Chunk("new", "A purple submarine.")])
    assert [saved.is_file() for saved in (path / FOLDER).iterdir()] == [True]
    caplog.clear()
    with HybridStore.open(path, embedder=store_v1.embedder()):
        assert not caplog.records


@pytest.mark.parametrize(
    ("version", "error", "said"),
    [(2, StoreError, r"version 2 .*reads 1; upgrade umi-retrieval"), (0, LedgerDamaged, r"version 0.*restore")],
)
def test_another_version_is_refused_and_left_as_it_was(version, error, said, path):
    with sqlite3.connect(path / "umi.db") as ledger:
        ledger.execute(f"PRAGMA user_version = {version}")
    ledger.close()
    before = (path / "umi.db").read_bytes()
    with pytest.raises(error, match=said):
        HybridStore.open(path, embedder=store_v1.embedder())
    assert (path / "umi.db").read_bytes() == before


def test_the_golden_store_is_small():
    assert sum(file.stat().st_size for file in store_v1.HOME.rglob("*") if file.is_file()) < 200_000
