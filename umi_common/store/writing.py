"""The next corpus after an addition or a removal; the present one stays as it is for those who read it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from umi_common.errors import InputError
from umi_common.pool import NO_SOURCE, Ints
from umi_common.store.corpus import Corpus, Part, appended, joined
from umi_common.store.postings import Mask, build

DEAD_SHARE_MAX = 0.5
ROWS_MAX = 2**31 - 1


class Codes(dict[str, int]):
    """Term -> code, a new code for a new term. Written under the index's lock, read without."""

    def __missing__(self, term: str) -> int:
        code = self[term] = len(self)
        return code


def added(corpus: Corpus, rows: Sequence[int], documents: Sequence[list[str]], sources: Sequence[int]) -> Corpus:
    """With rows[i] holding the terms documents[i] in source sources[i] (NO_SOURCE: none).

    Raises:
        InputError: If the rows do not rise, or are not above all rows so far.
    """
    if not len(rows) == len(documents) == len(sources):
        raise InputError(f"{len(rows)} rows, {len(documents)} texts and {len(sources)} sources; expected one of each")
    if not rows:
        return corpus
    _check_new(corpus, rows)
    code_of = corpus.codes if isinstance(corpus.codes, Codes) else Codes(corpus.codes)
    tokens = array("q")
    for terms in documents:
        tokens.extend(map(code_of.__getitem__, terms))
    sizes = np.fromiter(map(len, documents), np.int32, len(documents))
    at, owner = np.asarray(rows, np.int64), np.asarray(sources, np.int64)
    size = int(at[-1]) + 1
    alive = _grown(corpus.alive, size, False)
    alive[at] = True
    lengths = _grown(corpus.lengths, size, 0)
    lengths[at] = sizes
    source = _grown(corpus.sources, size, NO_SOURCE)
    source[at] = owner
    segment = build(at, sizes, np.frombuffer(tokens, np.int64) if tokens else np.zeros(0, np.int64))
    grown = replace(
        corpus,
        codes=code_of,
        parts=appended(corpus.parts, segment, alive),
        alive=alive,
        lengths=lengths,
        sources=source,
        documents=corpus.documents + len(rows),
        total_length=corpus.total_length + int(sizes.sum()),
    )
    return _with_sources(grown, owner, sizes, 1)


def removed(corpus: Corpus, rows: Sequence[int]) -> Corpus:
    """Without these rows; rows that are not there do not matter."""
    asked = np.unique(np.asarray(rows, np.int64))
    asked = asked[(asked >= 0) & (asked < corpus.rows)]
    gone = asked[corpus.alive[asked]].astype(np.int32)
    if not len(gone):
        return corpus
    alive = corpus.alive.copy()
    alive[gone] = False
    sizes = corpus.lengths[gone]
    left = replace(
        corpus,
        parts=tuple(_after_loss(part.without(gone, corpus.lengths), alive) for part in corpus.parts),
        alive=alive,
        documents=corpus.documents - len(gone),
        total_length=corpus.total_length - int(sizes.sum()),
    )
    return _with_sources(left, corpus.sources[gone], sizes, -1)


def compacted(before: Corpus, now: Corpus, merged: Part) -> Corpus:
    """`now` with the parts it has in common with `before` replaced by their merger.

    Between the two, rows may have been added and removed. If parts of `before` have been merged away meanwhile, `now`
    is already as good and comes back as it is.
    """
    count = len(before.parts)
    old = [part.segment for part in before.parts]
    if [part.segment for part in now.parts[:count]] != old:
        return now
    died = np.flatnonzero(before.alive & ~now.alive[: before.rows]).astype(np.int32)
    return replace(now, parts=(merged.without(died, now.lengths), *now.parts[count:]))


def merged_parts(corpus: Corpus) -> Part:
    """All parts as one without dead rows; needs at least one part."""
    return joined(corpus.parts, corpus.alive)


def _after_loss(part: Part, alive: Mask) -> Part:
    """A part that lost most of its documents is cleaned, so that dead postings never outnumber the living."""
    return joined([part], alive) if part.dead > DEAD_SHARE_MAX * len(part.segment.doc_rows) else part


def _check_new(corpus: Corpus, rows: Sequence[int]) -> None:
    last = corpus.rows - 1
    if rows[-1] >= ROWS_MAX:
        raise InputError(f"row {rows[-1]}; an index numbers its rows below {ROWS_MAX}")
    for row in rows:
        if row <= last:
            raise InputError(f"row {row} after row {last}; rows must rise and never be used again")
        last = row


def _with_sources(corpus: Corpus, owner: Ints, sizes: Sequence[int] | np.ndarray, sign: int) -> Corpus:
    owned = owner != NO_SOURCE
    if not owned.any():
        return corpus
    width = int(owner.max()) + 1
    counts = _grown(corpus.source_documents, width, 0)
    totals = _grown(corpus.source_lengths, width, 0)
    np.add.at(counts, owner[owned], sign)
    np.add.at(totals, owner[owned], sign * np.asarray(sizes, np.int64)[owned])
    return replace(corpus, source_documents=counts, source_lengths=totals)


def _grown(values: np.ndarray, size: int, fill: int | bool) -> np.ndarray:
    """A copy, at least `size` long."""
    grown = np.full(max(size, len(values)), fill, values.dtype)
    grown[: len(values)] = values
    return grown
