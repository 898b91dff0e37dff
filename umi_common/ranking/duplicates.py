"""Find chunks that repeat a better one. Pure.

Two texts are equal if their words are, in the same order: Unicode form, case, white space, quotation marks and
punctuation at the end of a word aside. Two texts are near if their cosine reaches a threshold and one is the other with
plain words added. Another number, name, negation or word order is another fact, so is a word in place of another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from umi_common.config import DuplicatesConfig
from umi_common.pool import Vectors
from umi_common.types import Chunk

SAME_TEXT, NEAR_DUPLICATE = "same text", "near-duplicate"
FOLDED = (SAME_TEXT, NEAR_DUPLICATE)
"""Reasons for which a chunk is folded into a better one."""
ROUNDING = 1e-6
"""Cosine by which float32 dot products of equal vectors may fall short of 1."""
QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
ENDINGS = QUOTES + ".,;:!?\u2026"
LIMITING_WORDS = (
    frozenset({"no", "not", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot"})
    | {"hardly", "barely", "scarcely", "seldom", "rarely", "only", "just", "except", "unless", "almost", "nearly"}
    | {"if", "partly", "maybe", "perhaps", "former", "formerly", "once", "future", "false", "denied", "against"}
    | {"kein", "keine", "keinen", "keiner", "keinem", "nicht", "nie", "niemals", "nur", "ohne", "fast", "bisher"}
    | {"ne", "pas", "jamais", "sans", "aucun", "aucune", "sin", "nunca", "solo", "senza", "non", "mai", "niet", "geen"}
)
"""Words that deny or limit what a text says, in a few languages."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Which better chunk a chunk repeats, and how."""

    id: str
    """Of the better chunk."""
    reason: str
    """One of `FOLDED`."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    id: str
    words: tuple[str, ...]
    """As they are written."""
    vector: Vectors


class DuplicateFinder:
    """Compares each chunk with the better ones before it.

    Args:
        settings: The threshold, and whether equal texts of different places count as duplicates.
    """

    def __init__(self, settings: DuplicatesConfig) -> None:
        self._settings = settings
        self._ids: dict[Hashable, str] = {}
        self._kept: dict[Hashable, list[_Kept]] = {}

    def add(self, id: str, text: str, vector: Vectors, place: Hashable = None) -> Repeat | None:
        """The better chunk that this one repeats; None: it repeats none, and later ones are compared with it.

        Args:
            id: Unique; chunks are added best first.
            text: Its text.
            vector: (dim,) L2-normalised; all zero or of dimension 0: only equal texts are found.
            place: `place_of` the chunk. Near texts of different places are never duplicates.
        """
        words = words_as_written(text)
        folded = tuple(word.casefold() for word in words)
        same = self._ids.setdefault(folded if self._settings.across_sources else (place, folded), id)
        if same != id:
            return Repeat(same, SAME_TEXT)
        neighbours = self._kept.setdefault(place, [])
        for other in self._alike(neighbours, vector):
            if is_near(words, other.words):
                return Repeat(other.id, NEAR_DUPLICATE)
        neighbours.append(_Kept(id, words, vector))
        return None

    def _alike(self, kept: Sequence[_Kept], vector: Vectors) -> list[_Kept]:
        """Those whose cosine reaches the threshold, best first."""
        if not kept or not vector.any():
            return []
        cosines = np.stack([other.vector for other in kept]) @ vector
        return [kept[row] for row in np.flatnonzero(cosines >= self._settings.similarity - ROUNDING).tolist()]


def place_of(chunk: Chunk) -> Hashable:
    """Where and when a chunk was said: its source, time and metadata. Chunks of one place have equal values."""
    return (chunk.source, chunk.event_time, tuple(sorted(chunk.metadata.items())))


def words_as_written(text: str) -> tuple[str, ...]:
    """The words of a text as written, without quotation marks and punctuation at their end; all of it if none is left.

    Other signs stay, because "-5", "a < b" and "5 %" say something else without them.
    """
    text = unicodedata.normalize("NFC", text)
    words = (word.lstrip(QUOTES).rstrip(ENDINGS) for word in text.split())
    return tuple(word.replace("\u2019", "'") for word in words if word) or (text.strip(),)


def is_near(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one text is the other with words added that are lower-case, without a digit, and deny or limit nothing.

    Args:
        one: Its `words_as_written`.
        other: Likewise.
    """
    shorter, longer = sorted((one, other), key=len)
    rest = iter(shorter)
    awaited = next(rest, None)
    added: list[str] = []
    for word in longer:
        if awaited is not None and word.casefold() == awaited.casefold():
            awaited = next(rest, None)
        else:
            added.append(word)
    return awaited is None and all(word.isalpha() and word.islower() and word not in LIMITING_WORDS for word in added)
