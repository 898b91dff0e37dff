"""Metadata filters: parse any spelling into one tree, evaluate it, translate it to Chroma.

    parse_filter({"user": "ann", "year": {"$gte": 2023}})      the dict of Chroma and LangChain
    parse_filter(MetadataFilters(filters=[...]))               LlamaIndex's
    matches(tree, metadata)     whether one chunk's metadata passes; stores evaluate faster, with the same results
    to_chroma(tree)             Chroma's where-clause, which passes at least the records that the filter passes
    scope(user="ann").narrow(where)     `where`, limited to the chunks of one user

The meaning of a filter (docs/filters.md has the full table):

    missing, None        treated alike: equal to None, unequal to every other value, neither larger nor smaller
    True and 1           different; 1 and 1.0 are equal, compared by exact value
    order                numbers with numbers, strings with strings by code point; other pairs are never ordered
    lists                equal if all items are equal, in order; never larger or smaller; only $contains finds an item
    $ne $nin $not_contains $not     hold exactly if $eq, $in, $contains or the filter does not. So on a missing key,
                         {"$ne": 1} holds, and {"$ne": None} does not

Modules:

    tree       the typed tree of a filter; whether one chunk's metadata passes it
    parse      any spelling to the tree; scopes: filters that further filters can only narrow
    chroma     the tree as a Chroma where-clause
"""

from __future__ import annotations

from umi_common.filters.chroma import ChromaWhere, chroma_metadata, to_chroma
from umi_common.filters.parse import EVERYTHING, NODES_MAX, Scope, asked_filter, narrow, parse_filter, scope
from umi_common.filters.tree import (
    DEPTH_MAX,
    VALUES_MAX,
    And,
    Comparison,
    Filter,
    Not,
    Or,
    Where,
    holds,
    identity,
    matches,
)

__all__ = [
    "DEPTH_MAX",
    "EVERYTHING",
    "NODES_MAX",
    "VALUES_MAX",
    "And",
    "ChromaWhere",
    "Comparison",
    "Filter",
    "Not",
    "Or",
    "Scope",
    "Where",
    "asked_filter",
    "chroma_metadata",
    "holds",
    "identity",
    "matches",
    "narrow",
    "parse_filter",
    "scope",
    "to_chroma",
]
