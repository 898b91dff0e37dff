"""The query without the English words that only ask for a text: "can you tell me about X", "Hi, ... thanks a lot!".

These words are in no answer. For the lexical arm they are rare words that no right text holds, the query's vector
moves towards texts that ask and thank, and a lookup of few words is none with them. A frame is a run of frame words at
the start of the query that ends in one of the ways of `_end_of_frame`, so "what did you say about Rome" and
"document number of the passport" have none. Measured in docs/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from umi_common.query.routing import FUNCTION_WORDS, PRONOUNS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FIND = _words("find know remember")
EXPLAIN = _words("clarify describe explain locate provide recall summarise summarize")
"""What only a reader is asked to do: "can you explain", not "can I recall an email"."""
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
BEHIND = _words("for if in into of on through to up whether with")
"""Words that belong to the frame directly behind "information", "interested" or "talks"."""
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
QUESTION = _words("how what when where which who whom whose why")
NOT_ASKED = _words("was were what")
"""With these before, verbs tell what the query is about: "what would you give me"."""
MODAL = _words("can could will would") | POLITE
ASKING = FIND | EXPLAIN | SEARCH | GIVE | TEXT | SAY | MOOD
FRAME = ASKING | ABOUT | BEHIND | THAT | POLITE | GREETING | ME | ASKERS | OTHER
CLOSING = POLITE | _words("cheers thank thanks thx")
BEHIND_CLOSING = CLOSING | _words("a advance for help in kind lot many much regards so very you your")

_WORD = re.compile(r"[^\W_]+")
_STOP = re.compile(r"[.,!:;\n]")
_PAUSE = re.compile(r"[.,!?:;\n\u2013\u2014-]")
_QUOTE = re.compile('["\u201c\u201d\u201e\u00ab\u00bb`]')


def without_frame(query: str) -> str:
    """The query without its frame and its closing words; the query itself if nothing but function words is left."""
    words = list(_WORD.finditer(query))
    texts = [word[0].lower() for word in words]
    start, end = _end_of_frame(query, words, texts), _start_of_closing(query, words, texts)
    if not start and end == len(words):
        return query
    if start >= end or is_without_subject(texts[start:end]):
        return query
    last = words[end - 1].end()
    behind = query[last:] if end == len(words) else "?" * ("?" in query[last:])
    first = words[start - 1].end() if start else 0
    return query[first:last].lstrip(" ,.!?:;\n\t-") + behind


def _end_of_frame(query: str, words: Sequence[re.Match[str]], texts: Sequence[str]) -> int:
    """The number of words of the frame at the start of a query; 0: it has none.

    Args:
        query: The query.
        words: Its words.
        texts: The same in lower case.
    """
    end = 0
    seen: set[str] = set()
    about = False
    for at, word in enumerate(texts):
        before = texts[at - 1] if at else ""
        if _QUOTE.search(query, words[at - 1].end() if at else 0, words[at].start()):
            break
        if word in QUESTION and ((before in FIND | MOOD | ME and seen & ASKING) or (at and seen & GREETING)):
            end = at  # tell me | when ...
        elif at and seen & GREETING and _STOP.search(query, words[at - 1].end(), words[at].start()):
            end = at  # good morning all, | ...
        if word not in FRAME or (about and not _continues(word, before)):
            break
        if about or _ends(word, before, seen, polite=end == at):
            end = at + 1
            about = about or word in ABOUT | SAY or (word in BEHIND and before in TEXT | MOOD | SEARCH)
        seen.add(word)
    return end


def _continues(word: str, before: str) -> bool:
    """Whether a word behind "about" or "that talks" is of the frame, too: "talks of | ...", but "about | letters"."""
    return word in POLITE or (before in SAY and word in ABOUT | BEHIND | THAT)


def _ends(word: str, before: str, seen: set[str], polite: bool) -> bool:
    """Whether a frame may end behind a word.

    Args:
        word: The word.
        before: The word before it.
        seen: All words before it.
        polite: Whether a frame ends before the word.
    """
    if polite and (word in POLITE or (before in ME and word in BEHIND | THAT)):
        return True  # please | ...; remind me of | ...
    if word in ABOUT:
        return bool(seen & ASKING)  # what does it say about | ...
    if word in BEHIND and len(seen) > 1 and before in TEXT | MOOD | SEARCH:
        return True  # is there information on | ...
    if word in ("if", "whether"):
        return before in FIND | ME  # do you know if | ...
    if word in SAY:
        return bool(seen & TEXT)  # which page mentions | ...
    if seen & NOT_ASKED:
        return False
    if word in ME:
        return before in GIVE | FIND | EXPLAIN  # show me | ...
    asked = ASKERS if word in FIND else READERS if word in EXPLAIN and seen & MODAL else frozenset()
    return bool(seen & asked)  # can you explain | ...


def is_without_subject(words: Sequence[str]) -> bool:
    """Whether words in lower case are function words only."""
    return (FUNCTION_WORDS | PRONOUNS).issuperset(words)


def _start_of_closing(query: str, words: Sequence[re.Match[str]], texts: Sequence[str]) -> int:
    """The number of words before "please" or thanks at the end of a query; arguments as of `_end_of_frame`.

    Without a comma or the like before them, they may be what is sought: "Japanese word for thank you".
    """
    end = len(texts)
    while end and texts[end - 1] in BEHIND_CLOSING:
        end -= 1
    while end < len(texts) and texts[end] not in CLOSING:
        end += 1
    if not 0 < end < len(texts) or _PAUSE.search(query, words[end - 1].end(), words[end].start()):
        return end
    alone = len(texts) - end == 1 and texts[end] in POLITE | {"thanks", "thx"}
    return end if alone and texts[end - 1] not in BEHIND | SAY | OTHER | CLOSING else len(texts)
