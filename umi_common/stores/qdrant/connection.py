"""Calls to a Qdrant server about one collection; errors of the client are raised as errors of umi."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from umi_common.errors import ConfigError, StoreUnavailable, optional_module
from umi_common.runtime.forks import renew_in_child

OLDEST = (1, 10)
"""The oldest usable version of Qdrant, (major, minor): the first whose batched queries have all that umi uses, which is
idf of sparse vectors, prefetches, and records ordered by a payload field."""
POINTS_AT_ONCE = 1_000
"""Largest number of points read or deleted in one call."""


def models() -> Any:
    """`qdrant_client.models`, imported at the first call, because the import takes seconds. Raises MissingExtra if
    qdrant-client is not installed."""
    return optional_module("qdrant_client", "qdrant-client", "qdrant").models


class _LocalMode:
    """Has a lock, which lets one thread of the process at a time call Qdrant's local mode."""

    lock: threading.RLock

    def __init__(self) -> None:
        renew_in_child(self, lambda each: setattr(each, "lock", threading.RLock()))


_LOCAL_MODE = _LocalMode()


class Connection:
    """One collection through one client.

    Args:
        client: A `qdrant_client.QdrantClient`, or an object with its methods.
        collection: Name of the collection.
        consistency: Read consistency: "majority", "quorum", "all" or a number of replicas; None: the server's default.
        ordering: Write ordering: "weak", "medium" or "strong"; None: the server's default.

    Raises:
        ConfigError: If `client` is asynchronous or not a client, or `collection` is not a name.
        MissingExtra: If qdrant-client is not installed.
        StoreUnavailable: If the server does not answer, or is older than `OLDEST`.
    """

    def __init__(self, client: Any, collection: str, *, consistency: Any = None, ordering: Any = None) -> None:
        if inspect.iscoroutinefunction(getattr(client, "query_batch_points", None)):
            raise ConfigError(
                "client is asynchronous; pass a QdrantClient: asearch() calls it in a thread and never blocks the loop"
            )
        if not callable(getattr(client, "info", None)):
            raise ConfigError(f"client is {client!r:.80}; expected a QdrantClient: QdrantClient(url=...)")
        if not isinstance(collection, str) or not collection:
            raise ConfigError(f"collection is {collection!r:.80}; expected the name of a collection")
        models()  # raises MissingExtra
        self.collection = collection
        options = getattr(client, "init_options", None) or {}
        self.is_local = options.get("location") == ":memory:" or options.get("path") is not None
        """Whether the client runs Qdrant's local mode in this process. Local mode has no payload indexes, and one
        thread may call it at a time."""
        self._client = client
        self._read_options = {} if consistency is None else {"consistency": consistency}
        self._write_options = {"wait": True} if ordering is None else {"wait": True, "ordering": ordering}
        try:
            self.server = str(client.info().version)
        except Exception as error:
            raise StoreUnavailable(
                f"no Qdrant server answers ({error}); check that it runs, and its address and key"
            ) from error
        parts = self.server.split(".")[:2]
        if all(part.isdigit() for part in parts) and tuple(map(int, parts)) < OLDEST:
            raise StoreUnavailable(
                f"the Qdrant server is {self.server}; {'.'.join(map(str, OLDEST))} is the first that scores sparse "
                "vectors by idf in a batched query; upgrade it"
            )

    def call(self, method: str, /, **arguments: Any) -> Any:
        """The result of a method of the client. Raises StoreUnavailable if the method fails."""
        try:
            with _LOCAL_MODE.lock if self.is_local else nullcontext():
                return getattr(self._client, method)(collection_name=self.collection, **arguments)
        except Exception as error:
            raise StoreUnavailable(
                f"Qdrant failed at {method} on {self.collection!r} ({type(error).__name__}); "
                "see the cause, and the server's log"
            ) from error

    def query(self, requests: Sequence[Any]) -> list[list[Any]]:
        """The points of each request, best first, in one round trip."""
        answers = self.call("query_batch_points", requests=list(requests), **self._read_options)
        return [answer.points for answer in answers]

    def retrieve(self, ids: Sequence[str], *, payload: Any = True, vectors: Any = False) -> dict[str, Any]:
        """Records by point id; unknown ids are left out."""
        found: dict[str, Any] = {}
        for start in range(0, len(ids), POINTS_AT_ONCE):
            batch = list(ids[start : start + POINTS_AT_ONCE])
            records = self.call("retrieve", ids=batch, with_payload=payload, with_vectors=vectors, **self._read_options)
            found.update((str(record.id), record) for record in records)
        return found

    def page(
        self, where: Any, limit: int, offset: Any = None, *, payload: Any = True, vectors: Any = False
    ) -> tuple[list[Any], Any]:
        """(at most `limit` records that pass `where`, by rising point id from `offset` on; the next offset, None at the
        end)."""
        fields = {"with_payload": payload, "with_vectors": vectors, **self._read_options}
        records, following = self.call("scroll", scroll_filter=where, limit=limit, offset=offset, **fields)
        return list(records), following

    def pages(self, where: Any, *, payload: Any = True, vectors: Any = False) -> Iterator[list[Any]]:
        """All records that pass `where`, in pages, by rising point id."""
        offset = None
        while True:
            records, offset = self.page(where, POINTS_AT_ONCE, offset, payload=payload, vectors=vectors)
            yield records
            if offset is None:
                return

    def upsert(self, points: Sequence[Any]) -> None:
        """Insert points, or replace points with the same ids; returns when the write is done."""
        self.call("upsert", points=list(points), **self._write_options)

    def delete(self, ids: Sequence[str], condition: Any = None) -> None:
        """Remove the points with these ids that pass `condition`; returns when the write is done."""
        m = models()
        for start in range(0, len(ids), POINTS_AT_ONCE):
            batch = list(ids[start : start + POINTS_AT_ONCE])
            selector: Any = m.PointIdsList(points=batch)
            if condition is not None:
                selector = m.FilterSelector(filter=m.Filter(must=[m.HasIdCondition(has_id=batch), condition]))
            self.call("delete", points_selector=selector, **self._write_options)
