"""Texts to term codes, for indexing: what a text is made of is looked up, not analysed again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.pool import Ints
from umi_common.stores.growing import Growing
from umi_common.stores.lexical.analyzer import Analyzer, pieces

LETTERS_KEPT = 200_000
"""Of pieces whose terms are remembered; some 20,000 pieces, 4 MB. Then remembering starts over."""
TEXTS_AT_ONCE = 1_000
"""Texts cut into pieces together: few enough for the processor's cache."""


class Numbered(defaultdict[str, int]):
    """String -> number, a new string gets the next one, from 0. Numbering runs inside C functions."""

    def __init__(self, known: Iterable[tuple[str, int]] = ()) -> None:
        super().__init__(None, known)
        self.default_factory = count(len(self)).__next__

    def of(self, strings: Iterable[str], total: int) -> Ints:
        """(total,) numbers of as many strings."""
        return np.fromiter(map(self.__getitem__, strings), np.int64, total)

    def newest(self, total: int) -> list[str]:
        """The last strings that got numbers, in their order."""
        return list(islice(reversed(self), total))[::-1]


class TermCodes(Numbered):
    """Term -> code, a new code for a new term. Written under the index's lock, read without."""


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
        self._ahead: tuple[Sequence[str], Coded] | None = None
        self._start_over()

    def _start_over(self) -> None:
        self._pieces = Numbered()
        self._letters = 0
        self._starts = Growing(np.int64)
        """By piece: where its codes stand in `_codes`; then where the next one's will."""
        self._starts.extend([0])
        self._codes = Growing(np.int32)

    def begin(self, texts: Sequence[str]) -> None:
        """Work out now what `coded` will be asked for next; harmless if it never is."""
        self._ahead = texts, self._code(texts)

    def coded(self, texts: Sequence[str]) -> Coded:
        """The codes of texts; terms that are new get theirs."""
        begun, self._ahead = self._ahead, None
        return begun[1] if begun is not None and begun[0] == texts else self._code(texts)

    def _code(self, texts: Sequence[str]) -> Coded:
        try:
            some = [self._coded(texts[start : start + TEXTS_AT_ONCE]) for start in range(0, len(texts), TEXTS_AT_ONCE)]
        except BaseException:
            self._start_over()  # pieces may have numbers and no codes
            raise
        lengths, tokens = zip(*some, strict=True) if some else ((np.zeros(0, np.int32),), (np.zeros(0, np.int32),))
        return Coded(np.concatenate(lengths), np.concatenate(tokens))

    def _coded(self, texts: Sequence[str]) -> Coded:
        if self._letters > LETTERS_KEPT:
            self._start_over()
        cut = list(map(pieces, texts))
        ends = np.cumsum([0, *map(len, cut)])
        numbers = self._pieces.of(chain.from_iterable(cut), int(ends[-1]))
        self._learn(self._pieces.newest(len(self._pieces) + 1 - len(self._starts.view)))
        starts = self._starts.view
        sizes = starts[numbers + 1] - starts[numbers]
        before = np.concatenate([[0], np.cumsum(sizes)])
        place = np.repeat(starts[numbers] - before[:-1], sizes) + np.arange(before[-1])
        return Coded(np.diff(before[ends]).astype(np.int32), self._codes.view[place])

    def _learn(self, new: Sequence[str]) -> None:
        """The terms of pieces and their codes. Plain words are stemmed in one call, the few others one by one."""
        terms: list[str] = []
        sizes = np.ones(len(new), np.int64)
        stems = self._analyzer.stems_of(new)
        done = 0
        for at in [at for at, stem in enumerate(stems) if not stem]:
            other = self._analyzer.terms_of_piece(new[at])
            terms += [*stems[done:at], *other]
            sizes[at], done = len(other), at + 1
        terms += stems[done:]
        self._codes.extend(self.codes.of(terms, len(terms)))
        self._starts.extend(self._starts.view[-1] + np.cumsum(sizes))
        self._letters += sum(map(len, new))
