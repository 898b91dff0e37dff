"""Extra arms: further ways to find chunks, called at the same time as the store. A search goes on if an arm fails.

In: a `SearchRequest`. Out: the hits of each arm that answered (`ArmHits`), which `recall` adds to the candidates.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction
from numbers import Real
from typing import Any

from umi_common.config import ExtraArmsConfig
from umi_common.embedders.sparse import SparseEncoder
from umi_common.errors import ConfigError
from umi_common.filters import Filter
from umi_common.runtime.calls import Call, CallFailure, CallOutcome
from umi_common.runtime.guards import ThreadLimiter
from umi_common.runtime.losses import BadReply, log_bug, reason_of
from umi_common.search.request import SearchRequest
from umi_common.search.sparse_index import SparseIndex
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk, TimeRange

STORE_ARMS = ("lexical", "dense")
"""The arms of the store; no extra arm may have one of these names."""

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
        again = seen[arm.name] > 1 and arm is not retriever
        arms.append(replace(arm, name=f"{arm.name} {seen[arm.name]}") if again else arm)
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
