"""Stages that use the source of a candidate: its file name, its title, and the chunks before and after the candidate.

reorder_by_names          raises the chunks of a file whose name the query spells
reorder_in_documents      in a document that the query names, puts chunks that may answer before the first chunk
reorder_below_headings    puts the chunks below a heading directly behind it
reorder_answers           puts the answer to a question of a chat directly behind or before it
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, takewhile
from statistics import median

import numpy as np

from umi_common.pool import NO_POSITION, NO_SOURCE, Ints, Pool
from umi_common.query.answer_forms import form_asked
from umi_common.query.frames import QUESTIONING
from umi_common.query.questions import is_question
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.speaker import named_in, speaker_of, speakers_of
from umi_common.search.reorder.words import FIRST_LETTERS, TermsOf, content_words, words_in
from umi_common.types import Chunk

MAY_SPELL = re.compile(r"[._\d]")
"""A query without any of these characters spells no name, and `reorder_by_names` does not run."""
PATHS = ("file_path", "file_name")
"""Metadata keys of LlamaIndex for the path of a file. The source of its nodes is mostly a random id."""
FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
"""The folders of a path."""
ENDING = re.compile(r"\.[a-z]\w*$")
"""The ending of a file's name in lower case; the whole of a name such as ".env"."""
CODE = re.compile(r"(?=.*[\d_])(?=.*[^\W\d_]).{4,}", re.DOTALL)
"""A name that a query may spell without its ending."""

LEADING = 3
"""Number of best candidates whose sources may be documents, and among which the head of a document must be. 1 and 5
find nearly as much."""
NAMED_SHARE = 0.8
"""Smallest share of a document's candidates that hold each term of its name; .9 finds as much, .7 less."""
TITLE_WORDS = 25
"""Largest number of words of a title."""
REPEATED = 2
"""A head holds the name at least this many times as often as the median candidate of its document. If all chunks begin
with the title, none is a head."""
BEFORE_HEAD = 2
"""Largest number of chunks that move before a head."""
OF_THE_WHOLE = frozenset(["about", "abstract", "introduction", "outline", "overview", "summary"])
"""Words that ask for a document as a whole, which its head describes."""

CountTerms = Callable[[str], Counter[str]]
"""A function from a text to the number of occurrences of each of the query's terms in the text."""

LEADING_READ = 20
"""Number of best candidates whose next chunks are fetched. It is larger than `HEADINGS_MAX`, because these chunks are
chosen before the earlier stages reorder the candidates."""
HEADINGS_MAX = 5
"""Number of best candidates that may be headings."""
HEADING_TERMS = 15
"""Largest number of terms of a heading's indexed text, which may also hold the title of the document."""
BELOW_MAX = 3
"""Largest number of chunks that are put behind one heading."""
LONGER = 2
"""A chunk below a heading has at least this many times as many terms as the heading."""
MARKED = re.compile(r"\W|(?:\w+ |第)?\d|.*[:：]$")
"""Matches a line that begins with a sign, a number, a word and a number ("Day 9") or "第" and a number, or that ends
with a colon."""
PARAGRAPH_TERMS, PARAGRAPH_LONGER = 30, 4
"""The chunk below a line that is not marked has at least 30 terms, and 4 times as many as the line. A splitter leaves a
shorter paragraph in one chunk with its heading."""
SENTENCE_END = (".", "!", "?", "…", "。", "！", "？", ",", ";")
"""Signs with which neither a heading nor a title ends. "?" ends a question of a chat more often than a heading."""
QUESTIONS_MAX = 3
"""Number of best candidates whose answers are raised. With 5, LoCoMo has fewer right messages among ten hits."""
QUESTION_TERMS = 30
"""Largest number of terms of a question."""
TALK_HOURS = 1.0
"""Longest time, in hours, from a question to its answer: later messages begin another talk."""
QUESTION = re.compile(r"[?？؟][\s!！\u200d\ufe0f\u2600-\u27bf\U0001f000-\U0001faff]*$")
"""Matches the end of a question: a question mark, behind it at most "!" and emoji."""
SENTENCE_BREAK = re.compile(r"[.!?]\s+|\n")
"""The characters between two sentences of a message."""
_ASKING = "|".join(sorted(QUESTIONING))
_ENGLISH_WAS = r"was (?:it|he|she|that|this|there|the|your|my|his|her|our|(?-i:[A-Z]\w*))"  # German "was" is "what"
_ASKING_ELSEWHERE = (
    rf"we[rnm]|wessen|wann|wo|woher|wohin|wie|wieviele?|(?!{_ENGLISH_WAS})was"
    r"|welche[mnrs]?|warum|wieso|qui|que|quoi|quand|où|comment|combien|pourquoi|quel(?:le)?s?|qué|quién(?:es)?|cuándo"
    r"|a?dónde|cómo|cuánt[oa]s?|cuál(?:es)?|chi|quando|dove|quant[oaie]|qual[ei]?|quem|onde|como|quais|wat|wanneer|waar"
    r"|hoe|hoeveel|welke?"
)
ASKING_WORD = re.compile(rf"\b(?:{_ASKING}|{_ASKING_ELSEWHERE}|much|many)\b", re.IGNORECASE)
"""A word that asks, in one of seven languages."""
_NAME_BEFORE = r"\A\W*(?:\w[\w ]{0,39}[:,] ){0,2}"
SEEKS_A_FACT = re.compile(
    rf"\b(?:{_ASKING})\b|{_NAME_BEFORE}\W?(?:\w{{1,4}} )?(?:{_ASKING_ELSEWHERE})\b|\b(?:quand|où|quoi|combien)\s*\Z",
    re.IGNORECASE,
)
"""A word of a question that its answer replaces; in other languages than English at the beginning, behind a name or a
preposition, or as the last word. Other questions often tell the fact themselves, and their answers are "ok" or "no":
"Shall we take the ferry at 9?"."""
YES_OR_NO = re.compile(
    rf"{_NAME_BEFORE}(?:is|are|{_ENGLISH_WAS}|were|do|does|did|can|could|will|would|shall|should|may|might|must|has|have|had)\b"
    rf"(?!.*\b(?:know|tell|told|me|us|remember|recall|say|said|see|seen|hear|heard|idea|sure|out|explain|guess)"
    rf" (?:{_ASKING})\b)",
    re.IGNORECASE,
)
"""The beginning of an English question that "yes" or "no" answers: "shall we go when it rains?", but not "do you know
when it rains?"."""
ABOUT_QUESTIONS = re.compile(
    r"\b(?:ask(?:s|ed|ing)?|questions?|frag(?:en?|te|ten|test)|gefragt|demand(?:e|er|é|ait)|pregunt\w+|pergunt\w+"
    r"|chie(?:sto|de)|vraag|vroeg|gevraagd)\b",
    re.IGNORECASE,
)
"""Words of a query that may look for a question: "who asked about the drill?"."""
ABOUT_ANSWERS = re.compile(
    r"\b(?:answer(?:s|ed)?|repl(?:y|ies|ied)|(?:ge)?antwort\w*|répon\w+|contest(?:a|ó|ado|ar)|respond\w+|respuesta"
    r"|rispo\w+|(?:ge)?antwoord\w*)\b",
    re.IGNORECASE,
)
"""Words of a query that looks for an answer."""
ANSWER_WORDS_MIN = 2
"""Smallest number of content words of an answer that tells something itself, unlike "ok" and "yes"."""


def reorder_by_names(best: Best, *, query: str) -> RankedPool:
    """The ranking with a candidate raised if the query spells the name of its file, as in "what does handbook_2023.pdf
    say about parking?". Few chunks of a file hold its name, so BM25 and vectors often rank chunks of other files first.

        final(i) = score(i) + e(i) * the best score
        e(i) = 1 if the query spells the name of candidate i's file, or if text i holds a name that it spells; else 0

    A query spells a name if it holds the name with its ending ("lease.pdf", ".env"). The name without its ending is
    enough if it has at least four characters, among them a letter and a digit or "_" ("ITT-2024-934"). Other names need
    their ending: "will the bill be paid" does not ask for the file bill.md, nor "the U.S. economy" for a page "U.S.".
    """
    lowered = query.lower()
    paths = [source_paths(chunk) for chunk in best.chunks]
    spelled = {path: name for path in {*chain(*paths)} if (name := spelled_name(lowered, path)) is not None}
    if not spelled:
        return best.ranked
    names = {*spelled.values()}
    candidates = zip(paths, best.texts, strict=True)
    e = [not spelled.keys().isdisjoint(own) or any(map(text.lower().__contains__, names)) for own, text in candidates]
    best.facts["named"] = sum(e)
    return best.sorted_by(best.scores + best.scores.max(initial=0.0) * np.array(e, dtype=np.float64))


def source_paths(chunk: Chunk) -> list[str]:
    """The source of a chunk, and the paths in its metadata."""
    stated = [chunk.source, *(chunk.metadata.get(key) for key in PATHS)]
    return [path for path in stated if isinstance(path, str)]


def spelled_name(query: str, path: str) -> str | None:
    """The name of the file at `path` as the query, in lower case, spells it; None: the query does not spell it."""
    file = FOLDERS.sub("", path).lower()
    bare = ENDING.sub("", file)
    if bare not in query:  # true of nearly all files; faster than the patterns below
        return None
    names = [name for name, is_enough in ((file, bare != file), (bare, CODE.fullmatch(bare))) if is_enough]
    return next((name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-]|\.\w)", query)), None)


def reorder_in_documents(best: Best, *, query: str, terms_of: TermsOf) -> RankedPool:
    """The ranking with candidates moved within the documents that the query names.

    "When does the lease with Brandl start?" names a contract and asks for one of its clauses. The first chunk of the
    contract holds its name, often twice, and is found first. The clause says "begins on 1 April", and may hold no word
    of the name. So chunks of one document are compared by the words of the query that do not name the document.

    A document is a source with at least two candidates, one of which is among the best `LEADING`. Chats, whose chunks
    have several speakers, are no documents. The query's terms are those of its words without function words and
    `OF_THE_WHOLE`. For a document:

        name    the query's terms that `NAMED_SHARE` of the candidates or the title (`title_of`) hold
        asked   the query's other terms
        value   of a candidate: number of the asked terms that it holds, + 1 if it holds a text of the form that the
                query asks for, such as a date for "when" (`form_asked`)
        head    the first chunk, if it holds terms of the name, and holds them at least `REPEATED` times as often as the
                median candidate

    If the head is among the best `LEADING`, up to `BEFORE_HEAD` candidates of the document behind it move before it,
    those with the largest value first. Their value is at least 1 and at least that of the head. In the example, the
    head holds neither "start" nor a date, so its value is 0; the clause holds a date, so its value is 1, and it moves
    before the head. The i-th candidate then gets the score of the former i-th.
    """
    order = best.order
    leading = order[:LEADING]
    documents = [(head, values) for head, values in _documents(best, query, terms_of) if head in leading]
    for head, values in documents:
        at = order.index(head)
        better = [each for each in order[at + 1 :] if values.get(each, 0) >= max(1, values[head])]
        moved = sorted(better, key=values.__getitem__, reverse=True)[:BEFORE_HEAD]
        order = [*order[:at], *moved, *(each for each in order[at:] if each not in moved)]
    best.facts["documents"] = len(documents)
    return best.in_order(order)


def _documents(best: Best, query: str, terms_of: TermsOf) -> Iterator[tuple[int, dict[int, int]]]:
    """`_head_and_values` of each document that has a head."""
    sources, order = best.pool.source[best.rows].tolist(), best.order
    leading = dict.fromkeys(sources[at] for at in order[:LEADING])
    by_source = [[at for at in order if sources[at] == source] for source in leading if source != NO_SOURCE]
    documents = [members for members in by_source if len(members) > 1 and not _is_chat(best, members)]
    if documents:  # else the terms of the query are not needed
        count_terms, form = _term_counter(query, terms_of), form_asked(query)
        for members in documents:
            if found := _head_and_values(best, members, count_terms, form):
                yield found


def _is_chat(best: Best, members: Sequence[int]) -> bool:
    return len({speaker_of(best.chunks[at]) for at in members} - {None}) > 1


def _term_counter(query: str, terms_of: TermsOf) -> CountTerms:
    """The function that counts, in a text, the query's terms without those of function words and `OF_THE_WHOLE`."""
    words = [word for word in dict.fromkeys(content_words(query)) if word not in OF_THE_WHOLE]
    terms = frozenset(term for word in words for term in terms_of(word))
    beginnings = {word[:FIRST_LETTERS] for word in words}
    of_word = cache(lambda word: terms.intersection(terms_of(word)))

    def count_terms(text: str) -> Counter[str]:
        read = (word for word in words_in(text) if word[:FIRST_LETTERS] in beginnings)
        return Counter(term for word in read for term in of_word(word))

    return count_terms


def _head_and_values(
    best: Best, members: Sequence[int], count_terms: CountTerms, form: re.Pattern[str] | None
) -> tuple[int, dict[int, int]] | None:
    """The head of a document, and the value of each of its candidates; None if it has no head.

    Args:
        members: The candidates of the document, best first, as indices of `Best.rows`.
    """
    positions = best.pool.position[best.rows]
    first = min(members, key=lambda at: int(positions[at]))
    if not 0 <= positions[first] <= 1:  # not the first chunk: positions begin at 0 or 1
        return None
    texts = {at: best.chunks[at].indexed_text for at in members}
    counts = {at: count_terms(text) for at, text in texts.items()}
    holding = Counter(term for own in counts.values() for term in own)
    name = {term for term, number in holding.items() if number >= NAMED_SHARE * len(members)}
    name.update(count_terms(title_of(texts[first])))
    occurrences = {at: sum(own[term] for term in name) for at, own in counts.items()}
    if occurrences[first] < max(1, REPEATED * median(occurrences.values())):
        return None
    return first, {
        at: len(own.keys() - name) + (form is not None and form.search(texts[at]) is not None)
        for at, own in counts.items()
    }


def title_of(text: str) -> str:
    """The title of a text: its first line, of at most `TITLE_WORDS` words, if text follows and the line does not end as
    a sentence or clause; else ""."""
    line, _, below = text.strip().partition("\n")
    is_title = below and len(words_in(line)) <= TITLE_WORDS and not line.rstrip().endswith((*SENTENCE_END, ":"))
    return line if is_title else ""


def rows_below(pool: Pool, rows: Ints) -> dict[int, list[int]]:
    """By each of these rows that is short enough for a heading: the next rows of its source that may be below it."""
    return _next_rows(pool, rows, HEADING_TERMS, BELOW_MAX, hours=0.0, longer=LONGER)


def rows_after(pool: Pool, rows: Ints) -> dict[int, list[int]]:
    """By each of these rows that is short enough for a question: the next row of its source, if it may answer."""
    return _next_rows(pool, rows, QUESTION_TERMS, 1, hours=TALK_HOURS, longer=0)


def _next_rows(pool: Pool, rows: Ints, terms_max: int, most: int, *, hours: float, longer: int) -> dict[int, list[int]]:
    """By each of these rows that has at most `terms_max` terms: the rows at the next positions of its source, at most
    `most`, up to the first position without a fitting row. Rows without any are left out.

    A fitting row is at most `hours` later than the given one, or neither has a time, and has at least `longer` times as
    many terms.
    """
    source, position = pool.source, pool.position
    rows = rows[(pool.length[rows] <= terms_max) & (source[rows] != NO_SOURCE) & (position[rows] != NO_POSITION)]
    distance = position - position[rows, np.newaxis]
    found: dict[int, list[int]] = {}
    at_rows, later = ((source == source[rows, np.newaxis]) & (distance > 0) & (distance <= most)).nonzero()
    nearest_first = distance[at_rows, later].argsort(kind="stable")
    for at, row in zip(at_rows[nearest_first].tolist(), later[nearest_first].tolist(), strict=True):
        first = int(rows[at])
        following, ages = found.get(first, []), pool.age_hours[[first, row]]
        in_time = 0.0 <= ages[0] - ages[1] <= hours or np.isnan(ages).all()
        is_next = distance[at, row] == len(following) + 1
        if is_next and in_time and pool.length[row] >= longer * pool.length[first]:
            found[first] = [*following, row]
    return found


def _with_next(
    best: Best, count: int, next_rows: Callable[[Pool, Ints], dict[int, list[int]]]
) -> Iterator[tuple[int, list[int]]]:
    """(index, indices of the next rows) of each of the best `count` candidates that has next rows among the candidates,
    best first."""
    first = best.ranked.order[:count]
    candidates, found = set(best.rows.tolist()), next_rows(best.pool, first)
    for row in first.tolist():
        if rows := [each for each in found.get(row, ()) if each in candidates]:
            (index, *others) = best.indices_of(np.array([row, *rows]))
            yield index, others


def reorder_below_headings(best: Best) -> RankedPool:
    """The ranking with the chunks below a heading directly behind it (`Best.put_beside`).

    A splitter leaves a heading alone in a chunk if the paragraph below it is longer than a chunk. For "where did we
    sleep on day 9?", the heading then matches best, and the text that answers lacks the day:

        4  Day 9, Tuesday                                        the heading
        5  We rode 61 kilometres to Hexley, most of it ...       below it
        6  For the night we found a hut at the weir, and ...     below it
        7  Day 10, Wednesday                                     the next heading

    A heading is one of the best `HEADINGS_MAX` candidates: one line of at most `HEADING_TERMS` terms that does not
    begin with a small letter and ends with no sign of `SENTENCE_END`. The chunks below it are the next ones of its
    source, at most `BELOW_MAX`. Each has the time of the heading and at least `LONGER` times as many terms. From the
    second on, another such line ends them. A line that is not `MARKED` may also be a note or a message of a chat. It is
    a heading only if it has no speaker ("Mira: Lisbon"), and if the next chunk has at least `PARAGRAPH_TERMS` terms and
    `PARAGRAPH_LONGER` times as many as the line.
    """
    lengths = best.pool.length[best.rows].tolist()
    pairs: list[tuple[int, int]] = []
    for heading, (first, *others) in _with_next(best, HEADINGS_MAX, rows_below):
        if is_heading(best.chunks[heading], lengths[heading], lengths[first]):
            in_section = takewhile(lambda at: not _may_be_heading(best.chunks[at].text, lengths[at]), others)
            pairs += ((heading, each) for each in (first, *in_section))
    return best.put_beside(pairs)


def is_heading(chunk: Chunk, terms: int, terms_below: int) -> bool:
    """Whether a chunk reads as a heading of the next one, by the conditions of `reorder_below_headings`.

    Args:
        terms: Number of terms of the chunk.
        terms_below: Number of terms of the next chunk.
    """
    if not _may_be_heading(chunk.text, terms):
        return False
    is_paragraph = terms_below >= max(PARAGRAPH_TERMS, PARAGRAPH_LONGER * terms)
    return MARKED.match(chunk.text.strip()) is not None or (is_paragraph and speaker_of(chunk) is None)


def _may_be_heading(text: str, terms: int) -> bool:
    line = text.strip()
    one_line = terms <= HEADING_TERMS and "\n" not in line
    return one_line and not line[:1].islower() and not line.endswith(SENTENCE_END)


def reorder_answers(best: Best, *, query: str, terms_of: TermsOf) -> RankedPool:
    """The ranking with each answer directly behind or before its question (`Best.put_beside`).

    "Sage green, two coats" answers "which paint did you use for the kitchen?" and holds none of its words. The stage
    `neighbours` also raises chunks beside a good one, but changes nothing if adjacent chunks of a corpus are no more
    alike than others, as in a chat of many short talks.

    A question is one of the best `QUESTIONS_MAX` candidates, has at most `QUESTION_TERMS` terms, and matches
    `QUESTION`. The answer is the next chunk of its source, and no question. It is at most `TALK_HOURS` later, or
    neither has a time. It has no speaker (an FAQ), or another speaker than the question; if the query names speakers,
    one of them.

    A question is mostly found by its words, and its answer is sought. So the answer comes before the question if the
    query holds a word of `ABOUT_ANSWERS`. It also does if the query is a question, too, and the chat's question lacks
    some of the query's terms, in each of these cases:

    - The query names the speaker of the answer and not that of the question. The answer has `ANSWER_WORDS_MIN` content
      words, or the question asks who, what, when and the like (`SEEKS_A_FACT`).
    - The question asks so, and has at least as many of the query's terms in its last sentence as in those before, and
      at least one: "We met in Rome. And you?" tells where they met.

    The terms are those of content words that name no speaker and do not ask. If the query has words of both
    `ABOUT_ANSWERS` and `ABOUT_QUESTIONS`, only the first of them counts: "who asked if we replied?" looks for a
    question. For a query that looks for a question, each answer comes behind its question.
    """
    chunks = best.chunks
    next_of = _with_next(best, QUESTIONS_MAX, rows_after)
    pairs = [(one, after) for one, (after,) in next_of if asks(chunks[one]) and not asks(chunks[after])]
    if not pairs:
        return best.ranked
    speakers = speakers_of(chunks)
    named = named_in(query, {name for name in speakers if name is not None})

    def answers(question: int, reply: int) -> bool:
        speaker = speakers[reply]
        return speaker is None or (speaker != speakers[question] and (not named or speaker in named))

    pairs = [pair for pair in pairs if answers(*pair)]
    about_answer, about_question = ABOUT_ANSWERS.search(query), ABOUT_QUESTIONS.search(query)
    if about_answer and (about_question is None or about_answer.start() < about_question.start()):
        return best.put_beside(pairs, {after for _, after in pairs})
    if not is_question(query) or about_question:
        return best.put_beside(pairs)
    names = {word for words in named.values() for word in words.split()}
    words = content_words(ASKING_WORD.sub(" ", query))
    sought = frozenset(chain.from_iterable(terms_of(word) for word in words if word not in names))

    def is_sought(question: int, reply: int) -> bool:
        sentences = SENTENCE_BREAK.split(QUESTION.sub("", chunks[question].text))
        *told, asked = [sought.intersection(terms_of(each)) for each in sentences]
        before = frozenset[str]().union(*told)
        seeks = SEEKS_A_FACT.search(sentences[-1]) is not None and YES_OR_NO.match(sentences[-1]) is None
        if asked | before == sought:
            return False
        if speakers[reply] in named and speakers[question] not in named and (seeks or _is_told(chunks[reply].text)):
            return True
        return seeks and len(asked) >= max(1, len(before))

    return best.put_beside(pairs, {after for one, after in pairs if is_sought(one, after)})


def _is_told(answer: str) -> bool:
    """Whether an answer tells a fact by itself, behind the name of its speaker."""
    return len(content_words(answer.partition(": ")[2] or answer)) >= ANSWER_WORDS_MIN


def asks(chunk: Chunk) -> bool:
    """Whether a chunk ends as a question."""
    return QUESTION.search(chunk.text) is not None
