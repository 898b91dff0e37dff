"""The typed tree of a filter, and the function `matches`, which tells whether a chunk's metadata passes it.

A tree is hashable. Its values are checked when it is made. Only `Not` negates.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from umi_common.errors import FilterError
from umi_common.types import Metadata, MetadataValue, Scalar, plain_value

Operator = Literal["$eq", "$in", "$gt", "$gte", "$lt", "$lte", "$contains", "$text_match", "$text_match_insensitive"]
"""The operators of a comparison; `$ne`, `$nin`, `$not_contains` and `$exists` are spellings that use `Not`."""

Term = TypeVar("Term")
OPERATORS: tuple[Operator, ...] = get_args(Operator)
TEXT_MATCHES: tuple[Operator, ...] = ("$text_match", "$text_match_insensitive")
ORDERINGS: Mapping[Operator, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}

DEPTH_MAX = 32
"""Largest number of levels of And, Or and Not. A filter is evaluated by recursion, and Python limits its depth; real
filters have far fewer levels."""
VALUES_MAX = 100_000
"""Largest number of values of one `$in`, items of one list, and values of all lists in one parsed filter. An async
search parses the filter on the event loop, where 100,000 values take about 50 ms."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on the value of one key.

    Raises:
        FilterError: If the operator cannot take the value; names key, operator and the fix.
    """

    key: str
    operator: Operator
    value: MetadataValue = field(compare=False)
    """Plain str, int, float, bool, None, or a tuple of these."""
    written: InitVar[str | None] = None
    """The operator as the caller wrote it, such as "$nin", for messages; None: `operator`."""
    identity: Hashable = field(init=False, repr=False)
    """Compared and hashed in place of `value`: the result of the function `identity` below; for `$in`, the frozenset of
    the results for its values."""

    def __post_init__(self, written: str | None) -> None:
        if not isinstance(self.key, str):
            raise FilterError(f"filter key {shown(self.key)} is {type(self.key).__name__}; expected a string")
        _check_text(self.key, f"filter key {shown(self.key)}")
        where = f"filter on {shown(self.key)}, {shown(self.operator)}"
        if not isinstance(self.operator, str) or self.operator not in OPERATORS:
            raise FilterError(f"{where}: unknown operator; expected one of {', '.join(OPERATORS)}")
        written = written or self.operator
        value = _checked_value(f"filter on {shown(self.key)}, {shown(written)}", self.operator, self.value, written)
        many = value if self.operator == "$in" and isinstance(value, tuple) else None
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "identity", identity(value) if many is None else frozenset(map(identity, many)))


@dataclass(frozen=True, slots=True)
class Junction:
    """Base class of And and Or."""

    parts: tuple[Filter, ...]
    height: int = field(init=False, compare=False, repr=False)
    """Number of nested levels of And, Or and Not, this one included."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", _checked_height(f"${type(self).__name__.lower()}", self.parts))


class And(Junction):
    """Every part holds. At least one part."""

    __slots__ = ()


class Or(Junction):
    """Some part holds. At least one part."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Not:
    """The exact complement of `part`: it holds whenever `part` does not, also if a key is missing."""

    part: Filter
    height: int = field(init=False, compare=False, repr=False)
    """Number of nested levels of And, Or and Not, this one included."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", _checked_height("$not", (self.part,)))


Filter = Comparison | And | Or | Not
"""A parsed metadata filter."""
Where = Filter | Mapping[str, Any] | None
"""A metadata filter in any spelling that `parse_filter` reads; None: everything passes."""


def joined(node: type[And] | type[Or], parts: Sequence[Filter]) -> Filter:
    """The node with these parts; if there is only one, the part itself."""
    return parts[0] if len(parts) == 1 else node(tuple(parts))


def comparisons(where: Filter, *, negated: bool = True) -> Iterator[Comparison]:
    """The comparisons of a filter, left to right. With `negated=False`, comparisons inside a `Not` are left out."""
    if isinstance(where, Comparison):
        yield where
    elif not isinstance(where, Not):
        for part in where.parts:
            yield from comparisons(part, negated=negated)
    elif negated:
        yield from comparisons(where.part)


def translated(
    where: Filter, leaf: Callable[[Comparison, bool], Term], join: Callable[[bool, list[Term]], Term], *, wanted: bool
) -> Term:
    """A filter in the language of a database that negates only comparisons; the complement of the filter if not
    `wanted`.

    Args:
        leaf: Translates a comparison, or its complement if its second argument is False.
        join: Joins translated parts, of which all must hold if its first argument is True, else at least one.
    """
    if isinstance(where, Comparison):
        return leaf(where, wanted)
    if isinstance(where, Not):
        return translated(where.part, leaf, join, wanted=not wanted)
    return join(isinstance(where, And) is wanted, [translated(part, leaf, join, wanted=wanted) for part in where.parts])


def required(where: Filter | None) -> Iterator[Comparison]:
    """The comparisons that hold for every chunk that passes: the filter itself, or those that an `And` joins."""
    if isinstance(where, Comparison):
        yield where
    elif isinstance(where, And):
        for part in where.parts:
            yield from required(part)


def identity(value: MetadataValue) -> Hashable:
    """A hashable that is equal for two values if and only if `$eq` holds between them.

    Booleans are tagged, because True == 1 in Python, and not in filters: True becomes ("bool", True). Lists are tagged,
    so that no list equals a tagged boolean: ["bool", True] becomes ("list", "bool", ("bool", True)). 1 == 1.0 holds in
    filters, too.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, (tuple, list)):
        return ("list", *map(identity, value))
    return value


def matches(where: Filter | None, metadata: Metadata) -> bool:
    """Whether metadata passes a filter; None: everything passes. Never raises on metadata that a Chunk can hold.

    This function defines the meaning of a filter. Tests compare the metadata columns and Chroma's clauses with it.
    """
    if where is None:
        return True
    if isinstance(where, Comparison):
        return holds(where, metadata.get(where.key))
    if isinstance(where, And):
        return all(matches(part, metadata) for part in where.parts)
    if isinstance(where, Or):
        return any(matches(part, metadata) for part in where.parts)
    return not matches(where.part, metadata)


def holds(comparison: Comparison, value: MetadataValue) -> bool:
    """Whether one metadata value (None: missing) passes one comparison."""
    asked = comparison.identity
    match comparison.operator:
        case "$eq":
            return identity(value) == asked
        case "$in":
            return isinstance(asked, frozenset) and identity(value) in asked
        case "$contains":
            return isinstance(value, (tuple, list)) and any(identity(item) == asked for item in value)
        case "$text_match":
            return isinstance(value, str) and str(comparison.value) in value
        case "$text_match_insensitive":
            return isinstance(value, str) and str(comparison.value).lower() in value.lower()
        case ordering:
            bound = comparison.value
            return same_kind(value, bound) and ORDERINGS[ordering](value, bound)


def same_kind(value: MetadataValue, bound: MetadataValue) -> bool:
    """Whether two values can be ordered: numbers with numbers, strings with strings; booleans are no numbers."""
    if isinstance(bound, str):
        return isinstance(value, str)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class _Shown(reprlib.Repr):
    """A `repr` for error messages: short, and without errors for any value, however large or deeply nested."""

    def repr_int(self, x: int, level: int) -> str:
        # repr() of an int of more than 4,300 digits raises.
        return repr(x) if x.bit_length() <= 64 else f"<int of {x.bit_length()} bits>"


_SHOWN = _Shown()
_SHOWN.maxstring = _SHOWN.maxother = 80


def shown(value: object) -> str:
    """The `repr` of a value, short enough for an error message."""
    return _SHOWN.repr(value)


def _checked_height(operator: str, parts: object) -> int:
    """The height of a node with these parts, after checking them. Raises FilterError."""
    if not isinstance(parts, tuple):
        raise FilterError(f"{operator} holds {shown(parts)}; expected a tuple of filters, such as And((one, other))")
    if not parts:
        raise FilterError(f"{operator} needs at least one filter; leave it out, or pass where=None for no filter")
    for part in parts:
        if not isinstance(part, Filter):
            raise FilterError(f"{operator} holds {shown(part)}; expected filters; use parse_filter on it first")
    height = 1 + max(0 if isinstance(part, Comparison) else part.height for part in parts)
    if height > DEPTH_MAX:
        raise too_deep()
    return height


def too_deep() -> FilterError:
    """The error for nesting beyond DEPTH_MAX."""
    return FilterError(f"filter nests $and, $or, $not deeper than {DEPTH_MAX}; flatten it, or use $in")


_FOR_ONE_VALUE: Mapping[str, str] = {"$in": "$eq", "$nin": "$ne", "in": "==", "nin": "!="}
"""The operator for a single value, by the spelling of the operator that takes a list."""


def _checked_value(where: str, operator: Operator, value: object, written: str) -> MetadataValue:
    if operator == "$in":
        if not isinstance(value, (list, tuple, set, frozenset)):
            several = hasattr(value, "__iter__") and not isinstance(value, (str, bytes, Mapping))
            fix = "list(...) makes one" if several else f"use {_FOR_ONE_VALUE.get(written, '$eq')} for a single value"
            raise FilterError(f"{where}: expected a list of values, got {shown(value)}; {fix}")
        if not value:
            if written.endswith("nin"):
                raise FilterError(f"{where}: empty list, which matches everything; leave the condition out")
            raise FilterError(f"{where}: empty list, which matches nothing; give at least one value, or do not search")
        return _checked_list(where, tuple(value))
    if operator == "$eq" and isinstance(value, (list, tuple)):
        return _checked_list(where, value)
    scalar = _checked_scalar(where, value)
    if operator in TEXT_MATCHES and (not isinstance(scalar, str) or not scalar):
        raise FilterError(f"{where}: {shown(scalar)}; expected a text that is not empty")
    if operator in ORDERINGS and (scalar is None or isinstance(scalar, bool)):
        raise FilterError(f"{where}: {scalar} has no order; expected a number or a string; use $eq or $ne")
    return scalar


def _checked_list(where: str, values: Sequence[object]) -> tuple[Scalar, ...]:
    if len(values) > VALUES_MAX:
        raise FilterError(f"{where}: {len(values)} values; at most {VALUES_MAX}; filter by a coarser key")
    return tuple(_checked_scalar(where, value) for value in values)


def _checked_scalar(where: str, value: object) -> Scalar:
    """`value` as a plain Python scalar, converted as a chunk's metadata is: enums, NumPy scalars, UUIDs, paths."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        _check_text(value, where)
        return str.__str__(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise FilterError(f"{where}: {shown(value)} does not fit 64 bits; store and filter it as a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FilterError(f"{where}: {value} is not finite; expected a number that can be compared")
        return float(value)
    plain = None if isinstance(value, (date, np.datetime64)) else plain_value(value)
    # `plain_value` turns NumPy's NaN into None, which would compare with missing keys: it is refused below.
    if plain is not None and plain is not value:
        return _checked_scalar(where, plain)
    raise FilterError(
        f"{where}: {shown(value)} is {type(value).__name__}; expected str, int, float, bool or None; "
        "times go into time_range or .isoformat()"
    )


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fix = "clean it with .encode('utf-8', 'replace').decode()"
        raise FilterError(f"{where}: lone surrogate at {error.start}; {fix}") from error
