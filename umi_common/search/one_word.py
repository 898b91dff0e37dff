"""How far each candidate resembles a single token of the query. For the built-in model alone.

The model's vector of a query is the mean of token vectors, so a cosine is a sum with one part for each token:

    part(i, t)    the part of token t in the cosine of i with the query, or 0 if it is below 0
    share(i, t) = part(i, t) / sum of the parts of all tokens
    excess(i)   = WEIGHT * (1 - p) * max(0, share(i, t) - share(query, t))      t: the token with the largest share in i

For "why does my cat sneeze at night", one token makes .44 of the cosine of "Sneezing", but .15 of the query's cosine
with itself: excess .29 * .7. For "a kitten sneezes at night" the shares are .35 and .31: excess .04 * .7.

`evidence.dense_evidence` lowers z by the excess. p is `neighbours.order_share`: where it is 1, as in chats,
late interaction compares each token of the query with the candidates.
"""

from __future__ import annotations

import numpy as np

from umi_common.embedders.default import WordLlamaEmbedder
from umi_common.pool import NOT_RANKED, Floats, Pool
from umi_common.ranking.evidence import EPSILON
from umi_common.ranking.neighbours import order_share
from umi_common.search.components import Search
from umi_common.search.reorder.late_interaction import COMPARED_CHARACTERS_MAX, tokens_of
from umi_common.stores.dense.cosines import cosines

WEIGHT = 0.7
"""Chosen on halves of ten sets that are not among the dev sets."""
COMPARED = 64
"""Number of candidates, those with the largest cosines, that are compared with the tokens."""


def one_word_excess(search: Search, pool: Pool) -> Floats | None:
    """(n,) the excess of each candidate for the query itself, 0..WEIGHT, or None if it is 0 for all candidates.

    It is 0 for all if another model made the vectors, the caller gave the query's vector, the vectors are not known,
    one arm alone answered, p is 1, or the query has no words.
    """
    embedder = getattr(search.store, "embedder", None)
    if not isinstance(embedder, WordLlamaEmbedder) or search.request.query_vector is not None or pool.mode != "hybrid":
        return None
    weight = WEIGHT * (1.0 - order_share(pool.calibration))
    if not weight or not pool.query_vectors.shape[1] == pool.vectors.shape[1] > 0:
        return None
    tokens = tokens_of(search.request.searched[:COMPARED_CHARACTERS_MAX])
    if not len(tokens):
        return None
    rank = pool.dense_rank[0]
    best = ((rank != NOT_RANKED) & (rank <= COMPARED)).nonzero()[0]
    vectors = np.concatenate([pool.query_vectors[:1], pool.vectors.take(best, axis=0)])
    parts = np.maximum(cosines(vectors, embedder.token_vectors().take(tokens, axis=0)), 0.0)
    shares = parts / np.maximum(parts.sum(axis=0), EPSILON)
    above_query = (shares - shares[:, :1])[shares.argmax(axis=0), np.arange(len(vectors))]  # column 0: the query itself
    excess = np.zeros(len(pool))
    excess[best] = weight * np.maximum(above_query[1:], 0.0)
    return excess
