"""What umi does to Chroma in a process of its own: building a generation, and trying whether one opens.

Chroma may hang or crash on damaged files; then this process does, and the store goes on. Run by `dense_arm`:

    python -m umi_common.store.chroma_child build|probe '<arguments as JSON>'

Exit code 0: done. The process ends when its parent does.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from umi_common.pool import Vectors
from umi_common.store.chroma import ADD_AT_ONCE, COLLECTION, Manifest, close_client, open_client
from umi_common.store.codec import decode_vectors
from umi_common.store.sqlite import connect

SAMPLES = 8
"""Stored vectors that must find themselves."""
NEAR = 1e-3
"""Largest cosine distance of a vector to itself."""


def build(ledger: Path, target: Path, base: Path | None, *, epoch: int, seq: int, search_ef: int) -> None:
    """Make a generation with all vectors up to `seq`, starting from a copy of an older one where there is one."""
    after, count = 0, 0
    if base is not None:
        shutil.copytree(base, target)
        old = Manifest.read(base)
        after, count = old.seq, old.count
        (target / "manifest.json").unlink()
    else:
        target.mkdir(parents=True)
    client = open_client(target)
    collection = client.get_or_create_collection(
        COLLECTION,
        configuration={"hnsw": {"space": "cosine", "ef_search": search_ef, "ef_construction": 200}},
        embedding_function=None,
    )
    parent = os.getppid()
    connection = connect(ledger, "mode=ro")
    dim = 0
    while True:
        seqs, vectors = _vectors(connection, after, seq)
        if not seqs:
            break
        if os.getppid() != parent:
            sys.exit("the parent is gone")
        after, dim = seqs[-1], vectors.shape[1]
        present = np.flatnonzero(vectors.any(axis=1))
        if len(present):
            collection.add(ids=[str(seqs[row]) for row in present], embeddings=vectors[present])
            count += len(present)
    if collection.count() != count:
        sys.exit(f"Chroma holds {collection.count()} of {count} vectors")
    connection.close()
    close_client(client)
    Manifest(epoch, seq, count, dim).write(target)


def probe(ledger: Path, target: Path) -> None:
    """Open a generation, count it, and let stored vectors find themselves."""
    manifest = Manifest.read(target)
    client = open_client(target)
    collection = client.get_collection(COLLECTION, embedding_function=None)
    if collection.count() != manifest.count:
        sys.exit(f"Chroma holds {collection.count()} of {manifest.count} vectors")
    connection = connect(ledger, "mode=ro")
    for start in range(0, manifest.seq, max(1, manifest.seq // SAMPLES)):
        _, vectors = _vectors(connection, start, manifest.seq, limit=1)
        if len(vectors) and vectors.any():
            (distances,) = collection.query(query_embeddings=vectors, n_results=1, include=["distances"])["distances"]
            if not distances or not distances[0] < NEAR:
                sys.exit("a stored vector does not find itself")
    connection.close()
    close_client(client)


def _vectors(
    connection: sqlite3.Connection, after: int, until: int, limit: int = ADD_AT_ONCE
) -> tuple[list[int], Vectors]:
    rows = connection.execute(
        "SELECT seq, vector, checksum FROM vectors WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (after, until, limit),
    ).fetchall()
    return [row[0] for row in rows], decode_vectors([row[1:] for row in rows])


def main(arguments: list[str]) -> None:
    """`build` or `probe`, then its arguments as JSON."""
    command, text = arguments
    given: dict[str, Any] = json.loads(text)
    paths = {name: None if value is None else Path(value) for name, value in given.pop("paths").items()}
    commands: dict[str, Callable[..., None]] = {"build": build, "probe": probe}
    commands[command](**paths, **given)


if __name__ == "__main__":
    main(sys.argv[1:])
