"""Texts to term codes, for indexing: what a text is made of is looked up, not analysed again."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.store.analyzer import Analyzer, pieces
from umi_common.store.remembered import Remembered

PIECES_KEPT = 50_000
"""Pieces of text whose codes are remembered, in each of two generations: at most some 15 MB."""

CODE_BYTES = 4


class TermCodes(dict[str, int]):
    """Term -> code, a new code for a new term. Written under the index's lock, read without."""

    def __missing__(self, term: str) -> int:
        code = self[term] = len(self)
        return code


class Coded(NamedTuple):
    """Documents as term codes."""

    lengths: npt.NDArray[np.int32]
    """(D,) terms in each document."""
    tokens: npt.NDArray[np.int32]
    """(sum of lengths,) codes of all documents in order, one document after the other."""


class Vocabulary:
    """The terms of one index. One writer at a time.

    Args:
        analyzer: Makes terms of texts.
        codes: Those of an index that goes on; None: of a new one.
    """

    def __init__(self, analyzer: Analyzer, codes: TermCodes | None = None) -> None:
        self.codes = TermCodes() if codes is None else codes
        self._analyzer = analyzer
        self._codes_of = Remembered(self._codes_of_piece, PIECES_KEPT)

    def coded(self, texts: Iterable[str]) -> Coded:
        """The codes of texts; terms that are new get theirs."""
        codes_of = self._codes_of.__getitem__
        # A look-up for each piece and one join, all inside these C functions: indexing spends half its time here.
        documents = [b"".join(map(codes_of, pieces(text))) for text in texts]
        lengths = np.fromiter(map(len, documents), np.int32, len(documents)) // CODE_BYTES
        return Coded(lengths, np.frombuffer(b"".join(documents), np.int32))

    def _codes_of_piece(self, piece: str) -> bytes:
        """As int32 side by side: what is kept so is joined ten times as fast as numbers are gathered."""
        codes = map(self.codes.__getitem__, self._analyzer.terms_of_piece(piece))
        return b"".join([code.to_bytes(CODE_BYTES, sys.byteorder) for code in codes])
