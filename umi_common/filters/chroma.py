"""Translate a filter to a Chroma where-clause. Every row that passes the filter passes the clause.

Rows that fail the filter may pass the clause, too, unless the clause is `exact`. So the caller filters the rows that
Chroma returns once more.

In chromadb 1.5.9, `$gt`, `$gte`, `$lt` and `$lte` take numbers only. `$ne` and `$nin` match rows without the key, as in
umi. A fraction that is compared with a stored integer is first cut to an integer, so 2 equals 2.5. Above 2**53,
different numbers may compare as equal. There is no `$not` and no `$exists`. All values of a list must have one type. A
clause with 1,000 comparisons fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from umi_common.filters.tree import TEXT_MATCHES, Comparison, Filter, Operator, comparisons, translated
from umi_common.types import Metadata, MetadataValue, Scalar

COMPARISONS_MAX = 256
"""Largest number of comparisons in one clause; SQLite below Chroma fails at 1,000."""
CLAUSE_VALUES_MAX = 8_000
"""Largest number of values in all `$in` of one clause; SQLite below Chroma fails at about 16,380."""

_EXACT_WHOLE_MAX = 2**53
_WIDER: dict[Operator, str] = {"$gt": "$gte", "$lt": "$lte"}
"""For a bound that Chroma rounds: operator -> an operator that passes every row that the exact bound passes."""


@dataclass(frozen=True, slots=True)
class ChromaWhere:
    """A clause for Chroma's `where=`."""

    where: dict[str, Any]
    exact: bool
    """Whether the clause passes exactly the rows that pass the filter; False: it may pass further rows."""


def chroma_metadata(metadata: Metadata) -> dict[str, str | int | float | bool] | None:
    """The part of a chunk's metadata that Chroma can hold: scalars under usable keys; None if nothing is left.

    Lists, None and keys that Chroma reserves are left out; `to_chroma` makes no clause about them. (Only recent
    versions of Chroma have lists, and only of one type.)
    """
    kept = {key: value for key, value in metadata.items() if isinstance(value, (str, int, float)) and _usable(key)}
    return kept or None


def to_chroma(where: Filter) -> ChromaWhere | None:
    """A clause over `chroma_metadata`. Every row that passes the filter passes it. None: Chroma has no such clause."""
    leaves = list(comparisons(where))
    if len(leaves) > COMPARISONS_MAX:
        return None
    if sum(len(leaf.value) for leaf in leaves if isinstance(leaf.value, tuple)) > CLAUSE_VALUES_MAX:
        return None
    return translated(where, _comparison, _join, wanted=True)


def _comparison(comparison: Comparison, wanted: bool) -> ChromaWhere | None:
    return _join(not wanted, list(_leaf(comparison, wanted)))


def _join(all_must: bool, clauses: list[ChromaWhere | None]) -> ChromaWhere | None:
    word, known = "$and" if all_must else "$or", [clause for clause in clauses if clause is not None]
    if not known or (word == "$or" and len(known) < len(clauses)):
        return None
    exact = len(known) == len(clauses) and all(clause.exact for clause in known)
    return ChromaWhere(known[0].where if len(known) == 1 else {word: [clause.where for clause in known]}, exact)


def _leaf(comparison: Comparison, wanted: bool) -> Iterator[ChromaWhere | None]:
    """The clauses for a comparison if `wanted`, of which at least one must hold; else those for its complement, which
    must all hold."""
    key, operator, value = comparison.key, comparison.operator, comparison.value
    if not _usable(key) or operator in ("$contains", *TEXT_MATCHES):
        yield None
    elif operator == "$in" and isinstance(value, tuple):
        yield from _one_of(key, value, wanted)
    elif operator == "$eq":
        yield from _one_of(key, (value,), wanted)
    else:
        yield _ordered(key, operator, value) if wanted else None


def _one_of(key: str, values: tuple[MetadataValue, ...], wanted: bool) -> Iterator[ChromaWhere | None]:
    """The clauses for a key whose value is one of `values` if `wanted`, else none of them: one clause for each type."""
    groups: dict[type, list[Scalar]] = {}
    for value in values:
        if isinstance(value, (str, int, float)):
            number = _number(value)
            groups.setdefault(type(number), []).append(number)
        else:
            yield None
    for group in groups.values():
        exact = all(map(_exact, group))
        if wanted:
            yield ChromaWhere({key: {"$in": group}}, exact)
        else:
            # Chroma cuts a fraction in $nin to an integer, which would drop rows that pass the filter.
            kept = [value for value in group if _exact(value)]
            yield ChromaWhere({key: {"$nin": kept}}, exact) if kept else None


def _ordered(key: str, operator: Operator, bound: MetadataValue) -> ChromaWhere | None:
    if not isinstance(bound, (int, float)):
        return None
    number = _number(bound)
    exact = _exact(number)
    wide_enough = operator if exact else _WIDER.get(operator, operator)
    return ChromaWhere({key: {wide_enough: number}}, exact)


def _number(value: Scalar) -> Scalar:
    """A whole float as an integer, which Chroma compares correctly with integers and floats."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_WHOLE_MAX:
        return int(value)
    return value


def _exact(value: Scalar) -> bool:
    """Whether Chroma's comparisons with this value give the results of `matches`."""
    if isinstance(value, int):
        return abs(value) <= _EXACT_WHOLE_MAX
    return not isinstance(value, float)


def _usable(key: str) -> bool:
    """Whether Chroma takes this key in metadata and in `where`."""
    return key != "" and key[0] not in "$#" and not key.startswith("chroma:")
