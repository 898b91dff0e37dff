"""What passes between the ledger and a search: one moment of a store, and what a write changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from umi_common.pool import Vectors
from umi_common.stores.ledger.codec import Head
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.rows.rows import Mask, Rows

if TYPE_CHECKING:
    from umi_common.stores.embedded.by_row import ByRow


@dataclass(frozen=True, slots=True)
class State:
    """One moment of a store."""

    mark: Mark
    rows: Rows
    vectors: Vectors
    """(n, dim) unit rows, or zeros; (n, 0) in a store that never held a chunk."""
    present: Mask | None
    """(n,) rows whose vector is not zeros; None: all."""
    lexical: LexicalIndex
    lexical_fault: str | None
    by_row: ByRow
    """What these row numbers mean; may hold later rows, too."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit did, or several."""

    mark: Mark
    dead: Sequence[int]
    """Ledger numbers."""
    heads: Sequence[Head]
    texts: Sequence[str]
    metadata: Sequence[str]
    """JSON."""
    vectors: Vectors
