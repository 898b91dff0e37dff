"""A process that reads a store and answers one request a line: `ids`, `texts`, `verify`, `status`, `search WORD`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from datetime import datetime, timezone

from umi_common.errors import UmiError
from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


def _answer(store: HybridStore, asked: str) -> object:
    if asked == "ids":
        return store.ids()
    if asked == "texts":
        return [None if chunk is None else chunk.text for chunk in store.get(store.ids())]
    if asked == "verify":
        return list(store.verify().problems)
    if asked == "status":
        return store.status().lexical
    return sorted(store.recall([Probe(asked.removeprefix("search "))], depth=10, now=NOW).ids)


def _import_everything() -> None:
    """Import all modules while the process is root: only root may be able to read their files."""
    with tempfile.TemporaryDirectory() as home:
        with HybridStore.open(home, embedder=HashEmbedder(16)) as store:
            store.add([Chunk("w", "warm")])
        with HybridStore.open(home, embedder=HashEmbedder(16), read_only=True) as store:
            for asked in ("ids", "texts", "verify", "status", "search warm"):
                _answer(store, asked)


def main(path: str, user: int) -> None:
    """Answer until the input ends; an error as `{"error": [class, message]}`. `user`: give up root for this id."""
    if user:
        _import_everything()
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    store = None
    for line in sys.stdin:
        try:
            if store is None:
                store = HybridStore.open(path, embedder=HashEmbedder(16), read_only=True)
            said = {"said": _answer(store, line.strip())}
        except UmiError as error:
            said = {"error": [type(error).__name__, str(error)]}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
