"""The dense arm: an exact scan while that is fast, Chroma's candidates above; scored exactly in both cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from umi_common.errors import IndexUnavailable
from umi_common.pool import Floats, Ints, Vectors
from umi_common.store.chroma import Generation
from umi_common.store.cosines import cosines_at
from umi_common.store.dense import NOTHING, rank_rows, search_exact
from umi_common.store.distinct import distinct
from umi_common.store.generations import Generations
from umi_common.store.quantised import QuantisedRows, Scan
from umi_common.store.rows import Mask
from umi_common.store.topk import Ranking

OVERFETCH = 2
"""Candidates asked of Chroma, in multiples of what is wanted."""
FEW = 8
"""Where at most one in so many rows is allowed, Chroma is not asked."""


@dataclass(frozen=True, slots=True)
class DenseSearch:
    """One search of the dense arm.

    Args:
        vectors: (n, dim) unit rows.
        seqs: (n,) ledger numbers, rising.
        ids: By row, for ties.
        queries: (V, dim) unit rows; a row of zeros finds nothing.
        k: At most so many per query.
        allowed: (n,) rows that may be found, none of them zeros; None: all.
        weights: (n,) in (0, 1], decay; None: 1.
        quantised: Codes of the vectors.
        scan: `scan_of` all rows, where searches that go together have had it worked out.
    """

    vectors: Vectors
    seqs: Ints
    ids: Sequence[str]
    queries: Vectors
    k: int
    allowed: Mask | None
    weights: Floats | None
    quantised: QuantisedRows
    scan: Scan | None = None

    def run(self, generations: Generations) -> tuple[list[Ranking], str]:
        """For each query the best k rows by decayed cosine, best first, and the engine that found them."""
        generation = generations.current
        if generation is None or self._few_allowed():
            return self._scanned(self.queries, 0, self.scan), "exact"
        try:
            found = generation.nearest(self.queries, OVERFETCH * self.k)
        except IndexUnavailable as error:
            generations.give_up(generation, str(error))
            return self.exact(self.queries), "exact"
        rankings = [self._from(generation, query, seqs) for query, seqs in zip(self.queries, found, strict=True)]
        engine = "chroma" if None not in rankings else "chroma, exact where it fell short"
        return [
            self.exact(self.queries[at : at + 1])[0] if ranking is None else ranking
            for at, ranking in enumerate(rankings)
        ], engine

    def exact(self, queries: Vectors) -> list[Ranking]:
        """By a scan of the stored vectors."""
        return self._scanned(queries, 0)

    def _scanned(self, queries: Vectors, first: int, scan: Scan | None = None) -> list[Ranking]:
        return search_exact(
            self.vectors,
            queries,
            k=self.k,
            allowed=self.allowed,
            weights=self.weights,
            ids=self.ids,
            quantised=self.quantised,
            first=first,
            scan=scan,
        )

    def _few_allowed(self) -> bool:
        return self.allowed is not None and int(self.allowed.sum()) * FEW <= len(self.seqs)

    def _from(self, generation: Generation, query: Vectors, seqs: Ints) -> Ranking | None:
        """The best k of what Chroma found and of what is newer; None: something it left out may belong there."""
        if not query.any():
            return NOTHING
        places = np.minimum(np.searchsorted(self.seqs, seqs), len(self.seqs) - 1)
        old = distinct(places[self.seqs[places] == seqs])
        tail = int(np.searchsorted(self.seqs, generation.manifest.seq, side="right"))
        # Nothing that Chroma left out is nearer than the farthest that it found, and decay only takes away.
        known = cosines_at(self.vectors, old, query[None])[0]
        frontier = float(known.min(initial=1.0))
        (newer,) = self._scanned(query[None], tail)
        kept = slice(None) if self.allowed is None else self.allowed[old]
        rows, scores = np.concatenate([old[kept], newer.rows]), np.concatenate([known[kept], newer.cosines])
        ranking = rank_rows(rows, scores, k=self.k, weights=self.weights, ids=self.ids)
        if len(ranking.rows) < self.k or ranking.scores[-1] < frontier:
            return None
        return ranking
