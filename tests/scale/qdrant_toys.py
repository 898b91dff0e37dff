"""Clients that count or fail, and a small corpus, for the tests of QdrantStore."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient

sys.path.insert(0, str(Path(__file__).parents[1] / "contracts"))

from corpus import NOW, by_id, corpus, queries, search

from umi_common.sim import HashEmbedder
from umi_common.stores.qdrant import QdrantStore
from umi_common.types import Chunk

__all__ = [
    "NOW",
    "Counting",
    "Failing",
    "Remote",
    "by_id",
    "corpus",
    "in_order",
    "local",
    "qdrant",
    "queries",
    "search",
]


class Counting:
    """A client that counts its calls."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return found(*args, **named)

        return call


class Failing:
    """A client whose calls of one method fail while `fail` says so of their number, from 1."""

    def __init__(self, client: Any, method: str, fail: Any) -> None:
        self._client, self._method, self.fail = client, method, fail
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name != self._method:
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._count += 1
            if self.fail(self._count):
                raise ConnectionError("the server is gone")
            return found(*args, **named)

        return call


class Remote:
    """A client in local mode that umi takes for the client of a server."""

    def __init__(self) -> None:
        self._client = local()
        self.init_options: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return (lambda **_: None) if name == "create_payload_index" else getattr(self._client, name)


def local() -> QdrantClient:
    """A client in local mode."""
    return QdrantClient(":memory:")


def qdrant(client: Any = None, **options: Any) -> QdrantStore:
    """An empty store."""
    return QdrantStore(local() if client is None else client, "toys", HashEmbedder(), **options)


def in_order(chunks: list[Chunk]) -> list[Chunk]:
    """The same chunks, those of a source at the positions 0, 1, 2 ..., as chats have them."""
    places: dict[str, int] = {}
    made = []
    for chunk in chunks:
        position = None
        if chunk.source is not None:
            position = places[chunk.source] = places.get(chunk.source, -1) + 1
        made.append(
            Chunk(
                chunk.id,
                chunk.text,
                metadata=chunk.metadata,
                source=chunk.source,
                position=position,
                event_time=chunk.event_time,
            )
        )
    return made
