"""Does a period say when the record was made, or is it part of what the record tells?"""

from __future__ import annotations

import re
from typing import Literal

from umi_common.query.time.spans import Period

Kind = Literal["explicit", "fuzzy"]

_PREPOSITION = r"(?:in|on|at|of|from|during|since|before|after|until|till|between|by|over|for)"
_RECORD = (
    r"(?:messages?|chats?|conversations?|discussions?|notes?|e-?mails?|sessions?|entry|entries|logs?|documents?|files?"
    r"|posts?|transcripts?|threads?|records?|memories|articles?|reports?|letters?|tweets?|commits?|comments?)"
)
_TOLD = (
    r"(?:sa(?:y|id)|tell|told|mention(?:ed)?|discuss(?:ed)?|talk(?:ed)?|spoke|cha(?:t|tted)|ask(?:ed)?|wr(?:ite|ote|itten)"
    r"|noted?|record(?:ed)?|log(?:ged)?|sent|send|posted?|dated|created|saved|published)"
)
_SCOPE_BEFORE = re.compile(
    rf"\b(?:{_RECORD}|{_TOLD}(?:\s{{1,3}}(?:me|you|us|him|her|them|it|this|that|about|to|with|of)){{0,3}})"
    rf"(?:\s{{1,3}}(?:{_PREPOSITION}|dated|sent|written|posted|recorded|created|we\s{{1,3}}had|i\s{{1,3}}had)){{0,2}}"
    r"(?:\s{1,3}the)?\s{0,3}$",
    re.I,
)
_SCOPE_AFTER = re.compile(rf"(?:['\u2019]s)?\s{{1,3}}{_RECORD}\b", re.I)
SCOPE_REACH = 80
"""Characters before a period that are read for what it scopes."""


def kind_of(query: str, start: int, end: int, period: Period) -> Kind:
    """ "explicit" where the period, query[start:end], stands right beside the word for what was said or written then.

    "What did I say yesterday" is explicit; "what did I say about the party yesterday" is not: the party may be meant.
    """
    if period.vague:
        return "fuzzy"
    before = _SCOPE_BEFORE.search(query, max(0, start - SCOPE_REACH), start)
    after = _SCOPE_AFTER.match(query, end)
    return "explicit" if before is not None or after is not None else "fuzzy"
