"""Find chunks that repeat a better chunk.

Two texts are equal if they have the same words in the same order; Unicode form, case, white space, quotation marks
and punctuation at the end of a word do not count. Two texts are near if their cosine reaches a threshold and one text
is the other with plain words added: words of lower-case letters, except `LIMITING_WORDS`. Texts are never near if they
differ in digits, a word with a capital letter, a limiting word or the order of words, or if one word replaces another:
they may state different facts.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from umi_common.config import DuplicatesConfig
from umi_common.pool import Vectors
from umi_common.types import Chunk

SAME_TEXT, NEAR_DUPLICATE = "same text", "near-duplicate"
FOLDED = (SAME_TEXT, NEAR_DUPLICATE)
"""The reasons for leaving out a chunk that repeats a better one. The hit of the better chunk lists the id."""
COSINE_ROUNDING = 1e-6
"""Largest amount by which the float32 dot product of two equal unit vectors is below 1."""
QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
ENDINGS = QUOTES + ".,;:!?\u2026"
LIMITING_WORDS = (
    frozenset({"no", "not", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot"})
    | {"hardly", "barely", "scarcely", "seldom", "rarely", "only", "just", "except", "unless", "almost", "nearly"}
    | {"if", "partly", "maybe", "perhaps", "former", "formerly", "once", "future", "false", "denied", "against"}
    | {"kein", "keine", "keinen", "keiner", "keinem", "nicht", "nie", "niemals", "nur", "ohne", "fast", "bisher"}
    | {"ne", "pas", "jamais", "sans", "aucun", "aucune", "sin", "nunca", "solo", "senza", "non", "mai", "niet", "geen"}
)
"""Words that deny or limit a statement, in a few languages."""


class DuplicateFinder:
    """Compares each chunk with the better chunks added before it.

    Args:
        settings: The smallest cosine of near texts, and whether equal texts of different groups are duplicates.
        vectors: (n, dim) L2-normalised vectors of the chunks that may be added. For a chunk without a vector (all zero,
            or dim = 0), only equal texts are found.
    """

    def __init__(self, settings: DuplicatesConfig, vectors: Vectors) -> None:
        self._settings = settings
        self._vectors = vectors
        self._row_of: dict[Hashable, int] = {}
        """By words without case, and by group if equal texts of other groups are no duplicates: the row in `_kept`."""
        self._kept: defaultdict[Hashable, dict[int, tuple[str, ...]]] = defaultdict(dict)
        """By group and row: `words_as_written` of the chunks that repeat no chunk added earlier."""

    def add(self, row: int, text: str, group: Hashable = None) -> tuple[int, str] | None:
        """Add a chunk, and return which better chunk it repeats: (its row, one of `FOLDED`). None: the chunk repeats
        none, and only such chunks are compared with those added later.

        Args:
            row: The chunk's row of the vectors. Chunks are added best first, none twice.
            group: From `group_of`. Near texts of different groups are never duplicates.
        """
        words = words_as_written(text)
        caseless = tuple(word.casefold() for word in words)
        key = caseless if self._settings.across_sources else (group, caseless)
        if key in self._row_of:
            return self._row_of[key], SAME_TEXT
        kept, vector = self._kept[group], self._vectors[row]
        if kept and vector.any():
            rows = list(kept)
            near = self._vectors[rows] @ vector >= self._settings.similarity - COSINE_ROUNDING
            for other in (rows[at] for at in np.flatnonzero(near).tolist()):
                if is_near(words, kept[other]):
                    return other, NEAR_DUPLICATE
        kept[row] = words
        self._row_of[key] = row
        return None


def group_of(chunk: Chunk) -> Hashable:
    """A key made of a chunk's source, time and metadata; chunks with equal keys are in one group."""
    return (chunk.source, chunk.event_time, tuple(sorted(chunk.metadata.items())))


def words_as_written(text: str) -> tuple[str, ...]:
    """The words of a text with their case, without quotation marks around them and punctuation after them.

    Other signs stay, because "-5", "a < b" and "5 %" mean something else without them. A text of quotation marks and
    punctuation alone is one word.
    """
    text = unicodedata.normalize("NFC", text)
    words = (word.lstrip(QUOTES).rstrip(ENDINGS) for word in text.split())
    return tuple(word.replace("\u2019", "'") for word in words if word) or (text.strip(),)


def is_near(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one text is the other with plain words added: words of lower-case letters, except `LIMITING_WORDS`.

    Args:
        one, other: From `words_as_written`.
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
