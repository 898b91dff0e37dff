"""Rerank the best candidates by a cross-encoder or a function of the caller, within a time limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from umi_common.config import RerankConfig
from umi_common.errors import ConfigError
from umi_common.pool import Floats, Pool, best_first
from umi_common.runtime.calls import Body, CallFailure
from umi_common.runtime.guards import ThreadLimiter
from umi_common.runtime.loop_thread import LoopThread
from umi_common.runtime.losses import BadReply, log_bug, reason_of
from umi_common.search.rank import RankedPool
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk

Score = Callable[[str, Sequence[Chunk]], Any]
"""A function from a query and chunks to one number per chunk, or to an awaitable of them. Larger is better; -inf drops
the chunk."""


class RerankerCalls:
    """Calls the function of a reranker. An async function runs on an event loop in a thread of its own."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self._loop_thread = LoopThread("umi-async-reranker")

    def __call__(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        scores: Sequence[float] = self._loop_thread.call(lambda given: self._score(*given), None, (query, chunks))
        return scores

    def close(self) -> None:
        """End the thread with the event loop, if there is one. A later call starts a new one."""
        self._loop_thread.close()


def as_reranker(model: Any) -> RerankerCalls:
    """The calls of a reranker made from `model`.

    Args:
        model: A `Reranker`, a cross-encoder of LangChain (`score(pairs)`) or sentence-transformers (`predict(pairs)`),
            or a function (query, texts) -> scores. The function or method may be async. The adapters' rerankers have
            `score_chunks(query, chunks)`, because a framework's reranker may read metadata.

    Raises:
        ConfigError: If `model` is none of these.
    """
    if isinstance(model, type):
        raise ConfigError(f"reranker is the class {model.__name__}; expected an instance of it: {model.__name__}(...)")
    if callable(score := getattr(model, "score_chunks", None)):
        return RerankerCalls(score)
    score_texts = _text_function(model)
    return RerankerCalls(lambda query, chunks: score_texts(query, [chunk.indexed_text for chunk in chunks]))


def _text_function(model: Any) -> Callable[[str, Sequence[str]], Any]:
    """The function (query, texts) of a model that returns its scores, or an awaitable of them."""
    if callable(rerank := getattr(model, "rerank", None)):
        return rerank  # type: ignore[no-any-return]
    for name in ("score", "predict"):
        if callable(method := getattr(model, name, None)):
            return lambda query, texts: method([(query, text) for text in texts])
    if callable(model):
        return model  # type: ignore[no-any-return]
    raise ConfigError(
        f"reranker is {type(model).__name__}; expected an object with rerank(query, texts), score(pairs) or "
        "predict(pairs), or a function (query, texts) -> scores"
    )


class Reranking:
    """A reranker with its settings. Thread-safe if the model is."""

    def __init__(self, score: RerankerCalls, config: RerankConfig) -> None:
        self._score = score
        self._config = config
        self._limiter = ThreadLimiter()

    def rerank(
        self, query: str, pool: Pool, ranked: RankedPool, chunks: Mapping[str, Chunk], trace: TraceBuilder
    ) -> Body[RankedPool]:
        """The ranking with its best candidates sorted by the reranker's scores. If the reranker fails, the ranking is
        unchanged and the trace gets a degradation.

        Args:
            chunks: Chunk of each ranked row, by id.
        """
        with trace.stage("rerank") as facts:
            best = ranked.order[: self._config.pool].tolist()
            score = partial(self._score, query, [chunks[pool.ids[row]] for row in best])
            (outcome,) = yield (self._limiter.limited(score, self._config.timeout_seconds),)
            facts.update(candidates=len(best))
            try:
                if isinstance(outcome, CallFailure):
                    raise outcome.error
                return _sorted_by(ranked, best, _checked_scores(outcome, len(best)))
            except Exception as error:  # noqa: BLE001 - any error of the reranker, or a BadReply
                log_bug("reranker", error)
                trace.degrade("reranker", reason_of(error), "kept the order without it")
                return ranked


def _checked_scores(scores: object, count: int) -> Floats:
    """(count,) the scores of a reranker, finite or -inf. Raises BadReply if they are anything else."""
    try:
        given = np.asarray(scores, dtype=np.float64)
    except Exception as error:  # a RuntimeError for a torch tensor that requires a gradient
        fault = f"returned {type(scores).__name__}, which does not convert to numbers ({type(error).__name__})"
        raise BadReply(f"{fault}; expected {count} numbers") from error
    if given.shape != (count,):
        raise BadReply(f"returned scores of shape {given.shape}; expected {count} numbers")
    if not (np.isfinite(given) | np.isneginf(given)).all():
        raise BadReply("returned NaN or inf as a score; expected finite numbers, or -inf to drop a text")
    return given


def _sorted_by(ranked: RankedPool, rows: Sequence[int], scores: Floats) -> RankedPool:
    """Sort `rows`, the first rows of the ranking, by their new scores; the rows that were not scored follow.

    Rows with a score of -inf are suppressed. If there are any, the rows that were not scored are left out, too: a
    reranker that drops texts decides what is shown, and has not seen these.
    """
    kept = np.isfinite(scores)
    best_kept = best_first(scores)[: np.count_nonzero(kept)]
    best = np.asarray(rows, dtype=np.int64)[best_kept]
    after = np.full(len(ranked.scores), scores[kept].min(initial=0.0))  # no larger than any score given
    after[best] = scores[best_kept]
    unseen = ranked.order[~np.isin(ranked.order, rows)]
    dropped = tuple((row, "reranker", None) for row, stays in zip(rows, kept, strict=True) if not stays)
    order = best if dropped else np.concatenate([best, unseen])
    stages = {**ranked.stages, "rerank": after}
    suppressed = (*ranked.suppressed, *dropped)
    return replace(ranked, order=order, scores=after, stages=stages, suppressed=suppressed)
