"""Reorder the best candidates by late interaction, in corpora whose positions carry information."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from umi_common.config import LateInteractionConfig
from umi_common.embedders.token_vectors import token_vectors
from umi_common.errors import EmbedderError
from umi_common.pool import Pool
from umi_common.ranking.fusion import best_first
from umi_common.ranking.late_interaction import max_similarity, with_late_interaction
from umi_common.ranking.neighbours import order_share
from umi_common.search.rank import RankedPool
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk

STAGE = "late_interaction"


def share_in(request: SearchRequest, pool: Pool, config: LateInteractionConfig) -> float:
    """Factor of the stage's weight, 0..1: 0 if the stage is off or the search asks for one arm only.

    If `config.adaptive`, it is the larger, the more information positions carry in this corpus.
    """
    if not config.enabled or request.strategy != "hybrid":
        return 0.0
    return order_share(pool.calibration) if config.adaptive else 1.0


def interacted(
    request: SearchRequest,
    pool: Pool,
    ranked: RankedPool,
    chunks: Mapping[str, Chunk],
    config: LateInteractionConfig,
    share: float,
    trace: TraceBuilder,
) -> RankedPool:
    """The ranking with its first `config.pool` candidates sorted anew, by scores that late interaction has raised.

    If the embedded model fails, the ranking is unchanged and the trace says so.

    Args:
        pool: The candidates.
        ranked: Their order so far.
        chunks: Chunk of each ranked row, by id.
        share: From `share_in`, > 0.
        trace: Gets the stage, and the failure if there is one.
    """
    rows = np.sort(ranked.order[: config.pool])
    with trace.stage(STAGE) as facts:
        facts.update(candidates=len(rows), share=round(share, 3))
        try:
            texts = [request.query, *(chunks[id].indexed_text for id in pool.ids_at(rows))]
            vectors, tokens, counts = token_vectors(texts)
        except EmbedderError as error:
            trace.degrade(STAGE, str(error), "kept the order without late interaction")
            return ranked
        query_tokens, text_tokens = tokens[: counts[0]], tokens[counts[0] :]
        matches = max_similarity(vectors[query_tokens], vectors, text_tokens, counts[1:])
        scores = np.array(ranked.scores)
        scores[rows] = with_late_interaction(scores[rows], matches, pool.length[rows], config.weight * share)
        if scores.max(initial=0.0) > 0:  # the best score stays what it was, 1 without a decay
            scores *= ranked.scores.max() / scores.max()
    order = np.concatenate([rows[best_first(scores[rows])], ranked.order[config.pool :]])
    return replace(ranked, order=order, scores=scores, stages={**ranked.stages, STAGE: scores})
