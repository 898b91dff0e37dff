"""Follow-up questions, such as "and when does it expire?": they name their subject only in the messages before them."""

from __future__ import annotations

import re
from collections.abc import Sequence

MESSAGES = 2
"""Number of messages before a follow-up question that are searched with it: a question and its answer. nDCG@10 on all
of MTRAG: 0.746 with none, 0.783 with one, 0.784 with two, 0.780 with three or four."""
MESSAGE_CHARACTERS = 400
"""Number of characters at the beginning of a message that are searched; more do not improve the results."""
FOLLOW_UP_CHARACTERS = 300
"""Largest number of characters of a follow-up question; a longer query names its own subject."""

_ROLE = re.compile(r"\A(?:human|ai|user|assistant|chatbot|model|chat): ")
"""The role of a message's author as the adapters write it before the text, for the LLM; it is not searched."""
_NOT_SAID = re.compile(r"(?:system|developer|tool|function|remove): |(?:\w+: )?\s*\Z")
"""A message that is not searched: what a program or a tool wrote, or one without text, such as a call of a tool."""
_WORD = re.compile(r"[\w'\u2019]+")
_REFERRING = frozenset(
    {"it", "its", "they", "them", "their", "theirs", "he", "him", "his", "she", "her", "hers"}
    | {"this", "these", "those", "there", "one", "ones", "both", "same", "such", "another", "else", "others"}
)
"""Words that refer to something in an earlier message."""
_REFERRING_WITHIN = 8
"""Number of words at the beginning of a query that are searched for a referring word: a later one mostly refers to
something in the query itself ("my last name before I changed it")."""
_LEADING = re.compile(
    r"(?:and|but|also|so|then|or|(?:what|how) about|what else|tell me more|more|elaborate)\b|why\W*$", re.I
)
"""Words with which a question continues the one before it."""
_REFERRING_ELSEWHERE = frozenset(
    (  # noqa: SIM905 a list would take sixty lines
        "sie ihn ihm deren dessen davon dafür diese diesem diesen dieser dieses elle elles ils celui celle ceux celles "
        "ça cela él ella ellos ellas eso esto hij hem daarvan ermee ervan ele ela eles elas isso isto jego niego nim "
        "niej nich он она оно они его её ее их ему ей им ним ней них это onu onun bunu bunun"
    ).split()
)
"""`_REFERRING` of other languages, without words that are articles or prepositions in one of them."""
_REFERRING_QUERY_WORDS = 6
"""Largest number of words of a query that a word of `_REFERRING_ELSEWHERE` makes a follow-up question. With this limit,
3 of XQuAD's 7,140 questions in six languages count as follow-up questions. With `_REFERRING`, which has another limit,
4 % of the English ones do."""
_QUESTION_WORDS = (
    "wat wanneer hoe hoeveel waar welke voor kiedy jak gdzie ile czy dla quando come quanto dove per como onde para "
    "quand comment combien où pour qui hvad hvornår hvordan hvor hva når vad när hur för for mikor hogyan mennyi"
).replace(" ", "|")
_LEADING_ELSEWHERE = re.compile(
    r"[¿¡\s]*(?:(?:und|aber|was ist mit|et|qu'en est-il|y(?! a\b| aura| avait)|y a qué|pero|qué tal|qué pasa con"
    r"|maar|peki|ve|και|а|и|но|और|그리고|그럼|그러면)\s"
    rf"|(?:a|ale|e|en|és|i|ma|mais|mas|och|og)\s(?:{_QUESTION_WORDS})\b|e (?:a|por|se)\b"
    r"|و(?:ما|ماذا|متى|كم|كيف|أين|هل|لماذا)\b"
    r"|那么|那.+呢|それは|では、|じゃあ"
    r"|(?:warum|wieso|pourquoi|por qué|perché|waarom|por que|dlaczego|почему|neden)\W*$)",
    re.IGNORECASE,
)
"""`_LEADING` of other languages. A word that means something else in another language counts only before a question
word or "for": "en" is "and" in Dutch, but "in" in French."""


def follow_up(query: str, history: Sequence[str]) -> str | None:
    """The last MESSAGES messages of user and model, and then the query, each on a line; None if the query is no
    follow-up question.

    A query in English is a follow-up question if one of its first words refers to something ("it", "they", "there"), or
    if it begins as a continuation ("what about", "and"); but not if a word after its first begins with a capital
    letter, except "I". A query in another language is one if it begins as a continuation ("und", "¿y"), even with
    capital letters, because German nouns have them; or if it is short, has no capital letters after the first word, and
    one of its words refers to something.

    Args:
        history: Earlier messages of the conversation, oldest first. A message that equals the query is left out: the
            messages of an agent's state end with the question.
    """
    messages = [_ROLE.sub("", message) for message in history if not _NOT_SAID.match(message)]
    said = [message for message in messages if message.strip() != query.strip()][-MESSAGES:]
    if not said or len(query) > FOLLOW_UP_CHARACTERS:
        return None
    plain = query.replace("\u2019", "'").strip()
    words = [word.partition("'")[0] for word in _WORD.findall(plain)]  # "it's": "it"
    names = any(word[:1].isupper() and word != "I" for word in words[1:])
    first = {word.lower() for word in words[:_REFERRING_WITHIN]}
    refers = first & _REFERRING or (len(words) <= _REFERRING_QUERY_WORDS and first & _REFERRING_ELSEWHERE)
    continues = (not names and (refers or _LEADING.match(plain))) or _LEADING_ELSEWHERE.match(plain)
    if not continues:
        return None
    return "\n".join([*(message[:MESSAGE_CHARACTERS] for message in said), query])
