"""Choose among the chunks of a document that the query names.

"When does the lease with Brandl start?" names a contract and asks for one of its clauses. The first chunk of the
contract holds its name, often twice, and is found first; the clause says "begins on 1 April" and perhaps no word of the
name. So the words that name a document choose the document, and only the other words of the query choose its chunk.

A document is a source with at least `CHUNKS_MIN` candidates, one of which is among the best `LEADING`. Chats, whose
chunks have several speakers, are no documents. Of the query's terms without function words and `OF_THE_WHOLE`,

    name    those that `NAMED_SHARE` of the document's candidates hold, and those of the title: the first line of its
            first chunk, of at most `TITLE_WORDS` words, that has text below it and does not end as a sentence or clause
    asked   the rest
    value   of a chunk: number of the asked terms that it holds, + 1 if it holds what the query asks for by its form,
            such as a date for "when" (`form_asked`)
    head    the first chunk, if it holds terms of the name, and at least `REPEATED` times as often as the median of the
            document's candidates

Nothing changes if there is no name, or neither an asked term nor a form. Else candidates move within their source:

    1. If the head is among the best `LEADING`, up to `BEFORE_HEAD` chunks behind it move before it, those with the
       largest value first. Their value is at least 1 and not smaller than that of the head.
    2. A chunk that holds the form passes the candidate directly before it if that is of the same document and does not
       hold the form, and if the chunk holds the same asked terms or more, and has at least `NEAR` of its score. A head
       passes nothing.

For example, "when does the lease with Brandl start?" asks for "start" and a date. The head "Lease with Brandl ..."
holds neither, the clause "begins on 1 April 2025" the date: its value is 1, and it moves before the head.

The i-th candidate then gets the score of the former i-th.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from umi_common.pool import NO_SOURCE
from umi_common.query.answer_forms import form_asked
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best, inserted
from umi_common.search.reorder.speaker import speaker_of
from umi_common.search.reorder.words import FIRST_LETTERS, TermsOf, content_words, words_in

LEADING = 3
"""Number of best candidates whose sources are read, and among which a head must be; 1 and 5 find nearly as much."""
CHUNKS_MIN = 3
"""Smallest number of candidates of a document."""
NAMED_SHARE = 0.8
"""Share of a source's candidates that hold a term of its name; .9 finds as much, .7 less (mail threads)."""
TITLE_WORDS = 25
"""Largest number of words of a title."""
REPEATED = 2
"""How many times as often a head holds the name as the median candidate does. If the title is above each chunk, the
first chunk holds it no more often than the others, and is no head."""
BEFORE_HEAD = 2
"""Largest number of chunks that move before a head."""
NEAR = 0.5
"""Smallest share of the score of the chunk that is passed; .3 and .7 find as much."""
OF_THE_WHOLE = frozenset(["about", "abstract", "introduction", "outline", "overview", "summary"])
"""Words that ask for a document as a whole, which its head describes."""
SENTENCE_END = (".", "!", "?", "…", "。", "！", "？", ",", ";", ":")
"""Last characters of a line that is no title."""


class Terms:
    """Counts the terms of a query in texts."""

    def __init__(self, query: str, terms_of: TermsOf) -> None:
        words = [word for word in dict.fromkeys(content_words(query)) if word not in OF_THE_WHOLE]
        self.of_query = frozenset(term for word in words for term in terms_of(word))
        self._beginnings = {word[:FIRST_LETTERS] for word in words}
        self._of_word = cache(lambda word: self.of_query.intersection(terms_of(word)))

    def counts(self, text: str) -> Counter[str]:
        """By term of the query, its number of occurrences in a text, if there are any."""
        found: Counter[str] = Counter()
        for word in words_in(text):
            if word[:FIRST_LETTERS] in self._beginnings:
                found.update(self._of_word(word))
        return found


@dataclass(frozen=True)
class Document:
    """The candidates of one source, compared by the definitions at the top of this file."""

    head: int | None
    asked: Mapping[int, frozenset[str]]
    """The asked terms that each candidate of the source holds, best first. Candidates are indices of `Best.rows`."""
    of_form: frozenset[int]
    """The candidates that hold what the query asks for by its form."""

    def value(self, candidate: int) -> int:
        """The value of a candidate."""
        return len(self.asked[candidate]) + (candidate in self.of_form)


def reorder_in_documents(best: Best, *, query: str, terms_of: TermsOf) -> RankedPool:
    """The ranking with candidates moved within their sources, as the top of this file describes."""
    scores, order = best.scores.tolist(), best.order
    leading = order[:LEADING]
    documents = list(_documents(best, query, terms_of))
    for document in documents:
        if document.head in leading:
            order = _others_before_head(order, document, document.head)
        if document.of_form:
            order = _of_form_before_others(order, document, scores)
    best.facts["documents"] = len(documents)
    return best.in_order(order)


def _documents(best: Best, query: str, terms_of: TermsOf) -> Iterator[Document]:
    """The documents that the query names, of the best candidates."""
    sources, order = best.pool.source[best.rows].tolist(), best.order
    leading = dict.fromkeys(sources[at] for at in order[:LEADING])
    by_source = [[at for at in order if sources[at] == source] for source in leading if source != NO_SOURCE]
    several = [members for members in by_source if len(members) >= CHUNKS_MIN]
    if not several:  # reading the terms of the query takes longer
        return
    terms, form = Terms(query, terms_of), form_asked(query)
    if len(terms.of_query) + (form is not None) < 2:  # no name, or nothing beside it
        return
    for members in several:
        speakers = {speaker_of(best.chunks[at]) for at in members}
        if len(speakers - {None}) < 2 and (document := _named(best, members, terms, form)):
            yield document


def _named(best: Best, members: Sequence[int], terms: Terms, form: re.Pattern[str] | None) -> Document | None:
    """The document of these members, the candidates of a source; None if the query does not name it, or asks for
    nothing else."""
    texts = {at: best.chunks[at].indexed_text for at in members}
    counts = {at: terms.counts(text) for at, text in texts.items()}
    holding = Counter(term for own in counts.values() for term in own)
    name = {term for term, number in holding.items() if number >= NAMED_SHARE * len(members)}
    first = _first_chunk(best, members)
    if first is not None:
        name.update(terms.counts(title_of(texts[first])))
    if not name or not (terms.of_query - name or form):
        return None
    occurrences = {at: sum(own[term] for term in name) for at, own in counts.items()}
    is_head = first is not None and occurrences[first] >= max(1, REPEATED * median(occurrences.values()))
    return Document(
        head=first if is_head else None,
        asked={at: frozenset(own.keys() - name) for at, own in counts.items()},
        of_form=frozenset(at for at, text in texts.items() if form is not None and form.search(text)),
    )


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


def _others_before_head(order: list[int], document: Document, head: int) -> list[int]:
    """An order of candidates after the first rule."""
    at, value = order.index(head), document.value
    may = [each for each in order[at + 1 :] if each in document.asked and value(each) >= max(1, value(head))]
    moved = sorted(may, key=value, reverse=True)[:BEFORE_HEAD]
    return [*order[:at], *moved, *(each for each in order[at:] if each not in moved)]


def _of_form_before_others(order: list[int], document: Document, scores: Sequence[float]) -> list[int]:
    """An order of candidates after the second rule."""
    asked, of_form = document.asked, document.of_form

    def passes(one: int, other: int) -> bool:
        if one == document.head or one not in of_form or other in of_form or other not in asked:
            return False
        return asked[one] >= asked[other] and scores[one] >= NEAR * scores[other]

    return inserted(order, passes)
