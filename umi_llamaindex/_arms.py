"""LlamaIndex's retrievers as further arms of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore

from umi_common.errors import ConfigError
from umi_common.filters import Filter
from umi_common.framework_records import PlaceKeys, scores_by_rank
from umi_common.runtime.losses import warn_once
from umi_common.search.extra_arms import Arm
from umi_common.stores.valid_batch import SkippedChunk
from umi_common.types import Chunk, TimeRange
from umi_llamaindex._candidates import node_text
from umi_llamaindex._convert import to_chunks

KEYS = PlaceKeys(None, "position", "timestamp")
"""Default metadata keys of source, position and time."""

ScoredChunks = list[tuple[Chunk | str, float]]


def as_arm(finder: Any, name: str | None = None, weight: float = 0.5, *, keys: PlaceKeys = KEYS) -> Arm:
    """A retriever as an arm for `UmiRetriever.from_store(arms=...)`; its nodes are scored by their ranks.

    Filters and time ranges are not passed to the retriever; nodes that do not pass them are dropped afterwards.

    Args:
        finder: A `BaseRetriever`, or an `Arm`, which is returned unchanged.
        name: Name of the arm in signals and in `degraded`; None: the name of its class.
        weight: >= 0; weight in the fusion, beside `fusion.lexical_weight` (0.45) and `fusion.dense_weight` (0.55).
        keys: Metadata keys of source, position and time, for nodes that umi's store does not hold.

    Raises:
        ConfigError: If `finder` is neither, or if the name or the weight is invalid.
    """
    if isinstance(finder, Arm):
        return finder
    if not isinstance(finder, BaseRetriever):
        raise ConfigError(f"arm {type(finder).__name__}: expected a BaseRetriever or umi_common.search.extra_arms.Arm")

    def search(query: str, k: int, where: Filter | None, window: TimeRange | None) -> ScoredChunks:
        return _scored(finder.retrieve(query), k, keys)

    async def asearch(query: str, k: int, where: Filter | None, window: TimeRange | None) -> ScoredChunks:
        return _scored(await finder.aretrieve(query), k, keys)

    return Arm(type(finder).__name__ if name is None else name, search, weight, asearch)


def _scored(items: Sequence[NodeWithScore], k: int, keys: PlaceKeys) -> ScoredChunks:
    """The chunks of the first `k` nodes with text, scored by rank; one that cannot be a chunk is left out."""
    nodes = list({item.node.node_id: item.node for item in reversed(items) if node_text(item).strip()}.values())[::-1]
    skipped: list[SkippedChunk] = []
    chunks = to_chunks(nodes[:k], keys, Counter(), skipped)
    for gone in skipped:
        warn_once("arm", str(gone.id), "node %r of an arm is left out: umi cannot hold its metadata", gone.id)
    return scores_by_rank(chunks, k)
