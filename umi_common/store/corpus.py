"""What is indexed at one moment: segments, which rows live, and the collection's exact numbers.

A Corpus never changes; a write makes the next one and shares what it can. Readers hold one for the length of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from umi_common.pool import NO_SOURCE, Ints
from umi_common.store.postings import Codes, Counts, Mask, Segment, merge

Frontier = tuple[Ints, Ints]
"""(tf, length) of the documents that no other beats in both; one has the term's largest gain, whatever k1 and b."""
SMALL_SEGMENT = 8_192
"""Up to this size (postings and documents) the last segment takes every addition; merging it costs well under 1 ms."""
RARE = 64
"""Frontiers of terms in at most so many documents are worked out each time."""
MERGE_RATIO = 4
"""Above it, a segment stays at least this many times the one after it, so their number grows with the logarithm."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment and what deletions left of it."""

    segment: Segment
    df: Ints
    """(T,) live documents with each of the segment's terms."""
    dead: int = 0
    """Documents deleted since the segment was made."""
    frontiers: dict[int, Frontier] = field(default_factory=dict)
    """By place of the term, live documents only; filled on demand."""
    dense: dict[int, Counts] = field(default_factory=dict)
    """Term frequency by row - first row, for common terms, dead documents included; filled on demand."""

    @classmethod
    def fresh(cls, segment: Segment) -> Part:
        """Nothing deleted yet."""
        return cls(segment, np.diff(segment.starts))

    def without(self, rows: Codes, lengths: Codes) -> Part:
        """The part after these rows (rising, alive until now) were deleted; itself if it has none of them."""
        mine = rows[np.isin(rows, self.segment.doc_rows)]
        if not len(mine):
            return self
        df, frontiers = self.df.copy(), dict(self.frontiers)
        for row in mine.tolist():
            places = self.segment.terms.searchsorted(self.segment.terms_of(row))
            df[places] -= 1
            for place in frontiers.keys() & set(places.tolist()):
                if self._on_frontier(place, row, int(lengths[row])):
                    del frontiers[place]
        return Part(self.segment, df, self.dead + len(mine), frontiers, self.dense)

    def lookup(self, place: int, rows: Codes) -> Counts:
        """Term frequency in rows (rising) of documents that live or never were in the part; 0 where not held."""
        known = self.dense.get(place)
        if known is not None:
            return known[rows - self.segment.first]
        held, tf = self.segment.postings(place)
        at = held.searchsorted(rows)
        at[at == len(held)] = 0
        found = tf[at]
        found[held[at] != rows] = 0
        return found

    def _on_frontier(self, place: int, row: int, length: int) -> bool:
        tf, lengths = self.frontiers[place]
        held = self.segment.postings(place)
        return bool(((tf == held[1][held[0].searchsorted(row)]) & (lengths == length)).any())


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """All arrays by row are (rows so far,); rows never added are dead."""

    codes: Mapping[str, int]
    """Term -> code; only ever grows, shared by all moments of one index."""
    parts: tuple[Part, ...]
    alive: Mask
    lengths: Codes
    """Terms in each row."""
    sources: Ints
    """Source code of each row; NO_SOURCE."""
    documents: int = 0
    """N: live rows."""
    total_length: int = 0
    """Terms in all live rows."""
    source_documents: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Live rows of each source code."""
    source_lengths: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Terms in the live rows of each source code."""

    @classmethod
    def empty(cls) -> Corpus:
        """Nothing yet."""
        return cls({}, (), np.zeros(0, np.bool_), np.zeros(0, np.int32), np.zeros(0, np.int64))

    @property
    def rows(self) -> int:
        """One more than the largest row ever added."""
        return len(self.alive)

    def places(self, code: int) -> Iterator[tuple[Part, int]]:
        """The parts where a live document has the term, and its place there."""
        for part in self.parts:
            place = part.segment.place(code)
            if place >= 0 and part.df[place] > 0:
                yield part, place

    def live_postings(self, part: Part, place: int) -> tuple[Codes, Counts]:
        """(rows, tf) of the live documents."""
        rows, tf = part.segment.postings(place)
        if not part.dead:
            return rows, tf
        keep = self.alive[rows]
        return rows[keep], tf[keep]

    def frontier(self, part: Part, place: int) -> Frontier:
        """The undominated (tf, length) pairs of a term in a part; remembered."""
        known = part.frontiers.get(place)
        if known is None:
            rows, tf = self.live_postings(part, place)
            known = _frontier(tf, self.lengths[rows])
            if len(rows) > RARE:
                part.frontiers[place] = known
        return known

    def document_frequencies(self) -> Ints:
        """df by term code, all terms."""
        df = np.zeros(len(self.codes), np.int64)
        for part in self.parts:
            df[part.segment.terms] += part.df
        return df

    def source_frequencies(self) -> Ints:
        """In how many sources each term code occurs; a pass over all postings."""
        width = len(self.source_documents)
        pairs = [np.zeros(0, np.int64)]
        for part in self.parts:
            sizes = np.diff(part.segment.starts)
            source = self.sources[part.segment.rows]
            keep = self.alive[part.segment.rows] & (source != NO_SOURCE)
            pairs.append((np.repeat(part.segment.terms.astype(np.int64), sizes) * width + source)[keep])
        distinct = np.unique(np.concatenate(pairs))
        return np.bincount(distinct // max(width, 1), minlength=len(self.codes))

    def terms_of(self, row: int) -> Codes:
        """Codes of the distinct terms of a live row; none for another."""
        if 0 <= row < self.rows and self.alive[row]:
            for part in self.parts:
                found = part.segment.terms_of(row)
                if len(found):
                    return found
        return np.zeros(0, np.int32)


def appended(parts: Sequence[Part], new: Segment, alive: Mask) -> tuple[Part, ...]:
    """The parts with one more, merged from the end as far as it pays."""
    kept, tail, size = list(parts), [Part.fresh(new)], new.size
    while kept and (kept[-1].segment.size <= SMALL_SEGMENT or kept[-1].segment.size <= MERGE_RATIO * size):
        tail.insert(0, kept.pop())
        size += tail[0].segment.size
    return (*kept, joined(tail, alive))


def joined(parts: Sequence[Part], alive: Mask) -> Part:
    """Several parts, in row order, as one without dead rows."""
    if len(parts) == 1 and not parts[0].dead:
        return parts[0]
    return Part.fresh(merge([part.segment for part in parts], alive))


def _frontier(tf: Counts, lengths: Codes) -> Frontier:
    shortest = np.full(int(tf.max()) + 1, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(shortest, tf, lengths)
    shortest_above = np.minimum.accumulate(shortest[::-1])[::-1]
    beats_more = np.append(shortest_above[1:], np.iinfo(np.int32).max)
    points = np.flatnonzero(shortest < beats_more)
    return points, shortest[points].astype(np.int64)
