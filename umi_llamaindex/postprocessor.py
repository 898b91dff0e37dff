"""umi's ranking stages as node postprocessors, for the nodes of any retriever.

Each stage works alone or as a step of `UmiPostprocessor`, and none needs a query. A stage reads negative and missing
scores as `scores_of` does. It returns new `NodeWithScore`s with the given nodes. `UmiDecay` and `UmiNeighbours` set new
scores; the other stages keep the given scores.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from pprint import pformat
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import ConfigDict, Field, SerializeAsAny
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from pydantic import InstanceOf

from umi_common.embedders import as_embedder, unit_rows
from umi_common.frameworks.classes import CheckedFields
from umi_common.frameworks.ranking import DecayFields, MmrFields, NearDuplicatesFields, NeighboursFields, Ranked
from umi_common.pool import NO_POSITION, Floats, Ints, Vectors
from umi_common.protocols import Store
from umi_llamaindex._convert import document_start, node_text
from umi_llamaindex._parts import embed_model_of
from umi_llamaindex.events import NamedInTraces
from umi_llamaindex.query import UmiQuery

log = logging.getLogger("umi")


class _Stage(NamedInTraces, CheckedFields, BaseNodePostprocessor):
    """A postprocessor that selects, sorts or scores nodes by `_ranked`."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", allow_inf_nan=False)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = list(nodes)
        if not nodes:
            return []
        rows, scores = self._ranked(nodes, scores_of(nodes), query_bundle)
        values = [item.score for item in nodes] if scores is None else scores.tolist()
        return [NodeWithScore(node=nodes[row].node, score=values[row]) for row in rows]

    @abstractmethod
    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        """The result for n nodes with scores (n,) >= 0; see `Ranked`."""


class UmiNeighbours(NeighboursFields, _Stage):
    """Adds to each score a share of the scores of adjacent nodes, and sorts by the sums.

    The sums are scaled so that the largest is 1. The formula is in `ranking.neighbours.neighbour_scores`.
    """

    store: Any = Field(default=None, exclude=True)
    """The `Store` that the nodes come from; its `neighbours` are the adjacent nodes. None: adjacent nodes are found by
    the relationships PREVIOUS and NEXT of the nodes."""

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        sources = np.zeros(len(nodes), dtype=np.int64)  # one for all: `positions_of` keeps documents apart
        return self.gained(scores, sources, positions_of(nodes, self.store), list(map(node_text, nodes)))


class UmiDecay(DecayFields, _Stage):
    """Multiplies each score by floor + (1 - floor) * 2 ** (-age / half_life_hours), and sorts by the new scores.

    The age is the number of hours from the time in metadata[time_key] to the `now` of the query, if it is a `UmiQuery`
    that has one, else to the present. A time in the future has age 0; a node without a time keeps its score.
    """

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        now = bundle.now if isinstance(bundle, UmiQuery) else None
        return self.decayed(scores, (item.node.metadata for item in nodes), now)


class _VectorStage(_Stage):
    """Base class of the stages that compare texts by their vectors."""

    embed_model: Any = Field(default=None, exclude=True)
    """Embeds the texts if neither all nodes nor the store have their vectors. None: umi's built-in model. LlamaIndex's
    `Settings`: the `Settings.embed_model` at the time of the call."""
    store: Any = Field(default=None, exclude=True)
    """The store that the nodes come from, such as `retriever.umi.store`; its vectors are used if a node has none."""


class UmiNearDuplicates(NearDuplicatesFields, _VectorStage):
    """Removes duplicates: of nodes with equal or nearly equal texts, the one with the best score stays.

    The order of the nodes does not change. Texts are equal if they differ only in case, white space, Unicode form or
    punctuation. They are nearly equal if their cosine is at least `similarity` and one text is the other with words
    added; none of these words may be a number, a name or a negation.

    Of nodes from different documents or with different metadata, only equal texts are removed. Nodes without text, such
    as images, all stay.
    """

    def _ranked(self, nodes: list[NodeWithScore], scores: Floats, bundle: QueryBundle | None) -> Ranked:
        vectors = vectors_of(nodes, self.embed_model, self.store)
        groups = [pformat((item.node.ref_doc_id, item.node.metadata)) for item in nodes]  # `pformat` sorts the keys
        return self.distinct(scores, list(map(node_text, nodes)), vectors, groups)


class UmiMMR(MmrFields, _VectorStage):
    """Chooses nodes one by one by maximal marginal relevance: relevant, and unlike the nodes chosen before.

    The nodes are returned in the order in which they are chosen. The relevance of a node is its score, scaled to 0..1
    over all nodes.
    """

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


def scores_of(items: Sequence[NodeWithScore]) -> Floats:
    """(n,) scores >= 0 of the nodes, 0 for a node without a finite score. If a score is negative, the smallest is
    subtracted from all finite scores. If no node has a finite score, the scores are 1 / rank, rank from 1."""
    given = np.array([np.nan if item.score is None else item.score for item in items], dtype=np.float64)
    known = np.isfinite(given)
    if not known.any():
        return 1.0 / np.arange(1, len(items) + 1)
    return np.where(known, given - min(0.0, float(given[known].min())), 0.0)


def vectors_of(items: Sequence[NodeWithScore], embed_model: Any, store: Store | None = None) -> Vectors:
    """(n, dim) vectors of length 1, one for each node.

    They are the nodes' embeddings, if all nodes have one and the dimensions are equal; else the store's vectors, if the
    store has one for each node; else the vectors that `embed_model` makes of the nodes' texts. If the model or the
    store fails, the result is (n, 1) zeros, which are similar to nothing, and a warning is logged.
    """
    own = [item.node.embedding for item in items]
    if all(own) and len({len(vector) for vector in own if vector is not None}) == 1:
        return unit_rows(own)
    try:
        stored = None if store is None else store.vectors([item.node.node_id for item in items])
        if stored is not None and stored.any(axis=1).all():
            return stored
        return unit_rows(as_embedder(embed_model_of(embed_model)).embed_documents([node_text(item) for item in items]))
    except Exception as error:  # noqa: BLE001 - a failing model must not make the answer fail
        message = "no vectors for %d nodes (%s), so all count as dissimilar; check the embed_model and the store"
        log.warning(message, len(items), type(error).__name__)
        return np.zeros((len(items), 1), dtype=np.float32)


def positions_of(items: Sequence[NodeWithScore], store: Store | None = None) -> Ints:
    """(n,) positions of the nodes, from 0. Positions of adjacent nodes differ by 1, all others by more than 1.

    Nodes are adjacent by `store.neighbours` or, without a store, by their relationships PREVIOUS and NEXT. A run of
    nodes, in which each is adjacent to the one before, has rising positions. If the nodes form a circle, the first and
    the last count as not adjacent. Runs are sorted by the start of their first node in the document. If a node occurs
    several times in `items`, all but the last have NO_POSITION.
    """
    rows = {item.node.node_id: row for row, item in enumerate(items)}
    after = _links(items) if store is None else _links_in(store, list(rows))
    follows = {id: next_id for id, next_id in after.items() if id in rows and next_id in rows}
    inner = set(follows.values())
    firsts = sorted((id for id in rows if id not in inner), key=lambda id: document_start(items[rows[id]].node) or 0)
    positions = np.full(len(items), NO_POSITION, dtype=np.int64)
    free = 0
    for start in (*firsts, *rows):  # `rows` for circles: each of their nodes follows another, so none is in `firsts`
        id: str | None = start
        while id is not None and positions[rows[id]] < 0:
            positions[rows[id]] = free
            free += 1
            id = follows.get(id)
        free += 1
    return positions


def _links(items: Sequence[NodeWithScore]) -> dict[str, str]:
    """Node id -> id of the node after it, from the nodes' relationships."""
    after: dict[str, str] = {}
    for item in items:
        previous, following = item.node.prev_node, item.node.next_node
        if previous is not None:
            after.setdefault(previous.node_id, item.node.node_id)
        if following is not None:
            after.setdefault(item.node.node_id, following.node_id)
    return after


def _links_in(store: Store, ids: list[str]) -> dict[str, str]:
    """Chunk id -> id of the chunk after it, from the store."""
    after: dict[str, str] = {}
    for beside in store.neighbours(ids, reach=1).values():
        after.update(pairwise(chunk.id for chunk in beside))
    return after
