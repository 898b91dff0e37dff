"""One generation of the Chroma index: a directory that is written once, then only read.

A generation holds the vectors of the ledger up to a sequence number, under those numbers. Chroma loses data when it
is killed while writing, so nothing is ever added to a generation in use; what is newer is scored exactly.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umi_common.errors import IndexUnavailable
from umi_common.pool import Ints, Vectors

FOLDER = "dense"
MANIFEST = "manifest.json"
CHROMA = "chroma"
COLLECTION = "vectors"
ADD_AT_ONCE = 2_000
"""Chroma refuses batches above 5,461."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a generation holds; written last, so its presence says that the generation is whole."""

    epoch: int
    seq: int
    """Last ledger number in it."""
    count: int
    """Vectors in it; rows of zeros are left out."""
    dim: int

    def write(self, directory: Path) -> None:
        """Into the generation's directory."""
        body = json.dumps(asdict(self))
        text = json.dumps({"check": zlib.crc32(body.encode()), "body": body})
        (directory / MANIFEST).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """From the generation's directory.

        Raises:
            ValueError, KeyError, TypeError, OSError: If it is not there or not what was written.
        """
        wrapper = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        if zlib.crc32(wrapper["body"].encode()) != wrapper["check"]:
            raise ValueError("its manifest fails its checksum")
        return cls(**json.loads(wrapper["body"]))


class Generation:
    """An opened generation."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = Manifest.read(directory)
        self._client = open_client(directory)
        # Never the stored configuration's embedding function: it may name any code.
        self._collection = self._client.get_collection(COLLECTION, embedding_function=None)

    def nearest(self, queries: Vectors, count: int) -> list[Ints]:
        """For each query the ledger numbers of about the `count` nearest, in no order.

        Raises:
            IndexUnavailable: If Chroma fails or gives fewer than it holds.
        """
        wanted = min(count, self.manifest.count)
        try:
            answer = self._collection.query(query_embeddings=queries, n_results=wanted, include=[])
            found = [np.array([int(id) for id in ids], dtype=np.int64) for ids in answer["ids"]]
        except Exception as error:
            raise IndexUnavailable(f"Chroma failed: {type(error).__name__}") from error
        if len(found) != len(queries) or any(len(seqs) < wanted for seqs in found):
            raise IndexUnavailable(f"Chroma found fewer than {wanted} of its {self.manifest.count} vectors")
        return found

    def close(self) -> None:
        """Let go of the files."""
        close_client(self._client)


def open_client(directory: Path) -> Any:
    """Chroma on a generation's directory."""
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False, allow_reset=False)
    return chromadb.PersistentClient(str(directory / CHROMA), settings=settings)


def close_client(client: Any) -> None:
    """Chroma keeps a system for each path it was ever opened on; end this one."""
    close = getattr(client, "close", None)
    if close is not None:
        close()
