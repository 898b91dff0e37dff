"""Corpora, stores that fail, and a process that ingests until it is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from umi_common.files import session as sessions
from umi_common.ingest import ingest
from umi_common.protocols import Store
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

DIM = 16
PART = 2_000
"""Bytes: some thirty records, so that small files have several parts."""


class Died(BaseException):
    """An exception that no code catches, in place of a kill."""


class Dying:
    """A store that raises Died at its n-th step; every write has a step before it and one after it."""

    def __init__(self, store: Store, steps: int) -> None:
        self._store, self._left = store, steps
        self.embedder, self.path = store.embedder, store.path

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Died

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name not in ("add", "delete", "get", "scan"):
            return call

        def stepped(*args: Any, **named: Any) -> Any:
            self._step()
            answer = call(*args, **named)
            self._step()
            return answer

        return stepped

    def __len__(self) -> int:
        return len(self._store)


def opened(path: Path) -> HybridStore:
    return HybridStore.open(path, embedder=HashEmbedder(DIM))


def write_records(path: Path, numbers: Iterator[int] | range, *, words: str = "about boilers") -> None:
    """Write a record for each number, with an id."""
    lines = (json.dumps({"id": f"r{number}", "text": f"record {number} {words}"}) for number in numbers)
    path.write_text("".join(f"{line}\n" for line in lines))


def content(store: Any) -> dict[str, str]:
    """Text by id; fails if an id is there twice."""
    found: dict[str, str] = {}
    after = None
    while page := store.scan(after=after, limit=1000):
        for chunk in page:
            assert chunk.id not in found
            found[chunk.id] = chunk.text
        after = page[-1].id
    assert len(found) == len(store)
    return found


class Deadly:
    """An embedder that kills its process: once, if `trace` is a file that is not there yet; else at every "poison"."""

    def __init__(self, trace: Path | None = None) -> None:
        self._embedder, self._trace = HashEmbedder(DIM), trace
        self.name, self.dim = self._embedder.name, DIM

    def embed_documents(self, texts: Any) -> Any:
        if self._trace is None:
            if any("poison" in text for text in texts):
                os.kill(os.getpid(), signal.SIGKILL)
        elif not self._trace.exists():
            self._trace.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self._embedder.embed_documents(texts)

    embed_queries = embed_documents


def opened_by_one_who_dies(path: Path, trace: Path) -> HybridStore:
    """A store whose process is killed, once, right after a write."""
    store = opened(path)
    add = store.add

    def add_and_die(*args: Any, **named: Any) -> None:
        add(*args, **named)
        if not trace.exists():
            trace.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    store.add = add_and_die  # type: ignore[method-assign]
    return store


def main(store: str, folder: str, kill_after: str, address: str | None = None) -> None:
    """Ingest in small parts; end the process when so many batches are recorded."""
    left = int(kill_after)
    take = sessions.IngestSession.take

    def take_and_die(self: Any, outcomes: Any) -> None:
        nonlocal left
        take(self, outcomes)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sessions.IngestSession.take = take_and_die
    if address is not None:
        on_ray(Path(store), folder, address)
        return
    with opened(Path(store)) as there:
        ingest(there, [folder], part_bytes=PART)


def on_ray(store: Path, folder: str, address: str | None = None) -> Any:
    """Two workers, small parts, the checkpoint beside the store; `address`: of a Ray to connect to."""
    from umi_common.ingest.ray.run import ingest_on_ray

    if address is not None:
        import ray

        ray.init(address, configure_logging=False, log_to_driver=False)
    return ingest_on_ray(
        partial(opened, store),
        [folder],
        checkpoint=f"{store}.checkpoint",
        open_embedder=partial(HashEmbedder, DIM),
        workers=2,
        part_bytes=PART,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
