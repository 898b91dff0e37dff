"""Find the words of a query in texts: side by side (a phrase), or anywhere in a text, but all of them (keywords).

The phrases of a query are those in quotation marks. A query of few words without quotation marks is one phrase, without
the function words at its start and end ("what is Harrow v Lindqvist").

A text of words, below, is `spaced(words_in(text))`: its words in lower case, with one space before, between and after
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from umi_common.pool import Floats
from umi_common.search.reorder.words import (
    DIGITS,
    PARTS_MAX,
    content_words,
    held_early,
    spaced,
    with_plain_signs,
    words_in,
)
from umi_common.stores.lexical.languages import all_function_words

PHRASE_WORDS_MAX = 8
"""Largest number of words of a query that is looked up as a whole, and of a query that has keywords."""
KEYWORDS_MAX = 6
"""Largest number of keywords of a query whose keywords are looked up."""
CONTENT_MIN = 3
"""Smallest number of words, function words aside, of a query that is looked up without its function words."""
ENDING = 3
"""Largest number of letters that may follow a keyword in a word of a text: "task" finds "tasks", and "sign" does not
find "signature"."""
TEXT_CHARACTERS = 100_000
"""Number of characters at the beginning of a text that are read for phrases and keywords. Reading so many takes some
3 ms; a whole book has more."""
QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]")
"""A phrase in quotation marks."""


def phrases_in(query: str) -> tuple[list[str], bool]:
    """(phrases, quoted): the phrases of a query that have at least two words, and whether quotation marks mark them."""
    quoted = QUOTED.findall(query)
    subject = query.split()
    content = [at for at, word in enumerate(subject) if not all_function_words().issuperset(words_in(word))]
    if len(content) > 1:
        subject = subject[content[0] : content[-1] + 1]
    whole = [" ".join(subject)] if len(subject) <= PHRASE_WORDS_MAX else []
    phrases = [words for words in map(words_in, quoted or whole) if len(words) > 1]
    return list(map(spaced, phrases))[:PARTS_MAX], bool(quoted)


def content_phrase_in(query: str) -> str:
    """The words of a query without its function words, as one phrase: "true if object is data descriptor" finds "true
    if the object is a data descriptor". "" for fewer than `CONTENT_MIN` or more than `PHRASE_WORDS_MAX` words."""
    words = content_words(query)
    return spaced(words) if CONTENT_MIN <= len(words) <= PHRASE_WORDS_MAX else ""


def keywords_in(query: str, *, among_function_words: bool) -> list[str]:
    """The keywords of a query: its distinct words without function words.

    There are none if the query has a digit, more than `PHRASE_WORDS_MAX` words, or fewer than 2 or more than
    `KEYWORDS_MAX` keywords.

    Args:
        among_function_words: Whether the query may have function words; if False, a query with one has no keywords.
    """
    if len(query.split()) > PHRASE_WORDS_MAX or DIGITS.search(query):
        return []
    words = list(dict.fromkeys(words_in(query)))
    content = [word for word in words if word not in all_function_words()]
    found = content if among_function_words or content == words else []
    return found if 1 < len(found) <= KEYWORDS_MAX else []


def words_if_any(text: str, wanted: Sequence[Sequence[str]]) -> str:
    """The text of words of a text; mostly "" if each list in `wanted` has a word that the text lacks."""
    if not wanted:
        return ""
    text = text[:TEXT_CHARACTERS]
    searched = text.lower()
    if not text.isascii():  # faster than `words_in` of the text, which is mostly ASCII
        plain = with_plain_signs(text)
        others = " ".join([part for part in plain.split() if not part.isascii()])
        searched = " ".join([plain.lower(), *words_in(others)])
    for words in wanted:
        if all(map(searched.__contains__, words)):
            return spaced(words_in(text))
    return ""


def phrases_held(texts: Sequence[str], phrases: Sequence[str]) -> Floats:
    """(n, P) `earlier_first` of 1 - offset / length of the text for P phrases in n texts of words; 0: the text lacks
    the phrase."""
    return held_early(texts, phrases, _by_offset)


def content_phrase_held(texts: Sequence[str], phrase: str) -> Floats:
    """(n, 1) `phrases_held` of a phrase without function words, in n texts of words without their function words."""
    function_words = all_function_words()
    words = [f" {word} " for word in phrase.split()]
    texts = [text if all(map(text.__contains__, words)) else "" for text in texts]  # few texts hold all of them
    content = [spaced([word for word in text.split() if word not in function_words]) if text else "" for text in texts]
    return phrases_held(content, [phrase])


def _by_offset(words: str, phrase: str) -> float:
    at = words.find(phrase)
    return 0.0 if at < 0 else 1 - at / len(words)


def holds_all(words: str, keywords: Sequence[str]) -> bool:
    """Whether a text of words holds each keyword, followed by at most `ENDING` more letters."""
    return all(_begins_a_word(words, keyword) for keyword in keywords)


def _begins_a_word(words: str, keyword: str) -> bool:
    at = words.find(f" {keyword}")
    while at >= 0:
        end = words.index(" ", at + 1)
        if end <= at + 1 + len(keyword) + ENDING:
            return True
        at = words.find(f" {keyword}", end)
    return False
