"""Embeds queries with a store's embedder, with a cache, a time limit, retries and a circuit breaker."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from types import NoneType
from typing import Any

import numpy as np

from umi_common.config import EmbedderConfig
from umi_common.embedders.attempts import UNKNOWN_ATTEMPTS, Attempts, attempts, may_be_of_a_text
from umi_common.embedders.cache import LruCache
from umi_common.embedders.default import PackagedModel
from umi_common.embedders.documents import batches_of
from umi_common.errors import EmbedderError, InvalidVector
from umi_common.pool import Vectors, unit_vectors
from umi_common.protocols import Embedder, Probe, RecallRequest
from umi_common.runtime.call_queue import CallQueue
from umi_common.runtime.calls import Body, Call, adrive, drive, value_of
from umi_common.runtime.guards import Breaker, DeadlineExceeded, ThreadLimiter, TooManyCalls
from umi_common.runtime.loop_thread import LoopThread
from umi_common.runtime.losses import PAUSED
from umi_common.runtime.workers import Workers
from umi_common.stores.values import RecallTrace

FAILURES = 2
"""Number of successive calls of `embed_each` without a reply in time after which the circuit breaker opens. One such
call may be chance."""
REPLY_SECONDS = 1.0
"""Seconds. A call that is cancelled earlier does not count as a call without a reply: a search box cancels the running
search at each key."""
PAUSE_SECONDS = 10.0
"""Seconds that the circuit breaker stays open; then one search tries the embedder again."""

WITHOUT_ALL = "searched with the lexical arm alone"
WITHOUT_FIRST = "searched for the query itself with the lexical arm alone"
WITHOUT_SOME = "searched for some variations with the query's vector"
"""Consequences in a result's `degraded`: WITHOUT_ALL if all probes lack a vector, WITHOUT_FIRST if the first lacks one,
WITHOUT_SOME if only others do."""

QueryVector = Vectors | Exception
"""The vector of a text, (dim,) float32, or the error because of which it has none."""


@dataclass(slots=True)
class _Job:
    """One call of the model, with its retries."""

    texts: list[str]
    state: Attempts = field(default_factory=Attempts)
    outcome: Any = None
    """The model's reply, or an exception; None: the job has not ended, or was cancelled."""


@dataclass(slots=True)
class _Group:
    """Queries of several tasks of an event loop, which are embedded together."""

    texts: list[str] = field(default_factory=list)
    task: asyncio.Task[list[QueryVector]] | None = None
    """Embeds `texts`; None: not created yet."""


class QueryEmbedder:
    """Embeds queries with a store's embedder. Thread-safe if the embedder is.

    An embedder that is `in_place` is called in the caller's thread, without cache, time limit and retries. For any
    other embedder:

    - If it takes one query per call, at most `config.concurrency` calls run at a time.
    - If it takes several queries per call, at most half as many calls run. On an event loop, the queries of all tasks
      that are ready are embedded together.
    - A call that exceeds its time limit continues in its own thread, and its outcome is dropped.
    - If a blocking caller needs several calls, an event loop in another thread makes them.

    Args:
        config: Limits and size of the cache; None: the defaults.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self, embedder: Embedder, config: EmbedderConfig | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        config = EmbedderConfig() if config is None else config
        self.in_place: bool = getattr(embedder, "in_place", False)
        self.packaged = isinstance(embedder, PackagedModel)
        self._embedder = embedder
        self._aembed = getattr(embedder, "aembed_queries", None)
        self._one_by_one: bool = getattr(embedder, "one_by_one", False)
        self._config = config
        self._clock = clock
        most = config.concurrency if self._one_by_one else max(1, config.concurrency // 2)
        self._calls_max = min(most, getattr(embedder, "calls_max", most))
        self._queue = CallQueue(self._calls_max, clock, timed=True)
        self._threads = ThreadLimiter(self._calls_max)
        self._breaker = Breaker(FAILURES, PAUSE_SECONDS, clock)
        self._cache: LruCache[str, Vectors] = LruCache(config.cached_queries)
        self._workers = Workers()
        self._loop_thread = LoopThread("umi-embed-queries")
        self._groups: dict[tuple[asyncio.AbstractEventLoop, float, int], _Group] = {}

    @property
    def load_ms(self) -> float:
        """Milliseconds that loading the model took in this process; 0: it is not loaded yet, or is a remote service."""
        return getattr(self._embedder, "load_ms", 0.0)

    def embed_each(self, texts: Sequence[str], seconds: float, dim: int) -> list[QueryVector]:
        """A `QueryVector` for each text; blocks.

        Args:
            seconds: Time limit of each round of calls; there are several rounds if the texts need more calls than may
                run at a time.
            dim: Expected dimension of the vectors; 0: any.

        Raises:
            Exception: The error of an embedder that is `in_place`; errors of other embedders are returned.
        """
        if self.in_place:
            return _checked_rows(self._embedder.embed_queries(texts), len(texts), dim)
        return drive(self._embedding(texts, seconds, dim), self._workers)

    def close(self) -> None:
        """End the thread of the event loop that serves blocking callers; a later call starts it again."""
        self._loop_thread.close()

    async def aembed_each(self, texts: Sequence[str], seconds: float, dim: int) -> list[QueryVector]:
        """`embed_each` as a coroutine."""
        if self._one_by_one:
            return await adrive(self._embedding(texts, seconds, dim), self._workers)
        key = asyncio.get_running_loop(), seconds, dim
        group = self._groups.setdefault(key, _Group())
        start = len(group.texts)
        group.texts += texts
        if group.task is None:  # the loop starts this task after the tasks that are ready now
            group.task = key[0].create_task(self._aembed_group(key, group))
            group.task.add_done_callback(lambda _: self._close_group(key, group))
        await asyncio.wait({group.task})  # `await group.task` would cancel the group's task if this task is cancelled
        if group.task.cancelled():  # some code has cancelled all tasks of the loop
            return [EmbedderError("its call was cancelled")] * len(texts)
        return group.task.result()[start : start + len(texts)]

    async def _aembed_group(
        self, key: tuple[asyncio.AbstractEventLoop, float, int], group: _Group
    ) -> list[QueryVector]:
        self._close_group(key, group)
        return await adrive(self._embedding(group.texts, *key[1:]), self._workers)

    def _close_group(self, key: tuple[asyncio.AbstractEventLoop, float, int], group: _Group) -> None:
        """Add no further query to the group. A task that is cancelled early ends without having begun."""
        if self._groups.get(key) is group:
            del self._groups[key]

    def _embedding(self, texts: Sequence[str], seconds: float, dim: int) -> Body[list[QueryVector]]:
        """The result of `embed_each`."""
        known = {text: vector for text, vector in self._cache.get(texts).items() if dim in (0, len(vector))}
        jobs = self._jobs([text for text in dict.fromkeys(texts) if text not in known])
        if not jobs:
            return [known[text] for text in texts]
        if not self._breaker.enter():
            paused = EmbedderError(f"{PAUSED} for {PAUSE_SECONDS:g} s after calls without a reply in time")
            return [known.get(text, paused) for text in texts]
        rounds = math.ceil(len(jobs) / self._calls_max)  # each round of calls may take `seconds`
        deadline = self._clock() + seconds * rounds
        try:
            value_of((yield (self._all_of(jobs, seconds, deadline),))[0])
            if single := _jobs_of_one_text(jobs):
                jobs += single
                value_of((yield (self._all_of(single, seconds, deadline),))[0])
        finally:
            self._record_replies(jobs)
        return self._vectors(texts, known, jobs, seconds, dim)

    def _all_of(self, jobs: Sequence[_Job], seconds: float, deadline: float) -> Call:
        """A call that runs the jobs at the same time. A blocking caller runs a single job in its own thread."""

        async def arun(*, in_threads: bool = False) -> None:
            bodies = (self._run(job, seconds, deadline, in_threads=in_threads) for job in jobs)
            await asyncio.gather(*(adrive(body, self._workers) for body in bodies))

        def run() -> None:
            if len(jobs) == 1:
                drive(self._run(jobs[0], seconds, deadline, in_threads=True), self._workers)
            else:
                self._loop_thread.run(partial(arun, in_threads=True))

        return Call(run, arun)

    def _jobs(self, missing: Sequence[str]) -> list[_Job]:
        """The calls that embed these distinct texts."""
        if self._one_by_one:
            return [_Job([text]) for text in missing]
        batches = batches_of(missing, range(len(missing)), self._config)
        return [_Job([missing[index] for index in batch]) for batch in batches]

    def _run(self, job: _Job, seconds: float, deadline: float, *, in_threads: bool) -> Body[None]:
        """Call the model for a job, with retries until the deadline, and set the job's outcome. `in_threads`: its
        blocking function, because the connections of its async function may belong to another loop."""

        def call(left: float) -> Call:
            texts = list(job.texts)  # a model may change the list, for example put a prefix before each text
            aembed = None if in_threads or self._aembed is None else partial(self._aembed, texts)
            return self._threads.limited(partial(self._embedder.embed_queries, texts), min(left, seconds), aembed)

        try:
            job.outcome = yield from attempts(call, self._queue, deadline, self._clock, job.state)
        except Exception as error:  # noqa: BLE001 - the lexical arm does not need the embedder
            job.outcome = error

    def _record_replies(self, jobs: Sequence[_Job]) -> None:
        """Record for the circuit breaker whether the model replied in time; an error in time counts as a reply."""
        replies = [job for job in jobs if not isinstance(job.outcome, (NoneType, DeadlineExceeded, TooManyCalls))]
        if replies:
            self._breaker.succeeded()
        elif any(self._is_unanswered(job) for job in jobs):
            self._breaker.failed()
        else:  # each call was cancelled early, or was not admitted because of a rate limit
            self._breaker.abandoned()

    def _is_unanswered(self, job: _Job) -> bool:
        """Whether the job got no reply: too many calls were running, its time limit passed, or its caller cancelled it
        after REPLY_SECONDS or later."""
        if job.outcome is None and self._clock() - job.state.called_at < REPLY_SECONDS:
            return False
        return job.state.calling or isinstance(job.outcome, TooManyCalls)

    def _vectors(
        self, texts: Sequence[str], known: dict[str, Vectors], jobs: Sequence[_Job], seconds: float, dim: int
    ) -> list[QueryVector]:
        """A `QueryVector` for each text, from `known` and the outcomes of `jobs`. Caches the new vectors."""
        made: dict[str, QueryVector] = dict(known)
        for job in jobs:
            try:
                rows = _checked_rows(_outcome_of(job, seconds), len(job.texts), dim)
            except Exception as error:  # noqa: BLE001 - any error of the model
                if len(job.texts) > 1 and error is job.outcome:  # its message may quote the text of another caller
                    error = EmbedderError(type(error).__name__)
                made.update(dict.fromkeys(job.texts, error))
            else:
                own = dict(zip(job.texts, rows, strict=True))
                self._cache.put({text: row.copy() for text, row in own.items() if isinstance(row, np.ndarray)})
                made.update(own)
        return [made[text] for text in texts]


def _outcome_of(job: _Job, seconds: float) -> Any:
    """The model's reply; raises the model's error, or an EmbedderError that says why there is no reply."""
    outcome = job.outcome
    if isinstance(outcome, TooManyCalls):
        raise EmbedderError(str(outcome))
    if isinstance(outcome, DeadlineExceeded):
        last = job.state.last
        before = "" if last is None or last is outcome else f", {type(last).__name__} before"
        raise EmbedderError(f"no reply within {seconds:g} s (recall.embedder_timeout_seconds){before}")
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _jobs_of_one_text(jobs: Sequence[_Job]) -> list[_Job]:
    """A job for each text of the jobs with several texts that failed, if one of the texts may be the cause."""
    failed = [job for job in jobs if isinstance(job.outcome, Exception) and len(job.texts) > 1]
    texts = [text for job in failed if may_be_of_a_text(job.outcome) for text in job.texts]
    # With so many failures counted already, a call is repeated only after an error that is known to be temporary.
    return [_Job([text], Attempts(failures=UNKNOWN_ATTEMPTS - 1)) for text in texts]


def query_vectors(
    requests: Sequence[RecallRequest], embedder: QueryEmbedder, dim: int, traces: Sequence[RecallTrace]
) -> list[Vectors | None]:
    """For each request (V, dim) unit rows, one per probe; None: no probe has a vector, or the strategy is "text".

    The texts of probes without a vector are embedded together. If a text cannot be embedded, its probe gets the vector
    of the request's first probe, or zeros if the first probe has none, and the request's trace holds the error.

    Raises:
        InvalidVector: If a probe's own vector has another dimension than `dim`, or is not finite.
    """
    begun, loaded_before = time.perf_counter(), embedder.load_ms
    for request in requests:
        for probe in request.probes:
            _check_vector(probe.vector, dim)
    texts, seconds = _to_embed(requests, embedder)
    if texts:
        requests = _filled(requests, _embedded(embedder, texts, seconds, dim))
    milliseconds, load_ms = (time.perf_counter() - begun) * 1e3, embedder.load_ms - loaded_before
    found: list[Vectors | None] = []
    for request, trace in zip(requests, traces, strict=True):
        if request.strategy == "text":
            found.append(None)
            continue
        trace.facts["embed_ms"] = milliseconds - load_ms
        if load_ms:
            trace.facts["load_ms"] = load_ms
        found.append(_unit_rows([probe.vector for probe in request.probes], trace))
    return found


def _unit_rows(vectors: Sequence[QueryVector | None], trace: RecallTrace) -> Vectors | None:
    """The result of `query_vectors` for one request; adds the first error to the trace."""
    given = [vector for vector in vectors if isinstance(vector, np.ndarray)]
    failure = next((vector for vector in vectors if isinstance(vector, Exception)), None)
    if failure is not None:
        without = WITHOUT_FIRST if vectors[0] is failure else WITHOUT_SOME
        trace.lost("embedder", failure, without if given else WITHOUT_ALL)
    if not given:
        return None
    instead = vectors[0] if isinstance(vectors[0], np.ndarray) else np.zeros_like(given[0])
    return unit_vectors(np.stack([vector if isinstance(vector, np.ndarray) else instead for vector in vectors]))


async def with_vectors(requests: Sequence[RecallRequest], embedder: QueryEmbedder, dim: int) -> list[RecallRequest]:
    """Copies of the requests. Each probe without a vector gets one, or an exception; see `protocols.Probe`."""
    texts, seconds = _to_embed(requests, embedder)
    return _filled(requests, await embedder.aembed_each(texts, seconds, dim)) if texts else list(requests)


def with_error(requests: Sequence[RecallRequest], error: Exception) -> list[RecallRequest]:
    """Copies of the requests. Each probe without a vector gets the error in its place, so that nothing is embedded."""
    return _filled(requests, repeat(error))


def _needs_vector(request: RecallRequest, probe: Probe) -> bool:
    return probe.vector is None and request.strategy != "text"


def _to_embed(requests: Sequence[RecallRequest], embedder: QueryEmbedder) -> tuple[list[str], float]:
    """The texts of the probes that need a vector (see `Probe.typed`), and the longest time limit of the requests."""
    probes = [probe for request in requests for probe in request.probes if _needs_vector(request, probe)]
    texts = [probe.text if embedder.packaged or probe.typed is None else probe.typed for probe in probes]
    return texts, max((request.embedder_timeout_seconds for request in requests), default=0.0)


def _filled(requests: Sequence[RecallRequest], made: Iterable[QueryVector]) -> list[RecallRequest]:
    """Copies of the requests; the probes that need a vector get the vectors or errors in `made`, in order."""
    left, filled = iter(made), []
    for request in requests:
        probes = [
            replace(probe, vector=next(left)) if _needs_vector(request, probe) else probe for probe in request.probes
        ]
        filled.append(replace(request, probes=probes))
    return filled


def _embedded(embedder: QueryEmbedder, texts: Sequence[str], seconds: float, dim: int) -> Sequence[QueryVector]:
    """The result of `embed_each`; if it raises, an error for each text. For several texts the error has no message,
    because the message may quote one of them."""
    try:
        return embedder.embed_each(texts, seconds, dim)
    except Exception as error:  # noqa: BLE001 an embedder may fail in any way; the lexical arm does not need it
        return [error if len(texts) == 1 else EmbedderError(type(error).__name__)] * len(texts)


def _check_vector(vector: QueryVector | None, dim: int) -> None:
    """Raise InvalidVector if `vector` is an array, but not finite and of dimension `dim`; 0: any dimension."""
    if isinstance(vector, np.ndarray) and (
        vector.ndim != 1 or not np.isfinite(vector).all() or (dim and len(vector) != dim)
    ):
        raise InvalidVector(f"a query vector has shape {vector.shape}; expected ({dim or 'dim'},), finite")


def _checked_rows(made: Any, count: int, dim: int) -> list[QueryVector]:
    """The rows of a model's reply, with an error in place of each row of zeros, which has no direction to compare.

    Raises:
        EmbedderError: If the reply has another shape, or a number that is not finite.
    """
    rows = np.asarray(made, dtype=np.float32)
    if rows.ndim != 2 or len(rows) != count:
        raise EmbedderError(f"it gave shape {rows.shape}, expected ({count}, {dim or 'dim'})")
    if dim and rows.shape[1] != dim:
        raise EmbedderError(f"it gives vectors of dimension {rows.shape[1]}, the store holds {dim}")
    if not np.isfinite(rows).all():
        raise EmbedderError("it gave NaN or infinity")
    return [row if row.any() else EmbedderError("it gave a vector of zeros") for row in rows]
