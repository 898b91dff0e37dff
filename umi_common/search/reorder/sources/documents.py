"""Choose among the chunks of a document that the query names.

"When does the lease with Brandl start?" names a contract and asks for one of its clauses. The first chunk of the
contract holds its name, often twice, and is found first; the clause says "begins on 1 April" and perhaps no word of the
name. So the words that name a document choose the document, and only the other words of the query choose its chunk.

A document is a source with at least two candidates, one of which is among the best `LEADING`. Chats, whose chunks have
several speakers, are no documents. Of the query's terms without function words and `OF_THE_WHOLE`,

    name    those that `NAMED_SHARE` of the document's candidates hold, and those of the title: the first line of its
            first chunk, of at most `TITLE_WORDS` words, that has text below it and does not end as a sentence or clause
    asked   the rest
    value   of a chunk: number of the asked terms that it holds, + 1 if it holds what the query asks for by its form,
            such as a date for "when" (`form_asked`)
    head    the first chunk, if it holds terms of the name, and at least `REPEATED` times as often as the median of the
            document's candidates

If the head is among the best `LEADING`, up to `BEFORE_HEAD` chunks of the document behind it move before it, those with
the largest value first. Their value is at least 1 and not smaller than that of the head.

For example, "when does the lease with Brandl start?" asks for "start" and a date. The head "Lease with Brandl ..."
holds neither, the clause "begins on 1 April 2025" the date: its value is 1, and it moves before the head.

The i-th candidate then gets the score of the former i-th.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from statistics import median

from umi_common.pool import NO_SOURCE
from umi_common.query.answer_forms import form_asked
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.speaker import speaker_of
from umi_common.search.reorder.words import FIRST_LETTERS, TermsOf, content_words, words_in

LEADING = 3
"""Number of best candidates whose sources are read, and among which a head must be; 1 and 5 find nearly as much."""
NAMED_SHARE = 0.8
"""Share of a source's candidates that hold a term of its name; .9 finds as much, .7 less (mail threads)."""
TITLE_WORDS = 25
"""Largest number of words of a title."""
REPEATED = 2
"""How many times as often a head holds the name as the median candidate does. If the title is above each chunk, the
first chunk holds it no more often than the others, and is no head."""
BEFORE_HEAD = 2
"""Largest number of chunks that move before a head."""
OF_THE_WHOLE = frozenset(["about", "abstract", "introduction", "outline", "overview", "summary"])
"""Words that ask for a document as a whole, which its head describes."""
SENTENCE_END = (".", "!", "?", "…", "。", "！", "？", ",", ";", ":")
"""Last characters of a line that is no title."""

Counts = Callable[[str], Counter[str]]
"""A function from a text to the number of occurrences in it of each of the query's terms."""


def reorder_in_documents(best: Best, *, query: str, terms_of: TermsOf) -> RankedPool:
    """The ranking with candidates moved within their sources, as the top of this file describes."""
    order = best.order
    leading = order[:LEADING]
    documents = [(head, values) for head, values in _documents(best, query, terms_of) if head in leading]
    for head, values in documents:
        order = _others_before_head(order, head, values)
    best.facts["documents"] = len(documents)
    return best.in_order(order)


def _documents(best: Best, query: str, terms_of: TermsOf) -> Iterator[tuple[int, dict[int, int]]]:
    """`_head_and_values` of the documents that the query names and that have a head."""
    sources, order = best.pool.source[best.rows].tolist(), best.order
    leading = dict.fromkeys(sources[at] for at in order[:LEADING])
    by_source = [[at for at in order if sources[at] == source] for source in leading if source != NO_SOURCE]
    no_chats = [members for members in by_source if len(members) > 1 and not _is_chat(best, members)]
    if not no_chats:  # reading the terms of the query takes longer
        return
    counts, form = _counts_of(query, terms_of), form_asked(query)
    for members in no_chats:
        if found := _head_and_values(best, members, counts, form):
            yield found


def _is_chat(best: Best, members: Sequence[int]) -> bool:
    return len({speaker_of(best.chunks[at]) for at in members} - {None}) > 1


def _counts_of(query: str, terms_of: TermsOf) -> Counts:
    words = [word for word in dict.fromkeys(content_words(query)) if word not in OF_THE_WHOLE]
    terms = frozenset(term for word in words for term in terms_of(word))
    beginnings = {word[:FIRST_LETTERS] for word in words}
    of_word = cache(lambda word: terms.intersection(terms_of(word)))

    def counts(text: str) -> Counter[str]:
        read = (word for word in words_in(text) if word[:FIRST_LETTERS] in beginnings)
        return Counter(term for word in read for term in of_word(word))

    return counts


def _head_and_values(
    best: Best, members: Sequence[int], counts_of: Counts, form: re.Pattern[str] | None
) -> tuple[int, dict[int, int]] | None:
    """The head of a document, and the value of each of its candidates; None if it has no head.

    Args:
        members: The candidates of the document, best first, as indices of `Best.rows`.
    """
    first = _first_chunk(best, members)
    if first is None:
        return None
    texts = {at: best.chunks[at].indexed_text for at in members}
    counts = {at: counts_of(text) for at, text in texts.items()}
    holding = Counter(term for own in counts.values() for term in own)
    name = {term for term, number in holding.items() if number >= NAMED_SHARE * len(members)}
    name.update(counts_of(title_of(texts[first])))
    occurrences = {at: sum(own[term] for term in name) for at, own in counts.items()}
    if occurrences[first] < max(1, REPEATED * median(occurrences.values())):
        return None
    return first, {
        at: len(own.keys() - name) + (form is not None and form.search(texts[at]) is not None)
        for at, own in counts.items()
    }


def _first_chunk(best: Best, members: Sequence[int]) -> int | None:
    """The member with the smallest position, if it is 0 or 1, as sources are numbered from 0 or 1; else None."""
    positions = best.pool.position[best.rows]
    first = min(members, key=lambda at: int(positions[at]))
    return first if 0 <= positions[first] <= 1 else None


def title_of(text: str) -> str:
    """The title with which a text begins; "" if it begins with none."""
    line, _, below = text.strip().partition("\n")
    is_title = below and len(words_in(line)) <= TITLE_WORDS and not line.rstrip().endswith(SENTENCE_END)
    return line if is_title else ""


def _others_before_head(order: list[int], head: int, values: Mapping[int, int]) -> list[int]:
    """An order of candidates in which the chunks with the largest values are before the head of their document."""
    at = order.index(head)
    may = [each for each in order[at + 1 :] if values.get(each, 0) >= max(1, values[head])]
    moved = sorted(may, key=values.__getitem__, reverse=True)[:BEFORE_HEAD]
    return [*order[:at], *moved, *(each for each in order[at:] if each not in moved)]
