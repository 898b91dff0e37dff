"""What is indexed at one moment: segments, which rows live, and the collection's exact numbers.

A Corpus never changes; a write makes the next one and shares what it can. Readers hold one for the length of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from umi_common.pool import NO_SOURCE, Ints
from umi_common.stores.distinct import distinct
from umi_common.stores.growing import Growing
from umi_common.stores.lexical.segment import Codes, Counts, Mask, Offsets, Segment, merge
from umi_common.stores.lexical.vocabulary import TermCodes

Frontier = tuple[Ints, Ints]
"""(tf, length) of the documents that no other beats in both; one has the term's largest gain, whatever k1 and b."""
SMALL_SEGMENT = 8_192
"""Up to this size (postings and documents) the last segment takes every addition; merging it costs well under 1 ms."""
RARE = 64
"""Frontiers of terms in at most so many documents are worked out each time."""
MERGE_RATIO = 4
"""Above it, a segment stays at least this many times the one after it, so their number grows with the logarithm."""


class ByRow(NamedTuple):
    """`alive`, `lengths` and `sources` with room at their ends: a write then costs what it adds, not what is there."""

    alive: Growing[np.bool_]
    lengths: Growing[np.int32]
    sources: Growing[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment and what deletions left of it."""

    segment: Segment
    gone: Offsets = field(default_factory=lambda: np.zeros(0, np.uint16))
    """Documents deleted since the segment was made; rising."""
    frontiers: dict[int, tuple[Frontier, Codes]] = field(default_factory=dict)
    """By place of the term, with a row for each point; filled on demand."""
    dense: dict[int, Counts] = field(default_factory=dict)
    """Term frequency by offset, for common terms, dead documents included; filled on demand."""

    @property
    def dead(self) -> int:
        """Documents deleted since the segment was made."""
        return len(self.gone)

    def without(self, rows: Codes) -> Part:
        """The part after these rows (rising, alive until now) were deleted; itself if it has none of them."""
        first, stop = rows.searchsorted((self.segment.first, self.segment.last + 1))
        if first == stop:
            return self
        gone = np.sort(np.concatenate([self.gone, self.segment.offsets_of(rows[first:stop])]))
        return Part(self.segment, gone, dict(self.frontiers), self.dense)

    def df(self, place: int) -> int:
        """Live documents with a term. Those that are gone are looked for in its list, or the list in them."""
        if not len(self.gone):
            return self.segment.starts.item(place + 1) - self.segment.starts.item(place)
        held, _ = self.segment.stored(place)
        few, many = (self.gone, held) if len(self.gone) < len(held) else (held, self.gone)
        at = many.searchsorted(few)
        at[at == len(many)] = 0
        return len(held) - int(np.count_nonzero(many[at] == few))

    def lookup(self, place: int, offsets: Offsets) -> Counts:
        """Term frequency in documents (rising) that live or never were in the part; 0 where not held."""
        known = self.dense.get(place)
        if known is not None:
            return known.take(offsets)
        held, tf = self.segment.stored(place)
        at = held.searchsorted(offsets)
        found: Counts = tf.take(at, mode="clip")
        found *= held.take(at, mode="clip") == offsets
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """All arrays by row are (rows so far,); rows never added are dead."""

    codes: TermCodes
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
    by_row: ByRow | None = None
    """Where the arrays by row grow; None: they have not grown yet."""

    @classmethod
    def empty(cls) -> Corpus:
        """Nothing yet."""
        return cls(TermCodes(), (), np.zeros(0, np.bool_), np.zeros(0, np.int32), np.zeros(0, np.int64))

    @property
    def rows(self) -> int:
        """One more than the largest row ever added."""
        return len(self.alive)

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
        # Losses can only take points away, so while each point has a document that lives, nothing has changed.
        if known is not None and (not part.dead or self.alive[known[1]].all()):
            return known[0]
        rows, tf = self.live_postings(part, place)
        frontier, examples = _frontier(tf, self.lengths[rows])
        if len(rows) > RARE:
            part.frontiers[place] = frontier, rows[examples]
        return frontier

    def document_frequencies(self) -> Ints:
        """df by term code, all terms."""
        df = np.zeros(len(self.codes), np.int64)
        for part in self.parts:
            segment = part.segment
            live = segment.living_frequencies(self.alive) if part.dead else segment.frequencies
            df[segment.terms] += live
        return df

    def source_frequencies(self) -> Ints:
        """In how many sources each term code occurs; a pass over all postings."""
        width = len(self.source_documents)
        pairs = [np.zeros(0, np.int64)]
        for part in self.parts:
            segment = part.segment
            source = self.sources[segment.block : segment.last + 1][segment.offsets]
            keep = segment.living(self.alive) & (source != NO_SOURCE)
            pairs.append((np.repeat(segment.terms.astype(np.int64), segment.frequencies) * width + source)[keep])
        held = distinct(np.concatenate(pairs))
        return np.bincount(held // max(width, 1), minlength=len(self.codes))

    def holds(self, code: int, row: int) -> bool:
        """Whether a live row has a term."""
        if not (0 <= row < self.rows and self.alive[row]):
            return False
        asked = np.array([row], np.int32)
        inside = [part for part in self.parts if part.segment.first <= row <= part.segment.last]
        places = [(part, part.segment.place(code)) for part in inside]
        return any(place >= 0 and part.lookup(place, part.segment.offsets_of(asked))[0] > 0 for part, place in places)


def appended(parts: Sequence[Part], new: Segment, alive: Mask) -> tuple[Part, ...]:
    """The parts with one more, merged from the end as far as it pays."""
    kept, tail, size = list(parts), [Part(new)], new.size
    block = [part for part in kept if part.segment.block == kept[-1].segment.block]
    if block and block[0].segment.block != new.block:  # the block before is whole: it takes part in no merge any more
        return (*kept[: -len(block)], joined(block, alive), Part(new))
    while block and block[-1].segment.size <= max(SMALL_SEGMENT, MERGE_RATIO * size):
        tail.insert(0, block.pop())
        kept.pop()
        size += tail[0].segment.size
    return (*kept, joined(tail, alive))


def joined(parts: Sequence[Part], alive: Mask) -> Part:
    """Several parts of one block, in row order, as one without dead rows."""
    if len(parts) == 1 and not parts[0].dead:
        return parts[0]
    return Part(merge([part.segment for part in parts], alive))


def _frontier(tf: Counts, lengths: Codes) -> tuple[Frontier, Ints]:
    """The frontier, and for each of its points the place of a document that lies there."""
    shortest = np.full(int(tf.max()) + 1, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(shortest, tf, lengths)
    shortest_above = np.minimum.accumulate(shortest[::-1])[::-1]
    beats_more = np.append(shortest_above[1:], np.iinfo(np.int32).max)
    points = np.flatnonzero(shortest < beats_more)
    example = np.zeros(len(shortest), np.int64)
    reached = np.flatnonzero(lengths == shortest[tf])
    example[tf[reached]] = reached
    return (points, shortest[points].astype(np.int64)), example[points]
