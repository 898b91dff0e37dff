"""Put the next chunks of a source directly behind a candidate that leads to them: a heading, or a question in a chat.

A splitter leaves a heading alone in a chunk if the paragraph below it is longer than a chunk. For "where did we sleep
on day 9?", the heading of this source then matches best, and the text below it, which answers, lacks the day:

    4  Day 9, Tuesday                                        the heading
    5  We rode 61 kilometres to Hexley, most of it ...       below it
    6  For the night we found a hut at the weir, and ...     below it
    7  Day 10, Wednesday                                     the next heading

"Sage green, two coats" answers "which paint did you use for the kitchen?" and holds none of its words, either. The
stage `neighbours`, which raises chunks beside a good one, does not help in a chat of many short talks: it changes
nothing if adjacent chunks of a corpus are no more alike than others.

A heading is one of the best `HEADINGS_MAX` candidates, a question one of the best `QUESTIONS_MAX`. `Best.put_behind`
computes the new scores.

A heading is one line of at most `HEADING_TERMS` terms that begins with no small letter and ends no sentence. The chunks
below it are the next ones of its source, at most `BELOW_MAX`. Each has the time of the heading and at least `LONGER`
times as many terms. After the first of them, the next line as described above ends them. A line that is not `MARKED`
may also be a note or a message of a chat. It is a heading only if it has no speaker ("Mira: Lisbon"), and if the next
chunk has at least `PARAGRAPH_TERMS` terms and `PARAGRAPH_LONGER` times as many as the line.

A question has at most `QUESTION_TERMS` terms, and ends as `QUESTION` says. The answer is the next chunk of its source,
and no question. It is at most `TALK_HOURS` later, or neither has a time. It has another speaker, the one whom the query
names if it names one; texts without speakers, such as those of an FAQ, count as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile

import numpy as np

from umi_common.pool import NO_POSITION, NO_SOURCE, Ints, Pool
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.speaker import named_in, speaker_of
from umi_common.types import Chunk

LEADING_READ = 20
"""Number of best candidates whose next chunks are fetched. These chunks are chosen before the earlier stages reorder
the candidates, so there are more than `HEADINGS_MAX`."""
HEADINGS_MAX = 5
"""Number of best candidates that may be a heading."""
HEADING_TERMS = 15
"""Largest number of terms of a heading's indexed text, which may also hold the title of the document."""
BELOW_MAX = 3
"""Largest number of chunks that are put behind one heading."""
LONGER = 2
"""A chunk below a heading has at least so many times the terms of the heading."""
MARKED = re.compile(r"\W|(?:\w+ |第)?\d|.*[:：]$")
"""Matches a line that begins with a sign, a number, a word and a number ("Day 9") or "第" and a number, or that ends
with a colon."""
PARAGRAPH_TERMS, PARAGRAPH_LONGER = 30, 4
"""The chunk below a line that is not marked has at least 30 terms, and 4 times as many as the line. A splitter leaves a
shorter paragraph in one chunk with its heading."""
SENTENCE_END = (".", "!", "?", "…", "。", "！", "？", ",", ";")
"""Signs with which no heading ends. "?" ends a question of a chat more often than a heading."""
QUESTIONS_MAX = 3
"""Number of best candidates whose answers are raised. With 5, LoCoMo has fewer right messages among ten hits."""
QUESTION_TERMS = 30
"""Largest number of terms of a question."""
TALK_HOURS = 1.0
"""Longest time, in hours, from a question to its answer: later messages begin another talk."""
QUESTION = re.compile(r"[?？؟][\s!！\u200d\ufe0f\u2600-\u27bf\U0001f000-\U0001faff]*$")
"""Matches the end of a question: a question mark, behind it at most "!" and emoji."""


def rows_below(pool: Pool, rows: Ints) -> dict[int, list[int]]:
    """By each of these rows that is short enough for a heading: the next rows of its source that may be below it."""
    return _next_rows(pool, rows, HEADING_TERMS, BELOW_MAX, _may_be_below)


def rows_after(pool: Pool, rows: Ints) -> dict[int, list[int]]:
    """By each of these rows that is short enough for a question: the next row of its source, if it may answer."""
    return _next_rows(pool, rows, QUESTION_TERMS, 1, _may_answer)


def _next_rows(
    pool: Pool, rows: Ints, terms_max: int, most: int, may_be_next: Callable[[Pool, int, int], bool]
) -> dict[int, list[int]]:
    """By each of these rows that has at most `terms_max` terms: up to `most` rows at the next positions of its source,
    until none at a position `may_be_next`, by lengths and times. Rows without any are left out."""
    source, position = pool.source, pool.position
    rows = rows[(pool.length[rows] <= terms_max) & (source[rows] != NO_SOURCE) & (position[rows] != NO_POSITION)]
    distance = position - position[rows, np.newaxis]
    found: dict[int, list[int]] = {}
    at_rows, later = ((source == source[rows, np.newaxis]) & (distance > 0) & (distance <= most)).nonzero()
    nearest_first = distance[at_rows, later].argsort(kind="stable")
    for at, row in zip(at_rows[nearest_first].tolist(), later[nearest_first].tolist(), strict=True):
        lead = int(rows[at])
        following = found.get(lead, [])
        if distance[at, row] == len(following) + 1 and may_be_next(pool, lead, row):
            found[lead] = [*following, row]
    return found


def _may_be_below(pool: Pool, heading: int, row: int) -> bool:
    same_time = pool.age_hours[heading] == pool.age_hours[row] or _without_times(pool, heading, row)
    return same_time and bool(pool.length[row] >= LONGER * pool.length[heading])


def _may_answer(pool: Pool, question: int, row: int) -> bool:
    later = pool.age_hours[question] - pool.age_hours[row]
    return bool(0 <= later <= TALK_HOURS) or _without_times(pool, question, row)


def _without_times(pool: Pool, one: int, other: int) -> bool:
    return bool(np.isnan(pool.age_hours[one]) and np.isnan(pool.age_hours[other]))


def _leading(
    best: Best, count: int, next_rows: Callable[[Pool, Ints], dict[int, list[int]]]
) -> Iterator[tuple[int, list[int]]]:
    """(index, indices of its next rows) of those of the best `count` candidates, best first, that have next rows among
    the candidates."""
    first = best.ranked.order[:count]
    candidates, found = set(best.rows.tolist()), next_rows(best.pool, first)
    for row in first.tolist():
        if rows := [each for each in found.get(row, ()) if each in candidates]:
            (index, *others) = best.indices_of(np.array([row, *rows]))
            yield index, others


def reorder_below_headings(best: Best) -> RankedPool:
    """The ranking with the chunks below a heading directly behind it."""
    return best.put_behind(_below_headings(best))


def _below_headings(best: Best) -> Iterator[tuple[int, int]]:
    """Indices of (heading, chunk below it), for each heading and each chunk below it."""
    lengths = best.pool.length[best.rows].tolist()
    for heading, below in _leading(best, HEADINGS_MAX, rows_below):
        if is_heading(best.chunks[heading], lengths[heading], lengths[below[0]]):
            yield heading, below[0]
            in_section = takewhile(lambda at: not _may_be_heading(best.chunks[at].text, lengths[at]), below[1:])
            yield from ((heading, each) for each in in_section)


def is_heading(chunk: Chunk, terms: int, terms_below: int) -> bool:
    """Whether a chunk reads as a heading of the next one, by the conditions at the top of this file.

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


def reorder_answers(best: Best, *, query: str) -> RankedPool:
    """The ranking with each answer directly behind its question."""
    chunks = best.chunks
    leading = [(question, reply) for question, (reply,) in _leading(best, QUESTIONS_MAX, rows_after)]
    pairs = [(question, reply) for question, reply in leading if asks(chunks[question]) and not asks(chunks[reply])]
    if not pairs:
        return best.ranked
    speakers = [speaker_of(chunk) for chunk in chunks]
    named = named_in(query, {name for name in speakers if name is not None})

    def answers(question: int, reply: int) -> bool:
        speaker = speakers[reply]
        return speaker is None or (speaker != speakers[question] and (not named or speaker in named))

    return best.put_behind(pair for pair in pairs if answers(*pair))


def asks(chunk: Chunk) -> bool:
    """Whether a chunk ends as a question."""
    return QUESTION.search(chunk.text) is not None
