"""A query's terms in one corpus: where they stand and what they are worth, worked out for all new ones together.

After every write all terms are new, so what one costs the first time is what an agent that adds a turn and asks pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from umi_common.pool import Floats, Ints
from umi_common.stores.lexical.bm25 import Weighting
from umi_common.stores.lexical.corpus import Corpus, Part

Impacts = tuple[Ints, Floats]
"""(rows rising, idf * gain of each); dead rows may be among them."""


class SourceImpacts(NamedTuple):
    """A term in whole sources."""

    codes: Ints
    """The sources that hold it, rising."""
    worth: Floats
    """idf * gain in each."""
    idf: float
    upper: float
    """The largest worth, or 0."""

    @classmethod
    def of(cls, weighting: Weighting, codes: Ints, gains: Floats) -> SourceImpacts:
        """From the gains in the sources that hold it; `weighting` is that over sources."""
        if not len(codes):
            return cls(codes, gains, 0.0, 0.0)
        idf = weighting.idf(len(codes))
        worth = idf * gains
        return cls(codes, worth, idf, max(0.0, largest(worth)))


@dataclass(eq=False, slots=True)
class Term:
    """A term that some live document holds. Arrays are filled on demand and never changed afterwards."""

    text: str
    places: list[tuple[Part, int]] = field(default_factory=list)
    df: int = 0
    idf: float = 0.0
    upper: float | None = None
    """idf * its largest gain in any live document; 0 where the idf is negative. None: not worked out yet."""
    impacts: Impacts | None = None
    lookups: int = 0
    of_sources: SourceImpacts | None = None


def new_terms(corpus: Corpus, weighting: Weighting, texts: Sequence[str]) -> list[Term]:
    """The terms among `texts` (distinct) that some live document holds.

    Args:
        corpus: One moment.
        weighting: Over its documents.
        texts: Analysed.
    """
    code_of = corpus.codes.get
    codes = {text: code for text in texts if (code := code_of(text)) is not None}
    terms = [Term(text) for text in codes]
    wanted = list(codes.values())
    for part in corpus.parts:
        for term, place in zip(terms, part.segment.places(wanted), strict=True):
            if place >= 0 and (df := part.df(place)):
                term.df += df
                term.places.append((part, place))
    found = [term for term in terms if term.df]
    for term in found:
        term.idf = weighting.idf(term.df)
    return found


def worked_out(weighting: Weighting, norms_of: Callable[[Ints], Floats], terms: Sequence[Term]) -> list[Impacts]:
    """The impacts of terms, in one pass over all their postings.

    Args:
        weighting: Over the documents.
        norms_of: Length normalisation of rows.
        terms: At least one.
    """
    rows, tf, ends = all_postings(terms)
    worth = weighting.gains(tf, norms_of(rows))
    impacts, start = [], 0
    for term, stop in zip(terms, ends, strict=True):
        own = worth[start:stop]
        own *= term.idf
        impacts.append((rows[start:stop], own))
        start = stop
    return impacts


def all_postings(terms: Sequence[Term]) -> tuple[Ints, Floats, list[int]]:
    """(rows, tf, ends) of terms, one after the other, dead rows included; those of the i-th end at ends[i]."""
    stored = [part.segment.stored(place) for term in terms for part, place in term.places]
    rows = np.concatenate([offsets for offsets, _ in stored], dtype=np.int64)
    tf = np.concatenate([tf for _, tf in stored], dtype=np.float64)
    ends, start, lists = [], 0, iter(stored)
    for term in terms:
        for part, _ in term.places:
            stop = start + len(next(lists)[0])
            if part.segment.block:
                rows[start:stop] += part.segment.block
            start = stop
        ends.append(start)
    return rows, tf, ends


def largest(values: Floats) -> float:
    """Of at least one value; on the few of most terms `argmax` takes a quarter of the time of `max`."""
    return values.item(values.argmax())
