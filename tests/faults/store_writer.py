"""A process that writes to a store until it is killed, and logs its writes in a file, the diary."""

from __future__ import annotations

import json
import os
import random
import signal
from contextlib import nullcontext
from pathlib import Path

from umi_common.sim import HashEmbedder
from umi_common.stores import failpoints
from umi_common.stores.embedded import row_data
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

IDS = 60


def write_until_killed(path: str, diary: str, seed: int, point: str | None, passes: int) -> None:
    """Add, replace, delete and rebuild at random; end by SIGKILL when `point` is passed for the `passes`-th time."""
    dice = random.Random(seed)
    left = passes

    def maybe_die() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    row_data.SAVE_EVERY = 5
    with failpoints.armed(point, maybe_die) if point is not None else nullcontext():
        _write(path, diary, dice)


def _write(path: str, diary: str, dice: random.Random) -> None:
    log = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    store = HybridStore.open(path, embedder=HashEmbedder(16))
    while True:
        ids = dice.sample(range(IDS), dice.randint(1, 12))
        kind = dice.choices(("add", "delete", "rebuild"), (8, 3, 1))[0]
        texts = {f"c{i}": f"chunk {i} turn {dice.randint(0, 10**9)}" for i in ids}
        os.write(log, (json.dumps({"kind": kind, "texts": texts}) + "\n").encode())
        if kind == "add":
            store.add([Chunk(id, text, source="s", position=int(id[1:])) for id, text in texts.items()])
        elif kind == "delete":
            store.delete(list(texts))
        else:
            store.rebuild()
        os.write(log, b'"done"\n')


def replay(diary: Path, before: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The content after the acknowledged writes, and after the last write, which may not be acknowledged."""
    content, attempt = dict(before), dict(before)
    for line in diary.read_text().splitlines() if diary.exists() else []:
        entry = json.loads(line)
        if entry == "done":
            content = dict(attempt)
        elif entry["kind"] == "add":
            attempt = {**content, **entry["texts"]}
        elif entry["kind"] == "delete":
            attempt = {id: text for id, text in content.items() if id not in entry["texts"]}
        else:
            attempt = dict(content)
    return content, attempt
