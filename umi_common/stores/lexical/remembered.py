"""A cache for pure functions of short strings: as fast as a dictionary, of bounded size, without locks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

LENGTH_MAX = 48
"""Longer strings are not kept: they hardly ever come twice."""


class Remembered(dict[str, Value]):
    """String -> value; a look-up is a plain `dict.__getitem__`. Safe to share: two threads at worst compute one twice.

    When it is full it starts over, and takes from the generation before what is asked for again. So what is frequent is
    never computed again, and no look-up pays for keeping an order.

    Args:
        compute: The function; it gives anything but None.
        kept: Strings in a generation, >= 1; at most twice as many are held.
    """

    def __init__(self, compute: Callable[[str], Value], kept: int) -> None:
        super().__init__()
        self._compute = compute
        self._kept = kept
        self._before: dict[str, Value] = {}

    def __missing__(self, key: str) -> Value:
        value = self._before.get(key)
        if value is None:
            value = self._compute(key)
        if len(key) <= LENGTH_MAX:
            if len(self) >= self._kept:
                self._before = self.copy()
                self.clear()
            self[key] = value
        return value
