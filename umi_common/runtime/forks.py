"""New locks and threads in a process made by `os.fork`, and a cached property without a lock.

A child has copies of its parent's locks, but not the threads that would release them.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):
        """`functools.cached_property` without its lock, as from Python 3.12 on.

        All instances of a class share that lock. If a thread held it at the fork, the property would hang in the child.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


_OWNERS: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def renew_in_child(owner: T, renew: Callable[[T], None]) -> None:
    """Call `renew(owner)` now and at the start of each forked process; a later call for the owner replaces this one."""
    renew(owner)
    _OWNERS[owner] = renew


def give_lock(owner: Any) -> None:
    """Set `owner._lock` to a new lock, now and in each forked child."""
    renew_in_child(owner, lambda each: setattr(each, "_lock", threading.Lock()))


def _renew_all() -> None:
    for owner, renew in list(_OWNERS.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_renew_all)
