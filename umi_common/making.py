"""Frozen dataclasses by the dozen, at half the price of their constructors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, make_dataclass
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Maker(Generic[T]):
    """Makes instances of a frozen dataclass with slots from fields that are right already; `__post_init__` is not run.

    A frozen class sets each field by a call. A class with the same slots that is not frozen just sets them, and what it
    has made may then be given the frozen class: Python allows that where the slots are the same.
    """

    def __init__(self, frozen: type[T]) -> None:
        self._frozen = frozen
        names = [each.name for each in fields(cast("Any", frozen))]
        self._open: Any = make_dataclass(frozen.__name__, names, repr=False, eq=False, match_args=False, slots=True)

    def __call__(self, *values: object) -> T:
        """One, of a value for each field in their order."""
        made: T = self._open(*values)
        made.__class__ = self._frozen
        return made

    def many(self, *columns: Iterable[object]) -> list[T]:
        """As many as the shortest column has values, of a column for each field."""
        made: list[T] = list(map(self._open, *columns))
        for each in made:
            each.__class__ = self._frozen
        return made
