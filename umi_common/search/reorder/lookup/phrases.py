"""Words of a query that a text holds side by side (a phrase), or all of them anywhere (keywords).

A phrase is what the query has in quotation marks; without any, it is a query of few words, without the function words
around it ("what is Harrow v Lindqvist").

Words are compared in the form of `spaced(words_in(text))`: in lower case, with one space before, between and after
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from umi_common.pool import Floats
from umi_common.search.reorder.words import DIGITS, PARTS_MAX, content_words, spaced, words_in
from umi_common.stores.lexical.languages import all_function_words

PHRASE_WORDS_MAX = 8
"""Largest number of words of a query that is looked up as a whole, and of a query that has keywords."""
KEYWORDS_MAX = 6
"""Largest number of keywords of a query whose keywords are looked up."""
CONTENT_MIN = 3
"""Smallest number of words, function words aside, of a query whose words are sought side by side."""
ENDING = 3
"""Largest number of letters that may follow a keyword in a word of a text: "task" finds "tasks", and "sign" does not
find "signature"."""
TEXT_CHARACTERS = 100_000
"""Number of characters at the beginning of a text that are read for phrases and keywords. Reading so many takes some
3 ms; a whole book has more."""
QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]")
"""A phrase in quotation marks."""


def phrases_in(query: str) -> tuple[list[str], bool]:
    """(phrases, quoted): the phrases of at least two words of a query, and whether they stand in quotation marks."""
    phrases = QUOTED.findall(query)
    quoted = bool(phrases)
    if not quoted:
        subject = _without_outer_function_words(query)
        phrases = [subject] if len(subject.split()) <= PHRASE_WORDS_MAX else []
    words = filter(lambda each: len(each) > 1, map(words_in, phrases))
    return list(map(spaced, words))[:PARTS_MAX], quoted


def _without_outer_function_words(query: str) -> str:
    """A query without the function words at its start and end; the whole query if it has fewer than two other words."""
    words = query.split()
    content = [at for at, word in enumerate(words) if not all_function_words().issuperset(words_in(word))]
    return " ".join(words[content[0] : content[-1] + 1]) if len(content) > 1 else query


def content_phrase_in(query: str) -> str:
    """The phrase of all words of a query without its function words: "true if object is data descriptor" finds "true if
    the object is a data descriptor". "" if they are fewer than `CONTENT_MIN` or more than `PHRASE_WORDS_MAX`."""
    words = content_words(query)
    return spaced(words) if CONTENT_MIN <= len(words) <= PHRASE_WORDS_MAX else ""


def keywords_in(query: str, *, among_function_words: bool) -> list[str]:
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


def words_if_any(text: str, wanted: Sequence[Sequence[str]]) -> str:
    """The words of a text; "" if a quick test shows that no list of words in `wanted` can be in the text as a whole."""
    text = text[:TEXT_CHARACTERS]
    if text.isascii():  # most texts are ASCII, and this test is faster than `words_in`
        lower = text.lower()
        wanted = [each for each in wanted if all(word in lower for word in each)]
    return spaced(words_in(text)) if wanted else ""


def phrases_held(texts: Sequence[str], phrases: Sequence[str]) -> Floats:
    """(n, P) 1 - offset / length of the text for P phrases in n texts of words; 0: the text lacks the phrase."""
    return np.array([[_by_offset(text, phrase) for phrase in phrases] for text in texts])


def content_phrase_held(texts: Sequence[str], phrase: str) -> Floats:
    """(n, 1) `phrases_held` of a phrase without function words in n texts of words, from which these are removed."""
    function_words = all_function_words()
    content = [spaced([word for word in text.split() if word not in function_words]) if text else "" for text in texts]
    return phrases_held(content, [phrase])


def keywords_held(texts: Sequence[str], keywords: Sequence[str]) -> Floats:
    """(n, 1) 1 where a text of words holds every keyword, else 0."""
    return np.array([[float(holds_all(text, keywords))] for text in texts])


def _by_offset(words: str, phrase: str) -> float:
    at = words.find(phrase)
    return 0.0 if at < 0 else 1 - at / len(words)


def holds_all(words: str, keywords: Sequence[str]) -> bool:
    """Whether the words of a text hold each keyword, followed by at most `ENDING` more letters."""
    return all(_begins_a_word(words, keyword) for keyword in keywords)


def _begins_a_word(words: str, keyword: str) -> bool:
    at = words.find(f" {keyword}")
    while at >= 0:
        end = words.index(" ", at + 1)
        if end <= at + 1 + len(keyword) + ENDING:
            return True
        at = words.find(f" {keyword}", end)
    return False
