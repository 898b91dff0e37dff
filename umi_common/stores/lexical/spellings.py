"""Common forms of numbers and codes, which are indexed beside the form in the text, and spellings without accents.

    IBAN DE04 2589 5385                       de0425895385
    14 630,99   14.630,99                     14630.99
    +49 30 555 0199   030/555-0199            305550199
    INV-000123                                123
    insur- ance (two lines)                   insurance
    6:06 pm   6 pm                            18:06   18:00
    18h06   18.06 Uhr   1806 hrs   午後6時6分   18:06
    12.3.2023   12/03/2023   20230312         2023-03-12
    commit d1bd7a1c4e0b9f                     d1bd7a1
    $1.5M   1.5 million   1,5 Mio             1500000
    nine thousand   twenty-six                9000   26
    20 x 30   20×30   20 by 30                20x30
    M8 x 30                                   m8x30
    19.1C                                     19.1
    1.96 m   196cm   1,960 millimetres        1960mm
    Part V   Part 5                           5
    release 1.2.0                             1.2
    FY24   Q3/24   3Q24                       2024
    -10 °C   minus 10 °C   temp=-10C          -10
    50%   50 percent                          percent
    €20   20€   20 euros                      euro

The queries "Muller" and "Mueller" also find "Müller" (`Spellings`). So does "Mulller", if no text holds that word
(`one_edit_away`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from string import ascii_lowercase

from umi_common.stores.lexical import languages
from umi_common.times import MONTHS, with_plain_letters

_HINT = re.compile(
    r"\d(?:\)? \(?\d| ?[apAP]\.?[mM]|[ -]?(?:[kKMB]\b|(?i:m[nilr]|b[ni]|th|ta))| ?[xX×*] ?\d| by \d"
    r"| ?(?:[hH]\b|[hH] ?\d|h(?:ou)?rs|[uU]hr|o'c|[時时点點시])"
    r"|[ -]?(?i:[kcdm]?[mgl]s?\b|mil|[cz]ent|de[cz]i|[ck]h?il|quil|m[eè]t|gram|lit))"
)
"""Every match of `_GROUPS`, `_TWELVE_HOURS`, `_CLOCK`, `_ROUND`, `_SIZE` and `_MEASURE` contains a match of this
pattern. Most texts have no such match, and are not searched for the six patterns."""
WHOLE = "\ue000"
"""First character of a piece of `with_common_forms` of which the rest is one term; no text has this character."""
_GROUPS = re.compile(
    r"(?<![\w.,:/-])(?:[A-Z]{2}\d\d(?: [A-Z\d]{4})+(?: [A-Z\d]{1,3})?|\+?\(?\d+\)?(?:[ -]\(?\d+\)?)+(?:[.,]\d\d?)?)"
    r"(?!\w|[.,:/-]\w)"
)
"""An IBAN, or digits in groups with spaces, "-" or brackets between them."""
_TWELVE_HOURS = re.compile(r"(?<![\w.,:/-])(1[0-2]|0?[1-9])(?:[:.]([0-5]\d))? ?([ap])\.?m\b", re.IGNORECASE)
"""A time with am or pm: 6:06 pm, 6 p.m."""
_CLOCK = re.compile(
    r"(?<![\w.,:/-])(?P<hour>[01]?\d|2[0-3])"
    r"(?: ?[hH] ?(?P<a>[0-5]\d)|(?:\.|(?<=\d\d))(?P<b>[0-5]\d) ?(?:[hH]|hrs|hours|[uU]hr)|[hH]"
    r"| [uU]hr(?: (?P<c>[0-5]\d))?| o'clock)(?!\w)"
    r"|(?<![\d.,第])(?:(?P<pm>午後|下午|晚上|오후) ?)?(?P<h>1?\d|2[0-3]) ?[時时点點시](?![間间간])"
    r"(?: ?(?P<d>[0-5]?\d)[分분]|(?P<half>[半반]))?"
)
"""A time with a sign or word for hours: 18h06, 18h, 1806 hours, 18.06 Uhr, 18 Uhr 06, 6 o'clock, 午後6時6分."""
_THOUSANDS = (
    {"k", "thousand", "tausend"},
    {"m", "mn", "mln", "mio", "million", "millions", "millionen", "millones"},
    {"b", "bn", "billion", "billions", "mrd", "milliard", "milliards", "milliarden"},
)
"""Names of 1000, 1000 ** 2 and 1000 ** 3, in lower case."""
_NAMES = "|".join(sorted(set().union(*_THOUSANDS)))
_ROUND = re.compile(rf"(?<![\w.,])(\d+(?:,\d{{3}})*)(?:[.,](\d{{1,3}}))?(?:([kKMB])|[ -]?((?i:{_NAMES})))\b")
"""A number before a name of `_THOUSANDS`, without a space if the name has one letter: 1.5M, 1.5 million."""
_CURRENCY = re.compile(r"(?:[$€£]|\b(?:EUR|USD|GBP|CHF)) ?\Z")
"""The end of a text before an amount of money: "1.5 m" is a length, but "€1.5 m" a number of euros."""
_UNDER_20 = (  # noqa: SIM905 a list would take twenty lines
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_VALUES = {
    **{name: value for value, name in enumerate(_UNDER_20, start=1)},
    **{name: 10 * value for value, name in enumerate(_TENS, start=2)},
}
_TENS_AND_ONE = rf"(?:{'|'.join(_TENS)})[ -](?:{'|'.join(_UNDER_20[:9])})"
_UNDER_100 = rf"(?:{_TENS_AND_ONE}|{'|'.join(_VALUES)})"
_SPELLED = re.compile(
    rf"\b(?:{_UNDER_100}(?: (?:{'|'.join(_SCALES)})(?: and)?(?: {_UNDER_100})?)+|{_TENS_AND_ONE})\b", re.IGNORECASE
)
"""A number of several words: "twenty-six", "eighteen thousand five hundred"."""
_PARTS_OF_SPELLED = (*_SCALES, "ty-")
"""Every match of `_SPELLED` holds one of these, except "twenty six". Most texts hold none and are not searched."""
_SIZE = re.compile(r"(?<![\w.,/-])[A-Za-z]?\d+(?:[.,]\d+)?(?:(?: ?[xX×*] ?| by )\d+(?:[.,]\d+)?){1,2}(?!\w|[.,]\d)")
"""Two or three measures of one thing: 20 x 30, 2 by 3 by 4, M8 x 30."""
_UNITS = {
    name: (base, power)
    for base, power, names in (
        ("mm", 0, "mm millimetre millimeter millimètre milímetro millimetro millimetri"),
        ("mm", 1, "cm centimetre centimeter zentimeter centimètre centímetro centimetro centimetri"),
        ("mm", 2, "dm decimetre decimeter dezimeter décimètre decímetro decimetro decimetri"),
        ("mm", 3, "m metre meter mètre metro metri"),
        ("mm", 6, "km kilometre kilometer kilomètre kilómetro chilometro chilometri quilómetro quilômetro"),
        ("mg", 0, "mg milligram milligramm milligramme miligramo milligrammo milligrammi miligrama"),
        ("mg", 3, "g gram gramm gramme gramo grammo grammi grama"),
        ("mg", 6, "kg kilo kilogram kilogramm kilogramme kilogramo chilogrammo chilogrammi quilograma"),
        ("ml", 0, "ml millilitre milliliter mililitro millilitro millilitri"),
        ("ml", 1, "cl centilitre centiliter zentiliter centilitro centilitri"),
        ("ml", 2, "dl decilitre deciliter deziliter décilitre decilitro decilitri"),
        ("ml", 3, "l litre liter litro litri"),
    )
    for name in names.split()
}
"""Name of a unit in the singular -> the unit in which its measures are indexed, and how many times ten that is."""
_LONG_UNITS = "|".join(sorted((name for name in _UNITS if len(name) > 1), key=len, reverse=True))
_MEASURE = re.compile(
    r"(?P<whole>\d(?<![\w.,/:-]\d)(?<!\d \d)(?:(?<!0)\d{0,2}(?:[ ,]\d{3})+(?![\d,])|\d{0,8}))"
    r"(?:[.,](?P<fraction>\d{1,6}))?[ -]?"
    rf"(?P<unit>[mglL](?!\w)|(?i:(?:{_LONG_UNITS})(?=[sn]?(?!\w))))[sn]?(?![\w/^])"
)
"""A number before the name of a unit: 1.96 m, 196cm, 2,349 metres, 5-litre."""
_ROMAN_DIGIT = re.compile(r" [IVXivx](?!\w|['.-]\w)")
"""A space and a Roman number of one digit; longer Roman numbers are in word_forms.txt."""
_CUT_WORD = re.compile(r"([^\W\d_]{2,40})-\n\s*([^\W\d_]{2,40})")
"""A word cut at the end of a line, as in a PDF. It also matches "long-" at the end of a line before "term", so that
"longterm" is indexed, too."""
_AMOUNT = re.compile(r"\d{1,3}(?: \d{3})+(?:[.,]\d\d?)?")
"""Groups of digits that are an amount: 14 630,99."""
_NUMBER_LENGTHS = range(8, 25)
"""Groups of digits that are no amount are joined to one number if the number of digits is in this range. Longer groups
may be a line of a table."""
_DATE_LENGTH = 8
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d{3})+),(\d\d?)(?![\w,]|\.\d)")
"""A number as in 1.234,50: groups of three digits between periods, then a decimal comma."""
_GROUPED_CODE = re.compile(
    r"\d{1,3}(?:\.\d{3})+|(?=(?:[./-]?\d){8})(?!(?:\d{1,3}\.){3}\d{1,3}(?:/\d+)?\Z)\d+(?:[./-]\d+)+"
)
"""250.000, 978-3-16-148410-0 or 030/555-0199, but not an IP address."""
_PHONE = re.compile(r"(?!\d*0{6}\Z)\d{10,15}")
"""Digits that may be a phone number; a number that ends in six zeros is none, but a round number."""
_SUBSCRIBER = 9
"""Number of last digits of a phone number that are indexed: they are the same after +49, 0049 or 0."""
_NUMBERED = frozenset(
    (  # noqa: SIM905 a list would take forty lines
        "act annex appendix article book chapter class clause division figure group level lesson paragraph part phase "
        "schedule section stage step table title type unit volume war kapitel teil artikel band anhang klasse stufe "
        "typ chapitre partie tome annexe livre capítulo parte tomo capitolo"
    ).split()
)
"""Words after which I, V or X is a Roman number; after other words it is mostly a pronoun or part of a name."""
_ROMAN = {"I": "1", "V": "5", "X": "10"}
_NUMBERED_LENGTH = max(map(len, _NUMBERED)) + 1
"""Length of the longest word of `_NUMBERED` and the space before it, in characters."""
_ZERO_PARTS = re.compile(r"[vV]?(\d+(?:\.\d+)+?)(?:\.0)+")
"""A version that ends with .0."""
_SHORT_YEAR = re.compile(r"(?i:FY'?|Q[1-4]/|[1-4]Q)(\d\d)")
"""A fiscal year or a quarter with two digits of its year."""
_NEGATIVE = re.compile(r"(?:\A|[=:(])[-\u2212](\d+(?:[.,]\d+)?)(?![\d-])")
"""A number with its minus sign: -10, (-10), temp=-10."""
_BEFORE_UNIT = re.compile(r"(\d+\.\d+)[^\W\d_]{1,3}")
"""A number with a decimal point and the name of its unit: 19.1C, 3.3V."""
_MINUS = re.compile(r"[mM]inus (?=\d)")
_SIGNS = {"%": "percent", "€": "euro", "$": "dollar", "£": "pound"}
_SIGN = re.compile(r"(?<=\d)[%€$£]|[€$£](?=\d)|\A[%€£]\Z")
"""A sign of `_SIGNS` beside a number."""
_ZEROS = re.compile(r"0+(?=[1-9]\d)")
"""Zeros before a number of two digits or more."""
_DATE = re.compile(
    r"(?P<day>\d\d?)(?P<sign>[./-])(?P<month>\d\d?)(?P=sign)(?P<year>(?:19|20)\d\d)"
    r"|(?P<y>(?:19|20)\d\d)(?P<s>[./]?)(?P<m>\d\d)(?P=s)(?P<d>\d\d)"
)
_MONTH = rf"(?P<{{}}>{'|'.join(MONTHS)})[a-zä]{{{{0,6}}}}\.?"
_DATE_IN_WORDS = re.compile(
    rf"(?<![\w.,/:-])(?:(?P<day>\d\d?)(?:st|nd|rd|th|\.)?[ -](?:of )?{_MONTH.format('month')}"
    rf"|{_MONTH.format('m')} (?P<d>\d\d?)(?:st|nd|rd|th)?),?[ -](?P<year>(?:19|20)\d\d)(?!\w)",
    re.IGNORECASE,
)
"""A date with the name of its month in English or German, or one that begins like it: 3 March 2026, March 3, 2026."""
_HASH = re.compile(r"(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,64}")
_HASH_PREFIX = 7
"""Number of digits to which Git shortens a hash."""
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
"""A Latin letter that is not ASCII."""
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "ð": "d", "þ": "th"})
_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
"""Letter -> two letters, as German, Danish, Norwegian and Swedish names are typed if the keyboard lacks the letter."""

_UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü", "Ae": "Ä", "Oe": "Ö", "Ue": "Ü"}
_TWO_LETTERS_OF_UMLAUT = re.compile("|".join(_UMLAUTS))


def with_common_forms(text: str) -> str:
    """The text with the common form after each number, size or time that may contain spaces, and with the whole word
    after a word that is cut at the end of a line."""
    if "-\n" in text:
        text = _CUT_WORD.sub(r"\g<0> \1\2", text)
    text = _ROMAN_DIGIT.sub(_and_decimal, text)
    if "inus " in text:
        text = _MINUS.sub(r"\g<0>-", text)
    if any(part in text for part in _PARTS_OF_SPELLED):
        text = _SPELLED.sub(_and_digits, text)
    if _HINT.search(text) is None:
        return text
    text = _SIZE.sub(_and_by, _ROUND.sub(_and_whole, _MEASURE.sub(_and_in_base_unit, text)))
    return _CLOCK.sub(_and_clock, _TWELVE_HOURS.sub(_and_24_hours, _GROUPS.sub(_and_joined, text)))


def in_base_units(text: str) -> str:
    """The text with the base unit in place of every other unit of a measure: 1960mm for 1.96 m."""
    return _MEASURE.sub(_in_base_unit, text) if _HINT.search(text) else text


def with_decimal_point(piece: str) -> str:
    """1234.50 in place of 1.234,50."""
    return _DECIMAL_COMMA.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", piece)


def is_grouped(code: str) -> bool:
    """Whether a code of digits is also indexed without its periods and hyphens."""
    return _GROUPED_CODE.fullmatch(code) is not None and not _may_be_date(code)


def _lower(word: str) -> str:
    """The word in lower case, as in the tables: "litre" for "LİTRE", which a pattern finds that ignores case."""
    return with_plain_letters(word).lower()


def _may_be_date(groups: str) -> bool:
    """Whether the groups have at most as many digits as a date, and one of them may be a year."""
    return _YEAR.search(groups) is not None and sum(map(str.isdigit, groups)) <= _DATE_LENGTH


def common_terms(terms: Iterable[str], segments: Sequence[str], codes: Sequence[str]) -> list[str]:
    """Further terms: numbers without leading zeros, the end of phone numbers, the beginning of hashes, decimal numbers
    without their unit, versions without .0, years in full, ISO dates.

    Args:
        terms: The terms of one token.
        segments: The parts of the token between links.
        codes: The codes that the token holds, the whole token included if it is a code.
    """
    numbers = [term for term in terms if term.isdecimal()]
    shorter = [zeros.string[zeros.end() :] for term in numbers if (zeros := _ZEROS.match(term))]
    ends = [number[-_SUBSCRIBER:] for number in numbers if _PHONE.fullmatch(number)]
    hashes = [segment[:_HASH_PREFIX] for segment in map(str.lower, segments) if _HASH.fullmatch(segment)]
    decimals = [found[1] for code in codes if (found := _BEFORE_UNIT.fullmatch(code))]
    versions = [found[1] for code in codes if (found := _ZERO_PARTS.fullmatch(code))]
    years = [f"20{found[1]}" for code in codes if (found := _SHORT_YEAR.fullmatch(code))]
    return shorter + ends + hashes + decimals + versions + years + [date for code in codes for date in _dates(code)]


def days_in_words(text: str) -> list[str]:
    """The dates of the text that name their month, as 2026-03-03."""
    return [
        f"{date['year']}-{MONTHS[_lower(date['month'] or date['m'])]:02}-{int(date['day'] or date['d']):02}"
        for date in _DATE_IN_WORDS.finditer(text)
    ]


def signs(piece: str) -> list[str]:
    """Terms for the signs beside a number: the words for percent and currencies, and the number with its minus sign."""
    negative = _NEGATIVE.search(piece)
    words = [_SIGNS[sign] for sign in _SIGN.findall(piece)]
    return words if negative is None else [*words, "-" + negative[1].replace(",", ".")]


def _dates(code: str) -> list[str]:
    """The days that a code may mean, as 2023-03-12; two days for 5/8/2023, because some write the month first."""
    found = _DATE.fullmatch(code)
    if found is None:
        return []
    year, month, day = (int(found[name] or found[name[0]]) for name in ("year", "month", "day"))
    both = (month, day), *([(day, month)] if found["sign"] == "/" and day != month else [])
    return [f"{year}-{first:02}-{second:02}" for first, second in both if 0 < first <= 12 and 0 < second <= 31]


def _and_joined(groups: re.Match[str]) -> str:
    """The groups and, after them, the number that they form; the groups alone if they form none."""
    joined = re.sub(r"[ ()+-]", "", groups[0])
    if _AMOUNT.fullmatch(groups[0]):
        return f"{groups[0]} {joined.replace(',', '.')}"
    is_number = " " in groups[0] and len(joined) in _NUMBER_LENGTHS and not _may_be_date(groups[0])
    return f"{groups[0]} {joined}" if is_number else groups[0]


def _and_whole(number: re.Match[str]) -> str:
    """1.5 million and, after it, 1500000."""
    before = number.string[max(0, number.start() - 5) : number.start()]
    if number[0].endswith((" m", "-m")) and not _CURRENCY.search(before):
        return number[0]
    whole, fraction, name = number[1].replace(",", ""), number[2] or "", _lower(number[3] or number[4])
    zeros = next(3 * power for power, names in enumerate(_THOUSANDS, 1) if name in names)
    return f"{number[0]} {whole}{fraction.ljust(zeros, '0')}"


def _and_digits(spelled: re.Match[str]) -> str:
    """Eighteen thousand five hundred and, after it, 18500."""
    total = below_1000 = 0
    for word in re.findall("[a-z]+", _lower(spelled[0])):
        if word in _VALUES:
            below_1000 += _VALUES[word]
        elif word == "hundred":
            below_1000 *= 100
        elif word in _SCALES:
            total, below_1000 = total + below_1000 * _SCALES[word], 0
    return f"{spelled[0]} {total + below_1000}"


def _and_in_base_unit(measure: re.Match[str]) -> str:
    """1.96 m and, after it, 1960mm as one term; 1960mm alone, which has this term already."""
    in_base_unit = _in_base_unit(measure)
    has_it = measure[0] == in_base_unit and "." not in in_base_unit
    return measure[0] if has_it else f"{measure[0]} {WHOLE}{in_base_unit} "


def _in_base_unit(measure: re.Match[str]) -> str:
    """1960mm for 1.96 m."""
    base, power = _UNITS[_lower(measure["unit"])]
    whole, fraction = re.sub("[ ,]", "", measure["whole"]), measure["fraction"] or ""
    number = f"{whole}{fraction[:power].ljust(power, '0')}".lstrip("0") or "0"
    rest = fraction[power:].rstrip("0")
    return f"{number}.{rest}{base}" if rest else f"{number}{base}"


def _and_by(size: re.Match[str]) -> str:
    """20 by 30 and, after it, 20x30."""
    joined = re.sub(r" ?(?:[xX×*]|by) ?", "x", size[0]).replace(",", ".")
    return size[0] if joined == size[0] else f"{size[0]} {joined}"


def _and_decimal(digit: re.Match[str]) -> str:
    """V and, after it, 5, if the word before it is in `_NUMBERED`, as in Part V."""
    before = digit.string[max(digit.start() - _NUMBERED_LENGTH, 0) : digit.start()].rpartition(" ")[2]
    return f"{digit[0]} {_ROMAN[digit[0][1:].upper()]}" if before.lower() in _NUMBERED else digit[0]


def _and_24_hours(time: re.Match[str]) -> str:
    """6:06 pm and, after it, 18:06."""
    hour = int(time[1]) % 12 + (12 if time[3] in "pP" else 0)
    return f"{time[0]} {hour}:{time[2] or '00'}"


def _and_clock(time: re.Match[str]) -> str:
    """18h06 and, after it, 18:06."""
    hour = int(time["hour"] or time["h"])
    minute = next(filter(None, time.group("a", "b", "c", "d")), "30" if time["half"] else "00")
    return f"{time[0]} {hour + 12 if time['pm'] and hour < 12 else hour}:{minute:0>2} "


def without_accents(word: str) -> str:
    """A word of Latin letters in lower case without accents; other words as they are."""
    if word.isascii() or languages.script_of(word) != languages.LATIN:
        return word
    return "".join(
        char for char in unicodedata.normalize("NFD", word.translate(_LETTERS)) if not unicodedata.combining(char)
    )


def with_umlauts(text: str) -> str:
    """The text with ä, ö and ü for each ae, oe and ue."""
    return _TWO_LETTERS_OF_UMLAUT.sub(lambda two: _UMLAUTS[two[0]], text)


def one_edit_away(word: str) -> Iterator[str]:
    """The words with the same first letter that differ by one letter (inserted, deleted or replaced) or by two adjacent
    letters that are swapped."""
    for at in range(1, len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
            yield before + after[1:2] + after[0] + after[2:]
        for letter in ascii_lowercase:
            yield before + letter + after
            if after:
                yield before + letter + after[1:]


class Spellings:
    """The terms of an index that have accents, by their spellings without accents. One writer at a time; readers may
    read meanwhile.

    Args:
        stems: Returns the terms of a word.
    """

    def __init__(self, stems: Callable[[str], Sequence[str]]) -> None:
        self._stems = stems
        self._read = 0
        """Number of terms that `update` has read."""
        self._terms: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        """Whether a term of the index has accents."""
        return bool(self._terms)

    def update(self, terms: dict[str, int]) -> None:
        """Add the terms that have accents. `terms` only grows between calls; only its new terms are read."""
        new = list(islice(reversed(terms), len(terms) - self._read))[::-1]  # the last terms, in order
        for term in new:
            if not term.isascii() and _ACCENTED.search(term):
                for spelling in self._without_accents(term):
                    self._terms.setdefault(spelling, {})[term] = None
        self._read = len(terms)

    def others(self, term: str) -> list[str]:
        """For a term in ASCII, the terms of the index that it spells without accents; for any other term, its spellings
        without accents."""
        return list(self._terms.get(term, ())) if term.isascii() else self._without_accents(term)

    def _without_accents(self, term: str) -> list[str]:
        plain = {without_accents(each) for each in (term, term.translate(_TWO_LETTERS))} - {term}
        stems = {stem for each in plain for stem in self._stems(each)}
        return sorted(plain | stems)
