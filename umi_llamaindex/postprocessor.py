"""umi's ranking stages as node postprocessors, for the nodes of any retriever.

Each works alone or as a step of `UmiPostprocessor`, and none needs a query. If a score is missing or not finite, 1 /
rank is used for all nodes; if a score is negative, the smallest is subtracted from all. The nodes are not changed: new
`NodeWithScore`s are returned, with new scores by `UmiDecay` and `UmiNeighbours`, with the given scores by the others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from umi_common.config import (
    DecayConfig,
    DuplicatesConfig,
    MmrConfig,
    NeighboursConfig,
    NotNegative,
    OneOrMore,
    Positive,
    Share,
    Similarity,
)
from umi_common.decay import decay, rate_of
from umi_common.framework_records import CheckedFields, ages_in_hours
from umi_common.pool import Floats, Ints
from umi_common.ranking.duplicates import DuplicateFinder
from umi_common.ranking.evidence import min_max
from umi_common.ranking.fusion import best_first
from umi_common.ranking.mmr import mmr
from umi_common.ranking.neighbours import spread
from umi_common.types import utc_now
from umi_llamaindex._candidates import positions_of, scores_of, vectors_of
from umi_llamaindex._convert import node_text
from umi_llamaindex.query import UmiQuery


class _Stage(CheckedFields, BaseNodePostprocessor):
    """A postprocessor that selects, orders or scores nodes."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's traces."""
        return cls.__name__

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        rows, scores = self._ranked(nodes, scores_of(nodes), query_bundle)
        made = [item.score for item in nodes] if scores is None else scores.tolist()
        return [NodeWithScore(node=nodes[row].node, score=made[row]) for row in rows]

    @abstractmethod
    def _ranked(
        self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None
    ) -> tuple[Ints, Floats | None]:
        """The indices in `nodes` of the nodes to return, in order, and (n,) new scores; None: the given scores."""


class UmiNeighbours(_Stage):
    """Adds to each score a share of the scores of adjacent nodes, then scales the best to 1.

    See `umi_common.ranking.neighbours.spread`. Adjacent nodes are found by the nodes' relationships, or in `store`.
    """

    previous: NotNegative = NeighboursConfig().previous
    """Share of the score of the node before it that a node gains."""
    following: NotNegative = NeighboursConfig().following
    """Share of the score of the node after it that a node gains."""
    store: Any = Field(default=None, exclude=True)
    """The `Store` that the nodes are from, which tells their neighbours; None: their relationships do."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> tuple[Ints, Floats]:
        n = len(nodes)
        gained = spread(
            scores,
            np.zeros(n, dtype=np.int64),
            positions_of(nodes, self.store),
            np.array([len(node_text(item).split()) for item in nodes], dtype=np.int64),
            np.zeros(n),
            previous=self.previous,
            following=self.following,
            source_share=0.0,
        )
        return best_first(gained), gained


class UmiDecay(_Stage):
    """Multiplies each score by floor + (1 - floor) * 2 ** (-age / half-life).

    A node without a time keeps its score; a time in the future has age 0.
    """

    half_life_hours: Positive
    """Age, in hours, at which the factor is halfway between 1 and `floor`."""
    floor: Share = DecayConfig().floor
    """Smallest factor, 0..1."""
    time_key: str = "timestamp"
    """Metadata key of the event time: a datetime, an ISO string (UTC without a zone) or seconds since 1970."""
    clock: Callable[[], datetime] | None = Field(default=None, exclude=True)
    """Returns the present as an aware datetime; None: the computer's clock. The `now` of a `UmiQuery` is used first."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> tuple[Ints, Floats]:
        ages = ages_in_hours((item.node.metadata for item in nodes), self.time_key, self._now(bundle))
        decayed = decay(scores, ages, rate=rate_of(self.half_life_hours), floor=self.floor)
        return best_first(decayed), decayed

    def _now(self, bundle: QueryBundle | None) -> datetime:
        if isinstance(bundle, UmiQuery) and bundle.now is not None:
            return bundle.now
        return utc_now() if self.clock is None else self.clock()


class UmiNearDuplicates(_Stage):
    """Of nodes with the same text, or nearly the same, keeps the one with the best score; the order stays.

    Texts are the same if they differ in case, white space, Unicode form and punctuation only. They are nearly the same
    if one is the other with plain words added, and their cosine is at least `similarity`. Nodes with nearly the same
    text are all kept if they are of different documents or have different metadata. Texts that differ in a number, a
    name, a negation or the order of their words are different. Nodes without text, such as images, are all kept.
    """

    similarity: Similarity = DuplicatesConfig().similarity
    """Least cosine of texts that are nearly the same."""
    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts if a node has no embedding; None: umi's embedded model. `Settings`: its embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes are from, for example `retriever.umi.store`, whose vectors are used; None: no store."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> tuple[Ints, None]:
        vectors = vectors_of(nodes, self.embed_model, self.store)
        finder = DuplicateFinder(DuplicatesConfig(similarity=self.similarity, across_sources=True))
        texts = [node_text(item) for item in nodes]
        kept = [
            row
            for row in best_first(scores).tolist()
            if not texts[row].strip() or not finder.add(str(row), texts[row], vectors[row], _group(nodes[row]))
        ]
        return np.sort(np.array(kept, dtype=np.int64)), None


def _group(item: NodeWithScore) -> str:
    """Equal for nodes of one document with the same metadata."""
    return repr((item.node.source_node and item.node.source_node.node_id, sorted(item.node.metadata.items())))


class UmiMMR(_Stage):
    """Orders nodes by maximal marginal relevance: each is relevant and unlike the nodes before it.

    Relevance is the score, scaled to 0..1 over all nodes. The returned scores are the given ones.
    """

    top_n: OneOrMore | None = None
    """Largest number of nodes to return; None: all."""
    trade_off: Share = MmrConfig().trade_off
    """lambda, 0..1: with 1 only relevance counts, with 0 only diversity."""
    pool: OneOrMore = MmrConfig().pool
    """Number of the best nodes from which MMR chooses, but at least as many as are returned."""
    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts if a node has no embedding; None: umi's embedded model. `Settings`: its embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes are from, for example `retriever.umi.store`, whose vectors are used; None: no store."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> tuple[Ints, None]:
        limit = len(nodes) if self.top_n is None else self.top_n
        vectors = vectors_of(nodes, self.embed_model, self.store)
        return mmr(min_max(scores), vectors, limit=limit, trade_off=self.trade_off, pool=self.pool), None


class UmiPostprocessor(CheckedFields, BaseNodePostprocessor):
    """Applies several postprocessors in order:

    UmiPostprocessor(steps=[UmiDecay(half_life_hours=720), UmiNearDuplicates(), UmiMMR(top_n=5)])
    """

    model_config = ConfigDict(extra="forbid")

    steps: list[BaseNodePostprocessor]
    """Postprocessors of umi or of others."""

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's traces."""
        return cls.__name__

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
