"""Find the codes and names of a query as wholes in texts, where g says how well a text holds one.

    codes        "error 502", "UMB-2231", "bug 983434"
    names        from programs ("os.path.join", "max_tokens", "close()", "--force", "-x"), and acronyms beside at most
                 one other word ("what is GDPR?", "what does NPM stand for?")
    full names   of people: "Tara Hale", "Hale, Tara"; in a short query also "tara hale phone"

A code is a word of at least two characters, one of them a digit; a digit alone mostly counts something. "4th" is no
code, because a text may write "fourth" or "round 4". A code with at least `IDENTIFIER_DIGITS` digits is an identifier,
such as the number of an order. Identifiers are looked up in a query of any length, short codes only in a query of few
other words: in a longer one, a short code is one detail of several.

g of a code and of a full name is 1 - offset / length of the text, because a text mostly names its subject first: the
form of Tara Hale names Tara first, that of her deputy last. g of a name is 1, and 2 in a text that defines it. g is 0
in a text that does not hold the part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from umi_common.number_names import DIGITS_OF
from umi_common.pool import NO_SOURCE, Floats, Ints
from umi_common.search.reorder.numbers import RANGE, ranges_in
from umi_common.search.reorder.phrases import ENTRIES_MAX, MEANING, PHRASE_CHARACTERS, holds_all
from umi_common.search.reorder.words import (
    FIRST_LETTERS,
    PARTS_MAX,
    TermsOf,
    bare,
    earlier_first,
    g_of_parts,
    held_early,
    lacking_share,
    spaced,
    words_in,
)
from umi_common.stores.lexical.languages import all_function_words
from umi_common.stores.lexical.numbers_in_text import BASE_UNITS, LOCAL_NUMBER

IDENTIFIER_DIGITS = 5
"""Smallest number of digits of an identifier. A year and most quantities have fewer."""
IN_BASE_UNIT = re.compile(rf"[\d.]+(?:{BASE_UNITS})")
"""A measure as in `in_base_units`, which is no identifier."""
OTHER_WORDS_MAX = 2
"""Largest number of words, other than codes and function words, of a query whose short codes are looked up."""
VERSION = re.compile(r"v?(\d+(?:\.\d+)+)")
"""Numbers with points between them, which may be a version, with or without a v before them."""
NUMBER = re.compile(rf"[1-9][0-9]{{{IDENTIFIER_DIGITS - 1},14}}")
"""An identifier of digits alone."""
GROUP_SIGNS = ",.' \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{RIGHT SINGLE QUOTATION MARK}"
"""Signs between the groups of three digits of a large number."""
PHONE_DIGITS = 7
"""Number of digits of a phone number without its area code."""
LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]+|\d+")
"""A run of letters or a run of digits."""

OPTION = re.compile(r"(-[A-Za-z]|--[A-Za-z][\w-]*)(?:=.*)?")
"""An option of a command, with or without its value."""
PROGRAM_NAME = re.compile(
    r"_*[A-Za-z]\w+(?:(?:\.|::|->)_*[A-Za-z]\w+)+(?:\(\))?"
    r"|[A-Za-z]+\d*(?:_[A-Za-z\d]+)+(?:\(\))?"
    r"|[a-z]{2,}(?:[A-Z][a-z]+)+(?:\(\))?"
    r"|[A-Za-z]\w{2,}\(\)"
)
"""A name from a program, such as os.path.join, max_tokens, maxTokens, or close()."""
ARGUMENTS = re.compile(r"\([^)].*$")
"""The arguments of a call, with the bracket before them."""
ACRONYM = re.compile(r"(?<![\w.-])[A-Z]{2,6}(?=s?(?![\w-]|\.\w))")
"""Two to six capital letters; the s of a plural may follow them."""
KEYWORDS = frozenset(["async", "class", "def", "export", "fn", "func", "function", "pub", "public", "static", "struct"])
"""Words before the name where code defines it, in several programming languages."""
DEFINITION = re.compile(r"\s*(?:def|func) ([A-Za-z_]\w{2,})\s*")
"""A query that is a definition without arguments: "def rmtree" is read as "rmtree()"; not "fn key", a key."""
BY_KEYWORD = 3
"""`_definition` of a text that defines a name behind one of `KEYWORDS` and before one of `BEHIND_DEFINED`."""
BEHIND_DEFINED = ("(", "<", ":", "{", " {", "\n")
"""Signs behind the name where code defines it: "def rmtree(path):", but not "export PATH=" in a shell."""
BEFORE_DEFINED = tuple(f"{keyword} " for keyword in sorted(KEYWORDS))
"""What a text holds if it may define a name by a keyword."""
DEFINED_BY_KEYWORD = re.compile(
    rf"(?:\A|\n)[ \t]*(?:(?:{'|'.join(sorted(KEYWORDS))}) )+(\w+(?=\(|<| ?\{{)|[A-Z]\w*(?=[:\n]))"
)
"""A line of code that defines a name: "def rmtree(path):", "class Session:", but not "class trip: we go to Ulm"."""
SEVERAL_WORDS = re.compile(r"[^\W_]_+[^\W_]|[a-z\d][A-Z]")
"""Matches in a name of several words: "copy_tree", "HttpSession"."""
BRACKETS = ("[", "(", "{")
"""First signs of a line that shows how a command is called."""
TEXT_CHARACTERS = 20_000
"""Number of characters at the beginning of a text that are searched for names. Reading so many takes some 0.2 ms for
each name."""
MATCHES_MAX = 100
"""Largest number of places of a name in a text at which a definition is looked for; some 2 µs each."""
NAME_LENGTH = 100
"""Largest number of characters of a name that is looked up."""
SIGNS = r"[\W_]{0,8}"
"""Pattern of the signs that may stand between two parts of a name: "cache.ttl" is in "cache:\n  ttl"."""

ANY_INITIAL = r"[^\W\d_]"
"""Pattern of a middle initial, for a name that has none in the query: "Maria Hollander" is in "Maria S. Hollander"."""
LAST_FIRST = r",\s{1,2}"
"""Pattern of the signs between a last name and a first name: "Hale, Tara"."""
HOLDERS_MAX = 3
"""Largest number of candidates that hold a full name that is looked up. If more candidates hold it, it is their common
subject and distinguishes none of them."""
SHARED_MIN = 3
"""A full name is looked up if each of its words is in at least so many candidates that do not hold the name. If a word
is in fewer, BM25 finds the name by this word."""
SHORT_QUERY_WORDS = 4
"""Largest number of words, function words aside, of a query in which any two adjacent words may be a full name if
capital letters do not mark names."""
CHARACTERS_BESIDE = 30
"""Number of characters before a full name, and half the number from its beginning on, in which a text is read for the
query's other words. Farther words are mostly about another person: "Omar's phone number was changed. Tara Hale ...".
20 is too few for "the doctor of the old family of Tara Hale"; 60 ranks as 30 does."""
NAME_END = re.compile(r"\s*[^\w\s'’.-]+\s*")
"""Signs that end a full name: the words before and after them are not of one name."""
NOT_LOWER_CASE = r"[^\W\d_a-z][\w'’-]{1,40}"
"""A word that does not begin with a lower-case letter of ASCII; `full_names_in` leaves out other lower-case letters. It
has a largest length, because a search in "A-A-A-..." otherwise reads to the end from each letter."""
NEXT_ITEM = rf",?\s{NOT_LOWER_CASE}|,?\s(?:&|and|or|und|oder|et|ou|y|o|e|i|och|og|и)\s{NOT_LOWER_CASE}\b(?!,)"
"""The next item of a list: "Hale, Tara" is no name in "Hale, Tara, Bob" and "Hale, Tara and Bob", but one in "Hale,
Tara and Weber, Tom"."""
REVERSED_NAME = re.compile(rf"\b({NOT_LOWER_CASE},?\s)?({NOT_LOWER_CASE}),\s({NOT_LOWER_CASE})\b(?!{NEXT_ITEM})")
"""A last name and a first name: "Hale, Tara"; not in "call Ann Hale, Bob" or "Bob, Hale, Tara"."""
COURTESY_TITLES = frozenset(
    [
        *("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "doctor", "sir", "madam", "dame"),
        *("herr", "herrn", "frau", "fräulein", "monsieur", "madame", "mademoiselle", "mme", "mlle"),
        *("señor", "señora", "señorita", "sr", "sra", "srta", "signor", "signora", "dott", "senhor", "senhora"),
        *("dhr", "mevrouw", "mevr"),
    ]
)
"""Words before a name that are no part of it: the texts on one person write "Mr Hale" and "Tara Hale"."""
INITIAL = re.compile(r"[^\W\d_a-z]\.")
MIDDLE_INITIAL = re.compile(rf"\b({NOT_LOWER_CASE})\s([^\W\d_a-z])\.\s({NOT_LOWER_CASE})")
POSSESSIVE = re.compile(r"['’]s\b")


class Code(NamedTuple):
    """A code of a query, in the forms in which a text may hold it."""

    pattern: re.Pattern[str]
    digits: str
    """The first run of digits in the code, a quick test: few texts without the code hold it. "" if the code has only
    superscript digits, like "m²"."""
    grouped: Code | None = None
    """The number of an identifier in other groups of digits, such as "80,542" for "80542"."""

    def search(self, text: str) -> re.Match[str] | None:
        """The first match of the code in a text; None: the text does not hold the code."""
        return self.pattern.search(text) if self.digits in text else None


def codes_in(query: str) -> tuple[list[Code], list[Code]]:
    """(short codes, identifiers) of a query, at most `PARTS_MAX` of each. There are no short codes if the query has
    more than `OTHER_WORDS_MAX` other words."""
    if not any(map(str.isdigit, query)):
        return [], []
    phones = map("-".join, LOCAL_NUMBER.findall(query))
    words = dict.fromkeys([*(bare(word).lower() for word in query.split()), *phones])
    digit_counts = {word: sum(map(str.isdigit, word)) for word in words if len(word) > 1}
    long = (word for word, n in digit_counts.items() if n >= IDENTIFIER_DIGITS)
    identifiers = [word for word in long if not IN_BASE_UNIT.fullmatch(word)]
    short = [word for word, n in digit_counts.items() if n and word not in identifiers and word not in DIGITS_OF]
    others = words.keys() - {"", *short, *identifiers} - all_function_words()
    if len(others) > OTHER_WORDS_MAX:
        short = []
    return list(map(_code, short[:PARTS_MAX])), list(map(_code, identifiers[:PARTS_MAX]))


def _code(code: str) -> Code:
    """The code with its pattern. The pattern finds whole parts of a longer code, too: "1444" finds "INV-2024-1444".

    The parts of a code are its runs of letters and its runs of digits. Between two parts a text may have one sign of
    any kind or none ("E-1042" finds "e1042"); between two runs of digits it must have one ("10.1" does not find "101").
    The code must not touch another letter or digit, nor continue a number ("10.1" does not find "10.1.2"). A version
    is found with and without its v: "v1.4" finds "1.4", and "1.4" finds "v1.4". A range is found in other forms: "5-10"
    finds "5 to 10". A number is found with zeros before it: "108" finds "INV-00108".
    """
    version = VERSION.fullmatch(code)
    parts = LETTERS_OR_DIGITS.findall(version[1] if version else code)
    pattern = (r"(?:v[\W_]?)?" if version else "0*" if code.isdecimal() else "") + re.escape(parts[0])
    for before, after in pairwise(parts):
        between_digits = before[-1].isdigit() and after[0].isdigit()
        pattern += (r"[\W_]" if between_digits else r"[\W_]?") + re.escape(after)
    if RANGE.fullmatch(code):
        pattern = f"(?:{'|'.join([pattern, *ranges_in(code)])})"
    whole = re.compile(rf"(?<![^\W_])(?<!\d[.,:]){pattern}(?![^\W_]|[.,:]\d)", re.IGNORECASE)
    number = LOCAL_NUMBER.sub(r"\1\2", code)
    return Code(whole, next(filter(str.isdecimal, parts), ""), _in_groups(number) if NUMBER.fullmatch(number) else None)


def _in_groups(number: str) -> Code:
    """A number in groups of three digits that is no part of a longer number: "80542" finds "80,542", but not "1 80 542"
    or "80 542 11". Seven digits may be a phone number, with or without its area code: 7478475 or "(415) 747-8475"."""
    first, *groups = f"{int(number):,}".split(",")
    digits = rf"(?<!\d[{GROUP_SIGNS}:]){first}(?P<sign>[{GROUP_SIGNS}])" + "(?P=sign)".join(groups)
    if len(number) == PHONE_DIGITS:
        digits += rf"|(?<!\d[,:])(?:{number[:3]}[ .-]|(?<!\d\.){number[:3]}){number[3:]}"
    return Code(re.compile(rf"(?<![^\W_])(?:{digits})(?![^\W_]|[{GROUP_SIGNS}:]\d)"), first)


def codes_held(texts: Sequence[str], codes: Sequence[Code]) -> Floats:
    """(n, C) `earlier_first` of g of C codes in n texts. If no text holds a code, `Code.grouped` takes its place."""

    def held_of(codes: Sequence[Code]) -> Floats:
        return held_early(texts, codes, lambda text, code: _by_offset(code.search(text)))

    held = held_of(codes)
    grouped = {at: code.grouped for at, code in enumerate(codes) if code.grouped and not held[:, at].any()}
    if grouped:
        held[:, list(grouped)] = held_of(list(grouped.values()))
    return held


def _by_offset(match: re.Match[str] | None) -> float:
    """1 - offset / length of the text that was searched; 0 without a match."""
    return 0.0 if match is None else 1.0 - match.start() / len(match.string)


def with_words_beside(held: Floats, texts: Sequence[str], beside: Sequence[str], terms_of: TermsOf) -> Floats:
    """`held`, g of codes or full names, 1 larger in texts that also hold the query's other words (`beside`), if not all
    texts with a code do: "which relay replaces K35?" asks for the text with "replaces", even if K35 stands late
    in it. The text may have other forms of these words, with equal terms: "replacement" for "replaces"."""
    with_code = np.asarray(held.any(axis=1))
    if not (beside and with_code.any()):
        return held
    wanted = frozenset(terms_of(" ".join(beside)))

    def holds_words(text: str) -> bool:
        text = text[:PHRASE_CHARACTERS]
        if holds_all(spaced(words_in(text)), beside):
            return True
        lower = text.lower()  # outside ASCII, terms and words may differ in accents in their first letters
        may_hold = not text.isascii() or all(term[:FIRST_LETTERS] in lower for term in wanted)
        return may_hold and wanted <= frozenset(terms_of(text))

    with_words = np.array([coded and holds_words(text) for text, coded in zip(texts, with_code.tolist(), strict=True)])
    if with_words[with_code].all():  # the words distinguish no text with a code from another
        return held
    return np.asarray(held + (held > 0) * with_words[:, np.newaxis])


def program_names_in(query: str) -> list[re.Pattern[str]]:
    """Patterns of the query's command options, calls, and program names of several parts; "-x" and "-X" are two
    options."""
    defined = DEFINITION.fullmatch(query)
    words = [_without_signs(word) for word in query.split() if len(word) <= NAME_LENGTH]
    words += [f"{defined[1]}()"] if defined else []
    options = [
        re.compile(rf"(?<![\w-]){re.escape(found[1])}(?![\w-])") for found in map(OPTION.fullmatch, words) if found
    ]
    names = [word.removesuffix("()").lower() for word in words if PROGRAM_NAME.fullmatch(word)]
    return list(dict.fromkeys([*options, *map(_held_or_defined, names)]))[:PARTS_MAX]


def _held_or_defined(name: str) -> re.Pattern[str]:
    """A pattern of a whole name; of a name such as "shutil.rmtree", also of its last part behind a keyword."""
    whole, last = whole_name(name, any_case=True), re.split(r"\.|::|->", name)[-1]
    if last == name:
        return whole
    # The keyword is looked for behind the name: a pattern that begins with letters is found several times as fast.
    behind = "|".join(rf"(?<=\b{keyword} {last})" for keyword in sorted(KEYWORDS))
    return re.compile(rf"{last}(?=\s?[(<:{{\n]|\Z)(?:{behind})|{whole.pattern}", re.IGNORECASE)


def _without_signs(word: str) -> str:
    """A word without the punctuation and brackets around it, and without arguments of a call."""
    word = word.strip("'\"`\u2018\u2019\u201c\u201d*,.;:!?[]{}<>").removeprefix("(")
    if word.count("(") < word.count(")"):
        word = word.removesuffix(")")
    return ARGUMENTS.sub("", word)


def acronyms_in(query: str) -> list[re.Pattern[str]]:
    """Patterns of the acronyms of a query with at most one other word, function words aside; [] for a query all in
    capitals. The patterns match only whole words in capitals, with or without a plural s."""
    found = list(dict.fromkeys(ACRONYM.findall(query)))
    others = set(words_in(ACRONYM.sub(" ", query))) - all_function_words() - MEANING if found else ()
    if len(others) > 1 or query.isupper():
        return []
    return [re.compile(rf"(?<![^\W_]){re.escape(letters)}s?(?![^\W_])") for letters in found[:PARTS_MAX]]


def names_held(texts: Sequence[str], names: Sequence[re.Pattern[str]]) -> Floats:
    """(n, N) 1 where a text holds a name from a program or an acronym, else 0."""
    return g_of_parts(texts, names, lambda text, name: float(name.search(text, 0, TEXT_CHARACTERS) is not None))


def whole_name(name: str, between: str = SIGNS, *, any_case: bool) -> re.Pattern[str]:
    """A pattern of a whole name; `between`: pattern of the characters between two parts of the name."""
    pattern = between.join(map(re.escape, LETTERS_OR_DIGITS.findall(name)))
    return re.compile(rf"(?<![^\W_])(?<![^\W_]_){pattern}(?!\w)", re.IGNORECASE if any_case else 0)


def names_defined(texts: Sequence[str], names: Sequence[re.Pattern[str]]) -> Floats:
    """(n, N) 1 where a text defines a name, else 0.

    A reference begins a line with the name that it describes: an option, a setting, the heading of a function, "def". A
    synopsis, an example and other descriptions hold the name elsewhere in a line, often more often. A text defines a
    name if one of its lines begins with it, after no other words than placeholders, `KEYWORDS` and, if the name is an
    option, further options:

        defines                                    does not define
        "--break"                                  "'git grep' [--break] [--heading]"
        "-C NUM, --context=NUM"                    "see --context"
        "### `fs.exists(path, callback)`"          "if fs.exists(path):"
        "    def get_user(self, name):"            "    return get_user(name)"
        "    notes.txt"                            "-f notes.txt"

    Code defines "shutil.rmtree" by its last part: "def rmtree(path):". If a text defines a name behind one of
    `KEYWORDS`, only such texts define it, and those with the name in code font: in code, a line may begin with a call.
    """
    defined = g_of_parts(texts, names, _definition)
    return (defined > np.where((defined == BY_KEYWORD).any(axis=0), 1, 0)).astype(np.float64)


def words_defined(texts: Sequence[str], words: Sequence[str]) -> Floats:
    """(n, W) 1 where a line of code defines one of W words in lower case, else 0: "copytree" is defined by "def
    copytree(src):", "function copyTree(" and "def copy_tree(". If W > 1, only names of several words count: "json to
    text" asks for no "def json(". 0 for a word that more than `ENTRIES_MAX` texts define, such as a method of many
    classes."""
    held = np.zeros((len(texts), len(words)))
    for at, text in enumerate(texts):
        if not any(map(text.__contains__, BEFORE_DEFINED)):  # true of most texts; faster than the pattern
            continue
        names = DEFINED_BY_KEYWORD.findall(text, 0, TEXT_CHARACTERS)
        if len(words) > 1:
            names = list(filter(SEVERAL_WORDS.search, names))
        if names:
            held[at] = np.isin(words, [name.replace("_", "").lower() for name in names])
    return np.asarray(held * (held.sum(axis=0) <= ENTRIES_MAX))


def words_beside_held(texts: Sequence[str], beside: Sequence[str], sources: Ints) -> Floats:
    """(n,) factors f of n texts, 0..1, below 1 for a text that lacks a rare word q of the query: "gitignore and
    --no-index" asks for the text on both.

        r(q)    = the share of candidates that lack q; 0 if all lack it
        s(q, i) = 1 if i holds q, else the share of the candidates of its source that hold q: a chunk in the middle of
                  the manual of grep need not say "grep"
        f(i)    = 1 - max_q r(q) * (1 - s(q, i))

    Args:
        beside: Words of the query; those of its names change nothing, because a text that defines a name holds them.
        sources: (n,) the code of each text's source.
    """
    of_words = (spaced(words_in(text[:TEXT_CHARACTERS])) for text in texts)
    held = np.array([[holds_all(words, [word]) for word in beside] for words in of_words], dtype=np.float64)
    shares = np.array(held)
    for source in set(sources.tolist()) - {NO_SOURCE}:
        shares[sources == source] = held[sources == source].mean(axis=0)
    lacked = (1.0 - np.maximum(held, shares)) * lacking_share(held)
    return np.asarray(1.0 - lacked.max(axis=1, initial=0.0))


def _definition(text: str, name: re.Pattern[str]) -> float:
    """How a text defines a name: `BY_KEYWORD`, as a name in code font (2), by another line (1), or not at all (0)."""
    text, found = text[:TEXT_CHARACTERS], 0
    for match in islice(name.finditer(text), MATCHES_MAX):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if _may_precede(before, text[match.start()]):
            keyword = not KEYWORDS.isdisjoint(before.split()[-1:])  # the sign of "def _name" is no word
            if keyword and text.startswith(BEHIND_DEFINED, match.end()):
                return float(BY_KEYWORD)
            found = max(found, 2 if "`" in before else 1)
    return float(found)


def _may_precede(before: str, first_letter: str) -> bool:
    """Whether a line that begins with `before` defines the name behind it, which begins with `first_letter`."""
    known = ("<", "-") if first_letter == "-" else ("<",)
    return not before.lstrip().startswith(BRACKETS) and all(
        word.startswith(known) or word.isupper() or word in KEYWORDS or not any(map(str.isalnum, word))
        for word in before.split()
    )


def full_names_in(query: str) -> tuple[list[str], list[str]]:
    """(full names, possible names) of a query, at most `PARTS_MAX` of each.

    The full names, in lower case, are adjacent words that begin with a capital letter, without punctuation between
    them, or two words with the last name first: "Hale, Tara". Function words, courtesy titles and words of capitals
    alone ("DNA") are no part of a name.

    Capital letters mark no names if all words of the query could be part of a name ("Tara Hale Phone"), or if the query
    is in lower-case letters. Any two adjacent words may then be a name, if the query has at most `SHORT_QUERY_WORDS`
    words, function words aside. These are the possible names; texts spell them with capitals.
    """
    titles = {title if query.islower() else title.title() for title in COURTESY_TITLES}
    words = [word for word in query.split() if bare(word) not in titles and not INITIAL.fullmatch(word)]
    content = [not all_function_words().issuperset(words_in(word)) for word in words]
    capital = [
        is_content and bare(word)[:1].isupper() and not word.isupper()
        for word, is_content in zip(words, content, strict=True)
    ]
    reversed_names = [each[1:] for each in REVERSED_NAME.findall(query) if not each[0]]
    full = [
        f"{first} {last}".lower() for last, first in reversed_names if not (last[0].islower() or first[0].islower())
    ]
    possible: list[str] = []
    if not (all(capital) or query.islower()):
        # A word that is no part of a name becomes a comma, at which `NAME_END` separates names.
        line = " ".join(word if is_capital else "," for word, is_capital in zip(words, capital, strict=True))
        parts = [POSSESSIVE.sub("", part).strip(" '’.-").lower()[:NAME_LENGTH] for part in NAME_END.split(line)]
        full += [part for part in parts if " " in part]
    elif sum(content) <= SHORT_QUERY_WORDS:
        in_title_case = [word.title() if is_content else "" for word, is_content in zip(words, content, strict=True)]
        pairs = ((first, bare(last)) for first, last in pairwise(in_title_case))
        possible = [f"{first} {last}" for first, last in pairs if first.isalpha() and last.isalpha()]
    return list(dict.fromkeys(full))[:PARTS_MAX], list(dict.fromkeys(possible))[:PARTS_MAX]


def initials_in(query: str) -> dict[str, str]:
    """The middle initials of a query's names, by first and last name in lower case: "Tara S. Hale" -> tara hale: S."""
    return {f"{first} {last}".lower(): initial for first, initial, last in MIDDLE_INITIAL.findall(query)}


def full_names_held(
    texts: Sequence[str],
    full: Sequence[str],
    possible: Sequence[str],
    initials: Mapping[str, str],
    beside: Sequence[str],
    terms_of: TermsOf,
) -> Floats:
    """(n, F) `earlier_first` of g of the names that are looked up, 1 larger in texts that hold the query's other words
    (`beside`) within `CHARACTERS_BESIDE` of the first name: first the full names, then the possible names of
    `full_names_in`.

    A name is looked up if few candidates hold it (`HOLDERS_MAX`), while other candidates hold its single words
    (`SHARED_MIN`). A text may write the last name first. A middle initial that only the query or only the text has does
    not count; a text with another initial does not hold the name.

    Args:
        initials: `initials_in` of the query.
        beside, terms_of: As in `with_words_beside`.
    """
    texts = [text[:TEXT_CHARACTERS] for text in texts]
    lower = [text.lower() for text in texts] if full else []  # `_full_name_held` tests for parts of the name with `in`
    held = [_full_name_held(lower, name, initials, any_case=True) for name in full]
    held += [_full_name_held(texts, name, initials, any_case=False) for name in possible]
    g: Floats = np.array(held, dtype=np.float64).reshape(len(held), len(texts)).T
    if not g.any():
        return g
    first_g = zip(texts, g.max(axis=1, initial=0.0).tolist(), strict=True)
    starts = [round((1.0 - own) * len(text)) for text, own in first_g]
    near = [slice(max(0, start - CHARACTERS_BESIDE), start + 2 * CHARACTERS_BESIDE) for start in starts]
    around = [text[own] for text, own in zip(texts, near, strict=True)]
    return with_words_beside(earlier_first(g, texts), around, beside, terms_of)


def _full_name_held(texts: Sequence[str], name: str, initials: Mapping[str, str], *, any_case: bool) -> list[float]:
    """g of a full name in each text; 0 in all texts if the name is not looked up."""
    parts = LETTERS_OR_DIGITS.findall(name)
    may_hold = [all(map(text.__contains__, parts)) for text in texts]
    if not any(may_hold):  # true of most names, whose patterns need not be compiled
        return [0.0] * len(texts)
    initial = initials.get(name.lower(), ANY_INITIAL)
    pattern = whole_name(name, rf"{SIGNS}(?:{initial}[\W_]{{1,8}})?", any_case=any_case)
    last_first = whole_name(" ".join(reversed(name.split())), LAST_FIRST, any_case=any_case)
    candidates = zip(texts, may_hold, strict=True)
    g = [_by_offset(pattern.search(text) or last_first.search(text)) if may else 0.0 for text, may in candidates]
    others = [text for text, own in zip(texts, g, strict=True) if not own]
    in_several = (_is_in_several(word, others, any_case=any_case) for word in name.split())
    if len(texts) - len(others) <= HOLDERS_MAX and all(in_several):
        return g
    return [0.0] * len(texts)


def _is_in_several(word: str, texts: Sequence[str], *, any_case: bool) -> bool:
    parts, pattern = LETTERS_OR_DIGITS.findall(word), whole_name(word, any_case=any_case)
    # Beyond ASCII, a pattern for any case also matches letters that `lower` does not change, such as the long s.
    may_hold = (text for text in texts if not text.isascii() or all(map(text.__contains__, parts)))
    found = (text for text in may_hold if pattern.search(text) is not None)
    return len(list(islice(found, SHARED_MIN))) == SHARED_MIN
