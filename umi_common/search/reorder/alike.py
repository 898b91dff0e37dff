"""Of alike candidates, put first the one that holds more of the query's words, or more of them in the query's order;
and put candidates that hold excluded words last (`reorder_excluded`).

The rows of a table, the lines of a timetable and filled-in forms differ in a few words, and their scores differ little.
Of the best `COMPARED` candidates, from the first to the last, each moves forward as long as it passes the candidate
directly before it. Finally the i-th of them gets the score of the former i-th (`Best.in_order`).

For two candidates a and b, with the sets and functions below:

1. If a has exactly the words of the query, in the same order, and b has not, a passes b if score(a) >= `EQUAL_SCORE` *
   score(b), and b never passes a. The rule does not apply if content(a) = content(b) and only one of the two is a
   question, because the other may be its answer.
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

    words(i)       the set of the words of the text
    pairs(i)       the set of its pairs of adjacent words, except pairs of two function words. Two records may have few
                   words in common, but share the names in them: (Osprey, Freight). Two texts of prose share few pairs.
    asked(i)       the sequence of the query's words in the text, with repetitions: of "Flight from Paris to London",
                   from, Paris, to, London
    content(i)     the set of the words of asked(i) without function words other than negations: Paris, London. It lacks
                   words that either only the query or only the text negates: "E27 not dimmable", "dimmable, not for
                   outdoors". Of a negation in the query, only its first word must be negated in the text, too. It also
                   lacks words that a mail only quotes (`without_quoted`), if another candidate says all that it says or
                   quotes. Else the mail may forward a text that is nowhere else.
    held(i)        content(i); if the query names a period and the text is of it, the period is one more element; so is
                   each labelled number of the query with which a part of the text begins: "§ 44 Fees"
    neighbours(i)  the set of the pairs of words that are adjacent in asked(i), at most `REACH` words apart in the text,
                   and adjacent in the query without the words that the text lacks. For the query "from London to
                   Paris", (London, Paris) is a pair of "London-Paris, 9:31".
    touching(i)    the set of the pairs of words that are adjacent in the query and in the text: (of, Tom)
    first(i, w)    the place of the first w among the words of the text, from 1. w is much earlier in a than in b if
                   first(b, w) >= max(2 * first(a, w), `BEGINNING`): a text mostly names its subject first.
    whole(i)       the set of the query's words, without function words and numbers, that the text holds at least once
                   outside of longer hyphenated words. Words joined by hyphens count as one word here.

common(x, y) = |x and y| / min(|x|, |y|), 0 if a set is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Any

from umi_common.number_names import DIGITS_OF, ORDINAL_ENDINGS
from umi_common.pool import Bools
from umi_common.query.questions import EXCEPT, Exclusion
from umi_common.runtime.forks import cached_property
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import CANDIDATES, Best, inserted
from umi_common.search.reorder.sources import asks
from umi_common.search.reorder.speaker import without_quoted
from umi_common.search.reorder.words import (
    FIRST_LETTERS,
    TEXTS_KEPT,
    TermsOf,
    content_words,
    with_plain_signs,
    words_in,
)
from umi_common.stores.lexical.languages import ENGLISH, NEGATIONS, all_function_words, function_words
from umi_common.stores.lexical.numbers_in_text import BASE_UNITS, in_base_units, with_common_forms

COMPARED = 20
"""Number of best candidates that are compared: with 10, the one train to Paris is not found among 18 from Paris."""
SHARED = 0.58
"""Smallest sum of the two values of `common`, 0..2, with which two texts are alike; texts of prose rarely reach it."""
SCORE = 0.8
"""Smallest score(a) / score(b) with which a passes b by rule 3; 0.7 and 0.9 give nearly the same results."""
EQUAL_SCORE = 0.5
"""The same for the rules 1 and 2: an old text, whose score `decay` has made much lower, does not pass."""
REACH = 3
"""Largest distance of neighbours in a text, in words: words further apart may be in different fields of a form."""
BEGINNING = 8
"""Smallest first(b, w) with which w is much earlier in a than in b: b may name its subject in its first seven words."""
CHARACTERS_MAX = 20_000
"""Length, in characters, of the longest text that is compared; a longer text counts as one without words, because
reading them takes 1 ms. `reorder_excluded` reads this many characters of each text."""
PERIOD = " "
"""The element of `Words.held` for the period that the query names. It cannot be a word."""
THOUSANDS = re.compile(r"(?<=\d)[.,](?=\d{3}(?!\d))")
"""The sign between thousands: 11,500."""
AMOUNT = re.compile(rf"(?!(?:19|20)\d\d$)\d{{4,}}|\d+(?:{BASE_UNITS})")
"""A number of a query that is no year and that a text may write otherwise: 2500 as "2.5k", 1960mm as "1.96 m"."""
JOINED = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
"""A word with all words that hyphens join to it. Underscores and points do not join words: names in code are compared
by their parts."""
_NEGATED_BEHIND = (
    r"\bnon-[^\W_]+|(?:\b(?:not|cannot|no|never|without)|n['\u2019]t)\b"
    r"(?:(?!\b(?:and|but|so|yet|because|while|although|though)\b)[^.,:;?!\n])*"
)
NEGATED_BEHIND = re.compile(f"({_NEGATED_BEHIND})", re.IGNORECASE)
"""A negation with the words behind it that it negates: "non-toxic"; or up to a sign or conjunction: "is not finished |
but runs on AWS"."""
NEGATED = re.compile(
    rf"(\b[^\W_]+-free\b|\b[^\W_]+: (?:no|none)\b(?=\s*(?:[.,;|\n]|$))|{_NEGATED_BEHIND})", re.IGNORECASE
)
"""The same, also with the word before it: "nut-free", "Lift: no"."""
NEGATING = frozenset({"not", "cannot", "no", "never", "without", "t", "free", "none", "non"})
"""A text without any of these words has no match of `NEGATED`; "t" is of "isn't"."""
SENTENCE_END = re.compile(r"[.?!;\n]")


class AskedWords:
    """The words of a query, by which texts are compared."""

    def __init__(self, query: str) -> None:
        self.sequence = words_with_numbers(query)
        self.words = frozenset(self.sequence)
        self.content = self.words - all_function_words() | self.words & NEGATIONS
        """The query's words without function words other than negations."""
        negations = [words_with_numbers(found) for found in NEGATED.findall(query)]
        self.affirmed = self.content.difference(*negations) - NEGATIONS
        """The words of `content` that the query does not negate."""
        can_be_negated = self.content - NEGATIONS - NEGATING
        first = (next(filter(can_be_negated.__contains__, words), None) for words in negations)
        self.negated = frozenset(filter(None, first))
        """The first word of `content` behind each negation of the query."""
        self.joined = frozenset(word for word in joined_in(query) - all_function_words() if not word[0].isdigit())
        """The query's words, without function words and numbers; words joined by hyphens are one word."""
        parts = [word for word in self.joined if "-" not in word]
        self.joints = [*(self.joined - set(parts)), *(f"-{word}" for word in parts), *(f"{word}-" for word in parts)]
        """An ASCII text without any of these holds no hyphenated word that is, or contains, a word of `joined`."""
        self.read = reader_for(self.sequence)
        """Returns the words of a text."""


class Words:
    """The words of one text, and the query's words among them, as the top of this file describes them.

    Most pairs of texts differ in `held`, so the other properties are computed when a comparison first needs them.
    """

    def __init__(self, text: str, query: AskedWords, *, further: Set[Any] = frozenset()) -> None:
        self._text, self._query = text, query
        self.sequence = query.read(text) if len(text) <= CHARACTERS_MAX else ()
        self.of_query = query.words.intersection(self.sequence)
        """The query's words in the text."""
        own = without_quoted(text) if self.of_query else text
        said = self.of_query if own is text else self.of_query.intersection(query.read(own))
        self.quoted = query.content & (self.of_query - said)
        """The content words of the query that are only in what a mail quotes from others."""
        self.content = query.content & said
        if self.content and (query.negated or not NEGATING.isdisjoint(self.sequence)):
            stated, negated = parted_by_negations(own)
            inside = frozenset(query.read(negated))
            only_negated = query.affirmed & inside
            if only_negated:
                only_negated = only_negated.difference(query.read(stated))
            self.content -= only_negated | (query.negated - inside)
        self.held: Set[Any] = self.content | further if further else self.content

    def count_quoted(self) -> None:
        """Let the words that the mail only quotes be of `content` and `held`, too."""
        self.content, self.held, self.quoted = self.content | self.quoted, self.held | self.quoted, frozenset()

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(self.sequence)

    @cached_property
    def pairs(self) -> set[tuple[str, str]]:
        function_words = all_function_words()
        beside = pairwise(self.sequence)
        return {(a, b) for a, b in beside if a not in function_words or b not in function_words}

    @cached_property
    def whole(self) -> frozenset[str]:
        text = with_plain_signs(self._text).lower()
        has_joints = "-" in text and any(map(text.__contains__, self._query.joints))
        if not self.sequence:
            return frozenset()
        if text.isascii() and not has_joints:  # faster than `joined_in`; `sequence` has digits in place of number names
            return self._query.joined.intersection(words_in(self._text))
        return self._query.joined & joined_in(self._text)

    @cached_property
    def firsts(self) -> list[int]:
        """first(i, w) of each word of content(i), in alphabetical order of the words."""
        return [1 + self.sequence.index(word) for word in sorted(self.content)]

    @cached_property
    def counts(self) -> dict[str, int]:
        """By word of asked(i), its number of occurrences there."""
        return {word: self.sequence.count(word) for word in self.of_query}

    @cached_property
    def order(self) -> tuple[int, int]:
        """(|neighbours(i)|, |touching(i)|)."""
        of_query = [(at, word) for at, word in enumerate(self.sequence) if word in self.of_query]
        distances = [(then - at, (word, after)) for (at, word), (then, after) in pairwise(of_query)]
        near = {pair for distance, pair in distances if distance <= REACH}
        adjacent = {pair for distance, pair in distances if distance == 1}
        query = self._query.sequence
        without_missing = [word for word in query if word in self.of_query]
        return len(near.intersection(pairwise(without_missing))), len(adjacent.intersection(pairwise(query)))


def reorder_alike(best: Best, *, query: str, typed: str = "", of_period: Bools | None = None) -> RankedPool:
    """The ranking in the order that the top of this file describes.

    Args:
        typed: The whole query, of which `query` may lack a frame ("can you tell me"); "" if no text counts as equal.
        of_period: (n,) whether a row is of the period that the query names; None: it names none.
    """
    asked = AskedWords(query[:CHARACTERS_MAX])
    further: list[frozenset[Any]] = [best.ranked.parts.get(row, frozenset()) for row in best.rows.tolist()]
    if of_period is not None:
        further = [own | {PERIOD} if of_period[row] else own for row, own in zip(best.rows, further, strict=True)]
    texts = [Words(text, asked, further=own) for text, own in zip(best.texts, further, strict=True)]
    said = [text.content for text in texts]
    for text in texts:
        if text.quoted and not any(other >= text.content | text.quoted for other in said):
            text.count_quoted()
    scores = best.scores.tolist()
    typed_words = asked.read(typed)
    equal = [typed_words != () and text.sequence == typed_words for text in texts]

    def may_answer(one: int, other: int) -> bool:
        same_content = texts[one].content == texts[other].content
        return same_content and asks(best.chunks[one]) != asks(best.chunks[other])

    def passes(one: int, other: int) -> bool:
        a, b = texts[one], texts[other]
        near_enough = bool(scores[one] >= EQUAL_SCORE * scores[other])
        if equal[one] != equal[other] and not may_answer(one, other):
            return equal[one] and near_enough
        if a.content > b.content and b.sequence and (b.words <= asked.words or a.content <= b.content | b.quoted):
            return near_enough
        return scores[one] >= SCORE * scores[other] and _holds_more(a, b) and _alike(a, b)  # last: it takes the longest

    return best.in_order(inserted(best.order, passes))


def parted_by_negations(text: str) -> tuple[str, str]:
    """(what the text states, what it negates): the text without, and in, the matches of `NEGATED`."""
    lower = text.lower()
    before = "-free" in lower or ": no" in lower  # else the faster pattern finds the same
    parts = (NEGATED if before else NEGATED_BEHIND).split(text)
    return " ".join(parts[::2]), " ".join(parts[1::2])


def reader_for(query: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """The function that returns the words of a text, with the numbers in the form that they have in the query.

    It is `words_with_numbers` only if the query holds an amount, because that function takes longer than the others.

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
    """`words_in` of a text with numbers in a common form: "2500" is added to "2.5k", "1960mm" replaces "1.96 m", and
    "4" replaces "fourth".

    The signs between thousands are removed. Else a text with "11,500" would hold the 11 of the query "2023-11-14".
    """
    return names_in_digits(words_in(THOUSANDS.sub("", with_common_forms(in_base_units(text)))))


def names_in_digits(words: Sequence[str]) -> tuple[str, ...]:
    """The words, with digits in place of names of numbers; "fourth floor" becomes "floor 4"."""
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
    return _common(one.words, other.words) + _common(one.pairs, other.pairs) >= SHARED


def _common(one: Set[Any], other: Set[Any]) -> float:
    return len(one & other) / (min(len(one), len(other)) or 1)


def reorder_excluded(best: Best, *, exclusion: Exclusion, terms_of: TermsOf, only_alike: bool = False) -> RankedPool:
    """The ranking with candidates that hold excluded words moved back.

    For "projects but not on AWS", both arms rank texts on projects on AWS first, because these hold most of the query's
    words. A candidate a passes b if lacks(a) contains lacks(b) and is larger, and held(a) contains held(b):

        lacks(i)    the set of the excluded words that text i lacks, or holds only behind a negation ("not on AWS") or
                    before "free" ("sugar free")
        held(i)     the set of the words that the query asks for and text i holds

    Neither set has function words; an excluded word alone may be one of another language, such as "soy". A text holds a
    word if it holds the word itself or its terms. Terms alone would miss words of other languages, because a single
    word is stemmed as English, and a text by the rules of its language. The order does not change if one of the first
    `CANDIDATES` states an exception with an excluded word, as "open daily except Mondays" does: the query may ask for
    that text. Further candidates take part only if all of the first `CANDIDATES` hold excluded words, as of many
    invoices from Acme.

        1. Each of the first `CANDIDATES` moves forward as long as it passes the one directly before it.
        2. From the first to the last, each moves directly before the first that it passes, also if texts on other
           subjects stand between, if one of the first `COMPARED` with the same lacks and held as the passed one is
           alike to it by rule 3 at the top of this file.

    Args:
        only_alike: Whether step 1 is left out. It is left out for "not": "foods that are not safe for dogs" would find
            any text on foods before "Grapes are toxic to dogs".
    """
    order, texts = best.order, [text[:CHARACTERS_MAX] for text in best.texts]
    english, typed = function_words([ENGLISH]), words_in(exclusion.excluded)
    excluded = content_words(exclusion.excluded) or tuple(word for word in typed if word not in english)
    wanted, unwanted = (
        {word: frozenset(terms_of(word)) for word in names_in_digits(words)}
        for words in (content_words(exclusion.kept), excluded)
    )
    unwanted |= {word: frozenset([word]) for word in joined_in(exclusion.excluded) if "-" in word}
    if _states_exception([texts[at] for at in order[:CANDIDATES]], unwanted, terms_of):
        return best.ranked
    free_of = re.compile(rf"\b(?:{'|'.join(map(re.escape, unwanted))}) free\b", re.IGNORECASE)  # "sugar free"
    is_double_negation = NEGATED.search(exclusion.excluded) is not None  # "rolls, not gluten-free"

    def kind_of(text: str) -> _Kind:
        stated = free_of.sub("", text if is_double_negation else parted_by_negations(text)[0])
        lacks = unwanted.keys() - _words_held(unwanted, stated, terms_of)
        return frozenset(lacks), frozenset(_words_held(wanted, text, terms_of))

    kinds = {at: kind_of(texts[at]) for at in order[:CANDIDATES]}
    if all(len(lacks) < len(unwanted) for lacks, _ in kinds.values()):
        kinds |= {at: kind_of(texts[at]) for at in order[CANDIDATES:]}
    best.facts["holding"] = sum(len(lacks) < len(unwanted) for lacks, _ in kinds.values())
    first, further = order[:CANDIDATES], order[CANDIDATES : len(kinds)]
    if not only_alike:
        first = inserted(first, lambda one, other: _lacks_more(kinds[one], kinds[other]))
    asked = AskedWords(f"{exclusion.kept}{exclusion.excluded}")
    words = {at: Words(texts[at], asked) for at in kinds}
    moved = _before_first_passed([*first, *further], kinds, lambda one, other: _alike(words[one], words[other]))
    return best.in_order([*moved, *order[len(moved) :]])


_Kind = tuple[frozenset[str], frozenset[str]]
"""(lacks(i), held(i)) of a text, as `reorder_excluded` describes them."""


def _lacks_more(one: _Kind, other: _Kind) -> bool:
    """Whether texts of kind `one` lack more of the excluded words, and hold all wanted words that the others hold."""
    return one[0] > other[0] and one[1] >= other[1]


def _before_first_passed(
    order: Sequence[int], kinds: Mapping[int, _Kind], alike: Callable[[int, int], bool]
) -> list[int]:
    """Step 2 of `reorder_excluded`. Most texts are of the same few kinds, which are compared before the texts."""
    of_all = set(kinds.values())
    below = {kind: {other for other in of_all if _lacks_more(kind, other)} for kind in of_all}
    after: list[int] = []
    for new in order:
        passed = below[kinds[new]]
        passed = {kinds[at] for at in order[:COMPARED] if kinds[at] in passed and alike(new, at)}
        places = (place for place, other in enumerate(after) if kinds[other] in passed)
        after.insert(next(places, len(after)) if passed else len(after), new)
    return after


def _states_exception(texts: Sequence[str], words: Mapping[str, frozenset[str]], terms_of: TermsOf) -> bool:
    """Whether a text has one of the words behind "except" in the same sentence."""
    after_except = [text[found.end() :] for text in texts for found in EXCEPT.finditer(text)]
    exceptions = " ".join(SENTENCE_END.split(each, maxsplit=1)[0] for each in after_except)
    return bool(_words_held(words, exceptions, terms_of))


def _words_held(words: Mapping[str, frozenset[str]], text: str, terms_of: TermsOf) -> set[str]:
    """Of `words`, which has the terms by word, the words that the text holds."""
    found = words_in(text)
    held, lower = words.keys() & found, text.lower()
    if any(map(str.isdecimal, words)):
        held |= words.keys() & names_in_digits(found)
    if "-" in text or not text.isascii():
        held |= words.keys() & joined_in(text)
    may_hold = [word for word in words.keys() - held if not text.isascii() or _begun_in(lower, words[word])]
    text_terms = frozenset(terms_of(text)) if may_hold else frozenset[str]()
    return held | {word for word in may_hold if words[word] <= text_terms}


def _begun_in(text: str, terms: Iterable[str]) -> bool:
    """Whether a text holds the first letters of all terms; reducing it to its terms takes long."""
    return all(term[:FIRST_LETTERS] in text for term in terms)
