"""A filter as a Qdrant condition that lets through at least what passes; umi checks every hit again.

Qdrant looks into lists, takes 1 and 1.0 for different values, has no order on strings and reads keys as paths. So a
point carries, beside its metadata,

    facts     keywords, one for each statement about a key: it exists, it equals this value, it is a list with this
              item. Hashes of 8 bytes, so any key and any value will do.
    numbers   by hashed key, the values that are numbers
    texts     by hashed key, of the values that are strings the first 6 UTF-8 bytes as a number: their order, coarsely

A missing key and None have no fact, so they are the same. Equality, lists, existence and their complements are exact,
and so are times. An order is widened: on numbers by a few last places, which servers lose; on strings to the prefix.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from umi_common.filters import And, Comparison, Filter, Or
from umi_common.filters.tree import TEXT_MATCHES, Operator
from umi_common.stores.qdrant.connection import models
from umi_common.types import Metadata, MetadataValue, TimeRange, microseconds

HASH_BYTES = 8
PREFIX_BYTES = 6
"""A float64, as which Qdrant compares ranges, holds so many bytes exactly."""

EXISTS, EQUALS, HOLDS = "exists", "equals", "holds"
EXACT_BELOW = 2**53
"""Below it a float64 holds every whole number."""
ROUNDING = 2.0**-50
ROUNDING_MIN = 1e-300
"""Largest change of a number in a server's JSON, as a share of the number, and at least."""
_BOUND: dict[Operator, str] = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_COMPLEMENT = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


def fact(kind: str, key: str, value: MetadataValue = None) -> str:
    """The keyword of one statement about a key; equal exactly where umi's filters call two values equal."""
    statement = json.dumps([kind, key, _canonical(value)], ensure_ascii=True)
    return hashlib.blake2b(statement.encode(), digest_size=HASH_BYTES).hexdigest()


def facts_of(metadata: Metadata) -> list[str]:
    """The facts of a chunk's metadata, sorted."""
    found = set()
    for key, value in metadata.items():
        if value is None:
            continue
        found |= {fact(EXISTS, key), fact(EQUALS, key, value)}
        if isinstance(value, tuple):
            found |= {fact(HOLDS, key, item) for item in value}
    return sorted(found)


def numbers_of(metadata: Metadata) -> dict[str, float]:
    """Numbers by hashed key; as float64, so integers beyond 2^53 lose their last digits."""
    return {
        hashed(key): float(value)
        for key, value in metadata.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def texts_of(metadata: Metadata) -> dict[str, int]:
    """`prefix` of the values that are strings, by hashed key."""
    return {hashed(key): prefix(value) for key, value in metadata.items() if isinstance(value, str)}


def hashed(key: str) -> str:
    """A key as a name without characters of Qdrant's path syntax."""
    return "k" + hashlib.blake2b(key.encode(), digest_size=HASH_BYTES).hexdigest()


def prefix(text: str) -> int:
    """The first bytes as a number: never falls where the text rises."""
    return int.from_bytes(text.encode()[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0"), "big")


def _canonical(value: MetadataValue) -> object:
    """Equal for 1 and 1.0, different for True and 1; lists item by item."""
    if isinstance(value, tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, bool) or value is None:
        return {"is": value}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@dataclass(frozen=True, slots=True)
class Compiled:
    """A filter for Qdrant."""

    condition: Any
    """A Qdrant condition; None: everything."""
    exact: bool
    """Whether only passing chunks pass it."""


def compiled(where: Filter | None, window: TimeRange | None, tenants: tuple[str, ...] = ()) -> Compiled:
    """A condition that every chunk passes that passes `where` and whose time lies in the window."""
    compiler = _Compiler(tenants)
    parts = [] if where is None else [compiler.compile(where, wanted=True)]
    if window is not None:
        bounds = (("gte", window.start), ("lt", window.end))
        parts += [_ranged("time", word, microseconds(at)) for word, at in bounds if at is not None]
        if window.start is None and window.end is None:
            parts.append(Compiled(models().Filter(must_not=[_empty("time")]), True))
    return _all(parts)


@dataclass(frozen=True, slots=True)
class _Compiler:
    tenants: tuple[str, ...]

    def compile(self, where: Filter, *, wanted: bool) -> Compiled:
        """For `where`, or for its complement; negation goes down to the leaves, so that widening stays widening."""
        if isinstance(where, Comparison):
            return self._leaf(where, wanted)
        if isinstance(where, (And, Or)):
            parts = [self.compile(part, wanted=wanted) for part in where.parts]
            return _all(parts) if isinstance(where, And) is wanted else _any(parts)
        return self.compile(where.part, wanted=not wanted)

    def _leaf(self, leaf: Comparison, wanted: bool) -> Compiled:
        key, value = leaf.key, leaf.value
        if leaf.operator == "$eq":
            return self._one_of(key, (value,), wanted)
        if leaf.operator == "$in" and isinstance(value, tuple):
            return self._one_of(key, value, wanted)
        if leaf.operator == "$contains":
            return _stated(_match("facts", (fact(HOLDS, key, value),)), wanted)
        if leaf.operator in TEXT_MATCHES:
            return Compiled(_match("facts", (fact(EXISTS, key),)) if wanted else None, False)
        return _ordered(key, leaf.operator, value, wanted)

    def _one_of(self, key: str, values: tuple[MetadataValue, ...], wanted: bool) -> Compiled:
        present = tuple(value for value in values if value is not None)
        ways = [_match("facts", tuple(fact(EQUALS, key, value) for value in present))] if present else []
        if len(present) < len(values):
            ways.append(models().Filter(must_not=[_match("facts", (fact(EXISTS, key),))]))
        elif wanted and key in self.tenants and all(isinstance(value, str) for value in present):
            # The tenant's index leads to its part of the collection; the fact keeps lists of tenants out.
            return Compiled(models().Filter(must=[_match(tenant_field(key), present), *ways]), True)
        either = ways[0] if len(ways) == 1 else models().Filter(should=ways)
        return _stated(either, wanted)


def tenant_field(key: str) -> str:
    """Where a point has a tenant's name."""
    return f"metadata.{key}"


def _ordered(key: str, operator: Operator, bound: MetadataValue, wanted: bool) -> Compiled:
    word = _BOUND[operator]
    if isinstance(bound, str):
        field = f"texts.{hashed(key)}"
        # Equal prefixes tell nothing, so a strict order lets them in where it is wanted, and out where it is not.
        kept = _range(field, {"gt": "gte", "lt": "lte"}.get(word, word) if wanted else word[:2], prefix(bound))
        return Compiled(kept if wanted else models().Filter(must_not=[kept]), False)
    assert isinstance(bound, (int, float)), "parsing refuses an order on anything else"
    field = f"numbers.{hashed(key)}"
    if wanted:
        return _widened(field, word, bound)
    # What surely has that order is out; what the server's numbers cannot tell stays in, and so does what is no number.
    beyond = _outward(_COMPLEMENT[word], bound)
    sure = models().Filter(must_not=[_range(field, word[:2], beyond)]) if math.isfinite(beyond) else None
    return Compiled(sure, False)


def _widened(field: str, word: str, bound: int | float) -> Compiled:
    wider = _outward(word, bound)
    return Compiled(_range(field, word[:2] + "e", wider) if math.isfinite(wider) else None, False)


def _ranged(field: str, word: str, bound: int) -> Compiled:
    """A range over whole numbers, widened where float64 blurs them."""
    if abs(bound) < EXACT_BELOW:
        return Compiled(_range(field, word, float(bound)), True)
    return _widened(field, word, bound)


def _outward(word: str, bound: int | float) -> float:
    """A bound moved a few last places to the side that lets more through: a server may lose a fraction's last bit."""
    step = max(abs(float(bound)) * ROUNDING, ROUNDING_MIN)
    return float(bound) - step if word.startswith("g") else float(bound) + step


def _range(field: str, word: str, bound: float) -> Any:
    return models().FieldCondition(key=field, range=models().Range(**{word: bound}))


def _match(field: str, values: tuple[Any, ...]) -> Any:
    match = models().MatchValue(value=values[0]) if len(values) == 1 else models().MatchAny(any=list(values))
    return models().FieldCondition(key=field, match=match)


def _empty(field: str) -> Any:
    return models().IsEmptyCondition(is_empty=models().PayloadField(key=field))


def _stated(condition: Any, wanted: bool) -> Compiled:
    return Compiled(condition if wanted else models().Filter(must_not=[condition]), True)


def _all(parts: list[Compiled]) -> Compiled:
    known = [part.condition for part in parts if part.condition is not None]
    exact = all(part.exact for part in parts)
    if len(known) <= 1:
        return Compiled(known[0] if known else None, exact)
    return Compiled(models().Filter(must=known), exact)


def _any(parts: list[Compiled]) -> Compiled:
    if any(part.condition is None for part in parts):
        return Compiled(None, False)
    return Compiled(models().Filter(should=[part.condition for part in parts]), all(part.exact for part in parts))
