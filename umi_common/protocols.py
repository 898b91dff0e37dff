"""Protocols of the parts that a caller can replace: store, embedder, rewriter, reranker, token counter.

Each method states what an implementation must guarantee. `tests/contracts` runs one test suite over every store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any, Literal, Protocol, runtime_checkable

from umi_common.config import DecayConfig, LexicalConfig, RecallConfig
from umi_common.decay import factors_of
from umi_common.filters import Filter, Where, matches
from umi_common.pool import Floats, Pool, Vectors
from umi_common.types import Chunk, Stage, TimeRange, age_in_hours

Clock = Callable[[], datetime]
"""The present, as an aware datetime."""
OnStage = Callable[[str], Callable[[Stage], None]]
"""Called with a stage's name when it begins; returns a function that is called with the stage when it ends. Both run on
the thread or event loop of the search, which waits for them; an exception that they raise ends the search."""
Strategy = Literal["hybrid", "text", "vector"]
"""The arms that search: both arms of the store and the extra arms ("hybrid"), or one arm of the store alone: the
lexical arm ("text") or the dense arm ("vector")."""


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts, for example a sentence encoder.

    An embedder may also have these attributes:

        aembed_queries  `embed_queries` as a coroutine function, which async searches await
        in_place        True: it computes in this process within a millisecond. A search then calls it in its own
                        thread, without time limit, retries and cache
        calls_max       largest number of concurrent `embed_queries` calls, for a model that computes in this process.
                        The time limit of a search that needs n times as many calls is n times as long
        one_by_one      True: `embed_queries` makes one request per text. umi then calls it with one text at a time
        named           False: `name` does not identify the model. umi then caches no vectors in a file
    """

    @property
    def name(self) -> str:
        """Name and version of the model. A store opens only with an embedder of the name with which it was made."""

    @property
    def dim(self) -> int:
        """Number of coordinates of a vector."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, row i for texts[i]; vectors of any length. Equal texts have equal vectors."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, row i for texts[i]; in the vector space of the documents."""


@runtime_checkable
class Rewriter(Protocol):
    """A language model: one prompt in, one reply out. May offer `acomplete` for async callers."""

    def complete(self, prompt: str) -> str:
        """The raw reply. Any exception counts as a failed call; the search then continues without variations."""


@runtime_checkable
class Reranker(Protocol):
    """Scores candidates against the query, for example a cross-encoder. `rerank` may be async."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score per text, aligned with texts: a finite number, larger is better, or -inf, which drops the text.

        If it drops a text, the candidates that the reranker was not given are left out of the hits, too.
        """


class TokenCounter(Protocol):
    """Counts the tokens of a text as some model's tokenizer does."""

    def count(self, text: str) -> int:
        """The number of tokens, >= 0; 0 for the empty text."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A query variation and, if the caller has it, its vector."""

    text: str
    vector: Vectors | Exception | None = None
    """(dim,); None: the store's embedder makes the vector; an exception: the store's `aembed` failed with it."""
    ids: tuple[str, ...] = ()
    """Ids of chunks that the pool must hold even if no arm finds them. A store may ignore this field."""
    typed: str | None = None
    """The query as the user typed it, if `text` lacks some of its words; None: `text` is the query. The caller's own
    embedder is given `typed`, because it may cache vectors by the query; umi's built-in models are given `text`."""
    references: bool = False
    """Whether the pool must also hold the chunks that the text names (`Pool.named`) and those to which its best
    candidates refer (`Pool.links`). A store may ignore this field."""


def chunk_passes(chunk: Chunk, where: Filter | None, window: TimeRange | None) -> bool:
    """Whether a chunk passes the filter and has a time in the window; None as filter or window: every chunk passes."""
    inside = window is None or (chunk.event_time is not None and chunk.event_time in window)
    return inside and (where is None or matches(where, chunk.metadata))


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """The arguments of one `Store.recall`. A store may make one from them: `RecallRequest(probes, **options)`."""

    probes: Sequence[Probe]
    depth: int
    """Largest number of chunks that each arm finds for each probe, >= 1."""
    now: datetime
    where: Filter | None = None
    """None: every chunk passes."""
    window: TimeRange | None = None
    """None: chunks of any time, and chunks without one, pass."""
    lexical: LexicalConfig = field(default_factory=LexicalConfig)
    decay: DecayConfig = field(default_factory=DecayConfig)
    around: int = 0
    """Number of chunks before and after each of the best ones, in its source, that join the pool; see NEIGHBOURS_OF."""
    strategy: Strategy = "hybrid"
    embedder_timeout_seconds: float = RecallConfig().embedder_timeout_seconds

    def run(self, store: Store) -> Pool:
        """The pool of `store.recall`, and its errors. `recall` gets the LATER_OPTIONS only if it takes them."""
        lacking = _options_lacking(getattr(store.recall, "__func__", store.recall))
        options = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in lacking}
        return store.recall(options.pop("probes"), **options)

    def passes(self, chunk: Chunk) -> bool:
        """`chunk_passes` for this search."""
        return chunk_passes(chunk, self.where, self.window)

    def age_hours(self, chunk: Chunk) -> float:
        """Hours from the chunk's time to `now`; negative in the future, NaN without a time."""
        return age_in_hours(chunk.event_time, self.now)

    def decay_weights(self, age_hours: Floats) -> Floats | None:
        """(n,) decay factors for chunks of these ages (n,), in hours; None: decay is off."""
        return factors_of(self.decay, age_hours)

    def probe_ids(self) -> list[str]:
        """The `ids` of all probes: the pool must hold these chunks."""
        return [id for probe in self.probes for id in probe.ids]

    def referring(self) -> list[int]:
        """Indices of the probes for which references are looked for."""
        return [at for at, probe in enumerate(self.probes) if probe.references]


LATER_OPTIONS = frozenset({"strategy", "embedder_timeout_seconds"})
"""Options that the `recall` of a caller's older store may lack. If it lacks "strategy", the search itself drops the
candidates and scores of the other arm."""


@lru_cache(maxsize=16)
def _options_lacking(recall: Callable[..., Any]) -> frozenset[str]:
    try:
        parameters = signature(recall).parameters.values()
    except (TypeError, ValueError):  # for example a function written in C
        return LATER_OPTIONS
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset()
    return LATER_OPTIONS - {parameter.name for parameter in parameters}


NEIGHBOURS_OF = 4
"""Only the best `depth // NEIGHBOURS_OF` chunks of each arm and probe add their neighbours to the pool."""


class Store(Protocol):
    """Chunks, with a lexical and a dense arm. Thread-safe.

    A search needs `recall`, `get` and `neighbours`. A store may also have these methods:

        terms_of        (text) -> the terms that the lexical arm makes of it. Results mark the query's words with it;
                        without it, the stages number_pairs and excluded do not run
        aembed          (requests) -> the requests, with the vectors of their probes. A coroutine function, which
                        searches on an event loop await before `recall`, so that no thread waits for an embedder. None:
                        nothing is awaited, as if it were missing
        recall_many     (requests) -> one `Pool` for each: several searches in one call
        get_versions    (ids, versions, *, exact) -> as `get`, in the versions that `Pool.version` states, so that a hit
                        shows the text that was scored. For a chunk that was replaced since: None if `exact`, else the
                        newer version
        listing         (*, where, window) -> a `stores.values.Listing` of the chunks that pass; a `SparseArm` needs it
        last_read       (ids) -> as `get`, but without I/O: the chunks as they were last read. Used if `get` raises
                        StoreUnavailable; the result is then `degraded`

    A search filters the chunks of `get`, `get_versions` and `neighbours` once more before it shows them.
    """

    def recall(
        self,
        probes: Sequence[Probe],
        *,
        depth: int,
        now: datetime,
        where: Filter | None = None,
        window: TimeRange | None = None,
        lexical: LexicalConfig | None = None,
        decay: DecayConfig | None = None,
        around: int = 0,
        strategy: Strategy = "hybrid",
        embedder_timeout_seconds: float | None = None,
    ) -> Pool:
        """Candidates of both arms for all probes in one call.

        The pool holds only chunks that pass `where` and `window`, and of these at least

        - for each probe and arm, the best `depth` chunks, or all if fewer pass. If decay is on, the best chunks are
          those with the largest decayed scores. A chunk with a BM25 of 0 is no lexical hit.
        - the chunks at most `around` positions from the best `depth // NEIGHBOURS_OF` chunks of each probe and arm
        - the chunks with the `ids` of the probes

        With strategy "hybrid", every row has a score from both arms.

        Args:
            strategy: "text": only the lexical arm runs and nothing is embedded; the pool's mode is "text". "vector":
                only the dense arm runs; the pool's mode is "vector".
            embedder_timeout_seconds: Longest time for embedding, in seconds; then the lexical arm answers alone, and
                `pool.degraded` says so. None: the store's setting.

        Raises:
            SearchUnavailable: If no requested arm can answer. If only one of two arms can, `pool.degraded` names the
                other.
        """

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """The chunks, aligned with ids; None for an id that the store does not have."""

    def neighbours(self, ids: Sequence[str], *, reach: int, where: Filter | None = None) -> dict[str, list[Chunk]]:
        """For each id, the chunks at most `reach` positions from it in its source, in order, itself included.

        Only chunks that pass `where` are returned: a source may also hold chunks that the caller must not see.
        """

    def scan(self, *, where: Filter | None = None, after: str | None = None, limit: int = 1_000) -> list[Chunk]:
        """The first `limit` chunks that pass `where` and whose id is greater than `after`, by rising id.

        For the next page, `after` is the last id of this page; a page of fewer than `limit` chunks is the last. Between
        two pages the store may change. A chunk that exists, and passes, from the first page to the last is returned
        exactly once.

        Args:
            after: Any string, whether it is the id of a chunk or not; None: from the smallest id. Ids are ordered by
                code point.
            limit: >= 1.
        """

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) float32, row i for ids[i], of length 1; zeros if the store lacks the chunk or its vector.

        (n, 0) in a store that does not know its dimension yet.
        """

    def add(self, chunks: Sequence[Chunk], *, vectors: Vectors | None = None, show_progress: bool = False) -> object:
        """Insert chunks durably, all or none; a chunk replaces the one of the same id. A store may return a report.

        Args:
            vectors: (n, dim), one row per chunk, which the store scales to length 1; a row of zeros means no vector.
                None: texts are embedded.
        """

    def delete(self, ids: Sequence[str] | None = None, *, where: Where = None) -> int:
        """Remove the chunks that have one of these ids and pass the filter; returns their number. An argument that is
        None does not limit the chunks; at most one is None."""

    def __len__(self) -> int: ...

    def close(self) -> None: ...


def pages(
    store: Store, *, where: Filter | None = None, after: str | None = None, size: int = 1_000
) -> Iterator[list[Chunk]]:
    """All chunks of a store that pass `where` and follow the id `after`, by rising id, in lists of at most `size`."""
    while page := store.scan(where=where, after=after, limit=size):
        yield page
        if len(page) < size:
            return
        after = page[-1].id
