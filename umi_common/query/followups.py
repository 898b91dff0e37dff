"""Follow-up questions, such as "and when does it expire?": they name their subject only in the messages before them."""

from __future__ import annotations

import re
from collections.abc import Sequence

MESSAGES = 2
"""Number of messages before a follow-up question that are searched with it: a question and its answer. nDCG@10 on all
of MTRAG: 0.746 with none, 0.783 with one, 0.784 with two, 0.780 with three or four."""
MESSAGE_CHARACTERS = 400
"""Number of characters at the beginning of a message that are searched; with more the results were no better."""
FOLLOW_UP_CHARACTERS = 300
"""Largest number of characters of a follow-up question; a longer query names its own subject."""
ROLE = re.compile(r"\A(?:human|ai|user|assistant|system|developer|tool|function|chatbot|model|chat): ")
"""The role of a message's author as the adapters write it before the text, for the LLM; it is not searched."""

_WORD = re.compile(r"[\w'\u2019]+")
_REFERRING = frozenset(
    {"it", "its", "they", "them", "their", "theirs", "he", "him", "his", "she", "her", "hers"}
    | {"this", "these", "those", "there", "one", "ones", "both", "same", "such", "another", "else", "others"}
)
"""Words that refer to something that was said before."""
_REFERRING_WITHIN = 8
"""Number of words at the beginning of a query that are searched for a referring word: a later one mostly refers to
something in the query itself ("my last name before I changed it")."""
_LEADING = re.compile(
    r"(?:and|but|also|so|then|or|(?:what|how) about|what else|tell me more|more|elaborate)\b|why\W*$", re.I
)
"""Words with which a question continues the one before it."""


def follow_up(query: str, history: Sequence[str]) -> str | None:
    """The last MESSAGES messages and then the query, each on a line; None if the query is no follow-up question.

    It is one if both are true: one of its first words refers to something ("it", "they", "there"), or it begins as a
    continuation ("what about", "and"); and no word after its first begins with a capital letter, except "I". Only
    English is recognised.

    Args:
        history: Earlier messages of the conversation, oldest first.
    """
    if not history or len(query) > FOLLOW_UP_CHARACTERS:
        return None
    words = [word.partition("'")[0] for word in _WORD.findall(query.replace("\u2019", "'"))]  # "it's": "it"
    names = any(word[:1].isupper() and word != "I" for word in words[1:])
    refers = not _REFERRING.isdisjoint(word.lower() for word in words[:_REFERRING_WITHIN])
    if names or not (refers or _LEADING.match(query.strip())):
        return None
    return "\n".join([*(message[:MESSAGE_CHARACTERS] for message in history[-MESSAGES:]), query])
