"""A simulated embedding service with latency, a rate limit and failures, with the methods of LangChain's embeddings."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from umi_common.protocols import Embedder
from umi_common.sim.embedders import HashEmbedder

RATE_WINDOW_SECONDS = 1.0
"""Seconds before a call in which accepted calls count for the rate limit."""


class RateLimited(Exception):
    """Raised for a call beyond the rate limit, like an HTTP answer with status 429.

    Args:
        retry_after: Seconds after which the caller may try again; None: not stated.
    """

    status_code = 429

    def __init__(self, retry_after: float | None) -> None:
        super().__init__("simulated: too many requests")
        self.retry_after = retry_after


class ServiceDown(Exception):
    """Raised for a call that fails by chance, like an HTTP answer with status 503."""

    status_code = 503


class RemoteModel:
    """A simulated paid embedding service, with `embed_documents` and `embed_query`, and both as async methods.

    Args:
        embedder: The embedder that computes the vectors; None: `HashEmbedder()`.
        seconds: Duration of each accepted call.
        calls_per_second: Largest number of calls accepted in any second; further calls raise `RateLimited` at once.
            None: no limit.
        retry_after: Seconds that `RateLimited` states; None: it states none.
        failures: Share, 0..1, of the accepted calls that raise `ServiceDown`, drawn at random.
        seed: Seed of these draws.
        clock: Returns monotonic seconds for the rate limit. In a test run by `clock.run` of a `VirtualClock`,
            give `clock.monotonic`.

    `calls` is the number of calls, `refused` the number of calls beyond the rate limit, `failed` the number of calls
    that raised `ServiceDown`, and `at_once_max` the largest number of calls that ran at the same time. `texts` holds
    every text embedded, in order. Thread-safe.
    """

    model_name = "remote"

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        seconds: float = 0.0,
        calls_per_second: int | None = None,
        retry_after: float | None = None,
        failures: float = 0.0,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.calls = self.refused = self.failed = self.at_once_max = 0
        self.texts: list[str] = []
        self._embedder = HashEmbedder() if embedder is None else embedder
        self._seconds = seconds
        self._calls_per_second = calls_per_second
        self._retry_after = retry_after
        self._failures = failures
        self._random = Random(seed)
        self._clock = clock
        self._accepted: deque[float] = deque()
        self._at_once = 0
        self._lock = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """The vector of each text as a list, in order; blocks for `seconds`."""
        with self._call() as fails:
            time.sleep(self._seconds)
        return self._answer(texts, fails)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text as a list; blocks for `seconds`."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """`embed_documents` for an event loop."""
        with self._call() as fails:
            await asyncio.sleep(self._seconds)
        return self._answer(texts, fails)

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` for an event loop."""
        return (await self.aembed_documents([text]))[0]

    @contextmanager
    def _call(self) -> Iterator[bool]:
        """Count a call, which runs until the end of the block; yields whether it must raise ServiceDown.

        Raises:
            RateLimited: If the call is beyond the rate limit.
        """
        with self._lock:
            now = self._clock()
            self.calls += 1
            while self._accepted and self._accepted[0] <= now - RATE_WINDOW_SECONDS:
                self._accepted.popleft()
            if self._calls_per_second is not None and len(self._accepted) >= self._calls_per_second:
                self.refused += 1
                raise RateLimited(self._retry_after)
            self._accepted.append(now)
            self._at_once += 1
            self.at_once_max = max(self.at_once_max, self._at_once)
            fails = self._random.random() < self._failures
        try:
            yield fails
        finally:  # also if the call is cancelled
            with self._lock:
                self._at_once -= 1

    def _answer(self, texts: Sequence[str], fails: bool) -> list[list[float]]:
        with self._lock:
            if fails:
                self.failed += 1
                raise ServiceDown("simulated: the service is down")
            self.texts.extend(texts)
        rows: Any = self._embedder.embed_documents(texts)
        vectors: list[list[float]] = rows.tolist()
        return vectors
