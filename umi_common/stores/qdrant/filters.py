"""Translate a filter into a condition of Qdrant. Each chunk that passes the filter passes the condition. Other chunks
may pass the condition too, so umi checks every hit with the filter itself.

Qdrant matches a value against the items of a list, distinguishes 1 from 1.0, cannot order strings and reads keys as
paths. So a point has, beside its metadata, the payload fields

    facts     keywords, one for each statement about a key: it exists, it equals this value, it is a list with this
              item. A keyword is a hash of 8 bytes, so keys and values may be of any form.
    numbers   hashed key -> the value, for values that are numbers
    texts     hashed key -> the first 6 UTF-8 bytes as a number, for values that are strings

A missing key and a key with None have no fact, so filters treat them alike. Conditions for equality, lists, existence,
their complements, and times from 1684 to 2255 are exact. Conditions for an order are inexact: they also let pass
numbers that differ from the bound only in the last digits, which servers may change, and strings with the same first 6
bytes as the bound.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from umi_common.filters import Comparison, Filter
from umi_common.filters.tree import TEXT_MATCHES, Operator, translated
from umi_common.stores.qdrant.connection import models
from umi_common.types import Metadata, MetadataValue, TimeRange, microseconds

HASH_BYTES = 8
PREFIX_BYTES = 6
"""Number of bytes of a string in `texts`: Qdrant compares ranges as float64, which is exact for 6 bytes."""

EXISTS, EQUALS, HOLDS = "exists", "equals", "holds"
ROUNDING = 2.0**-50
"""Relative amount by which a bound is widened: a server changes a number that it reads from JSON by less."""
ROUNDING_MIN = 1e-300
"""Smallest absolute amount by which a bound is widened, for bounds near 0."""
EARLIEST, LATEST = -(2.0**63), 2.0**63
"""Bounds of all times, in microseconds since 1970."""


def fact(kind: str, key: str, value: MetadataValue = None) -> str:
    """The keyword of one statement about a key. Two values have the same keyword exactly if filters call them equal."""
    statement = json.dumps([kind, key, _canonical(value)], ensure_ascii=True)
    return hashlib.blake2b(statement.encode(), digest_size=HASH_BYTES).hexdigest()


def facts_of(metadata: Metadata) -> list[str]:
    """The facts of a chunk's metadata, sorted."""
    found = set()
    for key, value in metadata.items():
        if value is not None:
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
    """The first PREFIX_BYTES bytes as a number. If one text is less than another, its number is not larger."""
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
        window: None: chunks of any time pass, and chunks without a time.
        tenants: Metadata keys with a tenant index.
    """
    parts = [] if where is None else [translated(where, partial(_comparison, tenants), _joined, wanted=True)]
    if window is not None:
        # Both bounds are inclusive, because float64 rounds microseconds before 1684 and after 2255.
        first = EARLIEST if window.start is None else microseconds(window.start)
        last = LATEST if window.end is None else microseconds(window.end) - 1
        parts.append(Compiled(in_range("time", gte=first, lte=last), True))
    return _joined(True, parts)


def _comparison(tenants: tuple[str, ...], where: Comparison, wanted: bool) -> Compiled:
    """The condition for a comparison; if `wanted` is false, for its complement. It is not the complement of the
    condition: that would lose chunks, because an inexact condition lets other chunks pass."""
    key, value = where.key, where.value
    if where.operator == "$eq":
        return _one_of(key, (value,), wanted, tenants)
    if where.operator == "$in" and isinstance(value, tuple):
        return _one_of(key, value, wanted, tenants)
    if where.operator == "$contains":
        return _exact(_match("facts", (fact(HOLDS, key, value),)), wanted)
    if where.operator in TEXT_MATCHES:
        return Compiled(_match("facts", (fact(EXISTS, key),)) if wanted else None, False)
    return _ordered(key, where.operator, value, wanted)


def _one_of(key: str, values: tuple[MetadataValue, ...], wanted: bool, tenants: tuple[str, ...]) -> Compiled:
    present = tuple(value for value in values if value is not None)
    conditions = [_match("facts", tuple(fact(EQUALS, key, value) for value in present))] if present else []
    if len(present) < len(values):
        conditions.append(models().Filter(must_not=[_match("facts", (fact(EXISTS, key),))]))
    elif wanted and key in tenants and all(isinstance(value, str) for value in present):
        # The tenant index limits the search to the tenant's points; the fact excludes lists that hold the tenant.
        return Compiled(models().Filter(must=[_match(tenant_field(key), present), *conditions]), True)
    either = conditions[0] if len(conditions) == 1 else models().Filter(should=conditions)
    return _exact(either, wanted)


def tenant_field(key: str) -> str:
    """The payload field that holds the value of a tenant's key."""
    return f"metadata.{key}"


def _ordered(key: str, operator: Operator, bound: MetadataValue, wanted: bool) -> Compiled:
    """The condition for an order comparison, or for its complement. Values that the server cannot tell from the bound
    pass both: numbers nearer than ROUNDING, and strings with the bound's prefix."""
    above = operator in ("$gt", "$gte")
    if isinstance(bound, str):
        field, limit = f"texts.{hashed(key)}", float(prefix(bound))
    else:
        assert isinstance(bound, (int, float)), "parsing refuses an order on anything else"
        step = max(abs(bound) * ROUNDING, ROUNDING_MIN)
        field, limit = f"numbers.{hashed(key)}", bound - step if above is wanted else bound + step
    if not math.isfinite(limit):
        return Compiled(None, False)
    side = "gt" if above else "lt"
    if wanted:
        return Compiled(in_range(field, **{f"{side}e": limit}), False)
    return Compiled(models().Filter(must_not=[in_range(field, **{side: limit})]), False)


def in_range(field: str, **bounds: float | None) -> Any:
    """The condition that a number of this payload field is within the given bounds, named gt, gte, lt or lte."""
    return models().FieldCondition(key=field, range=models().Range(**bounds))


def _match(field: str, values: tuple[Any, ...]) -> Any:
    return models().FieldCondition(key=field, match=models().MatchAny(any=list(values)))


def _exact(condition: Any, wanted: bool) -> Compiled:
    return Compiled(condition if wanted else models().Filter(must_not=[condition]), True)


def _joined(all_must: bool, parts: list[Compiled]) -> Compiled:
    if len(parts) == 1:
        return parts[0]
    conditions, exact = [part.condition for part in parts], all(part.exact for part in parts)
    if all_must:
        return Compiled(all_conditions(*conditions), exact)
    return Compiled(None, False) if None in conditions else Compiled(models().Filter(should=conditions), exact)


def all_conditions(*conditions: Any) -> Any:
    """A filter that requires all conditions that are not None; None if there is none."""
    known = [condition for condition in conditions if condition is not None]
    return models().Filter(must=known) if known else None
