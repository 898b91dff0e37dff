"""Metadata as facts that a filter can ask for: what Qdrant's own conditions blur, spelled out when a chunk is written.

Qdrant looks into lists, takes 1 and 1.0 for different values, has no order on strings and reads keys as paths. So a
point carries, beside its metadata,

    facts     a list of keywords, one for each thing that is true of a key: it exists, it equals this, it is a list with
              this item. Hashes of 8 bytes, so any key and any value will do.
    numbers   by hashed key, the values that are numbers
    texts     by hashed key, of the values that are strings the first 6 UTF-8 bytes as a number: their order, coarsely

A missing key and None leave no fact, so they are the same.
"""

from __future__ import annotations

import hashlib
import json

from umi_common.types import Metadata, MetadataValue

HASH_BYTES = 8
PREFIX_BYTES = 6
"""As many as a float64 holds exactly, for Qdrant compares ranges as such."""

EXISTS, EQUALS, HOLDS = "exists", "equals", "holds"


def fact(kind: str, key: str, value: MetadataValue = None) -> str:
    """The keyword for one thing that is true of a key; equal exactly where umi's filters call two values equal."""
    said = json.dumps([kind, key, _canonical(value)], ensure_ascii=True)
    return hashlib.blake2b(said.encode(), digest_size=HASH_BYTES).hexdigest()


def facts_of(metadata: Metadata) -> list[str]:
    """All that is true of a chunk's metadata, sorted."""
    found = set()
    for key, value in metadata.items():
        if value is None:
            continue
        found |= {fact(EXISTS, key), fact(EQUALS, key, value)}
        if isinstance(value, tuple):
            found |= {fact(HOLDS, key, item) for item in value}
    return sorted(found)


def numbers_of(metadata: Metadata) -> dict[str, float]:
    """Numbers by hashed key; as float64, so integers beyond 2^53 lose their last digits."""
    return {
        hashed(key): float(value)
        for key, value in metadata.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def texts_of(metadata: Metadata) -> dict[str, int]:
    """The order of strings, by hashed key."""
    return {hashed(key): prefix(value) for key, value in metadata.items() if isinstance(value, str)}


def hashed(key: str) -> str:
    """A key as a name that no path syntax can misread."""
    return "k" + hashlib.blake2b(key.encode(), digest_size=HASH_BYTES).hexdigest()


def prefix(text: str) -> int:
    """The first bytes as a number: never falls where the text rises."""
    return int.from_bytes(text.encode()[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0"), "big")


def _canonical(value: MetadataValue) -> object:
    """1 and 1.0 alike, True and 1 apart, lists item by item."""
    if isinstance(value, tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, bool) or value is None:
        return {"is": value}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
