"""Of alike candidates the one that holds more of the query's words comes first.

The rows of a table, the lines of a timetable and filled-in forms differ in a few words, and their scores differ little:
for "GDP per capita Dominica 2010" the row of 2000 may be first. Among the best `COMPARED` candidates, a is put before b
if all of this is true:

    held(a) contains held(b) and is larger. held(i) is the set of the query's words in the text of i, without function
    words. Where the query names a period, being of that period counts as one more word.
    |words(a) and words(b)| >= `SHARED` * min(|words(a)|, |words(b)|)
    score(a) >= `SCORE` * score(b)

The candidates then get the same scores, in falling order. Measured in docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from umi_common.pool import Bools, Pool
from umi_common.search.exact import words_in
from umi_common.search.rank import RankedPool
from umi_common.search.trace import TraceBuilder
from umi_common.stores.lexical.languages import all_function_words
from umi_common.types import Chunk

STAGE = "alike"
COMPARED = 5
"""Best candidates that are compared; with 10 or 15 hardly another question is answered first."""
SHARED = 0.5
"""Smallest share of the shorter text's words that alike texts have in common. Of texts in prose few reach it."""
SCORE = 0.8
"""Smallest share of the other's score; 0.7 and 0.9 give nearly the same results."""
CHARACTERS_MAX = 20_000
"""A longer text is alike to none: reading its words would take 1 ms."""
PERIOD = " "
"""Stands for the period that the query names, among words."""

Words = frozenset[str]


def reorder_alike(
    query: str,
    pool: Pool,
    ranked: RankedPool,
    chunks: Mapping[str, Chunk],
    of_period: Bools | None,
    trace: TraceBuilder,
) -> RankedPool:
    """The ranking with its first `COMPARED` rows in the order that the top of this file describes.

    Args:
        pool: The candidates.
        ranked: Their order so far.
        chunks: Chunk of each ranked row, by id.
        of_period: (n,) whether a row is of the period that the query names; None: it names none.
        trace: Gets the stage, if it changes the order.
    """
    rows = ranked.order[:COMPARED]
    words = [words_of(chunks[id].indexed_text) for id in pool.ids_at(rows)]
    asked, scores = words_of(query) - all_function_words(), ranked.scores[rows]
    held = [own & asked for own in words]
    if of_period is not None:
        held = [own | {PERIOD} if inside else own for own, inside in zip(held, of_period[rows].tolist(), strict=True)]
    order = fuller_first(words, held, scores.tolist())
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


def words_of(text: str) -> Words:
    """The words of a text in lower case; none of a text that is longer than `CHARACTERS_MAX`."""
    return frozenset(words_in(text)) if len(text) <= CHARACTERS_MAX else frozenset()


def fuller_first(words: Sequence[Words], held: Sequence[Words], scores: Sequence[float]) -> list[int]:
    """The indices of n texts in their new order, best first.

    Args:
        words: Of each text.
        held: Those of them that count as words of the query.
        scores: Of each text, falling.
    """
    order: list[int] = []
    for new in range(len(words)):
        at = len(order)
        while at and _passes(words, held, scores, new, order[at - 1]):
            at -= 1
        order.insert(at, new)
    return order


def _passes(words: Sequence[Words], held: Sequence[Words], scores: Sequence[float], new: int, other: int) -> bool:
    if not held[new] > held[other] or scores[new] < SCORE * scores[other]:
        return False
    fewer = min(len(words[new]), len(words[other]))
    return fewer > 0 and len(words[new] & words[other]) >= SHARED * fewer
