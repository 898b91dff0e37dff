"""Languages: the language of a text by its function words or its letters, and each script's letters and stemmer.

Scripts are given as ranges of Unicode blocks, not by Unicode's script tables: the ranges do not change between versions
and need no data file. The script of a text decides how it is cut into terms; the script of a word decides its stemmer.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
_KANA = "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # with the iteration and length marks
_HAN_BLOCKS = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_BIGRAM_BLOCKS = _HANGUL + _KANA + _HAN_BLOCKS
"""Chinese, Japanese and Korean letters, which are cut into bigrams: Chinese and Japanese are written without spaces
between words, and Korean words carry endings that no stemmer of Snowball removes."""
_SYLLABLE_SCRIPTS = {
    "Thai": "\u0e00-\u0e7f",
    "Lao": "\u0e80-\u0eff",
    "Burmese": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
    "Khmer": "\u1780-\u17ff",
}
"""Script -> its blocks, for scripts written without spaces between words whose syllables have several code points."""
_SYLLABLE_BLOCKS = "".join(_SYLLABLE_SCRIPTS.values())

UNSEGMENTED = re.compile(f"[{_BIGRAM_BLOCKS}{_SYLLABLE_BLOCKS}]")
"""One letter of a script that is cut into bigrams or trigrams."""
PIECES = re.compile(
    f"(?P<bigrams>[{_BIGRAM_BLOCKS}]+)|(?P<syllables>[{_SYLLABLE_BLOCKS}]+)|[^{_BIGRAM_BLOCKS}{_SYLLABLE_BLOCKS}]+"
)
"""A run of letters that are cut into bigrams (group "bigrams") or into trigrams (group "syllables"), or of other
characters (no group)."""
HAN = re.compile(f"[{_HAN_BLOCKS}]")
"""One Chinese character, as in Chinese, Japanese and old Korean texts."""

ENGLISH = "english"
NOT_FOUND = "not found"
"""In place of a language, for a text in Latin letters with too few function words, and for a text without letters."""
READ_CHARACTERS = 240
"""Number of characters at the beginning of a text from which its language is detected: some 40 words."""
ENGLISH_SHARE = 0.1
"""A text is English if at least this share of its words are function words of English alone, and if these are more than
its long function words of other languages (see LONG)."""
LEAD, SHARE_MIN = 2, 0.1
"""A text is in another language than English if its function words of that language are at least LEAD more than its
English ones, and at least the share SHARE_MIN of its words. An ASCII text also needs LEAD long function words (see
LONG)."""

LONG = 3
"""Smallest number of letters of a long function word. In an ASCII text, shorter function words of other languages than
English are often codes, syllables or names."""

LATIN = "Latin"
"""Name of the script of every letter that is in none of `_BLOCKS`."""
_STEMMED_SCRIPTS = {
    "Greek": ("\u0370-\u03ff\u1f00-\u1fff", "greek"),
    "Cyrillic": ("\u0400-\u052f", "russian"),
    "Armenian": ("\u0531-\u058f", "armenian"),
    "Hebrew": ("\u0590-\u05ff", "none"),
    "Arabic": ("\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff", "arabic"),
    "Devanagari": ("\u0900-\u097f", "hindi"),
    "Tamil": ("\u0b80-\u0bff", "tamil"),
}
"""Script -> (its blocks, the Snowball stemmer of its most written language; "none": Snowball has none)."""
_BLOCKS = {
    **{script: blocks for script, (blocks, _) in _STEMMED_SCRIPTS.items()},
    **_SYLLABLE_SCRIPTS,
    "Hangul": _HANGUL,
    "Han": _HAN_BLOCKS + _KANA,  # Chinese and Japanese are not told apart
}
SCRIPTS = tuple(_BLOCKS)
"""The scripts that `script_of` knows, without Latin."""
SCRIPT_SHARE = 0.25
"""A text is in another script than Latin if the characters of that script, marks and signs included, are at least this
share of its letters."""
NEGATIONS = frozenset(
    (  # noqa: SIM905 a list would take sixty lines
        "no not never nor neither without cannot none nobody nothing "
        "nicht kein keine keinen keinem keiner keines nie niemals ohne "
        "niet geen nooit zonder inte aldrig utan ingen ikke uden uten ei eivät ilman nem nincs soha nélkül "
        "pas jamais sans aucun aucune non mai senza nunca sin ni ningún ninguna não sem nenhum nenhuma "
        "не нет без никогда"
    ).split()
)
"""Words of several languages that turn a statement into its opposite; most are function words, too."""
_LANGUAGE_SCRIPTS = {
    "greek": ("Greek",),
    "russian": ("Cyrillic",),
    "serbian": ("Cyrillic", LATIN),
    "armenian": ("Armenian",),
    "yiddish": ("Hebrew",),
    "arabic": ("Arabic",),
    "persian": ("Arabic",),
    "hindi": ("Devanagari",),
    "nepali": ("Devanagari",),
    "tamil": ("Tamil",),
}
"""Snowball language -> its scripts, for the languages that are not written in Latin letters only."""
_SCRIPT_OF = re.compile(
    f"(?=[{''.join(_BLOCKS.values())}])(?:{'|'.join(f'(?P<{name}>[{blocks}])' for name, blocks in _BLOCKS.items())})"
)
"""A letter of one of SCRIPTS. It is first tested whether a character is any such letter, which most are not."""


def script_of(word: str) -> str:
    """The script of the first letter of the word that belongs to one of SCRIPTS; LATIN if no letter does."""
    found = _SCRIPT_OF.search(word)
    return LATIN if found is None or found.lastgroup is None else found.lastgroup


def stemmers_by_script(language: str) -> dict[str, str]:
    """Script -> Snowball language: `language` for its own scripts; for any other script, its most written language.

    So a store whose language is English also finds inflected words of Russian or Arabic. For "none" the result is
    empty: no script is stemmed.
    """
    if language == "none":
        return {}
    table = {LATIN: "english", **{name: stemmer for name, (_, stemmer) in _STEMMED_SCRIPTS.items()}}
    table.update(dict.fromkeys(_LANGUAGE_SCRIPTS.get(language, (LATIN,)), language))
    return {script: stemmer for script, stemmer in table.items() if stemmer != "none"}


@lru_cache(maxsize=1)
def combining_marks() -> str:
    """The combining marks, for a character class of `re`.

    `re` does not count them as word characters, so `\\w+` alone would cut words of Hindi, Thai and vowelled Arabic.
    Above U+1F000 the only combining marks are variation selectors, which are left out.
    """
    return "".join(char for char in map(chr, range(0x300, 0x1F000)) if unicodedata.category(char) in ("Mn", "Mc"))


def language_of(text: str) -> str:
    """The language that a text begins in, one of `detected_languages`.

    For a text in another script than Latin, see SCRIPT_SHARE, this is the name of the script. A text in Latin letters
    is first compared with English. Otherwise each function word in the text adds 1 / n to each of the n languages that
    have it, and the language with the largest sum is returned; NOT_FOUND if too few words are in its list (see LEAD).
    """
    beginning = text[:READ_CHARACTERS].lower()
    if not beginning.isascii() and (script := _most_frequent_script(beginning)):
        return script
    words = set(beginning.split())
    only_english, long = len(words & _only_english_words()), len(words & _long_words())
    if only_english > long and only_english >= ENGLISH_SHARE * len(words):
        return ENGLISH
    if beginning.isascii() and long < LEAD:
        return NOT_FOUND
    languages_of = _languages_of_words()
    known = words & languages_of.keys()
    sums: Counter[str] = Counter()
    for word in sorted(known):
        sums.update(dict.fromkeys(languages_of[word], 1 / len(languages_of[word])))
    best = max(sorted(sums), key=sums.__getitem__, default=ENGLISH)
    found = [word for word in known if best in languages_of[word]]
    english = sum(ENGLISH in languages_of[word] for word in known)
    return best if len(found) >= max(english + LEAD, SHARE_MIN * len(words)) else NOT_FOUND


def _most_frequent_script(text: str) -> str | None:
    """The most frequent of SCRIPTS in a text; None: its share of the letters is below SCRIPT_SHARE."""
    counts = Counter(letter.lastgroup for letter in _SCRIPT_OF.finditer(text))
    script, count = max(counts.items(), key=lambda item: item[1], default=(None, 0))
    return script if count and count >= SCRIPT_SHARE * sum(map(str.isalpha, text)) else None


@cache
def differ(language: str, other: str) -> bool:
    """Whether two languages differ: both are found, or one is a script and the other NOT_FOUND, mostly Latin letters.

    Args:
        language, other: Two of `detected_languages`.
    """
    return language != other and (NOT_FOUND not in (language, other) or language in SCRIPTS or other in SCRIPTS)


@lru_cache(maxsize=1)
def detected_languages() -> tuple[str, ...]:
    """All values that `language_of` can return: NOT_FOUND, languages with a list of function words, and SCRIPTS."""
    return (NOT_FOUND, *sorted(_words_of_latin_languages()), *SCRIPTS)


@lru_cache(maxsize=1)
def _words_of_latin_languages() -> Mapping[str, frozenset[str]]:
    """Function words of at least two letters, by language; single letters are often list marks or names of columns."""
    return {
        language: frozenset(word for word in words if len(word) > 1)
        for language, words in _function_word_lists().items()
        if language not in _LANGUAGE_SCRIPTS
    }


@lru_cache(maxsize=1)
def _languages_of_words() -> Mapping[str, list[str]]:
    by_word: dict[str, list[str]] = {}
    for language, words in _words_of_latin_languages().items():
        for word in words:
            by_word.setdefault(word, []).append(language)
    return by_word


@lru_cache(maxsize=1)
def _only_english_words() -> frozenset[str]:
    """The English words that are in the list of no other language."""
    return frozenset(word for word, languages in _languages_of_words().items() if languages == [ENGLISH])


@lru_cache(maxsize=1)
def _long_words() -> frozenset[str]:
    """The words of at least LONG letters in the lists of other languages than English, and not in the English list."""
    words = _languages_of_words().items()
    return frozenset(word for word, languages in words if len(word) >= LONG and ENGLISH not in languages)


def function_words(languages: Iterable[str]) -> frozenset[str]:
    """The function words of these Snowball languages, lower-case; a language without a list adds none."""
    lists = _function_word_lists()
    return frozenset().union(*(lists.get(language, ()) for language in languages))


@lru_cache(maxsize=1)
def all_function_words() -> frozenset[str]:
    """The function words of all languages with a list, lower-case."""
    return function_words(_function_word_lists())


@lru_cache(maxsize=1)
def _function_word_lists() -> dict[str, list[str]]:
    """Language -> its function words, from function_words.txt, which names their source and licence."""
    lists: dict[str, list[str]] = {}
    for line in _lines_of("function_words.txt"):
        if line.endswith(":"):
            words = lists[line[:-1]] = []
        elif line.startswith(" "):
            words += line.split()
    return lists


@lru_cache(maxsize=1)
def word_forms() -> Mapping[str, Sequence[str]]:
    """English word -> its other forms, if not all have the same stem ("went" of "go"), from word_forms.txt."""
    words = [line.split() for line in _lines_of("word_forms.txt") if not line.startswith("#")]
    return {form: [other for other in forms if other != form] for forms in words for form in forms}


def _lines_of(name: str) -> list[str]:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()
