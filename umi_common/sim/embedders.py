"""Embedders for tests: one that needs no model, one that counts calls, and one that fails."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from umi_common.errors import EmbedderError
from umi_common.pool import Vectors
from umi_common.protocols import Embedder


class HashEmbedder:
    """An embedder that hashes each word of a text to +1 or -1 in one coordinate, and scales the vector to length 1.

    Texts that share words therefore have a high cosine. The vectors are equal on every machine and in every process. A
    text without a word has a zero vector; a text whose words cancel each other out is hashed as a whole.

    Args:
        dim: Number of coordinates, >= 1.
    """

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.name = f"hash/{dim}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32: for each of n texts a unit vector, or a zero vector if the text has no word."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            words = re.findall(r"\w+", text.lower())
            for word in words:
                self._add(vectors[row], word)
            if words and not vectors[row].any():
                self._add(vectors[row], text)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(norms > 0, norms, np.float32(1))
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The vectors of `embed_documents`."""
        return self.embed_documents(texts)

    def _add(self, vector: Vectors, word: str) -> None:
        digest = int.from_bytes(hashlib.blake2b(word.encode(errors="replace"), digest_size=8).digest(), "big")
        vector[(digest >> 1) % self.dim] += 1.0 if digest & 1 else -1.0


class CountingEmbedder:
    """Wraps an embedder and counts its calls.

    `document_calls` and `query_calls` are the number of calls of `embed_documents` and `embed_queries`; `texts` holds
    every text embedded, in order.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.dim = embedder.name, embedder.dim
        self.document_calls = 0
        self.query_calls = 0
        self.texts: list[str] = []
        self._embedder = embedder

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The wrapped embedder's vectors; the call is counted."""
        self.document_calls += 1
        self.texts.extend(texts)
        return self._embedder.embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The wrapped embedder's vectors; the call is counted."""
        self.query_calls += 1
        self.texts.extend(texts)
        return self._embedder.embed_queries(texts)


class FaultyEmbedder:
    """Wraps an embedder and fails on chosen calls.

    Args:
        embedder: The wrapped embedder, which answers the other calls.
        fail_on: Which calls fail. A string: calls with a text that contains it. A number: the call with this number,
            from 1. A function of the texts: calls for which it returns True. None: all calls.
        fault: What a failing call does. "raises": it raises EmbedderError; "nan": its first row is NaN; "shape": its
            vectors have one dimension too few; "short": it returns one row too few.
    """

    def __init__(
        self,
        embedder: Embedder,
        fail_on: str | int | Callable[[Sequence[str]], bool] | None = None,
        *,
        fault: Literal["raises", "nan", "shape", "short"] = "raises",
    ) -> None:
        self.name, self.dim = embedder.name, embedder.dim
        self.calls = 0
        self._embedder = embedder
        self._fail_on = fail_on
        self._fault = fault

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The embedder's vectors, or the fault."""
        return self._faulty(texts, self._embedder.embed_documents)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The embedder's vectors, or the fault."""
        return self._faulty(texts, self._embedder.embed_queries)

    def _faulty(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        self.calls += 1
        if not self._fails(texts):
            return embed(texts)
        if self._fault == "raises":
            raise EmbedderError("simulated: the embedder is down")
        vectors = np.array(embed(texts), dtype=np.float32)
        if self._fault == "nan":
            vectors[:1] = np.nan
            return vectors
        return vectors[:, :-1] if self._fault == "shape" else vectors[:-1]

    def _fails(self, texts: Sequence[str]) -> bool:
        if self._fail_on is None:
            return True
        if isinstance(self._fail_on, str):
            return any(self._fail_on in text for text in texts)
        if isinstance(self._fail_on, int):
            return self.calls == self._fail_on
        return self._fail_on(texts)
