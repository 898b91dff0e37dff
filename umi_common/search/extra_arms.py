"""Extra arms: further ways to find chunks, called at the same time as the store. A search goes on if an arm fails.

In: a `SearchRequest`. Out: the hits of each arm that answered (`ArmHits`), which `recall` adds to the candidates.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction
from numbers import Real
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.config import EmbedderConfig, ExtraArmsConfig, UmiConfig
from umi_common.embedders.documents import BatchFailed, batches_of, embed_batches
from umi_common.embedders.sparse import SparseEncoder, SparseVector, sparse_cache
from umi_common.errors import ConfigError, IndexUnavailable
from umi_common.filters import Filter
from umi_common.pool import Ints
from umi_common.runtime.calls import Call, CallFailure, CallOutcome
from umi_common.runtime.forks import give_lock
from umi_common.runtime.guards import ThreadLimiter
from umi_common.runtime.losses import BadReply, log_bug, reason_of
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.stores.arrays import best_rows
from umi_common.stores.document_embedder import embedding_failure, progress
from umi_common.types import Chunk, TimeRange

STORE_ARMS = ("lexical", "dense")
"""The arms of the store; no extra arm may have one of these names."""
ENCODED_AT_ONCE = 2_000
"""Number of new chunks that are read, encoded and indexed in one step; it limits the memory that a step takes."""
WAIT_SECONDS = 1.0
"""Longest time that a search waits, in seconds, while another call encodes new chunks."""
SPARE_ROWS = 1_000
"""Texts whose chunks were removed are dropped only when there are more rows than 2 * chunks + SPARE_ROWS, because
dropping them rewrites all postings."""
NOT_ENCODED = "they are stored, but not searched by this encoder"
"""What an error message says about the chunks on which the encoder failed."""
UNKNOWN = -1
"""Code of a query term that no text holds, and row of a dropped text."""

ArmReply = Sequence[tuple[Chunk | str, float]]
"""(chunk or id, score) pairs, best first. Larger scores are better; pairs with a score <= 0 are dropped."""
ArmSearch = Callable[[str, int, Filter | None, TimeRange | None], ArmReply]
AsyncArmSearch = Callable[[str, int, Filter | None, TimeRange | None], Awaitable[ArmReply]]


@dataclass(frozen=True, slots=True)
class Arm:
    """An extra arm of a `DualRetriever`: a web search, a graph, another vector store.

    `search(query, k, where, window)` returns at most k (chunk or id, score) pairs, best first; scores are > 0, and
    larger scores are better. An id is that of a chunk in the store; the store need not hold a chunk that is returned as
    a `Chunk`. `search` may ignore `where` and `window`, because chunks that do not pass are dropped later. If the store
    holds the chunk, its metadata decides.

    Args:
        name: The arm's name in signals and degradations; neither "lexical" nor "dense".
        search: May block; called from many threads at once.
        weight: >= 0, on the scale of `fusion.lexical_weight` and `fusion.dense_weight`. It is doubled, at most to the
            sum of these two weights, for chunks that the store did not score: only extra arms add to their scores.
        asearch: `search` for event loops; None: `search` runs in a thread.

    Raises:
        ConfigError: If an argument is not as described.
    """

    name: str
    search: ArmSearch
    weight: float = 0.5
    asearch: AsyncArmSearch | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name in STORE_ARMS:
            raise ConfigError(f"arm name {self.name!r}: expected a string other than {', '.join(STORE_ARMS)}")
        if not callable(self.search):
            raise ConfigError(f"arm {self.name!r}: search is {type(self.search).__name__}; expected a function")
        if self.asearch is not None and not callable(self.asearch):
            raise ConfigError(f"arm {self.name!r}: asearch is {type(self.asearch).__name__}; expected a function")
        if iscoroutinefunction(self.search):
            raise ConfigError(f"arm {self.name!r}: search is async; give it as asearch, and a sync function as search")
        weight: object = self.weight
        if not (isinstance(weight, Real) and 0 <= float(weight) < math.inf):
            raise ConfigError(f"arm {self.name!r}: weight {self.weight!r}: expected a number >= 0")


class SparseArm(Arm):
    """An extra arm that finds the store's chunks by a learned sparse encoder, such as a SPLADE model.

    score(q, d) = sum over terms t of w_q(t) * w_d(t)      weights are float32, sums float64

    w_q(t) and w_d(t) are the encoder's weights of t in the query and in the chunk's text. The search is exact and reads
    postings in memory. Filter and time range are applied before the best k are taken. A search first updates the index
    with the chunks that were added, replaced or deleted since the last update. A text is encoded once: its weights are
    kept in `sparse.db`, by model and hash of the text.

    Args:
        store: A `HybridStore`, a `ChromaStore`, or a store that offers `listing` (`protocols.Store`).
        encoder: sentence-transformers' `SparseEncoder`, fastembed's `SparseTextEmbedding`, an object with
            `encode_document` and `encode_query`, or a function; each returns one {term: weight} for each text. It
            is called from several threads at once.
        model: Name and version of the encoder. None: the name that the encoder states. If it states none, like a
            function or a model of sentence-transformers, the weights are kept in memory only.
        directory: An existing directory for `sparse.db`. None: the store's directory; the weights are kept in memory
            only if the store has none. In the directory of a read-only store, `sparse.db` is only read.
        name, weight: As in `Arm`.
        show_progress: Whether to show a progress bar while the texts that the store holds now are encoded.

    Raises:
        ConfigError: If an argument is not as described.
        EmbedderError: If the encoder fails here or in `update`. If it fails in a search, the search leaves the arm out.
    """

    _index: SparseIndex
    _rebuild: Callable[[], SparseArm]

    def __init__(
        self,
        store: Any,
        encoder: Any,
        *,
        model: str | None = None,
        directory: str | os.PathLike[str] | None = None,
        name: str = "sparse",
        weight: float = 0.5,
        show_progress: bool = False,
    ) -> None:
        index = SparseIndex(store, SparseEncoder(encoder, model), directory)
        super().__init__(name, index.search, weight)
        options: dict[str, Any] = {"model": model, "directory": directory, "name": name, "weight": weight}
        object.__setattr__(self, "_index", index)  # an Arm is frozen
        object.__setattr__(self, "_rebuild", partial(type(self), store, encoder, **options))
        self.update(show_progress=show_progress)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._rebuild, ()  # the process that unpickles the arm makes an index of its own

    def update(self, *, show_progress: bool = False) -> None:
        """Index the chunks that the store holds now. Call it after a large write.

        A search indexes new chunks, too, but it leaves the arm out if that takes longer than
        `extra_arms.timeout_seconds`. After an interrupt, the next call continues with the chunks that are not indexed.
        """
        self._index.update(show_progress=show_progress)


def listed_arms(arms: Any) -> tuple[Any, ...]:
    """The arms that a caller gave, as a tuple; () for None.

    Raises:
        ConfigError: If `arms` is no collection.
    """
    if arms is None:
        return ()
    if not isinstance(arms, Collection) or isinstance(arms, str):
        raise ConfigError(f"arms is {type(arms).__name__}; expected a list of arms: arms=[...]")
    return tuple(arms)


def arms_of(retrievers: Sequence[Any] | None, as_arm: Callable[[Any], Arm]) -> list[Arm]:
    """One arm for each of a framework's retrievers; the second arm of a class is named "<class> 2", and so on.

    Args:
        retrievers: Retrievers of the framework, or arms, which keep their names; None: there are none.
        as_arm: Makes an arm of a retriever, named after the retriever's class; returns an arm unchanged.
    """
    seen: Counter[str] = Counter()
    arms = []
    for retriever in listed_arms(retrievers):
        arm = as_arm(retriever)
        seen[arm.name] += 1
        renamed = seen[arm.name] > 1 and arm is not retriever
        arms.append(replace(arm, name=f"{arm.name} {seen[arm.name]}") if renamed else arm)
    return arms


@dataclass(frozen=True, slots=True)
class ArmHits:
    """The hits of one arm for one search."""

    scores: Mapping[str, float]
    """Score of each hit by id, > 0."""
    chunks: Mapping[str, Chunk]
    """Chunk of each hit by id, for the hits that the arm returned as chunks."""


class ExtraArms:
    """The extra arms of one retriever, each with its thread limit.

    Raises:
        ConfigError: If two arms have the same name, or an element of `arms` is no `Arm`.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        for arm in arms:
            if not isinstance(arm, Arm):
                raise ConfigError(f"arms holds {type(arm).__name__}; expected Arm(name, search)")
        self.weights = {arm.name: arm.weight for arm in arms}
        if len(self.weights) < len(arms):
            raise ConfigError(f"arms {[arm.name for arm in arms]}: two have the same name; give each a name of its own")
        self._arms = [(arm, ThreadLimiter()) for arm in arms]

    def calls(self, request: SearchRequest, config: ExtraArmsConfig) -> tuple[Call, ...]:
        """The calls of all arms, one for each."""
        return tuple(_call(arm, limiter, request, config) for arm, limiter in self._arms)

    def hits(self, outcomes: Sequence[CallOutcome], trace: TraceBuilder) -> dict[str, ArmHits]:
        """Hits by arm from the outcomes of `calls`; for an arm that failed, the trace gets a degradation."""
        by_arm: dict[str, ArmHits] = {}
        for (arm, _), outcome in zip(self._arms, outcomes, strict=True):
            if isinstance(outcome, CallFailure):
                log_bug(arm.name, outcome.error)
                trace.degrade(arm.name, reason_of(outcome.error), "searched without it")
            else:
                by_arm[arm.name] = outcome
        return by_arm


def _call(arm: Arm, limiter: ThreadLimiter, request: SearchRequest, config: ExtraArmsConfig) -> Call:
    """The call of an arm within its time limit; its result is an `ArmHits`."""
    arguments = request.query, config.depth, request.where, request.time_range

    def search() -> ArmHits:
        return _checked_hits(arm.search(*arguments), config.depth)

    async def asearch(function: AsyncArmSearch) -> ArmHits:
        return _checked_hits(await function(*arguments), config.depth)

    without_blocking = None if arm.asearch is None else partial(asearch, arm.asearch)
    return limiter.limited(search, config.timeout_seconds, without_blocking)


def _checked_hits(reply: ArmReply, depth: int) -> ArmHits:
    """The checked hits of a reply. Raises BadReply if it is no `ArmReply`."""
    scores: dict[str, float] = {}
    chunks: dict[str, Chunk] = {}
    try:
        best = list(reply)[:depth]
        if any(isinstance(pair, str) for pair in best):  # "t1" would be read as the pair ("t", 1.0)
            raise TypeError
        pairs = [(found, float(score)) for found, score in best]
    except (TypeError, ValueError):
        raise BadReply(f"gave {type(reply).__name__}; expected (chunk or id, score) pairs") from None
    for found, score in pairs:
        if not isinstance(found, (Chunk, str)) or not math.isfinite(score):
            raise BadReply(f"gave {type(found).__name__} and a score; expected a chunk or id and a finite number")
        id = found.id if isinstance(found, Chunk) else found
        if score > 0:
            scores.setdefault(id, score)
            if isinstance(found, Chunk):
                chunks.setdefault(id, found)
    return ArmHits(scores, chunks)


class _Segment(NamedTuple):
    """P postings, sorted by the code of the term."""

    codes: npt.NDArray[np.int32]
    """(P,) codes of the terms."""
    rows: npt.NDArray[np.int32]
    """(P,) rows of the texts; no row twice for one term."""
    weights: npt.NDArray[np.float32]
    """(P,) weight of the term in the text."""


class _State(NamedTuple):
    """The index after an update: n chunks, and one row for each distinct text, also for texts of removed chunks."""

    ids: npt.NDArray[np.object_] = np.zeros(0, np.object_)
    """(n,) ids of the chunks."""
    versions: Ints = np.zeros(0, np.int64)
    """(n,) versions of the chunks, rising. Each time that a chunk is added or replaced, the store gives it a version
    that is larger than all before."""
    texts: Ints = np.zeros(0, np.int64)
    """(n,) row of each chunk's text."""
    rows: int = 0
    """Number of rows."""
    segments: tuple[_Segment, ...] = ()
    """Postings of all rows; no row is in two segments."""


class SparseIndex:
    """The index of a `SparseArm`: postings of the store's chunks, updated before each search. Thread-safe.

    Each distinct text has one row, so a chunk is not encoded again if only its metadata changes. The postings of new
    texts form a new segment. The last two segments are merged while the older has at most twice as many postings.

    Args:
        store: Has the method `listing` of `protocols.Store`, which gives the ids and versions of its chunks.
        encoder: Computes the weights of a text's terms.
        directory: Directory of the file that caches the encoded texts; None: the store's directory. There is no file
            if the store has no directory, or if the encoder states no name.

    Raises:
        ConfigError: If the store has no `listing`.
    """

    _lock: Lock

    def __init__(self, store: Any, encoder: SparseEncoder, directory: str | os.PathLike[str] | None) -> None:
        if not hasattr(store, "listing"):
            raise ConfigError(
                f"store is {type(store).__name__}, which does not list the versions of its chunks; expected a "
                "HybridStore, a ChromaStore or a store with the method `listing` of protocols.Store"
            )
        self._store, self._encoder = store, encoder
        config = getattr(store, "config", None)
        self._config = config.embedder if isinstance(config, UmiConfig) else EmbedderConfig()
        writable = directory is not None or not getattr(store, "read_only", False)
        folder = getattr(store, "path", None) if directory is None else directory
        self._cache = None
        if folder is not None and encoder.named:
            self._cache = sparse_cache(Path(folder), encoder, writable=writable)
        self._codes: dict[str, int] = {}
        self._row_of: dict[bytes, int] = {}
        """The row of a text, by the SHA-256 hash of the text."""
        self._state = _State()
        give_lock(self)

    def search(self, query: str, k: int, where: Filter | None, window: TimeRange | None) -> list[tuple[str, float]]:
        """(id, score > 0) of the best k chunks that pass the filter and the time range, best first, then by rising id.

        Raises the errors of `update`.
        """
        state = self.update(wait_seconds=WAIT_SECONDS)
        ((terms, weights),) = self._encoder.embed_queries([query])
        codes = np.array([self._codes.get(term, UNKNOWN) for term in terms], np.int32)
        sums = np.zeros(state.rows)
        for segment in state.segments:
            first, end = segment.codes.searchsorted(codes), segment.codes.searchsorted(codes, "right")
            for of_term, weight in zip(map(slice, first, end), weights, strict=True):
                sums[segment.rows[of_term]] += np.multiply(segment.weights[of_term], weight, dtype=np.float64)
        scores = sums[state.texts]
        if where is not None or window is not None:
            listing = self._store.listing(where=where, window=window)
            scores *= np.isin(state.versions, listing.versions[listing.passing], assume_unique=True)
        chunks = np.flatnonzero(scores > 0.0)
        found, values = best_rows(chunks, scores[chunks], k, state.ids.__getitem__)
        return list(zip(state.ids[found].tolist(), values.tolist(), strict=True))

    def update(self, *, show_progress: bool = False, wait_seconds: float = -1.0) -> _State:
        """Index the chunks that the store holds now, and return the index.

        Args:
            wait_seconds: Longest wait, in seconds, for another thread that encodes new chunks; -1: no limit.

        Raises:
            EmbedderError: If the encoder fails. Chunks of earlier steps (ENCODED_AT_ONCE) stay indexed.
            IndexUnavailable: If another thread still encodes after `wait_seconds`.
        """
        if not self._lock.acquire(timeout=wait_seconds):
            raise IndexUnavailable(f"sparse encoder {self._encoder.name!r} is still encoding new chunks")
        try:
            listing, state = self._store.listing(), self._state
            living = listing.versions[listing.passing]
            if np.array_equal(living, state.versions):
                return state
            new = np.flatnonzero(listing.passing & ~np.isin(listing.versions, state.versions, assume_unique=True))
            kept = np.isin(state.versions, living, assume_unique=True)
            self._state = state._replace(ids=state.ids[kept], versions=state.versions[kept], texts=state.texts[kept])
            with progress(len(new), show_progress) as advance:
                for start in range(0, len(new), ENCODED_AT_ONCE):
                    listed = new[start : start + ENCODED_AT_ONCE]
                    chunks = self._store.get([listing.ids[index] for index in listed.tolist()])
                    self._add(chunks, listing.versions[listed], advance)
            if self._state.rows > 2 * len(self._state.ids) + SPARE_ROWS:
                self._drop_unused()
            return self._state
        finally:
            self._lock.release()

    def _add(self, chunks: Sequence[Chunk | None], versions: Ints, advance: progress) -> None:
        """Index chunks. An entry is None if its chunk was removed after the store listed it."""
        state, found = self._state, [chunk for chunk in chunks if chunk is not None]
        keys = [hashlib.sha256(c.indexed_text.encode("utf-8", "surrogatepass")).digest() for c in found]
        new = {key: chunk for key, chunk in zip(keys, found, strict=True) if key not in self._row_of}
        advance(len(chunks) - len(new))
        segments = [*state.segments, self._segment(self._encoded(list(new.values()), advance), state.rows)]
        while len(segments) > 1 and len(segments[-2].rows) <= 2 * len(segments[-1].rows):
            segments[-2:] = [_merged(segments[-2:])]
        row_of = dict(zip(new, range(state.rows, state.rows + len(new)), strict=True))
        texts = [row_of[key] if key in row_of else self._row_of[key] for key in keys]
        self._state = _State(
            np.concatenate([state.ids, np.array([chunk.id for chunk in found], np.object_)]),
            np.concatenate([state.versions, versions[[chunk is not None for chunk in chunks]]]),
            np.concatenate([state.texts, np.array(texts, np.int64)]),
            state.rows + len(new),
            tuple(segments),
        )
        self._row_of.update(row_of)  # last: after an interrupt, every row in `_row_of` exists

    def _encoded(self, chunks: Sequence[Chunk], advance: progress) -> list[SparseVector]:
        """The vector of each chunk's text, from the cache file or the encoder. The texts are distinct."""
        texts, cache = [chunk.indexed_text for chunk in chunks], self._cache
        encoder: Any = self._encoder
        known: dict[str, SparseVector] = {} if cache is None else cache.get(texts)
        missing = [index for index, text in enumerate(texts) if text not in known]
        advance(len(texts) - len(missing))

        def on_batch(batch: Sequence[int], vectors: list[SparseVector]) -> None:
            new = {texts[index]: vector for index, vector in zip(batch, vectors, strict=True)}
            known.update(new)
            if cache is not None:
                cache.put(new)
            advance(len(batch))

        batches = batches_of(texts, missing, self._config)
        try:
            embed_batches(encoder, texts, batches, self._config, on_batch, advance.note)
        except BatchFailed as failed:
            name, ids = f"sparse encoder {encoder.name!r}", [chunk.id for chunk in chunks]
            raise embedding_failure(failed, ids, name, cache, NOT_ENCODED) from failed.__cause__
        return [known[text] for text in texts]

    def _segment(self, vectors: Sequence[SparseVector], first: int) -> _Segment:
        """The segment of new texts, whose rows are numbered from `first`."""
        codes = [self._codes.setdefault(term, len(self._codes)) for terms, _ in vectors for term in terms]
        rows = np.repeat(np.arange(first, first + len(vectors)), [len(terms) for terms, _ in vectors])
        weights = np.concatenate([np.zeros(0, np.float32), *(weights for _, weights in vectors)])
        return _merged([_Segment(np.array(codes, np.int32), rows.astype(np.int32), weights)])

    def _drop_unused(self) -> None:
        """Drop the rows of texts that no chunk has, and renumber the other rows."""
        state, used = self._state, np.zeros(self._state.rows, np.bool_)
        used[state.texts] = True
        new_row = np.where(used, used.cumsum() - 1, UNKNOWN)
        whole = _merged(state.segments)
        kept = used[whole.rows]
        segment = _Segment(whole.codes[kept], new_row[whole.rows[kept]].astype(np.int32), whole.weights[kept])
        # `_row_of` must never hold old row numbers beside the new state, so it is empty until the last line. After an
        # interrupt it stays empty, and a text that has a row gets another one if a new chunk has it.
        row_of, self._row_of = self._row_of, {}
        self._state = state._replace(texts=new_row[state.texts], rows=int(used.sum()), segments=(segment,))
        self._row_of = {key: int(new_row[row]) for key, row in row_of.items() if used[row]}


def _merged(segments: Sequence[_Segment]) -> _Segment:
    """One segment with the postings of all, sorted by the code of the term."""
    codes, rows, weights = map(np.concatenate, zip(*segments, strict=True))
    order = codes.argsort(kind="stable")
    return _Segment(codes[order], rows[order], weights[order])
