"""umi's ranking stages as node postprocessors, for the nodes of any retriever.

Each stage works alone or as a step of `UmiPostprocessor`, and none needs a query. If a score is negative, the smallest
is subtracted from all scores; a score that is missing or not finite then counts as 0. If no node has a score, 1 / rank
is used. The nodes are not changed: new `NodeWithScore`s are returned, with new scores by `UmiDecay` and
`UmiNeighbours`, with the given scores by the other stages.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import ConfigDict, Field, SerializeAsAny
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from umi_common.frameworks.options import CheckedFields
from umi_common.frameworks.stages import DecayFields, MmrFields, NearDuplicatesFields, NeighboursFields, Ranked
from umi_common.pool import Floats
from umi_llamaindex._candidates import positions_of, scores_of, vectors_of
from umi_llamaindex._convert import node_text
from umi_llamaindex.events import NamedInTraces
from umi_llamaindex.query import UmiQuery


class _Stage(NamedInTraces, CheckedFields, BaseNodePostprocessor):
    """A postprocessor that selects, orders or scores nodes."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", allow_inf_nan=False)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        rows, scores = self._ranked(nodes, scores_of(nodes), query_bundle)
        made = [item.score for item in nodes] if scores is None else scores.tolist()
        return [NodeWithScore(node=nodes[row].node, score=made[row]) for row in rows]

    @abstractmethod
    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        """Indices of the nodes to return, in order, and new scores (n,); None: the given scores stay."""


class UmiNeighbours(NeighboursFields, _Stage):
    """Adds to each score a share of the scores of adjacent nodes, then scales the best to 1.

    See `ranking.neighbours.neighbour_scores`. Adjacent nodes are found by the nodes' relationships, or in `store`.
    """

    store: Any = Field(default=None, exclude=True)
    """The `Store` that the nodes are from, which tells their neighbours; None: their relationships do."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        one_source = np.zeros(len(nodes), dtype=np.int64)
        return self.gained(scores, one_source, positions_of(nodes, self.store), list(map(node_text, nodes)))


class UmiDecay(DecayFields, _Stage):
    """Multiplies each score by floor + (1 - floor) * 2 ** (-age / half-life).

    A node without a time keeps its score; a time in the future has age 0. The `now` of a `UmiQuery` is used before the
    clock.
    """

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        now = bundle.now if isinstance(bundle, UmiQuery) else None
        return self.decayed(scores, (item.node.metadata for item in nodes), now)


class UmiNearDuplicates(NearDuplicatesFields, _Stage):
    """Of nodes with the same text, or nearly the same, keeps the one with the best score; the order stays.

    Texts are the same if they differ in case, white space, Unicode form and punctuation only. They are nearly the same
    if one is the other with plain words added, and their cosine is at least `similarity`. Nodes with nearly the same
    text are all kept if they are of different documents or have different metadata. Texts that differ in a number, a
    name, a negation or the order of their words are different. Nodes without text, such as images, are all kept.
    """

    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts if a node has no embedding; None: umi's embedded model. `Settings`: its embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes are from, for example `retriever.umi.store`, whose vectors are used; None: no store."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        vectors = vectors_of(nodes, self.embed_model, self.store)
        return self.distinct(scores, list(map(node_text, nodes)), vectors, list(map(_group, nodes)))


def _group(item: NodeWithScore) -> str:
    """Equal for nodes of one document with the same metadata."""
    return repr((item.node.source_node and item.node.source_node.node_id, sorted(item.node.metadata.items())))


class UmiMMR(MmrFields, _Stage):
    """Orders nodes by maximal marginal relevance: each is relevant and unlike the nodes before it.

    Relevance is the score, scaled to 0..1 over all nodes. The returned scores are the given ones.
    """

    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts if a node has no embedding; None: umi's embedded model. `Settings`: its embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes are from, for example `retriever.umi.store`, whose vectors are used; None: no store."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        return self.chosen(scores, vectors_of(nodes, self.embed_model, self.store))


class UmiPostprocessor(NamedInTraces, CheckedFields, BaseNodePostprocessor):
    """Applies several postprocessors in order:

    UmiPostprocessor(steps=[UmiDecay(half_life_hours=720), UmiNearDuplicates(), UmiMMR(top_n=5)])
    """

    model_config = ConfigDict(extra="forbid")

    steps: list[SerializeAsAny[BaseNodePostprocessor]]
    """Postprocessors of umi or of others."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        for step in self.steps:
            nodes = step.postprocess_nodes(nodes, query_bundle)
        return nodes

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        for step in self.steps:
            nodes = await step.apostprocess_nodes(nodes, query_bundle)
        return nodes
