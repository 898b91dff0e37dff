"""The numbers of a query, and a pattern of all forms in which a text may write them.

A number holds a digit and no letter, except that it may end in a letter ("clause 9.b"), or it is a code of several
parts ("v3.2"). The query may name it ("night eight"). These forms of a number are equal:

    "3.2"            "v3.2"
    "HIS 258"        "HIS258"
    "Henry 8"        "Henry VIII", up to "XXXIX"
    "42nd"           "42", "forty-two", "forty-second"
    "80 cm"          "80cm", "0.8 m": see `reader_of_measures`
    "5-10"           "5 to 10", "between 5 and 10": a range
    "5:10"           "5 (10)", for "chapter 5, verse 10" or "verse 10 of chapter 5": labelled numbers
    "17:30"          "5:30 pm", "17h30": see `reader_of_measures`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from unicodedata import category

from umi_common.number_names import DIGITS_OF, NUMBER_NAME, digits_of
from umi_common.search.reorder.words import DIGITS, PARTS_MAX, bare, words_in
from umi_common.stores.lexical.languages import ENGLISH, all_function_words, function_words
from umi_common.stores.lexical.numbers_in_text import BASE_UNITS, MEASURE, NUMBERED, in_24_hours, in_base_units

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


FUNCTION_WORD_REACH = 40
"""Number of characters before a number name that are read for a function word; the longest of these has 12."""


def in_digits(query: str) -> str:
    """A query with its number names in digits: "night eight" as "night 8". A quantity, which no label precedes, stays:
    "two events", "in two events"."""

    def replaced(name: re.Match[str]) -> str:
        digits = digits_of(name[0])
        before = query[max(0, name.start() - FUNCTION_WORD_REACH) : name.start()]
        is_quantity = all_function_words().issuperset(words_in(before)[-1:])
        return name[0] if is_quantity and digits.isdecimal() else digits

    return NUMBER_NAME.sub(replaced, query)


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
    roman = (pattern for number in numbers if number in IN_ROMAN for pattern in _in_roman(number, query))
    either = "|".join([*([f"(?P<as_one>{as_one})"] if as_one else ()), *alone, *names, *roman, *_letters(query)])
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


LETTERS_AND_NUMBER = re.compile(r"[^\W\d_]{2,}(\d{3,})")
"""A code of one word, such as "HIS258". With fewer digits it is mostly a name: "Python3", "utf8"."""
ENDS_IN_A_LETTER = re.compile(r"\d+\.?[^\W\d_]")
"""A number that ends in a letter, such as "9.b"."""
SEVERAL_PARTS = re.compile(rf"\d(?:[.,:-]\d|(?:{BASE_UNITS})\b)")
"""The sign between two parts of a number or code, with a digit on each side; or a unit of `in_base_units`."""


def _numbers(query: str) -> list[str]:
    """The query's distinct numbers, at most `PARTS_MAX`. Of those that begin alike, the longest comes first, because
    the first alternative of a pattern that matches counts."""
    parts = [part for word in filter(DIGITS.search, query.split()) for part in _parts_of(word)]
    numbers = [*map(canonical, filter(_is_number, parts)), *_roman_numbers(query)]
    return sorted(list(dict.fromkeys(numbers))[:PARTS_MAX], key=len, reverse=True)


def _parts_of(word: str) -> list[str]:
    """The parts of a word that may be numbers: "3" and "2024" of "(3/2024)", "258" of "HIS258"."""
    if any(map(str.isalpha, word)):
        code = LETTERS_AND_NUMBER.fullmatch(bare(word))
        return [code[1] if code else bare(word)]
    return list(map(bare, word.split("/")))


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


BESIDE_DIGITS = re.compile(r"v(?=\d+\.\d)|(?<=\d)(?:st|nd|rd|th)$", re.IGNORECASE)
"""The v before a version, and the ending of an ordinal."""


def canonical(number: str) -> str:
    """The one form of a number: "14" for "xiv", "2" for "two", "second" and "2nd", "3.2" for "v3.2"."""
    return ROMAN.get(number) or DIGITS_OF.get(number) or BESIDE_DIGITS.sub("", number)


def _in_roman(number: str, query: str) -> list[str]:
    """Patterns of a number in Roman digits; those of "1" depend on the query."""
    roman = IN_ROMAN[number]
    if roman == "i":
        return _roman_ones(query)
    return [f"(?-i:{roman.upper()})" if roman in ("v", "x", "vi") else roman]


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
