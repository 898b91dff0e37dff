"""One immutable segment of an inverted index: for each term its postings, the rows that hold it and its frequencies.

The rows of a term rise, and the ranges of rows of two segments do not overlap, so two segments are merged by
concatenating the postings of each term. A segment lies within one block of 65,536 rows, so a posting takes two bytes
for its row and nearly always one for its frequency.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from umi_common.pool import Ints
from umi_common.stores.arrays import beginnings, distinct
from umi_common.stores.rows.rows import Mask

Int32s = npt.NDArray[np.int32]
TermCounts = npt.NDArray[np.unsignedinteger]
Offsets = npt.NDArray[np.uint16]
Starts = npt.NDArray[np.uint32]

BLOCK_ROWS = 2**16
"""Number of rows in a block; the first row of each block is a multiple of this number."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """T terms with P postings. A term is given by its code in the index that owns the segment.

    An ordinal is the index of a term in `terms`.
    """

    first: int
    """The first row."""
    last: int
    """The last row, in the same block."""
    documents: int
    """Number of rows that the segment was made from, rows without a term included."""
    terms: Int32s
    """(T,) rising."""
    starts: Starts
    """(T + 1,) postings of terms[i] are starts[i]:starts[i + 1]."""
    offsets: Offsets
    """(P,) rows, counted from the start of the block; rising within a term."""
    tf: TermCounts
    """(P,) occurrences of the term in the row; usually one byte each."""
    _rare: dict[int, tuple[Int32s, Int32s]] = field(init=False, default_factory=dict)
    """Cache of `rare_terms`, at most one entry: limit -> the postings of all terms with at most `limit` postings, as
    (P,) rows, rising, and (P,) term codes."""

    @property
    def size(self) -> int:
        """Postings plus documents; the cost of merging the segment."""
        return len(self.offsets) + self.documents

    @property
    def block(self) -> int:
        """The first row of the block."""
        return self.first - self.first % BLOCK_ROWS

    @property
    def frequencies(self) -> Ints:
        """(T,) number of postings of each term."""
        return np.diff(self.starts).astype(np.int64)

    def ordinals(self, codes: Int32s) -> Ints:
        """(n,) index of each term in `terms`; -1 if the segment does not have it."""
        if not len(self.terms):
            return np.full(len(codes), -1)
        at = self.terms.searchsorted(codes)
        return np.where(self.terms.take(at, mode="clip") == codes, at, -1)

    def postings(self, ordinal: int) -> tuple[Int32s, TermCounts]:
        """(rows, tf) of terms[ordinal]."""
        held, tf = self.stored(ordinal)
        return np.add(held, self.block, dtype=np.int32), tf

    def sizes(self, ordinals: Ints) -> Ints:
        """(n,) number of postings of each of n terms, given by ordinal; 0 for ordinal -1."""
        starts = self.starts.take(ordinals, mode="clip")  # ordinal -1 starts and ends at starts[0]
        return (self.starts.take(ordinals + 1) - starts).astype(np.int64)

    def all_postings(self, ordinals: Ints) -> tuple[Ints, Ints]:
        """The postings of n terms, one term after the other: (P,) index into `ordinals`, and (P,) row."""
        sizes = self.sizes(ordinals)
        at = ranges(self.starts[ordinals].astype(np.int64), sizes)
        return np.arange(len(ordinals)).repeat(sizes), self.offsets[at].astype(np.int64) + self.block

    def stored(self, ordinal: int) -> tuple[Offsets, TermCounts]:
        """(offsets, tf) of terms[ordinal] as views."""
        own = slice(self.starts.item(ordinal), self.starts.item(ordinal + 1))
        return self.offsets[own], self.tf[own]

    def rare_terms(self, rows: Ints, most: int) -> tuple[Ints, Int32s]:
        """For each row, its terms with at most `most` postings, and perhaps more frequent terms: the limit is raised to
        a power of 16, so that the cache also serves calls with another `most`.

        Returns:
            (P,) index into `rows`, rising, and (P,) term code.
        """
        limit = 16 ** math.ceil(math.log(most, 16))
        known = self._rare.get(limit)
        if known is None:
            ordinals = np.flatnonzero(self.frequencies <= limit)
            of_term, held = self.all_postings(ordinals)
            order = np.argsort(self.offsets_of(held), kind="stable")  # numbers of 16 bits are sorted by radix sort
            known = held[order].astype(np.int32), self.terms[ordinals[of_term[order]]]
            self._rare.clear()
            self._rare[limit] = known
        wanted = rows.astype(np.int32)  # the type of `known[0]`: with another type, numpy converts the whole array
        start, stop = known[0].searchsorted(wanted), known[0].searchsorted(wanted, "right")
        sizes = stop - start
        return np.arange(len(rows)).repeat(sizes), known[1][ranges(start, sizes)]

    def offsets_of(self, rows: npt.NDArray[np.integer]) -> Offsets:
        """Offsets of rows, which are all in the segment's block."""
        return (rows - self.block).astype(np.uint16)

    def living(self, alive: Mask) -> Mask:
        """(P,) whether the row of each posting is alive. `alive` has an entry for each row of the index."""
        return alive[self.block : self.last + 1][self.offsets]

    def living_frequencies(self, alive: Mask) -> Ints:
        """(T,) number of postings of each term whose row is alive; takes a pass over all postings."""
        return np.diff(running(self.living(alive))[self.starts]).astype(np.int64)


def build(rows: Ints, lengths: Int32s, tokens: Int32s) -> Segment:
    """A segment of new documents.

    Args:
        rows: (D,) rising, D >= 1, of one block.
        lengths: (D,) terms in each document.
        tokens: (sum of lengths,) term codes of all documents, one document after the other.
    """
    # Sorting the (term, document) pairs groups equal pairs; the size of a group is the term frequency. Pairs that fit
    # into 32 bits, as in any small batch, are sorted in half the time.
    count = len(rows)
    pairs = tokens.astype(np.min_scalar_type((int(tokens.max(initial=0)) + 1) * count))
    pairs *= pairs.dtype.type(count)
    pairs += np.repeat(np.arange(count, dtype=pairs.dtype), lengths)
    pairs.sort()
    begins = beginnings(pairs)
    codes, document = np.divmod(pairs[begins], pairs.dtype.type(count))
    starts = beginnings(codes)
    return Segment(
        first=int(rows[0]),
        last=int(rows[-1]),
        documents=count,
        terms=codes[starts].astype(np.int32),
        starts=np.append(starts, len(codes)).astype(np.uint32),
        offsets=(rows % BLOCK_ROWS).astype(np.uint16)[document],
        tf=smallest_type(np.diff(begins, append=len(pairs))),
    )


def merge(segments: Sequence[Segment], alive: Mask) -> Segment:
    """Merge several segments of one block, in the order of their rows, into one without the rows that are not alive."""
    kept = [_without_dead(segment, alive) for segment in segments]
    terms = distinct(np.concatenate([segment.terms for segment in kept]))
    merged_ordinals = [terms.searchsorted(segment.terms) for segment in kept]
    counts = np.zeros(len(terms), np.int64)
    for segment, ordinals in zip(kept, merged_ordinals, strict=True):
        counts[ordinals] += segment.frequencies
    starts = running(counts)
    offsets = np.empty(starts[-1], np.uint16)
    tf = np.empty(starts[-1], np.result_type(*[segment.tf for segment in kept]))
    free = starts[:-1].copy()  # for each term, where its next postings go
    for segment, ordinals in zip(kept, merged_ordinals, strict=True):
        sizes = segment.frequencies
        target = ranges(free[ordinals], sizes)
        offsets[target] = segment.offsets
        tf[target] = segment.tf
        free[ordinals] += sizes
    first, last = kept[0].first, kept[-1].last
    documents = int(np.count_nonzero(alive[first : last + 1]))
    return Segment(first, last, documents, terms, starts.astype(np.uint32), offsets, tf)


def recoded(segment: Segment, codes: Ints) -> Segment:
    """The segment with other term codes: term t becomes codes[t]."""
    new = codes[segment.terms]
    order = np.argsort(new, kind="stable")
    sizes = segment.frequencies[order]
    at = ranges(segment.starts[:-1][order].astype(np.int64), sizes)
    terms, tf = new[order].astype(np.int32), smallest_type(segment.tf[at])
    return replace(segment, terms=terms, starts=running(sizes).astype(np.uint32), offsets=segment.offsets[at], tf=tf)


def renumbered(segment: Segment, code_of: Ints, row_of: Ints) -> Iterator[Segment]:
    """The segment with other numbers, which rise as the old ones do: term t becomes code_of[t], and row r row_of[r].

    All its rows are living. There is one segment for each block of the new rows.
    """
    first, stop = row_of[[segment.first, segment.last + 1]].tolist()
    rows = row_of[segment.offsets.astype(np.int64) + segment.block]
    for block in range(first - first % BLOCK_ROWS, stop, BLOCK_ROWS):
        inside = (rows >= block) & (rows < block + BLOCK_ROWS)
        starts = running(inside)[segment.starts]
        has, own = np.diff(starts) > 0, slice(max(first, block), min(stop, block + BLOCK_ROWS))
        yield Segment(
            first=own.start,
            last=own.stop - 1,
            documents=own.stop - own.start,
            terms=code_of[segment.terms[has]].astype(np.int32),
            starts=np.append(starts[:-1][has], starts[-1]).astype(np.uint32),
            offsets=(rows[inside] - block).astype(np.uint16),
            tf=segment.tf[inside],
        )


def running(sizes: npt.NDArray[np.integer] | Mask) -> Ints:
    """(n + 1,) start of each of n consecutive runs of these sizes, and the end of the last run."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    sizes.cumsum(out=starts[1:])
    return starts


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """For each start in order, as many consecutive numbers from it as `sizes` says: [5, 6, 0] for [5, 0] and [2, 1]."""
    at: Ints = (starts - running(sizes)[:-1]).repeat(sizes)
    return at + np.arange(len(at))


def smallest_type(counts: npt.NDArray[np.integer]) -> TermCounts:
    """Counts >= 0 in the smallest unsigned type that holds them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def _without_dead(segment: Segment, alive: Mask) -> Segment:
    documents = int(np.count_nonzero(alive[segment.first : segment.last + 1]))
    if documents == segment.documents:
        return segment
    postings = segment.living(alive)
    sizes = segment.living_frequencies(alive)
    terms, starts = segment.terms[sizes > 0], running(sizes[sizes > 0]).astype(np.uint32)
    offsets, tf = segment.offsets[postings], segment.tf[postings]
    return replace(segment, documents=documents, terms=terms, starts=starts, offsets=offsets, tf=tf)
