"""One immutable state of the index: segments, living rows and exact collection statistics.

A write makes a new `Corpus` from the old one by adding texts or by removing rows; both share the unchanged arrays. A
reader uses one corpus for a whole call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Ints
from umi_common.stores.arrays import Growing, distinct
from umi_common.stores.lexical.segment import (
    BLOCK_ROWS,
    Int32s,
    Offsets,
    Segment,
    TermCounts,
    build,
    merge,
    renumbered,
    running,
)
from umi_common.stores.rows.rows import Mask

SMALL_SEGMENT = 8_192
"""While the last segment has at most this size (postings plus documents), every addition is merged with it, in well
under 1 ms."""
NO_CODE = np.iinfo(np.int32).max
"""The code of every term that the index never held."""
SAMPLED = 4
"""To leave out the terms that more than `most` living rows hold, `Corpus.rows_of_rare` first reads SAMPLED * most
postings of a term. It counts all postings only if at most `most` of those belong to living rows."""
MERGE_RATIO = 4
"""A segment above SMALL_SEGMENT is merged with all later segments, unless it is more than this many times as large as
these together. So the number of segments grows with the logarithm of the number of documents."""
DEAD_DOCUMENTS_SHARE_MAX = 0.5
"""Largest share of deleted documents in a segment; beyond it, the segment is rewritten without them."""


class Numbered(defaultdict[str, int]):
    """String -> number; a new string gets the next number, from 0. Look-ups call no Python function, which is fast."""

    def __init__(self, known: Iterable[tuple[str, int]] = ()) -> None:
        super().__init__(None, known)
        self.default_factory = count(len(self)).__next__


class RowArrays(NamedTuple):
    """The arrays by row of a `Corpus`, with spare room at the end, so that a write copies no old rows."""

    alive: Growing[np.bool_]
    lengths: Growing[np.int32]
    sources: Growing[np.int64]
    languages: Growing[np.int8]

    def views(self) -> dict[str, Any]:
        """The current values, by field of `Corpus`."""
        return {name: getattr(self, name).view for name in self._fields}


class Levels(NamedTuple):
    """Upper bounds of a term's gain in the documents of one segment, deleted ones included."""

    config: LexicalConfig
    average_length: float
    """In terms. The bounds are valid for `config` as long as the average length of the corpus is at most this."""
    by_offset: npt.NDArray[np.uint8]
    """Bound of each document, in steps of 1/255 of the largest gain that the formula allows."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveSegment:
    """A segment, the documents deleted since it was made, and caches for its terms.

    An ordinal, here and in `Corpus`, is the index of a term in the segment's `terms`.
    """

    segment: Segment
    gone: Offsets = field(default_factory=lambda: np.zeros(0, np.uint16))
    """Documents deleted since the segment was made; rising."""
    levels: dict[int, Levels] = field(default_factory=dict)
    """Ordinal of a common term -> its upper bounds; filled on demand."""
    dense: dict[int, TermCounts] = field(default_factory=dict)
    """Ordinal of a common term -> its frequency by offset, deleted documents included; filled on demand."""

    @property
    def dead(self) -> int:
        """Documents deleted since the segment was made."""
        return len(self.gone)

    def without(self, rows: Int32s) -> LiveSegment:
        """The segment without these rows (rising, alive until now); the segment itself if it holds none of them."""
        first, stop = rows.searchsorted((self.segment.first, self.segment.last + 1))
        if first == stop:
            return self
        gone = np.sort(np.concatenate([self.gone, self.segment.offsets_of(rows[first:stop])]))
        return replace(self, gone=gone)

    def df(self, ordinals: Ints) -> Ints:
        """(n,) number of documents that hold each term and are not deleted; 0 for ordinal -1."""
        df = self.segment.sizes(ordinals)
        for at in np.flatnonzero(df).tolist() if self.dead else ():
            held, _ = self.segment.stored(int(ordinals[at]))
            few, many = (self.gone, held) if len(self.gone) < len(held) else (held, self.gone)
            in_both = many.take(many.searchsorted(few), mode="clip") == few
            df[at] -= np.count_nonzero(in_both)
        return df

    def lookup(self, ordinal: int, offsets: Offsets) -> TermCounts:
        """Term frequency in documents (rising), none of them deleted; 0 where a document does not hold the term."""
        known = self.dense.get(ordinal)
        if known is not None:
            return known.take(offsets)
        held, tf = self.segment.stored(ordinal)
        at = held.searchsorted(offsets)
        found: TermCounts = tf.take(at, mode="clip")
        found *= held.take(at, mode="clip") == offsets
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """One state of the index.

    `alive`, `lengths`, `sources` and `languages` have an entry for each row number so far; a row that was never added
    is not alive.
    """

    codes: Numbered
    """Term -> code; only grows, and all corpora of one index share it. Written under the index's lock, read without."""
    parts: tuple[LiveSegment, ...]
    alive: Mask
    lengths: Int32s
    """Number of terms in each row."""
    sources: Ints
    """Source code of each row; NO_SOURCE: it has no source."""
    languages: npt.NDArray[np.int8]
    """Language of each row, as an index in `Analyzer.languages`."""
    by_row: RowArrays
    """The growing arrays behind the four arrays by row."""
    documents: int = 0
    """N: living rows."""
    total_length: int = 0
    """Number of terms in all living rows."""
    source_documents: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Number of living rows of each source."""
    source_lengths: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Number of terms in the living rows of each source."""

    @classmethod
    def empty(cls) -> Corpus:
        """A corpus without rows."""
        by_row = RowArrays(Growing(np.bool_), Growing(np.int32), Growing(np.int64), Growing(np.int8))
        return cls(Numbered(), (), by_row=by_row, **by_row.views())

    @property
    def rows(self) -> int:
        """One more than the largest row ever added."""
        return len(self.alive)

    def document_frequencies(self) -> Ints:
        """(terms,) df by term code."""
        df = np.zeros(len(self.codes), np.int64)
        for part in self.parts:
            segment = part.segment
            df[segment.terms] += segment.living_frequencies(self.alive) if part.dead else segment.frequencies
        return df

    def source_frequencies(self) -> Ints:
        """(terms,) number of sources with each term code; a pass over all postings."""
        width = len(self.source_documents)
        pairs = [np.zeros(0, np.int64)]
        for part in self.parts:
            segment = part.segment
            source = self.sources[segment.block : segment.last + 1][segment.offsets]
            keep = segment.living(self.alive) & (source != NO_SOURCE)
            pairs.append((np.repeat(segment.terms.astype(np.int64), segment.frequencies) * width + source)[keep])
        held = distinct(np.concatenate(pairs))
        return np.bincount(held // max(width, 1), minlength=len(self.codes))

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """For each term, the number of living rows that hold it."""
        codes, df = self.codes_of(terms), np.zeros(len(terms), np.int64)
        for part in self.parts:
            df += part.df(part.segment.ordinals(codes))
        return list(df.tolist())

    def codes_of(self, terms: Iterable[str]) -> Int32s:
        """(n,) code of each term; NO_CODE for a term that the index never held."""
        return np.array([self.codes.get(term, NO_CODE) for term in terms], np.int32)

    def rows_of_rare(self, codes: Int32s, most: int) -> tuple[Ints, Ints]:
        """The postings of the terms in `codes` that are rare: at most `most` living rows hold each of them.

        Args:
            codes: (n,) term codes, distinct but for NO_CODE; a code that no row holds has no posting.

        Returns:
            (P,) indices into `codes`, rising, and the (P,) row of each posting.
        """
        ordinals = [part.segment.ordinals(codes) for part in self.parts]
        sizes = np.array([part.segment.sizes(at) for part, at in zip(self.parts, ordinals, strict=True)])
        # All postings of each term at first. Those of dead rows are subtracted only where the term may then be rare.
        living = sizes.sum(axis=0) if self.parts else np.zeros(len(codes), np.int64)
        dead = sum(part.dead for part in self.parts)
        for part, ordinal, size in zip(self.parts, ordinals, sizes, strict=True):
            if part.dead:
                counted = np.flatnonzero((living > most) & (living <= most + dead) & (size > 0))
                counted = counted[~self._surely_frequent(part, ordinal[counted], size[counted], most)]
                living[counted] -= size[counted] - part.df(ordinal[counted])
        held, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part, ordinal, size in zip(self.parts, ordinals, sizes, strict=True):
            there = ((living <= most) & (size > 0)).nonzero()[0]
            of_term, found = part.segment.all_postings(ordinal[there])
            alive = self.alive[found]
            held.append(there[of_term][alive])
            rows.append(found[alive])
        term, row = np.concatenate(held), np.concatenate(rows)
        order = (term * self.rows + row).argsort()
        return term[order], row[order]

    def _surely_frequent(self, part: LiveSegment, ordinals: Ints, sizes: Ints, most: int) -> Mask:
        """(n,) whether more than `most` of a term's first SAMPLED * most postings are alive.

        Args:
            ordinals: (n,) terms of the segment.
            sizes: (n,) postings of each.
        """
        segment, nth = part.segment, np.arange(SAMPLED * most)
        at = segment.starts[ordinals].astype(np.int64)[:, np.newaxis] + np.minimum(nth, sizes[:, np.newaxis] - 1)
        alive = self.alive[segment.offsets[at].astype(np.int64) + segment.block] & (nth < sizes[:, np.newaxis])
        frequent: Mask = alive.sum(axis=1) > most
        return frequent

    def term_counts(self, rows: Ints) -> dict[int, dict[int, int]]:
        """Row -> term code -> frequency of the term in it; reads all postings of the rows' segments."""
        counts: dict[int, dict[int, int]] = {row: {} for row in rows.tolist()}
        wanted = np.zeros(self.rows, dtype=np.bool_)
        wanted[rows] = True
        for segment in (part.segment for part in self.parts):
            if not wanted[segment.first : segment.last + 1].any():
                continue
            of_postings = segment.offsets.astype(np.int64) + segment.block
            postings = np.flatnonzero(wanted[of_postings])
            codes = segment.terms[np.searchsorted(segment.starts, postings, side="right") - 1]
            found = zip(of_postings[postings].tolist(), codes.tolist(), segment.tf[postings].tolist(), strict=True)
            for row, code, tf in found:
                counts[row][code] = tf
        return counts


def with_texts(
    corpus: Corpus,
    rows: Sequence[int],
    lengths: Int32s,
    tokens: Int32s,
    languages: npt.NDArray[np.int8],
    sources: Sequence[int],
) -> Corpus:
    """The corpus with texts added: the i-th as rows[i], of source code sources[i] (NO_SOURCE: none).

    Args:
        rows: One or more, rising, above all rows so far and below 2**31, because they are stored as int32.
        lengths, tokens, languages: The texts as term codes, see `vocabulary.Coded`.
    """
    assert len(rows) == len(lengths) == len(sources) > 0
    at, owners = np.asarray(rows, np.int64), np.asarray(sources, np.int64)
    assert (np.diff(at, prepend=corpus.rows - 1) > 0).all() and at[-1] < 2**31
    by_row, indices = _by_row(corpus), at - corpus.rows
    by_row.alive.extend(_spread(indices, True, False))
    by_row.lengths.extend(_spread(indices, lengths, 0))
    by_row.sources.extend(_spread(indices, owners, NO_SOURCE))
    by_row.languages.extend(_spread(indices, languages, 0))
    parts, begins, alive = corpus.parts, running(lengths), by_row.alive.view
    edges = np.flatnonzero(np.diff(at // BLOCK_ROWS, prepend=-1, append=-1)).tolist()  # where the block changes
    for first, stop in pairwise(edges):
        mine = slice(first, stop)
        segment = build(at[mine], lengths[mine], tokens[begins[first] : begins[stop]])
        parts = _appended(parts, segment, alive)
    grown = replace(
        corpus,
        parts=parts,
        by_row=by_row,
        **by_row.views(),
        documents=corpus.documents + len(at),
        total_length=corpus.total_length + int(lengths.sum(dtype=np.int64)),
    )
    return _with_sources(grown, owners, lengths, 1)


def without_rows(corpus: Corpus, rows: Sequence[int]) -> Corpus:
    """The corpus without these rows; unknown rows are ignored."""
    asked = distinct(np.asarray(rows, np.int64))
    asked = asked[(asked >= 0) & (asked < corpus.rows)]
    gone = asked[corpus.alive[asked]].astype(np.int32)
    if not len(gone):
        return corpus
    alive = corpus.alive.copy()
    alive[gone] = False
    lengths = corpus.lengths[gone]
    shrunk = [part.without(gone) for part in corpus.parts]
    parts = [
        joined_segments([part], alive) if part.dead > DEAD_DOCUMENTS_SHARE_MAX * part.segment.documents else part
        for part in shrunk
    ]
    left = replace(
        corpus,
        parts=tuple(part for part in parts if part.segment.documents),
        alive=alive,
        by_row=_by_row(corpus)._replace(alive=Growing.holding(alive)),
        documents=corpus.documents - len(gone),
        total_length=corpus.total_length - int(lengths.sum(dtype=np.int64)),
    )
    return _with_sources(left, corpus.sources[gone], lengths, -1)


def without_dead_rows(corpus: Corpus, sources: Ints) -> Corpus:
    """The living rows alone, numbered from 0 in their order, and the terms that they hold.

    Args:
        sources: (documents,) new source code of each living row.
    """
    segments, terms = [part.segment for part in merged_parts(corpus)], list(corpus.codes)
    held = np.zeros(len(terms), np.bool_)
    for segment in segments:
        held[segment.terms] = True
    kept, code_of, row_of = np.flatnonzero(held), running(held), running(corpus.alive)
    empty = replace(Corpus.empty(), codes=Numbered((terms[code], at) for at, code in enumerate(kept.tolist())))
    lengths, languages = corpus.lengths[corpus.alive], corpus.languages[corpus.alive]
    alive = np.ones(len(lengths), np.bool_)
    holding = Growing.holding
    by_row = RowArrays(holding(alive), holding(lengths), holding(sources), holding(languages))
    parts: tuple[LiveSegment, ...] = ()
    for segment in segments:
        for part in renumbered(segment, code_of, row_of):
            parts = _appended(parts, part, alive)
    total = int(lengths.sum(dtype=np.int64))
    made = replace(empty, parts=parts, by_row=by_row, **by_row.views(), documents=len(lengths), total_length=total)
    return _with_sources(made, sources, lengths, 1)


def merged_parts(corpus: Corpus) -> list[LiveSegment]:
    """The segments of each block merged into one without dead rows."""
    blocks = groupby(corpus.parts, key=lambda part: part.segment.block)
    return [joined_segments(list(parts), corpus.alive) for _, parts in blocks]


def _by_row(corpus: Corpus) -> RowArrays:
    """The arrays by row, to be extended; copies if an earlier write to the same corpus has extended them already."""
    return RowArrays._make(array.after(corpus.rows) for array in corpus.by_row)


def _spread(indices: Ints, values: npt.ArrayLike, missing: int) -> npt.NDArray[np.int64]:
    """Array with the values at their indices (rising), and `missing` at the indices of rows that were skipped."""
    spread = np.full(int(indices[-1]) + 1, missing, np.int64)
    spread[indices] = values
    return spread


def _with_sources(corpus: Corpus, owners: Ints, lengths: Int32s, sign: int) -> Corpus:
    """The corpus with `source_documents` and `source_lengths` after documents were added (sign 1) or removed (-1).

    Args:
        owners: (n,) source code of each of these documents, or NO_SOURCE.
    """
    owned = owners != NO_SOURCE
    if not owned.any():
        return corpus
    more = max(0, int(owners.max()) + 1 - len(corpus.source_documents))
    counts, totals = (np.pad(values, (0, more)) for values in (corpus.source_documents, corpus.source_lengths))
    np.add.at(counts, owners[owned], sign)
    np.add.at(totals, owners[owned], sign * lengths[owned].astype(np.int64))
    return replace(corpus, source_documents=counts, source_lengths=totals)


def _appended(parts: Sequence[LiveSegment], new: Segment, alive: Mask) -> tuple[LiveSegment, ...]:
    """The segments with a new one at the end, merged with the last ones as SMALL_SEGMENT and MERGE_RATIO say."""
    last_block = [part for part in parts if part.segment.block == parts[-1].segment.block]
    earlier = parts[: len(parts) - len(last_block)]
    if last_block and last_block[0].segment.block != new.block:  # the last block gets no more rows: merge it, once
        return (*earlier, joined_segments(last_block, alive), LiveSegment(new))
    merged, size = [LiveSegment(new)], new.size
    while last_block and last_block[-1].segment.size <= max(SMALL_SEGMENT, MERGE_RATIO * size):
        merged.insert(0, last_block.pop())
        size += merged[0].segment.size
    return (*earlier, *last_block, joined_segments(merged, alive))


def joined_segments(parts: Sequence[LiveSegment], alive: Mask) -> LiveSegment:
    """Several segments of one block, in row order, merged into one without dead rows."""
    if len(parts) == 1 and not parts[0].dead:
        return parts[0]
    return LiveSegment(merge([part.segment for part in parts], alive))
