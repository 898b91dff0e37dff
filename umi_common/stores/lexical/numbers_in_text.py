"""Common forms of numbers and codes: each is also indexed in one form for all ways to write it.

Forms of a number that may contain spaces are inserted in a text before it is split at white space:

    written                                     inserted behind it
    insur- ance (on two lines)                  insurance
    Part V                                      5
    twenty-six   twenty-sixth                   26
    nine thousand                               9000
    1.96 m   196cm   1,960 millimetres          1960mm
    1.5 kW   1500W   12 V   12V                 1500w   12000mv
    $1.5M   1.5 million   1,5 Mio               1500000
    20 x 30   20×30   20 by 30                  20x30
    20 x 30 cm   20x30cm                        200mm   (300mm, too, if the 30 is behind a letter x)
    IBAN DE04 2589 5385                         DE0425895385
    +49 30 555 0199                             49305550199
    14 630,99                                   14630.99
    6:06 pm                                     18:06
    18h06   18.06 Uhr   1806 hrs   午後6時6分     18:06
    6 pm   18h   18 Uhr                         18:00

In "minus 10 °C", a "-" is inserted before the 10. The patterns below are in the order of this table.

A text is split at white space into pieces, which hold tokens: the piece "(src/mail.py:42)" holds the token
src/mail.py:42. The segments of a token are its parts between signs: src, mail, py and 42. Its codes are itself and its
parts that have several segments, here src/mail.py and mail.py; but words joined by a hyphen, as "well-known", are no
code (`_is_code`). These terms are added to those of a token or piece:

    token                                       further term
    030/555-0199   978-3-16-148410-0            0305550199   9783161484100   (`_is_grouped`)
    0305550199   49305550199                    305550199
    INV-000123                                  123
    d1bd7a1c4e0b9f                              d1bd7a1
    19.1C                                       19.1
    1.2.0                                       1.2
    FY24   Q3/24   3Q24                         2024
    12.3.2023   20230312                        2023-03-12
    09:05:17   09:05:17.250Z                    09:05   9:05
    12/03/2023                                  2023-03-12 and 2023-12-03
    -10   (-10)   temp=-10C                     -10         (`signs`)
    -1,234.50                                   -1234.50
    50%                                         percent
    €20   20€                                   euro
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import NamedTuple

from umi_common.number_names import names_replaced, number_of
from umi_common.times import MONTHS, with_plain_letters

TEXTS_KEPT = 128
"""Number of texts that `in_24_hours` and `in_base_units` cache: stages of one search read the same texts."""
TERM_MARK = "\ue000"
"""The character before an inserted term that must not be analysed: "1.5mm" would give 1, 5, mm and 15mm. It is in
Unicode's private use area; where a text itself has it, it counts as a space."""
Form = Callable[[re.Match[str]], str]
"""Gives the common form of the number that a pattern matched; "" if it has none, or is written in it."""


def with_common_forms(text: str) -> str:
    """The text with the common form behind each number, as in the table above. A step also reads the forms that the
    steps before it inserted."""
    if "-\n" in text or "-\r\n" in text:
        text = _CUT_WORD.sub(r"\g<0> \1\2", text)
    text = _ROMAN_DIGIT.sub(partial(_and_form, _roman_in_digits), text)
    if "inus " in text:
        text = _MINUS.sub(r"\g<0>-", text)
    text = names_replaced(text, lambda name: f"{name} {number_of(name)}")
    first = _HINT.search(text)
    if first is not None:
        for step in (*_STEPS, *_STEPS_OF_TIMES):
            if step.hint.search(text, first.start()) is not None:  # the text before its first hint never changes
                text = step.pattern.sub(partial(_and_form, step.form), text)
    return text


def _and_form(form: Form, number: re.Match[str]) -> str:
    """The number and its form behind it: "6:06 pm 18:06". The number alone if the form is ""."""
    inserted = form(number)
    return f"{number[0]} {inserted}" if inserted else number[0]


def in_common_forms(text: str) -> str:
    """The text with the common form in place of each measure, time of day and number of several words: "1960mm", with
    `TERM_MARK` before it, for "1.96 m", "18:06" for "6:06 pm", and "43" for "forty-third". At its end, the
    `_sides` of its sizes."""
    text = names_replaced(text, _name_in_digits)
    sides = "".join(f" {_sides(size)}" for size in _SIZED.finditer(text))
    return MEASURE.sub(lambda measure: f" {TERM_MARK}{_in_base_unit(measure)} ", in_24_hours(text)) + sides


def _name_in_digits(name: str) -> str:
    """For "forty-third": "43"; for the street "Forty-Second": "42". But "forty-second" may be a duration: it stays in
    words, two spaces apart, so that `with_common_forms` finds no number in it."""
    if name.endswith("second"):
        return re.sub("[ -]", "  ", name)
    return f"{number_of(name)}"


@lru_cache(TEXTS_KEPT)
def in_base_units(text: str) -> str:
    """The text with each measure in a base unit: "1960mm" in place of "1.96 m"."""
    return MEASURE.sub(_in_base_unit, text) if _HINT.search(text) else text


@lru_cache(TEXTS_KEPT)
def in_24_hours(text: str) -> str:
    """The text with its times of day in one form: "17:30" for "5:30 pm" and "17h30", "9:00" for "9 am" and "09:00". A
    match of `_DOUBTFUL` stays as it is."""
    for step in _STEPS_OF_TIMES:
        if step.hint.search(text) is not None:
            text = step.pattern.sub(partial(_unless_doubtful, step.form), text)
    return _ZERO_OF_HOUR.sub("", text)


def days_in_words(text: str) -> list[str]:
    """The dates of the text that name their month: 2026-03-03 for "3 March 2026"."""
    return [
        f"{date['year']}-{MONTHS[_lower(date['month'] or date['m'])]:02}-{int(date['day'] or date['d']):02}"
        for date in _DATE_IN_WORDS.finditer(text)
    ]


def with_short_years(day: str) -> list[str]:
    """The numeric forms of a day, 2025-03-02, with two digits of its year: 02.03.25, 2/3/25, 2-3-25; and with the month
    first: 3/2/25."""
    year, month, number = day.split("-")
    both = (number, month), (number.lstrip("0"), month.lstrip("0"))
    day_first = [sign.join((*each, year[2:])) for each in both for sign in "./-"]
    month_first = ["/".join((m, d, year[2:])) for d, m in both]
    return list(dict.fromkeys([*day_first, *month_first]))


def local_numbers(text: str) -> list[str]:
    """The phone numbers of seven digits in the text, joined: 6066180 for "606-6180"."""
    return [first + last for first, last in LOCAL_NUMBER.findall(text)]


def _lower(word: str) -> str:
    """The word in lower case and with plain letters, as the tables have it: "litre" for "LİTRE", which patterns that
    ignore case match, too."""
    return with_plain_letters(word).lower()


_CUT_WORD = re.compile(r"([^\W\d_]{2,40})-\r?\n\s*([^\W\d_]{2,40})")
"""A word cut at the end of a line, as in a PDF. It also matches "long-" at the end of a line before "term", so that
"longterm" is indexed, too."""
_MINUS = re.compile(r"[mM]inus (?=\d)")

_ROMAN_DIGIT = re.compile(r" [IVXivx](?!\w|['.-]\w)")
"""A space and a Roman number of one digit. Queries find longer ones by a line of word_forms.txt, such as "2 two ii"."""
_ROMAN = {"I": "1", "V": "5", "X": "10"}
NUMBERED = frozenset(
    (  # noqa: SIM905 a list would take forty lines
        "act annex appendix article book chapter class clause division figure group level lesson paragraph part phase "
        "schedule section stage step table title type unit volume war kapitel teil artikel band anhang klasse stufe "
        "typ chapitre partie tome annexe livre capítulo parte tomo capitolo"
    ).split()
)
"""Words after which I, V or X is a Roman number; after other words it is mostly a pronoun or part of a name."""
_NUMBERED_LENGTH = max(map(len, NUMBERED)) + 1
"""Length of the longest word of `NUMBERED` and the space before it, in characters."""


def _roman_in_digits(digit: re.Match[str]) -> str:
    """For " V" behind a word of `NUMBERED`, as in "Part V": "5"; else ""."""
    before = digit.string[max(digit.start() - _NUMBERED_LENGTH, 0) : digit.start()].rpartition(" ")[2]
    return _ROMAN[digit[0][1:].upper()] if before.lower() in NUMBERED else ""


_UNITS = {
    name: (base, power)
    for base, power, names in (
        ("mm", -3, "µm μm micrometre micrometer mikrometer micromètre micrómetro micrometro micrometri um"),
        ("mm", 0, "mm millimetre millimeter millimètre milímetro millimetro millimetri"),
        ("mm", 1, "cm centimetre centimeter zentimeter centimètre centímetro centimetro centimetri"),
        ("mm", 2, "dm decimetre decimeter dezimeter décimètre decímetro decimetro decimetri"),
        ("mm", 3, "m metre meter mètre metro metri"),
        ("mm", 6, "km kilometre kilometer kilomètre kilómetro chilometro chilometri quilómetro quilômetro"),
        ("mg", -3, "µg μg ug mcg microgram mikrogramm microgramme microgramo microgrammo microgrammi micrograma"),
        ("mg", 0, "mg milligram milligramm milligramme miligramo milligrammo milligrammi miligrama"),
        ("mg", 3, "g gram gramm gramme gramo grammo grammi grama"),
        ("mg", 6, "kg kilo kilogram kilogramm kilogramme kilogramo chilogrammo chilogrammi quilograma"),
        ("ml", -3, "µl μl ul microlitre microliter mikroliter microlitro microlitri"),
        ("ml", 0, "ml millilitre milliliter mililitro millilitro millilitri"),
        ("ml", 1, "cl centilitre centiliter zentiliter centilitro centilitri"),
        ("ml", 2, "dl decilitre deciliter deziliter décilitre decilitro decilitri"),
        ("ml", 3, "l litre liter litro litri"),
        ("mv", 0, "mv millivolt"),
        ("mv", 3, "v volt"),
        ("mv", 6, "kv kilovolt"),
        ("ma", 0, "ma milliamp milliampere"),
        ("ma", 3, "a amp ampere"),
        ("mah", 0, "mah"),
        ("mah", 3, "ah"),
        ("w", 0, "w watt"),
        ("w", 3, "kw kilowatt"),
        ("mb", -3, "kb kilobyte"),
        ("mb", 0, "mb megabyte"),
        ("mb", 3, "gb gigabyte"),
        ("mb", 6, "tb terabyte"),
        ("mhz", -6, "hz hertz"),
        ("mhz", -3, "khz kilohertz"),
        ("mhz", 0, "mhz megahertz"),
        ("mhz", 3, "ghz gigahertz"),
    )
    for name in names.split()
}
"""Name of a unit without a plural's s or n -> (base unit, power of ten): a kg is 10 ** 6 mg. µ has two characters."""
BASE_UNITS = "|".join(sorted({base for base, _ in _UNITS.values()}, key=len, reverse=True))
"""A pattern of the base units."""
_CASED_UNITS = r"[mglLVW] | (?<!\d{4}[ ])A | mA | (?<=\d)(?:[vw]|um) | um(?![ ]\w)"
"""The names of one letter, and two that are also words, as they count: "5 m" and "12v", but not "5 M", "12 v", "1998 A
man" or "Linie 12 um acht"."""
_OTHER_UNITS = [name for name in sorted(_UNITS, key=len, reverse=True) if len(name) > 1 and name not in ("ma", "um")]
MEASURE = re.compile(
    rf"""(?P<whole> \d (?<![\w.,:]\d) (?<!(?<!\d)-\d) (?<!\d[ /]\d)       # the first digit of a number
           (?: (?<!0)\d{{0,2}} (?:[ ,]\d{{3}})+ (?![\d,]) | \d{{0,8}} ) )   # 1,960 or 1960
         (?: [.,](?P<fraction>\d{{1,6}}) )? [ -]?
         (?P<unit> (?: {_CASED_UNITS} )(?!\w|-\d) | (?i:(?:{"|".join(_OTHER_UNITS)})(?=[sn]?(?!\w))) )
         [sn]? (?!\w|\^|/(?!\d|(?<=[bB]/)s\b))""",
    re.VERBOSE,
)
"""A number before the name of a unit: 1.96 m, 196cm, 2,349 metres, 5-litre, and both of 100-240V and of 12V/2A. None:
5 m/s (but 5 MB/s is), 5W-30."""


def _term_in_base_unit(measure: re.Match[str]) -> str:
    """For "1.96 m": "1960mm " with `TERM_MARK` before it. "" for "1960mm", which is analysed to this term; "1.5mm" is
    not, because of its point."""
    in_base_unit = _in_base_unit(measure)
    has_it = _lower(measure[0]) == in_base_unit and "." not in in_base_unit
    return "" if has_it else f"{TERM_MARK}{in_base_unit} "


def _in_base_unit(measure: re.Match[str]) -> str:
    """For "1.96 m": "1960mm"."""
    base, power = _UNITS[_lower(measure["unit"])]
    number = Decimal(f"{re.sub('[ ,]', '', measure['whole'])}.{measure['fraction'] or 0}").scaleb(power)
    return f"{number.normalize():f}{base}"


_ZEROS_OF = {
    **dict.fromkeys(("k", "thousand", "tausend"), 3),
    **dict.fromkeys(("m", "mn", "mln", "mio", "million", "millions", "millionen", "millones"), 6),
    **dict.fromkeys(("b", "bn", "billion", "billions", "mrd", "milliard", "milliards", "milliarden"), 9),
}
"""Name of a thousand, a million or a billion -> the number of zeros in its digits."""
_ROUND = re.compile(
    rf"(?<![\w.,])(\d+(?:,\d{{3}})*)(?:[.,](\d{{1,3}}))?(?:([kKMB])|[ -]?((?i:{'|'.join(sorted(_ZEROS_OF))})))\b"
)
"""A number before a name of `_ZEROS_OF`: 1.5M, 1.5 million."""
_CURRENCY = re.compile(r"(?:[$€£]|\b(?:EUR|USD|GBP|CHF)) ?\Z")
"""A currency at the end of the text before a number. Without it, "1.5 m" is a length and no number of millions, and
"5b" is a label, as in "item 5b", and no number of billions."""


def _round_in_digits(number: re.Match[str]) -> str:
    """For "1.5 million": "1500000"; "" for a length or a label (see `_CURRENCY`)."""
    before = number.string[max(0, number.start() - 5) : number.start()]
    if number[0].endswith((" m", "-m", "b")) and not _CURRENCY.search(before):
        return ""
    whole, fraction, name = number[1].replace(",", ""), number[2] or "", _lower(number[3] or number[4])
    return f"{whole}{fraction.ljust(_ZEROS_OF[name], '0')}".lstrip("0") or "0"


_SIZE = re.compile(r"(?<![\w.,/-])[A-Za-z]?\d+(?:[.,]\d+)?(?:(?: ?[xX×*] ?| by )\d+(?:[.,]\d+)?){1,2}(?!\w|[.,]\d)")
"""Two or three measures of one thing: 20 x 30, 2 by 3 by 4, M8 x 30."""


def _joined_size(size: re.Match[str]) -> str:
    """For "20 by 30": "20x30"; "" for "20x30"."""
    joined = re.sub(r" ?(?:[xX×*]|by) ?", "x", size[0]).replace(",", ".")
    return "" if joined == size[0] else joined


_LENGTHS = "|".join(name for name in _OTHER_UNITS if _UNITS[name][0] == "mm")
_SIZED = re.compile(
    rf"(?<![\w.,/-])((?:\d+(?:[.,]\d+)?(?: ?[xX×*] ?| by )){{1,2}})"
    rf"(\d+(?:[.,]\d+)?)[ -]?(m|(?i:{_LENGTHS}))[sn]?(?![\w^])"
)
"""A size with one unit behind its last number: 160 × 80 × 73 cm, 20x30cm."""


def _sides(size: re.Match[str]) -> str:
    """For "160 × 80 × 73 cm": "1600mm 800mm ", each with `TERM_MARK` before it. The 73 cm are a `MEASURE`. The 30cm of
    "20x30cm", behind a letter, are none, so they are added."""
    sides, last, unit = size.groups()
    numbers = re.findall(r"[\d.,]+", f"{sides} {last}" if sides[-1] in "xX" else sides)
    measures = filter(None, (MEASURE.fullmatch(f"{number} {unit}") for number in numbers))
    return "".join(f"{TERM_MARK}{_in_base_unit(measure)} " for measure in measures)


_GROUPS = re.compile(
    r"""(?<![\w.,:/-])
        (?: [A-Z]{2}\d\d (?:[ ][A-Z\d]{4})+ (?:[ ][A-Z\d]{1,3})?       # an IBAN
          | \+?\(?\d+\)? (?:[ -]\(?\d+\)?)+ (?:[.,]\d\d?)? )           # digits with " ", "-" or brackets between them
        (?!\w|[.,:/-]\w)""",
    re.VERBOSE,
)
_AMOUNT = re.compile(r"\d{1,3}(?: \d{3})+(?:[.,]\d\d?)?")
"""Groups of digits that are an amount: 14 630,99."""
_JOINED_DIGITS = range(8, 25)
"""Numbers of digits at which other groups are joined. More digits may be a line of a table."""


def _joined_groups(groups: re.Match[str]) -> str:
    """For "DE04 2589 5385": "DE0425895385"; "" for groups that form no number."""
    joined = re.sub(r"[ ()+-]", "", groups[0])
    if _AMOUNT.fullmatch(groups[0]):
        return joined.replace(",", ".")
    is_number = " " in groups[0] and (joined[0].isalpha() or len(joined) in _JOINED_DIGITS)
    return joined if is_number and not may_be_date(groups[0]) else ""


LOCAL_NUMBER = re.compile(r"(?<![\w.,:/-])(?<![\d)] )(\d{3})[ -](\d{4})(?!\w|[.,:/-]\w| \d)")
"""A phone number without its area code: 606 6180, 606-6180. Only in queries are its digits joined: texts hold many
other numbers of three and of four digits beside each other."""


_TWELVE_HOURS = re.compile(r"(?<![\w.,:/-])(1[0-2]|0?[1-9])(?:[:.]([0-5]\d))? ?([ap])\.?m\b", re.IGNORECASE)
"""A time with am or pm: 6:06 pm, 6 p.m."""
_CLOCK = re.compile(
    r"""(?<![\w.,:/-]) (?P<hour>[01]?\d|2[0-3])
        (?: [ ]?[hH][ ]?(?P<a>[0-5]\d)                                 # 18h06
          | (?:\.|(?<=\d\d))(?P<b>[0-5]\d)[ ]?(?:[hH]|hrs|hours|[uU]hr)  # 1806 hours, 18.06 Uhr
          | [hH]                                                       # 18h
          | [ ][uU]hr(?:[ ](?P<c>[0-5]\d))?                            # 18 Uhr, 18 Uhr 06
          | [ ]o'clock )
        (?!\w)
      | (?<![\d.,第]) (?:(?P<pm>午後|下午|晚上|오후)[ ]?)?
        (?P<h>1?\d|2[0-3]) [ ]?[時时点點시](?![間间간])
        (?: [ ]?(?P<d>[0-5]?\d)[分분] | (?P<half>[半반]) )?              # 午後6時6分, 6時半""",
    re.VERBOSE,
)
"""A time with a sign or word for hours."""
_DOUBTFUL = re.compile(r"(?<!at )(?<!the )\d+ am (?!(?:and|on|to)\b)\w|\d+ ?(?:h|hours)\b", re.IGNORECASE)
"""Matches that may be no time of day: "5 am" in the German "Haus 5 am Markt", and the durations "5h", "1200 hours"."""
_ZERO_OF_HOUR = re.compile(r"0(?<![\w.,:/-]0)(?=\d:[0-5]\d(?![\w:]))")
"""The zero before an hour: 09:00."""


def _unless_doubtful(form: Form, time: re.Match[str]) -> str:
    """The form of a time; the time as it is written if it is `_DOUBTFUL`."""
    return time[0] if _DOUBTFUL.match(time.string, time.start()) else form(time).rstrip()


def _of_twelve_hours(time: re.Match[str]) -> str:
    """For "6:06 pm": "18:06"."""
    hour = int(time[1]) % 12 + (12 if time[3] in "pP" else 0)
    return f"{hour}:{time[2] or '00'}"


def _of_clock(time: re.Match[str]) -> str:
    """For "18h06": "18:06 ". The space separates it from a word that may follow in Chinese and Japanese."""
    hour = int(time["hour"] or time["h"])
    minute = next(filter(None, time.group("a", "b", "c", "d")), "30" if time["half"] else "00")
    return f"{hour + 12 if time['pm'] and hour < 12 else hour}:{minute:0>2} "


_MONTH, _REST = "|".join(MONTHS), r"[a-zä]{0,6}\.?"
_DATE_IN_WORDS = re.compile(
    rf"(?<![\w.,/:-])(?:(?P<day>\d\d?)(?:st|nd|rd|th|\.)?[ -](?:of )?(?P<month>{_MONTH}){_REST}"
    rf"|(?P<m>{_MONTH}){_REST} (?P<d>\d\d?)(?:st|nd|rd|th)?),?[ -](?P<year>(?:19|20)\d\d)(?!\w)",
    re.IGNORECASE,
)
"""3 March 2026, March 3, 2026. A month is a word that begins with the first three letters of one in English or German:
"septembre" counts, too."""


class _Step(NamedTuple):
    """How the numbers of one kind are found in a text, and their form."""

    hint: re.Pattern[str]
    """Occurs in each text in which `pattern` matches a number with a form; searching for it is much faster."""
    pattern: re.Pattern[str]
    form: Form


def _step(behind_digit: str, pattern: re.Pattern[str], form: Form) -> _Step:
    """A step whose hint is a digit and a match of `behind_digit` after it."""
    return _Step(re.compile(rf"\d (?: {behind_digit} )", re.VERBOSE), pattern, form)


_FIRST_LETTERS = "".join(sorted({name[0] for name in _UNITS}))
_FIRST_THREE = "|".join(sorted({name[:3] if len(name) > 2 else rf"{name}[sn]?\b" for name in _UNITS}))
_STEPS = (
    _step(rf"[ -]?(?i: (?=[{_FIRST_LETTERS}]) (?: {_FIRST_THREE} ))", MEASURE, _term_in_base_unit),
    _step(r"[ -]?(?i: [kmb]\b | m[nilr] | b[ni] | th | ta )", _ROUND, _round_in_digits),
    _step(r"[ ]?[xX×*][ ]?\d | [ ]by[ ]\d", _SIZED, _sides),
    _step(r"[ ]?[xX×*][ ]?\d | [ ]by[ ]\d", _SIZE, _joined_size),
    _step(r"\)?[ ]\(?\d | (?<=[A-Z]{2}\d\d)[ ][A-Z]", _GROUPS, _joined_groups),
)
_STEPS_OF_TIMES = (
    _step(r"[ ]?(?i: a\.?m | p\.?m )", _TWELVE_HOURS, _of_twelve_hours),
    _step(r"[ ]?(?: [hH]\b | [hH][ ]?\d | h(?:ou)?rs | [uU]hr | o'c | [時时點点시] )", _CLOCK, _of_clock),
)
"""The steps of `with_common_forms` in their order; those of times of day are the last."""
_HINT = re.compile("|".join(step.hint.pattern for step in (*_STEPS, *_STEPS_OF_TIMES)), re.VERBOSE)
"""The hint of any step. Most texts have none, and skip all steps."""


_SEGMENT_BREAK = re.compile(r"[.\-/@:&+#]+")
_CODE_BREAKS = (re.compile(r"(?<=\d)T(?=\d)"), re.compile(r"(?<=[A-Za-z]):(?=\d)"), re.compile("[/@:#]"))
"""Characters that join several codes. The parts of 2026-05-01T09:30, src/mail.py:42 and 10.0.0.15/24 between them are
indexed as codes, too."""
_PROSE_LINKS = frozenset("-/&")
"""Words that are linked by these characters alone are ordinary words and no code: long-term, and/or."""
_SHORT_PART_MAX = 2
"""A hyphenated word with a part of at most this many letters is also indexed as one word: e-mail, wi-fi."""
_WITH_SECONDS = re.compile(r"(\d?\d:\d\d):\d\d(?:\.?\d+)?(?:[zZ]|[+-]\d\d:?\d\d)?")
"""A time of day with seconds; it is also indexed without them. The comma of 09:05:17,250 is gone before."""
_NOT_OF_NUMBER = re.compile(r"[vV](?=\d+\.\d)|0(?=\d:\d\d\Z)")
"""The v before a version or the 0 before an hour. A code is also indexed without it: v2.10 as 2.10, 09:05 as 9:05."""


def segments_of(token: str) -> list[str]:
    """The parts of a token between signs, without those that are empty or only apostrophes."""
    return [segment for segment in _SEGMENT_BREAK.split(token) if segment.strip("'")]


def codes_of_token(token: str) -> list[str]:
    """The codes among the token, its parts between `_CODE_BREAKS`, times of day without seconds, and all of them
    without `_NOT_OF_NUMBER`."""
    found, parts = [token], [token]
    for separator in _CODE_BREAKS:
        parts = [part for joined in parts for part in separator.split(joined)]
        found += parts
    found += [time[1] for part in found if (time := _WITH_SECONDS.fullmatch(part))]
    found += [part[1:] for part in found if _NOT_OF_NUMBER.match(part)]
    return [code for code in dict.fromkeys(found) if _is_code(code)]


def _is_code(token: str) -> bool:
    """Whether the segments of a token are also indexed joined, as one term. True for AC-12 and os.path, and for e-mail,
    which is often written as one word; False for long-term and and/or."""
    segments = segments_of(token)
    if len(segments) < 2:
        return False
    linked = _PROSE_LINKS.issuperset(char for char in token if not char.isalnum()) and all(map(str.isalpha, segments))
    return not linked or ("-" in token and min(map(len, segments)) <= _SHORT_PART_MAX)


_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d{3})+),(\d\d?)(?![\w,]|\.\d)")
"""A number as in 1.234,50: groups of three digits between periods, then a decimal comma."""


def with_decimal_point(piece: str) -> str:
    """The piece with 1234.50 in place of 1.234,50."""
    return _DECIMAL_COMMA.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", piece)


_GROUPED_CODE = re.compile(
    r"\d{1,3}(?:\.\d{3})+|(?=(?:[./-]?\d){8})(?!(?:\d{1,3}\.){3}\d{1,3}(?:/\d+)?\Z)\d+(?:[./-]\d+)+"
)
"""250.000, 978-3-16-148410-0 or 030/555-0199. IP addresses do not match, unless they may be a number: 10.9.200.250."""


_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DATE_LENGTH = 8
"""Largest number of digits of a date."""


def _is_grouped(code: str) -> bool:
    """Whether a code of digits is also indexed without its periods, slashes and hyphens."""
    return _GROUPED_CODE.fullmatch(code) is not None and not may_be_date(code)


def may_be_date(groups: str) -> bool:
    """Whether the groups have at most as many digits as a date, and one of them may be a year."""
    return _YEAR.search(groups) is not None and sum(map(str.isdigit, groups)) <= _DATE_LENGTH


_ZEROS = re.compile(r"0+(?=[1-9]\d)")
"""Zeros before a number of two digits or more."""
_PHONE = re.compile(r"(?!\d*0{6}\Z)\d{10,15}")
"""Digits that may be a phone number. A number that ends in six zeros is a round number instead."""
_SUBSCRIBER = 9
"""Number of last digits of a phone number that are indexed: they are the same after +49, 0049 or 0."""
_HASH = re.compile(r"(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,64}")
_HASH_PREFIX = 7
"""Number of digits to which Git shortens a hash."""
_BEFORE_UNIT = re.compile(r"(\d+\.\d+)[^\W\d_]{1,3}")
"""A number with a decimal point and the name of its unit: 19.1C, 3.3V."""
_ZERO_PARTS = re.compile(r"[vV]?(\d+(?:\.\d+)+?)(?:\.0)+")
"""A version that ends with .0."""
_SHORT_YEAR = re.compile(r"(?i:FY'?|Q[1-4]/|[1-4]Q)(\d\d)")
"""A fiscal year or a quarter with two digits of its year."""


def common_terms(terms: Iterable[str], segments: Sequence[str], codes: Sequence[str]) -> list[str]:
    """Further terms of a token: digits without signs between them, numbers without leading zeros, the end of phone
    numbers, the beginning of hashes, decimal numbers without their unit, versions without .0, years in full, ISO dates.

    Args:
        terms: The terms of the token, of its parts and of its parts joined.
        segments: The segments of the token.
        codes: The codes of the token, from `codes_of_token`; for a token of one segment, the token alone.
    """
    grouped = ["".join(segments_of(code)) for code in codes if _is_grouped(code)]
    numbers = [term for term in (*terms, *grouped) if term.isdecimal()]
    shorter = [zeros.string[zeros.end() :] for term in numbers if (zeros := _ZEROS.match(term))]
    ends = [number[-_SUBSCRIBER:] for number in numbers if _PHONE.fullmatch(number)]
    hashes = [segment[:_HASH_PREFIX] for segment in map(str.lower, segments) if _HASH.fullmatch(segment)]
    decimals = [found[1] for code in codes if (found := _BEFORE_UNIT.fullmatch(code))]
    versions = [found[1] for code in codes if (found := _ZERO_PARTS.fullmatch(code))]
    years = [f"20{found[1]}" for code in codes if (found := _SHORT_YEAR.fullmatch(code))]
    dates = [date for code in codes for date in _dates(code)]
    return grouped + shorter + ends + hashes + decimals + versions + years + dates


_DATE = re.compile(
    r"(?P<day>\d\d?)(?P<sign>[./-])(?P<month>\d\d?)(?P=sign)(?P<year>(?:19|20)\d\d)"
    r"|(?P<y>(?:19|20)\d\d)(?P<s>[./]?)(?P<m>\d\d)(?P=s)(?P<d>\d\d)"
)


def _dates(code: str) -> list[str]:
    """The days that a code may mean, as 2023-03-12; two days for 5/8/2023, because some write the month first."""
    found = _DATE.fullmatch(code)
    if found is None:
        return []
    # The groups are named "year" or "y", by the order of the date.
    year, month, day = (int(found[name] or found[name[0]]) for name in ("year", "month", "day"))
    both = (month, day), *([(day, month)] if found["sign"] == "/" and day != month else [])
    return [f"{year}-{first:02}-{second:02}" for first, second in both if 0 < first <= 12 and 0 < second <= 31]


_NEGATIVE = re.compile(r"(?:\A|[=:(])[-\u2212](\d+(?:[.,]\d+)*)(?![\d-]|[.,]\d)")
"""A number with its minus sign: -10, (-10), temp=-10, -1,234.50."""
_THOUSANDS = re.compile(r",(?=\d{3}\b)")
"""A comma between groups of three digits; any other is a decimal comma."""
_SIGNS = {"%": "percent", "€": "euro", "$": "dollar", "£": "pound"}
_SIGN = re.compile(r"(?<=\d)[%€$£]|[€$£](?=\d)|\A[%€£]\Z")
"""A sign of `_SIGNS` behind a digit, a currency before one, or a sign that is alone in its piece, as in "50 %". A "$"
alone is left out, since it often begins a command."""


def signs(piece: str) -> list[str]:
    """Terms for the signs beside a number: the words for percent and currencies, and the number with its minus sign."""
    negative = _NEGATIVE.search(piece)
    words = [_SIGNS[sign] for sign in _SIGN.findall(piece)]
    return words if negative is None else [*words, "-" + _THOUSANDS.sub("", negative[1]).replace(",", ".")]
