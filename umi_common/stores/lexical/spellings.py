"""Query expansion: adds to the terms of a query the terms of its words in other languages, spellings and forms.

A term is a word as the index holds it, mostly its stem. Each step adds terms to those of one word of the query. For
example, the rows are texts in English and German and hold "runs", "ran", "school" and "café":

    query "Running scool cafe"      its terms in its own language (English): run, scool, cafe, each of weight 1
    as German stems                 run: running;  cafe: caf                                 (`_in_other_languages`)
    other spellings                 cafe: café, which differs only in accents
                                    scool: school, one edit away, since no row holds scool   (`_with_spellings`)
    other forms of English words    run: ran                                                 (`_other_forms`)
    compounds, their two words      none in English; of German "Wasserleitung": wass, leitung   (`_compounds`)
    terms that a row holds          run and café of weight 1, school and ran of weight 0.5 or less

"scool" stays in the query, too. A term that no row holds lowers `QueryTerms.coverage`, the share of the query's idf
that the corpus can match; a low coverage shows that the question is about another subject.

The queries "Muller" and "Mueller" also find "Müller" (`Spellings`). "Schluesseln" is stemmed as "Schlüsseln", too
(`with_umlauts`). The query "Mulller" finds "Muller", if no text holds "Mulller" (`one_edit_away`); it does not find
"Müller", which differs in two letters. The compound "Wasserleitung" also finds "Leitung für das Wasser"
(`parts_of_compound`), and is found by it (`compounds_of`).
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

from umi_common.stores.lexical import languages
from umi_common.stores.lexical.analyzer import Analyzer, normalised, pieces
from umi_common.stores.lexical.bm25 import QUERY_TERMS_MAX
from umi_common.stores.lexical.corpus import Corpus
from umi_common.stores.lexical.languages import ENGLISH, NOT_FOUND, all_function_words, word_forms
from umi_common.stores.lexical.numbers_in_text import days_in_words, local_numbers, with_short_years

SPELLED_TERMS_MAX = 64
"""A query with more distinct terms than this is not expanded by other spellings, forms and compounds. Long queries find
enough with their words as typed."""
TYPO_LETTERS = range(5, 33)
"""A term that no row holds is corrected, and a word is split as a compound, only if its number of letters is in this
range."""
TYPO_TERMS_MAX = 5
"""A term that is one edit away from more terms than this is not corrected."""
TYPO_WEIGHT = 0.5
"""Factor on the weight of the terms that are guessed for a word that no row holds: one edit away, versions. It is below
1, because the word may be correct as typed."""
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")
_SEVEN_DIGITS = re.compile(r"[0-9]{7}")
_DAY = re.compile(r"(?:19|20)\d\d-\d\d-\d\d")
_DIGIT = re.compile(r"(?<![\w.,:/-])[1-9](?!\w|[.,:/-]\w)")
"""A number of one digit, which is no part of a longer number."""
ZERO_FILLED = range(3, 9)
"""Numbers of digits to which a query's number of one digit is filled with zeros: 7 also finds INV-00007. Months and
hours have two digits, as 07. Longer numbers are also indexed without their zeros."""
FORM_WEIGHT = 0.5
"""Largest factor on the weight of a word's other forms; below 1, so that a text with the word as typed ranks higher."""
FIRST_PERSON = frozenset(("i", "me", "my"))
"""Words that tell who speaks in a conversation, and are therefore not in function_words.txt. In a manual, the "I" of
"how do I reset it" finds "Appendix I"."""
SPEAKING_SHARE = 0.3
"""The rows are no conversation if less than this share of them hold "i"."""

_ACCENTED = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]")
"""A Latin letter that is not ASCII."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "ð": "d", "þ": "th"})
"""Letter that Unicode does not decompose into a letter and an accent -> letters in ASCII."""
_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
"""Letter -> two letters, as German, Danish, Norwegian and Swedish names are typed if the keyboard lacks the letter."""

_UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü", "Ae": "Ä", "Oe": "Ö", "Ue": "Ü"}
_TWO_LETTERS_OF_UMLAUT = re.compile("|".join(_UMLAUTS))

COMPOUNDING = frozenset({"danish", "dutch", "finnish", "german", "hungarian", "norwegian", "swedish"})
"""Languages that write compounds as one word."""
LINKS = ("", "s", "n", "en", "e", "es")
"""Letters between the parts of a compound. Before them, the first part may lack its last letter: "skol|avgift"."""
PART_LETTERS = 4
"""Smallest number of letters of each part into which a compound is split; an s that links the parts counts, too."""
Stems = Callable[[list[str]], list[str]]
"""Returns the stem of each word."""
Held = Callable[[Iterable[str]], Mapping[str, int]]
"""Returns those of some terms that living rows hold, each with the number of rows."""


class _Word(NamedTuple):
    """A word of a query, with the terms that are searched for it."""

    term: str
    """Its term in the language in which the query is analysed."""
    rows: dict[str, int]
    """Its distinct terms in all languages and spellings, `term` first, each with the number of living rows that hold
    it."""
    guessed: Collection[str] = ()
    """Those of its terms that are searched because no row holds the word: one edit away, versions."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryExpander:
    """Expands queries for one corpus."""

    analyzer: Analyzer
    """The analyzer of the index."""
    analyzers: Sequence[Analyzer]
    """The analyzers of the living rows' languages, by falling number of rows."""
    corpus: Corpus
    spellings: Spellings
    idf: Callable[[int], float]
    """Returns the idf of a term, given the number of living rows that hold the term."""

    def weighted_terms(self, query: str, function_word_weight: float) -> Mapping[str, float]:
        """The distinct terms of a query, each with its weight, in every language of the living rows.

        The query is analysed in its own language, or, if that is not detected or no row has it, in the language of most
        rows. All terms of one word count as one term: weight(term) * idf(rows of term) = weight(word) * idf(sum of the
        rows of its terms). Terms that are guessed weigh `TYPO_WEIGHT` times that, other forms at most `FORM_WEIGHT`
        times the weight of the word. Of a long query, only the `QUERY_TERMS_MAX` terms with the largest weight * idf
        are looked up in other languages.
        """
        language = self.analyzer.language_of(query)
        own = self.analyzer.of_language(language)
        first = own if own in self.analyzers and language != NOT_FOUND else self.analyzers[0]
        weights = self._weights_as_typed(query, first, function_word_weight)
        is_short, forms = len(weights) <= SPELLED_TERMS_MAX, dict[str, list[str]]()
        if is_short:
            forms = self._other_forms(query, first) if self._is_english(first) else {}
            for term, others in self._compounds(query, first).items():
                forms.setdefault(term, []).extend(others)
        terms_of_word = _in_other_languages(query, first, self.analyzers, self._heaviest_terms(weights))
        counts = self._counts(chain(*terms_of_word.values(), forms, *forms.values()))
        of_words = [{term: weight for term, weight in weights.items() if term not in terms_of_word}]
        for term, terms in terms_of_word.items():
            word = _Word(term, {each: counts[each] for each in terms})
            if is_short:
                word = self._with_spellings(query, word, guess=term not in forms)
            of_words.append(self._weights_of_word(weights[term], word))
        expanded = _largest(of_words)
        of_forms = (self._weights_of_forms(weights.get(term, 0.0), term, forms[term], counts) for term in forms)
        for term, weight in _largest(of_forms).items():
            expanded.setdefault(term, weight)
        return {term: weight for term, weight in expanded.items() if weight}

    def _weights_as_typed(self, query: str, first: Analyzer, function_word_weight: float) -> dict[str, float]:
        """The terms that the analyzer `first` makes of the query, each with its weight.

        If few rows say "I", the words of `FIRST_PERSON` weigh as much as function words. A date that names its month
        ("3 March 2026") adds "2026-03-03", the term of all numeric forms of the day, if a row holds it. A text that
        names the month does not get this term: cutting texts into terms would take a third longer. In the same way, a
        date with its year in full adds its forms with two digits of it ("03.03.26"), and "606-6180" adds "6066180".
        """
        weights = {**first.weighted_terms(query, function_word_weight)}
        spoken = FIRST_PERSON & weights.keys() if self._is_english(first) else frozenset()
        if "i" in spoken and _has_number_one(query):
            spoken -= {"i"}
        if spoken and len(spoken) < len(weights):
            few_speak = self._counts(["i"])["i"] < SPEAKING_SHARE * self.corpus.documents
            weights |= {term: function_word_weight * weights[term] for term in spoken if few_speak}
        days = days_in_words(query)
        short = chain(*map(with_short_years, [*days, *filter(_DAY.fullmatch, weights)]))
        weights.update(dict.fromkeys(self._held([*days, *short, *local_numbers(query)]), 1.0))
        return weights

    def _is_english(self, analyzer: Analyzer) -> bool:
        return analyzer is self.analyzer.of_language(ENGLISH)

    def _other_forms(self, query: str, analyzer: Analyzer) -> dict[str, list[str]]:
        """Term of an English word of the query -> the terms of the word's other forms; words without any are left out.

        The other forms are looked up by the word or by its stem, so "runs" has those of "run". If living rows hold the
        word joined with the next or previous one, as "database" for "data base", the joined word counts as a form of
        the longer of the two (see `_joined`).
        """
        forms, words = word_forms(), re.findall(r"\w+", query.lower())
        found: dict[str, list[str]] = {}
        joined = {word: _last_terms(analyzer, wholes) for word, wholes in _joined(words).items()}
        held = self._held(chain(*joined.values()))
        for word, terms in zip(words, analyzer.terms_of_pieces(words), strict=True):
            if not terms:
                continue
            term = terms[-1]  # a word such as 7th has several terms; the last is the whole word
            others = _last_terms(analyzer, forms.get(word) or forms.get(term, ()))
            others += [whole for whole in joined.get(word, ()) if whole in held]
            if others:
                found.setdefault(term, []).extend(other for other in others if other != term)
        return found

    def _compounds(self, query: str, first: Analyzer) -> dict[str, list[str]]:
        """Term of a word of the query -> the terms of its parts, if it is a compound, and of its compounds with the
        words beside it; words without any are left out.

        A word that rows hold is split only if it is not the whole query, and if `first`, the analyzer of the query, is
        of a language in `COMPOUNDING`: an English word is not split.
        """
        analyzer = next((each for each in (first, *self.analyzers) if COMPOUNDING.intersection(each.languages)), None)
        words = [word for word in re.findall(r"[^\W\d_]+", normalised(query).lower()) if len(word) > 2]
        if analyzer is None:
            return {}
        terms = dict(zip(words, first.stems_of_words(words), strict=True))
        wholes = compounds_of(words, first.stems_of_words, self._held) if analyzer is first else {}
        not_split = self._words_in_rows(words) if analyzer is not first or len(terms) == 1 else ()
        found = {}
        for word, term in terms.items():
            others = list(wholes.get(word, ()))
            if len(word) in TYPO_LETTERS and word not in not_split:
                others += parts_of_compound(word, analyzer.stems_of_words, self._held)
            if others:
                found[term] = others
        return found

    def _words_in_rows(self, words: list[str]) -> set[str]:
        """Those of the words whose stem in one of the rows' languages is in a row."""
        found: set[str] = set()
        for analyzer in self.analyzers:
            left = [word for word in words if word not in found]
            if not left:
                break
            stems = analyzer.stems_of_words(left)
            held = self._held(stems)
            found.update(word for word, stem in zip(left, stems, strict=True) if stem in held)
        return found

    def _heaviest_terms(self, weights: Mapping[str, float]) -> Collection[str]:
        """The `QUERY_TERMS_MAX` terms with the largest weight * idf. A term that no row holds gets the idf of a term in
        one row."""
        if len(weights) <= QUERY_TERMS_MAX:
            return weights
        found = {term: weights[term] * self.idf(max(df, 1)) for term, df in self._counts(weights).items()}
        return set(heapq.nlargest(QUERY_TERMS_MAX, found, key=found.__getitem__))

    def _with_spellings(self, query: str, word: _Word, *, guess: bool) -> _Word:
        """The word with the terms that differ from its own only in accents, or in zeros before a digit. If no row holds
        any of these terms, and `guess` is true, with the terms one edit away; if there are none, with the versions that
        begin with the word, or the two groups of a phone number."""
        known = any(word.rows.values())
        others: dict[str, int] = {}
        if query.isascii() or not known:  # in a query with accents, a word that a row holds is typed as meant
            others = self._counts(other for term in word.rows for other in self.spellings.others(term))
        if word.term in _DIGIT.findall(query):
            others |= self._held(map(word.term.zfill, ZERO_FILLED))
        guessed: dict[str, int] = {}
        if guess and not known and not any(others.values()):
            guessed = self._one_edit_away(word.term) or self._versions(word.term) or self._groups(word.term)
            others |= guessed
        return _Word(word.term, word.rows | others, guessed) if others else word

    def _weights_of_word(self, weight: float, word: _Word) -> dict[str, float]:
        """Term -> weight, for the word's terms that are in some living row; see `weighted_terms`. If no row holds the
        word, its own term keeps the weight, and so lowers the coverage."""
        held = {term: rows for term, rows in word.rows.items() if rows}
        together = min(sum(held.values()), self.corpus.documents)
        found = {}
        for term, rows in held.items():
            share = self.idf(together) / alone if rows < together and (alone := self.idf(rows)) > 0 else 1.0
            found[term] = weight * (TYPO_WEIGHT if term in word.guessed else 1.0) * share
        return found if held.keys() - word.guessed else {**found, word.term: weight}

    def _weights_of_forms(
        self, weight: float, term: str, others: Sequence[str], counts: Mapping[str, int]
    ) -> dict[str, float]:
        """Term -> weight, for those of `others`, the other forms of a word, that are in some living row.

        If a row holds `term`, the word as typed, weight * idf of a form is at most `FORM_WEIGHT` times that of `term`.
        """
        limit = self.idf(counts[term]) if counts[term] else np.inf
        idfs = {form: self.idf(counts[form]) for form in others if counts[form]}
        return {form: FORM_WEIGHT * weight * (min(1.0, limit / idf) if idf > 0 else 1.0) for form, idf in idfs.items()}

    def _one_edit_away(self, term: str) -> dict[str, int]:
        """The terms of living rows that are one edit away from `term`, each with the number of rows that hold it; empty
        if there are more than `TYPO_TERMS_MAX` such terms."""
        if len(term) not in TYPO_LETTERS or not term.isalpha() or not term.isascii():
            return {}
        held = self._held(one_edit_away(term))
        return held if len(held) <= TYPO_TERMS_MAX else {}

    def _versions(self, term: str) -> dict[str, int]:
        """The terms of living rows that are `term` with one more number, as 3.11.4 is 3.11 with 4, from 0 to 99, each
        with the number of rows that hold it; empty if `term` is no version."""
        return self._held(f"{term}.{n}" for n in range(100)) if _VERSION.fullmatch(term) else {}

    def _groups(self, term: str) -> dict[str, int]:
        """The first three and the last four of seven digits, as in "(415) 747-8475" for 7478475, if living rows hold
        both, each with the number of rows that hold it; else empty."""
        held = self._held([term[:3], term[3:]]) if _SEVEN_DIGITS.fullmatch(term) else {}
        return held if len(held) == 2 else {}

    def _held(self, terms: Iterable[str]) -> dict[str, int]:
        """The terms that living rows hold, each with the number of rows; of many terms that no row ever held, this is
        faster than `_counts`."""
        counts = self._counts(term for term in terms if term in self.corpus.codes)
        return {term: count for term, count in counts.items() if count}

    def _counts(self, terms: Iterable[str]) -> dict[str, int]:
        """The number of living rows that hold each term."""
        distinct_terms = list(dict.fromkeys(terms))
        return dict(zip(distinct_terms, self.corpus.frequencies(distinct_terms), strict=True)) if distinct_terms else {}


def _has_number_one(query: str) -> bool:
    """Whether an "i" in the query is a Roman number: it follows a word that is no function word ("Type I error")."""
    words = re.findall(r"\w+", query.lower())
    return any(word == "i" and before not in all_function_words() for before, word in pairwise(words))


def _in_other_languages(
    query: str, first: Analyzer, analyzers: Sequence[Analyzer], wanted: Collection[str]
) -> dict[str, dict[str, None]]:
    """For each term in `wanted` that the analyzer `first` makes of the query, the distinct terms of the same word from
    all analyzers, the term first; also with umlauts in place of ae, oe and ue. The inner dicts are ordered sets.

    A word may have several terms, such as "7th". The terms of two analyzers correspond by their order, so those of an
    analyzer that makes another number of terms of the word are left out.
    """
    words = list(dict.fromkeys(pieces(query)))
    of_words = zip(words, first.terms_of_pieces(words), strict=True)
    asked = [word for word, terms in of_words if any(term in wanted for term in terms)]
    umlauts = list(map(with_umlauts, asked))
    by_analyzer = [each.terms_of_pieces(asked) for each in (first, *(each for each in analyzers if each is not first))]
    if umlauts != asked:
        by_analyzer += [each.terms_of_pieces(umlauts) for each in analyzers]
    found: dict[str, dict[str, None]] = {}
    for terms, *others in zip(*by_analyzer, strict=True):  # of one word
        aligned = [other for other in others if len(other) == len(terms)]
        for term, *same in zip(terms, *aligned, strict=True):
            if term in wanted:
                found.setdefault(term, {}).update(dict.fromkeys([term, *same]))
    return found


def _largest(weightings: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The largest weight of each term."""
    largest: dict[str, float] = {}
    for weighting in weightings:
        for term, weight in weighting.items():
            largest[term] = max(largest.get(term, 0.0), weight)
    return largest


def _last_terms(analyzer: Analyzer, words: Sequence[str]) -> list[str]:
    """The last term of each word; words without terms are left out."""
    return [terms[-1] for terms in analyzer.terms_of_pieces(words) if terms]


def _joined(words: Sequence[str]) -> dict[str, list[str]]:
    """The longer of two adjacent words, or the first of two as long -> the pair joined: "data" -> ["database"], since a
    text may write "data base" so. A word that is longer than both words beside it has two joined pairs. A pair whose
    first word is a function word is left out ("the" + "base"); the second may be one ("log" + "in")."""
    found: dict[str, list[str]] = {}
    for one, other in pairwise(words):
        if one.isalpha() and other.isalpha() and min(len(one), len(other)) > 1 and one not in all_function_words():
            found.setdefault(max(one, other, key=len), []).append(one + other)
    return found


def without_accents(word: str) -> str:
    """A lower-case word, or text, without its accents. If it has a letter of another script than Latin, it is
    unchanged."""
    if word.isascii() or languages.script_of(word) != languages.LATIN:
        return word
    return _NOT_ASCII.sub(_in_plain_letters, word)  # most letters of a text are ASCII


def _in_plain_letters(found: re.Match[str]) -> str:
    letters = unicodedata.normalize("NFD", found[0].translate(_LETTERS))
    return "".join([letter for letter in letters if not unicodedata.combining(letter)])


def with_umlauts(text: str) -> str:
    """The text with ä, ö and ü for ae, oe and ue, and Ä for Ae: a guess, which makes "neü" of "neue"."""
    return _TWO_LETTERS_OF_UMLAUT.sub(lambda two: _UMLAUTS[two[0]], text)


def one_edit_away(word: str) -> Iterator[str]:
    """All strings with the same first letter that differ by one ASCII letter (inserted, deleted or replaced) or by two
    adjacent letters that are swapped. Some come several times, and the word itself is among them."""
    for at in range(1, len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
            yield before + after[1:2] + after[0] + after[2:]
        for letter in ascii_lowercase:
            yield before + letter + after
            if after:
                yield before + letter + after[1:]


def parts_of_compound(word: str, stems_of: Stems, held: Held) -> list[str]:
    """The terms of the two parts of a compound: "mietvertrag" and "kundig" of "mietvertragskündigung".

    Of several splits, the one whose rarer part is in the most rows; empty if rows hold the parts of no split.
    """
    spellings = dict.fromkeys([word, with_umlauts(word)])
    splits = [(each[:at], each[at:]) for each in spellings for at in range(PART_LETTERS, len(each) - PART_LETTERS + 1)]
    splits += [(head[:-1], tail) for head, tail in splits if head.endswith("s")]
    stems = stems_of([part for split in splits for part in split])
    rows = held(stems)
    found = [two for two in zip(stems[::2], stems[1::2], strict=True) if two[0] != two[1] and rows.keys() >= set(two)]
    return list(max(found, key=lambda two: min(map(rows.__getitem__, two)), default=()))


def compounds_of(words: Sequence[str], stems_of: Stems, held: Held) -> dict[str, list[str]]:
    """By word, the terms of its compounds with the next or previous word, in either order, that rows hold.

    Function words between the two are left out: for "Leitung für das Wasser", "wasserleit" is found by both words.
    """
    content = [word for word in words if word not in all_function_words()]
    found: dict[str, list[str]] = {}
    for one, other in pairwise(content):
        orders = (one, other), (other, one)
        typed = [head + link + tail for first, tail in orders for head in (first, first[:-1]) for link in LINKS]
        for whole in held(stems_of(typed)):
            found.setdefault(one, []).append(whole)
            found.setdefault(other, []).append(whole)
    return found


class Spellings:
    """Finds the spellings with and without accents of a term of an index. One writer at a time; readers may read
    meanwhile.

    Args:
        stems: Returns the terms of a word: `Analyzer.terms_of_piece`.
    """

    def __init__(self, stems: Callable[[str], Sequence[str]]) -> None:
        self._stems = stems
        self._read = 0
        """Number of terms that `update` has read."""
        self._terms: dict[str, dict[str, None]] = {}
        """Spelling without accents -> the terms that have accents, as keys, because a dict keeps their order."""

    def update(self, terms: dict[str, int]) -> None:
        """Add the terms that have accents. `terms` only grows between calls; only its new terms are read."""
        new = list(islice(reversed(terms), len(terms) - self._read))[::-1]  # the last terms, in order
        for term in new:
            if not term.isascii() and _ACCENTED.search(term):
                for spelling in self._plain_spellings(term):
                    self._terms.setdefault(spelling, {})[term] = None
        self._read = len(terms)

    def others(self, term: str) -> list[str]:
        """For a term in ASCII, the accented terms of the index: müller for muller and mueller. For any other term, its
        spellings without accents."""
        return list(self._terms.get(term, ())) if term.isascii() else self._plain_spellings(term)

    def _plain_spellings(self, term: str) -> list[str]:
        plain = {without_accents(each) for each in (term, term.translate(_TWO_LETTERS))} - {term}
        stems = {stem for each in plain for stem in self._stems(each)}
        return sorted(plain | stems)
