"""Messages of a chat that are stored while the embedder fails: without vectors, to be embedded later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from umi_common.errors import EmbedderError
from umi_common.filters import And, Comparison, Filter
from umi_common.runtime.losses import warn_once
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

UNEMBEDDED_KEY = "unembedded"
"""Metadata key of messages without a vector, which came while the embedder failed."""
PAGE = 1_000
"""Number of chunks embedded in one call."""
STORED_UNEMBEDDED = (
    "the embedder failed (%s), so messages of a chat are stored without vectors: found by their words alone, and "
    "embedded with later messages. Logged once."
)


def add_unembedded(store: Any, chunks: Sequence[Chunk], error: EmbedderError) -> None:
    """Store chunks without vectors. `error` says why; the log tells its type once.

    Raises:
        EmbedderError: `error`, if the store is no `HybridStore`, or neither it nor the embedder knows the number of
            dimensions.
        StoreError: As `store.add`.
    """
    if not isinstance(store, HybridStore):
        raise error
    try:
        dim = store.vectors([]).shape[1] or store.embedder.dim
    except Exception:  # noqa: BLE001 - a model that embeds a text to find it out
        raise error from None
    marked = [replace(chunk, metadata={**chunk.metadata, UNEMBEDDED_KEY: True}) for chunk in chunks]
    store.add(marked, vectors=np.zeros((len(marked), dim)))
    warn_once("memory", "unembedded", STORED_UNEMBEDDED, type(error).__name__)


def embed_unembedded(store: Any, where: Filter | None = None) -> None:
    """Embed the chunks of a `HybridStore` that `add_unembedded` has stored and that pass `where`.

    Raises:
        EmbedderError, StoreError: As `store.add`; the rest stay without vectors.
    """
    if isinstance(store, HybridStore):
        marked = Comparison(UNEMBEDDED_KEY, "$eq", True)
        listing = store.listing(where=marked if where is None else And((marked, where)))
        ids = [listing.ids[row] for row in np.flatnonzero(listing.passing).tolist()]
        for start in range(0, len(ids), PAGE):
            found = store.get(ids[start : start + PAGE])
            store.add([replace(chunk, metadata=_without_mark(chunk)) for chunk in found if chunk is not None])


def _without_mark(chunk: Chunk) -> dict[str, Any]:
    return {key: value for key, value in chunk.metadata.items() if key != UNEMBEDDED_KEY}
