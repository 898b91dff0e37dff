"""umi's ranking stages as node postprocessors, for the nodes of any retriever: unpack, one core call, repack.

Each works alone, and as one in `UmiPostprocessor`. None needs a query. Scores that are missing or not finite count as
1 / rank; negative ones count as shifted above 0. Returned are new `NodeWithScore`s around the nodes given, which are
not changed: those of `UmiDecay` and `UmiNeighbours` with new scores, those of the others with the scores given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from umi_common.config import DecayConfig, DuplicatesConfig, MmrConfig, NeighboursConfig
from umi_common.decay import decay, rate_of
from umi_common.errors import ConfigError
from umi_common.framework_records import read_time
from umi_common.pool import Floats, Ints
from umi_common.ranking.duplicates import DuplicateFinder
from umi_common.ranking.mmr import mmr
from umi_common.ranking.neighbours import spread
from umi_common.ranking.normalize import min_max
from umi_llamaindex._candidates import node_text, positions_of, scores_of, vectors_of
from umi_llamaindex.query import UmiQuery


class _Stage(BaseNodePostprocessor):
    """Nodes in, the rows that stay with their scores out."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._check()

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
        return cls.__name__

    def _check(self) -> None:
        """Raises ConfigError for a setting out of range."""

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
        """Rows in their new order, and (n,) new scores; None: the nodes keep theirs."""


class UmiNeighbours(_Stage):
    """Raises scores by those of adjacent nodes of a document (`umi_common.ranking.neighbours.spread`); the best gets 1.

    Adjacent nodes are found by the nodes' relationships, or in `store`.
    """

    previous: float = NeighboursConfig().previous
    """What a node gains from the one before it."""
    following: float = NeighboursConfig().following
    """What it gains from the one after it."""
    store: Any = Field(default=None, exclude=True)
    """A `Store` that the nodes are from, where they do not name their neighbours themselves."""

    def _check(self) -> None:
        NeighboursConfig(previous=self.previous, following=self.following)

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
        return _falling(gained), gained


class UmiDecay(_Stage):
    """Score times floor + (1 - floor) * 2 ** (-age / half-life); no time known is neutral, the future has age 0."""

    half_life_hours: float
    """Age at which the factor has fallen halfway to `floor`."""
    floor: float = DecayConfig().floor
    """Smallest factor, 0..1."""
    time_key: str = "timestamp"
    """Metadata key of when it happened: a datetime, an ISO string (UTC without a zone) or seconds since 1970."""
    clock: Callable[[], datetime] | None = Field(default=None, exclude=True)
    """Gives the present, aware; None: the computer's. A `UmiQuery` with its own `now` goes before."""

    def _check(self) -> None:
        DecayConfig(half_life_hours=self.half_life_hours, floor=self.floor)

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> tuple[Ints, Floats]:
        now = self._now(bundle)
        times = [read_time(item.node.metadata.get(self.time_key), self.time_key) for item in nodes]
        ages = np.array([np.nan if time is None else (now - time).total_seconds() / 3600 for time in times])
        decayed = decay(scores, ages, rate=rate_of(self.half_life_hours), floor=self.floor)
        return _falling(decayed), decayed

    def _now(self, bundle: QueryBundle | None) -> datetime:
        if isinstance(bundle, UmiQuery) and bundle.now is not None:
            return bundle.now
        return datetime.now(timezone.utc) if self.clock is None else self.clock()


class UmiNearDuplicates(_Stage):
    """Of nodes that say the same, the one with the best score stays; the order is kept.

    Texts say the same if they are equal (case, white space, Unicode form and punctuation aside), or near: one is the
    other with plain words added, and their cosine reaches `similarity`. Near nodes of two documents, or with different
    metadata, both stay. So do nodes that differ in a number, a name, a negation or the order of their words.
    """

    similarity: float = DuplicatesConfig().similarity
    """Smallest cosine of near nodes."""
    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts where a node has no embedding; None: umi's embedded model. `Settings`: its embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes are from, for example `retriever.umi.store`: its vectors spare the embedding."""

    def _check(self) -> None:
        DuplicatesConfig(similarity=self.similarity)

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> tuple[Ints, None]:
        vectors = vectors_of(nodes, self.embed_model, self.store)
        finder = DuplicateFinder(DuplicatesConfig(similarity=self.similarity, across_sources=True))
        best = _falling(scores).tolist()
        kept = [
            row for row in best if not finder.add(str(row), node_text(nodes[row]), vectors[row], _place(nodes[row]))
        ]
        return np.sort(np.array(kept, dtype=np.int64)), None


def _place(item: NodeWithScore) -> str:
    """Equal for nodes of one document with the same metadata."""
    return repr((item.node.source_node and item.node.source_node.node_id, sorted(item.node.metadata.items())))


class UmiMMR(_Stage):
    """Relevant and unlike everything chosen before: maximal marginal relevance, in the order of choice.

    Relevance is the score scaled to 0..1 over the nodes given; scores come back as they were.
    """

    top_n: int | None = None
    """At most so many nodes; None: all, in their new order."""
    trade_off: float = MmrConfig().trade_off
    """lambda: 1 is relevance alone, 0 is diversity alone."""
    pool: int = MmrConfig().pool
    """Best nodes that are considered."""
    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts where a node has no embedding; None: umi's embedded model. `Settings`: its embed model."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes are from, for example `retriever.umi.store`: its vectors spare the embedding."""

    def _check(self) -> None:
        MmrConfig(trade_off=self.trade_off, pool=self.pool)
        if self.top_n is not None and self.top_n < 1:
            raise ConfigError(f"UmiMMR.top_n is {self.top_n}; expected a whole number above 0, or None for all")

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> tuple[Ints, None]:
        limit = len(nodes) if self.top_n is None else self.top_n
        vectors = vectors_of(nodes, self.embed_model, self.store)
        return mmr(min_max(scores), vectors, limit=limit, trade_off=self.trade_off, pool=self.pool), None


class UmiPostprocessor(BaseNodePostprocessor):
    """Several as one, in the order given:

    UmiPostprocessor(steps=[UmiDecay(half_life_hours=720), UmiNearDuplicates(), UmiMMR(top_n=5)])
    """

    steps: list[BaseNodePostprocessor]
    """umi's or any other."""

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
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


def _falling(scores: Floats) -> Ints:
    """Rows by falling score; equals keep their order."""
    return np.argsort(-scores, kind="stable")
