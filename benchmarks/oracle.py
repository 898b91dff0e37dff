"""The right answers, computed by brute force from the definitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.corpus import Corpus, word
from umi_common.pool import Vectors

K1, B = 1.2, 0.75
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bm25Oracle:
    """BM25 in Lucene's variant of every chunk, computed from the definition.

    score(q, d) = sum over t in q of ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * |d| / avg))
    """

    corpus: Corpus

    def scores(self, questions: Sequence[str]) -> list[Scores]:
        """For each question the score of every chunk."""
        corpus = self.corpus
        asked = [question.split() for question in questions]
        wanted = {word_ for words in asked for word_ in words}
        lengths = np.diff(corpus.starts).astype(np.float64)
        numbers = np.unique(corpus.tokens)
        codes = {written: number for number in numbers.tolist() if (written := word(number)) in wanted}
        asked_for = np.zeros(int(numbers[-1]) + 1, dtype=np.bool_)
        asked_for[list(codes.values())] = True
        places = np.flatnonzero(asked_for[corpus.tokens])
        order = places[np.argsort(corpus.tokens[places], kind="stable")]
        tokens, rows = corpus.tokens[order], np.searchsorted(corpus.starts, order, side="right") - 1
        norms = K1 * (1 - B + B * lengths / lengths.mean())
        found = []
        for words in asked:
            scores = np.zeros(len(lengths))
            for code in [codes[word_] for word_ in words]:
                start, stop = np.searchsorted(tokens, [code, code + 1])
                holding, tf = np.unique(rows[start:stop], return_counts=True)
                idf = math.log(1 + (len(lengths) - len(holding) + 0.5) / (len(holding) + 0.5))
                scores[holding] += idf * tf / (tf + norms[holding])
            found.append(scores)
        return found


def agreement(truth: Mapping[int, Scores], found: Mapping[int, Sequence[int]], k: int, slack: float = 1e-9) -> float:
    """Share of the k best of every question that were found; a chunk whose score ties with the k-th counts as right."""
    shares = []
    for number, scores in truth.items():
        if number in found:
            positive = int(np.count_nonzero(scores > 0))
            wanted = min(k, positive)
            least = float(np.partition(scores, -wanted)[-wanted])
            right = sum(float(scores[row]) >= least * (1 - slack) for row in found[number][:k])
            shares.append(min(right, wanted) / wanted)
    return float(np.mean(shares)) if shares else 0.0


def cosine_scores(vectors: Vectors, queries: Vectors) -> list[Scores]:
    """For each query the cosine of every chunk."""
    return [(vectors @ query).astype(np.float64) for query in queries]


def tied_at(scores: Scores, place: int) -> int:
    """How many chunks have exactly the score of the `place`-th; 0 where fewer match at all."""
    if np.count_nonzero(scores > 0) < place:
        return 0
    return int(np.count_nonzero(scores == np.partition(scores, -place)[-place]))
