"""Number pairs: raise the candidates that hold a number of the query beside the same word as the query does.

BM25 scores "revision 8 opens at 7" as high as "revision 7 opens at 11", whatever the query says of revision 7. A pair
is two words side by side of which at least one is a number: it holds a digit and no letter. Words are compared by their
terms.

    h(p, i) = 1 where candidate i holds pair p of the query, else 0
    w(p) = 1 - mean_i h(p, i)                               a pair that all candidates hold counts nothing
    final(i) = score(i) * (1 + weight * sum_p w(p) * h(p, i) / sum_p w(p))     over the pairs that a candidate holds

Then all scores are divided so that the largest is as large as before. Measured in docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from umi_common.pool import Floats, Pool
from umi_common.search.rank import RankedPool, reordered
from umi_common.search.recall import Components
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk

STAGE = "number_pairs"
CANDIDATES = 50
"""Best candidates whose texts are read."""

TermsOf = Callable[[str], Sequence[str]]
"""The terms of a text, such as stems."""
Pair = tuple[tuple[str, ...], tuple[str, ...]]
"""The terms of a word and of the next."""


def pairs_in_query(components: Components, request: SearchRequest) -> frozenset[Pair]:
    """The query's pairs; none if the stage is off, one arm alone is asked, or the store has no `terms_of`."""
    terms_of = _terms_of(components)
    if not components.config.fusion.number_pair_weight or request.strategy != "hybrid" or terms_of is None:
        return frozenset()
    return number_pairs(request.query, terms_of)


def raised_by_pairs(
    components: Components,
    pool: Pool,
    ranked: RankedPool,
    chunks: Mapping[str, Chunk],
    pairs: frozenset[Pair],
    trace: TraceBuilder,
) -> RankedPool:
    """The ranking with its first `CANDIDATES` rows sorted by the formula at the top of this file.

    Args:
        pool: The candidates.
        ranked: Their order so far.
        chunks: Chunk of each ranked row, by id.
        pairs: From `pairs_in_query`, not empty.
        trace: Gets the stage.
    """
    rows = np.sort(ranked.order[:CANDIDATES])
    with trace.stage(STAGE) as facts:
        terms_of = _terms_of(components)
        assert terms_of is not None, "the query's pairs were made with it"
        held = [number_pairs(chunks[id].indexed_text, terms_of) for id in pool.ids_at(rows)]
        facts.update(candidates=len(rows), pairs=len(pairs), held=sum(bool(pairs & own) for own in held))
        scores = with_number_pairs(ranked.scores[rows], pairs, held, components.config.fusion.number_pair_weight)
        return reordered(ranked, rows, scores, STAGE)


def number_pairs(text: str, terms_of: TermsOf) -> frozenset[Pair]:
    """The pairs of a text."""
    beside = [(word, after) for word, after in pairwise(text.split()) if _is_number(word) or _is_number(after)]
    return frozenset((tuple(terms_of(word)), tuple(terms_of(after))) for word, after in beside)


def with_number_pairs(scores: Floats, pairs: frozenset[Pair], held: Sequence[frozenset[Pair]], weight: float) -> Floats:
    """(n,) scores by the formula at the top of this file; scores below 0 gain nothing.

    Args:
        scores: (n,) scores after the stages before.
        pairs: Of the query.
        held: n sets, the pairs of each candidate.
        weight: >= 0.
    """
    holds = np.array([[pair in own for pair in pairs] for own in held])
    pair_weights = np.where(holds.any(axis=0), 1.0 - holds.mean(axis=0), 0.0)
    if pair_weights.sum() <= 0:
        return np.array(scores)
    share = holds @ pair_weights / pair_weights.sum()
    return np.asarray(scores + np.maximum(scores, 0.0) * weight * share, dtype=np.float64)


def _terms_of(components: Components) -> TermsOf | None:
    return getattr(components.store, "terms_of", None)


def _is_number(word: str) -> bool:
    return any(map(str.isdigit, word)) and not any(map(str.isalpha, word))
