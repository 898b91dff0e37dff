"""Find the passage of a text that answers the query best. A text that is too long for a context is cut around it.

A passage is a sentence or a line. For each passage p of the text and each term t of the query:

    idf(t)    = log(1 + number of passages / number of passages that hold t)
    own(p)    = sum of weight(t) * idf(t) over the terms t that p holds; 0 if p is in the title
    beside(p) = sum of weight(t) * idf(t) over the other terms t that p, the passage before or after it, or the title
                holds
    score(p)  = own(p) + BESIDE * beside(p)

A title says what the text is about, and the answer is below it. It is the first line of the text, if a blank line
follows it and it ends with no sign such as "." or ":"; of a mail, it is all headers.

weight(t) is the number of occurrences of t in the questions of the query, or in all of it, if it holds no question
beside other text. If t occurs only in the other text, or in the messages before a follow-up question, weight(t) is
AROUND times its number of occurrences there. The frame of a query ("can you tell me") and a part that it excludes do
not count, nor do function words, unless the query has no other words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from math import log
from typing import Any

from umi_common.config import AnalyzerConfig
from umi_common.context.assemble import PassageOf, assemble
from umi_common.context.budget import AssembledContext
from umi_common.query.followups import follow_up
from umi_common.query.frames import without_frame
from umi_common.query.questions import exclusion_in, questions_of
from umi_common.search.reorder.speaker import mail_headers
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.types import Chunk, Hit

_INSIDE = r"(?:[^\n.!?…。！？।؟۔]|[.!?…](?=\S))"
"""A character that ends no sentence or line."""
PASSAGE = re.compile(rf"\S(?:{_INSIDE}{{0,200}}(?:(?=\s)|(?!{_INSIDE}))|{_INSIDE}{{200}})[.!?…。！？।؟۔]*")
"""A sentence or a line. If it is longer than about 200 characters, it is divided before a space, if there is one."""
TITLE_LINE = re.compile(r"\s*[^\n]{0,199}[^\n.!?…。！？।؟۔:](?=\n\s*\n)")
"""The title of a text, if it is a line of at most 200 characters."""
BESIDE = 0.5
"""Weight of the terms that only the passages before and after hold: the sentence or heading before an answer often
names the answer's subject."""
AROUND = 0.25
"""Weight of a term that only the messages before a follow-up question hold, or only the text beside a question."""


def assemble_for(
    query: str, hits: Sequence[Hit], *, history: Sequence[str] = (), found: Iterable[Hit] = (), **packing: Any
) -> AssembledContext:
    """`assemble` for the hits of a query: a text that is too long is cut around the passage that answers the query.

    Args:
        query: The query; "" if it is not known: long texts are then cut to their beginning.
        hits: As in `assemble`.
        history: Earlier messages of the conversation, oldest first.
        found: The hits of the search, if `hits` have longer texts under the same ids, such as whole sections. A longer
            text is then cut around the best passage of the found text, where it first occurs.
        **packing: Further arguments of `assemble`: `budget`, `policy`, `counter`, `around`, `layout`.

    Raises:
        BudgetError, InputError, ConfigError: As `assemble`.
    """
    passage_of = passage_finder(query, history)
    chunks = {hit.chunk.id: hit.chunk for hit in found}

    def passage_within(chunk: Chunk) -> tuple[int, int] | None:
        part = chunks.get(chunk.id, chunk)
        at = chunk.text.find(part.text)
        if at < 0 or len(part.text) == len(chunk.text):
            return passage_of(chunk)
        start, end = passage_of(part) or (0, len(part.text))
        return at + start, at + end

    return assemble(hits, passage_of=passage_within, **packing)


def passage_finder(query: str, history: Sequence[str] = ()) -> PassageOf:
    """A function from a chunk to the range [start, end), in characters, of its best passage.

    Of equal scores, the passage with more terms of the query is taken, then the first. The function returns None for a
    chunk that holds no term of the query, and caches the passage of each text.
    """
    whole = without_frame(query)
    exclusion = exclusion_in(whole)
    searched = whole if exclusion is None else exclusion.kept or whole
    questions = " ".join(questions_of(searched)) or searched
    with_context = follow_up(searched, history) or searched

    @cache
    def weights(analyzer: Analyzer) -> dict[str, float]:
        terms_of = partial(analyzer.weighted_terms, function_word_weight=0.0)
        return {term: AROUND * n for term, n in terms_of(with_context).items()} | dict(terms_of(questions))

    @cache
    def passage_in(text: str) -> tuple[int, int] | None:
        analyzer = _analyzer().of_language(_analyzer().language_of(text))
        return _best_passage(text, weights(analyzer), analyzer)

    return lambda chunk: passage_in(chunk.text)


@cache
def _analyzer() -> Analyzer:
    """The analyzer of all texts, whatever that of the store is: the hits may be of any store, or of none."""
    return Analyzer(AnalyzerConfig())


def _best_passage(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> tuple[int, int] | None:
    passages = [match.span() for match in PASSAGE.finditer(text)]
    held = [weights.keys() & set(analyzer.terms(text[start:end])) for start, end in passages]
    values = {
        term: weight * log(1 + len(passages) / count)
        for term, weight in weights.items()
        if (count := sum(term in terms for terms in held))
    }
    title = TITLE_LINE.match(text)
    title_end = len(title[0]) if title else len(mail_headers(text))
    in_title = sum(end <= title_end for _, end in passages)  # the number of passages of the title
    scores = []
    for at, terms in enumerate(held):
        own = terms if at >= in_title else frozenset[str]()
        beside = set().union(*held[:in_title], *held[max(0, at - 1) : at + 2]) - own
        scores.append(sum(values[term] for term in own) + BESIDE * sum(values[term] for term in beside))
    best = max(range(len(scores)), key=lambda at: (scores[at], len(held[at])), default=None)
    return None if best is None or not scores[best] else passages[best]
