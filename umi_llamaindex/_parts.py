"""Use LlamaIndex's parts in umi: a retriever as an arm, a postprocessor as a reranker, the models of `Settings`."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from umi_common.errors import ConfigError
from umi_common.filters import And, Comparison, Filter
from umi_common.frameworks.records import PlaceKeys
from umi_common.frameworks.scores import scores_by_rank, scores_of_kept
from umi_common.runtime.losses import warn_once
from umi_common.search.extra_arms import Arm
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.types import Chunk, TimeRange
from umi_llamaindex._convert import node_text, to_chunks
from umi_llamaindex.query import UmiQuery

KEYS = PlaceKeys(None, "position", "timestamp")
"""Default metadata keys of source, position and time."""
FILTERING_STORES = ("SimpleVectorStore", "ChromaVectorStore", "UmiVectorStore")
"""Classes of vector stores that are known to filter strings exactly; some others refuse every filter."""

ScoredChunks = list[tuple[Chunk | str, float]]


def as_arm(finder: BaseRetriever | Arm, name: str | None = None, weight: float = 0.5, *, keys: PlaceKeys = KEYS) -> Arm:
    """A retriever as an arm for `UmiRetriever.from_store(arms=...)`; its nodes are scored by their ranks.

    Nodes that do not pass the filter and the time range of a search are dropped. A `UmiRetriever` gets both, so that it
    finds only nodes that pass. The retriever of an index over LlamaIndex's simple store, Chroma or umi's store gets
    those conditions of the filter that compare a key with strings by "$eq" or "$in". Other retrievers get neither.

    Args:
        finder: A `BaseRetriever`, or an `Arm`, which is returned unchanged.
        name: Name of the arm in signals and in `degraded`; None: the name of its class.
        weight: >= 0; weight in the fusion, beside `fusion.lexical_weight` (0.45) and `fusion.dense_weight` (0.55). It
            counts double, up to the sum of both, for a node that the store does not hold.
        keys: Metadata keys of source, position and time, for nodes that umi's store does not hold.

    Raises:
        ConfigError: If `finder` is neither, or if the name or the weight is invalid.
    """
    if isinstance(finder, Arm):
        return finder
    if not isinstance(finder, BaseRetriever):
        raise ConfigError(f"arm {type(finder).__name__}: expected a BaseRetriever or umi_common.search.extra_arms.Arm")

    asked = _Asked(finder, keys)
    return Arm(type(finder).__name__ if name is None else name, asked.search, weight, asked.asearch)


@dataclass(frozen=True)
class _Asked:
    """The search functions of an arm; methods, because closures cannot be pickled."""

    finder: BaseRetriever
    keys: PlaceKeys

    def search(self, query: str, k: int, where: Filter | None, window: TimeRange | None) -> ScoredChunks:
        narrowed, asked = _narrowed(self.finder, query, where, window)
        return _scored(narrowed.retrieve(asked), k, self.keys)

    async def asearch(self, query: str, k: int, where: Filter | None, window: TimeRange | None) -> ScoredChunks:
        narrowed, asked = _narrowed(self.finder, query, where, window)
        return _scored(await narrowed.aretrieve(asked), k, self.keys)


def _narrowed(
    finder: BaseRetriever, query: str, where: Filter | None, window: TimeRange | None
) -> tuple[BaseRetriever, str | QueryBundle]:
    """A retriever and a query that leave out what does not pass, if its kind is known; its own filters still hold."""
    if hasattr(finder, "umi"):
        return finder, UmiQuery(query, filters=where, time_range=window)
    conditions = _conditions(where)
    if not conditions or not isinstance(finder, VectorIndexRetriever):
        return finder, query
    if type(finder._vector_store).__name__ not in FILTERING_STORES:
        return finder, query
    own = MetadataFilters(filters=[]) if finder._filters is None else finder._filters
    if own.condition is not FilterCondition.AND:  # not every store has nested filters
        return finder, query
    finder = copy.copy(finder)
    finder._filters = MetadataFilters(filters=[*own.filters, *conditions])
    return finder, query


def _conditions(where: Filter | None) -> list[MetadataFilter | MetadataFilters]:
    """The conditions that compare a key with strings by "$eq" or "$in", of those that must all hold."""
    if isinstance(where, And):
        return [condition for part in where.parts for condition in _conditions(part)]
    if not isinstance(where, Comparison) or where.operator not in ("$eq", "$in"):
        return []
    values: Any = where.value if where.operator == "$in" else (where.value,)
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or not texts:
        return []
    return [MetadataFilter(key=where.key, value=texts, operator=FilterOperator.IN)]


def _scored(items: Sequence[NodeWithScore], k: int, keys: PlaceKeys) -> ScoredChunks:
    """The chunks of the first `k` nodes with text, scored by rank; one that cannot be a chunk is left out."""
    nodes = list({item.node.node_id: item.node for item in reversed(items) if node_text(item).strip()}.values())[::-1]
    skipped: list[SkippedChunk] = []
    chunks = to_chunks(nodes[:k], keys, Counter(), skipped)
    for gone in skipped:
        warn_once("arm", str(gone.id), "node %r of an arm is left out: umi cannot hold its metadata", gone.id)
    return scores_by_rank(chunks, k)


class SettingsLLM:
    """An LLM that calls the current `Settings.llm`. After a change, cached replies of the previous one stay in use."""

    def complete(self, prompt: str) -> Any:
        """The completion of the current `Settings.llm`."""
        return Settings.llm.complete(prompt)

    async def acomplete(self, prompt: str) -> Any:
        """`complete` on an event loop."""
        return await Settings.llm.acomplete(prompt)


def llm_of(llm: Any) -> Any:
    """The LLM of an `llm` argument: for `Settings`, one that reads `Settings.llm` at each call."""
    return SettingsLLM() if llm is Settings else llm


def embed_model_of(embed_model: Any) -> Any:
    """The embed model of an `embed_model` argument: for `Settings`, the present `Settings.embed_model`."""
    return Settings.embed_model if embed_model is Settings else embed_model


def reranker_of(model: Any) -> Any:
    """A postprocessor as a function from a query and texts to scores; any other model is returned unchanged.

    The postprocessor gets nodes with equal scores. The scores it returns are used; if they are still equal, its order.
    Texts whose nodes it drops are left out.
    """
    return partial(_rerank, model) if isinstance(model, BaseNodePostprocessor) else model


def _rerank(model: BaseNodePostprocessor, query: str, texts: Sequence[str]) -> list[float]:
    nodes = [NodeWithScore(node=TextNode(text=text, id_=str(row)), score=0.0) for row, text in enumerate(texts)]
    kept = model.postprocess_nodes(nodes, query_str=query)
    return scores_of_kept([(int(item.node.node_id), item.score) for item in kept], len(texts))
