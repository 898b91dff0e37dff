"""A text's terms as a sparse vector: index by term, value the share of BM25 that the text decides; and back.

    value = tf / (tf + K),   K = k1 * (1 - b + b * length / stated average length)

times the idf that the engine knows, that is Lucene's BM25. The stated average length never changes, so a stored value
does not either; umi takes the term frequency back out of it and scores with the true average, any k1, any b.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from umi_common.pool import Floats, Ints

INDEX_BYTES = 4
"""Qdrant's sparse indices have 32 bits: of a million terms, about a hundred share theirs with another."""

LARGEST = 1.0 - 2.0**-24
"""The float32 before 1; a value that was rounded to 1 counts as this."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """How term frequencies are written down; fixed when the collection is made."""

    k1: float
    b: float
    average_length: float
    """Stated, in terms."""

    def norm(self, length: Ints | int) -> Floats:
        """K of texts by their length in terms."""
        share = 1.0 - self.b + self.b * np.asarray(length, dtype=np.float64) / self.average_length
        return np.asarray(self.k1 * share, dtype=np.float64)


def index_of(term: str) -> int:
    """The term's place in the sparse vectors, 0..2^32-1; the same everywhere and forever."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=INDEX_BYTES).digest(), "little")


def sparse(terms: Sequence[str], saturation: Saturation) -> tuple[list[int], list[float]]:
    """Indices, rising, and values of a text's terms.

    A text without terms gets one that no query asks for: the engine counts what has a vector, BM25 counts all texts.
    """
    if not terms:
        return [index_of("")], [1.0]
    counts = Counter(map(index_of, terms))
    indices = sorted(counts)
    tf = np.array([counts[index] for index in indices], dtype=np.float64)
    values = (tf / (tf + saturation.norm(len(terms)))).astype(np.float32)
    return indices, values.tolist()


def frequencies(values: Floats, lengths: Ints, saturation: Saturation) -> Floats:
    """Term frequencies from stored values, aligned; whole numbers, exact below about 2,000.

    Args:
        values: In [0, 1); 0: the text has not the term.
        lengths: Of the texts that hold them, in terms.
    """
    known = np.minimum(np.asarray(values, dtype=np.float64), LARGEST)
    exact = known * saturation.norm(lengths) / (1.0 - known)
    return np.asarray(np.where(known > 0, np.maximum(np.rint(exact), 1.0), 0.0), dtype=np.float64)
