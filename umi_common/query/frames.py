"""Remove the words of a query that only ask for a text: "can you tell me about X", "Hi, ... thanks a lot!".

Relevant texts rarely contain these words. If they are searched, BM25 gives them weight, and the query's vector moves
towards texts that ask and thank. A short query also becomes too long to be looked up verbatim
(`search.reorder.lookup`).

The frame is at the start of a query, and all its words are in `FRAME`. "|" marks its end here and in comments. It ends
at the last of these places:

    after a word for which an item of `ENDINGS` holds                        can you explain | tides
    after a word of `LINKING` that follows such a word of `SAY`              is there a paper that talks of | tides
    before a question word after "tell me", "find" or "wondering"            tell me | when is low tide
    before a question word, or after punctuation, if there is a greeting     hi all, | when is low tide

No place after "about", "mentions", "talks of" or "information on" counts: "tell me about | what pages say". "Document
number" has no frame, because it has none of these places.

Questions about an earlier conversation also contain words that its messages rarely contain: "what did you say about
Rome", "which vet did I mention a while ago". They are removed, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from umi_common.query.routing import FUNCTION_WORDS, PRONOUNS, QUESTION_WORDS


def without_frame(query: str) -> str:
    """The query without its frame, its closing ("please", "thanks") and the words about an earlier conversation.

    Closing words in another language are removed only if a frame in another language is. An English frame and its
    closing, or the words about an earlier conversation, stay if only function words would be left without them.
    """
    unframed, found = _FRAME_IN_OTHER_LANGUAGES.subn("", query)
    query = _CLOSING_IN_OTHER_LANGUAGES.sub("", unframed) if found else _without_english_frame(query)
    subject = _TOLD_AFTER.sub("", _TOLD_BEFORE.sub("", query))
    return query if _NO_CONTENT.issuperset(_words(subject.lower().strip("?!. "))) else subject


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
NOUNS = _words("cover deal state talk")
"""Words of `SAY` that begin the subject after the name of a text: "document state machine"."""
MOOD = _words("curious interested question wondering")
ASKING = FIND | EXPLAIN | SEARCH | GIVE | TEXT | SAY | MOOD
"""Words that ask for a text, or name it."""
ABOUT = _words("about concerning regarding")
LINKS = _words("for if in into of on through to up whether with")
"""Words between the asking words and the subject: "information on", "interested in", "talks of"."""
TAKES_LINK = SEARCH | TEXT | MOOD
"""Words that a word of `LINKS` may follow."""
THAT = _words("that where which")
LINKING = ABOUT | LINKS | THAT  # talks of | ...
POLITE = _words("kindly please pls plz")
GREETING = _words("hello hey hi sorry thank thanks")
ME = _words("me us")
BEFORE_QUESTION = FIND | MOOD | ME  # tell me | when ...
YOU = _words("anyone someone u you") | POLITE
"""Words for the person asked. "Please" stands for "you" in "please explain"."""
PERSONS = YOU | _words("i we")
FILLERS = _words(
    "a additional afternoon all also am an and any are basic be bit but can could d day do does doing evening excuse "
    "few further general good had has have hope hoping is it just like little lot love m maybe more morning most my "
    "need of ok okay one other our out perhaps quick re relevant s so some the there these they this trying ve want "
    "was well were what will wish would your"
)
"""Other words that a frame may have. "d", "m", "re", "s" and "ve" are the ends of contractions: "I'd"."""
FRAME = ASKING | ABOUT | LINKS | THAT | GREETING | ME | PERSONS | FILLERS
ALONE_IN_CLOSING = POLITE | _words("thanks thx")
CLOSING = ALONE_IN_CLOSING | _words("cheers thank")
"""Words with which a closing at the end of a query may begin."""
IN_CLOSING = CLOSING | _words("a advance for help in kind lot many much regards so very you your")
NOT_BEFORE_CLOSING = LINKS | SAY | FILLERS | CLOSING
_NO_CONTENT = FUNCTION_WORDS | PRONOUNS | QUESTIONING


class Ending(NamedTuple):
    """A frame may end after one of `words`, if these conditions hold. An empty set is no condition."""

    words: frozenset[str]
    after: frozenset[str] = frozenset()  # the last word before it is one of these
    seen: frozenset[str] = frozenset()  # a word anywhere before it is one of these
    distinct: int = 0  # smallest number of distinct words before it


ENDINGS = (
    Ending(POLITE),  # please |
    Ending(ME, after=GIVE | FIND | EXPLAIN),  # show me |
    Ending(LINKS | THAT, after=ME),  # remind me of |
    Ending(ABOUT, seen=ASKING),  # what does it say about |
    Ending(LINKS, after=TAKES_LINK, distinct=2),  # is there information on |, but "search for" may be a title
    Ending(_words("if whether"), after=FIND),  # do you know if |
    Ending(SAY - NOUNS, seen=TEXT),  # which page mentions |
    Ending(NOUNS, after=THAT, seen=TEXT),  # papers that cover |, but not "text cover letter"
    Ending(NOUNS, after=TEXT, seen=_words("do does what which")),  # which pages state |
    Ending(FIND, seen=PERSONS),  # can we find |
    Ending(EXPLAIN, seen=YOU),  # can you explain |, but "can I recall an email" asks about recalling
)
_WORD = re.compile(r"([^\W_]+)")
_QUOTE = re.compile('["\u201c\u201d\u201e\u00ab\u00bb`]')
_AFTER_GREETING = re.compile(r"[.,!:;\n]")
_BEFORE_CLOSING = re.compile(r"[.,!?:;\n\u2013\u2014-]")
_GAP_AFTER_FRAME = re.compile(r"\A\S*\Z|.*\s", re.DOTALL)
"""The characters between frame and subject that are removed: all up to the last blank, or all if there is no blank.
Signs between a blank and the subject stay, as in "about | --force"."""
_GAP_BEFORE_CLOSING = re.compile(r"[.,!?:;\u2013\u2014-]*(?:\s.*)?\Z", re.DOTALL)
"""The characters between subject and closing that are removed: punctuation, and all from the first blank on. Other
signs directly after the subject stay, as in "C++ please"."""


def _without_english_frame(query: str) -> str:
    """The query without its frame and its closing; the query itself if only function words would be left."""
    pieces = _WORD.split(query)  # gap, word, gap, ..., word, gap
    gaps, words = pieces[::2], [word.lower() for word in pieces[1::2]]
    start, end = _end_of_frame(words, gaps), _start_of_closing(words, gaps)
    if _NO_CONTENT.issuperset(words[start:end]):
        return query
    before, subject, after = gaps[start], "".join(pieces[2 * start + 1 : 2 * end]), gaps[end]
    if start:
        before = _GAP_AFTER_FRAME.sub("", before)
    if end < len(words):  # a question mark before, in or after the closing stays
        after = _GAP_BEFORE_CLOSING.sub("", after) + ("?" if any("?" in gap for gap in gaps[end:]) else "")
    return before + subject + after


def _end_of_frame(words: Sequence[str], gaps: Sequence[str]) -> int:
    """The number of words of the frame at the start of a query; 0: it has none. `gaps[i]` precedes `words[i]`.

    In "hi all, can you explain tides", `end` becomes 2 before "can" and 5 after "explain"; "tides" ends the loop.
    """
    end, before, seen = 0, "", set[str]()
    for at, word in enumerate(words):
        if _QUOTE.search(gaps[at]):
            break  # a quotation belongs to the subject
        asks = word in QUESTIONING and before in BEFORE_QUESTION  # tell me | when ...
        if asks or (seen & GREETING and (word in QUESTIONING or _AFTER_GREETING.search(gaps[at]))):  # hi all, | ...
            end = at
        if word not in FRAME:
            break
        if _may_end(word, before, seen):
            end = at + 1
            if word in SAY and end < len(words) and words[end] in LINKING and not _QUOTE.search(gaps[end]):
                return end + 1  # talks of | ...
            if word in SAY or word in ABOUT or (word in LINKS and before in TAKES_LINK):
                return end  # mentions | ..., about | ..., information on | ...
        seen.add(word)
        before = word
    return end


def _may_end(word: str, before: str, seen: Set[str]) -> bool:
    """Whether an item of `ENDINGS` holds for this word; `before` is the word before it, `seen` holds all of them."""
    return any(
        word in ending.words
        and (not ending.after or before in ending.after)
        and (not ending.seen or not ending.seen.isdisjoint(seen))
        and len(seen) >= ending.distinct
        for ending in ENDINGS
    )


def _start_of_closing(words: Sequence[str], gaps: Sequence[str]) -> int:
    """The number of words before the closing of a query; the number of all words if it has none.

    Closing words after punctuation are a closing. Without punctuation they may be the subject, as in "Japanese word for
    thank you". Then only a single "please" or "thanks" after a content word counts: "directions to the pool please".
    """
    start = len(words)
    while start and words[start - 1] in IN_CLOSING:
        start -= 1
    while start < len(words) and words[start] not in CLOSING:
        start += 1
    if _BEFORE_CLOSING.search(gaps[start]):
        return start
    alone = 0 < start == len(words) - 1 and words[start] in ALONE_IN_CLOSING
    return start if alone and words[start - 1] not in NOT_BEFORE_CLOSING else len(words)


_TOLD = r"(?:say|said|(?:tell|told) (?:me|us|you)|mention(?:ed)?|discuss(?:ed)?|talk(?:ed)?)"
_TOLD_BEFORE = re.compile(
    rf"\A\W*what (?:else )?(?:did|had|have) (?:i|we|you) {_TOLD}(?: to (?:me|us|you))? about\s", re.I
)
"""Words at the start of a question about an earlier conversation: "what did I say about"."""
_TOLD_AFTER = re.compile(
    rf"\s(?:(?:that|which)\s)?(?:(?:did|had|have) )?(?:i|we|you) {_TOLD}(?: about)?"
    r"(?: (?:a while ago|again|before|earlier|last time|once|recently|the other day|to me|to you|with you))*(?=\W*$)",
    re.I,
)
"""Words at the end of a question about an earlier conversation: "which vet | did I mention a while ago"."""
_FRAME_IN_OTHER_LANGUAGES = re.compile(
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
"""A frame in German, French, Spanish, Italian, Portuguese or Dutch, if at least two words follow it."""
_CLOSING_IN_OTHER_LANGUAGES = re.compile(
    r"(?<=\S)(?:,\s*|\s+)(?:bitte|danke(?: dir)?|s['\u2019]il (?:te|vous) pla[iî]t|merci|por favor|gracias|per favore"
    r"|grazie|obrigad[oa]|alsjeblieft|alstublieft|dank je)(?=[\s.!?]*\Z)",
    re.IGNORECASE,
)
