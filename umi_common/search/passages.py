"""Find the passage of a long text that answers a query, by the query's words. A context that cuts the text keeps this
passage.

    idf(t) = log(1 + passages / passages with t)
    own(p) = sum over the query's terms t in p of weight(t) * idf(t)
    score(p) = own(p) + BESIDE * the same sum over the terms that the passages before and after p have and p lacks

Function words of the query have weight 0, unless it has no others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from math import log

from umi_common.config import AnalyzerConfig
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.types import Chunk

PASSAGE = re.compile(r"\S(?:[^\n.!?…。！？।؟۔]|[.!?…](?=\S)){0,200}[.!?…。！？।؟۔]*")
"""A sentence or a line; a longer one is divided after about 200 characters."""
BESIDE = 0.5
"""Weight of the terms beside a passage: the sentence or heading before an answer often names its subject."""


def passage_finder(query: str, config: AnalyzerConfig) -> Callable[[Chunk], tuple[int, int] | None]:
    """A function from a chunk to the characters [start, end) of its passage with the best score, the first of equals.

    It returns None for a chunk that holds no term of the query. It caches the passage of each chunk.

    Args:
        config: Settings of the analyzer of the chunk's store.
    """
    found: dict[tuple[str, int], tuple[int, int] | None] = {}

    def passage_of(chunk: Chunk) -> tuple[int, int] | None:
        key = chunk.id, len(chunk.text)
        if key not in found:
            found[key] = _best_passage(chunk.text, query, _analyzer(config))
        return found[key]

    return passage_of


@lru_cache(8)
def _analyzer(config: AnalyzerConfig) -> Analyzer:
    return Analyzer(config)


def _best_passage(text: str, query: str, analyzer: Analyzer) -> tuple[int, int] | None:
    text_analyzer = analyzer.of_language(analyzer.language_of(text))
    weights = text_analyzer.weighted_terms(query, 0.0)
    passages = [match.span() for match in PASSAGE.finditer(text)]
    held = [weights.keys() & set(text_analyzer.terms(text[start:end])) for start, end in passages]
    values = {
        term: weight * log(1 + len(passages) / count)
        for term, weight in weights.items()
        if (count := sum(term in terms for terms in held))
    }
    scores = []
    for at, terms in enumerate(held):
        beside = set().union(*held[max(0, at - 1) : at + 2]) - terms
        scores.append(sum(values[term] for term in terms) + BESIDE * sum(values[term] for term in beside))
    best = max(range(len(scores)), key=scores.__getitem__, default=None)
    return None if best is None or not scores[best] else passages[best]
