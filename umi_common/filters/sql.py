"""A filter as a SQLite condition over metadata stored as JSON, true for the same rows as `matches`.

Keys and values are always bound, never written into the SQL. Keys are compared as values (`json_each.key = ?`), not as
JSON paths, so quotes, dots and brackets in them mean nothing.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from umi_common.errors import FilterError
from umi_common.filters.tree import And, Comparison, Filter, Operator, Or, shown
from umi_common.types import MetadataValue

_COLUMN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)

# SQLite ends a JSON string at U+0000, so "a\0b" would equal "a". Therefore the JSON text is rewritten before SQLite
# reads it: U+0000 becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002. No two strings become one, and their order
# stays. `_escaped` does the same to bound strings. Escaped backslashes are replaced first, so that every \u000x that is
# left is an escape of one of these characters.
_DOCUMENT = r"replace(replace(replace({column}, '\\', '\u005c'), '\u0001', '\u0001\u0002'), '\u0000', '\u0001\u0001')"

# The value of json_each is 1 for 1, 1.0 and true. A filter takes the first two as equal, but not true, so the types are
# compared, too.
_KIND = "CASE {of}.type WHEN 'real' THEN 'integer' ELSE {of}.type END"

LOWER = "umi_lower"
"""The name of `str.lower` in SQL; SQLite's own function changes ASCII letters only."""

_SYMBOL: dict[Operator, str] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def to_sql(where: Filter, column: str = "metadata") -> tuple[str, list[str]]:
    """A condition for WHERE and the parameters for its question marks, in order.

    The connection needs `connection.create_function(LOWER, 1, str.lower, deterministic=True)`.

    Args:
        column: Column that holds `json.dumps(metadata)`, as "name" or "table.name".

    Raises:
        FilterError: If `column` is no plain column name.
    """
    if not _COLUMN.fullmatch(column):
        raise FilterError(f"column {shown(column)}: expected a name or table.name")
    condition = _condition(where, _DOCUMENT.format(column=column))
    return condition.sql, condition.parameters


class _Sql(NamedTuple):
    """A condition that is always 0 or 1, never NULL, so that NOT is the exact complement."""

    sql: str
    parameters: list[str]
    height: int = 0
    """Levels of brackets and NOT."""


def _condition(where: Filter, document: str) -> _Sql:
    if isinstance(where, Comparison):
        return _comparison(where, document)
    if isinstance(where, (And, Or)):
        return _joined("AND" if isinstance(where, And) else "OR", [_condition(part, document) for part in where.parts])
    return _not(_condition(where.part, document))


def _not(part: _Sql) -> _Sql:
    return _Sql(f"NOT {part.sql}", part.parameters, part.height + 1)


def _joined(word: str, parts: Sequence[_Sql]) -> _Sql:
    """`((a AND b) AND c)`: the two parts of least height are joined first, the higher one to the left.

    SQLite refuses expressions deeper than 1,000 levels, and its parser stack holds 100 entries.
    """
    heap = [(part.height, index, part) for index, part in enumerate(parts)]
    heapq.heapify(heap)
    while len(heap) > 1:
        _, _, lower = heapq.heappop(heap)
        height, index, higher = heapq.heappop(heap)
        sql = f"({higher.sql} {word} {lower.sql})"
        joined = _Sql(sql, higher.parameters + lower.parameters, height + 1)
        heapq.heappush(heap, (joined.height, index, joined))
    return heap[0][2]


def _comparison(comparison: Comparison, document: str) -> _Sql:
    value, key = comparison.value, comparison.key
    match comparison.operator:
        case "$eq" if isinstance(value, tuple):
            return _value_is(document, key, _SAME_LIST, _json(value), _json(value))
        case "$eq" | "$in":
            return _one_of(document, key, value if isinstance(value, tuple) else (value,))
        case "$contains":
            return _value_is(document, key, _HOLDS_ITEM, _json((value,)))
        case "$text_match":
            return _value_is(document, key, "e.type = 'text' AND instr(e.value, ?)", str(value))
        case "$text_match_insensitive":
            return _value_is(document, key, f"e.type = 'text' AND instr({LOWER}(e.value), ?)", str(value).lower())
        case ordering if isinstance(value, str):
            return _value_is(document, key, f"e.type = 'text' AND e.value {_SYMBOL[ordering]} ?", _escaped(value))
        case ordering:
            # SQLite parses the bound number as it parses the stored one, so equal texts give equal numbers.
            test = f"e.type IN ('integer', 'real') AND e.value {_SYMBOL[ordering]} json_extract(?, '$')"
            return _value_is(document, key, test, json.dumps(value))


_ASKED = f"SELECT {_KIND.format(of='asked')}, asked.value FROM json_each(?) AS asked"
_IS_ONE = f"({_KIND.format(of='e')}, e.value) IN ({_ASKED})"
_HOLDS_ITEM = (
    "e.type = 'array' AND EXISTS (SELECT 1 FROM json_each(e.value) AS item, json_each(?) AS asked WHERE "
    f"{_KIND.format(of='item')} = {_KIND.format(of='asked')} AND item.value IS asked.value)"
)
_SAME_LIST = (
    "e.type = 'array' AND json_array_length(e.value) = json_array_length(?) AND NOT EXISTS "
    "(SELECT 1 FROM json_each(e.value) AS item JOIN json_each(?) AS asked ON item.key = asked.key WHERE NOT "
    f"({_KIND.format(of='item')} = {_KIND.format(of='asked')} AND item.value IS asked.value))"
)


def _one_of(document: str, key: str, values: Sequence[MetadataValue]) -> _Sql:
    present = tuple(value for value in values if value is not None)
    parts = [_value_is(document, key, _IS_ONE, _json(present))] if present else []
    if None in values:
        parts.append(_not(_value_is(document, key, "e.type <> 'null'")))
    return _joined("OR", parts)


def _value_is(document: str, key: str, test: str, *bound: str) -> _Sql:
    """The condition that the key is present and that its value, `e` in `test`, passes the test."""
    sql = f"EXISTS (SELECT 1 FROM json_each({document}) AS e WHERE e.key = ? AND {test})"
    return _Sql(sql, [_escaped(key), *bound])


def _json(values: Sequence[MetadataValue]) -> str:
    return json.dumps([_escaped(value) if isinstance(value, str) else value for value in values])


def _escaped(text: str) -> str:
    return text.replace("\1", "\1\2").replace("\0", "\1\1")
