"""umi as a LangGraph store: an agent's long-term memory, found by key, by filter and by hybrid search.

Each item is stored as one chunk. The chunk's text is the item's value as JSON; its search text is the texts of the
indexed fields. The item with the key "k" in the namespace ("a", "b") has the id "umi.item/a.b..k". No label contains a
period, so the items of a namespace and of the namespaces below it form one range of ids.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import nlargest
from math import inf, isfinite
from threading import Lock
from typing import Any
from zlib import crc32

from umi_common.errors import ConfigError, FilterError, InputError, InvalidChunk, InvalidLimit, MissingExtra
from umi_common.filters import And, Comparison, Filter, Not, matches, parse_filter
from umi_common.frameworks.records import NESTED
from umi_common.protocols import Clock, Store, pages
from umi_common.retriever import DualRetriever
from umi_common.runtime.closing import Closing
from umi_common.runtime.forks import renew_in_child
from umi_common.search.request import checked_limit, end_of
from umi_common.types import Chunk, Scalar, as_utc, plain_value, utc_now

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise MissingExtra("langgraph", "agents") from error

Namespace = tuple[str, ...]

ID_PREFIX = "umi.item/"
"""Beginning of the ids of all items."""
NAMESPACE_KEY = "umi_namespace"
"""Metadata key of the namespace: its labels, each followed by a period."""
CREATED_KEY = "umi_created_at"
"""Metadata key of the time when the item was first written, as an ISO string."""
TTL_KEY = "umi_ttl_minutes"
"""Metadata key of the item's `ttl`, in minutes."""
EXPIRES_KEY = "umi_expires_at"
"""Metadata key of the time when the item expires, in seconds since 1970. An item without it never expires."""
UNINDEXED_KEY = "umi_unindexed"
"""Metadata key, True, of an item that no query finds."""
UNINDEXED_TEXT = "-"
"""Search text of an item that no query finds. It contains no term."""
PAGE = 256
"""Number of items that one read takes from the store."""
LOCKS = 64
"""Number of locks of a store; the hash of an item's id selects one."""


class _ItemLocks:
    """Locks for the items of one store. A write holds the locks of its items. So does a read that sets a new expiry: it
    stores the items again, and must not overwrite a value that was written meanwhile."""

    _locks: list[Lock]

    def __init__(self) -> None:
        renew_in_child(self, lambda each: setattr(each, "_locks", [Lock() for _ in range(LOCKS)]))

    def held(self, ids: Iterable[str]) -> ExitStack:
        """Lock these items until the result is closed. All threads take locks in the same order, so none deadlocks."""
        with ExitStack() as stack:
            for index in sorted({crc32(id.encode(errors="replace")) % LOCKS for id in ids}):
                stack.enter_context(self._locks[index])
            return stack.pop_all()

    def __deepcopy__(self, memo: object) -> _ItemLocks:
        return self  # the copy of a `UmiStore` has the same store

    def __reduce__(self) -> tuple[Any, ...]:
        return _ItemLocks, ()


class UmiStore(Closing, BaseStore):
    """A LangGraph store over a `HybridStore`, for `create_agent(store=...)` and `graph.compile(store=...)`.

    `search` without a query lists items, the last written first. `search` with a query finds items by BM25 and by
    vectors, best first; limit + offset is at most 100. An item's score is `hit.relevance`, 0..1, or None if the
    relevance is not known. Filters take umi's operators on keys of the value, and nested dicts (docs/filters.md).

    Expired items are never returned. `sweep_ttl` removes them, and so does the first write after each
    `sweep_interval_minutes`. Make only one `UmiStore` over a store: two would write without each other's locks.

    Args:
        memory: A store, or a `DualRetriever` over one. `close` does not close the store.
        fields: Paths in the value whose texts are searched, unless `put` names others. "$": the whole value as JSON.
        ttl: LangGraph's `TTLConfig`, in minutes. None: an item never expires unless `put` gives a `ttl`.
            `omit_expired` is always on.
        clock: Returns the present as an aware datetime; None: the computer's clock.

    Raises:
        ConfigError: If `fields` is no list of paths, `ttl` is not a dict of known settings with minutes above 0, or
            `clock` returns no aware datetime.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Store | DualRetriever,
        *,
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(fields, str):
            raise ConfigError(f"fields {fields!r:.80} is one string; expected a list of paths: [{fields!r:.80}]")
        if not isinstance(fields, Iterable):
            raise ConfigError(f"fields is {fields!r:.80}; expected a list of paths, for example ['text']")
        _check_ttl_config(ttl)
        self.umi = memory if isinstance(memory, DualRetriever) else DualRetriever(memory)
        self.ttl_config = ttl
        self._fields = list(fields)
        self._clock = utc_now if clock is None else clock
        self._locks = _ItemLocks()
        self._swept_at = self._now()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of several operations, in their order; None for a write.

        All reads run first, then the writes. Of several writes to one key, only the last runs. An error writes nothing.

        Raises:
            InvalidChunk: If a value cannot be stored; the message names the item.
            FilterError, InvalidLimit: If the filter or the limit of a search is not valid.
            InputError: If an operation or another argument has the wrong type, or a `ttl` is not above 0.
        """
        ops = list(ops)
        for op in ops:
            _check(op)
            validate_op_namespace(op)
        answers = [self._answer(op) for op in ops]
        writes = {_id_of(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        if writes:
            self._write(writes)
        return answers

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove the expired items, and return their number."""
        return self.umi.store.delete(where=self._expired())

    def close(self) -> None:
        """Close the retriever and its threads; the store stays open."""
        self.umi.close()

    def _answer(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._found(op) if op.query and op.query.strip() else self._listed(op)
        return self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    def _get(self, op: GetOp) -> Item | None:
        chunk = self.umi.store.get([_id_of(op.namespace, op.key)])[0]
        if chunk is None or not matches(self._living(), chunk.metadata):
            return None
        self._refresh([chunk], op.refresh_ttl)
        return Item(**_fields_of(chunk))

    def _found(self, op: SearchOp) -> list[SearchItem]:
        indexed = Not(Comparison(UNINDEXED_KEY, "$eq", True))
        where = And((*_within(op.namespace_prefix), indexed, self._living(), *_conditions(op.filter)))
        if op.limit == 0:
            return []
        limit = checked_limit(op.offset + op.limit, "limit + offset of a search with a query")
        hits = self.umi.search(end_of(op.query or ""), limit=limit, where=where).hits[op.offset :]
        self._refresh([hit.chunk for hit in hits], op.refresh_ttl)
        return [SearchItem(**_fields_of(hit.chunk), score=hit.relevance) for hit in hits]

    def _listed(self, op: SearchOp) -> list[SearchItem]:
        where = And((self._living(), *_conditions(op.filter)))
        passing = (chunk for chunk in self._below(op.namespace_prefix) if matches(where, chunk.metadata))
        chosen = nlargest(op.offset + op.limit, passing, key=lambda chunk: (_updated(chunk), chunk.id))[op.offset :]
        self._refresh(chosen, op.refresh_ttl)
        return [SearchItem(**_fields_of(chunk)) for chunk in chosen]

    def _below(self, namespace: Namespace) -> Iterator[Chunk]:
        """Yield the items of a namespace and of the namespaces below it, by rising id."""
        start = ID_PREFIX + _text_of(namespace)
        for page in pages(self.umi.store, after=start, size=PAGE):
            for chunk in page:
                if not chunk.id.startswith(start):
                    return
                yield chunk

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """The namespaces that match the conditions, sorted."""
        conditions = op.match_conditions or ()
        found: set[Namespace] = set()
        start = after = ID_PREFIX + _text_of(_shared_prefix(conditions))
        living = self._living()
        while page := self.umi.store.scan(where=living, after=after, limit=1):
            if not page[0].id.startswith(start):
                break
            namespace = _namespace_of(page[0])
            # Go on after all possible ids of this namespace: in them "." follows, and "/" is the character after ".".
            after = f"{ID_PREFIX}{_text_of(namespace)}/"
            if all(_fits(condition, namespace) for condition in conditions):
                found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    def _write(self, writes: Mapping[str, PutOp]) -> None:
        """Put and delete items; then remove expired items if `sweep_interval_minutes` have passed. `writes`: by id."""
        store, now = self.umi.store, self._now()
        with self._locks.held(writes):
            known = dict(zip(writes, store.get(list(writes)), strict=True))
            chunks = [self._chunk(id, op, known[id], now) for id, op in writes.items() if op.value is not None]
            if chunks:
                store.add(chunks)
            removed = [id for id, op in writes.items() if op.value is None]
            if removed:
                store.delete(removed)
        interval = (self.ttl_config or {}).get("sweep_interval_minutes")
        if interval is not None and now - self._swept_at >= timedelta(minutes=interval):
            self._swept_at = now
            self.sweep_ttl()

    def _chunk(self, id: str, op: PutOp, known: Chunk | None, now: datetime) -> Chunk:
        if not isinstance(op.value, Mapping):
            raise InvalidChunk(
                f"item {op.key!r:.80} of {op.namespace}: the value is {type(op.value).__name__}; expected a dict"
            )
        try:
            text = json.dumps(dict(op.value), ensure_ascii=False, default=_plain)
            value = json.loads(text)
            leaves = _leaves("value", value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidChunk(
                f"item {op.key!r:.80} of {op.namespace}: {error}; expected a value that JSON can hold"
            ) from error
        living = known is not None and matches(self._living(), known.metadata)
        own: dict[str, Scalar] = {
            NAMESPACE_KEY: _text_of(op.namespace),
            CREATED_KEY: str(known.metadata[CREATED_KEY]) if known is not None and living else now.isoformat(),
        }
        if op.ttl is not None:
            own |= {TTL_KEY: float(op.ttl), EXPIRES_KEY: now.timestamp() + 60 * op.ttl}
        paths = self._fields if op.index is None else op.index or []
        texts = [text for path in paths for text in get_text_at_path(value, path) if text.strip()]
        if not texts:
            own[UNINDEXED_KEY] = True
        return Chunk(
            id, text, metadata={**leaves, **own}, event_time=now, search_text="\n".join(texts) or UNINDEXED_TEXT
        )

    def _refresh(self, read: Sequence[Chunk], wanted: bool) -> None:
        """If `wanted`, set the expiry of each item in `read` that has a `ttl` to now plus this `ttl`."""
        store = self.umi.store
        ids = [chunk.id for chunk in read if TTL_KEY in chunk.metadata] if wanted else []
        if not ids or getattr(store, "read_only", False):
            return
        with self._locks.held(ids):
            chunks = [chunk for chunk in store.get(ids) if chunk is not None and TTL_KEY in chunk.metadata]
            ends = [self._now().timestamp() + 60 * float(chunk.metadata[TTL_KEY]) for chunk in chunks]  # type: ignore[arg-type]
            later = [
                replace(chunk, metadata={**chunk.metadata, EXPIRES_KEY: end})
                for chunk, end in zip(chunks, ends, strict=True)
            ]
            store.add(later, vectors=store.vectors([chunk.id for chunk in later]))

    def _now(self) -> datetime:
        return as_utc(self._clock(), "the time that clock() returned", ConfigError)

    def _expired(self) -> Comparison:
        return Comparison(EXPIRES_KEY, "$lte", self._now().timestamp())

    def _living(self) -> Filter:
        """A filter for items that have not expired. Chunks that are not items do not pass."""
        return And((Comparison(NAMESPACE_KEY, "$gte", ""), Not(self._expired())))


def _check_ttl_config(ttl: object) -> None:
    if not isinstance(ttl, (Mapping, type(None))):
        raise ConfigError(f'ttl is {ttl!r:.80}; expected a dict such as {{"default_ttl": 60}}, in minutes, or None')
    unknown = sorted(map(str, set(ttl or ()) - set(TTLConfig.__annotations__)))
    if unknown:
        raise ConfigError(f"ttl has no setting {unknown[0]!r}; expected {', '.join(TTLConfig.__annotations__)}")
    for name in ("default_ttl", "sweep_interval_minutes"):
        _check_minutes(f"ttl[{name!r}]", (ttl or {}).get(name), ConfigError)


def _check_minutes(name: str, minutes: object, error: type[InputError]) -> None:
    number = isinstance(minutes, (int, float)) and not isinstance(minutes, bool)
    if minutes is not None and not (number and 0 < minutes < inf):  # type: ignore[operator]
        raise error(f"{name} is {minutes!r:.80}; expected minutes above 0, or None: never")


def _check(op: Op) -> None:
    """Raise InputError if an argument has a wrong type or value that LangGraph itself does not refuse."""
    if not isinstance(op, (GetOp, SearchOp, PutOp, ListNamespacesOp)):
        raise InputError(f"operation is {type(op).__name__}; expected GetOp, SearchOp, PutOp or ListNamespacesOp")
    namespace = getattr(op, "namespace", getattr(op, "namespace_prefix", ()))
    if isinstance(namespace, str):
        raise InputError(f"namespace {namespace!r:.80} is one string; expected a tuple of labels: ({namespace!r:.80},)")
    depth = getattr(op, "max_depth", None)
    numbers = {"limit": getattr(op, "limit", 0), "offset": getattr(op, "offset", 0), "max_depth": depth or 0}
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidLimit(f"{name} {number!r:.80}: expected a whole number from 0")
    if isinstance(op, SearchOp) and not isinstance(op.query, (str, type(None))):
        raise InputError(f"query is {type(op.query).__name__}; expected str or None")
    if isinstance(op, PutOp):
        _check_minutes(f"ttl of item {op.key!r:.80}", op.ttl, InputError)
        listed = isinstance(op.index, (list, tuple)) and all(isinstance(path, str) for path in op.index)
        if op.index is not None and op.index is not False and not listed:
            raise InputError(
                f"index of item {op.key!r:.80} is {op.index!r:.80}; expected a list of paths such as ['text'], False "
                "(no query finds the item), or None (the store's fields)"
            )


def _text_of(namespace: Namespace) -> str:
    return "".join(f"{label}." for label in namespace)


def _id_of(namespace: Namespace, key: str) -> str:
    return f"{ID_PREFIX}{_text_of(namespace)}.{key}"


def _namespace_of(chunk: Chunk) -> Namespace:
    return tuple(str(chunk.metadata[NAMESPACE_KEY]).split(".")[:-1])


def _updated(chunk: Chunk) -> datetime:
    assert chunk.event_time is not None  # `_chunk` sets it
    return chunk.event_time


def _fields_of(chunk: Chunk) -> dict[str, Any]:
    return {
        "value": json.loads(chunk.text),
        "key": chunk.id[len(f"{ID_PREFIX}{chunk.metadata[NAMESPACE_KEY]}.") :],
        "namespace": _namespace_of(chunk),
        "created_at": datetime.fromisoformat(str(chunk.metadata[CREATED_KEY])),
        "updated_at": _updated(chunk),
    }


def _within(namespace: Namespace) -> Iterator[Filter]:
    """Yield the conditions that only items of a namespace and of the namespaces below it pass; none for ()."""
    text = _text_of(namespace)
    if text:
        yield Comparison(NAMESPACE_KEY, "$gte", text)
        yield Comparison(NAMESPACE_KEY, "$lt", f"{text[:-1]}/")  # "/" is the character that follows "."


def _shared_prefix(conditions: Iterable[MatchCondition]) -> Namespace:
    """The labels with which every namespace that matches the conditions begins; () if none are known."""
    for condition in conditions:
        if condition.match_type == "prefix":
            labels = tuple(condition.path)
            return labels[: labels.index("*")] if "*" in labels else labels
    return ()


def _fits(condition: MatchCondition, namespace: Namespace) -> bool:
    """Whether a namespace begins ("prefix") or ends ("suffix") with the condition's labels; "*" matches any label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ConfigError(f"match_type {condition.match_type!r:.40}: expected 'prefix' or 'suffix'")
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return len(namespace) >= len(path) and all(a in ("*", b) for a, b in zip(path, part, strict=True))


def _conditions(asked: Mapping[str, Any] | None, name: str = "value") -> Iterator[Filter]:
    """Yield the conditions of a LangGraph filter as conditions on the metadata that `_leaves` makes."""
    if not isinstance(asked, (Mapping, type(None))):
        raise FilterError(f'filter {asked!r:.80} is {type(asked).__name__}; expected a dict such as {{"kind": "food"}}')
    for key, value in (asked or {}).items():
        path = _path(name, key)
        if not isinstance(key, str) or key.startswith("$"):
            raise FilterError(f"filter key {key!r:.80}: expected a key of the value; operators stand below a key")
        if isinstance(value, Mapping) and value and not any(str(inner).startswith("$") for inner in value):
            yield from _conditions(value, path)
        else:
            yield parse_filter({path: {"$eq": value} if isinstance(value, (list, tuple)) else value})  # type: ignore[misc]


def _leaves(name: str, value: object) -> dict[str, Any]:
    """Path -> value, for `value` itself under the path `name`, and for all its parts. A part that a filter cannot
    compare, such as a dict, gets the value NESTED, so that a filter sees that the path exists."""
    if isinstance(value, dict):
        found: dict[str, Any] = {name: NESTED}
        for key, part in value.items():
            found |= _leaves(_path(name, key), part)
        return found
    items = value if isinstance(value, list) else [value]
    return {name: value if all(map(_comparable, items)) else NESTED}


def _comparable(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**63)


def _path(name: str, key: str) -> str:
    r"""The path of `key` below the path `name`. A period in the key is written "\.", so no two keys share a path."""
    return f"{name}." + str(key).replace("\\", "\\\\").replace(".", "\\.")


def _plain(value: object) -> object:
    plain = plain_value(value)
    if plain is value:
        raise TypeError(f"{value!r:.80} is {type(value).__name__}")
    return plain
