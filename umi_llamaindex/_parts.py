"""Use LlamaIndex's parts in umi: a retriever as an arm, a postprocessor as a reranker, the models of `Settings`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from umi_common.errors import ConfigError
from umi_common.filters import Filter
from umi_common.filters.tree import required
from umi_common.frameworks.ranking import arm_reply, checked_reply, scores_of_kept
from umi_common.frameworks.records import PlaceKeys
from umi_common.search.extra_arms import Arm, ArmReply
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.types import Chunk, TimeRange
from umi_llamaindex._convert import Places, node_text, to_chunks, to_node
from umi_llamaindex.query import UmiQuery

KEYS = PlaceKeys(None)
"""Default metadata keys of source, position and time."""
FILTERING_STORES = ("SimpleVectorStore", "ChromaVectorStore", "UmiVectorStore")
"""Classes of vector stores that are known to compare strings exactly. An arm passes a filter only to these; some other
stores raise for every filter."""


def as_arm(finder: BaseRetriever | Arm, name: str | None = None, weight: float = 0.5, *, keys: PlaceKeys = KEYS) -> Arm:
    """A retriever as an arm for `UmiRetriever.from_store(arms=...)`; the arm scores its nodes by their rank.

    umi drops nodes of the arm that do not pass the filter and the time range of a search. To have fewer dropped, the
    arm passes filter and time range on to a `UmiRetriever`. To the retriever of an index over LlamaIndex's simple
    store, Chroma or umi's store, it passes those conditions of the filter that compare a key with strings by "$eq" or
    "$in". Other retrievers get neither.

    Args:
        finder: A `BaseRetriever`, or an `Arm`, which is returned unchanged.
        name: Name of the arm in signals and in `degraded`; None: the name of the finder's class.
        weight: As in `Arm`; the default of `fusion.lexical_weight` is 0.45, that of `fusion.dense_weight` 0.55.
        keys: Metadata keys of source, position and time, for nodes that umi's store does not hold.

    Raises:
        ConfigError: If `finder` has another type, or if `name` or `weight` is not as described.
    """
    if isinstance(finder, Arm):
        return finder
    if not isinstance(finder, BaseRetriever):
        raise ConfigError(f"arm {type(finder).__name__}: expected a BaseRetriever or umi_common.search.extra_arms.Arm")
    search, asearch = partial(_search, finder, keys), partial(_asearch, finder, keys)  # closures cannot be pickled
    return Arm(type(finder).__name__ if name is None else name, search, weight, asearch)


def _search(
    finder: BaseRetriever, keys: PlaceKeys, query: str, k: int, where: Filter | None, window: TimeRange | None
) -> ArmReply:
    narrowed, asked = _narrowed(finder, query, where, window)
    return _scored(narrowed.retrieve(asked), k, keys)


async def _asearch(
    finder: BaseRetriever, keys: PlaceKeys, query: str, k: int, where: Filter | None, window: TimeRange | None
) -> ArmReply:
    narrowed, asked = _narrowed(finder, query, where, window)
    return _scored(await narrowed.aretrieve(asked), k, keys)


def _narrowed(
    finder: BaseRetriever, query: str, where: Filter | None, window: TimeRange | None
) -> tuple[BaseRetriever, str | QueryBundle]:
    """(retriever, query): a retriever like `finder` that also applies the conditions that it can check. A finder of an
    unknown class is returned unchanged."""
    if hasattr(finder, "umi"):
        return finder, UmiQuery(query, filters=where, time_range=window)
    if not isinstance(finder, VectorIndexRetriever) or type(finder._vector_store).__name__ not in FILTERING_STORES:
        return finder, query
    conditions = _conditions(where)
    own = MetadataFilters(filters=[]) if finder._filters is None else finder._filters
    if not conditions or own.condition is not FilterCondition.AND:  # OR and NOT would need a nested filter
        return finder, query
    finder = copy.copy(finder)
    finder._filters = MetadataFilters(filters=[*own.filters, *conditions])
    return finder, query


def _conditions(where: Filter | None) -> list[MetadataFilter | MetadataFilters]:
    found: list[MetadataFilter | MetadataFilters] = []
    for each in required(where):
        values: Any = each.value if each.operator == "$in" else (each.value,)
        if each.operator in ("$eq", "$in") and all(isinstance(value, str) for value in values):
            found.append(MetadataFilter(key=each.key, value=list(values), operator=FilterOperator.IN))
    return found


def _scored(reply: Any, k: int, keys: PlaceKeys) -> ArmReply:
    """The `arm_reply` of the first `k` nodes that have text; of nodes with the same id, the first counts."""
    nodes: dict[str, BaseNode] = {}
    for item in checked_reply(reply, NodeWithScore):
        if node_text(item).strip():
            nodes.setdefault(item.node.node_id, item.node)
    skipped: list[SkippedChunk] = []
    chunks = to_chunks(list(nodes.values())[:k], keys, Places(), skipped)
    return arm_reply("node", chunks, skipped, k)


class SettingsLLM:
    """An LLM that passes each call to the current `Settings.llm`; if that changes, cached replies stay in use."""

    def complete(self, prompt: str) -> Any:
        """The completion of the current `Settings.llm`."""
        return Settings.llm.complete(prompt)

    async def acomplete(self, prompt: str) -> Any:
        """`complete` for an event loop."""
        return await Settings.llm.acomplete(prompt)


def llm_of(llm: Any) -> Any:
    """The LLM for the argument `llm`: for `Settings` a `SettingsLLM`, else the argument itself."""
    return SettingsLLM() if llm is Settings else llm


def embed_model_of(embed_model: Any) -> Any:
    """The embed model for the argument `embed_model`: for `Settings` the current one, else the argument itself."""
    return Settings.embed_model if embed_model is Settings else embed_model


def reranker_of(model: Any) -> Any:
    """A postprocessor as a reranker of umi; any other model is returned unchanged."""
    return _Postprocessor(model) if isinstance(model, BaseNodePostprocessor) else model


class _Postprocessor:
    def __init__(self, model: BaseNodePostprocessor) -> None:
        self._model = model

    def score_chunks(self, query: str, chunks: Sequence[Chunk]) -> list[float]:
        """`scores_of_kept` for the nodes that the postprocessor returns; it is given nodes with score 0."""
        nodes = [NodeWithScore(node=to_node(chunk), score=0.0) for chunk in chunks]
        rows = {item.node.node_id: row for row, item in enumerate(nodes)}
        kept = checked_reply(self._model.postprocess_nodes(nodes, query_str=query), NodeWithScore)
        return scores_of_kept([(rows.get(item.node.node_id), item.score) for item in kept], len(chunks))
