"""What passes between the ledger and a search: one moment of a store, and what a write changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from umi_common.pool import Vectors
from umi_common.store.codec import Head
from umi_common.store.id_order import IdOrder
from umi_common.store.ledger import Mark
from umi_common.store.lexical import PostingsIndex
from umi_common.store.quantised import QuantisedRows
from umi_common.store.rows import Mask, Rows


@dataclass(frozen=True, slots=True)
class State:
    """One moment of a store."""

    mark: Mark
    rows: Rows
    vectors: Vectors
    """(n, dim) unit rows, or zeros; (n, 0) in a store that never held a chunk."""
    present: Mask | None
    """(n,) rows whose vector is not zeros; None: all."""
    quantised: QuantisedRows
    """Codes of the vectors, made when they are needed."""
    id_order: IdOrder
    lexical: PostingsIndex
    lexical_fault: str | None


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
