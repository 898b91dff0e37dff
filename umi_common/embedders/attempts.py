"""Call a model, and retry after failures that may be temporary: rate limits, timeouts, an overloaded service.

    admission by the queue -> the call -> on failure a wait -> admission ...

`attempts` is a generator, which the drivers of `runtime.calls` run for sync and for async code.
"""

from __future__ import annotations

import re
import time
from asyncio import sleep
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from random import uniform
from typing import Any

from umi_common.errors import UmiError
from umi_common.runtime.call_queue import CallQueue
from umi_common.runtime.calls import Body, Call, CallFailure
from umi_common.runtime.guards import DeadlineExceeded, TooManyCalls

FIRST_WAIT_SECONDS = 0.1
"""Longest wait before the second attempt, in seconds. This limit doubles after each further failure. The wait is a
random number between half of the limit and the limit."""
LONGEST_WAIT_SECONDS = 8.0
"""Longest wait before any attempt, in seconds, unless the service asked for a longer one."""
UNKNOWN_ATTEMPTS = 3
"""Number of attempts if neither type, status nor message of the error shows whether the failure is temporary."""
TEMPORARY = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP statuses of failures after which a repeated call may succeed."""
NOT_ABOUT_TEXT = frozenset({401, 402, 403, 404})
"""HTTP statuses about the key, the account or the model's name: such a call fails with every text."""
PERMANENT = (UmiError, TypeError, AttributeError, LookupError, NotImplementedError, ImportError, MemoryError)
"""Types of errors that the same call would raise again."""
RATE_LIMIT_WORDS = re.compile(r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl|\b429\b", re.IGNORECASE)
"""Searched in the name of an error's type and in its message."""
TEMPORARY_TYPES = re.compile(r"timeout|connect|unavailable|overload|internalserver", re.IGNORECASE)
"""Searched only in the name of an error's type, because the message may hold the embedded text."""

OnRetry = Callable[[Exception, float], None]
"""Called with an attempt's error and the seconds from the start of the first attempt to the start of the next."""


@dataclass(slots=True)
class Attempts:
    """Progress of `attempts`, for a caller whose time limit is reached before `attempts` returns."""

    failures: int = 0
    """Number of attempts that failed."""
    calling: bool = False
    """Whether a call of the model is running, or was running when `attempts` raised."""
    called_at: float = 0.0
    """Time on the clock, in seconds, at which the last call began."""
    last: Exception | None = None
    """The error of the last attempt."""


def attempts(
    call: Callable[[float], Call],
    queue: CallQueue,
    deadline: float,
    clock: Callable[[], float],
    state: Attempts,
    on_retry: OnRetry | None = None,
) -> Body[Any]:
    """The result of the first attempt that succeeds.

    Args:
        call: Function from the seconds that are left before the deadline to the call of the model.
        queue: Admits each attempt.
        deadline: Time on `clock`, in seconds. No attempt begins after it.
        clock: Returns monotonic seconds.
        state: Changed in place as the attempts proceed.
        on_retry: Called after each failure that is followed by a further attempt.

    Raises:
        DeadlineExceeded: If the queue admitted no attempt before the deadline.
        Exception: The error of the last attempt.
    """
    arrival = clock()
    while True:
        with queue.ticket(arrival) as ticket:  # a cancellation leaves the block, too, and so ends the ticket
            if not ticket.done():
                (admission,) = yield (queue.admission(ticket, deadline),)
                if isinstance(admission, CallFailure):
                    raise state.last or admission.error
            state.calling, state.called_at = True, clock()
            (outcome,) = yield (call(deadline - clock()),)
        state.calling = False
        if not isinstance(outcome, CallFailure):
            queue.succeeded(ticket)
            return outcome
        state.failures += 1
        state.last = outcome.error
        seconds = _seconds_to_wait(outcome.error, state.failures)
        if seconds is None or clock() + seconds >= deadline:
            state.calling = isinstance(outcome.error, (DeadlineExceeded, TooManyCalls))
            raise outcome.error
        if on_retry is not None:
            on_retry(outcome.error, clock() - arrival + seconds)
        if is_rate_limit(outcome.error):
            queue.refused(ticket, seconds)  # the queue then delays the next attempt
        elif seconds:
            yield (Call(partial(time.sleep, seconds), partial(sleep, seconds)),)


def kind_of(error: BaseException) -> str:
    """A model's error for the log: its type, its HTTP status and the operating system's message.

    The error's own message is left out, because it may contain the texts that were to be embedded. Example:
    "APIConnectionError, Connection refused".
    """
    status = next((f"HTTP {status}" for each in _causes(error) if (status := _status(each)) is not None), None)
    system = next((e.strerror for e in _causes(error) if isinstance(e, OSError) and e.strerror), None)
    return ", ".join(filter(None, (type(error).__name__, status, system)))


def is_rate_limit(error: BaseException) -> bool:
    """Whether the error, or one of its causes, says that the service was called too often."""
    return any(
        _status(each) == HTTPStatus.TOO_MANY_REQUESTS
        or (
            _status(each) is None
            and not isinstance(each, PERMANENT)  # KeyError("429"): a token, not a status
            and RATE_LIMIT_WORDS.search(f"{type(each).__name__} {each}") is not None
        )
        for each in _causes(error)
    )


def may_be_of_a_text(error: Exception) -> bool:
    """Whether one of the texts may be the cause of the error of a call for several texts.

    False for a temporary error, and for one about the time limit, the caller's key, the model's name, memory, or a bug
    or missing import in the model's code.
    """
    if isinstance(error, (DeadlineExceeded, TooManyCalls, AttributeError, ImportError, MemoryError)):
        return False
    if any(_status(each) in NOT_ABOUT_TEXT for each in _causes(error)):
        return False
    return not (is_rate_limit(error) or _is_temporary(error))


def retry_after(error: BaseException) -> float | None:
    """The seconds after which the service allows another call; None: the error does not state them."""
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
    """Seconds from a number, a number as text, or an HTTP date; None: `stated` is none of these."""
    with suppress(TypeError, ValueError):
        return float(stated)
    with suppress(TypeError, ValueError):
        moment = parsedate_to_datetime(str(stated))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return (aware - datetime.now(timezone.utc)).total_seconds()
    return None


def _seconds_to_wait(error: Exception, failures: int) -> float | None:
    """Seconds to wait before the next attempt; None: no further attempt.

    0 after a rate limit whose error states no seconds: the queue delays the next call.
    """
    stated = retry_after(error)
    if stated or is_rate_limit(error):
        return stated or 0.0
    temporary = _is_temporary(error)
    if temporary is None:
        temporary = failures < UNKNOWN_ATTEMPTS
    if not temporary:
        return None
    most = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** (failures - 1))
    return uniform(most / 2, most)


def _is_temporary(error: Exception) -> bool | None:
    """Whether a repeated call may succeed; None: the error does not show it."""
    if isinstance(error, (DeadlineExceeded, TooManyCalls)):
        return False
    for each in _causes(error):
        status = _status(each)
        if status is not None and 400 <= status < 600:
            return status in TEMPORARY
    if isinstance(error, PERMANENT):
        return False
    stated = (isinstance(each, (TimeoutError, ConnectionError)) for each in _causes(error))
    named = (TEMPORARY_TYPES.search(type(each).__name__) for each in _causes(error))
    return True if any(stated) or any(named) else None


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error of OpenAI's, httpx's or a similar client; None: it has none."""
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (error, "http_status"), (response, "status_code"), (error, "code")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(5):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__
