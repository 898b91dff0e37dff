"""umi's ranking stages as node postprocessors, for the nodes of any retriever.

Each stage works alone or as a step of `UmiPostprocessor`, and none needs a query. If a score is negative, the smallest
score is subtracted from all scores; a score that is missing or not finite then counts as 0. If no node has a finite
score, the scores are 1 / rank, rank from 1. The nodes are not changed: each stage returns new `NodeWithScore`s.
`UmiDecay` and `UmiNeighbours` write new scores, the other stages keep the given ones.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import ConfigDict, Field, SerializeAsAny
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from pydantic import InstanceOf

from umi_common.frameworks.options import CheckedFields
from umi_common.frameworks.stages import DecayFields, MmrFields, NearDuplicatesFields, NeighboursFields, Ranked
from umi_common.pool import Floats
from umi_llamaindex._candidates import positions_of, scores_of, vectors_of
from umi_llamaindex._convert import node_text
from umi_llamaindex.events import NamedInTraces
from umi_llamaindex.query import UmiQuery


class _Stage(NamedInTraces, CheckedFields, BaseNodePostprocessor):
    """Base class: reads the nodes' scores, calls `_ranked`, and returns the selected nodes with their scores."""

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
        """(indices of the nodes to return, in order; new scores (n,) of all nodes, or None: the given scores stay).

        Args:
            nodes: n nodes.
            scores: (n,) >= 0.
            bundle: The query; None: no query was given.
        """


class UmiNeighbours(NeighboursFields, _Stage):
    """Adds to each score a share of the scores of adjacent nodes, scales the best to 1, and sorts by the new scores.

    The formula is in `ranking.neighbours.neighbour_scores`.
    """

    store: Any = Field(default=None, exclude=True)
    """The `Store` that the nodes come from, which says which nodes are adjacent. None: the nodes' relationships to the
    previous and the next node say it."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        one_source = np.zeros(len(nodes), dtype=np.int64)
        return self.gained(scores, one_source, positions_of(nodes, self.store), list(map(node_text, nodes)))


class UmiDecay(DecayFields, _Stage):
    """Multiplies each score by floor + (1 - floor) * 2 ** (-age / half_life_hours), and sorts by the new scores.

    The age is in hours. A node without a time keeps its score; a time in the future has age 0. If the query is a
    `UmiQuery` with `now`, ages are measured at that time, else at the time of the clock.
    """

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        now = bundle.now if isinstance(bundle, UmiQuery) else None
        return self.decayed(scores, (item.node.metadata for item in nodes), now)


class UmiNearDuplicates(NearDuplicatesFields, _Stage):
    """Removes duplicates: of nodes with equal or nearly equal texts, the one with the best score is kept.

    The order of the nodes does not change. Texts are equal if they differ only in case, white space, Unicode form and
    punctuation. They are nearly equal if one text is the other with plain words added, and their cosine is at least
    `similarity`; texts that differ in a number, a name, a negation or the order of their words are not. Nodes with
    nearly equal texts are all kept if they come from different documents or have different metadata. Nodes without
    text, such as images, are all kept.
    """

    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts if a node has no embedding. None: umi's embedded model; `Settings`: its current embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes come from, such as `retriever.umi.store`; its vectors are used. None: no store."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        vectors = vectors_of(nodes, self.embed_model, self.store)
        return self.distinct(scores, list(map(node_text, nodes)), vectors, list(map(_group, nodes)))


def _group(item: NodeWithScore) -> str:
    """A string that is equal for nodes of one document with equal metadata."""
    return repr((item.node.source_node and item.node.source_node.node_id, sorted(item.node.metadata.items())))


class UmiMMR(MmrFields, _Stage):
    """Chooses nodes one by one by maximal marginal relevance: relevant, and unlike the nodes chosen before.

    The nodes are returned in the order in which they are chosen. Relevance is the score, scaled to 0..1 over all nodes;
    the given scores do not change.
    """

    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts if a node has no embedding. None: umi's embedded model; `Settings`: its current embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes come from, such as `retriever.umi.store`; its vectors are used. None: no store."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        return self.chosen(scores, vectors_of(nodes, self.embed_model, self.store))


class UmiPostprocessor(NamedInTraces, CheckedFields, BaseNodePostprocessor):
    """Applies several postprocessors in order:

    UmiPostprocessor(steps=[UmiDecay(half_life_hours=720), UmiNearDuplicates(), UmiMMR(top_n=5)])
    """

    model_config = ConfigDict(extra="forbid")

    steps: list[SerializeAsAny[InstanceOf[BaseNodePostprocessor]]]
    """The postprocessors, of umi or of any other package, in the order in which they run."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        for step in self.steps:
            nodes = step.postprocess_nodes(nodes, query_bundle)
        return nodes
