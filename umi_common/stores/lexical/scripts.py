"""Writing systems: the letters of each script, and its Snowball stemmer.

Scripts are block ranges, not Unicode's full script tables: ranges are stable and need no data file, and they only
decide how a word is cut.
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
"""Chinese, Japanese and Korean letters: words are not marked, or carry glued endings."""
_SYLLABLE_BLOCKS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
"""Thai, Lao, Burmese, Khmer: no spaces between words, several code points to a syllable."""
_HAN_BLOCKS = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

UNSEGMENTED = re.compile(f"[{_BIGRAM_BLOCKS}{_SYLLABLE_BLOCKS}]")
PIECES = re.compile(
    f"(?P<bigrams>[{_BIGRAM_BLOCKS}]+)|(?P<syllables>[{_SYLLABLE_BLOCKS}]+)|[^{_BIGRAM_BLOCKS}{_SYLLABLE_BLOCKS}]+"
)
HAN = re.compile(f"[{_HAN_BLOCKS}]")

LATIN = "Latin"
_STEMMED_SCRIPTS = {
    "Greek": ("\u0370-\u03ff\u1f00-\u1fff", "greek"),
    "Cyrillic": ("\u0400-\u052f", "russian"),
    "Armenian": ("\u0531-\u058f", "armenian"),
    "Hebrew": ("\u0590-\u05ff", "none"),
    "Arabic": ("\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff", "arabic"),
    "Devanagari": ("\u0900-\u097f", "hindi"),
    "Tamil": ("\u0b80-\u0bff", "tamil"),
}
"""Script -> (its blocks, the stemmer of its most written language)."""
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
"""Language -> its scripts, for languages not written in Latin letters alone."""
_SCRIPT_OF = re.compile("|".join(f"(?P<{name}>[{blocks}])" for name, (blocks, _) in _STEMMED_SCRIPTS.items()))


def script_of(word: str) -> str:
    """The script of the word's first letter from _STEMMED_SCRIPTS; "Latin" if it has none."""
    found = _SCRIPT_OF.search(word)
    return LATIN if found is None or found.lastgroup is None else found.lastgroup


def stemmers_by_script(language: str) -> dict[str, str]:
    """Script -> Snowball language: `language` for its own script, each other script its most written language.

    So a store whose language is English still finds inflected Russian or Arabic. "none" stems nothing anywhere.
    """
    if language == "none":
        return {}
    table = {LATIN: "english", **{name: stemmer for name, (_, stemmer) in _STEMMED_SCRIPTS.items()}}
    table.update(dict.fromkeys(_LANGUAGE_SCRIPTS.get(language, (LATIN,)), language))
    return {script: stemmer for script, stemmer in table.items() if stemmer != "none"}


@lru_cache(maxsize=1)
def combining_marks() -> str:
    """Every combining mark and joiner as ranges for a character class of `re`.

    `re` does not count them as word characters, so `\\w+` alone would cut Hindi, Thai and pointed Arabic inside words.
    """
    marks = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    ranges: list[list[int]] = []
    for code in sorted([*marks, 0x200C, 0x200D]):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
