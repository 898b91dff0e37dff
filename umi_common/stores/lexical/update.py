"""Make a new corpus by adding documents to an old one or by removing rows; the old corpus does not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt

from umi_common.pool import NO_SOURCE, Ints
from umi_common.stores.arrays import Growing, distinct
from umi_common.stores.lexical.corpus import Corpus, LiveSegment, RowArrays, appended, joined_segments
from umi_common.stores.lexical.segment import BLOCK_ROWS, Codes, build, running
from umi_common.stores.lexical.vocabulary import Coded

DEAD_DOCUMENTS_SHARE_MAX = 0.5
"""Largest share of deleted documents in a segment; a segment with a larger share is rewritten without them."""


def added(corpus: Corpus, rows: Sequence[int], documents: Coded, sources: Sequence[int]) -> Corpus:
    """The corpus with the i-th document added as rows[i], of source code sources[i] (NO_SOURCE: none).

    Args:
        rows: Rising, above all rows so far and below 2**31, because they are stored as int32.
        documents: One for each row, as codes of `corpus.codes`.
    """
    lengths, tokens, _ = documents
    assert len(rows) == len(lengths) == len(sources)
    if not len(rows):
        return corpus
    at, owner = np.asarray(rows, np.int64), np.asarray(sources, np.int64)
    assert (np.diff(at, prepend=corpus.rows - 1) > 0).all() and at[-1] < 2**31
    by_row = _grown(corpus, at, documents, owner)
    alive = by_row.alive.view
    parts, begins = corpus.parts, running(lengths)
    edges = np.flatnonzero(np.diff(at // BLOCK_ROWS, prepend=-1, append=-1)).tolist()
    for first, stop in pairwise(edges):
        mine = slice(first, stop)
        segment = build(at[mine], lengths[mine], tokens[begins[first] : begins[stop]])
        parts = appended(parts, segment, alive)
    grown = replace(
        corpus,
        parts=parts,
        by_row=by_row,
        **by_row.views(),
        documents=corpus.documents + len(at),
        total_length=corpus.total_length + int(lengths.sum(dtype=np.int64)),
    )
    return _with_sources(grown, owner, lengths, 1)


def removed(corpus: Corpus, rows: Sequence[int]) -> Corpus:
    """The corpus without these rows; unknown rows are ignored."""
    asked = distinct(np.asarray(rows, np.int64))
    asked = asked[(asked >= 0) & (asked < corpus.rows)]
    gone = asked[corpus.alive[asked]].astype(np.int32)
    if not len(gone):
        return corpus
    alive = corpus.alive.copy()
    alive[gone] = False
    sizes = corpus.lengths[gone]
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
        total_length=corpus.total_length - int(sizes.sum(dtype=np.int64)),
    )
    return _with_sources(left, corpus.sources[gone], sizes, -1)


def merged_parts(corpus: Corpus) -> list[LiveSegment]:
    """The segments of each block merged into one without dead rows."""
    blocks = groupby(corpus.parts, key=lambda part: part.segment.block)
    return [joined_segments(list(parts), corpus.alive) for _, parts in blocks]


def _grown(corpus: Corpus, rows: Ints, documents: Coded, sources: Ints) -> RowArrays:
    """The arrays by row, extended by the new rows; row numbers that were skipped between them become dead rows."""
    by_row = _by_row(corpus)
    indices = rows - corpus.rows
    by_row.alive.extend(_spread(indices, True, False))
    by_row.lengths.extend(_spread(indices, documents.lengths, 0))
    by_row.sources.extend(_spread(indices, sources, NO_SOURCE))
    by_row.languages.extend(_spread(indices, documents.languages, 0))
    return by_row


def _by_row(corpus: Corpus) -> RowArrays:
    """Arrays by row that can grow from this corpus; copies if a write to the same corpus has already grown them."""
    return RowArrays._make(array.after(corpus.rows) for array in corpus.by_row)


def _spread(indices: Ints, values: npt.ArrayLike, missing: int) -> npt.NDArray[np.int64]:
    """Array with the values at their indices (rising) and `missing` elsewhere."""
    spread = np.full(int(indices[-1]) + 1, missing, np.int64)
    spread[indices] = values
    return spread


def _with_sources(corpus: Corpus, owner: Ints, sizes: Codes, sign: int) -> Corpus:
    """The corpus with documents of these sources and lengths counted (sign 1) or no longer counted (-1)."""
    owned = owner != NO_SOURCE
    if not owned.any():
        return corpus
    width = int(owner.max()) + 1
    counts, totals = _at_least(corpus.source_documents, width), _at_least(corpus.source_lengths, width)
    np.add.at(counts, owner[owned], sign)
    np.add.at(totals, owner[owned], sign * sizes[owned].astype(np.int64))
    return replace(corpus, source_documents=counts, source_lengths=totals)


def _at_least(values: Ints, size: int) -> Ints:
    """A copy of the values, filled up with 0 to at least `size`."""
    longer = np.zeros(max(size, len(values)), values.dtype)
    longer[: len(values)] = values
    return longer
