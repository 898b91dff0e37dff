"""Put the chunks below a heading directly behind it.

A splitter leaves a heading alone in a chunk if the paragraph below it is longer than a chunk. For "where did we sleep
on day 9?", the heading of this source then matches best, and the text below it, which answers, lacks the day:

    4  Day 9, Tuesday                                        the heading
    5  We rode 61 kilometres to Hexley, most of it ...       below it
    6  For the night we found a hut at the weir, and ...     below it
    7  Day 10, Wednesday                                     the next heading

The heading is one of the best `HEADINGS_MAX` candidates, and has at least the share `SCORE` of the best score. It is
one line of at most `HEADING_TERMS` terms that begins with no small letter and ends no sentence.

The chunks below it are the next ones of its source, at most `BELOW_MAX`. Each has the time of the heading and at least
`LONGER` times as many terms. After the first of them, the next line as described above ends them.

A line that is not `MARKED` may also be a note or a message of a chat. It is a heading only if it has no speaker ("Mira:
Lisbon"), and if the next chunk has at least `PARAGRAPH_TERMS` terms and `PARAGRAPH_LONGER` times as many as the line.
`Best.put_behind` computes the new scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

import numpy as np

from umi_common.pool import NO_POSITION, NO_SOURCE, Ints, Pool
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.speaker import speaker_of
from umi_common.types import Chunk

HEADINGS_MAX = 5
"""Number of best candidates that may be a heading."""
HEADINGS_READ = 20
"""Number of best candidates for which the chunks below are fetched. These chunks are chosen before the earlier stages
reorder the candidates, so there are more than `HEADINGS_MAX`."""
HEADING_TERMS = 15
"""Largest number of terms of a heading's indexed text, which may also hold the title of the document."""
SCORE = 0.5
"""Smallest share of the best score that a heading has."""
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


def rows_below(pool: Pool, rows: Ints) -> dict[int, list[int]]:
    """By each of these rows that is short enough for a heading: the next rows of its source, as far as their lengths
    and times allow that they are below it."""
    source, position, length, age = pool.source, pool.position, pool.length, pool.age_hours
    rows = rows[(length[rows] <= HEADING_TERMS) & (source[rows] != NO_SOURCE) & (position[rows] != NO_POSITION)]
    found: dict[int, list[int]] = {}
    for heading in rows.tolist():
        distance = np.where(source == source[heading], position - position[heading], 0)
        near = np.flatnonzero((distance > 0) & (distance <= BELOW_MAX))
        below: list[int] = []
        for row in near[np.argsort(distance[near])].tolist():
            same_time = age[heading] == age[row] or (np.isnan(age[heading]) and np.isnan(age[row]))
            if distance[row] != len(below) + 1 or not same_time or length[row] < LONGER * length[heading]:
                break
            below.append(row)
        if below:
            found[heading] = below
    return found


def reorder_below_headings(best: Best) -> RankedPool:
    """The ranking with the chunks below a heading directly behind it."""
    return best.put_behind(_below_headings(best))


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


def _below_headings(best: Best) -> Iterator[tuple[int, int]]:
    """Indices of (heading, chunk below it), for each heading and each chunk below it."""
    lengths = best.pool.length[best.rows].tolist()
    for heading, below in best.leading(HEADINGS_MAX, SCORE, rows_below):
        if is_heading(best.chunks[heading], lengths[heading], lengths[below[0]]):
            yield heading, below[0]
            in_section = takewhile(lambda at: not _may_be_heading(best.chunks[at].text, lengths[at]), below[1:])
            yield from ((heading, each) for each in in_section)
