"""A small corpus with all its postings unpacked at once: a term is then worked out by a few slices.

Every array is in the order of the term codes, of living rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from umi_common.pool import Floats, Ints
from umi_common.stores.distinct import beginnings, distinct
from umi_common.stores.lexical.bm25 import Numbers, Weighting
from umi_common.stores.lexical.corpus import Corpus, Part
from umi_common.stores.lexical.segment import Counts, running
from umi_common.stores.lexical.terms import SourceImpacts, Term

AT_ONCE = 8_192
"""Postings worked out in one step: what it needs stays in the processor's cache and is not asked of the system anew."""
BINS = 4
"""Pairs of a term and a source, per posting, up to which an array of all that could be is faster than sorting."""


class Unpacked:
    """Rows of all postings and what each is worth."""

    def __init__(self, corpus: Corpus, weighting: Weighting, norms: Floats) -> None:
        self._corpus = corpus
        self._starts, self._rows, tf = living_postings(corpus)
        self._behind = len(self._starts) - 1  # the code after the last
        frequencies = self._starts[1:] - self._starts[:-1]
        self._idf = _idfs(weighting, frequencies)
        self._worth = self._idf.repeat(frequencies)
        for start in range(0, len(tf), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            self._worth[some] *= weighting.gains(tf[some], norms.take(self._rows[some]))

    def terms(self, texts: Sequence[str]) -> list[Term]:
        """Those of distinct analysed texts that some live document holds, with their impacts."""
        code_of, start_of, found = self._corpus.codes.get, self._starts.item, []
        for text in texts:
            code = code_of(text, self._behind)
            if code < self._behind:
                start, stop = start_of(code), start_of(code + 1)
                if start < stop:
                    impacts = self._rows[start:stop], self._worth[start:stop]
                    found.append(Term(text, self._places(code), stop - start, self._idf.item(code), None, impacts))
        return found

    def _places(self, code: int) -> list[tuple[Part, int]]:
        parts = self._corpus.parts
        if len(parts) == 1 and len(parts[0].segment.terms) == self._behind:  # it has every code
            return [(parts[0], code)]
        places = [(part, part.segment.place(code)) for part in parts]
        return [(part, place) for part, place in places if place >= 0]


class UnpackedSources:
    """Source codes and gains of all pairs of a term and a source that holds it."""

    def __init__(self, corpus: Corpus, weighting: Weighting, norms: Floats) -> None:
        starts, rows, tf = living_postings(corpus)
        sizes = starts[1:] - starts[:-1]
        inner = starts.searchsorted(np.arange(AT_ONCE, len(rows), AT_ONCE))
        edges = distinct(np.array([0, *inner, len(sizes)])).tolist()
        found = []
        for first, last in pairwise(edges):
            own = slice(starts.item(first), starts.item(last))
            each, codes, counts = in_sources(sizes[first:last], corpus.sources.take(rows[own]), tf[own], len(norms))
            found.append((each[1:] - each[:-1], codes, weighting.gains(counts, norms.take(codes))))
        held, self._codes, self._gains = map(np.concatenate, zip(*found, strict=True))
        self._starts = running(held)
        self._code_of, self._weighting = corpus.codes.__getitem__, weighting

    def of(self, term: Term) -> SourceImpacts:
        """What a term is worth."""
        code = self._code_of(term.text)
        own = slice(self._starts.item(code), self._starts.item(code + 1))
        return SourceImpacts.of(self._weighting, self._codes[own], self._gains[own])


def _idfs(weighting: Weighting, frequencies: Ints) -> Floats:
    """By term, from in how many documents it is; 0 for one that is in none."""
    present = distinct(frequencies[frequencies > 0])
    table = np.zeros(int(present[-1]) + 1, np.float64)
    table[present] = list(map(weighting.idf, present.tolist()))
    return table.take(frequencies)


def living_postings(corpus: Corpus) -> tuple[Ints, Ints, Counts]:
    """(starts, rows, tf) of all postings of living rows: those of the term with code i are starts[i]:starts[i + 1]."""
    segments = [part.segment for part in corpus.parts]
    tf = np.concatenate([segment.tf for segment in segments])
    rows, start = np.empty(len(tf), np.int64), 0
    for segment in segments:
        stop = start + len(segment.offsets)
        np.add(segment.offsets, segment.block, out=rows[start:stop], dtype=np.int64)
        start = stop
    sizes = np.zeros(max(segment.terms.item(-1) for segment in segments if len(segment.terms)) + 1, np.int64)
    if len(segments) == 1 and corpus.documents == corpus.rows:
        sizes[segments[0].terms] = segments[0].frequencies
        return running(sizes), rows, tf
    codes = np.concatenate([np.repeat(segment.terms, segment.frequencies) for segment in segments])
    living = corpus.alive.take(rows).nonzero()[0]
    codes = codes.take(living)
    order = codes.argsort(kind="stable")
    living = living.take(order)
    return running(np.bincount(codes, minlength=len(sizes))), rows.take(living), tf.take(living)


def in_sources(
    sizes: Sequence[int] | Ints, sources: Ints, tf: Counts | Floats, width: int
) -> tuple[Ints, Ints, Numbers]:
    """Postings added up by source.

    Args:
        sizes: By term, its postings; those of the next follow.
        sources: By posting, the code of the row's source; NO_SOURCE is left out.
        tf: By posting; 0 is left out.
        width: Above every source code.

    Returns:
        (starts, source codes, occurrences): those of term i are starts[i]:starts[i + 1], by rising code.
    """
    stride = width + 1  # the first of each term is that of NO_SOURCE
    bins = stride * len(sizes)
    firsts = np.arange(len(sizes) + 1) * stride + 1
    pairs = firsts[:-1].repeat(sizes)
    pairs += sources
    counts: Numbers
    if bins <= BINS * len(pairs):
        totals = np.bincount(pairs, tf, bins)
        totals[::stride] = 0.0
        held = totals.nonzero()[0]
        counts = totals.take(held)
    else:
        held, counts = _added_up(pairs, tf)
        keep = (held % stride > 0) & (counts > 0.0)
        if not keep.all():
            held, counts = held[keep], counts[keep]
    starts = held.searchsorted(firsts)
    return starts, held - firsts[:-1].repeat(starts[1:] - starts[:-1]), counts


def _added_up(numbers: Ints, tf: Counts | Floats) -> tuple[Ints, Floats]:
    """The distinct numbers, rising, and each one's sum."""
    if (numbers[1:] < numbers[:-1]).any():
        order = numbers.argsort()
        numbers, tf = numbers.take(order), tf.take(order)
    begins = beginnings(numbers).nonzero()[0]
    if not len(begins):
        return numbers, np.zeros(0, np.float64)
    return numbers.take(begins), np.add.reduceat(tf, begins, dtype=np.float64)
