"""Translate queries to LlamaIndex's vector stores into searches of umi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from umi_common.config import MmrConfig
from umi_common.errors import ConfigError, EmptyQuery
from umi_common.filters import And, Filter, parse_filter
from umi_common.search.request import checked_limit, end_of, refuse_unknown_options
from umi_llamaindex._convert import NODE_ID, of_documents
from umi_llamaindex.query import NO_TEXT

PREFETCH_FACTOR = 4.0
"""Default of `mmr_prefetch_factor`: MMR chooses from this many candidates for each node of the result. LlamaIndex's
simple store has the same default."""
EXTRAS = ("where", "mmr_threshold", "mmr_prefetch_k", "mmr_prefetch_factor")
"""Names of the arguments beside the query, which LlamaIndex calls `vector_store_kwargs`; its own stores use the same
names."""
HYBRID = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.MMR)
"""Modes that search by BM25 and by vectors."""
TEXT = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
"""Modes that search by BM25 alone."""
LIMITS = {VectorStoreQueryMode.HYBRID: "hybrid_top_k", **dict.fromkeys(TEXT, "sparse_top_k")}
"""Mode -> field of the query that holds the limit. For other modes, and if the field is None: `similarity_top_k`."""


def search_of(query: VectorStoreQuery, extras: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """(query text, options of `DualRetriever.search`, changes of `UmiConfig` for this query)

    The query text is "" for a blank query, and NO_TEXT for one that has only a vector.

    Args:
        query: A query of LlamaIndex.
        extras: Arguments beside the query, with names from EXTRAS. Nodes must pass the filter `where` and the query's.

    Raises:
        ConfigError: If umi does not have the mode or an extra, or if alpha is outside 0..1.
        InvalidLimit: If the limit is outside 1..100.
        FilterError: If a filter is invalid.
        EmptyQuery: If the query has neither text nor vector nor filter.
    """
    refuse_unknown_options(extras, EXTRAS, ConfigError)
    mode = query.mode
    if mode not in HYBRID + TEXT:
        raise ConfigError(
            f"mode {getattr(mode, 'value', mode)!r}: expected default, hybrid, text_search, sparse or mmr"
        )
    limit_name = LIMITS.get(mode, "similarity_top_k")
    if getattr(query, limit_name) is None:
        limit_name = "similarity_top_k"
    changes: dict[str, Any] = {}
    strategy = "text" if mode in TEXT else "hybrid"
    if mode == VectorStoreQueryMode.HYBRID:
        strategy = _strategy(query.alpha)
        if strategy == "hybrid" and query.alpha is not None:
            changes["fusion"] = {"lexical_weight": 1.0 - query.alpha, "dense_weight": query.alpha}
    if mode == VectorStoreQueryMode.MMR:
        changes["mmr"] = _mmr(query, extras)
    where, text = _where(query, extras.get("where")), query.query_str
    by_vector = not text and query.query_embedding is not None and strategy != "text"
    if text is None and not by_vector and where is None:
        needed = "query_str" if strategy == "text" else "query_str or query_embedding"
        raise EmptyQuery(f"the query has nothing to search for; give {needed}, or filters to list nodes")
    options = {
        "limit": checked_limit(getattr(query, limit_name), limit_name),
        "where": where,
        "deep_search": False,
        "strategy": "vector" if by_vector else strategy,
        "query_vector": None if strategy == "text" else query.query_embedding,
    }
    return NO_TEXT if by_vector else end_of("" if text is None else text.strip()), options, changes


def _strategy(alpha: float | None) -> str:
    """The arms for `alpha`, the dense arm's share 0..1: 0 is "text", 1 is "vector", any other and None "hybrid"."""
    if alpha is not None and not 0 <= alpha <= 1:
        raise ConfigError(f"alpha {alpha!r}: expected 0 (the lexical arm alone) to 1 (the dense arm alone)")
    return {0.0: "text", 1.0: "vector"}.get(0.5 if alpha is None else alpha, "hybrid")


def _mmr(query: VectorStoreQuery, extras: Mapping[str, Any]) -> dict[str, Any]:
    """The settings `mmr` for a query in the mode MMR; the query's `mmr_threshold` is used before that in `extras`."""
    factor = extras.get("mmr_prefetch_factor", PREFETCH_FACTOR)
    stated = extras.get("mmr_prefetch_k")
    pool = int(query.similarity_top_k * factor) if stated is None else stated
    threshold = extras.get("mmr_threshold") if query.mmr_threshold is None else query.mmr_threshold
    trade_off = MmrConfig().trade_off if threshold is None else threshold
    return {"enabled": True, "trade_off": trade_off, "pool": max(1, pool)}


def _where(query: VectorStoreQuery, where: Any) -> Filter | None:
    """A filter for nodes that pass `where` and the query's conditions on metadata, documents and nodes."""
    conditions: list[Any] = [query.filters, where]
    if query.doc_ids is not None:
        conditions.append(of_documents(query.doc_ids))
    if query.node_ids:  # VectorStoreIndex sends an empty list for "any node"
        conditions.append({NODE_ID: {"$in": query.node_ids}})
    trees = [tree for tree in map(parse_filter, conditions) if tree is not None]
    if len(trees) < 2:
        return trees[0] if trees else None
    return And(tuple(trees))
