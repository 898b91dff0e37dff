"""The embedder as searches call it: within a deadline, and not at all while it hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from umi_common.embedders import CallableEmbedder, WordLlamaEmbedder
from umi_common.errors import EmbedderError
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.runtime.breaker import Breaker
from umi_common.runtime.deadline import Bounded, DeadlineExceeded, NoPlace

CALLS_MAX = 32
"""Calls under way at once, those past their deadline included: more threads rarely search at a time."""
FAILURES = 2
"""Calls in a row without a reply in time after which the embedder is left alone: one may be bad luck."""
PAUSE_SECONDS = 10.0
"""How long it is left alone; then one search tries it again."""


class QueryEmbedder:
    """A store's embedder for queries, with its deadline and its breaker. Thread-safe if the embedder is.

    A call past its deadline goes on in a thread of its own, and its outcome is dropped.
    """

    def __init__(self, embedder: Embedder, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder = embedder
        self._threads = Bounded(CALLS_MAX, waits=True)
        self._breaker = Breaker(FAILURES, PAUSE_SECONDS, clock)

    def calls(self, missing: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """The (search, probe) pairs to embed, by the call that embeds them: one call, or, with a model that takes one
        query at a time, one for each search.
        """
        if isinstance(self._embedder, CallableEmbedder) and self._embedder.one_by_one:
            return [list(pairs) for _, pairs in groupby(missing, key=lambda pair: pair[0])]
        return [list(missing)] if missing else []

    def embed(self, texts: Sequence[str], seconds: float) -> Vectors:
        """What the embedder makes of the texts; its own exception as it is.

        Raises:
            EmbedderError: If it gives nothing within `seconds`, or has not lately.
        """
        if isinstance(self._embedder, WordLlamaEmbedder):  # it waits for nobody, and a thread would cost more than it
            return self._embedder.embed_queries(texts)
        if not self._breaker.enter():
            raise EmbedderError(f"left alone for {PAUSE_SECONDS:g} s after calls without a reply in time")
        verdict = self._breaker.abandoned
        try:
            made = self._threads.call(partial(self._embedder.embed_queries, texts), seconds)
            verdict = self._breaker.succeeded
        except DeadlineExceeded:
            verdict = self._breaker.failed
            raise EmbedderError(f"no reply within {seconds:g} s (recall.embedder_timeout_seconds)") from None
        except NoPlace:
            verdict = self._breaker.failed
            raise EmbedderError("too many of its calls have not returned") from None
        except Exception:
            verdict = self._breaker.succeeded  # it fails, and in time: asking it again costs nothing
            raise
        finally:
            verdict()
        return made
