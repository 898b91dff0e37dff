"""Texts to term codes, for indexing. The codes of pieces of text are cached, because most pieces occur often."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.stores.arrays import Growing
from umi_common.stores.lexical.analyzer import Analyzer, pieces
from umi_common.stores.lexical.corpus import Numbered
from umi_common.stores.lexical.segment import Int32s, ranges, running

LETTERS_KEPT = 200_000
"""Largest total length of the pieces whose terms are cached for one analyzer, in characters: some 20,000 pieces, 4 MB.
A full cache is emptied."""
TEXTS_A_STEP = 1_000
"""Number of texts whose pieces are looked up together; the pieces of so few texts fit into the processor's cache."""


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
        # A step ends after TEXTS_A_STEP texts, and where the analyzer changes.
        starts = [at for at in range(len(texts)) if not at % TEXTS_A_STEP or analyzers[at] is not analyzers[at - 1]]
        steps = pairwise([*starts, len(texts)])
        try:
            some = [self._pieces_of(analyzers[start]).code(texts[start:stop]) for start, stop in steps]
        except BaseException:
            self._by_analyzer.clear()  # a cache may have numbered pieces without having their codes
            raise
        number_of = {language: number for number, language in enumerate(self._analyzer.languages)}
        return Coded(
            np.concatenate([np.zeros(0, np.int32), *(lengths for lengths, _ in some)]),
            np.concatenate([np.zeros(0, np.int32), *(tokens for _, tokens in some)]),
            np.array([number_of[language] for language in languages], np.int8),
        )

    def _pieces_of(self, analyzer: Analyzer) -> _PieceCodes:
        known = self._by_analyzer.get(analyzer)
        if known is None or known.letters > LETTERS_KEPT:
            known = self._by_analyzer[analyzer] = _PieceCodes(analyzer, self.codes)
        return known


class _PieceCodes:
    """A cache of the codes of pieces of text under one analyzer."""

    def __init__(self, analyzer: Analyzer, codes: Numbered) -> None:
        self._analyzer, self._term_codes = analyzer, codes
        self._pieces = Numbered()
        self.letters = 0
        """Characters of all pieces."""
        self._starts = Growing(np.int64)
        """By piece: the start of its codes in `_codes`; at the end, the start for the next piece."""
        self._starts.extend([0])
        self._codes = Growing(np.int32)

    def code(self, texts: Sequence[str]) -> tuple[Int32s, Int32s]:
        """`Coded.lengths` and `Coded.tokens` of some texts. After an error the cache may not be used again."""
        cut = list(map(pieces, texts))
        ends = np.cumsum([0, *map(len, cut)])  # text i has the pieces ends[i] to ends[i + 1] of all
        numbers = np.fromiter(map(self._pieces.__getitem__, chain.from_iterable(cut)), np.int64, int(ends[-1]))
        new = len(self._pieces) + 1 - len(self._starts.view)
        self._cache_codes(list(islice(reversed(self._pieces), new))[::-1])  # the last `new` pieces, in order
        starts = self._starts.view
        sizes = starts[numbers + 1] - starts[numbers]
        lengths = np.diff(running(sizes)[ends]).astype(np.int32)
        return lengths, self._codes.view[ranges(starts[numbers], sizes)]

    def _cache_codes(self, new: Sequence[str]) -> None:
        """Cache the codes of new pieces. Plain words are stemmed in one call; the few other pieces are analysed one by
        one."""
        terms: list[str] = []
        sizes = np.ones(len(new), np.int64)
        stems = self._analyzer.stems_of(new)
        done = 0
        for at in [at for at, stem in enumerate(stems) if not stem]:
            other = self._analyzer.terms_of_piece(new[at])
            terms += [*stems[done:at], *other]
            sizes[at], done = len(other), at + 1
        terms += stems[done:]
        self._codes.extend(np.fromiter(map(self._term_codes.__getitem__, terms), np.int32, len(terms)))
        self._starts.extend(self._starts.view[-1] + np.cumsum(sizes))
        self.letters += sum(map(len, new))
