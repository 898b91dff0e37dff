"""Sparse encoders for tests: a function, and models with the methods of sentence-transformers and of fastembed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

from umi_common.errors import EmbedderError


class SimSparseFunction:
    """A function from texts to {word: its count}; a word may add further terms.

    `texts`: every text encoded, in order. `fail_on`: calls fail if a text contains it; None: none fails.

    Args:
        expansions: {word: {term: weight}}; a text with the word gets these terms, too.
    """

    def __init__(self, expansions: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self.texts: list[str] = []
        self.fail_on: str | None = None
        self._expansions = {} if expansions is None else expansions

    def __call__(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """One {term: weight} a text."""
        if self.fail_on is not None and any(self.fail_on in text for text in texts):
            raise EmbedderError("simulated: the sparse encoder is down")
        self.texts += texts
        return [self._weights(re.findall(r"\w+", text.lower())) for text in texts]

    def _weights(self, words: Sequence[str]) -> dict[str, float]:
        added = [self._expansions.get(word, {}) for word in words]
        return {term: weight for terms in added for term, weight in terms.items()} | dict(Counter(words))


class SimSparseEncoder(SimSparseFunction):
    """As `SimSparseFunction`, with the methods of sentence-transformers' `SparseEncoder`; `decode` reads them."""

    def encode_document(self, sentences: Sequence[str]) -> tuple[dict[str, float], ...]:
        """For `decode`."""
        return tuple(self(sentences))

    encode_query = encode_document

    def decode(self, embeddings: Sequence[Mapping[str, float]]) -> list[list[tuple[str, float]]]:
        """(token, weight) pairs of each text."""
        return [list(weights.items()) for weights in embeddings]


@dataclass(frozen=True, slots=True)
class SimSparseEmbedding:
    """A text's weights as fastembed gives them."""

    values: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int64]


class SimSparseTextEmbedding(SimSparseFunction):
    """As `SimSparseFunction`, with the methods of fastembed's `SparseTextEmbedding`, which yields one result after
    another and has numbers as terms."""

    model_name = "sim/words"

    def embed(self, documents: Sequence[str]) -> Iterator[SimSparseEmbedding]:
        """The weights of each text."""
        for weights in self(documents):
            yield SimSparseEmbedding(
                np.array(list(weights.values())), np.array([crc32(term.encode()) for term in weights], np.int64)
            )

    query_embed = embed
