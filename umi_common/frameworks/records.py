"""Functions that both adapters share: convert records (text, metadata, id) to chunks and back, make a store hold what
its source holds, score by rank, and define an agent's search tool.

A chunk's metadata is flat. Nested values are kept as JSON under `NESTED_KEY`; filters see `NESTED` in their place, and
`to_metadata` restores them. Other values are converted as `types.plain_value` says; arrays and sets become lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from inspect import getattr_static
from math import isclose
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from umi_common.config import UmiConfig, first_fault
from umi_common.errors import ConfigError, InputError, InvalidChunk, UmiError
from umi_common.filters import Filter, matches
from umi_common.pool import Floats
from umi_common.protocols import Store, chunk_passes
from umi_common.runtime.losses import warn_once
from umi_common.times import read_time
from umi_common.types import Chunk, TimeRange, age_in_hours, as_utc, plain_value

NESTED_KEY = "_umi_json"
"""Metadata key for the JSON of everything that is not flat."""
NESTED = ["umi_nested"]
"""Replaces a nested value in the metadata, so that filters see a value that is not None."""
ID_CHARACTERS = 32
"""Hexadecimal digits of a `content_id`."""
POSITION_END = 2**62
"""A position of this size or larger is dropped: a chunk cannot hold it."""
IDS_NAMED = 20
"""Largest number of ids that one warning names."""
PAGE = 5_000
"""Number of chunks read from a store in one call."""
OFFSET_END = 10**7
"""A smaller number under the key of the time may be milliseconds or seconds from the start of a recording: it is no
time, and no warning is logged."""
OWN_SEARCH = ("_get_relevant_documents", "_aget_relevant_documents", "_retrieve", "_aretrieve")
"""Methods by which a subclass of an adapter's retriever may search in its own way."""
UNREAD_TIME = (
    "metadata[%r] is %.60r, which does not read as one moment: such a text has no time, so that periods and decay "
    "leave it out. Write ISO 8601, for example 2026-11-18T10:15:00Z. Logged once for this key."
)
REPLACED = (
    "%d stored texts were removed, and none of them was given again: from_documents and from_nodes replace a source's "
    "texts, also those that were added later. To add to a source, use add_documents (LangChain) or UmiVectorStore.add "
    "(LlamaIndex); to open a directory as it is, give an empty list. Logged once."
)
TOOL_DESCRIPTION = "Search the stored texts and earlier conversations. Ask in plain words for what you need to know."
NOTHING_FOUND = "Nothing found. Ask in other words, or with fewer conditions."
KEYS_READ = 100
"""Number of texts from which `nothing_found` collects keys."""
KEYS_NAMED = 20
"""Largest number of keys that it names."""
EXAMPLE_CHARACTERS = 40
"""Characters of a value that it shows."""


@dataclass(frozen=True, slots=True)
class PlaceKeys:
    """The metadata keys of a text's source, position and time; None: no key holds it.

    The values also stay in the metadata. A value of the wrong type is metadata only.
    """

    source: str | None = "source"
    """What the text was cut from; a string or a number."""
    position: str | None = "position"
    """Its order there; a whole number."""
    time: str | None = "timestamp"
    """When it happened: a datetime with a zone, a date, a text or a number, as `times.read_time` reads them. Another
    value is metadata only, and a warning of the logger `umi` says so, unless it is a number below `OFFSET_END`."""


METADATA_ALONE = PlaceKeys(None, None, None)
"""Keys with which `to_metadata` adds neither source nor time."""


def to_chunk(
    text: str,
    metadata: Mapping[str, Any],
    *,
    id: str | None = None,
    keys: PlaceKeys = PlaceKeys(),
    source: str | None = None,
    position: int | None = None,
    search_text: str | None = None,
) -> Chunk:
    """The chunk of a record.

    Args:
        text: Not blank.
        metadata: Values that JSON can hold, and those that the module's docstring lists.
        id: None: a hash of text and metadata, so the same record gets the same id in every run.
        keys: Where source, position and time stand in the metadata.
        source: Used if the metadata names none.
        position: Likewise; dropped without a source.
        search_text: What is indexed in place of the text; None, blank or equal: the text.

    Raises:
        InvalidChunk: Names what cannot be stored and the fix.
    """
    plain = plain_metadata(metadata)
    stated = source_in_metadata(plain.get(keys.source)) if keys.source is not None else None
    source = source if stated is None else stated
    stated_position = plain.get(keys.position) if keys.position is not None else None
    if isinstance(stated_position, int) and not isinstance(stated_position, bool):
        position = stated_position
    position = None if source is None else position_in_metadata(position)
    return Chunk(
        content_id(text, plain) if id is None else id,
        text,
        metadata=_flat(plain),
        source=source,
        position=position,
        event_time=time_in(metadata, keys.time),
        search_text=search_text if search_text != text and search_text and search_text.strip() else None,
    )


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in JSON's own types.

    Raises:
        InvalidChunk: Names the key whose value has no such form.
    """
    try:
        return {key: _plain(value, f"metadata[{key!r}]") for key, value in metadata.items()}
    except RecursionError as error:
        raise InvalidChunk("metadata holds itself, or is nested too deeply; flatten it or leave it out") from error


def to_metadata(chunk: Chunk, keys: PlaceKeys = PlaceKeys()) -> dict[str, Any]:
    """A fresh, mutable copy of a chunk's metadata as the record had it; tuples are lists.

    The chunk's source and time are added under their keys, if the metadata lacks these.
    """
    metadata = {key: list(value) if isinstance(value, tuple) else value for key, value in chunk.metadata.items()}
    nested = _nested_in(metadata.get(NESTED_KEY))
    if nested is not None:
        del metadata[NESTED_KEY]
        metadata.update(nested)
    if keys.source is not None and chunk.source is not None:
        metadata.setdefault(keys.source, chunk.source)
    if keys.time is not None and chunk.event_time is not None:
        metadata.setdefault(keys.time, chunk.event_time.isoformat())
    return metadata


def own_metadata(chunk: Chunk, keys: PlaceKeys = PlaceKeys()) -> dict[str, Any]:
    """`to_metadata` for a model: without the keys that begin with "_", which are a framework's. LlamaIndex keeps the
    whole node under one."""
    return {key: value for key, value in to_metadata(chunk, keys).items() if not key.startswith("_")}


def _nested_in(value: Any) -> dict[str, Any] | None:
    """The nested values that this module wrote as JSON; None for anything else that a chunk has under the key."""
    try:
        nested = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return nested if isinstance(nested, dict) else None


def content_id(text: str, plain: Mapping[str, Any]) -> str:
    """A stable id of a record: 32 hexadecimal digits of SHA-256 over text and metadata."""
    record = json.dumps([text, plain], sort_keys=True, default=str)
    return hashlib.sha256(record.encode()).hexdigest()[:ID_CHARACTERS]


def time_in(metadata: Mapping[str, Any], key: str | None) -> datetime | None:
    """The time under a key of a text's metadata; None: there is none, or it is NaN, NaT or "". A value that does not
    read as one is logged, once for each key, unless it is a number below `OFFSET_END`.

    Raises:
        InvalidChunk: For a datetime without a zone, whose moment is unknown.
    """
    value = None if key is None else metadata.get(key)
    if plain_value(value) is None or (isinstance(value, str) and value == ""):
        return None
    moment = read_time(value, f"metadata[{key!r}]")
    if moment is None and not may_be_offset(value):
        warn_once("time", str(key), UNREAD_TIME, key, value)
    return moment


def ages_in_hours(records: Iterable[Mapping[str, Any]], key: str, now: datetime) -> Floats:
    """(n,) hours from the time under a key of each record's metadata to `now`; NaN for a record without a time.

    Raises:
        ConfigError: If `now` is no aware datetime.
        InvalidChunk: As `time_in`.
    """
    now = as_utc(now, "now", ConfigError)
    return np.array([age_in_hours(time_in(metadata, key), now) for metadata in records])


def may_be_offset(value: object) -> bool:
    """Whether a value may be a number of seconds or milliseconds from the start of a recording."""
    return isinstance(value, (int, float, np.integer, np.floating)) and float(value) < OFFSET_END


def source_in_metadata(value: object) -> str | None:
    """The source that a metadata value names; None: it is no string or number, or is ""."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        return None
    return str(value)


def position_in_metadata(value: object) -> int | None:
    """The position that a metadata value states; None: it is no whole number, or too large for a chunk."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= POSITION_END:
        return None
    return value


def _plain(value: Any, what: str) -> Any:
    """`value` in JSON's own types."""
    value = plain_value(value.tolist() if isinstance(value, np.ndarray) else value)
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, what) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [_plain(item, what) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, f"{what}[{key!r}]") for key, item in value.items()}
    raise InvalidChunk(
        f"{what} is {value!r:.80} ({type(value).__name__}); expected a value that JSON can hold, a date, a "
        "NumPy value, an enum, a path, a set, a Decimal or a UUID; convert it or leave it out"
    )


def _flat(plain: Mapping[str, Any]) -> dict[str, Any]:
    nested = {key: value for key, value in plain.items() if not _is_flat(value) or key == NESTED_KEY}
    flat = {key: NESTED if key in nested else value for key, value in plain.items()}
    return {**flat, NESTED_KEY: json.dumps(nested, ensure_ascii=False)} if nested else flat


def _is_flat(value: object) -> bool:
    if isinstance(value, list):
        return not any(isinstance(item, (list, dict)) for item in value)
    return not isinstance(value, dict)


def add_mirrored(
    store: Any,
    chunks: Sequence[Chunk],
    origin_of: Callable[[Chunk], Hashable | None],
    *,
    left_out: Sequence[tuple[str | None, Hashable | None]] = (),
    within: Filter | None = None,
    everything: bool = False,
) -> None:
    """Add chunks, and remove the stored chunks that have the origin of one of them and are not among them.

    A new chunk with the text of a removed one takes over its vector and is not embedded. Calls of several threads run
    one after another, so that each replaces what the one before it has stored.

    Args:
        store: A `HybridStore`.
        chunks: All present chunks of each origin.
        origin_of: What a chunk was cut from; None: it replaces nothing.
        left_out: (id, origin) of items without text, such as a file that is empty now: stored chunks with such an id or
            origin are removed, too.
        within: The retriever's own filter: chunks that do not pass it, such as another user's, are not removed.
        everything: Also remove all other stored chunks.

    Raises:
        InputError: If everything would be removed and nothing added, or `everything` is no bool.
        InvalidChunk, DuplicateId, EmbedderError: As `store.add`. Nothing is written.
    """
    if not isinstance(everything, bool):
        raise InputError(f"mirror is {everything!r:.80}; expected True or False; True removes what is not given")
    if everything and not chunks and len(store):
        raise InputError("mirror=True with nothing to store would empty the store; check what was loaded")
    origins = {origin_of(chunk) for chunk in chunks} | {origin for _, origin in left_out}
    gone, origins = {id for id, _ in left_out}, origins - {None}

    def replaces(chunk: Chunk) -> bool:
        affected = everything or chunk.id in gone or origin_of(chunk) in origins
        return affected and matches(within, chunk.metadata)

    with store.replacing:
        removed = _replace(store, chunks, replaces)
    if removed and chunks and not everything:
        warn_once("replace", "all", REPLACED, removed)


def _replace(store: Any, chunks: Sequence[Chunk], replaces: Callable[[Chunk], bool]) -> int:
    """Add chunks, and remove the stored ones of other ids for which `replaces` is true.

    Returns:
        The number of chunks removed whose text was not given again; 0 if it is an edit: some of the given texts were
        stored before, and some are new.
    """
    new = {chunk.id for chunk in chunks}
    others = [id for id in store.ids() if id not in new]
    pages = (store.get(others[start : start + PAGE]) for start in range(0, len(others), PAGE))
    gone = [chunk for page in pages for chunk in page if chunk is not None and replaces(chunk)]
    replaced = {chunk.id: chunk.indexed_text for chunk in gone}
    by_text = {text: id for id, text in replaced.items()}
    stored = {id for id, chunk in zip(new, store.get(list(new)), strict=True) if chunk is not None} if replaced else new
    embedded = [chunk for chunk in chunks if chunk.id not in stored and chunk.indexed_text in by_text]
    if len(new) < len(chunks) or not embedded:
        store.add(chunks)
    else:
        store.add([chunk for chunk in chunks if chunk.id in stored or chunk.indexed_text not in by_text])
        store.add(embedded, vectors=store.vectors([by_text[chunk.indexed_text] for chunk in embedded]))
    if replaced:
        store.delete(replaced)
    before, given = ({chunk.text for chunk in each} for each in (gone, chunks))
    is_new = any(chunk.id not in stored and chunk.text not in before for chunk in chunks)
    is_edit = is_new and (stored or before & given)
    return 0 if is_edit else sum(chunk.text not in given for chunk in gone)


class CheckedFields:
    """First base of a pydantic class: a wrong field raises ConfigError with the message of `config.first_fault`."""

    def __init__(self, **fields: Any) -> None:
        if hasattr(fields.get("umi"), "recall"):
            raise ConfigError(f"umi is {type(fields['umi']).__name__}; expected a DualRetriever: DualRetriever(store)")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(first_fault(type(self), error)) from error  # type: ignore[arg-type]


def stages_and_fields(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options in two dicts: the stages of `UmiConfig`, and all others."""
    stages = {name: value for name, value in options.items() if name in UmiConfig.model_fields}
    return stages, {name: value for name, value in options.items() if name not in stages}


def refuse_factory_option(name: str, factory: str) -> None:
    """Raise ConfigError for an option that a retriever's class was given, but only its factories take."""
    if name in UmiConfig.model_fields or name in ("llm", "reranker", "arms"):
        store = "" if name == "arms" else ", and of UmiVectorStore"
        raise ConfigError(f"{name} is an option of {factory} and from_store{store}; give it there")
    raise ConfigError(f"{name} is an option of {factory}, which opens a store itself; from_store takes an open one")


def refuse_other_retriever(retriever: Any, kind: type, *methods: str) -> None:
    """Raise ConfigError unless a tool's or context's retriever is a `kind` and replaces none of its search methods.

    Args:
        methods: Further methods that it may not replace, besides OWN_SEARCH.
    """
    if not isinstance(retriever, kind):
        raise ConfigError(
            f"retriever is {type(retriever).__name__}; expected a UmiRetriever: UmiRetriever.from_store(store), or "
            "the .retriever() of a UmiVectorStore"
        )
    own = [name for name in (*OWN_SEARCH, *methods) if hasattr(kind, name) and overrides(retriever, kind, name)]
    if own:
        raise ConfigError(
            f"{type(retriever).__name__} has its own {own[0]}, which a tool or context would not call; give the "
            "retriever a filter in its place, or wrap it in the framework's own retriever tool"
        )


def overrides(instance: object, base: type, *methods: str) -> bool:
    """Whether the instance's class replaces one of these methods of `base`. Then every call must use that method."""
    own = type(instance)
    return any(getattr_static(own, name) is not getattr_static(base, name) for name in methods)


def chroma_collection(vector_store: Any, kind: str) -> Any:
    """The collection of a framework's vector store over Chroma; None: it is another kind of store.

    It is recognised by the name `kind` of its class: Chroma's package may not be installed, and vector stores of other
    databases have a `_collection`, too.
    """
    of_chroma = any(each.__name__ == kind for each in type(vector_store).__mro__)
    return getattr(vector_store, "_collection", None) if of_chroma else None


def same_float(value: object, stored: object) -> bool:
    """Whether `value` is a float, and `stored` differs in its last bits at most, which a Chroma server may change."""
    if not isinstance(value, float) or isinstance(stored, bool) or not isinstance(stored, (int, float)):
        return False
    return isclose(value, stored, rel_tol=1e-15)


def scores_by_rank(chunks: Iterable[Chunk], depth: int) -> list[tuple[Chunk | str, float]]:
    """Each chunk of a framework's retriever with 1 - (rank - 1) / depth, for use as an arm.

    Scores of different retrievers have no common scale, ranks have. Measured with MiniLM's 50 nearest as the arm:
    nDCG@10 on Cranfield 0.355 -> 0.392, on a chat of LoCoMo 0.520 -> 0.534; with 1 / log2(1 + rank) 0.388 and 0.519,
    with the cosines themselves 0.386 and 0.527.
    """
    return [(chunk, 1.0 - (rank - 1) / depth) for rank, chunk in enumerate(chunks, start=1)]


def scores_of_kept(kept: Sequence[tuple[int, Any]], count: int) -> list[float]:
    """A score for each of `count` texts from what a framework's reranker returned: -inf for texts that it dropped.

    Args:
        kept: (row, score), best first. If a score is no finite number, or all are equal, this order decides.
        count: Number of texts that it was given.
    """
    stated = [score for _, score in kept if isinstance(score, (int, float, np.number)) and np.isfinite(score)]
    by_score = len(stated) == len(kept) and len(set(stated)) > 1
    scores = [-np.inf] * count
    for rank, (row, score) in enumerate(kept):
        scores[row] = max(scores[row], float(score) if by_score else float(count - rank))
    return scores


def edges_first(scores: Sequence[float]) -> bool:
    """Whether the order is that of the frameworks' `LongContextReorder`: by rising score, inserted alternately at
    front and end."""
    rising = sorted(scores)
    return len(scores) > 2 and list(scores) == rising[::2][::-1] + rising[1::2] and list(scores) != rising[::-1]


class _ToolArguments(BaseModel):
    """Arguments of a tool. null and "" count as missing, except as `query`: models send them for options that they
    leave open.

    Unknown arguments are refused: if the model meant one as a limit or a filter, ignoring it would widen the search.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, asked: Any) -> Any:
        if not isinstance(asked, Mapping):
            return asked
        return {name: value for name, value in asked.items() if value not in (None, "") or name == "query"}


def tool_schema(limit_name: str, limit: int, limit_max: int) -> type[BaseModel]:
    """The arguments that a model may give an agent's search tool."""
    when = "ISO date or time, for example 2024-05-01 or 2024-05-01T09:30:00+02:00"
    limit = min(limit, limit_max)
    fields: dict[str, Any] = {
        "query": (str, Field(description="What to look for, in plain words.")),
        limit_name: (int, Field(default=limit, ge=1, le=limit_max, description="Largest number of texts to return.")),
        "filter": (
            dict[str, Any] | None,
            Field(default=None, description='Conditions on metadata: {"user": "ann"} or {"year": {"$gte": 2023}}.'),
        ),
        "start": (str | None, Field(default=None, description=f"Only texts about this time or later; {when}.")),
        "end": (str | None, Field(default=None, description=f"Only texts about a time before this; {when}.")),
    }
    return create_model("UmiSearch", __base__=_ToolArguments, **fields)


def nothing_found(store: Store, asked: object, within: Filter | None, window: TimeRange | None) -> str:
    """What a tool tells a model whose search found nothing. If the model gave a filter, it is told which metadata keys
    the texts have, each with an example: it may have guessed a key, or compared a number with a string.

    Args:
        asked: The model's filter; None or {}: none.
        within, window: The retriever's own filter and time range; keys and values of other texts are not shown.
    """
    if not asked:
        return NOTHING_FOUND
    try:
        chunks = [chunk for chunk in store.scan(where=within, limit=KEYS_READ) if chunk_passes(chunk, None, window)]
    except UmiError:  # the search has answered, and its answer is that nothing was found
        return NOTHING_FOUND
    examples: dict[str, Any] = {}
    for own in (own_metadata(chunk, METADATA_ALONE) for chunk in chunks):
        examples |= {key: value for key, value in own.items() if examples.get(key) is None}
    shown = [f"{key!r} ({examples[key]!r:.{EXAMPLE_CHARACTERS}})" for key in sorted(examples)[:KEYS_NAMED]]
    keys = f"Keys of the texts, with an example of each: {', '.join(shown)}." if shown else "No text has metadata."
    return f"{NOTHING_FOUND} {keys}"


def tool_window(start: str | None, end: str | None) -> TimeRange | None:
    """The time range that a model asked for.

    Raises:
        InputError: If one is no date or time. The model can read the message.
    """
    moments = tool_time("start", start), tool_time("end", end)
    return None if moments == (None, None) else TimeRange(*moments)


def tool_time(name: str, text: str | None) -> datetime | None:
    """The time that a model gave as an argument of this name; None: it gave none. Raises as `tool_window`."""
    moment = read_time(text)
    if text not in (None, "") and moment is None:
        raise InputError(f"{name} {text!r:.40} is no ISO date or time; expected for example 2024-05-01")
    return moment
