"""A filter as a Qdrant filter over a point's facts that lets through at least what passes; umi re-checks every hit.

Equality, lists, existence and their complements are exact, and so are times. An order is widened: of numbers by a few
last places, which servers lose; of strings, which Qdrant cannot order, to what `facts` keeps of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from umi_common.filters import And, Comparison, Filter, Or
from umi_common.filters.tree import Operator
from umi_common.stores.ledger.codec import microseconds
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.facts import EQUALS, EXISTS, HOLDS, fact, hashed, prefix
from umi_common.types import MetadataValue, TimeRange

EXACT_BELOW = 2**53
"""Whole numbers that a float64 tells from their neighbours."""
ROUNDING = 2.0**-50
LEAST = 1e-300
"""How far, as a share and at least, a number that went through a server's JSON may lie from what it was."""
_BOUND: dict[Operator, str] = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_COMPLEMENT = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


@dataclass(frozen=True, slots=True)
class Compiled:
    """What Qdrant is asked for."""

    condition: Any
    """A Qdrant condition; None: everything."""
    exact: bool
    """Whether it lets through exactly what passes; else more."""


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
    step = max(abs(float(bound)) * ROUNDING, LEAST)
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
