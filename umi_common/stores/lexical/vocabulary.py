"""Texts to term codes, for indexing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.stores.lexical.analyzer import Analyzer, pieces
from umi_common.stores.lexical.languages import NOT_FOUND
from umi_common.stores.lexical.spellings import Spellings


class Numbered(defaultdict[str, int]):
    """String -> number; a new string gets the next number, from 0. A look-up runs no Python code."""

    def __init__(self, known: Iterable[tuple[str, int]] = ()) -> None:
        super().__init__(None, known)
        self.default_factory = count(len(self)).__next__


class Coded(NamedTuple):
    """Documents as term codes."""

    lengths: npt.NDArray[np.int32]
    """(D,) number of terms in each document."""
    tokens: npt.NDArray[np.int32]
    """(sum of lengths,) term codes of all documents, one document after the other."""
    languages: npt.NDArray[np.int8]
    """(D,) index of each document's language in `Analyzer.languages`."""


class Vocabulary:
    """The terms of one index. One writer at a time.

    Args:
        analyzer: Splits texts into terms.
        codes: Term codes of an existing index; None: the index is new.
    """

    def __init__(self, analyzer: Analyzer, codes: Numbered | None = None) -> None:
        self.codes = Numbered() if codes is None else codes
        self.spellings = Spellings(analyzer.of_language(NOT_FOUND).terms_of_piece)
        self.spellings.add(self.codes)
        self._analyzer = analyzer

    def coded(self, texts: Sequence[str]) -> Coded:
        """The texts as term codes; new terms get new codes."""
        languages = list(map(self._analyzer.language_of, texts))
        analyzers = map(self._analyzer.of_language, languages)
        terms = [
            list(chain.from_iterable(analyzer.terms_of_pieces(pieces(text))))
            for analyzer, text in zip(analyzers, texts, strict=True)
        ]
        lengths, known = np.fromiter(map(len, terms), np.int32), len(self.codes)
        tokens = np.fromiter(map(self.codes.__getitem__, chain.from_iterable(terms)), np.int32, lengths.sum())
        self.spellings.add(list(islice(reversed(self.codes), len(self.codes) - known))[::-1])
        code_of = {language: code for code, language in enumerate(self._analyzer.languages)}
        return Coded(lengths, tokens, np.array([code_of[language] for language in languages], np.int8))
