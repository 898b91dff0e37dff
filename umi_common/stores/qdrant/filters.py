"""Translate a filter into a condition of Qdrant. Chunks that pass the filter pass the condition, and perhaps others:
umi checks every hit with the filter itself.

Qdrant matches a value against the items of a list, distinguishes 1 from 1.0, cannot order strings and reads keys as
paths. So a point has, beside its metadata, the payload fields

    facts     keywords, one for each statement about a key: it exists, it equals this value, it is a list with this
              item. A keyword is a hash of 8 bytes, so keys and values may be of any form.
    numbers   hashed key -> the value, for values that are numbers
    texts     hashed key -> the first 6 UTF-8 bytes as a number, for values that are strings; the number orders most

A missing key and a key with None have no fact, so filters treat them alike. Conditions for equality, lists, existence,
their complements and times are exact. Conditions for an order let more chunks pass: numbers that differ from the bound
only in the last digits, which servers may change, and strings with the same first 6 bytes as the bound.
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
"""Bytes of a string that `texts` holds: Qdrant compares ranges as float64, which is exact for 6 bytes."""

EXISTS, EQUALS, HOLDS = "exists", "equals", "holds"
EXACT_BELOW = 2**53
"""Whole numbers below this are exact as float64."""
ROUNDING = 2.0**-50
"""Relative amount by which a bound is widened: the most by which a server changes a number it reads from JSON."""
ROUNDING_MIN = 1e-300
"""Smallest absolute amount by which a bound is widened, for bounds near 0."""
_BOUND: dict[Operator, str] = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_COMPLEMENT = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


def fact(kind: str, key: str, value: MetadataValue = None) -> str:
    """The keyword of one statement about a key: the same for two values exactly if umi's filters call them equal."""
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
    """Hashed key -> value, for the values that are numbers; float64, so integers beyond 2^53 lose their last digits."""
    return {
        hashed(key): float(value)
        for key, value in metadata.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def texts_of(metadata: Metadata) -> dict[str, int]:
    """Hashed key -> `prefix` of the value, for the values that are strings."""
    return {hashed(key): prefix(value) for key, value in metadata.items() if isinstance(value, str)}


def hashed(key: str) -> str:
    """A hash of the key, as a name without the characters that are special in Qdrant's paths."""
    return "k" + hashlib.blake2b(key.encode(), digest_size=HASH_BYTES).hexdigest()


def prefix(text: str) -> int:
    """The first PREFIX_BYTES bytes as a number. Of two texts, the smaller one never has the larger number."""
    return int.from_bytes(text.encode()[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0"), "big")


def _canonical(value: MetadataValue) -> object:
    """The value in a form that is equal for 1 and 1.0 and different for 1 and True, also inside lists."""
    if isinstance(value, tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, bool) or value is None:
        return {"is": value}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@dataclass(frozen=True, slots=True)
class Compiled:
    """A filter as a condition of Qdrant."""

    condition: Any
    """A condition of Qdrant; None: all chunks pass."""
    exact: bool
    """Whether only chunks that pass the filter pass the condition."""


def compiled(where: Filter | None, window: TimeRange | None, tenants: tuple[str, ...] = ()) -> Compiled:
    """The condition for chunks that pass `where` and whose time lies in the window.

    Args:
        where: None: all chunks pass.
        window: None: any time, or none.
        tenants: Metadata keys with a tenant index.
    """
    compiler = _Compiler(tenants)
    parts = [] if where is None else [compiler.compile(where, wanted=True)]
    if window is not None:
        bounds = (("gte", window.start), ("lt", window.end))
        parts += [_at_time(word, microseconds(at)) for word, at in bounds if at is not None]
        if window.start is None and window.end is None:
            timeless = models().IsEmptyCondition(is_empty=models().PayloadField(key="time"))
            parts.append(Compiled(models().Filter(must_not=[timeless]), True))
    return _all(parts)


@dataclass(frozen=True, slots=True)
class _Compiler:
    tenants: tuple[str, ...]

    def compile(self, where: Filter, *, wanted: bool) -> Compiled:
        """The condition for `where`; if `wanted` is false, the condition for the complement of `where`.

        Complements are made of the single comparisons. The complement of an inexact condition, which more chunks pass,
        would lose chunks.
        """
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
            return _exact(_match("facts", (fact(HOLDS, key, value),)), wanted)
        if leaf.operator in TEXT_MATCHES:
            return Compiled(_match("facts", (fact(EXISTS, key),)) if wanted else None, False)
        return _ordered(key, leaf.operator, value, wanted)

    def _one_of(self, key: str, values: tuple[MetadataValue, ...], wanted: bool) -> Compiled:
        present = tuple(value for value in values if value is not None)
        conditions = [_match("facts", tuple(fact(EQUALS, key, value) for value in present))] if present else []
        if len(present) < len(values):
            conditions.append(models().Filter(must_not=[_match("facts", (fact(EXISTS, key),))]))
        elif wanted and key in self.tenants and all(isinstance(value, str) for value in present):
            # The tenant index limits the search to the tenant's points; the fact excludes lists that hold the tenant.
            return Compiled(models().Filter(must=[_match(tenant_field(key), present), *conditions]), True)
        either = conditions[0] if len(conditions) == 1 else models().Filter(should=conditions)
        return _exact(either, wanted)


def tenant_field(key: str) -> str:
    """The payload field that holds the value of a tenant's key."""
    return f"metadata.{key}"


def _ordered(key: str, operator: Operator, bound: MetadataValue, wanted: bool) -> Compiled:
    word = _BOUND[operator]
    if isinstance(bound, str):
        field = f"texts.{hashed(key)}"
        # A prefix equal to the bound's decides nothing: such chunks pass, whether the comparison is wanted or not.
        kept = _range(field, {"gt": "gte", "lt": "lte"}.get(word, word) if wanted else word[:2], prefix(bound))
        return Compiled(kept if wanted else models().Filter(must_not=[kept]), False)
    assert isinstance(bound, (int, float)), "parsing refuses an order on anything else"
    field = f"numbers.{hashed(key)}"
    if wanted:
        return _widened(field, word, bound)
    # Excludes the numbers that certainly pass the comparison; numbers too close to the bound, and other values, stay.
    beyond = _outward(_COMPLEMENT[word], bound)
    excluding = models().Filter(must_not=[_range(field, word[:2], beyond)]) if math.isfinite(beyond) else None
    return Compiled(excluding, False)


def _widened(field: str, word: str, bound: int | float) -> Compiled:
    wider = _outward(word, bound)
    return Compiled(_range(field, word[:2] + "e", wider) if math.isfinite(wider) else None, False)


def _at_time(word: str, bound: int) -> Compiled:
    """The condition for a bound of the time, in microseconds; inexact from EXACT_BELOW on, as float64 then is."""
    if abs(bound) < EXACT_BELOW:
        return Compiled(_range("time", word, float(bound)), True)
    return _widened("time", word, bound)


def _outward(word: str, bound: int | float) -> float:
    """The bound, moved by ROUNDING so that more numbers pass: a server may change the last bits of a number."""
    step = max(abs(float(bound)) * ROUNDING, ROUNDING_MIN)
    return float(bound) - step if word.startswith("g") else float(bound) + step


def _range(field: str, word: str, bound: float) -> Any:
    return models().FieldCondition(key=field, range=models().Range(**{word: bound}))


def _match(field: str, values: tuple[Any, ...]) -> Any:
    match = models().MatchValue(value=values[0]) if len(values) == 1 else models().MatchAny(any=list(values))
    return models().FieldCondition(key=field, match=match)


def _exact(condition: Any, wanted: bool) -> Compiled:
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
