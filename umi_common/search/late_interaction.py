"""Late interaction: reorder the best candidates by how well their own words match the query's, token by token.

    m(q, i) = max over tokens t of candidate i of cos(q, t)     how well candidate i matches the query's token q
    w(q) = 1 - mean_i m(q, i)                                   a token that all candidates match counts little
    s(i) = sum_q w(q) * m(q, i) / sum_q w(q)                    MaxSim
    z(i) = (s(i) - mean s) / deviation of s                     over the candidates; below 0 counts as 0
    final(i) = score(i) * (1 + weight * share * r(i) * z(i)^2)  r: `ranking.neighbours.needs`, falls with the length

Then all scores are divided so that the largest is as large as before.

The stage of neighbours raises all turns around an answer; this step compares the words of each turn itself. It helps in
corpora whose positions carry information, such as chats, so by default `share` depends on the corpus. Measured in
docs/decisions.md.

Source: MaxSim is that of ColBERT (Khattab, Zaharia, SIGIR 2020), here with static token vectors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from umi_common.config import LateInteractionConfig
from umi_common.embedders.token_vectors import token_vectors
from umi_common.errors import EmbedderError
from umi_common.pool import Floats, Ints, Pool, Vectors
from umi_common.ranking.neighbours import needs
from umi_common.search.rank import RankedPool, reorder
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.stores.dense.cosines import cosines
from umi_common.types import Chunk

STAGE = "late_interaction"
DEVIATION_MIN = 0.01
"""Smallest divisor of z, so that candidates whose matches are nearly equal gain next to nothing."""


def reorder_by_late_interaction(
    request: SearchRequest,
    pool: Pool,
    ranked: RankedPool,
    chunks: Mapping[str, Chunk],
    config: LateInteractionConfig,
    share: float,
    trace: TraceBuilder,
) -> RankedPool:
    """The ranking with its first `config.pool` rows sorted by the formula at the top of this file.

    If the embedded model fails, the ranking stays as it is and the trace says so.

    Args:
        pool: The candidates.
        ranked: Their order so far.
        chunks: Chunk of each ranked row, by id.
        share: Factor on `config.weight`, above 0, at most 1.
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
        weight = config.weight * share
        scores = with_late_interaction(ranked.scores[rows], matches, pool.length[rows], weight)
        return reorder(ranked, rows, scores, STAGE)


def max_similarity(query: Vectors, vectors: Vectors, rows: Ints, counts: Ints) -> Floats:
    """(Q, n) m: for each token of the query its largest cosine with a token of each candidate.

    Args:
        query: (Q, dim) unit rows.
        vectors: (T, dim) unit rows.
        rows: (L,) rows of `vectors`: the tokens of the first candidate, then those of the second, and so on.
        counts: (n,) tokens of each candidate, adding up to L; for one without tokens m is 0.
    """
    found: Floats = np.zeros((len(counts), len(query)))
    filled = np.flatnonzero(counts)
    if len(filled) and len(query):
        of_tokens = cosines(query, vectors).take(rows, axis=0)
        found[filled] = np.maximum.reduceat(of_tokens, np.cumsum(counts[filled]) - counts[filled], axis=0)
    return np.asarray(found.T)


def with_late_interaction(scores: Floats, matches: Floats, length: Ints, weight: float) -> Floats:
    """(n,) scores by the formula at the top of this file; scores below 0 gain nothing.

    Args:
        scores: (n,) scores after the stages before.
        matches: (Q, n) m.
        length: (n,) terms in the chunk.
        weight: weight * share, >= 0.
    """
    token_weights = 1.0 - matches.mean(axis=1)
    if not scores.size or token_weights.sum() <= 0:
        return np.array(scores)
    similarity = token_weights @ matches / token_weights.sum()
    above = np.maximum(similarity - similarity.mean(), 0.0) / max(float(similarity.std()), DEVIATION_MIN)
    return np.asarray(scores + np.maximum(scores, 0.0) * weight * needs(length) * above * above, dtype=np.float64)
