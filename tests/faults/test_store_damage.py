"""Every file of a store, deleted, cut, zeroed and flipped: the answer is right or there is a typed error."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from umi_common.errors import LedgerDamaged, NotAStore, ReindexRequired, StoreError
from umi_common.protocols import Probe
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.store.hybrid import HybridStore
from umi_common.types import Chunk

pytestmark = pytest.mark.slow
NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
WORDS = ["red", "blue", "green", "boat", "train", "coast", "night", "rain", "snow", "sun", "wind", "hill", "lake"]
FLIPS = int(os.environ.get("UMI_TEST_FLIPS", "40"))


def content() -> list[Chunk]:
    dice = random.Random(1)
    return [
        Chunk(f"c{i:03}", " ".join(dice.choices(WORDS, k=12)), metadata={"user": i % 3}, source=f"s{i % 5}", position=i)
        for i in range(120)
    ]


QUERIES = ("red boat", "night train to the coast", "snow")


def answers(store: HybridStore) -> list:
    """All that a user can see of a store."""
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
