"""Scopes: a filter for the chunks that a caller may see, which later filters can only narrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from umi_common.errors import FilterError
from umi_common.filters.parse import parse_filter
from umi_common.filters.tree import And, Comparison, Filter, all_of, shown


@dataclass(frozen=True, slots=True)
class Scope:
    """A filter that every filter of a search is added to. `scope` makes that of a user; `EVERYTHING` has none."""

    where: Filter | None
    """The filter that a chunk must pass to be visible; None: every chunk is."""

    def narrow(self, where: object = None) -> Filter | None:
        """The filter for chunks that pass this scope and `where` (any spelling of a filter).

        Raises:
            FilterError: As `parse_filter`.
        """
        asked = parse_filter(where)
        if self.where is None or asked is None:
            return self.where if asked is None else asked
        return And((self.where, asked))


EVERYTHING: Final = Scope(None)
"""The chunks of all users. `scope(user=None)` raises FilterError, so that a lost user id does not mean everybody."""


def scope(*, user: str, session: str | None = None, **more: str | int) -> Scope:
    """The chunks whose metadata holds exactly these values. Scores still use counts of the whole store
    (docs/tenants.md).

    Args:
        user: Value of metadata "user"; not empty.
        session: Value of metadata "session"; None: all sessions of the user.
        more: Further keys and values, all required: scope(user="ann", tenant="acme").

    Raises:
        FilterError: If a value is None or empty: a lost user id must not give access to all chunks.
    """
    asked: dict[str, object] = {"user": user, **more}
    if session is not None:
        asked["session"] = session
    for key, value in asked.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise FilterError(
                f"scope {key}={shown(value)}: expected a non-empty string or a whole number; for all users "
                "use EVERYTHING"
            )
    return Scope(all_of([Comparison(key, "$eq", value) for key, value in asked.items()]))  # type: ignore[arg-type]


def narrow(within: Scope, where: object = None) -> Filter | None:
    """The filter for chunks that pass a scope and `where`; see `Scope.narrow`."""
    return within.narrow(where)
