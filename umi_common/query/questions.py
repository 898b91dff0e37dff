"""Find the questions in a query that also contains other text, such as a mail or code; and the part that excludes.

Each question is also searched alone, as a variation of the query. Otherwise the words around a question outweigh it,
and of two questions the one with the rarer words gets all hits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from umi_common.query.frames import FRAME, without_frame
from umi_common.query.routing import FUNCTION_WORDS, PRONOUNS

WRITTEN_WORDS_MAX, WRITTEN_NUMBERS_MAX = 128, 4
"""A query with more words and more numbers than this counts as pasted text. A long mail with a question has few
numbers, such as that of an order and its date."""
QUESTIONS_MAX = 3
"""If a query has more questions than this, none is searched alone, because any may be the main question."""
QUESTION_WORDS_MIN = 3
"""Smallest number of words of a question; of each of the two in a sentence "when ... and where ...?", one more."""
WHOLE_SHARE = 0.8
"""Largest share of the query's words that a single question may have. A question with a larger share is nearly the
whole query, and is not searched again."""
REFERRING = frozenset({"this", "these", "such"})
"""A question with one of these words is about the text around it, and says little alone: "Is this claim supported?"."""
EXCLUDING_CHARACTERS_MAX = 300
"""Largest number of characters of a query that is searched for an exclusion; a longer query is prose."""
IN_CONVERSATION = frozenset({"you", "we", "i", "your", "my", "this", "that", "it"})
"""A question with one of these words counts only if it has two content words: "Could we talk on Monday?" asks a person
and needs no text."""

_VERB = (
    r"(?:is|are|was|were|am|do|does|did|can|could|will|would|should|shall|may|might|must|has|have|had"
    r"|(?:is|are|was|were|do|does|did|has|have)n['\u2019]t)\b"
)
_PREPOSITION = r"(?:(?:by|for|from|in|on|of|to|with) )?"
_QUESTION_WORD = rf"{_PREPOSITION}(?:who|whom|whose|what|when|where|why|how|which)\b"
_UNMARKED = re.compile(
    rf"{_PREPOSITION}(?:(?:who|whom|whose|what|which)\b"
    rf"|(?:when|where|why|how) (?:{_VERB}|(?:to|many|much|long|often)\b))",
    re.IGNORECASE,
)
"""The beginning of a question without a question mark; "When exhausted, ..." begins a statement."""
_ASKING = re.compile(rf"{_UNMARKED.pattern}|{_VERB}", re.IGNORECASE)
_AND = re.compile(rf",? and (?:also )?(?={_QUESTION_WORD})", re.IGNORECASE)
"""The words between two questions of one sentence."""
_SENTENCE_BREAK = re.compile(
    rf"(?<=[?!])(?:\)(?=\s+[^a-z]))?\s+|(?<=[^\W_]{{3}}\.)\s+(?=\(?[^\W\d_a-z])|(?<=[^\W\d_]):\s+(?i:(?={_QUESTION_WORD}|{_VERB}))"
    rf"|\n+(?!(?<=[\w,]\n)[ \t]*(?!{_QUESTION_WORD}|{_VERB})[a-z][^.?!]{{0,300}}[.?!])|`{{2,}}"
)
"""The characters between two sentences; the full stops in "Dr. Lee" and "No. 5" do not match, nor does a line break
between a word or comma and a word in lower case that begins no question, if the sentence ends within 300 characters:
there one sentence is on two lines. Lines of a chat without signs are sentences."""
_NO_CONTENT = FRAME | FUNCTION_WORDS | PRONOUNS
_CODE = re.compile(
    r"""
    [={}<>|\\]
    | (?<!\w); | ;(?![ ]\w)                 # no semicolon between two words
    | \?(?!["')*?\s]*$)\s*[,.:?\])]         # no question mark at the end, as in "??" and "?)"
    | \s\?[?)] | [(\[]\?
    | \w\((?!e?s\))                         # a call; not "file(s)"
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Matches a sentence that is taken for a line of code."""
_WORD = re.compile(r"[^\W_]+")
_NUMBERING = re.compile(r"^(?:[\W_]*\s)?(?:\(?\d{1,2}[.)]\s+)?(?:[\W_]*\s)?[*_>(\[\u00bf\u00a1]*")
"""The bullet, number and markup before a sentence. Signs directly before its first word stay: "--force" or a quotation
mark."""
_MARKED = re.compile(r"\?[\"')*\s]*$")
"""A question mark at the end."""
EVERYTHING = frozenset({"all", "any", "anyone", "anything", "everybody", "everyone", "everything"})
EVERYTHING |= {"alle", "alles", "tous", "tout", "toutes", "todo", "todos", "todas", "tudo", "tutti", "tutte", "tutto"}
"""A query such as "everything except invoices", without a content word before "except", needs one of these words."""
EXCEPT = re.compile(
    r"\b(?:but not|(?<!\btry[ /])except(?! (?:block|clause|handler|statement)s?\b)|excluding|not including|other than"
    r"|apart from|aside from|with the exception of"
    r"|aber nicht|außer|ausgenommen|mais pas|sauf|hormis|pero no|excepto|salvo|ma non|tranne|eccetto|mas não|exceto"
    r"|maar niet|behalve)\b",
    re.IGNORECASE,
)
"""Words before an exception, in a query or a text. The keyword in "try except" and "except block" does not match."""
_KEPT = r"(?:[^.?!\n]|\.(?:\b|\B(?<=\w\.)(?<!\w\w\w\.)))"
"""A character that ends no sentence. A full stop matches in one way only; else "a.a.a.a" takes exponential time."""
_EXCLUDED = rf"(?P<excluded>(?: (?!{_VERB})(?:\w{{1,2}}\.|[^\s.?!,]+(?:\.\b[^\s.?!,]+)*)){{1,8}})[.?!]*"
_EXCLUSION = re.compile(rf"(?P<kept>{_KEPT}+?),? {EXCEPT.pattern}{_EXCLUDED}", re.IGNORECASE)
"""A query of one sentence that ends in words of `EXCEPT` and at most eight excluded words, none an auxiliary verb. A
full stop after one or two letters does not end the sentence: "Dr. Lee", "no. 5". A list with commas does not match."""
_WHO = rf"(?:{_PREPOSITION}who|(?:which|what)(?: \w+){{1,2}}|(?:(?:is|are) there )?(?:any|some)(?:one|body))"
_NAME = r"(?-i:(?: [^\W\d_a-z](?:\w{0,2}\.|[^\s.?!,]*))+)"
"""Words with a capital letter: "Dr. Kaya"."""
_REST = rf"(?P<rest> {_KEPT}+?)[.?!]*"
_WHO_OTHER = re.compile(rf"(?P<kept>{_WHO}) {EXCEPT.pattern}(?P<excluded>{_NAME}){_REST}", re.IGNORECASE)
"""A question that excludes a name behind its first words: "which shops other than Aldi sell it?"."""
_WHO_BESIDES = re.compile(rf"(?P<kept>{_WHO}) besides(?P<excluded>{_NAME}){_REST}", re.IGNORECASE)
"""The same with "besides", which texts that answer may hold beside the name."""
_FREE = re.compile(
    rf"(?=.*\w-free\b)(?P<kept>(?!(?:how|what|when|why)\b)(?:(?!\b{_VERB}){_KEPT})*?)(?P<excluded>\b[^\W\d_]{{3,}})-free\b"
    rf"(?P<rest>(?:(?!\b{_VERB}){_KEPT})*?)[.?!]*",
    re.IGNORECASE,
)
"""A query for something free of something: "nut-free cakes". The first condition is tested first, to save time."""
_BE_NOT = r"(?:is|are|was|were)(?:n['\u2019]t| not)"
_PREPOSITIONS = r"(?:about|at|by|for|from|in|of|on|under|with)"
_BEHIND_NOUN = rf"(?:{_PREPOSITIONS}|to|near|between)"
_ANY = r"(?:any [^\s,.]+|(?:any|every)(?:one|body|thing|where))"
_BUT = (
    r"(?-i:but)(?! (?:also|for|how|i|if|it|never|no|not|only|still|then|they|to|we|with|without|you)\b)"
    rf"(?!.*(?<!\bone) {_PREPOSITIONS}\b)"
)
"""Before no words that may belong to the part before "but": "messages from anyone but Mira about Lisbon"."""
_SEVERAL = r"(?=(?:\w+ ){0,2}\w{2,}s\b)"
"""Matches before up to three words, the last of which seems to be a plural."""
_NEGATIONS = [
    re.compile(rf"(?P<kept>{kept}) {negation}{_EXCLUDED}", re.IGNORECASE)
    for kept, negation in (
        (rf"which (?:(?!\b(?:{_VERB}|(?:if|when|because|since)\b)){_KEPT})+?", _BE_NOT),
        (rf"{_KEPT}+?,?", rf"(?:that|which|who) (?:{_VERB}(?:(?<=n['\u2019]t)| not)|can(?:no|['\u2019])t)"),
        (rf"(?:(?!\b{_VERB}){_KEPT})+?", rf"not(?= {_PREPOSITIONS}\b[^?]*$)"),
        (rf"{_SEVERAL}(?:(?!\b{_VERB}){_KEPT})+?", rf"not(?= (?:\w+ed (?:to|by)|{_PREPOSITIONS})\b)"),
        (rf"(?:(?!\b{_VERB}){_KEPT})+,", "not"),
        (rf"{_SEVERAL}(?:(?!\b{_VERB}){_KEPT})+,", r"no(?! \d)"),
        (rf"(?:(?:(?!\b{_VERB}){_KEPT})*? )?{_ANY}", _BUT),
    )
]
"""The same with "not": "which bugs are not assigned to Tom?", "bugs that aren't assigned to Tom", "bugs not from Tom",
"bugs not assigned to Tom", "bugs, not closed"; and "any wood but birch". "Jobs not in London?" asks for several things,
"aspirin not for children?" whether something is so. Other queries with "not" name a problem, whose texts hold the words
behind it: "file not found", "reports not loading in Safari", "laptop not connected to wifi", "what happens when the
report does not load in Safari?". Most other queries with "but" contrast two states ("all lights on but engine dead").
"""
_WITHOUT = re.compile(
    rf"(?P<kept>(?!(?:how|what|when|why)\b)(?:(?!\b{_VERB}){_KEPT})+?)"
    r" (?:without|with no|(?:that|which|who) \w+ no)(?! \w+ing \w)"
    rf"(?P<excluded>(?: (?!{_VERB}|(?:{_BEHIND_NOUN}|and)\b)[^\s.?!,]+){{1,8}})"
    rf"(?P<rest> {_BEHIND_NOUN} [^.?!,]+)?[.?!]*",
    re.IGNORECASE,
)
"""The same with "without": "rooms without a bath on the third floor". The words behind a preposition are not excluded,
and neither is what someone wants to avoid: "migrate without losing data", "can I drive without a licence?". Behind
"and" there may be something wanted: "rooms without a bath and with a sea view"."""
_REQUEST = re.compile(r"(?:could|would|will) (?:you|someone|anyone|somebody|anybody)\b", re.IGNORECASE)


class Exclusion(NamedTuple):
    """A query that excludes something, such as "projects but not on AWS"."""

    kept: str
    """The part before the exclusion, "projects"; "" if the query asks for everything that is not excluded."""
    excluded: str
    """The excluded part: " on AWS"."""


def questions_of(query: str) -> tuple[str, ...]:
    """The questions of a query in order, each without its frame.

    A question is a sentence that ends in a question mark. If there is none, a sentence that begins with a question word
    is a question. In a query with code, "?" may be a sign of code. There, a sentence that begins with a question word
    also counts if no sentence with a question mark has a subject.

    No questions are:

    - lines of code, and requests such as "Could you have a look?";
    - questions without a subject, such as "Can you clarify?";
    - in a query without code, questions about the text around them, such as "Is this true?".

    "When ... and where ...?" are two questions.

    Returns:
        At most QUESTIONS_MAX questions; () if there are more, or if a single question is nearly the whole query.
    """
    sentences = [_NUMBERING.sub("", sentence) for sentence in _SENTENCE_BREAK.split(query)]
    prose = [sentence for sentence in sentences if not _CODE.search(sentence)]
    has_code = len(prose) < len(sentences)
    marked = [sentence for sentence in prose if _MARKED.search(sentence) and not _REQUEST.match(sentence)]
    questions = _with_subject(marked)
    if not questions and (has_code or not marked):
        questions = _with_subject(filter(_UNMARKED.match, prose))
    if not has_code:
        questions = [question for question in questions if REFERRING.isdisjoint(_WORD.findall(question.lower()))]
    if len(questions) == 1 and _count(questions[0]) > WHOLE_SHARE * _count(query):
        return ()
    return tuple(questions) if len(questions) <= QUESTIONS_MAX else ()


def words_around(query: str, questions: Iterable[str]) -> float:
    """The number of words outside the questions divided by the number of words in them.

    0 if the query has no questions, or if nearly all of its words are in questions.
    """
    asking, words = sum(map(_count, questions)), _count(query)
    return (words - asking) / asking if 0 < asking <= WHOLE_SHARE * words else 0.0


def exclusion_in(query: str) -> Exclusion | None:
    """The exclusion in a query; None if it excludes nothing.

    "Without" is a negation (`negation_in`): texts that answer "returns without a receipt" contain the word "receipt".
    """
    query = _single_spaced(query)
    if len(query) > EXCLUDING_CHARACTERS_MAX:
        return None
    if found := _WHO_OTHER.fullmatch(query):
        return Exclusion(found["kept"] + found["rest"], found["excluded"])
    found = _EXCLUSION.fullmatch(query)
    if found is None:
        return None
    if _content(found["kept"]):
        return Exclusion(found["kept"], found["excluded"])
    everything = not EVERYTHING.isdisjoint(_WORD.findall(found["kept"].lower()))
    return Exclusion("", found["excluded"]) if everything else None


def negation_in(query: str) -> Exclusion | None:
    """What "not", "without", "-free", "no" behind a comma, "but" behind "any", or "besides" behind "who", excludes in a
    query; None: nothing."""
    query = _single_spaced(query)
    if len(query) > EXCLUDING_CHARACTERS_MAX:
        return None
    patterns = (*_NEGATIONS, _WITHOUT, _WHO_BESIDES, _FREE)
    found = next(filter(None, (pattern.fullmatch(query) for pattern in patterns)), None)
    if found is None:
        return None
    kept = found["kept"] + (found.groupdict().get("rest") or "")
    return Exclusion(kept, found["excluded"]) if _content(kept) else None


def is_question(query: str) -> bool:
    """Whether a query ends in a question mark, or begins with a question word or a verb such as "is" or "can"."""
    return _MARKED.search(query) is not None or _ASKING.match(query) is not None


def is_pasted(query: str) -> bool:
    """Whether a query is mostly pasted text, such as a log or a page."""
    words = query.split()
    return len(words) > WRITTEN_WORDS_MAX and sum(any(map(str.isdigit, word)) for word in words) > WRITTEN_NUMBERS_MAX


def _with_subject(sentences: Iterable[str]) -> list[str]:
    """The distinct questions that have a subject, without their frames."""
    questions: list[str] = []
    for sentence in sentences:
        halves = _AND.split(sentence)
        questions += halves if min(map(_count, halves)) > QUESTION_WORDS_MIN else [sentence]
    found = list[str]()
    for question in dict.fromkeys(map(without_frame, questions)):
        in_conversation = not IN_CONVERSATION.isdisjoint(_WORD.findall(question.lower()))
        enough = len(_content(question)) >= (2 if in_conversation else 1)
        if enough and _count(question) >= QUESTION_WORDS_MIN and not _REQUEST.match(question):
            found.append(question)
    return found


def _single_spaced(query: str) -> str:
    return re.sub(r"[^\S\n]+", " ", query.strip())


def _content(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if len(word) > 1 and word not in _NO_CONTENT]


def _count(text: str) -> int:
    return len(text.split())
