"""Embedders for tests: one without a model, one that counts calls, one that fails, and a service with a rate limit."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Literal, get_args

import numpy as np

from umi_common.errors import ConfigError, EmbedderError
from umi_common.pool import Vectors
from umi_common.protocols import Embedder

EmbedderFault = Literal["raises", "nan", "shape", "short"]


class HashEmbedder:
    """An embedder that hashes each word of a text to +1 or -1 in one coordinate, and scales the sum to length 1.

    So texts that share words have a high cosine. The vectors are equal on every machine and in every process. A text
    without a word has a zero vector. If the words of a text cancel each other out, the text is hashed as one word.

    Args:
        dim: Number of coordinates, >= 1.
    """

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.name = f"hash/{dim}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32: for each of n texts a unit vector, or a zero vector if the text has no word."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            words = re.findall(r"\w+", text.lower())
            for word in words:
                self._add(vectors[row], word)
            if words and not vectors[row].any():
                self._add(vectors[row], text)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(norms > 0, norms, np.float32(1))
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The vectors of `embed_documents`."""
        return self.embed_documents(texts)

    def _add(self, vector: Vectors, word: str) -> None:
        digest = int.from_bytes(hashlib.blake2b(word.encode(errors="replace"), digest_size=8).digest(), "big")
        vector[(digest >> 1) % self.dim] += 1.0 if digest & 1 else -1.0


class CountingEmbedder:
    """Wraps an embedder, counts its `document_calls` and `query_calls`, and keeps every text, in order, in `texts`."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.dim = embedder.name, embedder.dim
        self.document_calls = self.query_calls = 0
        self.texts: list[str] = []
        self._embedder = embedder

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The wrapped embedder's vectors; the call is counted."""
        self.document_calls += 1
        self.texts.extend(texts)
        return self._embedder.embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The wrapped embedder's vectors; the call is counted."""
        self.query_calls += 1
        self.texts.extend(texts)
        return self._embedder.embed_queries(texts)


class FaultyEmbedder:
    """Wraps an embedder and fails on chosen calls.

    Args:
        embedder: The wrapped embedder, which answers the calls that do not fail.
        fail_on: The calls that fail. A string: calls with a text that contains it. A number: the call with this number,
            from 1. A function of the texts: calls for which it returns True. None: all calls.
        fault: Effect of a failing call. "raises": EmbedderError; "nan": the first row is NaN; "shape": the vectors have
            one dimension too few; "short": one row is missing.
    """

    def __init__(
        self,
        embedder: Embedder,
        fail_on: str | int | Callable[[Sequence[str]], bool] | None = None,
        *,
        fault: EmbedderFault = "raises",
    ) -> None:
        if fault not in get_args(EmbedderFault):
            raise ConfigError(f"fault {fault!r}: expected one of {', '.join(get_args(EmbedderFault))}")
        self.name, self.dim = embedder.name, embedder.dim
        self.calls = 0
        self._embedder = embedder
        self._fail_on = fail_on
        self._fault = fault

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The embedder's vectors, or the fault."""
        return self._faulty(texts, self._embedder.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The embedder's vectors, or the fault."""
        return self._faulty(texts, self._embedder.embed_queries)

    def _faulty(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        self.calls += 1
        if not self._fails(texts):
            return embed(texts)
        if self._fault == "raises":
            raise EmbedderError("simulated: the embedder is down")
        vectors = np.array(embed(texts), dtype=np.float32)
        if self._fault == "nan":
            vectors[:1] = np.nan
            return vectors
        return vectors[:, :-1] if self._fault == "shape" else vectors[:-1]

    def _fails(self, texts: Sequence[str]) -> bool:
        if isinstance(self._fail_on, str):
            return any(self._fail_on in text for text in texts)
        if isinstance(self._fail_on, int):
            return self.calls == self._fail_on
        return self._fail_on is None or self._fail_on(texts)


class RateLimited(Exception):
    """Raised for a call beyond the rate limit, as a client does for an HTTP response with status 429.

    Args:
        retry_after: Seconds after which the caller may try again; None: not stated.
    """

    status_code = 429

    def __init__(self, retry_after: float | None) -> None:
        super().__init__("simulated: too many requests")
        self.retry_after = retry_after


class ServiceDown(Exception):
    """Raised for a call that fails by chance, as a client does for an HTTP response with status 503."""

    status_code = 503


class RemoteModel:
    """A simulated paid embedding service, with `embed_documents` and `embed_query`, and both as async methods.

    Args:
        embedder: The embedder that computes the vectors; None: `HashEmbedder()`.
        seconds: Duration of each accepted call.
        calls_per_second: Largest number of calls accepted in any second; further calls raise `RateLimited` at once.
            None: no limit.
        retry_after: The `retry_after` of `RateLimited`, in seconds; None: not stated.
        failures: Probability, 0..1, that an accepted call raises `ServiceDown`.
        seed: Seed of the random numbers that decide which calls fail.
        clock: Returns monotonic seconds for the rate limit. In a test under `VirtualClock.run`: `clock.monotonic`.

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
        """When each call of the last second was accepted, on the clock."""
        self._at_once = 0
        self._lock = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """The vector of each text as a list, in order; blocks for `seconds`."""
        with self._call() as fails:
            time.sleep(self._seconds)
        return self._answer(texts, fails)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text, embedded as a document, as a list; blocks for `seconds`."""
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
        """Count a call, which runs until the end of the `with` block; yield whether it must raise ServiceDown.

        Raises:
            RateLimited: If the call is beyond the rate limit.
        """
        with self._lock:
            now = self._clock()
            self.calls += 1
            while self._accepted and self._accepted[0] <= now - 1.0:
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
