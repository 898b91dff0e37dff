"""Follow-up questions: "and when does it expire?" says what it asks for only after the messages before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

MESSAGES = 2
"""Number of messages before a follow-up question that are searched with it: a question and its answer. Measured on
MTRAG, all of them: nDCG@10 0.783 with one, 0.784 with two, 0.780 with three or four; 0.746 without."""
MESSAGE_CHARACTERS = 400
"""Largest number of characters of one message that are searched: its beginning. Longer ones gained nothing."""
FOLLOW_UP_CHARACTERS = 300
"""A longer query is no follow-up question: it says itself what it is about."""

_WORD = re.compile(r"[\w'\u2019]+")
_REFERRING = frozenset(
    {"it", "its", "they", "them", "their", "theirs", "he", "him", "his", "she", "her", "hers"}
    | {"this", "these", "those", "there", "one", "ones", "both", "same", "such", "another", "else", "others"}
)
"""Words that stand for something said before."""
_REFERRING_WITHIN = 8
"""Number of words at the beginning of a query among which such a word counts: a later one mostly stands for something
that the query itself says ("my last name before I changed it")."""
_LEADING = re.compile(
    r"(?:and|but|also|so|then|or|(?:what|how) about|what else|tell me more|more|elaborate)\b|why\W*$", re.I
)
"""Words with which a question continues the one before it."""


def follow_up(query: str, history: Sequence[str]) -> str | None:
    """The query after the last MESSAGES messages, one a line; None if it says itself what it is about.

    It is a follow-up if one of its first words stands for something else ("it", "they", "there"), or if it begins as a
    continuation ("what about", "and"), and names nothing: no word after its first begins with a capital letter. In
    other languages than English none is recognised.

    Args:
        history: Earlier messages of the conversation, oldest first.
    """
    if not history or len(query) > FOLLOW_UP_CHARACTERS:
        return None
    words = _WORD.findall(query)
    names = any(word[0].isupper() and word.partition("'")[0] != "I" for word in words[1:])
    refers = not _REFERRING.isdisjoint(word.lower() for word in words[:_REFERRING_WITHIN])
    if names or not (refers or _LEADING.match(query.strip())):
        return None
    return "\n".join([*(message[:MESSAGE_CHARACTERS] for message in history[-MESSAGES:]), query])
