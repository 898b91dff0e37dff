"""Scores for the replies of a framework's retriever or reranker, which have an order but often no scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from umi_common.runtime.losses import BadReply, warn_once
from umi_common.search.extra_arms import ArmReply
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.types import Chunk

T = TypeVar("T")


def checked_reply(reply: Any, kind: type[T]) -> list[T]:
    """The reply of a framework's retriever or reranker as a list.

    Args:
        reply: Items of the class `kind`, or one such item.

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
    """Each chunk that a framework's retriever has found, with the score 1 - (rank - 1) / depth, rank from 1.

    The retriever's own scores are not used, because scores of different retrievers have no common scale
    (docs/decisions.md).

    Args:
        kind: "document" or "node", for the warnings.
        chunks: Best first, at most `depth`, the number that the retriever was asked for.
        skipped: Documents or nodes that cannot be chunks; a warning is logged for each.
    """
    for each in skipped:
        warn_once("arm", str(each.id), "%s %r of an arm is left out: %s", kind, each.id, each.reason)
    return [(chunk, 1.0 - (rank - 1) / depth) for rank, chunk in enumerate(chunks, start=1)]


def scores_of_kept(kept: Sequence[tuple[Any, Any]], count: int) -> list[float]:
    """A score for each of `count` texts, from the result of a framework's reranker.

    A text that the reranker dropped gets -inf, and the search result leaves it out.

    Args:
        kept: (index of the text, score), best first; the index None stands for a text that the reranker was not given.
            If a score is no finite number, or all scores are equal, the results are count, count - 1, ... in the order
            of the list instead.
        count: Number of texts that the reranker was given.

    Raises:
        BadReply: If the reranker returned a text that was not among those it was given.
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

    It takes texts by rising score, and puts them alternately at the front and at the end of its result. Scores in this
    order can be trusted although they do not fall along the list. False for falling scores, and for fewer than three.
    """
    rising = sorted(scores)
    return len(scores) > 2 and list(scores) == rising[::2][::-1] + rising[1::2] and list(scores) != rising[::-1]
