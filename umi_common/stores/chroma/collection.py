"""The calls to a user's Chroma collection.

Each call goes through `ChromaCollection.call`, which waits for an asynchronous client and turns errors of Chroma into
StoreUnavailable. A call to a server has a time limit; after one that exceeded it, none is made for PAUSE_SECONDS.
`observe` reports the writes that other code makes through the same collection object. `refuse_other_model` compares
stored vectors with those of an embedder.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from umi_common.errors import ConfigError, ReindexRequired, StoreUnavailable
from umi_common.pool import Bools, Vectors, unit_vectors
from umi_common.protocols import Embedder
from umi_common.runtime.guards import Breaker, DeadlineExceeded, ThreadLimiter
from umi_common.runtime.loop_thread import LoopThread
from umi_common.runtime.losses import PAUSED
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk, utf8_text

if TYPE_CHECKING:
    from umi_common.stores.chroma.following import Follower

RECORDS_AT_ONCE = 1_000
"""Largest number of records that are read or written in one call; smaller if the client allows fewer."""
IDS_AT_ONCE = 200_000
"""Largest number of ids that are listed in one call. For each further call, Chroma reads all earlier ids again: 100,000
ids take 6 s in twenty calls and 0.7 s in one."""
WRITES = ("add", "update", "upsert", "delete")
"""Methods of a collection that change records."""
READS_MAX = 10
"""Largest number of times that `whole_records` reads a record again, while other programs replace it between reads."""

READ_SECONDS = 10.0
"""Time limit for a server's answer to a read during a search, in seconds. Chroma's own clients wait without limit."""
LISTING_SECONDS = 60.0
"""Time limit for a server's listing of IDS_AT_ONCE ids, in seconds."""
WRITE_SECONDS = 120.0
"""Time limit for a server's storing or deleting of RECORDS_AT_ONCE records, in seconds. A search that must update umi's
index of the collection first waits until a running write of this process ends, so it may wait as long. A write past
this limit may still be completed; its followers are called then."""
PAUSE_SECONDS = 10.0
"""Pause after a call that was not answered in time, in seconds. A call during the pause raises at once;
its message says PAUSED ("left alone"), so searches do not log it again."""
CALLS_AT_ONCE = 256
"""Largest number of calls that wait for a server at the same time."""

STALE = "Error finding id"
"""Part of Chroma's message if a PersistentClient knows a record that another process wrote, but not its vector."""
NOT_WRITTEN = ("disk is full", "Error in compaction")
"""Parts of Chroma's messages if it cannot write its files. On a full disk most messages are of the second kind."""
SAMPLES = 3
"""Number of stored texts that are embedded to check that the embedder made the collection's vectors."""
COSINE_MIN = 0.9
"""Smallest cosine of a stored vector with a new vector of the same text. If it is smaller, another model made the
stored vector. The limit is below 1 because embedding services round their numbers."""
MODEL_ADVICE = (
    "pass the embedder that made them: ChromaStore(collection, embedder=...), embedding= in LangChain, or embed_model= "
    "in LlamaIndex"
)
"""End of the message of an error about a collection that is searched in place and holds another model's vectors."""


class Record(NamedTuple):
    """A record of the collection as it was read."""

    id: str
    text: str | None
    metadata: dict[str, Any]


def records_of(got: dict[str, Any]) -> dict[str, Record]:
    """Records by id from the result of a collection's `get` with documents and metadatas."""
    rows = zip(got["ids"], got["documents"], got["metadatas"], strict=True)
    return {id: Record(id, text, dict(metadata or {})) for id, text, metadata in rows}


class ChromaCollection:
    """The calls to a collection, which the caller owns.

    Args:
        collection: A collection of a Chroma client, or the vector store of LangChain or LlamaIndex around one. The
            vector store is asked for its collection at each call, because it may create the collection again.
        read_seconds: Time limit for a server's answer to a read, in seconds.

    Raises:
        ConfigError: If `collection` is not one of these.
        StoreUnavailable: If the vector store's collection was deleted.
    """

    def __init__(self, collection: Any, read_seconds: float = READ_SECONDS) -> None:
        self._given, self._read_seconds = collection, read_seconds
        inner = self._inner
        if not all(callable(getattr(inner, name, None)) for name in ("count", "get")):
            raise ConfigError(
                f"collection is {type(collection).__name__}; expected a Chroma collection, or the vector store of "
                "LangChain or LlamaIndex around one"
            )
        self._loop = LoopThread("umi-chroma") if inspect.iscoroutinefunction(inner.count) else None
        client = getattr(inner, "_client", None)
        self._server = _Server() if "fastapi" in type(client).__module__ else None
        """None: Chroma runs in this process. The class of a server's client is in a module named "fastapi"."""
        self._has_lists = False
        """Whether a record with a list in its metadata was read."""
        self.batch = RECORDS_AT_ONCE
        if hasattr(client, "get_max_batch_size"):
            self.batch = min(self.batch, self.call("get_max_batch_size", client))

    @property
    def _inner(self) -> Any:
        try:
            return getattr(self._given, "_collection", self._given)
        except ValueError as error:  # LangChain's store after its delete_collection()
            raise StoreUnavailable(
                "the vector store's collection was deleted; make another vector store, and another ChromaStore over it"
            ) from error

    def close(self) -> None:
        """End the thread that calls an asynchronous client; the collection stays open."""
        if self._loop is not None:
            self._loop.close()

    def observe(self, follower: Follower) -> None:
        """Call `follower.written` after each write through the collection object, as long as both exist; never, if the
        methods WRITES of the object cannot be replaced. They are replaced once, for all followers."""
        inner = self._inner
        followers: WeakSet[Follower] | None = getattr(inner, "_umi_followers", None)
        if followers is None:
            followers = WeakSet()
            with suppress(AttributeError):
                inner._umi_followers = followers
                for name in WRITES:
                    setattr(inner, name, _notifying(getattr(inner, name), followers))
        followers.add(follower)

    @property
    def name(self) -> str:
        return str(self._inner.name)

    @property
    def id(self) -> str:
        """Chroma's id of the collection; a collection that is deleted and created again gets a new id."""
        return str(self._inner.id)

    def call(self, method: str, client: Any = None, /, **arguments: Any) -> Any:
        """The result of a method of the collection, or of `client`. Raises StoreUnavailable if the method fails."""
        run = partial(getattr(self._inner if client is None else client, method), **arguments)
        if self._loop is not None:
            run = partial(self._loop.run, run)
        is_listing = arguments.get("limit") == IDS_AT_ONCE
        seconds = WRITE_SECONDS if method in WRITES else LISTING_SECONDS if is_listing else self._read_seconds
        try:
            return run() if self._server is None else self._server.answer(run, seconds)
        except StoreUnavailable:
            raise
        except Exception as error:
            raise StoreUnavailable(
                f"Chroma failed at {method} on {self.name!r} ({type(error).__name__}); {_advice(error)}"
            ) from error

    def count(self) -> int:
        return int(self.call("count"))

    def pages_of_ids(self) -> Iterator[list[str]]:
        """The ids of all records, at most IDS_AT_ONCE at a time, in Chroma's order."""
        for offset in itertools.count(0, IDS_AT_ONCE):
            page = self.call("get", include=[], limit=IDS_AT_ONCE, offset=offset)["ids"]
            yield page
            if len(page) < IDS_AT_ONCE:
                return

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        """Records by id; unknown ids are left out."""
        found: dict[str, Record] = {}
        for some in self.batches(ids):
            found |= records_of(self.call("get", ids=some, include=["documents", "metadatas"]))
        metadatas = (record.metadata for record in found.values())
        self._has_lists |= any(isinstance(value, list) for metadata in metadatas for value in metadata.values())
        return found

    def whole_records(self, ids: Sequence[str]) -> dict[str, Record]:
        """`records`, with text and metadata of one version.

        Chroma reads the lists of the metadata after the rest of a record, so a write between the two gives the text of
        one version with the lists of the next. Once a record with a list was read, records are read again until two
        successive reads are equal; after READS_MAX further reads, the last one is returned as it is.
        """
        found, unsure = self.records(ids), list(dict.fromkeys(ids))
        for _ in range(READS_MAX):
            if not unsure or not self._has_lists:
                break
            earlier = {id: found.pop(id, None) for id in unsure}
            found |= self.records(unsure)
            unsure = [id for id, record in earlier.items() if found.get(id) != record]
        return found

    def vectors(self, ids: Sequence[str], dim: int) -> tuple[Vectors, Bools]:
        """(n, dim) float32 vectors aligned with ids, zeros for an unknown id; and (n,) whether each id is known.

        Raises:
            ReindexRequired: If the collection's vectors have another dimension.
        """
        stored: dict[str, Any] = {}
        for some in self.batches(list(dict.fromkeys(ids))):
            got = self.call("get", ids=some, include=["embeddings"])
            stored.update(zip(got["ids"], np.asarray(got["embeddings"], dtype=np.float32), strict=True))
        other = next((len(vector) for vector in stored.values() if len(vector) != dim), dim)
        if other != dim:
            raise ReindexRequired(
                f"the vectors of collection {self.name!r} have {other} dimensions, the embedder's have {dim}; "
                f"{MODEL_ADVICE}"
            )
        zeros = np.zeros(dim, dtype=np.float32)
        made = np.array([stored.get(id, zeros) for id in ids], dtype=np.float32).reshape(len(ids), dim)
        return made, np.array([id in stored for id in ids], dtype=np.bool_)

    def delete(self, ids: Sequence[str], where: dict[str, Any] | None) -> None:
        """Remove the records with these ids that pass `where`, a clause of Chroma."""
        for some in self.batches(ids):
            self.call("delete", ids=some, where=where)

    def batches(self, ids: Sequence[str]) -> Iterator[list[str]]:
        """The ids, at most `batch` at a time, without those that UTF-8 cannot encode, on which Chroma fails."""
        ids = [id for id in ids if utf8_text(id) == id]
        for start in range(0, len(ids), self.batch):
            yield ids[start : start + self.batch]


class _Server:
    """Calls a server with a time limit; after a call that exceeded it, none is made for PAUSE_SECONDS."""

    def __init__(self) -> None:
        self._limiter, self._breaker = ThreadLimiter(CALLS_AT_ONCE), Breaker(1, PAUSE_SECONDS, time.monotonic)

    def answer(self, call: Callable[[], Any], seconds: float) -> Any:
        """The result of a call. Raises the errors of `ThreadLimiter.call`; StoreUnavailable during a pause."""
        if not self._breaker.enter():
            raise StoreUnavailable(f"{PAUSED} for {PAUSE_SECONDS:g} s after Chroma's server did not answer in time")
        try:
            result = self._limiter.call(call, seconds)
        except DeadlineExceeded:
            self._breaker.failed()
            raise
        except BaseException:
            self._breaker.abandoned()
            raise
        self._breaker.succeeded()
        return result


def _advice(error: Exception) -> str:
    """End of the message about an error of Chroma: the cause if it is known, and what to do."""
    if isinstance(error, DeadlineExceeded):
        return f"the server did not answer in time and is {PAUSED} for {PAUSE_SECONDS:g} s"
    if type(error).__name__ in ("NotFoundError", "InvalidCollectionException"):
        return "it was deleted; make it again, and open another ChromaStore or repeat the import with it"
    if STALE in str(error):
        return (
            "another process has written to its folder, and a PersistentClient reads the vectors there only once; "
            "restart this process, or use a Chroma server (HttpClient) in both"
        )
    if any(part in str(error) for part in NOT_WRITTEN):
        return "it could not write its files; check whether their disk is full"
    return "see the cause"


def _notifying(write: Callable[..., Any], followers: WeakSet[Follower]) -> Callable[..., Any]:
    """A function that calls `write`, then `written` of each follower with the ids of the records.

    The ids are the argument `ids`, or the first argument; none for a deletion by a filter, `delete(where=...)`.
    """

    @contextmanager
    def noted(ids: Any = None, *_: Any, **__: Any) -> Iterator[None]:
        try:
            yield
        finally:
            stated = [] if ids is None else [ids] if isinstance(ids, str) else list(ids)
            for follower in tuple(followers):
                follower.written(stated)

    @wraps(write)
    def notifying(*arguments: Any, **named: Any) -> Any:
        with noted(*arguments, **named):
            return write(*arguments, **named)

    @wraps(write)
    async def anotifying(*arguments: Any, **named: Any) -> Any:
        with noted(*arguments, **named):
            return await write(*arguments, **named)

    return anotifying if inspect.iscoroutinefunction(write) else notifying


def refuse_other_model(name: str, chunks: Sequence[Chunk], vectors: Vectors, embedder: Embedder, advice: str) -> None:
    """Raise if stored vectors were made by another embedder; a row of zeros is not compared.

    Args:
        vectors: (n, dim) the stored vector of each chunk.
        advice: End of the error message, which says what to do.

    Raises:
        ReindexRequired: If the dimensions differ, or a cosine is below COSINE_MIN.
    """
    texts = [chunk.indexed_text for chunk in chunks]
    ours = embedded([chunk.id for chunk in chunks], texts, embedder, dim=None)
    theirs = unit_vectors(vectors)
    present = theirs.any(axis=1)
    if ours.shape != theirs.shape or min(cosines(ours, theirs).diagonal()[present], default=1.0) < COSINE_MIN:
        raise ReindexRequired(
            f"the vectors of collection {name!r} ({theirs.shape[1]} dimensions) were not made by embedder "
            f"{embedder.name!r} ({ours.shape[1]}); {advice}"
        )
