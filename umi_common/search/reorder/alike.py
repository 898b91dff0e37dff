"""Of alike candidates, put first the one that holds more of the query's words, or more of them in the query's order.

The rows of a table, the lines of a timetable and filled-in forms differ in a few words, and their scores differ little.
Of the best `COMPARED` candidates, from the first to the last, each moves forward as long as it passes the candidate
directly before it. Finally the i-th of them gets the score of the former i-th (`Best.in_order`).

For two candidates a and b, with the sets and functions below:

1. If the words of a are those of the query, in the same order, a passes b if score(a) >= `EQUAL_SCORE` * score(b), and
   b never passes a. This does not hold if b is also such a text, nor if content(a) = content(b) and only one of the two
   is a question, because the other may be its answer.
2. If b has only words of the query, and content(a) contains content(b) and is larger, a passes b if score(a) >=
   `EQUAL_SCORE` * score(b): asked "Who replaced the roof in Cork?", "Cork roof" says nothing.
3. Else a passes b if score(a) >= `SCORE` * score(b), common(words(a), words(b)) + common(pairs(a), pairs(b)) >=
   `SHARED`, and one of these rules holds, here with a query and the texts of a and b:

    more      held(a) contains held(b) and is larger
                  "Dominica 2010": "Dominica, GDP in 2010", "Dominica, GDP in 2000"
    order     held(a) = held(b), sorted(asked(a)) = sorted(asked(b)) and |neighbours(a)| > |neighbours(b)|
                  "from London to Paris": "Flight from London to Paris", "Flight from Paris to London"
              or |neighbours(a)| = |neighbours(b)| instead, and |touching(a)| > |touching(b)|
                  "aunt of Tom": "The aunt of Tom is Ann", "The aunt of Ann is Tom"
    earlier   held(a) = held(b), |neighbours(a)| >= |neighbours(b)|, and the words of held(a) that are much earlier in a
              are more than those that are much earlier in b
                  "Yusuf's leave": "Name: Yusuf. Days: 8. Type: leave. Deputy: Mira",
                                   "Name: Freya. Days: 8. Type: leave. Deputy: Yusuf"
    whole     held(a) = held(b), and whole(a) contains whole(b) and is larger
                  "vim": "install vim", "install vim-common"

For the text i of a candidate:

    words(i)       the set of its words
    pairs(i)       the set of its pairs of adjacent words, except pairs of two function words. Two records may have few
                   words in common, but share the names in them: (Osprey, Freight). Two texts of prose share few pairs.
    asked(i)       the sequence of the query's words in the text, with repetitions: of "Flight from Paris to London",
                   from, Paris, to, London
    content(i)     the set of the words of asked(i) without function words other than negations: Paris, London
    held(i)        content(i); if the query names a period and the text is of it, the period is one more element
    neighbours(i)  the set of the pairs of words that follow each other in asked(i) and in the query, at most `REACH`
                   words apart in the text. Words that the text lacks are first removed from the query: of
                   "London-Paris, 9:31", (London, Paris) is a pair.
    touching(i)    the set of the pairs of words that are adjacent in the query and in the text: (of, Tom)
    first(i, w)    the number of the text's words up to the first w, at least 1. w is much earlier in a than in b if
                   first(b, w) >= max(2 * first(a, w), `BEGINNING`): a text mostly names its subject first.
    whole(i)       the set of the query's words and hyphenated words, without function words and numbers, that the text
                   holds, but not only as a part of a longer hyphenated word

common(x, y) = |x and y| / min(|x|, |y|), 0 if a set is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Any

from umi_common.number_names import DIGITS_OF, ORDINAL_ENDINGS
from umi_common.pool import Bools
from umi_common.query.questions import EXCEPT, Exclusion
from umi_common.runtime.forks import cached_property
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best, inserted
from umi_common.search.reorder.sources import asks
from umi_common.search.reorder.words import TEXTS_KEPT, TermsOf, with_plain_signs, words_in
from umi_common.stores.lexical.languages import NEGATIONS, all_function_words
from umi_common.stores.lexical.numbers_in_text import BASE_UNITS, in_base_units, with_common_forms

COMPARED = 20
"""Number of best candidates that are compared: with 10, one train to Paris is lost among eighteen from there."""
SHARED = 0.58
"""Smallest sum of the two shares `common`, 0 to 2, of alike texts; two texts of prose rarely reach it."""
SCORE = 0.8
"""Smallest share of b's score with which a passes b by rule 3; 0.7 and 0.9 give nearly the same results."""
EQUAL_SCORE = 0.5
"""The same by the rules 1 and 2: a text with a much lower score because of its age (`decay`) does not pass."""
REACH = 3
"""Largest distance of neighbours in a text, in words: farther words of a form belong to different fields."""
BEGINNING = 8
"""Smallest first(b, w) of a word w that is much earlier in another text than in b: words before the eighth are all near
the beginning, where both texts name their subject."""
CHARACTERS_MAX = 20_000
"""Longest text, in characters, that is compared; a longer text counts as one without words, because reading them takes
1 ms. Of a text that may hold excluded words, so many characters are read."""
PERIOD = " "
"""An element of `Words.held` that is no word: it says that the text is of the period that the query names."""
THOUSANDS = re.compile(r"(?<=\d)[.,](?=\d{3}(?!\d))")
"""The sign between thousands: 11,500."""
AMOUNT = re.compile(rf"(?!(?:19|20)\d\d$)\d{{4,}}|\d+(?:{BASE_UNITS})")
"""A number of a query that is no year and that a text may write otherwise: 2500 as "2.5k", 1960mm as "1.96 m"."""
JOINED = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
"""A word with all words that hyphens join to it. Underscores and points join no words, because names in code are
compared by their parts."""
SENTENCE_END = re.compile(r"[.?!;\n]")


class AskedWords:
    """The words of a query, by which texts are compared."""

    def __init__(self, query: str) -> None:
        self.words = words_with_numbers(query)
        self.all = frozenset(self.words)
        self.content = self.all.difference(all_function_words()) | NEGATIONS.intersection(self.words)
        """The query's words without function words other than negations."""
        self.joined = frozenset(word for word in joined_in(query) - all_function_words() if not word[0].isdigit())
        """The query's words and hyphenated words, without function words and numbers."""
        parts = [word for word in self.joined if "-" not in word]
        self.joints = [*(self.joined - set(parts)), *(f"-{word}" for word in parts), *(f"{word}-" for word in parts)]
        """A text in ASCII that holds none of these holds each word of `joined` alone, or not at all."""
        self.read = reader_for(self.words)
        """Returns the words of a text."""


class Words:
    """The words of one text, and the query's words among them; the names are those at the top of this file.

    Most pairs of texts differ in `held`, so the other properties are computed when a comparison first needs them. A
    text longer than `CHARACTERS_MAX` counts as a text without words.
    """

    def __init__(self, text: str, query: AskedWords, *, of_period: bool = False) -> None:
        self._text, self._query = text, query
        self.words = query.read(text) if len(text) <= CHARACTERS_MAX else ()
        self.of_query = query.all.intersection(self.words)
        """The query's words in the text."""
        self.content = query.content & self.of_query
        self.held = self.content | {PERIOD} if of_period else self.content

    @cached_property
    def all(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def pairs(self) -> set[tuple[str, str]]:
        function_words = all_function_words()
        beside = pairwise(self.words)
        return {(a, b) for a, b in beside if a not in function_words or b not in function_words}

    @cached_property
    def whole(self) -> frozenset[str]:
        text = with_plain_signs(self._text).lower()
        has_joints = "-" in text and any(map(text.__contains__, self._query.joints))
        if text.isascii() and not has_joints:  # faster than `joined_in`
            return self._query.joined.intersection(self.words)
        return self._query.joined & joined_in(self._text) if self.words else frozenset()

    @cached_property
    def firsts(self) -> list[int]:
        """first(i, w) of each word of held(i), in alphabetical order."""
        return [1 + self.words.index(word) for word in sorted(self.content)]

    @cached_property
    def counts(self) -> dict[str, int]:
        """By word of asked(i), its number of occurrences there."""
        return {word: self.words.count(word) for word in self.of_query}

    @cached_property
    def order(self) -> tuple[int, int]:
        """Number of pairs in neighbours(i), and in touching(i), at the top of this file."""
        of_query = [(at, word) for at, word in enumerate(self.words) if word in self.of_query]
        distances = [(then - at, (word, after)) for (at, word), (then, after) in pairwise(of_query)]
        near = {pair for distance, pair in distances if distance <= REACH}
        adjacent = {pair for distance, pair in distances if distance == 1}
        asked = pairwise([word for word in self._query.words if word in self.of_query])
        return len(near.intersection(asked)), len(adjacent.intersection(pairwise(self._query.words)))


def reorder_alike(best: Best, *, query: str, typed: str = "", of_period: Bools | None = None) -> RankedPool:
    """The ranking in the order that the top of this file describes.

    Args:
        typed: The whole query, of which `query` may lack a frame ("can you tell me"); "" if no text counts as equal.
        of_period: (n,) whether a row is of the period that the query names; None: it names none.
    """
    asked = AskedWords(query[:CHARACTERS_MAX])
    inside = [False] * len(best.rows) if of_period is None else of_period[best.rows].tolist()
    texts = [Words(text, asked, of_period=at) for text, at in zip(best.texts, inside, strict=True)]
    scores = best.scores.tolist()
    whole = asked.read(typed)
    equal = [whole != () and text.words == whole for text in texts]

    def may_answer(one: int, other: int) -> bool:
        same_content = texts[one].content == texts[other].content
        return same_content and asks(best.chunks[one]) != asks(best.chunks[other])

    def passes(one: int, other: int) -> bool:
        a, b = texts[one], texts[other]
        near_enough = bool(scores[one] >= EQUAL_SCORE * scores[other])
        if equal[one] != equal[other] and not may_answer(one, other):
            return equal[one] and near_enough
        if a.content > b.content and b.words and b.all <= asked.all:
            return near_enough
        return scores[one] >= SCORE * scores[other] and _holds_more(a, b) and _alike(a, b)  # last: it takes the longest

    return best.in_order(inserted(best.order, passes))


def reader_for(query: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """The function by which texts are read, so that their numbers have the form of those in the query.

    It is `words_with_numbers` only if the query holds an amount, because forms of numbers take longer than the words.

    Args:
        query: `words_with_numbers` of the query.
    """
    if any(map(AMOUNT.fullmatch, query)):
        return words_with_numbers
    if any(map(str.isdecimal, query)):
        return lambda text: names_in_digits(words_in(THOUSANDS.sub("", text)))
    return words_in


@lru_cache(TEXTS_KEPT)
def words_with_numbers(text: str) -> tuple[str, ...]:
    """`words_in` of a text with numbers in a common form: "2500" is added to "2.5k", and "1960mm" replaces "1.96 m",
    and "4" replaces "fourth".

    The signs between thousands are removed. Else a text with "11,500" would hold the 11 of the query "2023-11-14".
    """
    return names_in_digits(words_in(THOUSANDS.sub("", with_common_forms(in_base_units(text)))))


def names_in_digits(words: Sequence[str]) -> tuple[str, ...]:
    """The words, with each name of a number in digits; an ordinal's behind its word: "floor 4", "fourth floor"."""
    found = [DIGITS_OF.get(word, word) for word in words]
    for at, (word, after) in enumerate(pairwise(words)):
        if word in DIGITS_OF and word.endswith(ORDINAL_ENDINGS) and after not in all_function_words():
            found[at : at + 2] = after, found[at]
    return tuple(found)


def joined_in(text: str) -> frozenset[str]:
    """The words of a text in lower case, each with the words that hyphens join to it."""
    return frozenset(JOINED.findall(text.lower()))


def _holds_more(a: Words, b: Words) -> bool:
    """Whether one of the rules "more", "order", "earlier" and "whole" holds for the texts a and b."""
    if a.held != b.held:
        return a.held > b.held
    if a.counts == b.counts and a.order > b.order:
        return True
    earlier = _much_earlier(a.firsts, b.firsts) > _much_earlier(b.firsts, a.firsts)
    return (earlier and a.order[0] >= b.order[0]) or a.whole > b.whole


def _much_earlier(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of words that are much earlier in one text than in the other; arguments are their `Words.firsts`."""
    return sum(b >= max(2 * a, BEGINNING) for a, b in zip(one, other, strict=True))


def _alike(one: Words, other: Words) -> bool:
    return _common(one.all, other.all) + _common(one.pairs, other.pairs) >= SHARED


def _common(one: Set[Any], other: Set[Any]) -> float:
    return len(one & other) / (min(len(one), len(other)) or 1)


def reorder_excluded(best: Best, *, exclusion: Exclusion, terms_of: TermsOf) -> RankedPool:
    """The ranking with candidates that hold excluded words behind those that hold only words that the query asks for.

    For "projects but not on AWS", both arms rank texts on projects on AWS first, because these hold most of the query's
    words. A candidate a passes b, which stands directly before a, if lacks(a) contains lacks(b) and is larger, and
    held(a) contains held(b):

        lacks(i)    the set of the excluded words that text i lacks
        held(i)     the set of the words that the query asks for and text i holds

    Neither set has function words. A text holds a word if it holds the word itself or its terms. Terms alone would miss
    words of other languages, because a single word is stemmed as English, and a text by the rules of its language. The
    order stays if a candidate itself states an exception with an excluded word ("open daily except Mondays"): the query
    may ask for that text.
    """
    texts = [text[:CHARACTERS_MAX] for text in best.texts]
    wanted, unwanted = (
        {word: frozenset(terms_of(word)) for word in words_in(text) if word not in all_function_words()}
        for text in (exclusion.kept, exclusion.excluded)
    )
    after_except = [text[found.end() :] for text in texts for found in EXCEPT.finditer(text)]
    exceptions = " ".join(SENTENCE_END.split(each, maxsplit=1)[0] for each in after_except)
    if _words_held(unwanted, exceptions, terms_of):
        return best.ranked
    found = [_words_held({**wanted, **unwanted}, text, terms_of) for text in texts]
    held = [wanted.keys() & own for own in found]
    lacks = [unwanted.keys() - own for own in found]

    def passes(one: int, other: int) -> bool:
        return lacks[one] > lacks[other] and held[one] >= held[other]

    best.facts["holding"] = sum(len(lacked) < len(unwanted) for lacked in lacks)
    return best.in_order(inserted(best.order, passes))


def _words_held(words: Mapping[str, frozenset[str]], text: str, terms_of: TermsOf) -> set[str]:
    """The words that a text holds; `words`: by word that is looked for, its terms."""
    text_words, text_terms = set(words_in(text)), frozenset(terms_of(text))
    return {word for word, terms in words.items() if word in text_words or terms <= text_terms}
