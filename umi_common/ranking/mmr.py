"""Maximal marginal relevance: choose rows that are relevant and unlike the rows chosen before."""

from __future__ import annotations

import numpy as np

from umi_common.config import MmrConfig
from umi_common.errors import ConfigError
from umi_common.pool import Floats, Ints, Vectors, best_first

DEFAULTS = MmrConfig()


def mmr(
    scores: Floats,
    vectors: Vectors,
    *,
    limit: int,
    trade_off: float = DEFAULTS.trade_off,
    pool: int = DEFAULTS.pool,
) -> Ints:
    """Choose rows one by one, each with the largest trade_off * score(d) - (1 - trade_off) * max_{c chosen} cos(d, c).

    The maximum is over all rows c chosen so far. The first choice is the row with the best score, or the smallest row
    of the pool if trade_off is 0.

    Args:
        scores: (n,) relevance, finite; should be 0..1, because the scores are compared with cosines.
        vectors: (n, dim) L2-normalised; a zero row has similarity 0 to every row.
        limit: Number of rows to choose, >= 0.
        trade_off: lambda, 0..1: 1 is relevance alone, 0 diversity alone.
        pool: Number of best rows to choose from, but at least `limit` rows.

    Returns:
        min(limit, n) rows in the order of choice; ties to the smaller row.

    Raises:
        ConfigError: If trade_off is outside 0..1, limit negative or pool < 1.

    Source: Carbonell, Goldstein, SIGIR 1998.
    """
    if not 0 <= trade_off <= 1 or limit < 0 or pool < 1:
        raise ConfigError(
            f"mmr: expected trade_off 0..1, limit >= 0 and pool >= 1; got {trade_off!r}, {limit!r} and {pool!r}"
        )
    rows = np.sort(best_first(scores)[: max(pool, limit)])
    gains = trade_off * np.asarray(scores, dtype=np.float64)[rows]
    among = vectors[rows]
    alike = np.full(len(rows), -np.inf, dtype=among.dtype)
    penalty = np.zeros(len(rows))
    chosen: list[int] = []
    for _ in range(min(limit, len(rows))):
        pick = int((gains - penalty).argmax())
        chosen.append(pick)
        gains[pick] = -np.inf
        cosines = np.einsum("nd,d->n", among, among[pick])  # `@` rounds equal rows differently, which breaks ties
        np.maximum(alike, cosines, out=alike)
        np.multiply(alike, 1.0 - trade_off, out=penalty)
    return np.asarray(rows[chosen], dtype=np.int64)
