"""Remove the words of a query that only ask for a text: "can you tell me about X", "Hi, ... thanks a lot!".

No answer holds these words. With them, the lexical arm searches for rare words that no right text holds, the query's
vector moves towards texts that ask and thank, and a lookup of few words is not recognised. The frame of a query is a
run of words of `FRAME` at its start, up to the last word after which `_ends` allows the frame to end. "Document number"
has no frame. In comments, "|" marks the end of a frame.

Questions to a memory also hold words that no message holds, or only messages of small talk: "what did you say about
Rome", "which vet did I mention a while ago". Measured in docs/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from umi_common.query.routing import FUNCTION_WORDS, PRONOUNS, QUESTION_WORDS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FIND = _words("find know remember")
EXPLAIN = _words("clarify describe explain locate provide recall summarise summarize")
"""Verbs that end a frame only after a word of `READERS`: "can you explain", but not "can I recall an email"."""
SEARCH = _words("look looking search searching")
GIVE = _words("get give hear help inform learn let read remind see send show tell")
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
ABOUT = _words("about concerning regarding")
LINKS = _words("for if in into of on through to up whether with")
"""Words that link a word of the frame to the subject: "information on", "interested in", "talks of"."""
LINKED = SEARCH | TEXT | MOOD
"""Words that a word of `LINKS` may follow in a frame."""
THAT = _words("that where which")
POLITE = _words("kindly please pls plz")
GREETING = _words("hello hey hi sorry thank thanks")
ME = _words("me us")
READERS = _words("anyone someone u you") | POLITE
ASKERS = READERS | _words("i we")
OTHER = _words(
    "a additional afternoon all also am an and any are basic be bit but can could d day do does doing evening excuse "
    "few further general good had has have hope hoping is it just like little lot love m maybe more morning most my "
    "need of ok okay one other our out perhaps quick re relevant s so some the there these they this trying ve want "
    "was well were what will wish would your"
)
ASKED_BY = QUESTION_WORDS | _words("which whom whose")
ASKING = FIND | EXPLAIN | SEARCH | GIVE | TEXT | SAY | MOOD
FRAME = ASKING | ABOUT | LINKS | THAT | GREETING | ME | ASKERS | OTHER
CLOSING = POLITE | _words("cheers thank thanks thx")
"""Words with which a closing at the end of a query may begin."""
IN_CLOSING = CLOSING | _words("a advance for help in kind lot many much regards so very you your")

_NO_CONTENT = FUNCTION_WORDS | PRONOUNS | ASKED_BY
_WORD = re.compile(r"([^\W_]+)")
_STOP = re.compile(r"[.,!:;\n]")
_PAUSE = re.compile(r"[.,!?:;\n\u2013\u2014-]")
_BEFORE_SIGNS = re.compile(r"\A\S*\Z|.*\s", re.DOTALL)
"""The characters between a frame and its subject, but for signs at the subject's first word: "about | --force"."""
_AFTER_SIGNS = re.compile(r"[.,!?:;\u2013\u2014-]*(?:\s.*)?\Z", re.DOTALL)
"""The characters between a subject and its closing, but for signs at the subject's last word: "C++ | please"."""
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
_ASKED_ELSEWHERE = re.compile(
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
_CLOSED_ELSEWHERE = re.compile(
    r"(?<=\S)(?:,\s*|\s+)(?:bitte|danke(?: dir)?|s['\u2019]il (?:te|vous) pla[iî]t|merci|por favor|gracias|per favore"
    r"|grazie|obrigad[oa]|alsjeblieft|alstublieft|dank je)(?=[\s.!?]*\Z)",
    re.IGNORECASE,
)
_QUOTE = re.compile('["\u201c\u201d\u201e\u00ab\u00bb`]')


def without_frame(query: str) -> str:
    """The query without its frame, its closing words ("please", "thanks") and the words that ask what was said; the
    query itself if only function words would be left."""
    elsewhere = _ASKED_ELSEWHERE.sub("", query)
    query = _CLOSED_ELSEWHERE.sub("", elsewhere) if elsewhere is not query else _without_asking(query)
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
    complete = False  # True after "about", "that mentions" or "information on": the subject follows
    for at, (before, word, gap) in enumerate(zip(["", *words], words, gaps, strict=False)):
        if _QUOTE.search(gap):
            break
        asks = word in ASKED_BY and before in FIND | MOOD | ME and seen & ASKING  # tell me | when ...
        if asks or (seen & GREETING and (word in ASKED_BY or _STOP.search(gap))):  # good morning all, | ...
            end = at
        if word not in FRAME or (complete and not (before in SAY and word in ABOUT | LINKS | THAT)):  # talks of | ...
            break
        if complete or _ends(word, before, seen):
            end = at + 1
            complete = complete or word in ABOUT | SAY or before in LINKED
        seen.add(word)
    return end


def _ends(word: str, before: str, seen: set[str]) -> bool:
    """Whether a frame may end after a word.

    Args:
        word: The word.
        before: The word before it.
        seen: All words before it.
    """
    if word in POLITE or (before in ME and word in LINKS | THAT):
        return True  # please | ...; remind me of | ...
    if word in ABOUT:
        return bool(seen & ASKING)  # what does it say about | ...
    if word in LINKS and len(seen) > 1 and before in LINKED:
        return True  # is there information on | ...
    if word in ("if", "whether"):
        return before in FIND  # do you know if | ...
    if word in SAY:
        return bool(seen & TEXT)  # which page mentions | ...
    if word in ME:
        return before in GIVE | FIND | EXPLAIN  # show me | ...
    asked = ASKERS if word in FIND else READERS if word in EXPLAIN else frozenset()
    return bool(seen & asked)  # can you explain | ...


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
    alone = start == len(words) - 1 and words[start] in POLITE | {"thanks", "thx"}
    return start if alone and words[start - 1] not in LINKS | SAY | OTHER | CLOSING else len(words)
