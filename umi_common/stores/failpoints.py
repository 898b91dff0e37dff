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
"""Names of the failpoints, in the order of the steps: creating a ledger, a write, saving the indexes, a rebuild."""

_armed: dict[str, Callable[[], None]] = {}


def failpoint(name: str) -> None:
    """Call the action that `armed` has set for the point `name`, if there is one."""
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
