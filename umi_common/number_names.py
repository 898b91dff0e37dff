"""English names of numbers and ordinals: "four", "fourth", "forty-second", "nine thousand five hundred"."""

from __future__ import annotations

import re
from collections.abc import Callable

from umi_common.times import with_plain_letters

_UNDER_20 = (  # noqa: SIM905 a list would take twenty lines
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_ORDINALS_UNDER_20 = (  # noqa: SIM905
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth"
).split()
_SCALES = {"thousand": 1_000, "million": 1_000_000}
BELOW_100 = dict(zip([*_UNDER_20, *_TENS], [*range(20), *range(20, 100, 10)], strict=True))
"""Name of one word -> its number, from "zero" to "ninety"."""
ORDINALS = dict(
    zip([*_ORDINALS_UNDER_20, *(f"{name[:-1]}ieth" for name in _TENS)], list(BELOW_100.values())[1:], strict=True)
)
"""Ordinal of one word -> its number, from "first" to "ninetieth"."""
_ONE_WORD = BELOW_100 | ORDINALS
ORDINAL_ENDINGS = ("st", "nd", "rd", "th")
"""How an ordinal ends, in digits or as a name; the name of no other number in `DIGITS_OF` ends so."""
DIGITS_OF = {
    **{name: f"{number}" for name, number in _ONE_WORD.items()},
    **{f"{number}{ending}": f"{number}" for number in range(1, 100) for ending in ORDINAL_ENDINGS},
}
"""Number or ordinal of one word -> its digits: "4" for "four", "fourth" and "4th"."""
_TENS_AND_ONE = rf"(?:{'|'.join(_TENS)})[ -](?:{'|'.join([*_UNDER_20[1:10], *_ORDINALS_UNDER_20[:9]])})"
_UNDER_100 = rf"(?:{_TENS_AND_ONE}|{'|'.join([*_UNDER_20[1:], *_TENS])})"
_OF_SEVERAL_WORDS = re.compile(
    rf"\b(?=[efnost]\w\w+[ -][efhmnost])(?:{_UNDER_100}(?: (?:hundred|{'|'.join(_SCALES)})(?: and)?(?: {_UNDER_100})?)+"
    rf"|{_TENS_AND_ONE})\b",
    re.IGNORECASE,
)
"""A name of several words: "twenty-six", "twenty-sixth", "eighteen thousand five hundred". The first letters of its
first two words are tested first, which takes a quarter of the time."""
_IN_EACH = ("hundred", *_SCALES, *_TENS)
"""Each name of several words holds at least one of these; most texts hold none."""
NUMBER_NAME = re.compile(
    rf"\b(?=[efnostz])(?:{_OF_SEVERAL_WORDS.pattern}"
    rf"|(?<![\w-])(?:{'|'.join([*BELOW_100, *list(ORDINALS)[1:]])})(?![\w-]))",
    re.IGNORECASE,
)
"""A name of one or several words. "First" is mostly no number."""


def names_replaced(text: str, form: Callable[[str], str]) -> str:
    """The text with form(name) in place of each name of several words."""
    if not any(map(text.lower().__contains__, _IN_EACH)):
        return text
    return _OF_SEVERAL_WORDS.sub(lambda name: form(name[0]), text)


def number_of(name: str) -> int:
    """The number of a name of one or several words: 9500 for "nine thousand five hundred", 42 for "forty-second"."""
    total = below_1000 = 0
    for word in re.findall("[a-z]+", with_plain_letters(name).lower()):
        if word == "hundred":
            below_1000 *= 100
        elif word in _SCALES:
            total = total + below_1000 * _SCALES[word] if below_1000 else total * _SCALES[word]  # two thousand million
            below_1000 = 0
        else:
            below_1000 += _ONE_WORD.get(word, 0)  # 0 for "and"
    return total + below_1000


def digits_of(name: str) -> str:
    """A name in digits: "25" for "twenty-five". An ordinal still ends as one: "42th" for "forty-second"."""
    is_ordinal = with_plain_letters(name).lower().endswith(tuple(ORDINALS))
    return f"{number_of(name)}{'th' if is_ordinal else ''}"
