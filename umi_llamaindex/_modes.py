"""LlamaIndex's vector store queries as umi searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from umi_common.config import MmrConfig
from umi_common.errors import ConfigError
from umi_common.filters import And, Filter, parse_filter
from umi_llamaindex._convert import NODE_ID, REF_DOC_ID

NO_WORDS = "?"
"""Query text for a query that has only a vector: the core needs one, and this one holds no word."""
PREFETCH_FACTOR = 4.0
"""Candidates for a place in an MMR result, as in LlamaIndex's simple store."""
HYBRID = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.MMR)
TEXT = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)


def search_of(query: VectorStoreQuery, extras: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What to search for, the options of `DualRetriever.search`, and what the mode changes in `UmiConfig`.

    Args:
        query: LlamaIndex's.
        extras: `mmr_prefetch_k` or `mmr_prefetch_factor`; all else is other stores'.

    Raises:
        ConfigError: For a mode umi has not, or an alpha outside 0..1.
        FilterError: For a filter without meaning.
    """
    mode = VectorStoreQueryMode(query.mode)
    if mode not in HYBRID + TEXT:
        raise ConfigError(f"mode {mode.value!r}: expected default, hybrid, text_search, sparse or mmr")
    limit = query.similarity_top_k
    changes: dict[str, Any] = {}
    strategy = "text" if mode in TEXT else "hybrid"
    if mode is VectorStoreQueryMode.HYBRID:
        limit = limit if query.hybrid_top_k is None else query.hybrid_top_k
        strategy = _strategy(query.alpha)
        if strategy == "hybrid" and query.alpha is not None:
            changes["fusion"] = {"lexical_weight": 1.0 - query.alpha, "dense_weight": query.alpha}
    if mode is VectorStoreQueryMode.MMR:
        changes["mmr"] = _mmr(query, extras)
    words = NO_WORDS if query.query_str is None else query.query_str
    options = {
        "limit": limit,
        "where": _where(query),
        "deep_search": False,
        "strategy": "vector" if query.query_str is None and strategy != "text" else strategy,
        "query_vector": None if strategy == "text" else query.query_embedding,
    }
    return words, options, changes


def _strategy(alpha: float | None) -> str:
    if alpha is not None and not 0 <= alpha <= 1:
        raise ConfigError(f"alpha {alpha!r}: expected 0 (words alone) to 1 (vectors alone)")
    return {0.0: "text", 1.0: "vector"}.get(0.5 if alpha is None else alpha, "hybrid")


def _mmr(query: VectorStoreQuery, extras: Mapping[str, Any]) -> dict[str, Any]:
    factor = extras.get("mmr_prefetch_factor", PREFETCH_FACTOR)
    pool = extras.get("mmr_prefetch_k", int(query.similarity_top_k * factor))
    trade_off = MmrConfig().trade_off if query.mmr_threshold is None else query.mmr_threshold
    return {"enabled": True, "trade_off": trade_off, "pool": max(1, pool)}


def _where(query: VectorStoreQuery) -> Filter | None:
    """Filters, documents and nodes that the query is held to, all at once."""
    asked: list[Any] = [query.filters]
    if query.doc_ids is not None:
        asked.append({REF_DOC_ID: {"$in": query.doc_ids}})
    if query.node_ids:  # VectorStoreIndex sends an empty list for "any"
        asked.append({NODE_ID: {"$in": query.node_ids}})
    trees = [tree for tree in map(parse_filter, asked) if tree is not None]
    return trees[0] if len(trees) == 1 else And(tuple(trees)) if trees else None
