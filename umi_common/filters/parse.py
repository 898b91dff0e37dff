"""Parse a filter in any spelling: the dict of Chroma and LangChain, LlamaIndex's MetadataFilters, or a tree of umi's
own filter objects (`And`, `Or`, `Not`, `Comparison`).

Spellings may be mixed. LlamaIndex objects are recognised by their attributes; LlamaIndex is not imported. A `Scope`
holds the filter for the chunks that a caller may see; the filter of a search can only narrow it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from umi_common.errors import FilterError
from umi_common.filters.tree import (
    DEPTH_MAX,
    OPERATORS,
    VALUES_MAX,
    And,
    Comparison,
    Filter,
    Not,
    Operator,
    Or,
    joined,
    shown,
    too_deep,
)

NODES_MAX = 10_000
"""Largest number of nodes that the parser reads in one filter: each dict or group counts as one, and each condition in
it, so {"a": 1} counts as two. `$in` with many values is one condition."""

_NEGATED: Final[Mapping[str, Operator]] = {"$ne": "$eq", "$nin": "$in", "$not_contains": "$contains"}
_ON_A_KEY = (*OPERATORS, *_NEGATED, "$exists", "$not")
_GROUPS = ("$and", "$or", "$not")

_NO_PATTERNS = "there are no patterns; for a text inside a string use $text_match or $text_match_insensitive"
_HINTS = {
    "$like": _NO_PATTERNS,
    "$ilike": _NO_PATTERNS,
    "$regex": _NO_PATTERNS,
    "$nor": 'write {"$not": {"$or": [...]}}',
    "$all": 'write {"$and": [{"key": {"$contains": value}}, ...]}',
    "$between": 'write {"$gte": low, "$lte": high}',
}

_FROM_LLAMAINDEX: Final[Mapping[str, str]] = {
    "==": "$eq",
    "!=": "$ne",
    ">": "$gt",
    ">=": "$gte",
    "<": "$lt",
    "<=": "$lte",
    "in": "$in",
    "nin": "$nin",
    "text_match": "$text_match",
    "text_match_insensitive": "$text_match_insensitive",
}
_LLAMAINDEX_LISTS = ("in", "nin", "any", "all")
"""Operators of LlamaIndex whose value is a list; LLMs that write filters often give a single value instead."""

_SIGN_IN_KEY = re.compile(r"([^<>=!]*\w)(?:\s*([<>]=?|!=|<>)|\s+(==?)|__([gl]te?))")
"""A key that ends in a comparison, as in SQL ("price >") and Django ("price__gt"). It must not match keys such as
"List<str>" and "aGk=="."""
_FROM_SIGN: Final[Mapping[str, str]] = {**_FROM_LLAMAINDEX, "=": "$eq", "<>": "$ne"}


def parse_filter(where: object) -> Filter | None:
    """The tree for `where`, which is None, a Filter, a dict, or an object such as LlamaIndex's MetadataFilters.

    Raises:
        FilterError: For an unknown operator, an empty filter or list, a value that the operator cannot take, a key that
            is no string or ends in a comparison ("price >"), nesting beyond DEPTH_MAX, more than NODES_MAX nodes, or
            more than VALUES_MAX values. The message names key and operator, and says what to write instead. A Filter
            is returned as it is: its parts were checked when they were made.
    """
    return None if where is None else _Parser().read(where, depth=1)


def asked_filter(where: object) -> Filter | None:
    """`parse_filter`, but an empty dict means no filter, as in Chroma and LangChain; other empty values raise."""
    return None if isinstance(where, Mapping) and not where else parse_filter(where)


class _Parser:
    """Parses one filter. It counts nodes (see NODES_MAX) and values, so that a filter that contains itself raises an
    error."""

    def __init__(self) -> None:
        self._nodes = 0
        self._values = 0

    def read(self, where: object, depth: int) -> Filter:
        self._count(depth)
        if isinstance(where, Filter):
            return where
        if isinstance(where, Mapping):
            return self._mapping(where, depth)
        if hasattr(where, "filters"):
            return self._metadata_filters(where.filters, getattr(where, "condition", None), depth)
        if isinstance(getattr(where, "key", None), str) and hasattr(where, "operator") and hasattr(where, "value"):
            return self._metadata_filter(where, depth)
        raise FilterError(
            f'filter {shown(where)} is {type(where).__name__}; expected a dict such as {{"user": "ann"}}, '
            "LlamaIndex MetadataFilters, or None for no filter"
        )

    def _count(self, depth: int) -> None:
        if depth > DEPTH_MAX + 1:
            raise too_deep()
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise FilterError(f"filter has more than {NODES_MAX} conditions; use $in for many values of one key")

    def _count_values(self, value: object) -> None:
        self._values += len(value) if isinstance(value, tuple) else 0
        if self._values > VALUES_MAX:
            raise FilterError(
                f"filter has more than {VALUES_MAX} values in its lists; filter by a coarser key, "
                "or ask in several searches"
            )

    def _mapping(self, where: Mapping[object, object], depth: int) -> Filter:
        if not where:
            raise FilterError("filter {} is empty; pass where=None for no filter")
        parts: list[Filter] = []
        for key, asked in where.items():
            if not isinstance(key, str):
                raise FilterError(f"filter key {shown(key)} is {type(key).__name__}; expected a string")
            if key == "$not":
                parts.append(Not(self.read(asked, depth + 1)))
            elif key in _GROUPS:
                parts.append(self._several(key, asked, depth, And if key == "$and" else Or))
            elif key in _ON_A_KEY:
                raise FilterError(f'operator {key} has no key; write {{"key": {{"{key}": {shown(asked)}}}}}')
            elif key.startswith("$"):
                raise _unknown(key, _GROUPS)
            else:
                parts.append(self._key(key, asked, depth))
        return joined(And, parts)

    def _several(self, name: str, asked: object, depth: int, node: type[And] | type[Or]) -> Filter:
        if not isinstance(asked, (list, tuple)):
            raise FilterError(f"{name} holds {shown(asked)}; expected a list of filters")
        if not asked:
            raise FilterError(f"{name} holds an empty list; leave it out, or pass where=None for no filter")
        return joined(node, [self.read(part, depth + 1) for part in asked])

    def _key(self, key: str, asked: object, depth: int) -> Filter:
        """The conditions on one key of a dict: equality with a value, or operators that must all hold."""
        if isinstance(asked, (list, tuple)):
            if key.lower() in ("and", "or"):
                raise FilterError(f"filter on {shown(key)}: a bare list; did you mean ${key.lower()}?")
            raise FilterError(
                f'filter on {shown(key)}: a bare list can mean two things; write {{"$in": [...]}} for any of these '
                'values, {"$eq": [...]} for exactly this list'
            )
        if not isinstance(asked, Mapping):
            _refuse_comparison_in(key, asked)
            return self._operator(key, "$eq", asked, depth)
        if not asked:
            raise FilterError(f"filter on {shown(key)}: {{}} is empty; give a value or an operator such as $eq")
        return joined(And, [self._operator(key, name, value, depth) for name, value in asked.items()])

    def _operator(self, key: str, name: Any, asked: Any, depth: int, written: str | None = None) -> Filter:
        """The condition of the operator `name` on a key.

        Args:
            written: The operator as the caller wrote it, for messages; None: it is `name`.
        """
        self._count(depth)
        plain = _NEGATED.get(name, name)
        if plain in OPERATORS:
            condition = Comparison(key, plain, asked, written or name)
            self._count_values(condition.value)
            return condition if plain == name else Not(condition)
        if name == "$exists":
            if not isinstance(asked, bool):
                raise FilterError(f"filter on {shown(key)}, $exists: {shown(asked)}; expected True or False")
            missing = Comparison(key, "$eq", None)
            return Not(missing) if asked else missing
        if name == "$not":
            if not isinstance(asked, Mapping):
                raise FilterError(
                    f'filter on {shown(key)}, $not: expected an operator such as {{"$gt": 5}}; or use $ne'
                )
            return Not(self._key(key, asked, depth + 1))
        raise _unknown(name, _ON_A_KEY, key)

    def _metadata_filters(self, filters: object, condition: object, depth: int) -> Filter:
        word = "and" if condition is None else getattr(condition, "value", condition)
        if word not in ("and", "or", "not"):
            raise FilterError(f"MetadataFilters condition {shown(condition)}; expected and, or, not")
        several = self._several(f"MetadataFilters({word})", filters, depth, And if word == "and" else Or)
        return Not(several) if word == "not" else several  # not: none of them holds, as in LlamaIndex's own stores

    def _metadata_filter(self, item: object, depth: int) -> Filter:
        key, given, value = (getattr(item, name) for name in ("key", "operator", "value"))
        name = getattr(given, "value", given)
        if name in _LLAMAINDEX_LISTS and isinstance(value, (str, int, float)) and value != "" and "," not in str(value):
            value = [value]  # "a, b" may mean two values: it stays a string, for which the operator raises FilterError
        if isinstance(name, str) and name in _FROM_LLAMAINDEX:
            if name == "==":  # LlamaIndex's default, so the caller may not have meant it
                _refuse_comparison_in(key, value)
            return self._operator(key, _FROM_LLAMAINDEX[name], value, depth, name)
        if name == "contains":
            if isinstance(value, (list, tuple)):
                raise FilterError(
                    f"filter on {shown(key)}, contains: {shown(value)}; expected one value; any and all take a list"
                )
            return self._contains(key, value, depth, name)
        if name in ("any", "all"):
            if not isinstance(value, (list, tuple)) or not value:
                raise FilterError(
                    f"filter on {shown(key)}, {name}: {shown(value)}; expected a list of values, not empty"
                )
            parts = [self._contains(key, one, depth, name) for one in value]
            return joined(Or if name == "any" else And, parts)
        if name == "is_empty":
            return joined(Or, [Comparison(key, "$in", (None, "")), Comparison(key, "$eq", ())])
        raise _unknown(name, (*_FROM_LLAMAINDEX, "contains", "any", "all", "is_empty"), key)

    def _contains(self, key: str, item: Any, depth: int, written: str) -> Filter:
        """LlamaIndex's `contains`: the value is a list with this item, or a string with this text in it."""
        self._count(depth)
        listed = Comparison(key, "$contains", item, written)
        if not isinstance(item, str) or not item:
            return listed
        return Or((listed, Comparison(key, "$text_match", item, written)))


def _refuse_comparison_in(key: str, asked: object) -> None:
    """Raise FilterError if a key that is compared by equality ends in a comparison, as in {"price >": 3}."""
    if (split := _SIGN_IN_KEY.fullmatch(key)) is not None and split.lastindex is not None:
        sign = split[split.lastindex]
        right = f'{{"{split[1]:.80}": {{"{_FROM_SIGN.get(sign, f"${sign}")}": {shown(asked)}}}}}'
        raise FilterError(
            f"filter key {shown(key)} ends in a comparison; write {right}; if the key itself is spelled so, "
            f'write {{{shown(key)}: {{"$eq": {shown(asked)}}}}}'
        )


def _unknown(name: object, known: tuple[str, ...], key: str | None = None) -> FilterError:
    """The error for an unknown operator, with a hint for it, the nearest known spelling, or all known ones."""
    where = "filter" if key is None else f"filter on {shown(key)}"
    if not isinstance(name, str):
        return FilterError(
            f"{where}: operator {shown(name)} is {type(name).__name__}; expected one of {', '.join(known)}"
        )
    if known is _ON_A_KEY and not name.startswith("$"):  # such as {"author": {"age": 3}}, or {"age": {"gt": 3}}
        near = [operator for operator in known if operator == f"${name}"]
        otherwise = "metadata is flat, a value cannot be a dict; for an operator use " + ", ".join(known)
    else:
        near = difflib.get_close_matches(name[:80], known, n=1)
        otherwise = "expected one of " + ", ".join(known)
    fix = _HINTS.get(name) or (f"did you mean {near[0]}?" if near else otherwise)
    return FilterError(f"{where}: unknown operator {shown(name)}; {fix}")


@dataclass(frozen=True, slots=True)
class Scope:
    """A filter that a chunk must pass in every search, beside the search's own. `scope` makes the scope of a user."""

    where: Filter | None
    """None: every chunk passes; see `EVERYTHING`."""

    def narrow(self, where: object = None) -> Filter | None:
        """The filter for chunks that pass this scope and `where` (any spelling of a filter).

        Raises:
            FilterError: As `parse_filter`.
        """
        parts = [part for part in (self.where, parse_filter(where)) if part is not None]
        return joined(And, parts) if parts else None


EVERYTHING: Final = Scope(None)
"""The scope of all chunks of all users. `scope(user=None)` raises FilterError, so that a missing user id does not give
access to all chunks."""


def scope(*, user: str, session: str | None = None, **more: str | int) -> Scope:
    """The scope of the chunks whose metadata holds exactly these values.

    Scores still use statistics of the whole store, such as how common a word is in all chunks (docs/tenants.md).

    Args:
        user: Value of metadata "user"; not empty.
        session: Value of metadata "session"; None: all sessions of the user.
        more: Further keys with the values that a chunk must have, too: scope(user="ann", tenant="acme").

    Raises:
        FilterError: If a value is empty, or no string or whole number, such as None (except for `session`) or True.
            So a missing user id does not give access to all chunks.
    """
    asked: dict[str, object] = {"user": user, **more}
    if session is not None:
        asked["session"] = session
    for key, value in asked.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise FilterError(
                f"scope {key}={shown(value)}: expected a non-empty string or a whole number; for all users "
                "use EVERYTHING"
            )
    return Scope(joined(And, [Comparison(key, "$eq", value) for key, value in asked.items()]))  # type: ignore[arg-type]


def narrow(within: Scope, where: object = None) -> Filter | None:
    """`within.narrow(where)`, as a function that can be imported beside `scope`."""
    return within.narrow(where)
