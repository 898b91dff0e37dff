"""Texts of strangers on a screen: nothing in them acts, everything in them can be seen, the query's words stand out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from html import escape

from umi_common.config import AnalyzerConfig
from umi_common.store import scripts
from umi_common.store.analyzer import Analyzer
from umi_common.types import SearchResult

SNIPPET_CHARACTERS = 160
EXCERPT_CHARACTERS = 320
LEAD_CHARACTERS = 60
"""What an excerpt shows before the first word of the query."""
WORD_MAX = 64
"""A longer run of letters is no word; it is shown and not analysed."""
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a about an and are as at be but by can did do does for from had has have he how i in is it its me my of on or "
        "our s she so t that the their them there they this to us was we were what when where which who whom whose why "
        "will with you your",
    )
)
"""Found everywhere; marking them hides the words that decide. English, as the default analyzer."""

_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Terminal escapes, other controls, and what turns the direction of the text after it."""
_WORD = re.compile(r"\w+")

Span = tuple[int, int]


def visible(text: str) -> str:
    """The text with control characters and direction overrides written out, like ⟨U+202E⟩."""
    return _ACTING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def snippet(text: str, characters: int = SNIPPET_CHARACTERS) -> str:
    """The text on one line, cut at a word to at most `characters` and an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    cut = line[:characters]
    return (cut.rsplit(" ", 1)[0] if " " in cut[characters // 2 :] else cut) + " …"


def query_terms(result: SearchResult) -> frozenset[str]:
    """Terms of the query and its variations, without function words where others are left."""
    words = [word for text in (result.query, *result.query_variations) for word in _WORD.findall(text.lower())]
    telling = [word for word in words if word not in FUNCTION_WORDS]
    return frozenset(_analyzer().terms(" ".join(telling if telling else words)))


def spans_of(text: str, terms: Collection[str]) -> list[Span]:
    """Where the words of `text` stand that have one of the terms; rising, none overlapping."""
    spans: list[Span] = []
    wanted, analyse = frozenset(terms), _analyzer().terms
    for word in _WORD.finditer(text):
        if scripts.UNSEGMENTED.search(word[0]) is not None:
            spans += _runs_of(word[0], word.start(), terms)
        elif len(word[0]) <= WORD_MAX and not wanted.isdisjoint(analyse(word[0])):
            spans.append(word.span())
    return spans


def _runs_of(run: str, start: int, terms: Iterable[str]) -> list[Span]:
    """In a run of characters without spaces: the stretches that terms cover."""
    covered = [False] * len(run)
    for term in terms:
        at = run.find(term)
        while at >= 0:
            covered[at : at + len(term)] = [True] * len(term)
            at = run.find(term, at + 1)
    flags = "".join("x" if flag else " " for flag in covered)
    return [(start + found.start(), start + found.end()) for found in re.finditer("x+", flags)]


def marked(text: str, terms: Collection[str]) -> str:
    """The text as HTML, the query's words in <mark>; all else escaped."""
    shown = visible(text)
    pieces, at = [], 0
    for start, end in spans_of(shown, terms):
        pieces += [escape(shown[at:start]), f"<mark>{escape(shown[start:end])}</mark>"]
        at = end
    return "".join([*pieces, escape(shown[at:])])


def plain(text: str) -> str:
    """The text as HTML; all of it escaped."""
    return escape(visible(text))


def excerpt(text: str, terms: Collection[str], characters: int = EXCERPT_CHARACTERS) -> str:
    """At most `characters` of a text on one line, beginning a little before the first of the terms if it comes late."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    first = next((start for start, _ in spans_of(line, terms)), 0)
    if first < characters * 2 // 3:
        return snippet(line, characters)
    start = first - LEAD_CHARACTERS
    space = line.find(" ", start, first)
    return "… " + snippet(line[start if space < 0 else space + 1 :], characters)


@lru_cache(maxsize=1)
def _analyzer() -> Analyzer:
    return Analyzer(AnalyzerConfig())
