"""Writing systems: the letters of each script, and its Snowball stemmer.

Scripts are ranges of Unicode blocks, not Unicode's full script tables: ranges do not change between versions and need
no data file. They decide how a text is cut into terms, and which stemmer a word gets.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_BIGRAM_BLOCKS = (
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana, the iteration marks, the length mark
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Chinese, Japanese and Korean letters, which are cut into bigrams: Chinese and Japanese are written without spaces
between words, and Korean words carry endings that no stemmer of Snowball removes."""
_SYLLABLE_BLOCKS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
"""Thai, Lao, Burmese, Khmer: written without spaces between words; a syllable has several code points."""
_HAN_BLOCKS = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

UNSEGMENTED = re.compile(f"[{_BIGRAM_BLOCKS}{_SYLLABLE_BLOCKS}]")
"""One letter of these scripts."""
PIECES = re.compile(
    f"(?P<bigrams>[{_BIGRAM_BLOCKS}]+)|(?P<syllables>[{_SYLLABLE_BLOCKS}]+)|[^{_BIGRAM_BLOCKS}{_SYLLABLE_BLOCKS}]+"
)
"""Runs of one kind: the group "bigrams", the group "syllables", or neither for all other characters."""
HAN = re.compile(f"[{_HAN_BLOCKS}]")
"""One Chinese character, as in Chinese, Japanese and old Korean texts."""

LATIN = "Latin"
"""Name of the script of every letter that is in none of the blocks below."""
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
_SCRIPT_OF = re.compile("|".join(f"(?P<{name}>[{blocks}])" for name, (blocks, _) in _STEMMED_SCRIPTS.items()))


def script_of(word: str) -> str:
    """The script of the word's first letter that is Greek, Cyrillic, Armenian, Hebrew, Arabic, Devanagari or Tamil.

    "Latin" if no letter is.
    """
    found = _SCRIPT_OF.search(word)
    return LATIN if found is None or found.lastgroup is None else found.lastgroup


def stemmers_by_script(language: str) -> dict[str, str]:
    """Script -> Snowball language: `language` for its own scripts, for every other script its most written language.

    So a store whose language is English also finds inflected words of Russian or Arabic. With "none" the result is
    empty: no script is stemmed.
    """
    if language == "none":
        return {}
    table = {LATIN: "english", **{name: stemmer for name, (_, stemmer) in _STEMMED_SCRIPTS.items()}}
    table.update(dict.fromkeys(_LANGUAGE_SCRIPTS.get(language, (LATIN,)), language))
    return {script: stemmer for script, stemmer in table.items() if stemmer != "none"}


@lru_cache(maxsize=1)
def combining_marks() -> str:
    """The combining marks and the two zero-width joiners, as ranges for a character class of `re`.

    `re` does not count them as word characters, so `\\w+` alone would cut words of Hindi, Thai and vowelled Arabic.
    Above U+1F000 the only combining marks are variation selectors, which are left out.
    """
    marks = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    ranges: list[list[int]] = []
    for code in sorted([*marks, 0x200C, 0x200D]):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
