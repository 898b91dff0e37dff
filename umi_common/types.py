"""The values of the public interface: immutable, and without types of LangChain or LlamaIndex.

Datetimes are aware and are converted to UTC; scores are Python floats; ids are non-empty strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, NoReturn, TypeVar, cast, overload
from uuid import UUID

import numpy as np

from umi_common.errors import InvalidChunk, InvalidTimeRange

Scalar = str | int | float | bool | None
MetadataValue = Scalar | Sequence[Scalar]
Metadata = Mapping[str, MetadataValue]
Value = TypeVar("Value")

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
MICROSECONDS_PER_HOUR = 3_600_000_000
ID_BYTES_MAX = 1024
"""Longest id, in UTF-8 bytes."""


def _refuse_change(*_: object, **__: object) -> NoReturn:
    raise TypeError("this dict is read-only; copy it, for example dict(chunk.metadata), and change the copy")


class ReadOnlyDict(dict[str, Value]):
    """A dict that cannot be changed. Unlike a `mappingproxy`, it can be copied, pickled and written as JSON."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = cast(Any, _refuse_change)
    update = setdefault = pop = popitem = clear = cast(Any, _refuse_change)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def as_utc(moment: datetime, what: str, error: type[Exception] = InvalidTimeRange) -> datetime:
    """`moment` in UTC.

    Raises:
        Exception: `error`, whose message begins with `what`, if `moment` is no aware datetime in the years 1 to 9999.
    """
    if not isinstance(moment, datetime):
        raise error(
            f"{what} is {type(moment).__name__}; expected an aware datetime, e.g. "
            "datetime(2024, 5, 1, tzinfo=timezone.utc)"
        )
    if moment.tzinfo is None:
        raise error(f"{what} {moment.isoformat()} has no time zone; add one, e.g. .replace(tzinfo=timezone.utc)")
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError as overflow:
        raise error(
            f"{what} {moment.isoformat()} is before the year 1 or after 9999 in UTC; leave it out, or use the zone UTC"
        ) from overflow


def utf8_text(text: str) -> str:
    """`text` with "?" in place of each lone surrogate, such as half of a cut emoji, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def inode_of(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file or directory; None: there is none at this path."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def microseconds(moment: datetime) -> int:
    """The exact number of microseconds from 1970 to an aware datetime."""
    return (moment - EPOCH) // MICROSECOND


def from_microseconds(since_1970: int) -> datetime:
    """The UTC datetime that is `since_1970` microseconds after the start of 1970."""
    return EPOCH + since_1970 * MICROSECOND


def age_in_hours(moment: datetime | None, now: datetime) -> float:
    """Hours from `moment` to `now`; negative if `moment` is in the future, NaN if it is None.

    Equal bit by bit to the ages that a store divides as an array: above 2^53, microseconds are rounded before division.
    """
    return math.nan if moment is None else float((now - moment) // MICROSECOND) / MICROSECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of text, with its source, position and time.

    Args:
        id: Unique in a store, 1..1,024 UTF-8 bytes. Give a text the same id in every run, because `add` replaces the
            chunk with this id; with a random id, each run stores the text once more.
        text: The text that a search returns and a context contains. Not blank.
        search_text: The text that is searched and embedded instead of `text`, for example `text` with a title and
            keywords. Not blank; None: `text`.
        metadata: A dict with string keys; its values are str, int, float, bool, None, or a flat list of these.
            `plain_value` converts other values; a key whose value is NaN is left out.
        source: Name of the file, session or page that the text was cut from.
        position: Order in `source`, a whole number between -2^62 and 2^62; adjacent chunks differ by 1.
        event_time: Time of the event that the text describes; an aware datetime, kept as UTC.

    NaN, and NaT and NA of pandas, are None in `source`, `position`, `event_time` and `search_text`.

    Raises:
        InvalidChunk: If a field has a wrong value; the message names the chunk, the field and the expected value.
    """

    id: str
    text: str
    metadata: Metadata = field(default_factory=dict, kw_only=True)
    source: str | None = field(default=None, kw_only=True)
    position: int | None = field(default=None, kw_only=True)
    event_time: datetime | None = field(default=None, kw_only=True)
    search_text: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InvalidChunk(f"chunk id {self.id!r}: expected a non-empty string")
        for name in ("source", "position", "event_time", "search_text"):
            value = getattr(self, name)
            if value is not None and type(value) not in (str, int) and _is_missing(value):
                object.__setattr__(self, name, None)
        for name in ("id", "text", "search_text", "source"):
            value = getattr(self, name)
            if value is not None or name == "text":
                object.__setattr__(self, name, _plain_text(self.id, value, name))
        if len(self.id.encode()) > ID_BYTES_MAX:
            raise InvalidChunk(f"chunk id {self.id[:40]!r}... is longer than {ID_BYTES_MAX} bytes; use a hash of it")
        if not self.text.strip():
            raise InvalidChunk(f"chunk {self.id!r}: text is empty; leave the chunk out")
        if self.search_text is not None and not self.search_text.strip():
            raise InvalidChunk(f"chunk {self.id!r}: search_text is empty; use None to search the text")
        if self.position is not None:
            position: object = self.position
            if isinstance(position, (float, np.floating)) and position.is_integer():  # pandas, of a column with gaps
                position = int(position)
            if not isinstance(position, (int, np.integer)) or isinstance(position, bool) or abs(int(position)) >= 2**62:
                raise InvalidChunk(
                    f"chunk {self.id!r}: position {self.position!r}: expected a whole number between -2^62 and 2^62"
                )
            object.__setattr__(self, "position", int(position))
        if self.event_time is not None:
            moment = as_utc(self.event_time, f"chunk {self.id!r}: event_time", InvalidChunk)
            object.__setattr__(self, "event_time", moment)
        object.__setattr__(self, "metadata", _checked_metadata(self.id, self.metadata))

    @property
    def indexed_text(self) -> str:
        """`search_text`; `text` if that is None."""
        return self.text if self.search_text is None else self.search_text

    def __hash__(self) -> int:
        return hash((self.id, self.text))


def _plain_text(chunk_id: object, value: object, name: str) -> str:
    """`value` as a plain `str`; for a string enum, the value of the enum."""
    if not isinstance(value, str):
        raise InvalidChunk(f"chunk {chunk_id!r}: {name} is {type(value).__name__}; expected str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidChunk(
            f"chunk {chunk_id!r}: {name} holds a lone surrogate at {error.start}; clean it with "
            "text.encode('utf-8', 'replace').decode()"
        ) from error
    return str.__str__(value)


def _checked_metadata(chunk_id: str, metadata: object) -> Metadata:
    if not isinstance(metadata, Mapping):
        raise InvalidChunk(f"chunk {chunk_id!r}: metadata is {type(metadata).__name__}; expected a dict")
    clean: dict[str, MetadataValue] = {}
    for key, value in metadata.items():
        key = _plain_text(chunk_id, key, "a metadata key")
        if isinstance(value, (list, tuple)):
            clean[key] = tuple(_checked_scalar(chunk_id, key, item) for item in value)
        elif isinstance(value, (set, frozenset)):
            items = {_checked_scalar(chunk_id, key, item) for item in value}
            # None first, then numbers, then strings: values of different types cannot be compared.
            clean[key] = tuple(sorted(items, key=lambda each: (each is not None, isinstance(each, str), each)))
        else:
            plain = _checked_scalar(chunk_id, key, value)
            if plain is not None or value is None:
                clean[key] = plain
    return ReadOnlyDict(clean)


def _checked_scalar(chunk_id: str, key: str, given: object) -> Scalar:
    value = given if type(given) in PLAIN else plain_value(given)
    if isinstance(value, str):
        return _plain_text(chunk_id, value, f"metadata[{key!r}]")
    if value is None or isinstance(value, (bool, int)):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InvalidChunk(f"chunk {chunk_id!r}: metadata[{key!r}] does not fit 64 bits; store it as a string")
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isfinite(value):
            return value
    raise InvalidChunk(
        f"chunk {chunk_id!r}: metadata[{key!r}] is {given!r:.80} ({type(given).__name__}); expected str, int, finite "
        "float, bool, None, a date, a time, Decimal, UUID, enum or path, or a flat list or set of these; flatten it or "
        "store a string"
    )


PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types of a metadata value that need no conversion."""


def plain_value(value: object) -> object:
    """`value` as a str, int, float, bool or None, if that loses nothing; else `value` itself.

    A Decimal becomes a float if the float has the same digits, as it has for up to 15 digits, else a str. A UUID or
    path becomes a str; a date, datetime or time becomes an ISO 8601 str; an enum is replaced by its value, and a NumPy
    scalar by its Python value. NaN, and NaT and NA of pandas, become None.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.generic):
        value = value.astype("datetime64[us]").item() if isinstance(value, np.datetime64) else value.item()
    if isinstance(value, Decimal):
        if value.is_nan():
            return None
        number = float(value)
        return number if value.is_infinite() or Decimal(repr(number)) == value else str(value)
    if _is_missing(value):
        return None
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value) if isinstance(value, (UUID, PurePath)) else value


def _is_missing(value: object) -> bool:
    """Whether a value is NaN, or NaT or NA of pandas, which may not be installed. NaT is a date."""
    return (isinstance(value, (date, float, np.generic)) and value != value) or type(value).__name__ == "NAType"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The half-open period [start, end); None: no bound on that side. Aware datetimes, kept as UTC."""

    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            moment = getattr(self, name)
            if moment is not None:
                object.__setattr__(self, name, as_utc(moment, f"time_range {name}"))
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise InvalidTimeRange(
                f"time_range ends at {self.end}, not after its start {self.start}; give an end after it"
            )

    def __contains__(self, moment: datetime) -> bool:
        return (self.start is None or moment >= self.start) and (self.end is None or moment < self.end)


@dataclass(frozen=True, slots=True)
class Signal:
    """Rank and score of a chunk in one arm for one query variation."""

    arm: str
    """"lexical", "dense", or the name of an extra arm."""
    variation: int
    """0: the original query; i > 0: `query_variations[i - 1]` of the result."""
    rank: int | None
    """Rank in the arm's list, from 1; None: the arm scored the chunk, but its list does not hold the chunk."""
    score: float
    """The arm's own score: BM25 for lexical, cosine for dense, for an extra arm its own number."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk in a result, with its score and how the score was computed."""

    chunk: Chunk
    score: float
    """Final score; the first hit has the highest. Scores can be compared only within one result."""
    rank: int
    """Position in the result, from 1."""
    signals: tuple[Signal, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
    """By stage that ran, the score after it, in this order: fused, feedback, neighbours, references, when, decay,
    names, number_pairs, late_interaction, speaker, lookup, word_runs, alike, headings, answers, documents, excluded,
    time_order, event, rerank. Scores of different stages do not compare."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """By stage, as in `stages`, the rank among the candidates after it, from 1."""
    duplicates: tuple[str, ...] = ()
    """Ids of the chunks that repeat this one and were left out, best first; empty unless `config.duplicates` is on."""
    relevance: float | None = None
    """Estimated probability that the chunk answers the query, 0..1; it never rises from a hit to the next. It can be
    compared across queries, stores and embedders. None: not known."""
    named: bool = False
    """Whether the query names the chunk by its heading."""
    through: str | None = None
    """Id of the candidate whose reference to the chunk raised its score most; None: no candidate refers to it."""

    def __repr__(self) -> str:  # the whole text would fill the screen
        relevance = "" if self.relevance is None else f", relevance={self.relevance:.2f}"
        return f"Hit(#{self.rank} {self.chunk.id!r}, score={self.score:.3f}{relevance}, {self.chunk.text[:80]!r})"


@dataclass(frozen=True, slots=True)
class Degradation:
    """A part of a search that failed, and the consequence for the result."""

    part: str
    """"embedder", "lexical", "references", "rewriter", "reranker" or "late_interaction"; "relevance": what
    `min_relevance` is compared with; "period": the search in the period that the query names; "time order": the search
    beyond the candidates of a query for the latest or first; "when": no part, but that no chunk lies in this period;
    "neighbours": the chunks beside a hit, in a context; "arms": the store's scores of chunks that only extra arms
    found; the store's engine, such as "chroma"; or the name of an extra arm, which the user adds to the arms BM25 and
    vectors."""
    reason: str
    """Why the part failed, in one line, without the text of the query."""
    consequence: str = ""
    """How the search continued without the part."""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A chunk that was removed from the hits, and why."""

    id: str
    reason: str
    """"same text", "near-duplicate", "mmr", "reranker" (the reranker dropped the chunk), or "relevance" (the chunk's
    relevance is too low)."""
    by: str | None = None
    """Id of the hit that replaced the chunk; None: there is none."""
    score: float | None = None
    """The chunk's final score; None: not known."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a search, or of the assembly of a context."""

    name: str
    milliseconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    """By name, what the stage decided, and the numbers that it used; without the text of the query."""
    offset: float = 0.0
    """Milliseconds from the start of the call to the start of the stage."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The stages of one call in the order in which they ended."""

    stages: tuple[Stage, ...] = ()
    milliseconds: float = 0.0
    """Wall time of the whole call."""

    def __repr__(self) -> str:
        stages = ", ".join(f"{stage.name} {stage.milliseconds:.2f} ms" for stage in self)
        return f"Trace({self.milliseconds:.2f} ms: {stages})"

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __getitem__(self, name: str) -> Stage:
        """The stage of this name; if it ran twice, as in a deep search, its later run.

        Raises:
            KeyError: If it did not run.
        """
        for stage in reversed(self.stages):
            if stage.name == name:
                return stage
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of one search, and how they were found. It can be iterated and indexed as `hits`, and has its length."""

    hits: tuple[Hit, ...]
    """Best first; at most `limit`."""
    query: str
    query_variations: tuple[str, ...] = ()
    """Texts that were searched in addition to the query: questions of a longer query, then variations by the LLM."""
    deep_search_used: bool = False
    mode: str = "hybrid"
    """"hybrid", "text" (lexical arm alone) or "vector" (dense arm alone)."""
    degraded: tuple[Degradation, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    trace: Trace = field(default_factory=Trace)
    answerable: bool | None = None
    """Whether the relevance of the first hit is at least `config.relevance.answerable`; False without hits. None: the
    relevance is not known."""
    terms_of: Callable[[str], Sequence[str]] | None = field(default=None, repr=False, compare=False)
    """The store's function from a text to its terms, used to mark the query's words in hits."""

    def __repr__(self) -> str:
        return f"SearchResult({self.mode}, {self.ids})"  # the texts would fill the screen

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    @property
    def ids(self) -> list[str]:
        """Ids of the hits, best first."""
        return [hit.chunk.id for hit in self.hits]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per hit. Needs pandas, which the notebooks extra installs."""
        from umi_common import explain  # at the top of the file, the import would be circular

        return explain.to_frame(self)

    def explain(self, path: str | PathLike[str] | None = None, *, context: Any = None) -> str:
        """A standalone HTML page of this result and, if given, its `AssembledContext`; also written to `path`."""
        from umi_common import explain

        return explain.to_page(self, path, context=context)

    def _repr_html_(self) -> str:
        from umi_common import explain

        return explain.to_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # for IPython in a terminal, and as the plain-text form in a notebook

    def __str__(self) -> str:
        from umi_common import explain

        return explain.to_text(self)
