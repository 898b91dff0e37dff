"""Fields and formulas of umi's ranking stages for the texts of any retriever. Both adapters share them.

Each formula takes n texts as arrays, and scores (n,) >= 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

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
from umi_common.errors import ConfigError
from umi_common.frameworks.records import time_in
from umi_common.pool import Floats, Ints, Vectors, best_first
from umi_common.ranking.duplicates import DuplicateFinder
from umi_common.ranking.evidence import min_max
from umi_common.ranking.mmr import mmr
from umi_common.ranking.neighbours import neighbour_scores
from umi_common.types import age_in_hours, as_utc, utc_now

Ranked = tuple[Ints, Floats | None]
"""(indices of the texts to keep, in their new order; new scores (n,), aligned with the given texts; None: the old)."""


class DecayFields(BaseModel):
    """Fields and formula of `UmiDecay`."""

    half_life_hours: Positive
    """Age, in hours, at which the factor has fallen halfway to `floor`."""
    floor: Share = DecayConfig().floor
    """Smallest factor, 0..1."""
    time_key: str = "timestamp"
    """Metadata key of the time; for the values that are read, see `PlaceKeys.time`."""
    clock: Callable[[], datetime] | None = Field(default=None, exclude=True)
    """Returns the present as an aware datetime; None: the computer's clock."""

    def decayed(self, scores: Floats, metadatas: Iterable[Mapping[str, Any]], now: datetime | None = None) -> Ranked:
        """All texts, sorted by their decayed scores.

        Args:
            scores: (n,)
            metadatas: n dicts.
            now: The time to which ages are measured; None: the time of the clock.
        """
        if now is None:
            now = utc_now() if self.clock is None else self.clock()
        now = as_utc(now, "now", ConfigError)
        ages = np.array([age_in_hours(time_in(metadata, self.time_key), now) for metadata in metadatas])
        lower = decay(scores, ages, rate=rate_of(self.half_life_hours), floor=self.floor)
        return best_first(lower), lower


class NeighboursFields(BaseModel):
    """Fields and formula of `UmiNeighbours`."""

    previous: NotNegative = NeighboursConfig().previous
    """Factor on the gain from the text before; see `ranking.neighbours`."""
    following: NotNegative = NeighboursConfig().following
    """Factor on the gain from the text after."""

    def gained(self, scores: Floats, sources: Ints, positions: Ints, texts: Sequence[str]) -> Ranked:
        """All texts, sorted by their new scores. Texts of one source are adjacent if their positions differ by 1.

        Args:
            scores: (n,)
            sources: (n,) equal for texts of one source.
            positions: (n,) `NO_POSITION` for a text without one.
            texts: n texts. The more words a text has, the less it gains.
        """
        raised = neighbour_scores(
            scores,
            sources,
            positions,
            np.array([len(text.split()) for text in texts], dtype=np.int64),
            whole=np.zeros(len(texts)),  # the source as a whole adds nothing
            previous=self.previous,
            following=self.following,
            source_share=0.0,
        )
        return best_first(raised), raised


class NearDuplicatesFields(BaseModel):
    """Fields and formula of `UmiNearDuplicates`."""

    similarity: Similarity = DuplicatesConfig().similarity
    """Smallest cosine of nearly equal texts."""

    def distinct(self, scores: Floats, texts: Sequence[str], vectors: Vectors, groups: Sequence[str]) -> Ranked:
        """Of each set of duplicates the text with the best score, and all blank texts, in the given order.

        Args:
            scores: (n,)
            texts: n texts.
            vectors: (n, dim) of length 1.
            groups: n strings. Nearly equal texts are duplicates only within one group, equal texts across groups, too.
        """
        finder = DuplicateFinder(DuplicatesConfig(similarity=self.similarity, across_sources=True), vectors)
        kept = [
            row
            for row in best_first(scores).tolist()
            if not texts[row].strip() or finder.add(row, texts[row], groups[row]) is None
        ]
        return np.sort(np.array(kept, dtype=np.int64)), None


class MmrFields(BaseModel):
    """Fields and formula of `UmiMMR`."""

    top_n: OneOrMore | None = None
    """Largest number of texts that are returned; None: no limit."""
    trade_off: Share = MmrConfig().trade_off
    """lambda, 0..1: with 1 only relevance counts, with 0 only diversity."""
    pool: OneOrMore = MmrConfig().pool
    """Number of best texts from which MMR chooses; at least `top_n`; all texts if `top_n` is None."""

    def chosen(self, scores: Floats, vectors: Vectors) -> Ranked:
        """At most `top_n` texts, in the order in which MMR chooses them. Relevance is the score, scaled to 0..1."""
        limit = len(scores) if self.top_n is None else self.top_n
        return mmr(min_max(scores), vectors, limit=limit, trade_off=self.trade_off, pool=self.pool), None
