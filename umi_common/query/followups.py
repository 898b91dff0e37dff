"""Follow-up questions, such as "and when does it expire?", whose subject is named only in an earlier message."""

from __future__ import annotations

import re
from collections.abc import Sequence

MESSAGES = 2
"""Number of earlier messages that are searched with a follow-up question: the previous question and its answer. nDCG@10
on MTRAG is 0.784 with two, 0.746 with none and 0.780 with three."""
MESSAGE_CHARACTERS = 400
"""An earlier message is cut to this number of characters; more do not improve the results."""
FOLLOW_UP_CHARACTERS = 300
"""Largest number of characters of a follow-up question; a longer query names its own subject."""

_ROLE = re.compile(r"\A(?:human|ai|user|assistant|chatbot|model|chat): ")
"""The role of a message's author, such as "human: ". The adapters write it before the text of a message, for the LLM
that rewrites queries. It is removed before the message is searched."""
_NOT_SEARCHED = re.compile(r"(?:system|developer|tool|function|remove): |(?:\w+: )?\s*\Z")
"""Matches a message that is not searched: instructions to the model (system, developer), the result of a tool, a marker
that removes an earlier message, or a message without text, such as a tool call."""
_WORD = re.compile(r"[\w'\u2019]+")
_REFERRING = frozenset(
    {"it", "its", "they", "them", "their", "theirs", "he", "him", "his", "she", "her", "hers"}
    | {"this", "these", "those", "there", "one", "ones", "both", "same", "such", "another", "else", "others"}
)
"""Words that refer to something in an earlier message."""
_REFERRING_WITHIN = 8
"""A word of `_REFERRING` counts only among this number of first words. Later ones mostly refer to something in the
query itself ("my last name before I changed it")."""
_LEADING = re.compile(
    r"(?:and|but|also|so|then|or|(?:what|how) about|what else|tell me more|more|elaborate)\b|why\W*$", re.I
)
"""Words at the beginning of a question that continue the question before it."""
_REFERRING_ELSEWHERE = frozenset(
    (  # noqa: SIM905 a list would take sixty lines
        "sie ihn ihm deren dessen davon dafür diese diesem diesen dieser dieses elle elles ils celui celle ceux celles "
        "ça cela él ella ellos ellas eso esto hij hem daarvan ermee ervan ele ela eles elas isso isto jego niego nim "
        "niej nich он она оно они его её ее их ему ей им ним ней них это onu onun bunu bunun"
    ).split()
)
"""As `_REFERRING`, in other languages; without words that are an article or a preposition in one of the languages."""
_REFERRING_QUERY_WORDS = 6
"""A word of `_REFERRING_ELSEWHERE` counts only in a query of at most this number of words. XQuAD has no follow-up
questions; with this limit, `follow_up` takes 3 of its 7,140 questions in six languages for follow-up questions."""
_QUESTION_WORDS = (
    "wat wanneer hoe hoeveel waar welke voor kiedy jak gdzie ile czy dla quando come quanto dove per como onde para "
    "quand comment combien où pour qui hvad hvornår hvordan hvor hva når vad när hur för for mikor hogyan mennyi"
).replace(" ", "|")
"""Question words, and words for "for", of Dutch, Polish, Italian, Portuguese, French, the Scandinavian languages and
Hungarian. They show that a short word before them, such as "en", is "and" or "but" in one of these languages."""
_LEADING_ELSEWHERE = re.compile(
    r"[¿¡\s]*(?:(?:und|aber|was ist mit|et|qu'en est-il|y(?! a\b| aura| avait)|y a qué|pero|qué tal|qué pasa con"
    r"|maar|peki|ve|και|а|и|но|और|그리고|그럼|그러면)\s"
    rf"|(?:a|ale|e|en|és|i|ma|mais|mas|och|og)\s(?:{_QUESTION_WORDS})\b|e (?:a|por|se)\b"
    r"|و(?:ما|ماذا|متى|كم|كيف|أين|هل|لماذا)\b"
    r"|那么|那.+呢|それは|では、|じゃあ"
    r"|(?:warum|wieso|pourquoi|por qué|perché|waarom|por que|dlaczego|почему|neden)\W*$)",
    re.IGNORECASE,
)
"""As `_LEADING`, in other languages:

- Words for "and", "but" and "what about" that count before any word: German, French, Spanish, Dutch ("maar"), Turkish,
  Russian and Korean ones. "et" and "ve" count although they are an article in Danish and "in" in Czech. Of "y", "and"
  in Spanish, the French uses are left out, such as "y a-t-il".
- Words that mean something else in another language, and count only before a word of `_QUESTION_WORDS`: "en" is "and"
  in Dutch, but "in" in French. The Portuguese "e" also counts before "a", "por" and "se".
- Arabic, Chinese and Japanese words; in Arabic "and" is a prefix of the question word.
- "Why?" as the whole question.
"""


def follow_up(query: str, history: Sequence[str]) -> str | None:
    """The last MESSAGES messages of user and model, each cut to MESSAGE_CHARACTERS, and then the query, joined by line
    breaks.

    None if there is no earlier message, or the query is no follow-up question. A query of at most FOLLOW_UP_CHARACTERS
    is one in each of these cases:

    - The query contains no name and begins with an English word of continuation, such as "and" or "what about".
    - It contains no name, and one of its first words refers to something ("it", "they", "there"). Words of other
      languages than English count only in a short query.
    - It begins with a word of continuation in another language, such as "und". It may contain a name, because German
      nouns look like names.

    A name is a word after the first that begins with a capital letter, except "I".

    Args:
        history: Earlier messages of the conversation, oldest first. Every message that equals the query is left out,
            because the messages of an agent's state end with the question itself.
    """
    messages = [_ROLE.sub("", message) for message in history if not _NOT_SEARCHED.match(message)]
    earlier = [message for message in messages if message.strip() != query.strip()][-MESSAGES:]
    if not earlier or len(query) > FOLLOW_UP_CHARACTERS:
        return None
    plain = query.replace("\u2019", "'").strip()
    words = [word.partition("'")[0] for word in _WORD.findall(plain)]  # "it's": "it"
    has_name = any(word[:1].isupper() and word != "I" for word in words[1:])
    first = {word.lower() for word in words[:_REFERRING_WITHIN]}
    is_short = len(words) <= _REFERRING_QUERY_WORDS
    refers = not first.isdisjoint(_REFERRING) or (is_short and not first.isdisjoint(_REFERRING_ELSEWHERE))
    continues = not has_name and (refers or _LEADING.match(plain))
    if not (continues or _LEADING_ELSEWHERE.match(plain)):
        return None
    return "\n".join([*(message[:MESSAGE_CHARACTERS] for message in earlier), query])
