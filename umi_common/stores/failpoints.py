"""Named points of a write where a test may raise, kill the process or wait. Outside of tests they do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

POINTS = (
    "ledger.create",
    "ledger.insert",
    "ledger.commit",
    "ledger.committed",
    "snapshot.files",
    "snapshot.publish",
    "snapshot.published",
    "rebuild.dropped",
)
"""Names of the failpoints: of creating a ledger, of a write and of saving its indexes, in this order; then of a
rebuild."""

_armed: dict[str, Callable[[], None]] = {}


def failpoint(name: str) -> None:
    """Call the action that is armed at `name`, if any."""
    action = _armed.get(name)
    if action is not None:
        action()


@contextmanager
def armed(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Until the block ends, run `action` whenever this process passes the point `name`."""
    if name not in POINTS:
        raise KeyError(f"no failpoint {name!r}; there are {', '.join(POINTS)}")
    _armed[name] = action
    try:
        yield
    finally:
        _armed.pop(name, None)
