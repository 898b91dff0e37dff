"""Raise the candidates that hold a number of the query beside the same word or sign.

For the query "when does revision 7 open", BM25 scores "revision 8 opens at 7" as high as "revision 7 opens at 11". A
number pair is a number or a single letter, and the word or sign beside it, which is compared by its terms:

    text                   its number pairs
    revision 7 opens       (revision, 7), (7, opens)
    minutes no. 5          (minutes, 5), (no, 5)
    2021 edition           (edition, 2021), as of "edition 2021"
    the ninth night        (night, 9), as of "night 9"; (9, night)
    the 2nd world war      (world, 2), (war, 2) since "war" is in `NUMBERED`; (2, world)
    4. Loosen the nut      (any label, 4) where a line begins, as of "step 4" or "question 4"; (4, loosen)
    ## 4 Oil change        (any label, 4), as of "chapter 4"; (4, oil)
    v3.2 notes             (3.2) alone, since BM25 does not see the order of its parts; (3.2, notes)
    API v3                 (version, 3)
    5 to 10 kg             (5:10) alone, if the query has this range, or two labelled numbers: "chapter 5, verse 10"
    INV-2023-00108         (inv, 108), which "invoice 108" holds, too, as of an abbreviation
    one of them            none: names of numbers, ordinals and letters form no pair with a function word

A label and its abbreviation ("rev. 5", "§ 5") are equal. A number holds a digit and no letter, except that it may end
in a letter ("clause 9.b"), or it is a code of several parts ("v3.2"). The query may name it ("night eight"). These
forms of a number are equal:

    "3.2"            "v3.2"
    "HIS 258"        "HIS258"
    "Henry 8"        "Henry VIII", up to "XXXIX"
    "42nd"           "42", "forty-two", "forty-second"
    "80 cm"          "80cm", "0.8 m": see `reader_of_measures`
    "5-10"           "5 to 10", "between 5 and 10": a range
    "5:10"           "5 (10)", for "chapter 5, verse 10" or "verse 10 of chapter 5": labelled numbers
    "17:30"          "5:30 pm", "17h30": see `reader_of_measures`

For candidate i with score(i) > 0:

    final(i) = words.raised(score, g)(i) + words.best_added(score, g, key)(i), after words.earlier_first has changed g
    g(p, i) = 1 - offset of the number / length of the text, 1 more if the label of p begins a line that is no sentence:
        "## Part II: Cats" is this part, others mention it; the largest of all p in candidate i; 0 if i does not hold p
    key(p) = ramp(x, 0.5, 0.9): 0 up to x = 0.5, 1 from x = 0.9 on, and linear between
    x = of the candidates that do not hold p, the share with the word of p before another number; 0 if the number of p
        stands before its word ("7 days"), because quantities in a question are often not exact

g is larger near the start of a text, because a text mostly names its subject first ("revision 7 ... replaces revision
5"). If nearly every candidate is a "sample" with a number, the number of a sample is its key: it says more than all
other words of the query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise, takewhile
from typing import NamedTuple
from unicodedata import category

import numpy as np

from umi_common.number_names import BELOW_100, DIGITS_OF, NUMBER_NAME, ORDINAL_ENDINGS, digits_of, names_replaced
from umi_common.pool import Floats, Ints, Pool
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import CANDIDATES, FAR_CANDIDATES, Best
from umi_common.search.reorder.words import (
    DIGITS,
    PARTS_MAX,
    TermsOf,
    bare,
    best_added,
    earlier_first,
    near_best,
    raised,
    up_to_last,
    words_in,
)
from umi_common.stores.lexical.languages import ENGLISH, all_function_words, function_words
from umi_common.stores.lexical.numbers_in_text import BASE_UNITS, MEASURE, NUMBERED, in_24_hours, in_base_units

RECORD_TERMS_MAX, HOLDING_SHARE = 100, 0.6
"""Texts are read up to the last of the first `FAR_CANDIDATES` candidates that has at most `RECORD_TERMS_MAX` terms and
at least this share of the best BM25: if each record holds "item 1", the record of "minutes no. 1" may have any rank."""
OCCURRENCES_MAX = 500
"""Largest number of occurrences of the query's numbers that are read in a text: so many take about 7 ms. Only long
tables hold more."""
YEAR = re.compile(r"\d{4}")
PART_OF_A_WORD = re.compile(r"(?:\w|\d[.,:-])\Z")
"""Matches before digits that are the end of a longer word or number."""
WORD = re.compile(r"[§#№$€£%°]|\w[^\s§#№$€£%°]*")
"""A word, or a sign that stands for one."""
TWO_WORDS = re.compile(rf"({WORD.pattern})(?: ({WORD.pattern}))?")
"""A word, and the next one if only a space is between them."""
NUMBER_WORDS = frozenset({"no", "nr", "num", "number", "nº", "numéro", "número", "numero", "nummer", "#"})
"""Words between a label and its number: "minutes no. 5" also holds the pair of "minutes 5"."""
ONE_TO_TWELVE = "|".join(list(BELOW_100)[1:13])
"""The names of these numbers, as alternatives of a pattern. More of them would make each search for a number slower."""
VERSION_LABEL, MAJOR_VERSION = "version", re.compile(r"v\d+")
"""A label, and a number behind "v" that has it. A number with a point, such as "v3.2", is a pair by itself, and the
label would find texts that only say "changed in version 3.2"."""
ABBREVIATION_LETTERS = (2, 3, 4)
"""Numbers of letters of an abbreviated label: "rev. 5" is the same pair as "revision 5"."""
SECTIONS = ("section", "sección", "secção", "sezion", "sectie", "paragra", "parágra", "párra", "artikel")
"""How the terms of words for which "§" stands begin; it also stands for "sec"."""
KEY_FROM, KEY_TO = 0.5, 0.9
"""The bounds of x at the top of this file; 0.4 and 0.8 give the same results."""
LINE_BEFORE = re.compile(r"(?:\A|\n)[^\w\n]*\Z")
"""What stands before the first word of a line."""
NUMBERS_ITS_LINE = re.compile(r"\d+(?:[.)\]:]|\()")
"""How a number at the beginning of a line goes on if it is that of the line: "4. Tighten the nut", "5.2(c) Fires"."""
ANY_LABEL = ("",)
"""The word beside the number of a line."""
LABEL_BEFORE = re.compile(r"(?:\A|\n)[^\w\n§]*(?:§|\w\S*)[^\w\n]*\Z")
"""What stands before a number whose label begins a line."""
LOWER_CASE_BEHIND = re.compile(r"\s+[a-zß-ÿ]")
"""What stands behind such a number in a sentence: "Type 2 diabetes is" begins no part of a document."""
WORD_LENGTH = 100
"""Number of characters that are read on each side of a number to find the word beside it."""
Pair = tuple[tuple[str, ...], tuple[str, ...]]
"""A number and the terms of the word beside it, in the order of the text, except that a `YEAR` is always the second
element. For a number that is a pair by itself, the second element is ()."""


class QueryPairs(NamedTuple):
    """The number pairs of a query."""

    numbers: re.Pattern[str]
    """`numbers_sought`."""
    pairs: frozenset[Pair]
    before_any: Mapping[Pair, re.Pattern[str]]
    """Pair of a label and the number behind it -> a pattern of the label before any number. A label is a word or "§";
    of the function words, only those of `NUMBER_WORDS` are labels. "§" and `SECTIONS` have one pattern."""
    terms_of: TermsOf
    read: Callable[[str], str]
    """`reader_of_numbers`, by which the texts are read, and which sets names of several words in digits."""


def candidates_read(pool: Pool, order: Ints) -> int:
    """Number of best candidates, by the `order` of the pool's rows, whose texts are read; see `RECORD_TERMS_MAX`."""
    far = order[:FAR_CANDIDATES]
    records = near_best(pool.lexical, far, HOLDING_SHARE) & (pool.length[far] <= RECORD_TERMS_MAX)
    return max(CANDIDATES, up_to_last(records))


def query_pairs(query: str, terms_of: TermsOf) -> QueryPairs | None:
    """The number pairs of a query; None if it has none."""
    read = reader_of_numbers(query)
    query = in_digits(read(ABBREVIATED.sub(r"\g<0> ", query)))
    found = numbers_sought(query)
    if found is None:
        return None
    readings = dict.fromkeys([query, SUBSECTION.sub("", query)])
    in_query = {pair for each in readings for pair in pairs_in_text(each, found, terms_of)}
    labelled = {((":".join(each),), ()) for each in labelled_numbers(query)}
    pairs = frozenset(pair for pair in in_query if pair[0] != ANY_LABEL) | labelled
    if not pairs:
        return None
    labels = (_labels_of_numbers(each, found, terms_of) for each in readings)
    before_any = {pair: pattern for own in labels for pair, pattern in own.items()}
    return QueryPairs(found, pairs, before_any, terms_of, lambda text: names_replaced(read(text), digits_of))


def _labels_of_numbers(query: str, numbers: re.Pattern[str], terms_of: TermsOf) -> dict[Pair, re.Pattern[str]]:
    """`QueryPairs.before_any` of a query."""
    patterns: dict[Pair, re.Pattern[str]] = {}
    number_word = "|".join(map(re.escape, sorted(NUMBER_WORDS)))
    for beside, behind in pairs_in_text(query, numbers, lambda word: [bare(word).lower() or word]):
        label = beside[0]
        is_label = label.isalpha() or label == "§"
        is_label = is_label and (label in NUMBER_WORDS or label == "s" or label not in all_function_words())
        if not is_label or not any(map(DIGITS.search, behind)):
            continue
        term = _terms(label, terms_of)
        start = re.escape(term[0] if label.startswith(term[0]) else label)  # "sample" also matches "samples"
        if label == "§" or _abbreviates(term[-1], "§"):
            start = f"(?:§|{'|'.join(SECTIONS)})"
        in_letters = "[ivx]+" if label in NUMBER_WORDS else f"[ivx]+|{ONE_TO_TWELVE}"  # "no one" is no number
        number = rf"(?:(?:{number_word})\W{{1,3}})?(?:v?\d|(?:{in_letters})\b)"
        pattern = rf"(?<![^\W_]){start}[^\W\d_]*(?:\W{{1,3}}{number}|\d{{3}})"
        pattern += r"|(?<!\w)v\d" if label == VERSION_LABEL else ""
        patterns[term, behind] = re.compile(pattern, re.IGNORECASE)
    return patterns


def reorder_by_number_pairs(best: Best, *, query: QueryPairs, weight: float) -> RankedPool:
    """The ranking by the formula at the top of this file."""
    texts = list(map(query.read, best.texts))
    terms_of = cache(query.terms_of)  # words beside a number are often the same
    held = [pairs_in_text(text, query.numbers, terms_of) for text in texts]
    best.facts.update(pairs=len(query.pairs), held=sum(not query.pairs.isdisjoint(own) for own in held))
    sought = sorted(query.pairs | query.before_any.keys())  # mostly, `before_any` has some of `pairs`
    g = g_of(sought, held)
    begins_part = g > 1.0  # `earlier_first` reads offsets from g
    g = earlier_first(g - begins_part, texts) + begins_part
    of_pairs = g.compress([pair in query.pairs for pair in sought], axis=1)
    of_keys = g.compress([pair in query.before_any for pair in sought], axis=1)
    added = best_added(best.scores, of_keys, keys_of(query, of_keys, texts))
    ranked = best.sorted_by(raised(best.scores, of_pairs, weight) + (best.scores > 0) * added)
    parts = {
        row: frozenset(at for at, g in enumerate(own) if g > 1.0)
        for row, own in zip(best.rows.tolist(), of_keys.tolist(), strict=True)
    }
    return replace(ranked, parts=parts)


def pairs_in_text(text: str, numbers: re.Pattern[str], terms_of: TermsOf) -> dict[Pair, float]:
    """By pair, in lower case, its g: for the pairs at the first `OCCURRENCES_MAX` occurrences of the query's numbers in
    a text."""
    pairs: dict[Pair, float] = {}
    for number in islice(numbers.finditer(text), OCCURRENCES_MAX):
        start = number.start()
        if PART_OF_A_WORD.search(text, max(0, start - 2), start) and not _ends_a_code(number):
            continue
        g = 1.0 - start / len(text)
        label = LABEL_BEFORE.search(text, max(0, start - WORD_LENGTH), start)
        begins_part = label is not None and LOWER_CASE_BEHIND.match(text, number.end()) is None
        for pair in _pairs_at(number, terms_of):
            own = g + (begins_part and pair[0] != ANY_LABEL)
            pairs[pair] = max(own, pairs.get(pair, 0.0))
    return pairs


def _pairs_at(number: re.Match[str], terms_of: TermsOf) -> list[Pair]:
    """The pairs of one number in a text; see the table at the top of this file."""
    text, (start, end), word = number.string, number.span(), number[0].lower()
    if number.lastgroup == "as_one":
        return [((":".join(DIGITS.findall(word)),), ())]
    own = (canonical(word),)
    if MAJOR_VERSION.fullmatch(word):
        return [(_terms(VERSION_LABEL, terms_of), own)]
    is_ordinal, is_year = word.endswith(ORDINAL_ENDINGS), YEAR.fullmatch(own[0]) is not None
    before, after = _words_before(number), _words_behind(text, end)[: 2 if is_ordinal else 1]
    if is_ordinal or word.isalpha():
        english = function_words([ENGLISH])
        before = [each for each in before if bare(each).lower() not in english]
        after = list(takewhile(lambda each: bare(each).lower() not in english, after))
    labels = [*before, *after] if is_ordinal or is_year else before
    pairs: list[Pair] = [(_terms(label, terms_of), own) for label in labels]
    line = LINE_BEFORE.search(text, max(0, start - WORD_LENGTH), start)
    if line and ("#" in line[0] or NUMBERS_ITS_LINE.match(text, start)):
        pairs.append((ANY_LABEL, own))
    if after and not is_year:
        pairs.append((own, _terms(after[0], terms_of)))
    if SEVERAL_PARTS.search(number[0]):
        pairs.append((own, ()))
    return pairs


def _words_before(number: re.Match[str]) -> list[str]:
    """The word before a number in a text, and the word before that if it is one of `NUMBER_WORDS`; in their order. For
    the number of a `NUMBERED_CODE`, its letters, and the word before them."""
    code = _numbered_code(number)
    has_letters = code is not None and code[1] is not None
    end = number.start() if code is None else code.end(1) if has_letters else code.start()
    before = WORD.findall(number.string, max(0, end - WORD_LENGTH), end)[-2:]
    return (
        before if has_letters or (before and (bare(before[-1]) or before[-1]).lower() in NUMBER_WORDS) else before[-1:]
    )


def _words_behind(text: str, end: int) -> list[str]:
    """The word behind a number in a text, and the next one if it is in `NUMBERED`."""
    found = TWO_WORDS.search(text, end, end + WORD_LENGTH)
    if found is None:
        return []
    first, second = found.groups(default="")
    return [first, second] if bare(second).lower() in NUMBERED else [first]


def _numbered_code(number: re.Match[str]) -> re.Match[str] | None:
    """What stands before a number in a text, if it is the number of a `NUMBERED_CODE`."""
    if not number.string.endswith(("0", "-", "/"), 0, number.start()):
        return None
    code = NUMBERED_CODE.search(number.string, max(0, number.start() - WORD_LENGTH), number.end())
    return code if code is not None and code.end() == number.start() else None


def _ends_a_code(number: re.Match[str]) -> bool:
    """Whether a number in a text is the end of a code by `LETTERS_AND_NUMBER` or `NUMBERED_CODE`."""
    text = number.string
    before = re.search(r"(?<![\w.])\w+\Z", text[max(0, number.start() - WORD_LENGTH) : number.start()])
    is_word = before is not None and LETTERS_AND_NUMBER.fullmatch(before[0] + number[0]) is not None
    return is_word or _numbered_code(number) is not None


def _terms(word: str, terms_of: TermsOf) -> tuple[str, ...]:
    """The terms of a word; for a sign, which has no terms, the sign itself."""
    return tuple(terms_of(word)) or (word,)


def g_of(pairs: Collection[Pair], held: Sequence[Mapping[Pair, float]]) -> Floats:
    """(n, P) g of P pairs, sorted, in n candidates; `held`: for each candidate, g of its pairs.

    A line that begins with the number alone holds it with any label, unless a line begins with the pair itself: in a
    law with lines such as "## Part II: Cranes", "(2) ..." is no Part II.
    """
    sorted_pairs = sorted(pairs)
    g = np.array([[_g(own, pair) if own else 0.0 for pair in sorted_pairs] for own in held])
    of_lines = np.array([[own.get((ANY_LABEL, number), 0.0) for _, number in sorted_pairs] for own in held])
    return np.where((g > 1.0).any(axis=0), g, np.maximum(g, of_lines))


def _g(held: Mapping[Pair, float], pair: Pair) -> float:
    """g of a pair in a text; if the text does not hold it, the largest g of its pairs in which a label is
    abbreviated."""
    label, number = pair
    if pair in held:
        return held[pair]
    same = (g for (other, own), g in held.items() if own == number and _abbreviates(label[-1], other[-1]))
    return max(same, default=0.0)


def _abbreviates(label: str, other: str) -> bool:
    """Whether one of two labels is the beginning of the other, such as "rev" of "revision", or "§" for a section. For
    the label "s" of a query, which may also be a page, the other one may be "§", "sec" or a section."""
    if label == "s":
        return other in ("§", "sec") or other.startswith(SECTIONS)
    short, long = sorted((label, other), key=len)
    if short == "§":
        return long == "sec" or long.startswith(SECTIONS)
    is_abbreviation = len(short) in ABBREVIATION_LETTERS and short.isalpha() and short not in all_function_words()
    return is_abbreviation and long.startswith(short)


def keys_of(query: QueryPairs, g: Floats, texts: Sequence[str]) -> Floats:
    """(K,) key(p) at the top of this file for the K pairs in `before_any`, sorted; `g`: (n, K) from `g_of`."""
    shares = []
    for pair, own in zip(sorted(query.before_any), g.T, strict=True):
        lacking = [text for text, g_in_text in zip(texts, own, strict=True) if not g_in_text] if own.any() else []
        labelled = sum(query.before_any[pair].search(text) is not None for text in lacking)
        shares.append(labelled / max(1, len(lacking)))
    return np.interp(shares, (KEY_FROM, KEY_TO), (0.0, 1.0))


TIME = re.compile(r"(?<!\d)(?:1?\d|2[0-3]):[0-5]\d(?!\d)")
"""A time of day in the form of `in_24_hours`."""
JOINED_WORD = re.compile(r"(?i)\d(?!(?:st|nd|rd|th)\b)(?=[^\W\d_]{2,}\b)")
"""The last digit of a number to which a word is joined, mostly a unit: "4GB"."""


def reader_of_measures(query: str) -> Callable[[str], str]:
    """The function by which a query and texts are read, so that times of day and measures have one form: "17:30" for
    "5:30 pm", "800mm" for "80 cm". Times stay as they are if the query has none, measures also if it has a range."""
    of_times = in_24_hours if TIME.search(in_24_hours(query)) else str
    has_measures = MEASURE.search(of_times(query)) and not ranges_in(query)
    return (lambda text: in_base_units(of_times(text))) if has_measures else of_times


def reader_of_numbers(query: str) -> Callable[[str], str]:
    """`reader_of_measures`, by which "4pcs" is also read as "4 pcs"."""
    read = reader_of_measures(query)
    return lambda text: read(JOINED_WORD.sub(r"\g<0> ", text))


JOINED_NUMBER = re.compile(rf"(?<![\w.,:/-])(\d{{1,2}}|{ONE_TO_TWELVE})-(?=[^\W\d_]{{2,}}\b)", re.IGNORECASE)
"""A number, or a number name from one to twelve, to which a hyphen joins a word: "5-star", "five-star"."""
JOINED_QUERY_WORDS_MAX = 10
"""Largest number of words of a query in which joined numbers are numbers. In a longer one they are one detail of
several ("the two-dimensional flow over ..."): Cranfield loses .001."""
FUNCTION_WORD_REACH = 40
"""Number of characters before a number name that are read for a function word; the longest of these has 12."""


def in_digits(query: str) -> str:
    """A query with its number names in digits: "night eight" as "night 8", "five-star" as "5 star".

    A quantity, which no label precedes, stays: "two events", "in two events".
    """

    def replaced(name: re.Match[str]) -> str:
        digits = digits_of(name[0])
        before = query[max(0, name.start() - FUNCTION_WORD_REACH) : name.start()]
        is_quantity = all_function_words().issuperset(words_in(before)[-1:])
        return name[0] if is_quantity and digits.isdecimal() else digits

    query = NUMBER_NAME.sub(replaced, query)
    if "-" not in query or len(query.split()) > JOINED_QUERY_WORDS_MAX:
        return query
    return JOINED_NUMBER.sub(lambda joined: f"{canonical(joined[1].lower())} ", query)


def numbers_sought(query: str) -> re.Pattern[str] | None:
    """A pattern of the query's numbers and single letters, in all forms; None if it has none.

    Its group "as_one" is two numbers that are sought together: a range, or two labelled numbers. The pattern also
    matches the end of a longer word. `query` has its number names `in_digits`.
    """
    labelled = (rf"{wide}\s?[.,:(/-]\s?{narrow}" for wide, narrow in labelled_numbers(query))
    as_one = "|".join([*labelled, *ranges_in(query)[:PARTS_MAX]])
    numbers = _numbers(query)
    alone = (f"v?{re.escape(number)}(?:st|nd|rd|th)?" for number in numbers)
    names = (name for name, digits in DIGITS_OF.items() if digits in numbers and name[0].isalpha()) if numbers else ()
    in_roman = [IN_ROMAN[number] for number in numbers if number in IN_ROMAN]
    ones = _roman_ones(query) if "i" in in_roman else ()
    # Alone, small letters v, x and vi are mostly no numbers.
    roman = (f"(?-i:{each.upper()})" if each in ("v", "x", "vi") else each for each in in_roman if each != "i")
    either = "|".join([*([f"(?P<as_one>{as_one})"] if as_one else ()), *alone, *names, *roman, *ones, *_letters(query)])
    return re.compile(rf"(?:{either})(?!\w|[.,:-]\d)", re.IGNORECASE) if either else None


LABELLED = re.compile(r"(?<![^\W\d_])([^\W\d_]+)(\.?) (\d{1,3})\b")
"""A label, the full stop of an abbreviation, and a number of at most three digits; more are mostly years or amounts."""


def labelled_numbers(query: str) -> list[tuple[str, str]]:
    """At most `PARTS_MAX` pairs of labelled numbers beside each other in the query, that of the larger unit first.

    The larger unit comes first in the query ("chapter 5, verse 10"), unless function words stand between the two
    numbers ("verse 10 of chapter 5").
    """
    labelled = LABELLED.finditer(query)
    # A function word is a label only with a full stop: "no. 5".
    found = [match for match in labelled if match[2] or match[1].lower() not in all_function_words()]
    several: list[tuple[str, str]] = []
    for first, second in pairwise(found):
        between = words_in(query[first.end() : second.start()])
        if all_function_words().issuperset(between):
            several.append((second[3], first[3]) if between else (first[3], second[3]))
    return several[:PARTS_MAX]


RANGE_SIGN = r"\s?(?:[-\u2013\u2014]|\b(?:to|and|bis|und|à|a|et|y|e)\b)\s?"
"""What stands between the two numbers of a range: "5-10", "5 to 10", "between 5 and 10"."""
RANGE = re.compile(rf"(?<![\w.,:/-])(0|[1-9]\d{{0,5}}){RANGE_SIGN}([1-9]\d{{0,5}})(?!\d|[.,:/-]\d)")
"""What may be a range; it is one if the first number is the smaller one."""


def ranges_in(text: str) -> list[str]:
    """A pattern of each range of a text, which matches all its forms."""
    return [f"{low}{RANGE_SIGN}{high}" for low, high in RANGE.findall(text) if int(low) < int(high)]


SUBSECTION = re.compile(r"(?<=\d)\(\d{1,3}\)(?:\(\w{1,4}\))*(?!\w)")
"""The brackets behind the number of a section: 14(2), 14(2)(a). The section itself holds only the 14."""
ABBREVIATED = re.compile(r"(?<![\w.])[^\W\d_]{1,4}\.(?=\d+[a-z]?(?!\w))")
"""An abbreviated label to which its number is joined: "no.5", "s.14"."""
LETTERS_AND_NUMBER = re.compile(r"[^\W\d_]{2,}(\d{3,})")
"""A code of one word, such as "HIS258". With fewer digits it is mostly a name: "Python3", "utf8"."""
NUMBERED_CODE = re.compile(
    r"(?:(?<![\w.,:])([^\W\d_]{2,})(?:0+|[-/](?:0+|(?:(?:19|20)?\d\d[-/])0*))"  # INV00108, INV-00108, INV-2023-108
    r"|(?<![\w.,:/-])(?:(?:19|20)\d\d[-/](?=\d{3})0+|0+))(?=\d+\Z)"  # 2023-0108, but not 2023-08; 0108
)
"""The letters of a code, if it has any, and the year and the zeros before its number."""
ENDS_IN_A_LETTER = re.compile(r"\d+\.?[^\W\d_]")
"""A number that ends in a letter, such as "9.b"."""
SEVERAL_PARTS = re.compile(rf"\d(?:[.,:-]\d|(?:{BASE_UNITS})\b)")
"""The sign between two parts of a number or code, with a digit on each side; or a unit of `in_base_units`."""


def _numbers(query: str) -> list[str]:
    """The query's distinct numbers, at most `PARTS_MAX`. Of those that begin alike, the longest comes first, because
    the first alternative of a pattern that matches counts."""
    parts: list[str] = []
    for word in filter(DIGITS.search, query.split()):
        if any(map(str.isalpha, word)):
            code = LETTERS_AND_NUMBER.fullmatch(bare(word))
            parts.append(code[1] if code else bare(word))  # "258" of "HIS258"
        else:
            parts += map(bare, word.split("/"))  # "3" and "2024" of "(3/2024)"
        if SUBSECTION.search(word):
            parts.append(bare(SUBSECTION.sub("", word)))  # also "14" of "14(2)"
    numbers = [*map(canonical, filter(_is_number, parts)), *_roman_numbers(query)]
    return sorted(list(dict.fromkeys(numbers))[:PARTS_MAX], key=len, reverse=True)


def _is_number(part: str) -> bool:
    """Whether a word has digits and no letter, except perhaps one at its end, or is a code of several parts."""
    if ENDS_IN_A_LETTER.fullmatch(part) or SEVERAL_PARTS.search(part):
        return True
    return DIGITS.search(part) is not None and not any(map(str.isalpha, canonical(part)))


ROMAN = {
    tens + ones: f"{10 * ten + one}"
    for ten, tens in enumerate(("", "x", "xx", "xxx"))
    for one, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
    if ten or one
}
"""Roman number -> the same number in digits."""
IN_ROMAN = {number: roman for roman, number in ROMAN.items()}
ROMAN_ONE = r"I(?!\s*(?!(?:by|from|in|is|of|to|and (?:\w+ )?(?:[IVX]+|\d+))\b)\w)"
"""I as a number. Before other words it is a pronoun, as in "the day I left", "the part I and Bob wrote"."""
ROMAN_NUMBER = re.compile(rf"(?<!\w)(\w+)\.? ({ROMAN_ONE}|[VX]|[IVX]{{2,}}|[ivx]{{2,}})(?!\w|['.-]\w)")
"""A word and what may be a Roman number: "Louis XIV", "vol. ii"."""
BEFORE_ONE = re.compile(rf"(?<![^\W\d_])([^\W\d_]+) (?:1|{ROMAN_ONE})(?!\w|[.,:-]\d|')")
"""The word before 1 or I."""


def _roman_numbers(query: str) -> list[str]:
    """The Roman numbers of the query, in digits; "vi" is none, but Swedish for "we", and "I" is none behind an English
    function word."""
    return [
        ROMAN[roman.lower()]
        for word, roman in ROMAN_NUMBER.findall(query)
        if roman.lower() in ROMAN and roman != "vi"
        if roman != "I" or word.lower() not in function_words([ENGLISH])
    ]


BESIDE_DIGITS = re.compile(r"v(?=\d)|(?<=\d)(?:st|nd|rd|th)$", re.IGNORECASE)
"""The v before a version, and the ending of an ordinal."""


def canonical(number: str) -> str:
    """The one form of a number: "14" for "xiv", "2" for "two", "second" and "2nd", "3.2" for "v3.2"."""
    return ROMAN.get(number) or DIGITS_OF.get(number) or BESIDE_DIGITS.sub("", number)


def _roman_ones(query: str) -> list[str]:
    """Patterns of "I" behind a word that stands before 1 or I in the query. The word has a capital letter, or is one of
    `NUMBERED`: "Phonetics I" for "phonetics 1", "chapter I" for "chapter 1"."""
    english = function_words([ENGLISH])
    words = [word for word in BEFORE_ONE.findall(query)[:PARTS_MAX] if word.lower() not in english]
    capital = dict.fromkeys(form for word in words for form in (word.capitalize(), word.upper()))
    numbered = sorted(NUMBERED.intersection(map(str.lower, words)))
    behind_capital = (rf"(?-i:(?<=\b{word} )I)" for word in capital)
    behind_numbered = (rf"(?-i:(?<=\b{word} ){ROMAN_ONE})" for word in numbered)
    return [*behind_capital, *behind_numbered]


LETTER = re.compile(r"(?<=\w )[^\W\d_](?![\w'.])")
"""A single letter after a word."""


def _letters(query: str) -> list[str]:
    """Patterns of the query's single letters, without "I" and small letters that are a function word of any language,
    such as "a" and the Spanish "y"; a capital finds only a capital."""
    # A letter before a combining mark, such as a vowel sign of Hindi, which `\w` does not match, begins a word.
    found = [each[0] for each in LETTER.finditer(f"{query} ") if category(each.string[each.end()])[0] != "M"]
    letters = [letter for letter in dict.fromkeys(found) if letter != "I"]
    return [
        f"(?-i:{letter})" if letter.isupper() else letter
        for letter in letters[:PARTS_MAX]
        if letter.isupper() or letter not in all_function_words()
    ]
