"""Call a model, and call it again where the failure may pass: rate limits, timeouts, an overloaded service.

    admission by the queue -> the call -> on failure a wait -> admission ...

One generator for sync and async code; `runtime.drivers` runs it.
"""

from __future__ import annotations

import re
import time
from asyncio import sleep
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from random import uniform
from typing import Any

from umi_common.errors import UmiError
from umi_common.runtime.call_queue import CallQueue
from umi_common.runtime.calls import Body, Call, CallFailure
from umi_common.runtime.guards import DeadlineExceeded, TooManyCalls

FIRST_WAIT_SECONDS = 0.1
"""Before the second attempt, less up to half of it by chance; doubled after each further failure."""
LONGEST_WAIT_SECONDS = 8.0
UNKNOWN_ATTEMPTS = 3
"""Attempts in all where neither type, status nor message says whether the failure may pass."""
TOO_MANY = 429
"""HTTP status of a rate limit."""
PASSING = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP statuses after which the same call may succeed."""
LASTING = (UmiError, TypeError, AttributeError, LookupError, NotImplementedError, ImportError, MemoryError)
"""Errors that the same call raises again."""
RATE_LIMIT_WORDS = re.compile(r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl|\b429\b", re.IGNORECASE)
PASSING_TYPES = re.compile(r"timeout|connect|unavailable|overload|internalserver", re.IGNORECASE)
"""In the name of an error's type. Messages are not searched for these, because they may hold the text."""


@dataclass(slots=True)
class Attempts:
    """What became of the attempts so far; read by the caller when its time is up."""

    failures: int = 0
    calling: bool = False
    """Whether the model is being called now, or was when the attempts were given up."""
    last: Exception | None = None
    """The error of the last attempt."""


def attempts(
    call: Callable[[float], Call], queue: CallQueue, deadline: float, clock: Callable[[], float], state: Attempts
) -> Body[Any]:
    """The result of a call of a model, of the first attempt that succeeds.

    Args:
        call: From the seconds that are left to one call of the model.
        queue: Admits each attempt.
        deadline: A moment of `clock`. No attempt begins after it.

    Raises:
        DeadlineExceeded: If the queue admitted no attempt before the deadline.
        Exception: The error of the last attempt.
    """
    arrival = clock()
    while True:
        (admission,) = yield (queue.admission(arrival, deadline),)
        if isinstance(admission, CallFailure):
            raise state.last or admission.error
        state.calling = True
        try:
            (outcome,) = yield (call(deadline - clock()),)
        finally:
            queue.leave()
        state.calling = False
        if not isinstance(outcome, CallFailure):
            queue.succeeded()
            return outcome
        state.failures += 1
        state.last = outcome.error
        seconds = _seconds_to_wait(outcome.error, state.failures)
        if seconds is None or clock() + seconds >= deadline:
            state.calling = isinstance(outcome.error, (DeadlineExceeded, TooManyCalls))
            raise outcome.error
        if is_rate_limit(outcome.error):
            queue.refused(seconds)
        if seconds:
            yield (_pause(seconds),)


def is_rate_limit(error: BaseException) -> bool:
    """Whether a service says that it was called too often."""
    return any(
        _status(each) == TOO_MANY
        or (_status(each) is None and RATE_LIMIT_WORDS.search(f"{type(each).__name__} {each}") is not None)
        for each in _causes(error)
    )


def retry_after(error: BaseException) -> float | None:
    """The seconds after which the service says it may be called again; None: it does not say."""
    for each in _causes(error):
        stated = getattr(each, "retry_after", None)
        headers = getattr(getattr(each, "response", None), "headers", None) or getattr(each, "headers", None)
        if stated is None and isinstance(headers, Mapping):
            lower = {str(name).lower(): value for name, value in headers.items()}
            stated = lower.get("retry-after")
        seconds = None if stated is None else _seconds(stated)
        if seconds is not None:
            return max(0.0, seconds)
    return None


def _seconds(stated: Any) -> float | None:
    """Seconds from a number, its text, or an HTTP date."""
    try:
        return float(stated)
    except (TypeError, ValueError):
        pass
    try:
        moment = parsedate_to_datetime(str(stated))
    except (TypeError, ValueError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (aware - datetime.now(timezone.utc)).total_seconds()


def _seconds_to_wait(error: Exception, failures: int) -> float | None:
    """Before the next attempt; None: there is none. After a rate limit without a stated pause the queue decides: 0."""
    stated = retry_after(error)
    if stated is not None or is_rate_limit(error):
        return stated or 0.0
    passing = _passes(error)
    if passing is None:
        passing = failures < UNKNOWN_ATTEMPTS
    if not passing:
        return None
    most = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** (failures - 1))
    return uniform(most / 2, most)


def _passes(error: Exception) -> bool | None:
    """Whether the same call may succeed later; None: nothing says."""
    if isinstance(error, (DeadlineExceeded, TooManyCalls)):
        return False
    for each in _causes(error):
        status = _status(each)
        if status is not None and 400 <= status < 600:
            return status in PASSING
    if isinstance(error, LASTING):
        return False
    if any(
        isinstance(each, (TimeoutError, ConnectionError)) or PASSING_TYPES.search(type(each).__name__)
        for each in _causes(error)
    ):
        return True
    return None


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error, where it has one as OpenAI's, httpx's or botocore's have."""
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (error, "http_status"), (response, "status_code"), (error, "code")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from."""
    seen = 0
    current: BaseException | None = error
    while current is not None and seen < 5:
        yield current
        current, seen = current.__cause__ or current.__context__, seen + 1


def _pause(seconds: float) -> Call:
    async def wait() -> None:
        await sleep(seconds)

    return Call(lambda: time.sleep(seconds), wait)
