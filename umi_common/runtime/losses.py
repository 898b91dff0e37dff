"""Report failed parts of a search: as a warning of the logger `umi`, once per process, or as a line below a text.

A part is anything that may fail while the search continues without it, such as the embedder or the reranker. A loss is
a `Degradation`: the part, the reason and the consequence. `Degradation.part` lists the names of the parts.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable

from umi_common.errors import UmiError
from umi_common.runtime.guards import DeadlineExceeded, TooManyCalls
from umi_common.types import Degradation

log = logging.getLogger("umi")

PAUSED = "left alone"
"""First words of a loss's reason if the part was not called because of earlier failures, for example "left alone after
repeated failures". Such a loss is not logged, because the earlier failures were."""
WARNINGS_MAX = 100
"""Largest number of warnings of one process; without a limit, reasons that differ at each search would fill the log."""
DEFAULT_ADVICE = "If it is a service, check its key and network."
"""Advice about a part that is not in `ADVICE`, for example an arm that the user added."""
STORE_ADVICE = "Call the store's verify(); if the store is on a server, check its key and network."
ADVICE = {
    **dict.fromkeys(("arms", "neighbours", "period"), STORE_ADVICE),
    "embedder": "Check its key, network and model, and that its dimension is the store's.",
    "lexical": "Call the store's repair().",
    "late_interaction": "Reinstall wordllama, or set late_interaction={'enabled': False}.",
    "rewriter": "Check the LLM's key, network and replies, or search without an LLM.",
    "relevance": "Without min_relevance, all hits are returned.",
    "references": "A store on disk: call its verify(), then repair(); on a server: check its key and network.",
    "reranker": "Check its key and network; it must give one finite score for each text.",
}
"""Advice to the user in a warning, by the name of the failed part."""
BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
"""Types of errors that a mistake in a program raises; services and disks mostly raise others. A UmiError is no bug,
although some classes of UmiError are also ValueErrors."""
FRAMES_MAX = 20
"""Largest number of calls in a logged traceback; the last calls are kept."""
_logged: dict[tuple[str, str], object] = {}
"""Part and reason of each logged warning -> an object that only the call of `warn_once` that logged it has."""


class BadReply(Exception):
    """The reply of a part, such as an arm or a reranker, has not the expected form; the message says why."""


def reason_of(error: Exception) -> str:
    """Why a part failed, in a few words. The message of the part's own error is left out: it may hold the query."""
    stated = isinstance(error, (BadReply, DeadlineExceeded, TooManyCalls))
    return str(error) if stated else f"failed with {type(error).__name__}"


def log_once(losses: Iterable[Degradation]) -> None:
    """Log a warning for each loss whose part and reason this process has not logged yet. Thread-safe.

    Losses of the part "when" are left out: nothing failed, but no chunk lies in the period that the query names.
    """
    for loss in losses:
        if loss.part != "when" and not loss.reason.startswith(PAUSED):
            warn_once(
                loss.part,
                loss.reason,
                "search without %s (%s): %s. %s Logged once; the `degraded` of each result has every loss.",
                loss.part,
                loss.reason,
                loss.consequence,
                ADVICE.get(loss.part, DEFAULT_ADVICE),
            )


def log_bug(part: str, error: Exception) -> None:
    """Log an error of a type in BUGS with its traceback; any other error is not logged.

    Called when a part fails and the search, or the run over files, continues without it. If the same line of code
    raises errors repeatedly, only the first of each part is logged.

    The traceback names files, lines and functions. It leaves out the error's message, which may hold the query, and the
    source code, which may hold a key.
    """
    if isinstance(error, BUGS) and not isinstance(error, UmiError):
        calls = traceback.extract_tb(error.__traceback__)[-FRAMES_MAX:]
        lines = [f'  File "{call.filename}", line {call.lineno}, in {call.name}' for call in calls]
        message = "%s failed with %s, which may be a bug of umi or of a function that umi was given. For a report:\n%s"
        warn_once(part, "".join(lines[-1:]), message, part, type(error).__name__, "\n".join(lines))


def warn_once(part: str, reason: str, message: str, *values: object) -> None:
    """Log a warning, unless this process has logged one for this part and reason, or WARNINGS_MAX. Thread-safe."""
    own = object()
    if len(_logged) < WARNINGS_MAX and _logged.setdefault((part, reason), own) is own:
        # `setdefault` is atomic, so of several threads with one part and reason only one gets its own object back.
        log.warning(message, *values)


def with_losses(text: str, losses: Iterable[Degradation]) -> str:
    """The text and, if parts failed, a line below it that names these parts."""
    stated = "; ".join(f"{loss.part} failed, {loss.consequence}" for loss in losses if loss.part != "when")
    return f"{text}\nNote: some texts may be missing ({stated})." if stated else text
