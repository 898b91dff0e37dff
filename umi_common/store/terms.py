"""A query's terms in one corpus: where they stand and what they are worth, looked up for all new ones together.

After every write all terms are new, so what one costs the first time is what an agent that adds a turn and asks pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from umi_common.pool import Floats, Ints
from umi_common.store.bm25 import Weighting
from umi_common.store.corpus import Corpus, Part

DIRECT = 4_096
"""Documents of a term up to which its impacts are worked out at once; above, only how large they can be."""


@dataclass(eq=False)
class Term:
    """A term that some live document holds. Arrays are filled on demand and never changed afterwards."""

    text: str
    code: int
    df: int
    idf: float
    upper: float = 0.0
    """idf * its largest gain in any live document; 0 where the idf is negative."""
    places: list[tuple[Part, int]] = field(default_factory=list)
    impacts: tuple[Ints, Floats] | None = None
    """(rows rising, idf * gain of each); dead rows may be among them."""
    champions: tuple[int, Ints] | None = None
    """(how many were asked for, rows)."""
    lookups: int = 0
    source_tf: tuple[Ints, Floats] | None = None


def new_terms(
    corpus: Corpus, weighting: Weighting, norms_of: Callable[[Ints], Floats], texts: Sequence[str]
) -> list[Term]:
    """The terms among `texts` (distinct) that some live document holds.

    Args:
        corpus: One moment.
        weighting: Over its documents.
        norms_of: Length normalisation of rows.
        texts: Analysed.
    """
    codes = {text: code for text in texts if (code := corpus.codes.get(text)) is not None}
    terms = [Term(text, code, 0, 0.0) for text, code in codes.items()]
    wanted = np.array(list(codes.values()), np.int32)
    for part in corpus.parts:
        held = part.segment.terms
        at = held.searchsorted(wanted)
        at[at == len(held)] = 0
        for which in np.flatnonzero(held[at] == wanted).tolist() if len(held) else ():
            place = int(at[which])
            df = part.df(place)
            if df:
                terms[which].df += df
                terms[which].places.append((part, place))
    terms = [term for term in terms if term.df]
    for term in terms:
        term.idf = weighting.idf(term.df)
        if term.df > DIRECT:
            term.upper = max(0.0, *(_largest(corpus, weighting, term.idf, *place) for place in term.places))
    few = [term for term in terms if term.df <= DIRECT]
    if few:
        _work_out(corpus, weighting, norms_of, few)
    return terms


def _largest(corpus: Corpus, weighting: Weighting, idf: float, part: Part, place: int) -> float:
    tf, lengths = corpus.frontier(part, place)
    return float((idf * weighting.gains(tf, weighting.norms(lengths))).max())


def _work_out(corpus: Corpus, weighting: Weighting, norms_of: Callable[[Ints], Floats], terms: Sequence[Term]) -> None:
    """Impacts and upper bounds, in one pass over all postings of the terms."""
    found = [[part.segment.postings(place) for part, place in term.places] for term in terms]
    sizes = [sum(len(rows) for rows, _ in lists) for lists in found]
    rows = np.concatenate([rows for lists in found for rows, _ in lists]).astype(np.int64)
    tf = np.concatenate([tf for lists in found for _, tf in lists])
    worth = np.repeat([term.idf for term in terms], sizes) * weighting.gains(tf, norms_of(rows))
    living = worth if corpus.documents == corpus.rows else np.where(corpus.alive[rows], worth, 0.0)
    ends = np.cumsum(np.array(sizes, np.int64))
    largest = np.maximum.reduceat(living, ends - sizes)
    for term, start, end, upper in zip(terms, (ends - sizes).tolist(), ends.tolist(), largest.tolist(), strict=True):
        term.upper = max(0.0, upper)
        term.impacts = rows[start:end], worth[start:end]
