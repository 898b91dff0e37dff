"""Store messages of a chat without vectors while the embedder fails, and embed them later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from umi_common.errors import EmbedderError
from umi_common.filters import And, Comparison, Filter
from umi_common.protocols import pages
from umi_common.runtime.losses import warn_once
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

UNEMBEDDED_KEY = "unembedded"
"""Metadata key; True for a message that has no vector yet."""
STORED_UNEMBEDDED = (
    "the embedder failed (%s), so messages of a chat are stored without vectors: until they are embedded together with "
    "later messages, only BM25 finds them. Logged once."
)


def add_unembedded(store: Any, chunks: Sequence[Chunk], error: EmbedderError) -> None:
    """Store chunks without vectors, and log a warning, once.

    Args:
        store: A `HybridStore`.
        error: The error of the embedder.

    Raises:
        EmbedderError: `error`, if the store is no `HybridStore`, or if neither the store nor its embedder knows the
            dimension of the vectors.
        StoreError: As `store.add`.
    """
    if not isinstance(store, HybridStore):
        raise error
    try:
        dim = store.vectors([]).shape[1] or store.embedder.dim  # an empty store does not know its dimension
    except Exception:  # noqa: BLE001 - the embedder may call the failing model to find its dimension
        raise error from None
    marked = [replace(chunk, metadata={**chunk.metadata, UNEMBEDDED_KEY: True}) for chunk in chunks]
    store.add(marked, vectors=np.zeros((len(marked), dim)))  # a row of zeros means: no vector
    warn_once("memory", "unembedded", STORED_UNEMBEDDED, type(error).__name__)


def embed_unembedded(store: Any, where: Filter | None = None) -> None:
    """Embed the chunks that `add_unembedded` has stored in a `HybridStore`; does nothing for any other store.

    Args:
        store: Any store.
        where: Only chunks that pass this filter are embedded; None: all.

    Raises:
        EmbedderError, StoreError: As `store.add`; the chunks not yet embedded stay without vectors.
    """
    if isinstance(store, HybridStore):
        marked = Comparison(UNEMBEDDED_KEY, "$eq", True)
        # `add` removes marks while pages are read. No chunk is skipped: each page begins after the last id before it.
        for page in pages(store, where=marked if where is None else And((marked, where))):
            store.add(list(map(_unmarked, page)))


def _unmarked(chunk: Chunk) -> Chunk:
    metadata = {key: value for key, value in chunk.metadata.items() if key != UNEMBEDDED_KEY}
    return replace(chunk, metadata=metadata)
