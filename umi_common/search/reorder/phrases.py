"""Find the words of a query in texts, verbatim: as a phrase, as keywords, as the head of an entry, in runs.

    phrase      the words side by side: those in quotation marks; or all words of a short query, without the function
                words at its start and end ("what is Harrow v Lindqvist")
    keywords    all words of a short query, anywhere in the text
    title       the words of a query, and no others, as the first line of a text: the heading of its section
    entry       a text of a dictionary or a reference whose first word, its head, is in the query: "what does open do?"
    runs        sequences of at least three adjacent words of the query (the stage `reorder_by_word_runs`)

A text of words, below, is `spaced(words_in(text))`: its words in lower case, with one space before, between and after
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

import numpy as np

from umi_common.pool import Floats
from umi_common.query.questions import is_question
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.numbers import ROMAN
from umi_common.search.reorder.sources import title_of
from umi_common.search.reorder.words import (
    DIGITS,
    FIRST_LETTERS,
    PARTS_MAX,
    TermsOf,
    content_words,
    held_early,
    near_best,
    spaced,
    with_plain_signs,
    words_in,
)
from umi_common.stores.chunk_names import PATH_END
from umi_common.stores.lexical.languages import ENGLISH, all_function_words, function_words, language_of
from umi_common.stores.lexical.spellings import without_accents
from umi_common.types import Chunk

PHRASE_WORDS_MAX = 8
"""Largest number of words of a query that is looked up as a whole, and of a query that has keywords."""
KEYWORDS_MAX = 6
"""Largest number of keywords that are looked up; a query with more has none."""
CONTENT_MIN = 3
"""Smallest number of words of a phrase that is a query without its function words."""
ENDING = 3
"""Largest number of letters that may follow a keyword in a word of a text: "task" finds "tasks", and "sign" does not
find "signature"."""
PHRASE_CHARACTERS = 100_000
"""Number of characters at the beginning of a text that are read for phrases and keywords. Reading so many takes some
3 ms; a whole book has more."""
QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]")
"""A phrase in quotation marks."""

MEANING = frozenset(
    {"abbreviation", "acronym", "define", "definition", "explain", "mean", "meaning", "means", "stand", "stands"}
)
"""Words that ask what another word or an abbreviation means."""
HEADS_MAX = 3
"""Largest number of heads (distinct content words that are not in MEANING) of a query that asks for an entry."""
ENTRY_QUERY_WORDS_MAX = 8
"""Largest number of words of a query that asks for an entry."""
ENTRIES_MAX = 3
"""Largest number of candidates that are taken for entries on one word. A word with which more candidates begin is taken
for a speaker's name or a label, unless the query asks for its meaning."""
ENTRY_WORDS_MIN = 4
"""Smallest number of words of an entry: a heading without a text says nothing about its head."""
ENTRY_CHARACTERS = 100
"""Number of characters at the beginning of a text that are read for its first words."""
ASK_WHO_WHEN_WHERE = frozenset(
    (  # noqa: SIM905 a list would take forty lines
        "who whom whose when where wer wen wem wessen wann wo woher wohin qui quand ou quien quienes cuando donde chi "
        "dove quem quando onde wanneer waar kto kiedy gdzie кто кого когда где куда откуда"
    ).split()
)
"""First words, without accents, of questions that no title answers, and no entry if they have several heads: "who works
at Acme?" asks for no text that begins with "Acme", but "who is Acme?" does."""
TITLE_CHARACTERS = 200
"""Number of characters at the beginning of a text that are read for its title."""
NUMBERING = re.compile(r"^\W*(?:(?:\d+(?:\.\d+)*|[a-z](?:\.\d+)+|[a-z](?=[.)]))[.):]?\s+)?")
"""The signs and the number before a title: "## ", "6.3 ", "C.3.4 "."""

RUN_CANDIDATES = 20
"""Number of best candidates that are compared."""
RUN_HOLDING_SHARE = 0.4
"""Texts with a smaller share of the best candidate's BM25 are not read."""
RUN_WORDS_MIN = 3
"""Number of words of the shortest run."""
HELD_MIN = 5
"""Smallest h(i) that counts. Fewer words of a short query often lack its subject: "in the attic" of "flow in the
attic"."""
SHARE_MIN = 0.4
"""Smallest r(i) above 0: a text may hold a smaller share of the query's words by chance."""
OTHERS_MIN = 0.5
"""Scores change only if more than this share of the candidates has r(i) = 0. If most candidates hold runs, the runs are
phrases of the whole collection and distinguish no text."""
SENTENCE_END = re.compile(r"(?<=[.!?\n])")
RUN_CHARACTERS_MAX, RUN_QUERY_WORDS_MAX = 5_000, 128
"""Number of characters at the beginning of a text, and number of words at the beginning of a query, that are read."""
PAIRS_MAX = 20_000
"""Largest number of pairs of equal words, one in the query and one in a text. r(i) is 0 for a text with more, such as a
table that repeats a few words: comparing it takes 10 ms, and its runs tell nothing."""


def phrases_in(query: str) -> tuple[list[str], bool]:
    """(phrases, quoted): the phrases of a query that have at least two words, and whether quotation marks mark them."""
    quoted, words = QUOTED.findall(query), query.split()
    content = [at for at, word in enumerate(words) if _has_content(words_in(word))]
    if len(content) > 1:
        words = words[content[0] : content[-1] + 1]
    whole = [" ".join(words)] if len(words) <= PHRASE_WORDS_MAX else []
    phrases = [phrase for phrase in map(words_in, quoted or whole) if len(phrase) > 1]
    return list(map(spaced, phrases))[:PARTS_MAX], bool(quoted)


def content_phrase_in(query: str) -> str:
    """The words of a query without its function words, as one phrase: "true if object is data descriptor" finds "true
    if the object is a data descriptor". "" for fewer than `CONTENT_MIN` or more than `PHRASE_WORDS_MAX` words."""
    words = content_words(query)
    return spaced(words) if CONTENT_MIN <= len(words) <= PHRASE_WORDS_MAX else ""


def keywords_in(query: str, *, among_function_words: bool) -> list[str]:
    """The keywords of a query: its distinct words without function words.

    There are none if the query has a digit, more than `PHRASE_WORDS_MAX` words, or fewer than 2 or more than
    `KEYWORDS_MAX` keywords.

    Args:
        among_function_words: Whether the query may have function words; if False, a query with one has no keywords.
    """
    if len(query.split()) > PHRASE_WORDS_MAX or DIGITS.search(query):
        return []
    words = list(dict.fromkeys(words_in(query)))
    content = [word for word in words if word not in all_function_words()]
    found = content if among_function_words or content == words else []
    return found if 1 < len(found) <= KEYWORDS_MAX else []


def words_if_any(text: str, wanted: Sequence[Sequence[str]]) -> str:
    """The text of words of a text if it may hold all words of a list in `wanted`; else "", to save time."""
    if not wanted:
        return ""
    text = text[:PHRASE_CHARACTERS]
    searched = text.lower()
    if not text.isascii():  # only the parts that are not ASCII go through `words_in`, which is slow
        plain = with_plain_signs(text)
        others = " ".join([part for part in plain.split() if not part.isascii()])
        searched = " ".join([plain.lower(), *words_in(others)])
    for words in wanted:
        if all(map(searched.__contains__, words)):
            return spaced(words_in(text))
    return ""


def phrases_held(texts: Sequence[str], phrases: Sequence[str]) -> Floats:
    """(n, P) for P phrases in n texts of words: 1 - offset of the phrase / length of the text, after `earlier_first`;
    0: the text lacks the phrase."""
    return held_early(
        texts, phrases, lambda words, phrase: 1 - words.find(phrase) / len(words) if phrase in words else 0
    )


def content_phrase_held(texts: Sequence[str], phrase: str) -> Floats:
    """(n, 1) `phrases_held` of a phrase of `content_phrase_in`, in n texts of words without their function words."""
    words, function_words = [f" {word} " for word in phrase.split()], all_function_words()
    texts = [text if all(map(text.__contains__, words)) else "" for text in texts]  # few texts hold all of them
    content = [spaced([word for word in text.split() if word not in function_words]) if text else "" for text in texts]
    return phrases_held(content, [phrase])


def holds_all(words: str, keywords: Sequence[str]) -> bool:
    """Whether a text of words holds each keyword, followed by at most `ENDING` more letters."""
    return all(_begins_a_word(words, keyword) for keyword in keywords)


def _begins_a_word(words: str, keyword: str) -> bool:
    at = words.find(f" {keyword}")
    while at >= 0:
        end = words.index(" ", at + 1)
        if end <= at + 1 + len(keyword) + ENDING:
            return True
        at = words.find(f" {keyword}", end)
    return False


def heads_in(query: str) -> tuple[list[str], bool]:
    """(heads, asks_meaning): the words of a short query with which an entry may begin, and whether the query asks what
    its only head means.

    ([], False) for a query that asks for no entry. If it asks for the meaning of "open", all texts that begin with
    "open" may be the answer, even if they are more than ENTRIES_MAX. If it has a number, only the number is its head:
    the entry of "rule 5" may begin with "5", and "Henry 8" asks for no text that begins with "Henry". A first head such
    as "V" is no Roman number; the later "VIII" of "Henry VIII" is one.
    """
    content = content_words(query)
    heads = [word for word in dict.fromkeys(content) if word not in MEANING]
    words = words_in(query)
    answered_by_no_entry = len(heads) > 1 and not ASK_WHO_WHEN_WHERE.isdisjoint(words[:1])
    if answered_by_no_entry or len(heads) > HEADS_MAX or len(words) > ENTRY_QUERY_WORDS_MAX:
        return [], False
    asks_meaning = len(heads) == 1 and not MEANING.isdisjoint(content)
    numbers = [word for place, word in enumerate(heads) if word.isdecimal() or (place > 0 and word in ROMAN)]
    return numbers or heads, asks_meaning


def entries_held(texts: Sequence[str], heads: Sequence[str], *, asks_meaning: bool, terms_of: TermsOf) -> Floats:
    """(n, H) 1 where a text begins with one of the H heads and is taken for its entry, else 0. For "explain open and
    close", whose heads are "open" and "close":

        text                                       open  close
        "open (path): returns a file object."         1      0
        "close() ends the use of a file."             0      1
        "You can open and close a file twice."        0      0

    Other texts use a head more often than its entry does, so BM25 ranks them first.

    A text of fewer than ENTRY_WORDS_MIN words is no entry. Nor is a text if another one, of more words than the heads,
    has more heads among its first words: "strawberry propagation" asks for "Propagate strawberries in May ...", not for
    "Strawberry is harmless ...", and "port of the database" for "database.port = 4154".
    """
    if not heads:
        return np.zeros((len(texts), 0))
    starts = [text[:ENTRY_CHARACTERS] for text in texts]
    firsts = [_first_word(start, heads) for start in starts]
    held = np.equal.outer(firsts, heads).astype(np.float64)
    if not asks_meaning:
        held *= held.sum(axis=0) <= ENTRIES_MAX
    if len(heads) > 1 and held.any():
        wanted = frozenset(terms_of(" ".join(heads)))
        firsts_of = [words[: len(heads)] if len(words) > len(heads) else () for words in map(words_in, starts)]
        heads_first = np.array([len(wanted.intersection(terms_of(" ".join(words)))) for words in firsts_of])
        held[heads_first < heads_first.max()] = 0.0
    return held


def titles_held(chunks: Sequence[Chunk], title: str, terms_of: TermsOf) -> Floats:
    """(n, 1) 1 where a title of a chunk has the words of `title` and no others, else 0.

    The titles of a chunk are the first line of its text, and the line that `search_text` has before the text: a heading
    from the metadata. Function words, the order of the words and a number before the title do not count: "data frames"
    finds the text below the line "6.3 Data frames". Other texts use the words more often than the section on them does,
    so BM25 ranks them first. A query that asks who, when or where (`ASK_WHO_WHEN_WHERE`) asks for a fact, and has none.
    """
    held = np.zeros((len(chunks), 1))
    left_out = function_words([ENGLISH, language_of(title)])  # "end" is one of Danish: "end repeat" is not "repeat"
    words = content_words(title, left_out)
    if not 0 < len(words) <= PHRASE_WORDS_MAX or not ASK_WHO_WHEN_WHERE.isdisjoint(words_in(title)[:1]):
        return held
    wanted = frozenset(terms_of(" ".join(words)))
    beginnings = [word[:FIRST_LETTERS] for word in words]

    def is_title(line: str) -> bool:
        forms = (content_words(each, left_out) for each in (line, NUMBERING.sub("", line)))
        return any(wanted == frozenset(terms_of(" ".join(each))) for each in forms)

    for at, chunk in enumerate(chunks):
        for text in (chunk.text, *_from_title(chunk)):
            line, newline, below = text[:TITLE_CHARACTERS].lstrip().partition("\n")
            plain = line.lower() if line.isascii() else without_accents(line.lower())
            if newline and all(map(plain.__contains__, beginnings)) and is_title(title_of(f"{plain}\n{below}")):
                held[at] = 1.0
    return held


def _from_title(chunk: Chunk) -> Iterator[str]:
    """The last line that `search_text` has before the text of a chunk, and the beginning of this text; nothing if there
    is no such line, or if it is a line of titles (`PATH_END`), which all passages of a section share."""
    searched = chunk.search_text
    if searched is not None and searched.endswith(f"\n{chunk.text}"):
        before = searched[: -len(chunk.text)]
        if not before.endswith(PATH_END):
            yield f"{before.splitlines()[-1]}\n{chunk.text[:1]}"


def _first_word(start: str, heads: Sequence[str]) -> str:
    """The first word of a text that may be an entry on one of the heads; "" for other texts."""
    if start.isascii() and not any(map(start.lower().__contains__, heads)):  # faster than `words_in`
        return ""
    words = words_in(start)
    return words[0] if len(words) >= ENTRY_WORDS_MIN else ""


def reorder_by_word_runs(best: Best, *, runs: WordRuns, weight: float) -> RankedPool:
    """The ranking with the candidates raised that hold runs of the query's words: a quotation, an error message.

        r(i) = h(i) / number of words of the query; 0 if h(i) < `HELD_MIN` or this quotient is below `SHARE_MIN`
        h(i) = number of words in the runs that candidate i holds in the query's order
        s = the share of candidates with r(i) = 0
        final(i) = score(i) * (1 + weight * s * r(i)) if s > `OTHERS_MIN`, else score(i)

    A run is a sequence of adjacent words of the query, at least `RUN_WORDS_MIN` of them and not all function words.
    Between two runs, words may differ, as in a quotation from memory or in the values of an error message. If the query
    is a question, the questions in a text are not read: they hold the query's words, but not its answer. And r(i) is 0
    if another number stands beside a run: "the bake sale for year 7" if the question is about year 3. Scores below 0
    stay. BM25 does not see the order of words.
    """
    may_hold = near_best(best.pool.lexical, best.rows, RUN_HOLDING_SHARE).tolist()
    r = np.array([runs.share_in(text) if may else 0.0 for text, may in zip(best.texts, may_hold, strict=True)])
    held = best.facts["held"] = int((r > 0).sum())
    others = 1 - held / min(len(best.pool), RUN_CANDIDATES)
    if not held or others <= OTHERS_MIN:
        return best.ranked
    return best.sorted_by(best.scores + np.maximum(best.scores, 0.0) * weight * others * r)


class WordRuns:
    """Finds runs of a query's words in texts."""

    def __init__(self, query: str) -> None:
        words = self._words = words_in(query)[:RUN_QUERY_WORDS_MAX]
        sequences = [words[at : at + RUN_WORDS_MIN] for at in range(len(words) - RUN_WORDS_MIN + 1)]
        self._sequences = list(map(spaced, sequences))
        """All sequences of `RUN_WORDS_MIN` adjacent words, by the index of their first word."""
        self._any_run = any(map(_has_content, sequences))
        self._held_min = max(HELD_MIN, SHARE_MIN * len(words))
        self._is_question = is_question(query)

    def __bool__(self) -> bool:
        """Whether the query has enough words for some text to get r(i) > 0."""
        return self._any_run and len(self._words) >= HELD_MIN

    def share_in(self, text: str) -> float:
        """r(i) of a text, 0..1, by the formula of `reorder_by_word_runs`."""
        text = text[:RUN_CHARACTERS_MAX]
        if self._is_question and "?" in text:
            text = " ".join(sentence for sentence in SENTENCE_END.split(text) if not sentence.endswith("?"))
        words = words_in(text)
        if self._most_held(spaced(words)) < self._held_min:
            return 0.0
        matcher = SequenceMatcher(None, words, self._words, autojunk=False)
        places: dict[str, list[int]] = matcher.b2j  # type: ignore[attr-defined]
        if sum(len(places.get(word, ())) for word in words) > PAIRS_MAX:
            return 0.0
        runs = [run for run in matcher.get_matching_blocks() if run.size >= RUN_WORDS_MIN]
        if self._is_question and any(self._other_number_beside(run, words) for run in runs):
            return 0.0
        held = sum(run.size for run in runs if _has_content(self._words[run.b : run.b + run.size]))
        return held / len(self._words) if held >= self._held_min else 0.0

    def _other_number_beside(self, run: Match, words: Sequence[str]) -> bool:
        """Whether a run of the query and of a text's words stands beside one number in the query and another one in the
        text."""
        asked, said = [*self._words, ""], [*words, ""]  # so that the word at -1 and the one after the last are ""
        beside = ((asked[run.b + at], said[run.a + at]) for at in (-1, run.size))
        return any(one.isdecimal() and other.isdecimal() and one != other for one, other in beside)

    def _most_held(self, joined: str) -> int:
        """An upper bound of h(i) that is faster: number of words in the runs that a text holds in any order."""
        starts = [at for at, sequence in enumerate(self._sequences) if sequence in joined]
        return len({at + nth for at in starts for nth in range(RUN_WORDS_MIN)})


def _has_content(words: Sequence[str]) -> bool:
    return not all_function_words().issuperset(words)
