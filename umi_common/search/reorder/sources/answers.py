"""Put the answer in a chat directly behind its question.

"Sage green, two coats" answers "which paint did you use for the kitchen?" and holds none of its words, so a search may
find the question alone. The stage `neighbours`, which raises chunks beside a good one, does not help in a chat of many
short talks: it changes nothing if adjacent chunks of a corpus are no more alike than others.

The question is one of the best `QUESTIONS_MAX` candidates, has at least the share `SCORE` of the best score and at most
`QUESTION_TERMS` terms, and ends as `QUESTION` says. The answer is the next chunk of its source, and no question. It is
at most `TALK_HOURS` later, or neither has a time. It has another speaker, the one whom the query names if it names one;
texts without speakers, such as those of an FAQ, count as well. `Best.put_behind` computes the new scores.
"""

from __future__ import annotations

import re

import numpy as np

from umi_common.pool import NO_POSITION, NO_SOURCE, Ints, Pool
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.speaker import named_in, speaker_of
from umi_common.types import Chunk

QUESTIONS_MAX = 3
"""Number of best candidates whose answers are raised. With 5, LoCoMo has fewer right messages among ten hits."""
QUESTIONS_READ = 20
"""Number of best candidates whose next chunk is fetched. These chunks are chosen before the earlier stages reorder the
candidates, so there are more than `QUESTIONS_MAX`."""
SCORE = 0.5
"""Smallest share of the best score that a question has."""
QUESTION_TERMS = 30
"""Largest number of terms of a question."""
TALK_HOURS = 1.0
"""Longest time, in hours, from a question to its answer: later messages begin another talk."""
QUESTION = re.compile(r"[?？؟][\s!！\u200d\ufe0f\u2600-\u27bf\U0001f000-\U0001faff]*$")
"""Matches the end of a question: a question mark, behind it at most "!" and emoji."""


def rows_after(pool: Pool, rows: Ints) -> dict[int, list[int]]:
    """By each of these rows that is short enough for a question: the next row of its source whose time allows that it
    answers. Of several such rows at one position, it is the first."""
    source, position, age = pool.source, pool.position, pool.age_hours
    rows = rows[(pool.length[rows] <= QUESTION_TERMS) & (source[rows] != NO_SOURCE) & (position[rows] != NO_POSITION)]
    follows = (source == source[rows, np.newaxis]) & (position == position[rows, np.newaxis] + 1)
    found: dict[int, list[int]] = {}
    for question, answer in zip(*(each.tolist() for each in follows.nonzero()), strict=True):
        row = int(rows[question])
        later = age[row] - age[answer]
        if 0 <= later <= TALK_HOURS or (np.isnan(age[row]) and np.isnan(age[answer])):
            found.setdefault(row, [answer])
    return found


def reorder_answers(best: Best, *, query: str) -> RankedPool:
    """The ranking with each answer directly behind its question."""
    chunks = best.chunks
    leading = [(question, reply) for question, (reply,) in best.leading(QUESTIONS_MAX, SCORE, rows_after)]
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
