"""Remove the words of a query that only ask for a text: "can you tell me about X", "Hi, ... thanks a lot!".

Answers rarely hold these words. With them, BM25 searches for rare words that no right text holds, the query's vector
moves towards texts that ask and thank, and a short query is too long to be looked up verbatim
(`search.reorder.lookup`).

The frame of a query is a run of words of `FRAME` at its start. It ends after the last word for which a row of `ENDINGS`
holds, or before the first word of the subject (`_begins_subject`). "Document number" has no frame. In comments and
examples, "|" marks the end of a frame.

Questions about past conversations also hold words that the messages rarely hold: "what did you say about Rome", "which
vet did I mention a while ago". Measured in docs/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from umi_common.query.routing import FUNCTION_WORDS, PRONOUNS, QUESTION_WORDS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


QUESTIONING = QUESTION_WORDS | _words("which whom whose")
FIND = _words("find know remember")
EXPLAIN = _words("clarify describe explain locate provide recall summarise summarize")
GIVE = _words("get give hear help inform learn let read remind see send show tell")
SEARCH = _words("look looking search searching")
TEXT = _words(
    "anything article articles detail details doc docs document documents everything info information material "
    "page pages paper papers passage passages something text texts"
)
SAY = _words(
    "contain contains containing cover covers covering deal deals dealing describes describing discuss discusses "
    "discussing explains explaining mention mentions mentioned mentioning reports reporting said say says saying speak "
    "speaks state states stating talk talks talking"
)
MOOD = _words("curious interested question wondering")
ASKING = FIND | EXPLAIN | SEARCH | GIVE | TEXT | SAY | MOOD
"""Words that ask, or name what is asked for."""
ABOUT = _words("about concerning regarding")
LINKS = _words("for if in into of on through to up whether with")
"""Words between the asking words and the subject: "information on", "interested in", "talks of"."""
TAKES_LINK = SEARCH | TEXT | MOOD
"""Words that a word of `LINKS` may follow."""
THAT = _words("that where which")
POLITE = _words("kindly please pls plz")
GREETING = _words("hello hey hi sorry thank thanks")
ME = _words("me us")
YOU = _words("anyone someone u you") | POLITE
"""Whom the query asks. "Please" stands for "you" in "please explain"."""
PERSONS = YOU | _words("i we")
FILLERS = _words(
    "a additional afternoon all also am an and any are basic be bit but can could d day do does doing evening excuse "
    "few further general good had has have hope hoping is it just like little lot love m maybe more morning most my "
    "need of ok okay one other our out perhaps quick re relevant s so some the there these they this trying ve want "
    "was well were what will wish would your"
)
"""Other words that a frame may hold. "d", "m", "re", "s" and "ve" are the ends of contractions: "I'd"."""
FRAME = ASKING | ABOUT | LINKS | THAT | GREETING | ME | PERSONS | FILLERS
CLOSING = POLITE | _words("cheers thank thanks thx")
"""Words with which a closing at the end of a query may begin."""
IN_CLOSING = CLOSING | _words("a advance for help in kind lot many much regards so very you your")


class Ending(NamedTuple):
    """A frame may end after one of `words`, if the conditions hold."""

    words: frozenset[str]
    after: frozenset[str] = frozenset()
    """The word before is one of these; empty: any word."""
    seen: frozenset[str] = frozenset()
    """One of the words before is one of these; empty: any words."""
    distinct: int = 0
    """Smallest number of distinct words before."""


ENDINGS = {
    "please |": Ending(POLITE),
    "show me |": Ending(ME, after=GIVE | FIND | EXPLAIN),
    "remind me of |": Ending(LINKS | THAT, after=ME),
    "what does it say about |": Ending(ABOUT, seen=ASKING),
    "is there information on |": Ending(LINKS, after=TAKES_LINK, distinct=2),  # "search for" alone may be a title
    "do you know if |": Ending(_words("if whether"), after=FIND),
    "which page mentions |": Ending(SAY, seen=TEXT),
    "did we find |": Ending(FIND, seen=PERSONS),
    "can you explain |": Ending(EXPLAIN, seen=YOU),  # "can I recall an email" asks about recalling
}
"""By example, which is not read."""

_NO_CONTENT = FUNCTION_WORDS | PRONOUNS | QUESTIONING
_WORD = re.compile(r"([^\W_]+)")
_STOP = re.compile(r"[.,!:;\n]")
_PAUSE = re.compile(r"[.,!?:;\n\u2013\u2014-]")
_BEFORE_SIGNS = re.compile(r"\A\S*\Z|.*\s", re.DOTALL)
"""The characters before the subject that are removed with a frame: up to the last blank, so that signs at the subject's
first word stay, as in "about | --force"."""
_AFTER_SIGNS = re.compile(r"[.,!?:;\u2013\u2014-]*(?:\s.*)?\Z", re.DOTALL)
"""The characters after the subject that are removed with a closing: punctuation, and all from the first blank on, so
that other signs at the subject's last word stay, as in "C++ | please"."""
_TOLD = r"(?:say|said|(?:tell|told) (?:me|us|you)|mention(?:ed)?|discuss(?:ed)?|talk(?:ed)?)"
_TOLD_BEFORE = re.compile(
    rf"\A\W*what (?:else )?(?:did|had|have) (?:i|we|you) {_TOLD}(?: to (?:me|us|you))? about\s", re.I
)
"""Words that ask for what was said in the conversation, at the start of a question: "what did I say about"."""
_TOLD_AFTER = re.compile(
    rf"\s(?:(?:that|which)\s)?(?:(?:did|had|have) )?(?:i|we|you) {_TOLD}(?: about)?"
    r"(?: (?:a while ago|again|before|earlier|last time|once|recently|the other day|to me|to you|with you))*(?=\W*$)",
    re.I,
)
"""Words that ask for what was said in the conversation, at the end of a question: "which vet did I mention a while
ago"."""
_FRAME_ELSEWHERE = re.compile(
    r"\A[¿\s]*(?:"
    r"(?:kannst|könntest|können|könnten) (?:du|sie) (?:mir|uns) (?:(?:bitte|noch ?mal|noch einmal) )*"
    r"(?:sagen|erklären|zeigen|erzählen)|(?:sag|erklär|zeig)e? (?:mir|uns)(?: bitte)?|weißt du noch"
    r"|(?:(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|tu peux|est-ce que (?:tu peux|vous pouvez)) (?:me|nous) "
    r"(?:dire|rappeler|expliquer|montrer)|(?:dis|rappelle|explique|montre)-(?:moi|nous)"
    r"|(?:me )?(?:puedes|podrías|puede|podría) (?:decir|recordar|explicar|mostrar)(?:me|nos)?|dime|recuérdame"
    r"|te acuerdas de"
    r"|(?:puoi|potresti|può|potrebbe) (?:dir|ricordar|spiegar|mostrar)(?:mi|ci)|dimmi|ricordami|ti ricordi"
    r"|(?:podes|pode|poderias|poderia) (?:(?:dizer|lembrar|explicar|mostrar)-(?:me|nos)"
    r"|(?:me|nos) (?:dizer|lembrar|explicar|mostrar))|diz-me|me diga|lembra-me"
    r"|(?:kun|kan|kunt|zou) (?:je|jij|u) (?:me|mij|ons) (?:(?:alsjeblieft|alstublieft|nog eens|even) )*"
    r"(?:vertellen|zeggen|uitleggen|laten zien)|vertel (?:me|mij)|weet je nog"
    r")(?:,\s*|\s+)(?=\S+\s+\S)",
    re.IGNORECASE,
)
"""Frames of German, French, Spanish, Italian, Portuguese and Dutch, with at least two words after them."""
_CLOSING_ELSEWHERE = re.compile(
    r"(?<=\S)(?:,\s*|\s+)(?:bitte|danke(?: dir)?|s['\u2019]il (?:te|vous) pla[iî]t|merci|por favor|gracias|per favore"
    r"|grazie|obrigad[oa]|alsjeblieft|alstublieft|dank je)(?=[\s.!?]*\Z)",
    re.IGNORECASE,
)
_QUOTE = re.compile('["\u201c\u201d\u201e\u00ab\u00bb`]')


def without_frame(query: str) -> str:
    """The query without its frame, its closing words ("please", "thanks") and the words that ask what was said.

    Closing words of other languages than English are removed if the query has a frame of such a language. Words are
    kept if only function words would be left without them.
    """
    unframed, found = _FRAME_ELSEWHERE.subn("", query)
    query = _CLOSING_ELSEWHERE.sub("", unframed) if found else _without_asking(query)
    subject = _TOLD_AFTER.sub("", _TOLD_BEFORE.sub("", query, count=1))
    return query if _NO_CONTENT.issuperset(_words(subject.lower().strip("?!. "))) else subject


def _without_asking(query: str) -> str:
    """The query without its frame and its closing words; the query itself if only function words would be left."""
    pieces = _WORD.split(query)  # gap, word, gap, ..., word, gap
    gaps, words = pieces[::2], [word.lower() for word in pieces[1::2]]
    start, end = _end_of_frame(words, gaps), _start_of_closing(words, gaps)
    if (start == 0 and end == len(words)) or _NO_CONTENT.issuperset(words[start:end]):
        return query
    before, after = gaps[start], gaps[end]
    if start:
        before = _BEFORE_SIGNS.sub("", before)
    if end < len(words):  # the question mark of a closing stays
        after = _AFTER_SIGNS.sub("", after) + ("?" if any("?" in gap for gap in gaps[end:]) else "")
    return before + "".join(pieces[2 * start + 1 : 2 * end]) + after


def _end_of_frame(words: Sequence[str], gaps: Sequence[str]) -> int:
    """The number of words of the frame at the start of a query; 0: it has none.

    Args:
        words: The query's words in lower case.
        gaps: The characters between the words: before each word, from the end of the previous one; at the end of the
            list, those after the last word.
    """
    end = 0
    seen: set[str] = set()
    subject_follows = False  # after "about", "that mentions" or "information on"
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if _QUOTE.search(gaps[at]):
            break
        if _begins_subject(word, before, gaps[at], seen):
            end = at
        links_on = before in SAY and word in ABOUT | LINKS | THAT  # talks of | ...
        if word not in FRAME or (subject_follows and not links_on):
            break
        if subject_follows or _may_end(word, before, seen):
            end = at + 1
            subject_follows = subject_follows or word in ABOUT | SAY or before in TAKES_LINK
        seen.add(word)
    return end


def _begins_subject(word: str, before: str, gap: str, seen: set[str]) -> bool:
    """Whether the subject begins with a word that may also be a word of the frame.

    Args:
        word: The word.
        before: The word before it; "" if there is none.
        gap: The characters between the two words.
        seen: All words before it.
    """
    if word in QUESTIONING and before in FIND | MOOD | ME and seen & ASKING:
        return True  # tell me | when ...
    return bool(seen & GREETING) and (word in QUESTIONING or _STOP.search(gap) is not None)  # hi all, | ...


def _may_end(word: str, before: str, seen: set[str]) -> bool:
    """Whether a row of `ENDINGS` holds.

    Args:
        word: The last word of the frame.
        before: The word before it; "" if there is none.
        seen: All words before it.
    """
    return any(
        word in ending.words
        and (not ending.after or before in ending.after)
        and (not ending.seen or bool(seen & ending.seen))
        and len(seen) >= ending.distinct
        for ending in ENDINGS.values()
    )


def _start_of_closing(words: Sequence[str], gaps: Sequence[str]) -> int:
    """The number of words before "please" or thanks at the end of a query. The arguments are those of `_end_of_frame`.

    Without punctuation before them, these words may be the subject: "Japanese word for thank you". In that case only a
    single word that follows a word of the subject is a closing: "directions to the pool please".
    """
    start = len(words)
    while start and words[start - 1] in IN_CLOSING:
        start -= 1
    while start < len(words) and words[start] not in CLOSING:
        start += 1
    if _PAUSE.search(gaps[start]):
        return start
    alone = 0 < start == len(words) - 1 and words[start] in POLITE | {"thanks", "thx"}
    return start if alone and words[start - 1] not in LINKS | SAY | FILLERS | CLOSING else len(words)
