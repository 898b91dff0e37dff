"""BM25 by the book, in plain Python over dictionaries: what the index must equal. Shares no code with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from umi_common.config import LexicalConfig

Bags = Mapping[int, Sequence[str]]
"""Key (a row, a source) -> its terms."""
Query = Sequence[str] | Mapping[str, float]
"""The terms, repeats included, or term -> weight."""


class Book:
    """A collection and one way to weigh it."""

    def __init__(self, bags: Bags, config: LexicalConfig) -> None:
        self.config = config
        self.counts = {key: Counter(terms) for key, terms in bags.items()}
        self.lengths = {key: len(terms) for key, terms in bags.items()}
        self.average = sum(self.lengths.values()) / len(bags) if bags else 0.0
        self.df = Counter(term for counts in self.counts.values() for term in counts)

    def idf(self, term: str) -> float:
        total, df = len(self.counts), self.df[term]
        if self.config.variant == "lucene":
            return math.log(1 + (total - df + 0.5) / (df + 0.5))
        if self.config.variant == "l":
            return math.log((total + 1) / (df + 0.5))
        if self.config.variant == "plus":
            return math.log((total + 1) / df)
        raw = {word: math.log((total - held + 0.5) / (held + 0.5)) for word, held in self.df.items()}
        return raw[term] if raw[term] >= 0 else self.config.epsilon * sum(raw.values()) / len(raw)

    def impact(self, term: str, key: int) -> float:
        """What one occurrence of the term in a query adds to a document that holds it."""
        tf = self.counts[key][term]
        k1, b, delta = self.config.k1, self.config.b, self.config.delta
        share = 1 - b + b * self.lengths[key] / self.average
        if self.config.variant == "lucene":
            return self.idf(term) * tf / (tf + k1 * share)
        if self.config.variant == "okapi":
            return self.idf(term) * tf * (k1 + 1) / (tf + k1 * share)
        if self.config.variant == "plus":
            return self.idf(term) * (delta + tf * (k1 + 1) / (tf + k1 * share))
        relative = tf / share + delta
        return self.idf(term) * tf * (k1 + 1) * relative / (k1 + relative)

    def score(self, query: Query, key: int) -> float:
        """0 where nothing matches; Plus adds its floor for the terms that a matching document lacks."""
        counts, weights = self.counts.get(key), Counter(query)
        if counts is None or not any(term in counts for term in weights):
            return 0.0
        total = sum(weight * self.impact(term, key) for term, weight in weights.items() if term in counts)
        if self.config.variant == "plus":
            lacking = [term for term in weights if term not in counts and self.df[term]]
            total += sum(weights[term] * self.config.delta * self.idf(term) for term in lacking)
        return total

    def bound(self, query: Query) -> float:
        weights = Counter(query)
        held = {term: [key for key, counts in self.counts.items() if term in counts] for term in weights}
        best = {term: max(self.impact(term, key) for key in keys) for term, keys in held.items() if keys}
        return sum(weight * max(best.get(term, 0.0), 0.0) for term, weight in weights.items())

    def ranking(
        self,
        query: Query,
        k: int,
        ids: Mapping[int, str],
        allowed: Sequence[bool] | None = None,
        weights: Sequence[float] | None = None,
    ) -> list[tuple[int, float]]:
        scored = []
        for key in self.counts:
            if allowed is None or allowed[key]:
                score = self.score(query, key) * (1.0 if weights is None else weights[key])
                if score > 0:
                    scored.append((key, score))
        # Scores that differ by rounding alone are ties.
        return sorted(scored, key=lambda pair: (-round(pair[1], 9), ids[pair[0]]))[:k]
