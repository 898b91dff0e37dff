"""The questions of a query that holds more than one question alone: two questions, or a mail or code and a question.

Each is searched as a variation of the query, too. Else the words around a question decide what is found, and of two
questions the one with the rarer words gets all places. Measured in docs/decisions.md.
"""

from __future__ import annotations

import re

from umi_common.query.frames import FRAME, is_without_subject, without_frame

QUESTIONS_MAX = 3
"""Largest number of questions that are searched, the last ones of a query."""
QUESTION_WORDS_MIN = 3
"""Smallest number of words of a question that is searched."""
WHOLE_SHARE = 0.8
"""A single question with a larger share of the query's words is the query itself."""

_ASKS = re.compile(r"(?:(?:by|for|from|in|on|of|to|with) )?(?:who|whom|whose|what|when|where|why|how|which)\b", re.I)
_AND = re.compile(rf",? and (?:also )?(?={_ASKS.pattern})", re.IGNORECASE)
"""Between two questions of one sentence."""
_SENTENCE = re.compile(r"(?<=[?!])\s+|(?<=[^\W_]{3}\.)\s+(?=[^\W\d_a-z])|(?<=[^\W\d_]):\s+|\n+|`{2,}")
"""Between two sentences. "Dr. Lee" and "No. 5" are none."""
_WORD = re.compile(r"[^\W_]+")
_NUMBERING = re.compile(r"^[\W_]*(?:\d{1,2}[.)]\s+)?[\W_]*")
_MARKED = re.compile(r"\?[\"')*\s]*$")
_FAVOUR = re.compile(r"(?:could|would|will) (?:you|someone|anyone|somebody|anybody)\b", re.IGNORECASE)


def questions_of(query: str) -> tuple[str, ...]:
    """The last `QUESTIONS_MAX` questions of a query without their frames, in its order; none if it is one question.

    A question is a sentence that ends in a question mark, or, where there is no question mark, one that begins with a
    question word. Both halves of "when ... and where ...?" are questions. A favour, "could you have a look?", is none.
    """
    marked = "?" in query
    questions: list[str] = []
    for sentence in map(_without_numbering, _SENTENCE.split(query)):
        if _MARKED.search(sentence) if marked else _ASKS.match(sentence):
            halves = _AND.split(sentence)
            questions += halves if min(map(_count, halves)) > QUESTION_WORDS_MIN else [sentence]
    distinct = list(dict.fromkeys(map(without_frame, questions)))
    asked = [each for each in distinct if _count(each) >= QUESTION_WORDS_MIN and _has_subject(each)]
    if len(asked) == 1 and _count(asked[0]) > WHOLE_SHARE * _count(query):
        return ()
    return tuple(asked[-QUESTIONS_MAX:])


def _has_subject(question: str) -> bool:
    """Whether it is no favour, and holds more than function words and words of a frame, unlike "Can you clarify?"."""
    return not _FAVOUR.match(question) and not is_without_subject(
        [word for word in _WORD.findall(question.lower()) if word not in FRAME]
    )


def _without_numbering(sentence: str) -> str:
    return _NUMBERING.sub("", sentence)


def _count(text: str) -> int:
    return len(text.split())
