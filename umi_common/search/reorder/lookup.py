"""Raise the candidates that hold what the query looks up, verbatim: codes, names, phrases and keywords.

Let p be something that the query looks up. Vectors place 502 near 501 and raise texts that lack a word, BM25 does not
see the order of words, and the stage `neighbours` raises chunks beside the text that holds p. p is one of these:

    a code in a query of few words ("error 502", "UMB-2231"); in a query of any length a code of at least five digits,
        called an identifier ("which version closed bug 983434?")
    a name from a program ("os.path.join", "max_tokens", "close()", "--force", "-x")
    capital letters that stand for a name, beside at most one other word ("what is GDPR?", "what does NPM stand for?")
    a full name ("phone number of Tara Hale", "Hale, Tara"; in a short query "tara hale phone") that few candidates
        hold, with or without a middle initial, while others hold its single words
    a phrase in quotation marks
    a whole query of few words, without the function words around it ("what is Harrow v Lindqvist"); if no candidate
        holds a phrase or a code, the query without all its function words ("return true if object is data descriptor")
    a word that an entry begins with, as in a dictionary or a reference ("what does open do?", "perl open"), if no
        candidate holds a phrase or a code
    all keywords of a query, if no candidate holds a phrase or a code; a query has keywords if it has a name, or no
        function words

In a longer query a short code is one detail of several, and the raise would cost more than it gains. Scores are
`words.raised` with

    g(p, i) = 1 - offset of p / length of the text, for a code or phrase that candidate i holds; 1 more for a code if i
                  also holds the other words of the query in any form, function words aside, and another candidate
                  with the code does not hold them
              1 for a name, a full name, the first word of an entry, and for the keywords if i holds them all and has
                  nearly the best BM25
              0 if i does not hold p

Each identifier and full name that a candidate holds adds to its score the best score * the share of candidates that do
not hold this identifier or name: few texts hold it, they share few other words with the query, and vectors do not
represent it. Then all scores are multiplied by one factor, so that the largest is as large as before. Measured in
docs/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from umi_common.pool import Floats, Ints, Pool
from umi_common.search.rank import RankedPool, reorder
from umi_common.search.reorder.number_pairs import TermsOf
from umi_common.search.reorder.words import DIGITS, PARTS_MAX, bare, near_best, raised, spaced, up_to_last, words_in
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.stores.lexical.languages import all_function_words
from umi_common.types import Chunk

STAGE = "lookup"
PARTS = ("phrases", "codes", "identifiers", "names", "full_names", "keywords", "heads")
"""The parts of a `Lookup` that the trace counts."""
CANDIDATES = 50
"""Number of best candidates whose texts are read."""
HOLDING_SHARE = 0.5
"""Only texts with at least this share of the best candidate's BM25 are read for all words of the query. Of the texts
that hold all these words, 99 in 100 reach this share."""
FAR_CANDIDATES = 200
"""Number of best candidates whose texts are read for a phrase in quotation marks, whose words may all be frequent, and
for an identifier or a name with capital letters, which a text may hold among many other words."""
LONG_WORDS = 50
"""Largest number of words of a query whose full names are looked up, and whose identifiers are sought beyond
`FAR_CANDIDATES`. A longer query, such as a pasted text, holds many names and identifiers, and each is one detail of
many: looking up all of them took 10 to 40 ms at 30,000 passages."""
IDENTIFIER_DIGITS = 5
"""Smallest number of digits of an identifier, such as the number of an order. A year and most quantities have fewer."""
OTHER_WORDS_MAX = 2
"""Largest number of words, other than codes and function words, of a query whose short codes are looked up."""
PHRASE_WORDS_MAX = 8
"""Largest number of words of a query that is looked up as a whole."""
KEYWORDS_MAX = 6
"""Largest number of keywords of a query whose keywords are looked up."""
KEYWORDS_SHARE = 0.7
"""A text with all keywords is raised only if it has this share of the best candidate's BM25: long lists hold any words,
but have low scores."""
ENDING = 3
"""Largest number of letters that may follow a keyword in a word of a text: "task" finds "tasks", and "sign" does not
find "signature"."""
PHRASE_CHARACTERS_MAX = 100_000
"""Number of characters at the beginning of a text in which phrases are sought. Reading so many takes some 3 ms; a whole
book has more."""
QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]")
"""A phrase in quotation marks."""
OPTION = re.compile(r"-[A-Za-z]|--[A-Za-z][\w-]*")
"""An option of a command."""
PROGRAM_NAME = re.compile(
    r"_*[A-Za-z]\w+(?:(?:\.|::|->)_*[A-Za-z]\w+)+(?:\(\))?"
    r"|[A-Za-z]+\d*(?:_[A-Za-z\d]+)+(?:\(\))?"
    r"|[a-z]{2,}(?:[A-Z][a-z]+)+(?:\(\))?"
    r"|[A-Za-z]\w{2,}\(\)"
)
"""A name from a program, such as os.path.join, max_tokens, maxTokens, or close()."""
NAMED_CHARACTERS_MAX = 20_000
"""Number of characters at the beginning of a text in which names are sought. Reading so many takes some 0.2 ms for each
name."""
NAME_LENGTH = 100
"""Number of characters at the beginning of a word that are read for a name."""
CAPITALS = re.compile(r"(?<![\w.-])[A-Z]{2,6}(?=s?(?![\w-]|\.\w))")
"""A name of two to six capital letters; the s of a plural may follow it."""
CONTENT_MIN = 3
"""Smallest number of words, function words aside, of a query whose words are sought side by side."""
HEADS_MAX = 3
"""Largest number of words of a query that may be the head of an entry."""
SIGNS = r"[\W_]{0,8}"
SIGNS_AND_INITIAL = rf"{SIGNS}(?:[^\W\d_][\W_]{{1,8}})?"
"""Patterns of what may stand between two parts of a name. A text with "Maria S. Hollander" holds "Maria Hollander"."""
HOLDERS_MAX = 3
"""Largest number of candidates that hold a full name that is looked up. A name that more of them hold is their common
subject and distinguishes none of them."""
NAME_QUERY_WORDS_MAX = 4
"""Largest number of words, function words aside, of a query in which any two adjacent words may be a full name, because
capital letters do not mark names in it."""
SHARED_MIN = 3
"""A full name is looked up if each of its words is in at least so many candidates that do not hold the name. If one of
its words is in fewer, BM25 finds the name by this word."""
NAME_END = re.compile(r"\s*[^\w\s'’.-]+\s*")
"""Signs that end a full name: the words before and after them are not of one name."""
CAPITALISED = r"[^\W\d_a-z][\w'’-]+"
REVERSED_NAME = re.compile(rf"({CAPITALISED}\s)?\b({CAPITALISED}),\s({CAPITALISED})\b(?!\s{CAPITALISED})")
"""A last name and a first name: "Hale, Tara"; not in "call Ann Hale, Bob"."""
POSSESSIVE = re.compile(r"['’]s\b")
ENTRIES_MAX = 3
"""Largest number of candidates that begin with the head of an entry. A word with which more candidates begin is the
name of a speaker or a label, unless the query asks for its meaning."""
ENTRY_WORDS_MIN = 4
"""Smallest number of words of an entry: a heading without a text says nothing about its head."""
ENTRY_CHARACTERS = 100
"""Number of characters at the beginning of a text that are read for its first word, the head of an entry."""
MEANING = frozenset(
    {"abbreviation", "acronym", "define", "definition", "explain", "mean", "meaning", "means", "stand", "stands"}
)
"""Words that ask what another word or a name of capital letters means."""
PART_OF_A_CODE = re.compile(r"[^\W\d_]+|\d+")
"""A run of letters or a run of digits."""


class Code(NamedTuple):
    """A code of a query, in the forms in which a text may hold it."""

    pattern: re.Pattern[str]
    digits: str
    """The first digits of the code, which every text with the code holds and few other texts hold; "" if all its digits
    are superscripts. A quick test for the code."""

    def search(self, text: str) -> re.Match[str] | None:
        """The first match of the code in a text; None: the text does not hold the code."""
        return self.pattern.search(text) if self.digits in text else None


class Lookup(NamedTuple):
    """What a query looks up."""

    phrases: list[str]
    """Phrases of at least two words, in the form that `_words` returns."""
    codes: list[Code]
    """The codes of the query without the identifiers."""
    identifiers: list[Code]
    """Codes of at least `IDENTIFIER_DIGITS` digits."""
    beside: list[str]
    """The other words of a query with codes, without function words; [] for a query without codes."""
    names: list[re.Pattern[str]]
    """Patterns of names from programs and of names of capital letters."""
    keywords: list[str]
    """The words of a query that consists of keywords; [] for any other query."""
    quoted: bool
    """Whether the phrases stand in quotation marks."""
    long: bool
    """Whether the query has more than `LONG_WORDS` words."""
    content: str
    """The words of a query without function words, as `_words` returns them; "" if they are too few or too many."""
    full_names: list[str]
    """Names of several words: in lower case, or as texts spell them ("Tara Hale") if the query does not tell names from
    other words by capital letters."""
    heads: list[str]
    """Words of a short query; an entry about one of them begins with it."""
    defines: bool
    """Whether the query asks what a word means, so that every entry about the word answers it."""

    def candidates(self, pool: Pool, order: Ints) -> int:
        """Number of best candidates whose texts are read: a constant for quoted phrases, identifiers, codes, names and
        heads, else up to the last that has `HOLDING_SHARE` of the best BM25; 0 if nothing is looked up.

        Args:
            order: The rows of the pool, best first.
        """
        if self.identifiers and not self.long:  # a long text with a rare identifier has a low score
            return max(FAR_CANDIDATES, up_to_last(pool.rare[0, order]))
        if self.identifiers or self.quoted or any(map(str.islower, self.full_names)):
            return FAR_CANDIDATES
        if self.codes or self.names or self.full_names or self.heads:  # an entry may hold its head once, others often
            return CANDIDATES
        if not (self.phrases or self.keywords or self.content):
            return 0
        return up_to_last(near_best(pool.lexical[:1], order[:CANDIDATES], HOLDING_SHARE))


def lookup_in_query(request: SearchRequest, period: tuple[int, int]) -> Lookup:
    """What the query of a request looks up; `period` is that of `looked_up`."""
    lookup = looked_up(request.asked, period, request.verbatim)
    framed = request.asked == request.searched != request.query
    if lookup.quoted or not framed:
        return lookup
    typed = looked_up(request.query).phrases  # "Show me the money" may be a title
    return lookup._replace(phrases=list(dict.fromkeys([*lookup.phrases, *typed])))


def looked_up(query: str, period: tuple[int, int] = (0, 0), verbatim: str | None = None) -> Lookup:
    """What a query looks up.

    Args:
        period: Indices in `query` of the first character of the words that name a period, and of the first one after
            them; these words are no codes.
        verbatim: The part of the query that is searched for names, if it is one line; None: the whole query.
    """
    phrases = QUOTED.findall(query)
    quoted = bool(phrases)
    if not quoted:
        subject = _without_outer_function_words(query)
        phrases = [subject] if len(subject.split()) <= PHRASE_WORDS_MAX else []
    several_words = [each for each in map(_words, phrases) if each.count(" ") > 2]
    timeless = f"{query[: period[0]]} {query[period[1] :]}"
    verbatim = query if verbatim is None else verbatim
    pasted = "\n" in verbatim.strip()
    codes, identifiers = _codes(timeless)
    names = [] if pasted else [*_program_names(verbatim), *_capitals(verbatim)]
    names = [name for name in names if name not in {code.pattern for code in codes + identifiers}]
    beside = [word for word in words_in(timeless) if word.isalpha() and word not in all_function_words()]
    words = words_in(timeless)
    # Function words are removed before `words_in`, too, because it removes the accent that makes "für" one.
    telling = " ".join(word for word in timeless.split() if bare(word).lower() not in all_function_words())
    content = [word for word in words_in(telling) if word not in all_function_words()]
    heads = [word for word in dict.fromkeys(content) if word not in MEANING]
    one_of_few = len(heads) <= HEADS_MAX and len(words) <= PHRASE_WORDS_MAX and not (codes or identifiers)
    return Lookup(
        phrases=several_words[:PARTS_MAX],
        codes=codes,
        identifiers=identifiers,
        beside=beside if codes else [],
        names=names,
        keywords=_keywords(query, among_function_words=bool(names)),
        quoted=quoted,
        long=len(words) > LONG_WORDS,
        content=spaced(content) if CONTENT_MIN <= len(content) <= PHRASE_WORDS_MAX else "",
        full_names=[] if pasted or len(words) > LONG_WORDS else _full_names(verbatim),
        heads=heads if one_of_few else [],
        defines=len(heads) == 1 and not MEANING.isdisjoint(content),
    )


def _keywords(query: str, *, among_function_words: bool) -> list[str]:
    """The keywords of a query: its distinct words without function words.

    There are none if the query has a digit, more than `PHRASE_WORDS_MAX` words, fewer than 2 or more than
    `KEYWORDS_MAX` keywords, or function words that it may not have.

    Args:
        among_function_words: Whether function words may stand among the keywords.
    """
    words = list(dict.fromkeys(words_in(query))) if len(query.split()) <= PHRASE_WORDS_MAX else []
    content = [word for word in words if word not in all_function_words()]
    plain = DIGITS.search(query) is None and (among_function_words or content == words)
    return content if plain and 1 < len(content) <= KEYWORDS_MAX else []


def _codes(query: str) -> tuple[list[Code], list[Code]]:
    """(codes, identifiers) of a query.

    A code is a word of at least two characters, one of them a digit; a digit alone mostly counts something. A code with
    at least `IDENTIFIER_DIGITS` digits is an identifier. The first list holds the other codes; it is empty if the query
    has more than `OTHER_WORDS_MAX` other words, function words aside.
    """
    words = dict.fromkeys(bare(word).lower() for word in query.split())
    digits = {word: sum(map(str.isdigit, word)) for word in words if len(word) > 1}
    identifiers = [word for word, count in digits.items() if count >= IDENTIFIER_DIGITS]
    codes = [word for word, count in digits.items() if 0 < count < IDENTIFIER_DIGITS]
    others = words.keys() - {"", *codes, *identifiers} - all_function_words()
    if len(others) > OTHER_WORDS_MAX:
        codes = []
    return list(map(_code, codes[:PARTS_MAX])), list(map(_code, identifiers[:PARTS_MAX]))


def _code(code: str) -> Code:
    """The pattern of a code, which also finds it as a part of a longer code.

    The parts of a code are its runs of letters and its runs of digits. Between two parts a text may have one sign of
    any kind or none; between two runs of digits it must have one.

    "E-1042" finds "e1042", and "1444" finds "INV-2024-1444"; but "10.1" finds neither "101" nor "10.1.2".
    """
    parts = PART_OF_A_CODE.findall(code)
    pattern = re.escape(parts[0])
    for before, after in pairwise(parts):
        between_digits = before[-1].isdigit() and after[0].isdigit()
        pattern += (r"[\W_]" if between_digits else r"[\W_]?") + re.escape(after)
    whole = re.compile(rf"(?<![^\W_])(?<!\d[.,:]){pattern}(?![^\W_]|[.,:]\d)", re.IGNORECASE)
    return Code(whole, next(filter(str.isdecimal, parts), ""))


def _program_names(query: str) -> list[re.Pattern[str]]:
    """Patterns of the query's command options, calls, and program names of several parts; "-x" and "-X" are two
    options."""
    words = [word[:NAME_LENGTH] for word in query.split()]
    options = [re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])") for word in words if OPTION.fullmatch(word)]
    names = [word.removesuffix("()") for word in map(_without_signs, words) if PROGRAM_NAME.fullmatch(word)]
    return list(dict.fromkeys([*options, *(_name_pattern(name.lower()) for name in names)]))[:PARTS_MAX]


def _name_pattern(name: str, between: str = SIGNS) -> re.Pattern[str]:
    """A pattern of a name, also with other signs or white space between its parts: "cache.ttl" finds "cache:\n  ttl".
    Case is ignored only for a name in lower case.

    Args:
        between: Pattern of what may stand between two parts.
    """
    pattern = between.join(map(re.escape, PART_OF_A_CODE.findall(name)))
    return re.compile(rf"(?<![^\W_])(?<![^\W_]_){pattern}(?!\w)", re.IGNORECASE if name.islower() else 0)


def _without_signs(word: str) -> str:
    """A word without the punctuation and brackets around it, and without arguments of a call."""
    word = word.strip("'\"`,.;:!?").removeprefix("(")
    if word.count("(") < word.count(")"):
        word = word.removesuffix(")")
    return re.sub(r"\([^)].*$", "", word)


def _capitals(query: str) -> list[re.Pattern[str]]:
    """Patterns of the names of capitals in a query with at most one other word, function words aside. The
    patterns find whole words in capitals only, with or without a plural s."""
    found = list(dict.fromkeys(CAPITALS.findall(query)))
    others = set(words_in(CAPITALS.sub(" ", query))) - all_function_words() - MEANING
    if len(others) > 1 or query.isupper():
        return []
    return [re.compile(rf"(?<![^\W_]){re.escape(letters)}s?(?![^\W_])") for letters in found[:PARTS_MAX]]


def _full_names(query: str) -> list[str]:
    """Names such as "tara hale": adjacent words that begin with a capital letter, without punctuation between them, or
    the last name first: "Hale, Tara". Function words and words of capitals alone ("DNA") are no part of a name.

    If all words of the query begin with a capital letter, or none has one, any two adjacent words may be a name. Such
    names are returned as texts spell them: "Tara Hale"."""
    words = query.split()
    content = [not all_function_words().issuperset(words_in(word)) for word in words]
    named = [
        telling and bare(word)[:1].isupper() and not word.isupper()
        for word, telling in zip(words, content, strict=True)
    ]
    found = [f"{first} {last}".lower() for before, last, first in REVERSED_NAME.findall(query) if not before]
    if all(named) or query.islower():
        if sum(content) <= NAME_QUERY_WORDS_MAX:
            pairs = pairwise(word.title() if telling else "," for word, telling in zip(words, content, strict=True))
            found += [f"{one} {bare(other)}" for one, other in pairs if one.isalpha() and bare(other).isalpha()]
    else:
        line = " ".join(word if capital else "," for capital, word in zip(named, words, strict=True))
        parts = [POSSESSIVE.sub("", part).strip(" '’.-").lower()[:NAME_LENGTH] for part in NAME_END.split(line)]
        found += [part for part in parts if " " in part]
    return list(dict.fromkeys(found))[:PARTS_MAX]


def _without_outer_function_words(query: str) -> str:
    """A query without the function words at its start and end; the whole query if it has fewer than two other words."""
    words = query.split()
    content = [at for at, word in enumerate(words) if not all_function_words().issuperset(words_in(word))]
    return " ".join(words[content[0] : content[-1] + 1]) if len(content) > 1 else query


def reorder_by_lookup(
    pool: Pool,
    ranked: RankedPool,
    chunks: Mapping[str, Chunk],
    trace: TraceBuilder,
    *,
    sought: Lookup,
    read: int,
    weight: float,
    terms_of: TermsOf | None,
) -> RankedPool:
    """The ranking with its first `read` rows sorted by the formula at the top of this file, unchanged if none of them
    holds a part of the query; see `ReorderStage`.

    Args:
        sought: What the query looks up, from `lookup_in_query`.
        read: Number of candidates to read, from `sought.candidates`.
        weight: >= 0, `FusionConfig.lookup_weight`.
        terms_of: The store's function from a text to its terms; None: words beside a code must have the same beginning.
    """
    rows = np.sort(ranked.order[:read])
    with trace.stage(STAGE) as facts:
        texts = [chunks[id].indexed_text for id in pool.ids_at(rows)]
        wanted = [each for each in (*map(str.split, sought.phrases), sought.keywords, sought.content.split()) if each]
        words = [_words_if_any(text, wanted) for text in texts]
        phrases = [[_phrase_in(own, phrase) for phrase in sought.phrases] for own in words]
        offsets = np.array([[_code_in(text, code) for code in sought.codes] for text in texts])
        codes = _with_words_beside(offsets, texts, sought, terms_of)
        identifiers = np.array([[_code_in(text, code) for code in sought.identifiers] for text in texts])
        names = [
            [float(name.search(text, 0, NAMED_CHARACTERS_MAX) is not None) for name in sought.names] for text in texts
        ]
        g = np.hstack([phrases, codes, identifiers])
        if sought.content and not g.any():
            g = np.array([[_phrase_in(_without_function_words(own), sought.content)] for own in words])
        heads = _heads_of(texts, [] if g.any() else sought.heads, sought.defines)
        if sought.keywords and not g.any():
            near = near_best(pool.lexical[:1], rows, KEYWORDS_SHARE)
            g = np.array([[_all_in(own, sought.keywords)] for own in words]) * near[:, None]
        full_names = _shared_names(texts, sought.full_names)
        g = np.hstack([g, names, heads, full_names])
        held = int(g.any(axis=1).sum())
        counts = {part: len(getattr(sought, part)) for part in PARTS}
        facts.update(candidates=len(rows), **counts, held=held)
        if not held:
            return ranked
        own = ranked.scores[rows]
        holding = np.hstack([identifiers, full_names]) > 0
        identified = own.max(initial=0.0) * (holding * (1.0 - holding.mean(axis=0))).sum(axis=1)
        return reorder(ranked, rows, raised(own, g, weight) + identified, STAGE)


def _shared_names(texts: Sequence[str], full_names: Sequence[str]) -> Floats:
    """(n, F) g of F full names in n texts: 1 where a text holds a name, if at most `HOLDERS_MAX` texts hold this name,
    and each of its words is in at least `SHARED_MIN` texts without the name; else 0."""
    texts = [text[:NAMED_CHARACTERS_MAX] for text in texts]
    lower = [text.lower() for text in texts] if any(map(str.islower, full_names)) else []
    held = np.zeros((len(texts), len(full_names)))
    for at, name in enumerate(full_names):
        parts, read = PART_OF_A_CODE.findall(name), lower if name.islower() else texts
        possible = [all(part in text for part in parts) for text in read]
        if not any(possible):  # most names: the patterns need not be compiled
            continue
        pattern = _name_pattern(name, SIGNS_AND_INITIAL)
        holding = [maybe and pattern.search(text) is not None for text, maybe in zip(read, possible, strict=True)]
        others = [text for text, holds in zip(read, holding, strict=True) if not holds]
        words = map(_name_pattern, name.split())
        if 0 < sum(holding) <= HOLDERS_MAX and all(_is_in_several(word, others) for word in words):
            held[:, at] = holding
    return held


def _is_in_several(word: re.Pattern[str], texts: Sequence[str]) -> bool:
    found = (text for text in texts if word.search(text) is not None)
    return len(list(islice(found, SHARED_MIN))) == SHARED_MIN


def _heads_of(texts: Sequence[str], heads: Sequence[str], defines: bool) -> Floats:
    """(n, H) g of H heads of entries in n texts."""
    if not heads:
        return np.zeros((len(texts), 0))
    beginnings = [words_in(text[:ENTRY_CHARACTERS]) for text in texts]
    first = [words[0] if len(words) >= ENTRY_WORDS_MIN else "" for words in beginnings]
    g = np.array([[float(own == head) for head in heads] for own in first])
    return np.asarray(g * (defines | (g.sum(axis=0) <= ENTRIES_MAX)))


def _with_words_beside(codes: Floats, texts: Sequence[str], sought: Lookup, terms_of: TermsOf | None) -> Floats:
    """(n, C) g of C codes in n texts, with the 1 more for a text that also holds the other words of the query.

    "which relay replaces K35?" asks for a text that names K35 late and holds "replaces", which the text on K35 lacks.

    Args:
        codes: (n, C) g by the offsets alone.
    """
    holding = np.asarray(codes.any(axis=1))
    if not (sought.beside and holding.any()):
        return codes
    read = zip((text[:PHRASE_CHARACTERS_MAX] for text in texts), holding.tolist(), strict=True)
    full = np.array([held and _all_beside(text, sought.beside, terms_of) for text, held in read])
    return codes if full[holding].all() else codes + (codes > 0) * full[:, np.newaxis]


def _all_beside(text: str, words: Sequence[str], terms_of: TermsOf | None) -> bool:
    """Whether a text holds all words, also in another form: "replacement" finds "replaces"."""
    if _all_in(_words(text), words):
        return True
    return terms_of is not None and frozenset(terms_of(" ".join(words))) <= frozenset(terms_of(text))


def _words_if_any(text: str, wanted: Sequence[Sequence[str]]) -> str:
    """`_words` of the text's beginning; "" if a quick test shows that the text holds all words of none of `wanted`."""
    text = text[:PHRASE_CHARACTERS_MAX]
    if text.isascii():  # most texts are ASCII, and this test is faster than `_words`
        lower = text.lower()
        wanted = [each for each in wanted if all(word in lower for word in each)]
    return _words(text) if wanted else ""


def _without_function_words(words: str) -> str:
    """A result of `_words` without its function words; "" for ""."""
    return spaced([word for word in words.split() if word not in all_function_words()]) if words else ""


def _phrase_in(words: str, phrase: str) -> float:
    """g of a phrase in a text; both arguments are from `_words`, and offset and length are those in `words`."""
    at = words.find(phrase)
    return 0.0 if at < 0 else 1 - at / len(words)


def _all_in(words: str, keywords: Sequence[str]) -> float:
    """1 if a text holds each keyword, followed by at most `ENDING` more letters, else 0."""
    return float(all(_begins_a_word(words, keyword) for keyword in keywords))


def _begins_a_word(words: str, keyword: str) -> bool:
    at = words.find(f" {keyword}")
    while at >= 0:
        end = words.index(" ", at + 1)
        if end <= at + 1 + len(keyword) + ENDING:
            return True
        at = words.find(f" {keyword}", end)
    return False


def _code_in(text: str, code: Code) -> float:
    """g of a code in a text, by its offset alone."""
    match = code.search(text)
    return 0.0 if match is None else 1 - match.start() / len(text)


def _words(text: str) -> str:
    """The words of a text in lower case, with one space before, between and after them."""
    return spaced(words_in(text))
