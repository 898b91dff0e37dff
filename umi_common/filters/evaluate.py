"""Evaluate a filter on one chunk's metadata: the reference against which SQL, columns and Chroma are tested."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from umi_common.filters.tree import And, Comparison, Filter, Operator, Or, identity
from umi_common.types import Metadata, MetadataValue

_ORDER: Mapping[Operator, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def matches(where: Filter | None, metadata: Metadata) -> bool:
    """Whether metadata passes; None passes everything. Never raises on metadata that a Chunk can hold."""
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
            return _same_kind(value, bound) and _ORDER[ordering](value, bound)


def _same_kind(value: MetadataValue, bound: MetadataValue) -> bool:
    """Whether two values can be ordered: numbers with numbers, strings with strings; booleans are no numbers."""
    if isinstance(bound, str):
        return isinstance(value, str)
    return isinstance(value, (int, float)) and not isinstance(value, bool)
