"""One immutable segment of an inverted index: for each term its rows and term frequencies, for each row its terms.

Rows are the store's own numbers and rise in every list, so segments of one index cover ranges that do not overlap,
and joining segments is putting their lists one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umi_common.pool import Ints

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.unsignedinteger]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """T terms, P postings, D documents. Term codes are those of the index that owns the segment."""

    terms: Codes
    """(T,) rising."""
    starts: Ints
    """(T + 1,) postings of terms[i] are starts[i]:starts[i + 1]."""
    rows: Codes
    """(P,) rising within a term."""
    tf: Counts
    """(P,) occurrences of the term in the row; the smallest unsigned type that holds them."""
    doc_rows: Codes
    """(D,) rising; documents without a term are here too."""
    doc_starts: Ints
    """(D + 1,)"""
    doc_terms: Codes
    """(P,) the distinct terms of doc_rows[i], rising, at doc_starts[i]:doc_starts[i + 1]."""

    @property
    def size(self) -> int:
        """Postings and documents: what merging it costs."""
        return len(self.rows) + len(self.doc_rows)

    @property
    def first(self) -> int:
        """The first row."""
        return int(self.doc_rows[0])

    @property
    def last(self) -> int:
        """The last row."""
        return int(self.doc_rows[-1])

    def place(self, code: int) -> int:
        """Index of a term in `terms`; -1 if the segment does not have it."""
        at = int(self.terms.searchsorted(code))
        return at if at < len(self.terms) and self.terms[at] == code else -1

    def postings(self, place: int) -> tuple[Codes, Counts]:
        """(rows, tf) of terms[place]."""
        start, stop = self.starts[place], self.starts[place + 1]
        return self.rows[start:stop], self.tf[start:stop]

    def terms_of(self, row: int) -> Codes:
        """Codes of the distinct terms of one document; empty if the segment does not have it."""
        at = int(self.doc_rows.searchsorted(row))
        if at == len(self.doc_rows) or self.doc_rows[at] != row:
            return self.doc_terms[:0]
        return self.doc_terms[self.doc_starts[at] : self.doc_starts[at + 1]]


def build(rows: Ints, lengths: Codes, tokens: npt.NDArray[np.int64]) -> Segment:
    """A segment of new documents.

    Args:
        rows: (D,) rising.
        lengths: (D,) terms in each document.
        tokens: (sum of lengths,) term codes of all documents, one document after the other.
    """
    count = max(len(rows), 1)
    document = np.repeat(np.arange(len(rows), dtype=np.int64), lengths)
    # One sort of (term, document) pairs groups equal ones; the size of a group is the term frequency.
    pairs = np.sort(tokens * count + document)
    first = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1]))) if len(pairs) else pairs
    tf = np.diff(first, append=len(pairs))
    codes, place = np.divmod(pairs[first], count)
    terms, starts = _runs(codes)
    width = int(codes[-1]) + 1 if len(codes) else 1
    return Segment(
        terms=terms.astype(np.int32),
        starts=starts,
        rows=rows.astype(np.int32)[place],
        tf=narrow(tf),
        doc_rows=rows.astype(np.int32),
        doc_starts=offsets(np.bincount(place, minlength=len(rows))),
        doc_terms=(np.sort(place * width + codes) % width).astype(np.int32),
    )


def merge(segments: Sequence[Segment], alive: Mask) -> Segment:
    """Segments in rising row order as one, without the rows that `alive` (by row) says are dead."""
    kept = [_without_dead(segment, alive) for segment in segments]
    terms = np.unique(np.concatenate([segment.terms for segment in kept]))
    places = [terms.searchsorted(segment.terms) for segment in kept]
    counts = np.zeros(len(terms), np.int64)
    for segment, place in zip(kept, places, strict=True):
        counts[place] += np.diff(segment.starts)
    starts = offsets(counts)
    rows = np.empty(starts[-1], np.int32)
    tf = np.empty(starts[-1], np.result_type(*[segment.tf for segment in kept]))
    free = starts[:-1].copy()
    for segment, place in zip(kept, places, strict=True):
        sizes = np.diff(segment.starts)
        target = np.repeat(free[place] - segment.starts[:-1], sizes) + np.arange(len(segment.rows))
        rows[target] = segment.rows
        tf[target] = segment.tf
        free[place] += sizes
    return Segment(
        terms=terms,
        starts=starts,
        rows=rows,
        tf=tf,
        doc_rows=np.concatenate([segment.doc_rows for segment in kept]),
        doc_starts=offsets(np.concatenate([np.diff(segment.doc_starts) for segment in kept])),
        doc_terms=np.concatenate([segment.doc_terms for segment in kept]),
    )


def recoded(segment: Segment, codes: Ints) -> Segment:
    """The same segment under other term codes: term t becomes codes[t]."""
    new = codes[segment.terms]
    order = np.argsort(new, kind="stable")
    sizes = np.diff(segment.starts)[order]
    starts = offsets(sizes)
    source = np.repeat(segment.starts[:-1][order] - starts[:-1], sizes) + np.arange(starts[-1])
    width = int(codes.max(initial=0)) + 1
    documents = np.repeat(np.arange(len(segment.doc_rows)), np.diff(segment.doc_starts))
    pairs = np.sort(documents * width + codes[segment.doc_terms])  # one key sorts twice as fast as two
    return Segment(
        terms=new[order].astype(np.int32),
        starts=starts,
        rows=segment.rows[source],
        tf=narrow(segment.tf[source]),
        doc_rows=segment.doc_rows,
        doc_starts=segment.doc_starts,
        doc_terms=(pairs % width).astype(np.int32),
    )


def offsets(sizes: npt.NDArray[np.integer]) -> Ints:
    """(n + 1,) where each of n runs of these sizes starts, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def narrow(counts: npt.NDArray[np.integer]) -> Counts:
    """Counts >= 0 in the smallest unsigned type that holds them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def _runs(codes: Ints) -> tuple[Ints, Ints]:
    if not len(codes):
        return codes, np.zeros(1, np.int64)
    first = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    return codes[first], np.append(first, len(codes))


def _without_dead(segment: Segment, alive: Mask) -> Segment:
    documents = alive[segment.doc_rows]
    if documents.all():
        return segment
    postings = alive[segment.rows]
    sizes = np.diff(segment.starts)
    left = np.bincount(np.repeat(np.arange(len(sizes)), sizes)[postings], minlength=len(sizes))
    doc_sizes = np.diff(segment.doc_starts)
    return Segment(
        terms=segment.terms[left > 0],
        starts=offsets(left[left > 0]),
        rows=segment.rows[postings],
        tf=segment.tf[postings],
        doc_rows=segment.doc_rows[documents],
        doc_starts=offsets(doc_sizes[documents]),
        doc_terms=segment.doc_terms[np.repeat(documents, doc_sizes)],
    )
