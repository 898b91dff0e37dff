"""All chunks, a page at a time, in the order of their ids: what a copy, a check or an export walks along."""

from __future__ import annotations

from typing import Any

from umi_common.errors import InputError, InvalidLimit
from umi_common.filters import Filter, to_sql
from umi_common.stores.ledger.codec import Entry, decode
from umi_common.stores.ledger.integrity import check_id_index
from umi_common.stores.ledger.ledger import ENTRY_COLUMNS, Ledger
from umi_common.types import Chunk


def scan(ledger: Ledger, where: Filter | None, after: str | None, limit: int) -> list[Chunk]:
    """One page from the index of ids, so its cost does not grow with the store; see `protocols.Store.scan`.

    SQLite compares UTF-8 bytes, which is the order of code points and so of Python's strings. The page that is not
    full ends a walk: there the index is compared with all rows, because an index with a damaged page finds fewer rows
    and says nothing.

    Raises:
        InvalidLimit: If `limit` is below 1.
        InputError: If `after` is no text that an id could be compared with.
        LedgerDamaged: If a row is not what was written, or, at the end of a walk, if the index of ids has lost rows.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidLimit(f"limit is {limit!r}; expected a whole number above 0, the chunks of one page")
    condition, parameters = ("1", []) if where is None else to_sql(where)
    sql = f"SELECT {ENTRY_COLUMNS} FROM chunks WHERE id > ? AND {condition} ORDER BY id LIMIT ?"
    rows = ledger.steady(lambda: _page(ledger, sql, (_checked(after), *parameters, limit)))
    return [decode(Entry(*row)) for row in rows]


def _page(ledger: Ledger, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
    """Rows; `parameters` end with the most there may be."""
    with ledger.snapshot() as connection:
        rows = connection.execute(sql, parameters).fetchall()
        if len(rows) < parameters[-1]:
            check_id_index(ledger, connection)
    return rows


def _checked(after: str | None) -> str:
    """No id is the empty text, so all are greater."""
    if after is None:
        return ""
    try:
        after.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise InputError(f"after is {after!r:.80}; expected the last id of the page before, or None") from error
    return after
