"""Put a candidate before an alike one if it holds more of the query's words, or more of them in the query's order.

The rows of a table, the lines of a timetable and filled-in forms differ in a few words, and their scores differ little:
for "GDP per capita Dominica 2010" the row of 2000 may be first, and for "from London to Paris" the flights back. Among
the best `COMPARED` candidates, a is put before b if both of these are true:

    common(words(a), words(b)) + common(pairs(a), pairs(b)) >= `SHARED`
    score(a) >= `SCORE` * score(b)

and one of these:

    held(a) contains held(b) and is larger
    held(a) = held(b), sorted(asked(a)) = sorted(asked(b)) and |neighbours(a)| > |neighbours(b)|

common(x, y) = |x and y| / min(|x|, |y|). words(i) is the set of the words of text i, and pairs(i) that of its pairs of
adjacent words that are not both function words: records of two layouts have few words in common, but more of them side
by side than prose has.
asked(i) is the sequence of the query's words in the text of i, with repeated words. held(i) is the set of these words
without function words, but with negations; if the query names a period and i is of it, the period is one more word, and
so is each word that the query excludes ("but not on AWS") and that the text lacks, unless a text states an exception.
neighbours(i) is the set of pairs of words that follow each other in asked(i), at most `REACH` words apart in the text,
and also in the query if the words that the text lacks are left out of it.

The candidates then get the same scores, in falling order. Measured in docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from umi_common.pool import Bools, Pool
from umi_common.query.questions import EXCEPT, exclusion_in
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.words import words_in
from umi_common.search.trace import TraceBuilder
from umi_common.stores.lexical.languages import NEGATIONS, all_function_words
from umi_common.types import Chunk

STAGE = "alike"
COMPARED = 10
"""Best candidates that are compared; with 20 the results are the same."""
SHARED = 0.58
"""Two texts of prose rarely have so much in common."""
SCORE = 0.8
"""Smallest share of the other's score; 0.7 and 0.9 give nearly the same results."""
REACH = 3
"""Largest distance of neighbours in a text, in words: farther words of a form belong to different fields."""
CHARACTERS_MAX = 20_000
"""A longer text is compared with no other: reading its words would take 1 ms."""
SCORE_EXCLUDING = 0.4
"""In place of `SCORE` if the query excludes something: the texts that hold the excluded words score higher by them."""
PERIOD = " "
"""Stands for the period that the query names, among words."""
ABSENT = "-"
"""Before an excluded word that a text lacks, among words."""


class Words(NamedTuple):
    """The words of one text, and those that the query asks for; the formulas are at the top of this file."""

    all: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    held: frozenset[str]
    asked: Sequence[str]
    """Sorted."""
    neighbours: int
    """Number of pairs."""


def reorder_alike(
    pool: Pool,
    ranked: RankedPool,
    chunks: Mapping[str, Chunk],
    trace: TraceBuilder,
    *,
    query: str,
    of_period: Bools | None,
) -> RankedPool:
    """The ranking with its first `COMPARED` rows in the order that the top of this file describes; see `ReorderStage`.

    Args:
        of_period: (n,) whether a row is of the period that the query names; None: it names none.
    """
    rows = ranked.order[:COMPARED]
    found = [chunks[id].indexed_text for id in pool.ids_at(rows)]
    kept, excluded = exclusion_in(query) or (query, "")
    if excluded and any(EXCEPT.search(text, 0, CHARACTERS_MAX) for text in found):  # "open daily except Mondays"
        kept, excluded = query, ""
    query_words, without = words_in(kept[:CHARACTERS_MAX]), frozenset(words_in(excluded)) - all_function_words()
    texts = [words_of(text, query_words, without) for text in found]
    if of_period is not None:
        inside = of_period[rows].tolist()
        texts = [own._replace(held=own.held | {PERIOD}) if at else own for own, at in zip(texts, inside, strict=True)]
    scores = ranked.scores[rows]
    order = fuller_first(texts, scores.tolist(), SCORE_EXCLUDING if without else SCORE)
    if order == sorted(order):
        return ranked
    with trace.stage(STAGE):
        changed = np.array(ranked.scores)
        changed[rows[order]] = scores
        return replace(
            ranked,
            order=np.concatenate([rows[order], ranked.order[COMPARED:]]),
            scores=changed,
            stages={**ranked.stages, STAGE: changed},
        )


def words_of(text: str, query: Sequence[str], excluded: frozenset[str] = frozenset()) -> Words:
    """The words of a text for a query; none of a text that is longer than `CHARACTERS_MAX`.

    Args:
        query: Its words in order, up to what it excludes.
        excluded: Words that it excludes.
    """
    words = words_in(text) if len(text) <= CHARACTERS_MAX else []
    every, function_words = frozenset(words), all_function_words()
    pairs = frozenset(pair for pair in pairwise(words) if not function_words.issuperset(pair))
    common = every.intersection(query)
    asked = [(at, word) for at, word in enumerate(words) if word in common]
    near = {(one, other) for (at, one), (then, other) in pairwise(asked) if then - at <= REACH}
    neighbours = near.intersection(pairwise(word for word in query if word in common))
    held = (common - function_words) | (common & NEGATIONS)
    held |= {ABSENT + word for word in excluded - every}
    return Words(every, pairs, held, sorted(word for _, word in asked), len(neighbours))


def fuller_first(texts: Sequence[Words], scores: Sequence[float], least: float = SCORE) -> list[int]:
    """The indices of n texts in their new order, best first.

    Args:
        scores: Of each text, falling.
        least: Smallest share of the other's score.
    """
    order: list[int] = []
    for new in range(len(texts)):
        at = len(order)
        while at and _comes_before(texts[new], texts[order[at - 1]], scores[new], least * scores[order[at - 1]]):
            at -= 1
        order.insert(at, new)
    return order


def _comes_before(new: Words, other: Words, score: float, least: float) -> bool:
    """Whether a text comes before another one, by the conditions at the top of this file."""
    more = new.held > other.held
    better_order = new.neighbours > other.neighbours and new.held == other.held and new.asked == other.asked
    if score < least or not (more or better_order):
        return False
    return _common(new.all, other.all) + _common(new.pairs, other.pairs) >= SHARED


def _common(one: frozenset[Any], other: frozenset[Any]) -> float:
    """The share of the smaller set that the other has, too; 0 if it is empty."""
    fewer = min(len(one), len(other))
    return len(one & other) / fewer if fewer else 0.0
