"""Embed documents in batches, several at a time where the model waits for a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextvars import copy_context
from functools import partial
from typing import Any

from umi_common.config import EmbedderConfig
from umi_common.embedders.attempts import Attempts, attempts
from umi_common.protocols import Embedder
from umi_common.runtime.call_queue import CallQueue
from umi_common.runtime.calls import Call
from umi_common.runtime.drivers import drive
from umi_common.runtime.workers import Workers

WAITING_SHARE = 0.5
"""A model whose call takes less processor time of its thread than this share of the call's time waits for a service."""
WAITING_SECONDS = 0.005
"""A shorter call is not worth a thread."""

OnBatch = Callable[[Sequence[int], Any], None]
"""Called in the calling thread with a batch and what the model returned for it, as soon as it is there."""


def batches_of(texts: Sequence[str], places: Sequence[int], config: EmbedderConfig) -> list[list[int]]:
    """The places in order, cut so that the texts of each batch keep to `batch_texts` and `batch_bytes`."""
    batches: list[list[int]] = []
    room = 0
    for place in places:
        size = len(texts[place].encode("utf-8", "surrogatepass"))
        if not batches or len(batches[-1]) >= config.batch_texts or size > room:
            batches.append([])
            room = config.batch_bytes
        batches[-1].append(place)
        room -= size
    return batches


def embed_batches(
    embedder: Embedder,
    texts: Sequence[str],
    batches: Sequence[Sequence[int]],
    config: EmbedderConfig,
    on_batch: OnBatch,
) -> None:
    """Call the model for each batch of places in `texts`, and `on_batch` with each result.

    One call at a time, until one call shows that the model mostly waits; then up to `document_calls` at a time. After a
    failure no further call begins; those under way end, and `on_batch` gets their results.

    Raises:
        BatchFailed: If a batch failed, after retries; the model's error is the cause.
        Exception: What `on_batch` raises.
    """
    queue = CallQueue(config.document_calls, time.monotonic)
    workers = Workers()

    def embed(batch: Sequence[int]) -> Any:
        call = Call(lambda: embedder.embed_documents([texts[place] for place in batch]))
        deadline = time.monotonic() + config.retry_seconds
        try:
            return drive(attempts(lambda _: call, queue, deadline, time.monotonic, Attempts()), workers)
        except Exception as error:
            raise BatchFailed(batch) from error

    left = iter(batches)
    for batch in left:
        begun, working = time.perf_counter(), time.thread_time()
        made = embed(batch)
        seconds, worked = time.perf_counter() - begun, time.thread_time() - working
        on_batch(batch, made)
        if config.document_calls > 1 and seconds > WAITING_SECONDS and worked < WAITING_SHARE * seconds:
            _side_by_side(embed, left, config.document_calls, on_batch)


class BatchFailed(Exception):
    """The model failed on a batch of places."""

    def __init__(self, batch: Sequence[int]) -> None:
        super().__init__(batch)
        self.batch = batch


def _side_by_side(
    embed: Callable[[Sequence[int]], Any], left: Iterator[Sequence[int]], calls_max: int, on_batch: OnBatch
) -> None:
    threads = ThreadPoolExecutor(calls_max, thread_name_prefix="umi-embed")
    running: dict[Future[Any], Sequence[int]] = {}
    failures: list[Exception] = []

    def fill() -> None:
        while len(running) < calls_max and not failures and (batch := next(left, None)) is not None:
            running[threads.submit(partial(copy_context().run, embed, batch))] = batch

    try:
        fill()
        while running:
            for future in wait_for(running, return_when=FIRST_COMPLETED).done:
                batch = running.pop(future)
                try:
                    on_batch(batch, future.result())
                except Exception as error:  # noqa: BLE001 - raised when the calls under way have ended
                    failures.append(error)
            fill()
    finally:  # also after Ctrl-C, which does not wait for the calls under way
        threads.shutdown(wait=False, cancel_futures=True)
    if failures:
        raise failures[0]
