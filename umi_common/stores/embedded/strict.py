"""Search by words alone that would rather fail than be answered by meaning; `recall` is the lenient way."""

from __future__ import annotations

import time

from umi_common.errors import IndexUnavailable, InvalidLimit
from umi_common.filters import Filter
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.state import State

PAUSES = (0.05, 0.1)
"""Seconds before each new attempt: another thread may be repairing the index."""


def search_lexical(core: Core, query: str, *, k: int, where: Filter | None, timeout: float) -> list[tuple[str, float]]:
    """See `HybridStore.search_lexical`."""
    if k < 1:
        raise InvalidLimit(f"k is {k}; expected at least 1")
    deadline = time.monotonic() + timeout
    for pause in (*PAUSES, None):
        core.ready()
        state = core.indexes.state
        if state.lexical_fault is None:
            return _search(core, state, query, k, where)
        if pause is None or time.monotonic() + pause > deadline:
            break
        time.sleep(pause)
    raise IndexUnavailable(f"the lexical index cannot answer ({state.lexical_fault}); repair() brings it back")


def _search(core: Core, state: State, query: str, k: int, where: Filter | None) -> list[tuple[str, float]]:
    if not len(state.lexical):
        raise IndexUnavailable("the lexical index is empty; add chunks first")
    ids = state.rows.ids
    (found,) = state.lexical.search(
        [query], k=k, config=core.config.lexical, allowed=state.by_row.mask(state, where, None), id_of=ids.__getitem__
    )
    return [(ids[row], score) for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True)]
