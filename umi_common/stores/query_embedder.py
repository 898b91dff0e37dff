"""Query vectors: the embedder of a store, called within a deadline and not at all while it hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

import numpy as np

from umi_common.embedders import CallableEmbedder, WordLlamaEmbedder
from umi_common.errors import EmbedderError, InvalidVector
from umi_common.pool import Vectors
from umi_common.protocols import Embedder, RecallRequest
from umi_common.runtime.breaker import Breaker
from umi_common.runtime.deadline import DeadlineExceeded, ThreadLimiter, TooManyCalls
from umi_common.runtime.losses import PAUSED
from umi_common.stores.batch_checks import unit_rows
from umi_common.stores.values import RecallTrace

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
        self._threads = ThreadLimiter(CALLS_MAX, waits=True)
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
            raise EmbedderError(f"{PAUSED} for {PAUSE_SECONDS:g} s after calls without a reply in time")
        verdict = self._breaker.abandoned
        try:
            made = self._threads.call(partial(self._embedder.embed_queries, texts), seconds)
            verdict = self._breaker.succeeded
        except DeadlineExceeded:
            verdict = self._breaker.failed
            raise EmbedderError(f"no reply within {seconds:g} s (recall.embedder_timeout_seconds)") from None
        except TooManyCalls:
            verdict = self._breaker.failed
            raise EmbedderError("too many of its calls have not returned") from None
        except Exception:
            verdict = self._breaker.succeeded  # it fails, and in time: asking it again costs nothing
            raise
        finally:
            verdict()
        return made


def query_vectors(
    requests: Sequence[RecallRequest], embedder: QueryEmbedder, dim: int, traces: Sequence[RecallTrace]
) -> list[Vectors | None]:
    """For each request (V, dim) unit rows; None: it has no vector at all, or its strategy is "text".

    Probes without a vector are embedded, in one call where the model takes many texts. If that fails, their vectors are
    zeros and the traces of their requests say so.

    Raises:
        InvalidVector: If a probe's own vector does not fit.
    """
    begun = time.perf_counter()
    vectors = [
        [None if probe.vector is None else _checked(probe.vector, dim) for probe in request.probes]
        for request in requests
    ]
    missing = [
        (search, place)
        for search, (request, own) in enumerate(zip(requests, vectors, strict=True))
        for place, vector in enumerate(own)
        if vector is None and request.strategy != "text"
    ]
    seconds = max((request.embedder_timeout_seconds for request in requests), default=0.0)
    failure: Exception | None = None
    for places in embedder.calls(missing):
        texts = [requests[search].probes[place].text for search, place in places]
        try:
            made = _embedded(texts, embedder, seconds, dim)
        except Exception as error:  # noqa: BLE001 an embedder may fail in any way; the lexical arm does not need it
            failure = error
            break
        for (search, place), vector in zip(places, made, strict=True):
            vectors[search][place] = vector
    milliseconds = (time.perf_counter() - begun) * 1e3
    found: list[Vectors | None] = []
    for request, trace, own in zip(requests, traces, vectors, strict=True):
        if request.strategy == "text":
            found.append(None)
            continue
        trace.facts["embed_ms"] = milliseconds
        given = [vector for vector in own if vector is not None]
        if failure is not None and len(given) < len(own):
            consequence = "some variations by words alone" if given else "searched by words alone"
            # A message may name texts; where searches share the call, those may be another caller's.
            reason = failure if len(requests) == 1 else type(failure).__name__
            trace.lost("embedder", reason, consequence)
        found.append(unit_rows(np.stack([_or_zeros(vector, given[0]) for vector in own])) if given else None)
    return found


def _checked(vector: Vectors, dim: int) -> Vectors:
    if vector.ndim != 1 or not np.isfinite(vector).all() or (dim and len(vector) != dim):
        raise InvalidVector(f"a query vector has shape {vector.shape}; expected ({dim or 'dim'},), finite")
    return vector


def _embedded(texts: Sequence[str], embedder: QueryEmbedder, seconds: float, dim: int) -> Vectors:
    made = np.asarray(embedder.embed(texts, seconds), dtype=np.float32)
    if made.ndim != 2 or len(made) != len(texts):
        raise EmbedderError(f"it gave shape {made.shape}, expected ({len(texts)}, {dim or 'dim'})")
    if dim and made.shape[1] != dim:
        raise EmbedderError(f"it gives vectors of dimension {made.shape[1]}, the store holds {dim}")
    if not np.isfinite(made).all():
        raise EmbedderError("it gave NaN or infinity")
    return made


def _or_zeros(vector: Vectors | None, like: Vectors) -> Vectors:
    return np.zeros_like(like) if vector is None else vector
