"""Put a candidate before an alike one if it holds more of the query's words, or more of them in the query's order.

The rows of a table, the lines of a timetable and filled-in forms differ in a few words, and their scores differ little:
for "GDP per capita Dominica 2010" the row of 2000 may be first, and for "from London to Paris" the flights back. Among
the best `COMPARED` candidates, a is put before b if both of these are true:

    common(words(a), words(b)) + common(pairs(a), pairs(b)) >= `SHARED`
    score(a) >= `SCORE` * score(b)

and one of these:

    held(a) contains held(b) and is larger
    held(a) = held(b) and apart(a) contains apart(b) and is larger
    held(a) = held(b), sorted(asked(a)) = sorted(asked(b)) and |neighbours(a)| > |neighbours(b)|
    held(a) = held(b), |neighbours(a)| >= |neighbours(b)| and start(b) >= max(2 * start(a), `BEGINNING`)

common(x, y) = |x and y| / min(|x|, |y|). words(i) is the set of the words of text i, and pairs(i) that of its pairs of
adjacent words that are not both function words: records of two layouts have few words in common, but more of them side
by side than prose has.
asked(i) is the sequence of the query's words in the text of i, with repeated words. held(i) is the set of these words
without function words, but with negations; if the query names a period and i is of it, the period is one more word.
neighbours(i) is the set of pairs of words that follow each other in asked(i), at most `REACH` words apart in the text,
and also in the query if the words that the text lacks are left out of it. start(i) is the number of words at the
beginning of the text that hold all of held(i): a text mostly names its subject first, and later what it refers to.

apart(i) is the set of the query's words and hyphenated words that text i holds as they are, and not as parts of other
ones: for "vim", the record of "vim" and not that of "vim-common".

The scores of the candidates are then given to them anew, in falling order. Measured in docs/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from umi_common.pool import Bools, Pool
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.passing import in_order, order_after_passing
from umi_common.search.reorder.words import words_in
from umi_common.search.trace import TraceBuilder
from umi_common.stores.lexical.languages import NEGATIONS, all_function_words
from umi_common.types import Chunk

STAGE = "alike"
COMPARED = 10
"""Best candidates that are compared; with 20 the results are the same."""
SHARED = 0.58
"""Smallest sum of the two shares, 0 to 2; two texts of prose rarely reach it."""
SCORE = 0.8
"""Smallest share of the other's score; 0.7 and 0.9 give nearly the same results."""
REACH = 3
"""Largest distance of neighbours in a text, in words: farther words of a form belong to different fields."""
BEGINNING = 8
"""A text that holds all words within fewer words than this names them first: "Show Me the Money", "The Money"."""
CHARACTERS_MAX = 20_000
"""A longer text is compared with no other: reading its words would take 1 ms."""
PERIOD = " "
"""A member of `Words.held`, beside words: the text is of the period that the query names."""
JOINED = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
"""A word with all that is joined to it by hyphens. With underscores and points, too, names in code count as longer ones
(CoSQA with MiniLM -.005)."""


class Words(NamedTuple):
    """The words of one text, and those that the query asks for; the formulas are at the top of this file."""

    all: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    held: frozenset[str]
    apart: frozenset[str]
    asked: Sequence[str]
    """Sorted."""
    neighbours: int
    """Number of pairs."""
    start: int
    """Number of words."""


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
    query = query[:CHARACTERS_MAX]
    query_words = words_in(query)
    joined = frozenset(word for word in joined_in(query) - all_function_words() if not word[0].isdigit())
    texts = [words_of(chunks[id].indexed_text, query_words, joined) for id in pool.ids_at(rows)]
    if of_period is not None:
        inside = of_period[rows].tolist()
        texts = [own._replace(held=own.held | {PERIOD}) if at else own for own, at in zip(texts, inside, strict=True)]
    with trace.stage(STAGE):
        return in_order(ranked, fuller_first(texts, ranked.scores[rows].tolist()), STAGE)


def joined_in(text: str) -> frozenset[str]:
    """The words of a text in lower case, each with what is joined to it."""
    return frozenset(JOINED.findall(text.lower()))


def words_of(text: str, query: Sequence[str], joined: frozenset[str] = frozenset()) -> Words:
    """The words of a text for a query; none of a text that is longer than `CHARACTERS_MAX`.

    Args:
        query: Its words in order.
        joined: `joined_in` of the query, without function words and numbers.
    """
    words = words_in(text) if len(text) <= CHARACTERS_MAX else []
    every, function_words = frozenset(words), all_function_words()
    pairs = frozenset(pair for pair in pairwise(words) if not function_words.issuperset(pair))
    common = every.intersection(query)
    asked = [(at, word) for at, word in enumerate(words) if word in common]
    near = {(one, other) for (at, one), (then, other) in pairwise(asked) if then - at <= REACH}
    neighbours = near.intersection(pairwise(word for word in query if word in common))
    held = (common - function_words) | (common & NEGATIONS)
    start = max((words.index(word) for word in held), default=0)
    apart = joined & joined_in(text) if words else frozenset[str]()
    return Words(every, pairs, held, apart, sorted(word for _, word in asked), len(neighbours), start + 1)


def fuller_first(texts: Sequence[Words], scores: Sequence[float]) -> list[int]:
    """The indices of n texts in their new order, best first.

    Args:
        scores: Of each text, falling.
    """

    def passes(one: int, other: int) -> bool:
        return scores[one] >= SCORE * scores[other] and _is_fuller(texts[one], texts[other])

    return order_after_passing(len(texts), passes)


def _is_fuller(new: Words, other: Words) -> bool:
    """Whether a text comes before another one, by the conditions at the top of this file except that of the scores."""
    more = new.held > other.held
    better_order = new.neighbours > other.neighbours and new.asked == other.asked
    apart = new.apart > other.apart
    earlier = new.neighbours >= other.neighbours and other.start >= max(2 * new.start, BEGINNING)
    if not (more or (new.held == other.held and (apart or better_order or earlier))):
        return False
    return _common(new.all, other.all) + _common(new.pairs, other.pairs) >= SHARED


def _common(one: frozenset[Any], other: frozenset[Any]) -> float:
    """The share of the smaller set that the other has, too; 0 if it is empty."""
    fewer = min(len(one), len(other))
    return len(one & other) / fewer if fewer else 0.0
