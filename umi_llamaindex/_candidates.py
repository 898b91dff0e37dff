"""Convert retrieved nodes to the arrays that umi's ranking takes. Nodes are not changed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.schema import NodeWithScore

from umi_common.embedders import as_embedder, unit_rows
from umi_common.pool import NO_POSITION, Floats, Ints, Vectors
from umi_common.protocols import Store
from umi_llamaindex._convert import document_start, node_text
from umi_llamaindex._parts import embed_model_of

log = logging.getLogger("umi")
UNCOMPARED = "no vectors for %d nodes (%s): all are taken as dissimilar; check the embed_model and the store"


def scores_of(items: Sequence[NodeWithScore]) -> Floats:
    """(n,) scores >= 0 of the nodes.

    A node without a finite score gets 0. If a score is negative, the smallest score is subtracted from all finite
    scores. If no node has a finite score, the scores are 1 / rank, rank from 1.
    """
    given = np.array([np.nan if item.score is None else item.score for item in items], dtype=np.float64)
    known = np.isfinite(given)
    if not known.any():
        return 1.0 / np.arange(1, len(items) + 1)
    return np.where(known, given - min(0.0, float(given[known].min())), 0.0)


def vectors_of(items: Sequence[NodeWithScore], embed_model: Any, store: Store | None = None) -> Vectors:
    """(n, dim) rows of length 1, one for each node.

    The rows are, in this order of preference: the nodes' embeddings, if all nodes have one of the same dimension; the
    store's vectors, if it has one for each node; the vectors that `embed_model` makes of the nodes' texts.

    Args:
        items: n nodes.
        embed_model: Any model that umi accepts; None: umi's embedded model. If the model or the store fails, the result
            is (n, 1) zeros, which are similar to nothing, and a warning is logged.
        store: The store that the nodes come from; None: not known.
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
        log.warning(UNCOMPARED, len(items), type(error).__name__)
        return np.zeros((len(items), 1), dtype=np.float32)


def positions_of(items: Sequence[NodeWithScore], store: Store | None = None) -> Ints:
    """(n,) positions: those of adjacent nodes differ by exactly 1, those of all other nodes by more. Of a node that
    occurs several times, only the last has a position; the others have NO_POSITION.

    Nodes that follow one another get rising positions; the order of such runs is that of their start in the document.

    Args:
        items: n nodes.
        store: Says which nodes are adjacent, by its `neighbours`. None: the nodes' relationships to the previous and
            the next node say it.
    """
    rows = {item.node.node_id: row for row, item in enumerate(items)}
    after = _links(items) if store is None else _links_in(store, list(rows))
    follows = {id: next_id for id, next_id in after.items() if id in rows and next_id in rows}
    inner = set(follows.values())
    firsts = sorted((id for id in rows if id not in inner), key=lambda id: document_start(items[rows[id]].node) or 0)
    positions = np.full(len(items), NO_POSITION, dtype=np.int64)
    free = 0
    for start in (*firsts, *rows):  # also `rows`: in a circle each node follows another, so none is in `firsts`
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
        after.update(zip([chunk.id for chunk in beside], [chunk.id for chunk in beside[1:]], strict=False))
    return after
