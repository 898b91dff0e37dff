"""Find chunks that repeat a better one: by text, by vectors, by words.

Overlapping chunks of one source are no duplicates: `stitch` shows their common characters once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from umi_common.context.pieces import Piece
from umi_common.pool import Vectors

RUN = 3
"""Words in a run."""
Runs = frozenset[tuple[str, ...]]


class ChosenTexts:
    """The texts and vectors of the chosen pieces, against which a further piece is compared.

    Args:
        cosine: Two vectors with at least this cosine count as the same.
        words: Two texts count as the same whose runs of three words have at least this Jaccard similarity and whose
            words with digits are the same.
        vectors: (dim,) by chunk id, of any length; chunks without one are compared by words.
    """

    def __init__(self, *, cosine: float, words: float, vectors: Mapping[str, Any] | None = None) -> None:
        self._cosine = cosine
        self._words = words
        self._given = {} if vectors is None else vectors
        self._texts: dict[str, str] = {}
        self._vectors: list[tuple[str, Vectors]] = []
        self._runs: list[tuple[str, Runs]] = []
        self._runs_by_id: dict[str, Runs] = {}

    def same_text(self, piece: Piece) -> str | None:
        """The id of the chosen piece with the same text, white space aside; None if there is none."""
        twin = self._texts.get(_plain(piece.chunk.text))
        return None if twin == piece.chunk.id else twin

    def alike(self, piece: Piece) -> str | None:
        """The id of the first chosen piece that is a near-duplicate of this one; None if there is none."""
        vector = self._unit(piece.chunk.id)
        if vector is not None:
            for id, other in self._vectors:
                if id != piece.chunk.id and len(other) == len(vector) and float(other @ vector) >= self._cosine:
                    return id
        own = self._runs_of(piece)
        for id, known in self._runs:
            compared = vector is not None and id in self._given
            if not compared and id != piece.chunk.id and _alike(own, known, self._words):
                return id
        return None

    def add(self, piece: Piece) -> None:
        """Add a chosen piece."""
        id, text = piece.chunk.id, piece.chunk.text
        self._texts.setdefault(_plain(text), id)
        self._runs.append((id, self._runs_of(piece)))
        vector = self._unit(id)
        if vector is not None:
            self._vectors.append((id, vector))

    def _runs_of(self, piece: Piece) -> Runs:
        made = self._runs_by_id.get(piece.chunk.id)
        if made is None:
            made = self._runs_by_id[piece.chunk.id] = _runs(piece.chunk.text)
        return made

    def _unit(self, id: str) -> Vectors | None:
        vector = self._given.get(id)
        if vector is None:
            return None
        array = np.asarray(vector, dtype=np.float32).ravel()
        length = float(np.linalg.norm(array))
        return array / np.float32(length) if np.isfinite(length) and length > 0 else None


def _plain(text: str) -> str:
    return " ".join(text.split())


def _runs(text: str) -> Runs:
    """The runs of three words in a text. Single words would not do: long texts on one subject share nearly all."""
    words = text.lower().split()
    return frozenset(zip(words, words[1:], words[2:], strict=False)) if len(words) >= RUN else frozenset([tuple(words)])


def _alike(one: Runs, other: Runs, least: float) -> bool:
    if len(one) < least * len(other) or len(other) < least * len(one):
        return False
    common = len(one & other)
    if common < least * (len(one) + len(other) - common):
        return False
    # "paid 300 on May 3" and "paid 400 on May 3" are two facts.
    differing = {word for run in one for word in run} ^ {word for run in other for word in run}
    return not any(any(map(str.isdigit, word)) for word in differing)
