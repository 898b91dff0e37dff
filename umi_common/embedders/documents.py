"""Embed documents in batches; several calls at a time if the model is a service."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import partial
from threading import Event, Timer
from typing import Any

from umi_common.config import EmbedderConfig
from umi_common.embedders.attempts import Attempts, attempts, kind_of
from umi_common.errors import UmiError
from umi_common.protocols import Embedder
from umi_common.runtime.call_queue import CallQueue
from umi_common.runtime.calls import Call, drive
from umi_common.runtime.guards import ThreadLimiter, TooManyCalls
from umi_common.runtime.losses import warn_once
from umi_common.runtime.workers import Workers

PROCESSOR_SHARE_MAX = 0.5
"""A model counts as a service if the calling thread uses the processor for less than this share of a call's time."""
THREADS_FROM_SECONDS = 0.005
"""Shortest call, in seconds, for which threads are used. Starting a thread takes longer than a shorter call."""
REPORT_AFTER_SECONDS = 1.0
"""Seconds of retrying after which `embed_batches` reports failures; most batches succeed before that."""
SLOW_SECONDS = 5.0
"""Seconds after which the log says that a call still runs. Most services reply within one second."""

log = logging.getLogger("umi")

OnBatch = Callable[[Sequence[int], Any], None]
"""Called once for each batch, with the batch and the model's result, in the thread that called `embed_batches`."""


def batches_of(texts: Sequence[str], indices: Sequence[int], config: EmbedderConfig) -> list[list[int]]:
    """Split `indices`, which are indices of `texts`, into batches, in order.

    A batch has at most `batch_texts` texts and `batch_bytes` UTF-8 bytes. A longer text is a batch of its own.
    """
    batches: list[list[int]] = []
    room = 0
    for index in indices:
        size = len(texts[index].encode("utf-8", "surrogatepass"))
        if not batches or len(batches[-1]) >= config.batch_texts or size > room:
            batches.append([])
            room = config.batch_bytes
        batches[-1].append(index)
        room -= size
    return batches


def embed_batches(
    embedder: Embedder,
    texts: Sequence[str],
    batches: Sequence[Sequence[int]],
    config: EmbedderConfig,
    on_batch: OnBatch,
    on_trouble: Callable[[str], None],
) -> None:
    """Call the model for each batch, a list of indices of `texts`, and `on_batch` with each result.

    Calls are made one at a time until a call shows that the model is a service; then up to `document_calls` at a time.
    After a batch has failed, no further batch begins. The running batches are retried to their end, and `on_batch` gets
    their results. After Ctrl-C the running calls are neither awaited nor retried.

    If a batch is retried for longer than a second, one warning is logged, and `on_trouble` is called at each failure
    with a text that names it, in the thread of the call.

    Raises:
        BatchFailed: If a batch failed, after retries; the model's error is the cause.
        Exception: An error of `on_batch`, or an UmiError of the model.
    """
    queue = CallQueue(config.document_calls, time.monotonic)
    workers = Workers()
    ended = Event()
    warning_left = iter([True])  # only one next() gets True, even if several threads fail at once

    def on_retry(error: Exception, seconds: float) -> None:
        if ended.is_set():  # after Ctrl-C, this ends the retries
            raise error
        if seconds < REPORT_AFTER_SECONDS:
            return
        on_trouble(f"retrying after {kind_of(error)}")
        if next(warning_left, False):
            log.warning(
                "embedder %r fails (%s); each batch of texts is retried for up to %g s (embedder.retry_seconds), "
                "then EmbedderError is raised",
                embedder.name,
                kind_of(error),
                config.retry_seconds,
            )

    def embed(batch: Sequence[int]) -> Any:
        """The vectors, and whether the call that made them shows that the model is a service."""
        call = Call(partial(_measured, embedder, [texts[index] for index in batch]))
        deadline = time.monotonic() + config.retry_seconds
        try:
            return drive(attempts(lambda _: call, queue, deadline, time.monotonic, Attempts(), on_retry), workers)
        except UmiError:
            raise
        except Exception as error:
            raise BatchFailed(batch) from error

    left = iter(batches)
    try:
        for batch in left:
            vectors, is_service = embed(batch)
            on_batch(batch, vectors)
            if config.document_calls > 1 and is_service:
                _in_threads(embed, left, config.document_calls, on_batch)  # empties `left`, so the loop ends
    finally:
        ended.set()


def _measured(embedder: Embedder, texts: Sequence[str]) -> tuple[Any, bool]:
    """The model's vectors, and whether the call took long while this thread hardly used the processor."""
    begun, processor_begun = time.perf_counter(), time.thread_time()
    vectors = documents_embedded(embedder, texts)
    seconds, processor_seconds = time.perf_counter() - begun, time.thread_time() - processor_begun
    return vectors, seconds > THREADS_FROM_SECONDS and processor_seconds < PROCESSOR_SHARE_MAX * seconds


def documents_embedded(embedder: Embedder, texts: Sequence[str]) -> Any:
    """The model's vectors of the texts, unchecked. If the call takes longer than `SLOW_SECONDS`, a warning is logged.

    A process logs this warning once per model name. It logs none for a model with `in_place`, which is no service.
    """
    if getattr(embedder, "in_place", False):
        return embedder.embed_documents(texts)
    message = (
        "embedder %r: a call for %d texts has taken %g s and still runs. umi sets no time limit for it: set the "
        "timeout in the client of a service; for a slow model on this machine, lower embedder.batch_texts"
    )
    name = embedder.name
    timer = Timer(SLOW_SECONDS, warn_once, ("embedder", f"slow: {name}", message, name, len(texts), SLOW_SECONDS))
    timer.daemon = True
    try:
        with suppress(RuntimeError):  # if the process cannot start a thread, no warning is logged
            timer.start()
        return embedder.embed_documents(texts)
    finally:
        timer.cancel()


class BatchFailed(Exception):
    """The model failed on a batch, a list of indices of the texts."""

    def __init__(self, batch: Sequence[int]) -> None:
        super().__init__(batch)
        self.batch = batch


def _in_threads(
    embed: Callable[[Sequence[int]], Any], left: Iterator[Sequence[int]], calls_max: int, on_batch: OnBatch
) -> None:
    """Embed the batches that are left, `calls_max` at a time; see `embed_batches`."""
    threads = ThreadLimiter(calls_max)  # of daemon threads: the process can end while they run
    running: dict[Future[Any], Sequence[int]] = {}
    failures: list[Exception] = []

    def fill() -> None:
        while len(running) < calls_max and not failures and (batch := next(left, None)) is not None:
            try:
                running[threads.submit(embed, batch)] = batch
            except TooManyCalls:  # the process cannot start another thread: embed the batch in this one
                take(batch, partial(embed, batch))

    def take(batch: Sequence[int], embedded: Callable[[], Any]) -> None:
        try:
            on_batch(batch, embedded()[0])
        except Exception as error:  # noqa: BLE001 - raised below, when the running calls have ended
            failures.append(error)

    fill()
    while running:
        for future in wait_for(running, return_when=FIRST_COMPLETED).done:
            take(running.pop(future), future.result)
        fill()
    if failures:
        raise failures[0]
