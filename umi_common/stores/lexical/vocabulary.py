"""Texts to term codes, for indexing. A term code is the number of a term in the index. A piece is a part of a text
between white space (`analyzer.pieces`). The term codes of pieces are cached, because most pieces occur often."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.stores.lexical.analyzer import Analyzer, pieces
from umi_common.stores.lexical.corpus import Numbered
from umi_common.stores.lexical.segment import Int32s

LETTERS_KEPT = 200_000
"""Total length of the pieces that are cached for each analyzer, in characters: some 20,000 pieces, 4 MB. A cache that
exceeds it is emptied before the next step of `Vocabulary.coded`."""
TEXTS_A_STEP = 1_000
"""Largest number of texts in a step; the pieces of so few texts fit into the processor's cache."""


class Coded(NamedTuple):
    """D texts as term codes."""

    lengths: Int32s
    """(D,) number of terms of each text."""
    tokens: Int32s
    """(sum of lengths,) term codes of all texts, one text after the other."""
    languages: npt.NDArray[np.int8]
    """(D,) index of each text's language in `Analyzer.languages`."""


class Vocabulary:
    """The term codes of one index, and a cache of the codes of pieces. One writer at a time.

    Args:
        analyzer: Splits texts into terms.
        codes: Term codes of an existing index; None: the index is new.
    """

    def __init__(self, analyzer: Analyzer, codes: Numbered | None = None) -> None:
        self.codes = Numbered() if codes is None else codes
        self._analyzer = analyzer
        self._by_analyzer: dict[Analyzer, _PieceCodes] = {}

    def coded(self, texts: Sequence[str]) -> Coded:
        """The texts as term codes; new terms get new codes."""
        languages = list(map(self._analyzer.language_of, texts))
        analyzers = list(map(self._analyzer.of_language, languages))
        # A step ends after at most TEXTS_A_STEP texts, and where the analyzer changes.
        starts = [at for at in range(len(texts)) if not at % TEXTS_A_STEP or analyzers[at] is not analyzers[at - 1]]
        steps = pairwise([*starts, len(texts)])
        coded = [self._pieces_of(analyzers[start]).code(texts[start:stop]) for start, stop in steps]
        number_of = {language: number for number, language in enumerate(self._analyzer.languages)}
        return Coded(
            np.concatenate([np.zeros(0, np.int32), *(lengths for lengths, _ in coded)]),
            np.concatenate([np.zeros(0, np.int32), *(tokens for _, tokens in coded)]),
            np.array([number_of[language] for language in languages], np.int8),
        )

    def _pieces_of(self, analyzer: Analyzer) -> _PieceCodes:
        known = self._by_analyzer.get(analyzer)
        if known is None or known.letters > LETTERS_KEPT:
            known = self._by_analyzer[analyzer] = _PieceCodes(analyzer, self.codes)
        return known


class _PieceCodes:
    """A cache of the term codes of pieces under one analyzer."""

    def __init__(self, analyzer: Analyzer, codes: Numbered) -> None:
        self._analyzer = analyzer
        self._code_of = codes.__getitem__  # gives a new term the next code
        self._pieces: dict[str, tuple[int, ...]] = {}
        self.letters = 0
        """Characters of all pieces."""

    def code(self, texts: Sequence[str]) -> tuple[Int32s, Int32s]:
        """`Coded.lengths` and `Coded.tokens` of some texts."""
        by_text = list(map(pieces, texts))
        new = [piece for piece in dict.fromkeys(chain.from_iterable(by_text)) if piece not in self._pieces]
        self.letters += sum(map(len, new))
        # Plain words are stemmed in one call; the few other pieces are analysed one by one.
        for piece, stem in zip(new, self._analyzer.stems_of(new), strict=True):
            terms = (stem,) if stem else self._analyzer.terms_of_piece(piece)
            self._pieces[piece] = tuple(map(self._code_of, terms))
        codes = [list(chain.from_iterable(map(self._pieces.__getitem__, split))) for split in by_text]
        lengths = np.fromiter(map(len, codes), np.int32, len(codes))
        return lengths, np.fromiter(chain.from_iterable(codes), np.int32, int(lengths.sum(dtype=np.int64)))
