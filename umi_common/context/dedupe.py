"""The same thing said twice is shown once: by text, by vectors, by words. The better one stays.

Ranges of one source that overlap are no duplicates: `stitch` shows what they share once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from umi_common.context.pieces import Piece
from umi_common.pool import Vectors

WORDS = re.compile(r"\w+")


class Seen:
    """The pieces that are in, asked one by one whether they already say what a further piece says.

    Args:
        cosine: Vectors at least this alike: the same.
        words: Sets of words with at least this Jaccard similarity, and the same words with digits: the same.
        vectors: (dim,) by chunk id, of any length; chunks without one are compared by words.
    """

    def __init__(self, *, cosine: float, words: float, vectors: Mapping[str, Any] | None = None) -> None:
        self._cosine = cosine
        self._words = words
        self._given = {} if vectors is None else vectors
        self._texts: dict[str, str] = {}
        self._vectors: list[tuple[str, Vectors]] = []
        self._bags: list[tuple[str, frozenset[str]]] = []

    def same_text(self, piece: Piece) -> str | None:
        """The id of the piece with this very text, white space aside."""
        twin = self._texts.get(_plain(piece.chunk.text))
        return None if twin == piece.chunk.id else twin

    def alike(self, piece: Piece) -> str | None:
        """The id of the first piece that says nearly this, in the order in which they were added."""
        vector = self._unit(piece.chunk.id)
        if vector is not None:
            for id, other in self._vectors:
                if id != piece.chunk.id and len(other) == len(vector) and float(other @ vector) >= self._cosine:
                    return id
        bag = _bag(piece.chunk.text)
        for id, words in self._bags:
            compared = vector is not None and id in self._given
            if not compared and id != piece.chunk.id and _same_words(bag, words, self._words):
                return id
        return None

    def add(self, piece: Piece) -> None:
        """Remember a piece."""
        id, text = piece.chunk.id, piece.chunk.text
        self._texts.setdefault(_plain(text), id)
        self._bags.append((id, _bag(text)))
        vector = self._unit(id)
        if vector is not None:
            self._vectors.append((id, vector))

    def _unit(self, id: str) -> Vectors | None:
        vector = self._given.get(id)
        if vector is None:
            return None
        array = np.asarray(vector, dtype=np.float32).ravel()
        length = float(np.linalg.norm(array))
        return array / np.float32(length) if np.isfinite(length) and length > 0 else None


def _plain(text: str) -> str:
    return " ".join(text.split())


def _bag(text: str) -> frozenset[str]:
    return frozenset(WORDS.findall(text.lower()))


def _same_words(one: frozenset[str], other: frozenset[str], least: float) -> bool:
    if not one or len(one) < least * len(other) or len(other) < least * len(one):
        return False
    common = len(one & other)
    if common < least * (len(one) + len(other) - common):
        return False
    # "paid 300 on May 3" and "paid 400 on May 3" are two facts, however many words they share.
    return not any(any(map(str.isdigit, word)) for word in one ^ other)
