"""Text to terms: the same at index time and at query time.

A text is normalised by NFKC and put into lower case. Words of any script are stemmed by the Snowball stemmer of the
script. Codes, such as AC-12 and asyncio.wait_for, are indexed whole and in parts, numbers also in the common forms of
`numbers_in_text`. Scripts without spaces give character bigrams or trigrams, and each emoji is a term. One-character
tokens are kept; there are no stop words unless the caller gives some.

    "Mel's AC-12 uses asyncio.wait_for"  ->  mel s  ac 12 ac12  use  asyncio wait for waitfor asynciowaitfor
"""

from __future__ import annotations

import hashlib
import re
import string
import threading
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain

from umi_common.config import AnalyzerConfig
from umi_common.errors import ConfigError
from umi_common.number_names import DIGITS_OF
from umi_common.runtime.forks import cached_property
from umi_common.stores.lexical import languages, numbers_in_text
from umi_common.stores.lexical.numbers_in_text import codes_of_token, common_terms, segments_of

ANALYZER_VERSION = 23
"""Part of the fingerprint of an analyzer; raised with every change of the rules that make terms."""
PIECES_KEPT = 50_000
"""Largest number of pieces of text whose terms one analyzer caches; see `pieces`."""
CACHED_LENGTH_MAX = 48
"""Length of the longest piece whose terms are cached, in characters; longer pieces rarely occur twice."""
AS_WRITTEN_WEIGHT = 0.25
"""Factor on the weight of a query's terms for a measure, a time of day or "forty-third" as it is written: "0.5 kg" has
four of them, and one for its common form, 500000mg. At 1, a rope of "0.5 kg" ranks above a hose of "500 g" for "hose
0.5 kg"."""

_LINK = r"[.\-/@:'&+#]"
"""Characters allowed inside a token: file.py, AC-12/b, ann@acme.com, 10:30, don't, AT&T."""
_ASCII_TOKEN = re.compile(rf"\w+(?:{_LINK}\w+|,\d{{3}}\b)*[+#]*", re.ASCII)
_EMOJI = (
    "\u231a-\u23ff\u2600-\u2604\u260e\u2614-\u2653\u267b-\u26ff\u2702-\u2764\u2795-\u2797\u2b50\u2b55"
    "\U0001f000-\U0001faff"
)
"""Emoji and similar signs, as ranges of characters; each is a term. Arrows, bullets, ♞, ♠ and ♪ are not among them."""
_PUNCTUATION_AROUND = re.sub(r"[\w+#]", "", string.punctuation)
"""Characters that may stand before and after a word and are not part of its token."""
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
"""A change of case inside a word: getValue, HTTPServer."""
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
"""The parts of a word that has a change of case: get Value, HTTP Server 2."""
_SMALL_FIRST = re.compile(r"[a-z][A-Z]")
"""The beginning of a word with one small letter before a capital: iPhone, kWh."""
_BEFORE_RAISED = re.compile(r"\d(?=[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2079\u2150-\u215e])")
"""A digit before a fraction or a raised digit. A space is inserted between them, because NFKC turns 1½ into 11/2, and
18¹ into 181."""
_FORMS = {
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff", ""),  # soft hyphen, zero-width signs
    **{"\u2044": "/", "\u066b": ".", "\u066c": ",", numbers_in_text.TERM_MARK: " "},
    **dict.fromkeys("\u2018\u2019\u02bb\u02bc\u02be\u02bf\u05f3", "'"),  # Hawai\u02bbi, O\u2018zbek, Qur\u02bean
    **dict.fromkeys("\u0300\u0301", ""),  # accents that NFKC joins with no letter: росси\u0301я
    **dict.fromkeys(map(chr, (*range(0x591, 0x5BE), 0x5BF, 0x5C1, 0x5C2, 0x5C4, 0x5C5, 0x5C7)), ""),  # Hebrew points
    **dict.fromkeys(map(chr, (0x640, *range(0x64B, 0x653), 0x670)), ""),  # Arabic tatweel and vowels
    **{"\u06cc": "\u064a", "\u06a9": "\u0643"},  # Persian yeh and kaf on an Arabic keyboard
    **{"\u0219": "\u015f", "\u021b": "\u0163", "\u0218": "\u015e", "\u021a": "\u0162"},  # Romanian comma and cedilla
    **{"\u093c": "", "\u0901": "\u0902"},  # Hindi nukta is often left out, candrabindu written as anusvara
}
"""Character -> the characters that are indexed in its place, because both spellings are in use."""
_DIGITS_OF_SCRIPTS = (
    "\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0a66-\u0a6f\u0ae6-\u0aef\u0be6-\u0bef\u0c66-\u0c6f"
    "\u0ce6-\u0cef\u0d66-\u0d6f\u0e50-\u0e59\u0ed0-\u0ed9\u1040-\u1049\u17e0-\u17e9"
)
"""Digits of other scripts, which are indexed as 0 to 9."""
_POLYTONIC = "\u1f00-\u1fff"
"""Greek letters with breathings and accents, which are indexed without these marks."""
_OTHER_FORM = re.compile(f"[{''.join(_FORMS)}{_DIGITS_OF_SCRIPTS}{_POLYTONIC}]")
_NASAL = re.compile(
    "(?:\u0919\u094d(?=[\u0915-\u0918])|\u091e\u094d(?=[\u091a-\u091d])|\u0923\u094d(?=[\u091f-\u0922])"
    "|\u0928\u094d(?=[\u0924-\u0927])|\u092e\u094d(?=[\u092a-\u092d]))"
)
"""A Hindi nasal before a consonant of its class. It is indexed as anusvara, which many writers use in its place."""
_DIGITS = re.compile(r"\d+|\D+")
_CONTRACTED = re.compile(r"(\w+)'(s|m|re|ve|ll|d)")
"""An English word with an apostrophe that is indexed as two words: mel's, I'll."""
_NEGATED = {"ca": "can", "wo": "will", "sha": "shall"}
"""The letters before n't in can't, won't and shan't -> the verb."""
_SYLLABLE_LENGTH = 3
"""Number of code points in a term of Thai, Lao, Burmese or Khmer: about one syllable, with its vowel signs and tone
marks."""
_ELIDED = re.compile(r"(l|d|j|m|n|s|t|c|qu|jusqu|lorsqu|puisqu|dell|all|dall|nell|sull|quest|un)'(\w{2,})")
"""A French or Italian word with an elided article or pronoun, indexed as two words: l'homme, dell'arte."""


class Analyzer:
    """Terms of a text. Thread-safe.

    Args:
        config: The language and the stop words.

    Raises:
        ConfigError: If Snowball has no such language.
    """

    def __init__(self, config: AnalyzerConfig) -> None:
        self.config = config
        self._finds_language = config.language == "auto"
        self.languages = languages.detected_languages() if self._finds_language else (config.language,)
        """All values that `language_of` can return."""
        self._language = languages.ENGLISH if self._finds_language else config.language
        self._by_language = {} if self._finds_language else {self._language: self}
        self._stems = _Stemmers(self._language)
        self._stop_words = config.stop_words
        self._cached = lru_cache(PIECES_KEPT)(self.terms_of_piece)

    def __reduce__(self) -> tuple[type[Analyzer], tuple[AnalyzerConfig]]:
        return Analyzer, (self.config,)  # so that search results, which hold the method `terms`, can be pickled

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides the terms of a text: rules, language, stop words, release of Snowball."""
        parts = (ANALYZER_VERSION, self.config.language, sorted(self.config.stop_words), self._stems.release)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def language_of(self, text: str) -> str:
        """The language of a text, one of `languages`. It is detected if the configured language is "auto"."""
        return languages.language_of(text) if self._finds_language else self._language

    def of_language(self, language: str) -> Analyzer:
        """The analyzer that treats every text as written in `language`, one of `languages`.

        With the setting "auto", this is the analyzer of English for NOT_FOUND, for a script and for a language that the
        installed Snowball lacks. Words in another script than Latin are stemmed by the most written language of the
        script.
        """
        if language not in self._stems.known:
            language = self._language
        known = self._by_language.get(language)
        if known is None:
            fixed = Analyzer(self.config.model_copy(update={"language": language}))
            known = self._by_language.setdefault(language, fixed)
        return known

    def terms(self, text: str) -> list[str]:
        """The terms of `text` in order, repeats included; empty for a text without words, numbers and emoji."""
        own = self.of_language(self.language_of(text))
        return list(chain.from_iterable(own.terms_of_pieces(pieces(text))))

    def terms_of_pieces(self, pieces: Sequence[str]) -> list[tuple[str, ...]]:
        """The terms of each piece, in one fixed language; see `of_language`."""
        cached, uncached = self._cached, self.terms_of_piece
        return [cached(piece) if len(piece) <= CACHED_LENGTH_MAX else uncached(piece) for piece in pieces]

    def weighted_terms(self, query: str, function_word_weight: float) -> Mapping[str, float]:
        """The distinct terms of a query in order, each with a weight > 0: the sum over its occurrences.

        An occurrence of a function word weighs `function_word_weight` (0..1), any other occurrence 1. If the query has
        only function words, or its language has no list of them, every occurrence weighs 1. Of a measure or a time of
        day, the common form weighs 1, and the other terms weigh `AS_WRITTEN_WEIGHT` times as much.
        """
        own, plain = self.of_language(self.language_of(query)), normalised(query)
        split, common = _split(plain), numbers_in_text.in_common_forms(plain)
        counted = Counter(chain.from_iterable(own.terms_of_pieces(split)))
        weights: dict[str, float] = dict(counted)
        if function_word_weight != 1.0 and own._without_function_words is not None:
            content = Counter(chain.from_iterable(own._without_function_words.terms_of_pieces(split)))
            for term, n in (counted - content).items() if content else ():
                weights[term] -= (1 - function_word_weight) * n
        if common != plain:
            as_written = counted - Counter(chain.from_iterable(own.terms_of_pieces(_split(common))))
            for term, n in as_written.items():
                weights[term] *= 1 - (1 - AS_WRITTEN_WEIGHT) * n / counted[term]
        return weights if function_word_weight else {term: weight for term, weight in weights.items() if weight}

    @cached_property
    def _without_function_words(self) -> Analyzer | None:
        """An analyzer that also drops the function words of the language of each script; None: there is no list of
        function words for any of these languages."""
        words = languages.function_words(languages.stemmers_by_script(self._language).values())
        if not words:
            return None
        stop_words = self.config.stop_words | words
        return Analyzer(self.config.model_copy(update={"language": self._language, "stop_words": stop_words}))

    def terms_of_piece(self, piece: str) -> tuple[str, ...]:
        """Terms of one item of `pieces(text)`; uncached."""
        if piece.isalpha() and piece.isascii():  # nearly all; such a piece is one token, without signs
            return self.analyse_token(piece)
        if piece.startswith(numbers_in_text.TERM_MARK):
            return (piece[1:],)
        if "," in piece:
            piece = numbers_in_text.with_decimal_point(piece)
        tokens = _ASCII_TOKEN.findall(piece) if piece.isascii() else self._unicode_token.findall(piece)
        return (*chain.from_iterable(map(self.analyse_token, tokens)), *numbers_in_text.signs(piece))

    def stems_of(self, pieces: Sequence[str]) -> list[str]:
        """The term of each piece that is one plain ASCII word, stemmed in one call; "" for every other piece."""
        words = [""] * len(pieces)
        if self._language == "turkish":
            return words  # the lower case of I is ı
        for at, piece in enumerate(pieces):
            word = piece if piece.isalpha() else piece.strip(_PUNCTUATION_AROUND)
            # Not in camel case: abc, Abc and ABC, but not aBc or ABCdef.
            if word.isascii() and word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
                words[at] = word.lower()
        if self._stop_words:
            words = ["" if word in self._stop_words else word for word in words]
        return self._stems.stem_latin(words)

    def stems_of_words(self, words: list[str]) -> list[str]:
        """The stem of each word, which is in lower case and Latin letters; stemmed in one call."""
        return self._stems.stem_latin(words)

    @cached_property
    def _unicode_token(self) -> re.Pattern[str]:
        word = rf"[\w{languages.combining_marks()}]"
        return re.compile(rf"\w{word}*(?:{_LINK}{word}+|,\d{{3}}\b)*[+#]*|[{_EMOJI}]")

    def analyse_token(self, token: str) -> tuple[str, ...]:
        """Terms of one token, a match of a token pattern; uncached."""
        if token.isascii() and token.isalpha() and _CAMEL.search(token) is None:  # nearly all
            word = self._lower(token)
            return () if word in self._stop_words else (self._stems.stem(word),)
        if token.isascii() or languages.UNSEGMENTED.search(token) is None:
            return tuple(self._word_terms(token))
        terms: list[str] = []
        for piece in languages.PIECES.finditer(token):
            if piece.lastgroup == "bigrams":
                terms += _grams(piece[0], 2)
                # A Chinese character is also a term alone, because it may be a word.
                terms += languages.HAN.findall(piece[0]) if len(piece[0]) > 1 else ()
            elif piece.lastgroup == "syllables":
                terms += _grams(piece[0], _SYLLABLE_LENGTH)
            else:
                terms += self._word_terms(piece[0])
        return tuple(terms)

    def _word_terms(self, token: str) -> list[str]:
        """The stem of a plain word. For a code: its parts, the parts joined, and its common forms (`common_terms`)."""
        if token.isalpha() and not token.isascii():
            return self._stemmed((token,))
        token = token.replace(",", "")  # 1,000
        plain = token.rstrip("+#")
        segments = segments_of(plain)
        terms = [term for segment in segments for term in self._segment_terms(segment)]
        if segments and plain != token:
            terms.append(self._lower(token))  # c++; 3.10+ beside 3.10
        codes = [plain]
        if len(segments) > 1:
            codes = codes_of_token(plain)
            terms += map(self._joined, codes)
        return terms + common_terms(terms, segments, codes)

    def _joined(self, code: str) -> str:
        """The code without separators, so that AC12b finds AC-12/b; a code of digits, such as 3.14, keeps them."""
        joined = "".join(segments_of(code))
        return self._lower(code if joined.isdigit() else joined.replace("_", "").replace("'", ""))

    def _segment_terms(self, segment: str) -> list[str]:
        """Terms of a segment, which is a part of a token between links. It is split at "_", digits and changes of case.
        The terms are the parts, and all parts joined. The i of iPhone is no part, because it would be the pronoun, and
        the letters of an ordinal are none: the rd of 3rd would be a road."""
        if "'" in segment:
            return self._stemmed(_apostrophes(self._lower(segment), self._language))
        parts = [part for piece in segment.split("_") if piece for part in _camel_case_parts(piece)]
        own = parts[1:] if _SMALL_FIRST.match(segment) and len(parts[0]) == 1 else parts
        own = parts[:1] if segment.lower() in DIGITS_OF else own
        return self._stemmed(parts if len(parts) == 1 else [*own, "".join(parts)])

    def _stemmed(self, words: Sequence[str]) -> list[str]:
        lowered = map(self._lower, words)
        return [self._stems.stem(word) for word in lowered if word and word not in self._stop_words]

    def _lower(self, word: str) -> str:
        if word.isascii() and self._language != "turkish":
            return word.lower()
        if self._language == "turkish":
            word = word.replace("I", "ı").replace("İ", "i")
        return word.lower().replace("i\u0307", "i")


class _Stemmers(threading.local):
    """The Snowball stemmer of each script. Every thread has its own, because a Stemmer is not thread-safe."""

    def __init__(self, language: str) -> None:
        import Stemmer

        known = Stemmer.algorithms()
        if language != "none" and language not in known:
            raise ConfigError(f"analyzer.language is {language!r}; expected 'none' or one of {', '.join(known)}")
        self.known = frozenset(known)
        """The languages that the installed Snowball stems."""
        self.release = ".".join(Stemmer.version().split(".")[:2])
        names = languages.stemmers_by_script(language).items()
        self._by_script = {script: Stemmer.Stemmer(name, 0) for script, name in names if name in known}

    def stem(self, word: str) -> str:
        stemmer = self._by_script.get(languages.LATIN if word.isascii() else languages.script_of(word))
        return word if stemmer is None else stemmer.stemWord(word) or word

    def stem_latin(self, words: list[str]) -> list[str]:
        stemmer = self._by_script.get(languages.LATIN)
        if stemmer is None:
            return words
        return [stem or word for stem, word in zip(stemmer.stemWords(words), words, strict=True)]


def pieces(text: str) -> list[str]:
    """The normalised text, split at white space; no token contains white space.

    A piece has the same terms in every text, so its terms can be cached. `str.split` takes a fifth of the time of the
    token pattern.
    """
    return _split(normalised(text))


def _split(text: str) -> list[str]:
    return numbers_in_text.with_common_forms(text).split()


def normalised(text: str) -> str:
    """The text in NFKC, with one form of characters that are written in several ways; see `_FORMS`."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _BEFORE_RAISED.sub(r"\g<0> ", text))
    text = _OTHER_FORM.sub(_one_form, text)
    return _NASAL.sub("\u0902", text) if "\u094d" in text else text


def _one_form(found: re.Match[str]) -> str:
    """The characters that are indexed in place of one match of `_OTHER_FORM`."""
    char = found[0]
    if char in _FORMS:
        return _FORMS[char]
    return str(unicodedata.decimal(char)) if char.isdecimal() else unicodedata.normalize("NFD", char)[0]


def _apostrophes(word: str, language: str) -> list[str]:
    """mel's -> mel s; don't -> do not; l'homme -> l homme; o'clock -> oclock; a Turkish name without its ending."""
    if language == "turkish":
        return [word.split("'")[0]]
    two = _CONTRACTED.fullmatch(word) or _ELIDED.fullmatch(word)
    if two is not None:
        return [two[1], two[2]]
    if word.endswith("n't"):
        return [_NEGATED.get(word[:-3], word[:-3]), "not"]
    return [word.replace("'", "")]


def _camel_case_parts(word: str) -> list[str]:
    """HTTPServer2 -> HTTP Server 2."""
    if word.isascii() and _CAMEL.search(word) is not None:
        return _CAMEL_PART.findall(word)
    return [word] if word.isalpha() else _DIGITS.findall(word)


def _grams(run: str, length: int) -> list[str]:
    """Each sequence of `length` code points; a shorter run as it is."""
    return [run[i : i + length] for i in range(max(1, len(run) - length + 1))]
