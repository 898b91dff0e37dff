"""A small store whose embedder is a hash of words, so that every number can be computed by hand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from umi_common.protocols import Probe
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
TEXTS = ["the red boat", "a blue boat", "red sails at night", "nothing of the kind", "night train to the coast"]


def chunks() -> list[Chunk]:
    """Five turns of one chat, an hour apart, said by two users in turn."""
    return [
        Chunk(
            f"t{place}",
            text,
            metadata={"user": "ann" if place % 2 == 0 else "bob", "turn": place},
            source="chat",
            position=10 * place,
            event_time=NOW - timedelta(hours=5 - place),
        )
        for place, text in enumerate(TEXTS)
    ]


def search(store: HybridStore, *texts: str, depth: int = 10, **options):
    """`store.recall` with defaults for depth and time."""
    return store.recall([Probe(text) for text in texts], depth=depth, now=options.pop("now", NOW), **options)
