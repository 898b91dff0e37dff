"""One search: the caller's arguments, checked (`SearchRequest`), and what its steps work with (`Search`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeGuard, get_args

import numpy as np
from pydantic import BaseModel
from typing_extensions import TypedDict

from umi_common.config import UmiConfig
from umi_common.errors import (
    ConfigError,
    EmptyQuery,
    InputError,
    InvalidLimit,
    InvalidTimeRange,
    InvalidVector,
    QueryTooLong,
)
from umi_common.filters import Filter, Where, parse_filter
from umi_common.pool import Vectors
from umi_common.protocols import OnStage, Store, Strategy, chunk_passes
from umi_common.query.followups import follow_up
from umi_common.query.frames import without_frame
from umi_common.query.questions import Exclusion, exclusion_in, is_pasted, negation_in, questions_of, words_around
from umi_common.runtime.losses import warn_once
from umi_common.types import Chunk, TimeRange, as_utc, utf8_text

if TYPE_CHECKING:
    from umi_common.query.rewriting.rewrite import Rewriting
    from umi_common.search.extra_arms import ExtraArms
    from umi_common.search.rerank import Reranking
    from umi_common.search.trace import TraceBuilder
    from umi_common.stores.search_counts import SearchCounter

LIMIT_MAX = 100
"""Largest number of hits that a search returns."""
QUERY_BYTES_MAX = 10_000
"""Longest query, in UTF-8 bytes."""
SAME_OPTION = (
    ("limit", "similarity_top_k", "k", "top_k", "n_results"),
    ("where", "filter", "filters"),
    ("min_relevance", "score_threshold", "similarity_cutoff"),
    ("embed_model", "embedding"),
)
"""Groups of names of one option: its names in the core, in LangChain and in LlamaIndex."""
NAMES_ELSEWHERE = {
    "collection_name": "each store has its directory",
    "storage_context": "each store has its directory: persist_dir",
    "config": 'give the stages of a UmiConfig: fusion={"method": "rrf"}',
    "strategy": "give it to one search: invoke(query, strategy=...) or UmiQuery(query, strategy=...)",
    "search_kwargs": "k and filter are options of their own",
    "weights": 'write fusion={"lexical_weight": ..., "dense_weight": ...}',
    "retriever_weights": 'write fusion={"lexical_weight": ..., "dense_weight": ...}',
    "num_queries": 'write rewrite={"variations_max": ...}',
    "mode": 'write fusion={"method": ...}',
    "retrievers": "from_documents(arms=[...]) takes further retrievers; BM25 and vectors are part of umi",
    "search_type": 'mmr={"enabled": True} diversifies, min_relevance=... sets a threshold',
    "fetch_k": 'it belongs to MMR: max_marginal_relevance_search, search_type="mmr", or mmr={"pool": ...}',
    "lambda_mult": 'it belongs to MMR: max_marginal_relevance_search, search_type="mmr", or mmr={"trade_off": ...}',
    "where_document": "a filter reads metadata only; put the words into the query, in quotation marks",
    "id_key": "a document is known by its id",
    "documents": "from_documents takes them",
    "nodes": "from_nodes takes them",
    "docstore": "from_nodes takes its nodes: list(docstore.docs.values())",
    "transformations": "from_documents takes them",
    "alpha": 'write fusion={"lexical_weight": ..., "dense_weight": ...}',
    "index": "from_index takes it",
    "store": "from_store takes it",
    "vectorstore": "from_vectorstore takes it",
    "vector_store": "from_index takes an index over it; a UmiVectorStore has .retriever()",
}
"""By name of a parameter that other retrievers have and umi lacks, the advice for an error message."""

Window = TimeRange | tuple[datetime | None, datetime | None] | None
"""A time range, or its start and end."""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


class SharedOptions(TypedDict, total=False):
    """Options of `DualRetriever.search` that one call may set for several queries."""

    limit: int
    deep_search: bool
    time_range: Window
    where: Where
    now: datetime | None
    history: Sequence[str]
    strategy: Strategy
    min_relevance: float | None


class SearchOptions(SharedOptions, total=False):
    """Options of `DualRetriever.search`."""

    query_vector: Sequence[float] | None
    on_stage: OnStage | None


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The checked arguments of one search, and the parts of its query."""

    query: str
    searched: str
    """The query without its frame ("can you tell me") and without the part that it excludes ("but not on AWS"). The
    query as it is if nothing would be left, or if only one arm is searched."""
    asked: str
    """The part of `searched` that may name numbers, codes, titles and times: all of it, or the questions alone if it is
    mostly pasted text. Looking up the numbers of pasted text would take long and help little."""
    verbatim: str
    """The part of `asked` whose words are looked up verbatim in texts: the questions, if `questions_of` finds some,
    else all of `asked`. Code and quotations beside a question are not looked up."""
    questions: tuple[str, ...]
    """Texts that are searched as variations of the query, in this order:

    - the questions of a longer query (`questions_of`), or a follow-up question with the messages before it
      (`follow_up`)
    - the query with the part that it excludes, if `searched` lacks this part: a text may state the exception

    () if only one arm is searched. If the caller gave the query's vector: (), so that nothing has to be embedded."""
    exclusion: Exclusion | None
    """The parts of the query that say what it asks for and what it excludes; None: it excludes nothing."""
    negation: Exclusion | None
    """The same if "not" excludes ("bugs not assigned to Tom"); None if `exclusion` is set. `searched` keeps both parts,
    because a text may answer the query with its words."""
    words_around: float
    """Words of the query outside its questions, per word of its questions; 0: it has no questions, or only few other
    words."""
    limit: int
    deep_search: bool
    time_range: TimeRange | None
    where: Filter | None
    now: datetime
    """The current time, with a time zone. A day that the query names is a day of this zone."""
    history: tuple[str, ...]
    strategy: Strategy
    query_vector: Vectors | None
    min_relevance: float | None

    def passes(self, chunk: Chunk) -> bool:
        """Whether a chunk passes the filter and lies in the time range."""
        return chunk_passes(chunk, self.where, self.time_range)

    @classmethod
    def checked(
        cls,
        *,
        query: object,
        now: datetime,
        limit: object = 10,
        deep_search: object = True,
        time_range: object = None,
        where: Where = None,
        history: Sequence[str] = (),
        strategy: object = "hybrid",
        query_vector: object = None,
        min_relevance: object = None,
    ) -> SearchRequest:
        """A request from a caller's arguments.

        Raises:
            InputError: If an argument is wrong; for most arguments a subclass of it. The message names the argument.
        """
        if strategy not in STRATEGIES:
            raise ConfigError(f"strategy {strategy!r}: expected one of {', '.join(STRATEGIES)}")
        if isinstance(deep_search, str):
            raise ConfigError(f"deep_search {deep_search!r:.40}: expected True or False")
        messages = _checked_history(history)
        as_utc(now, "now")
        vector = _checked_vector(query_vector)
        by_vector_alone = isinstance(query, str) and not query and strategy == "vector" and vector is not None
        text = "" if by_vector_alone else checked_query(query)
        whole = without_frame(text) if strategy == "hybrid" else text
        exclusion = exclusion_in(whole) if strategy == "hybrid" else None
        searched = whole if exclusion is None else exclusion.kept or whole
        questions = questions_of(searched)
        with_history = follow_up(searched, messages)
        variations = questions if questions or with_history is None else (with_history,)
        variations = variations if strategy == "hybrid" and vector is None else ()
        asked = "" if is_pasted(searched) else searched
        return cls(
            query=text,
            searched=searched,
            asked=asked or " ".join(questions),
            verbatim=" ".join(questions) or asked,
            questions=variations if searched == whole or vector is not None else (*variations, whole),
            exclusion=exclusion,
            negation=negation_in(whole) if strategy == "hybrid" and exclusion is None else None,
            words_around=words_around(searched, variations),
            limit=checked_limit(limit),
            deep_search=bool(deep_search) and not by_vector_alone,
            time_range=_checked_range(time_range),
            where=parse_filter(where),
            now=now,
            history=messages,
            strategy=strategy,
            query_vector=vector,
            min_relevance=checked_relevance(min_relevance),
        )


@dataclass(frozen=True, slots=True)
class Components:
    """The store, settings and models of one retriever's searches. `reconfigure` replaces the whole object."""

    store: Store
    config: UmiConfig
    rewriting: Rewriting | None
    reranker: Reranking | None
    arms: ExtraArms | None
    counter: SearchCounter
    span_context: Any = None
    """OpenTelemetry's context for the spans of a search; None: the context of the caller."""


@dataclass(frozen=True, slots=True)
class Search:
    """One search: a request to a retriever. The trace collects what its steps do."""

    components: Components
    request: SearchRequest
    trace: TraceBuilder

    @property
    def store(self) -> Store:
        """The retriever's store."""
        return self.components.store

    @property
    def config(self) -> UmiConfig:
        """The retriever's settings."""
        return self.components.config


def checked_limit(limit: object, name: str = "limit") -> int:
    """`limit` as an int in 1..100; raises InvalidLimit."""
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or not 1 <= limit <= LIMIT_MAX:
        raise InvalidLimit(
            f"{name} {limit!r}: expected a whole number from 1 to {LIMIT_MAX}; to rerank more chunks, set "
            'rerank={"pool": 200}; to list every chunk, call scan() of the store'
        )
    return int(limit)


def checked_query(query: object) -> str:
    """`query` with lone surrogates replaced; raises EmptyQuery, QueryTooLong, or InputError if it is no string."""
    query = utf8_text(_checked_text(query))
    if not query.strip():
        raise EmptyQuery("query is empty; expected text to search for")
    size = len(query.encode())
    if size > QUERY_BYTES_MAX:
        raise QueryTooLong(f"query has {size:,} bytes; expected at most {QUERY_BYTES_MAX:,}: shorten it")
    return query


def refuse_unlisted(queries: object, name: str) -> None:
    """Raise InputError unless `queries` is a list; `name`: name of the argument, for the message."""
    if not isinstance(queries, Iterable) or isinstance(queries, (str, bytes)):
        raise InputError(f"{name} is {type(queries).__name__}; expected a list of queries; for one query: [query]")


def end_of(message: object) -> str:
    """The last QUERY_BYTES_MAX bytes of a message, which usually hold its question. A warning is logged if it is cut.

    Raises:
        InputError: If `message` is no string.
    """
    whole = _checked_text(message).encode(errors="replace")
    if len(whole) > QUERY_BYTES_MAX:
        warn_once(
            "query",
            f"{len(whole):,} bytes",
            "a message of %s bytes is too long: only its last %s are searched; search with the question alone",
            f"{len(whole):,}",
            f"{QUERY_BYTES_MAX:,}",
        )
    return whole[-QUERY_BYTES_MAX:].decode(errors="ignore")


def _checked_text(query: object) -> str:
    if not isinstance(query, str):
        raise InputError(
            f"query is {type(query).__name__}; expected str; from a dict or message take the text: inputs['question'], "
            "message.text"
        )
    return query


def checked_relevance(relevance: object) -> float | None:
    """`relevance` as a float in 0..1, or None; raises ConfigError."""
    if relevance is None:
        return None
    if isinstance(relevance, bool) or not isinstance(relevance, Real) or not 0 <= float(relevance) <= 1:
        raise ConfigError(f"min_relevance {relevance!r:.80}: expected a number from 0 to 1, or None")
    return float(relevance)


def _checked_range(time_range: object) -> TimeRange | None:
    if time_range is None or isinstance(time_range, TimeRange):
        return time_range
    if isinstance(time_range, (tuple, list)) and len(time_range) == 2:
        return TimeRange(*time_range)
    raise InvalidTimeRange(f"time_range {time_range!r:.80}: expected TimeRange(start, end) or a (start, end) pair")


def narrowed(own: Window, asked: Window) -> TimeRange | None:
    """The intersection of a retriever's own time range and the range that a call asks for; None: any time.

    Raises:
        InvalidTimeRange: If no time lies in both ranges, or an argument is no time range.
    """
    windows = [window for window in map(_checked_range, (own, asked)) if window is not None]
    if len(windows) < 2:
        return windows[0] if windows else None
    start = max((w.start for w in windows if w.start is not None), default=None)
    end = min((w.end for w in windows if w.end is not None), default=None)
    if start is not None and end is not None and end <= start:
        raise InvalidTimeRange(f"time_range {asked} lies outside the retriever's own time range {own}")
    return TimeRange(start, end)


def is_ordered(history: object) -> TypeGuard[Iterable[Any]]:
    """Whether a conversation has messages in order: a set has no order, and one message (a dict, a pydantic model) has
    fields in place of messages."""
    return isinstance(history, Iterable) and not isinstance(history, (str, Mapping, Set, BaseModel))


def _checked_history(history: object) -> tuple[str, ...]:
    if is_ordered(history):
        messages = tuple(history)
        if all(isinstance(message, str) for message in messages):
            return tuple(map(utf8_text, messages))
    raise InputError("history: expected a list of strings, oldest first; give the texts of the messages")


def _checked_vector(vector: object) -> Vectors | None:
    if vector is None:
        return None
    try:
        row = np.ascontiguousarray(vector, dtype=np.float32)
    except Exception as error:  # torch raises a RuntimeError for a tensor that requires a gradient
        raise InvalidVector(f"query_vector is no list of numbers: {error}") from error
    if row.ndim != 1 or not row.size:
        raise InvalidVector(f"query_vector has shape {row.shape}; expected (dim,)")
    if not np.isfinite(row).all():
        raise InvalidVector("query_vector holds NaN or infinity; check the model that made it")
    return row


def refuse_unknown_options(given: Iterable[str], known: Iterable[str], error: type[Exception]) -> None:
    """Raise `error` if a name in `given` is not in `known`. The message says which option the caller probably meant."""
    known = list(known)
    for name in sorted(set(given) - set(known)):
        same = [other for names in SAME_OPTION if name in names for other in names if other in known]
        inside = [other for other in known if name in other] if len(name) > 2 else []
        near = [*same, *get_close_matches(name, known, n=1), *inside]
        advice = NAMES_ELSEWHERE.get(name) or (f"did you mean {near[0]}?" if near else "")
        raise error("; ".join(filter(None, (f"no option {name!r}", advice, f"expected one of {', '.join(known)}"))))
