"""Tell people once what searches go without: warnings of the logger `umi`, and a line under a text."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from umi_common.types import Degradation

log = logging.getLogger("umi")

PAUSED = "left alone"
"""A reason begins so while calls pause after failures, which were logged themselves."""
CAUSES_MAX = 100
"""Different warnings of one process: reasons that differ at each search must not fill a log."""
ADVICE = {
    "embedder": "Check its key, network and model, and that its dimension is the store's.",
    "lexical": "Call the store's repair().",
    "late_interaction": "Reinstall wordllama, or set late_interaction={'enabled': False}.",
    "rewriter": "Check the LLM's key and network, or search without an LLM.",
    "references": "Call the store's verify(), then repair().",
    "reranker": "Check its key and network; it must give one finite score for each text.",
}
_logged: dict[tuple[str, str], object] = {}


def log_once(losses: Iterable[Degradation]) -> None:
    """Log a warning for each loss whose part and reason were not logged by this process yet. Thread-safe.

    Nothing is logged of a period in the query that no chunk lies in ("when"): no part failed.
    """
    for loss in losses:
        own = object()
        if loss.part == "when" or loss.reason.startswith(PAUSED) or len(_logged) >= CAUSES_MAX:
            continue
        if _logged.setdefault((loss.part, loss.reason), own) is own:  # atomic, unlike a look and a write
            log.warning(
                "search without %s (%s): %s. %s Logged once; each result's `degraded` says it.",
                loss.part,
                loss.reason,
                loss.consequence,
                ADVICE.get(loss.part, "Check its key and network."),
            )


def with_losses(text: str, losses: Iterable[Degradation]) -> str:
    """The text, and under it, where a part failed, a line that tells its reader, a model for example."""
    stated = "; ".join(f"{loss.part} failed, {loss.consequence}" for loss in losses if loss.part != "when")
    return f"{text}\nNote: some texts may be missing ({stated})." if stated else text
