"""Ranking stages for the texts of any retriever, and scores for the replies of retrievers and rerankers.

In the formulas of the stages, n texts are arrays, and scores (n,) are >= 0. Replies have an order but often no scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

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
from umi_common.runtime.losses import BadReply, warn_once
from umi_common.search.extra_arms import ArmReply
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.types import Chunk, age_in_hours, as_utc, utc_now

T = TypeVar("T")
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
        """All texts, sorted by their decayed scores. Ages are measured at `now`; None: at the time of the clock."""
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
            sources: (n,) equal for texts of one source.
            positions: (n,) `NO_POSITION` for a text without one.
            texts: n texts. The more words a text has, the less it gains.
        """
        words = np.array([len(text.split()) for text in texts], dtype=np.int64)
        raised = neighbour_scores(
            scores,
            sources,
            positions,
            words,
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
            vectors: (n, dim) of length 1.
            groups: n strings. Nearly equal texts are duplicates only within one group, equal texts across groups, too.
        """
        finder = DuplicateFinder(DuplicatesConfig(similarity=self.similarity, across_sources=True), vectors)
        rows = best_first(scores).tolist()
        kept = [row for row in rows if not texts[row].strip() or finder.add(row, texts[row], groups[row]) is None]
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


def checked_reply(reply: Any, kind: type[T]) -> list[T]:
    """The items of the class `kind`, or the one such item, that a retriever or reranker gave, as a list.

    Raises:
        BadReply: If the reply is or holds an object of another class, such as a text that a chain has made.
    """
    several = isinstance(reply, Iterable) and not isinstance(reply, (str, Mapping, kind))
    items = list(reply) if several else [reply]
    for item in items:
        if not isinstance(item, kind):
            raise BadReply(f"gave {type(item).__name__}; expected a list of {kind.__name__}")
    return items


def arm_reply(kind: str, chunks: Iterable[Chunk], skipped: Iterable[SkippedChunk], depth: int) -> ArmReply:
    """Each chunk of a retriever's best-first list, with the score 1 - (rank - 1) / depth, rank from 1.

    The retriever's own scores have no common scale with others (docs/decisions.md). A warning is logged for each of
    the `skipped`, which cannot be chunks; `kind` is "document" or "node".
    """
    for each in skipped:
        warn_once("arm", str(each.id), "%s %r of an arm is left out: %s", kind, each.id, each.reason)
    return [(chunk, 1.0 - (rank - 1) / depth) for rank, chunk in enumerate(chunks, start=1)]


def scores_of_kept(kept: Sequence[tuple[Any, Any]], count: int) -> list[float]:
    """A score for each of `count` texts that a reranker was given; -inf for those that it dropped.

    Args:
        kept: (index of the text, score), best first; the index None stands for a text that the reranker was not given,
            and raises BadReply. If a score is no finite number, or all scores are equal, the results are count,
            count - 1, ... in the order of the list instead.
    """
    if any(row is None for row, _ in kept):
        raise BadReply("gave a text that it was not given; expected a reranker that reorders or leaves out texts")
    stated = [score for _, score in kept if isinstance(score, (int, float, np.number)) and np.isfinite(score)]
    by_score = len(stated) == len(kept) and len(set(stated)) > 1
    scores = [-np.inf] * count
    for rank, (row, score) in enumerate(kept):
        scores[row] = max(scores[row], float(score) if by_score else float(count - rank))
    return scores


def edges_first(scores: Sequence[float]) -> bool:
    """Whether scores are in the order that the frameworks' `LongContextReorder` makes: .8, .6, .7, .9.

    It puts texts by rising score alternately at the front and at the end. False for falling scores.
    """
    rising = sorted(scores)
    return len(scores) > 2 and list(scores) == rising[::2][::-1] + rising[1::2] and list(scores) != rising[::-1]
