"""A second opinion on the best candidates: any cross-encoder or function, on time or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from umi_common.config import RerankConfig
from umi_common.errors import ConfigError
from umi_common.runtime.calls import Call
from umi_common.runtime.deadline import Bounded

Score = Callable[[str, Sequence[str]], Sequence[float]]
"""(query, texts) -> one number per text, larger is better."""


def as_reranker(model: Any) -> Score:
    """Scores from a `Reranker`, a LangChain cross-encoder (`score(pairs)`), a sentence-transformers one
    (`predict(pairs)`), or a function (query, texts) -> scores.

    Raises:
        ConfigError: If it is none of these.
    """
    rerank = getattr(model, "rerank", None)
    if callable(rerank):
        return lambda query, texts: rerank(query, texts)
    for name in ("score", "predict"):
        method = getattr(model, name, None)
        if callable(method):
            return lambda query, texts, method=method: method([(query, text) for text in texts])  # type: ignore[misc]
    if callable(model):
        return lambda query, texts: model(query, texts)
    raise ConfigError(
        f"reranker is {type(model).__name__}; expected an object with rerank(query, texts), score(pairs) or "
        "predict(pairs), or a function (query, texts) -> scores"
    )


class Reranking:
    """A reranker with its deadline. Thread-safe if the model is."""

    def __init__(self, score: Score, config: RerankConfig) -> None:
        self._score = score
        self._seconds = config.timeout_seconds
        self._threads = Bounded()

    def call(self, query: str, texts: Sequence[str]) -> Call:
        """The scores as outside work; DeadlineExceeded where they take too long."""

        def score() -> Sequence[float]:
            return self._score(query, texts)

        return Call(
            lambda: self._threads.call(score, self._seconds),
            lambda: self._threads.acall(score, self._seconds),
        )
