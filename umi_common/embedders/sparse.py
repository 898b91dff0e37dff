"""Learned sparse encoders (SPLADE and others), which turn texts into weighted terms, and a file that caches the
terms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.embedders.adapters import name_of
from umi_common.embedders.cache import FileCache
from umi_common.errors import ConfigError, EmbedderError

FILE = "sparse.db"
"""Name of the file that caches the weights of a store's texts, in the store's directory."""
KEPT = 1_000_000
"""Largest number of texts in the file, of all models together, which take about 1 GB. The oldest are dropped first."""

METHODS = (("encode_document", "encode_query"), ("embed", "query_embed"), ("__call__", "__call__"))
"""Names of the methods for documents and for queries: sentence-transformers', fastembed's, those of a function."""

SparseVector = tuple[list[str], npt.NDArray[np.float32]]
"""n distinct terms, and their (n,) finite weights other than 0."""


class SparseEncoder:
    """A sparse encoder of any supported kind behind one interface. Arguments and errors are those of `SparseArm`."""

    def __init__(self, encoder: Any, model: str | None) -> None:
        stated, named = name_of(encoder)
        self.name = stated if model is None else model
        self.named = named or model is not None
        """Whether the name identifies the model, so that weights may be kept in a file."""
        for documents, queries in METHODS:
            if hasattr(encoder, documents) and hasattr(encoder, queries) and not isinstance(encoder, type):
                self._documents, self._queries = getattr(encoder, documents), getattr(encoder, queries)
                break
        else:
            raise ConfigError(
                f"sparse encoder is {type(encoder).__name__} {encoder!r:.80}; expected a function from texts to "
                "{term: weight}, or a model with encode_document and encode_query, or with embed and query_embed"
            )
        self._decode = getattr(encoder, "decode", None)
        """sentence-transformers' method from a tensor to lists of (token, weight)."""

    def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        """One vector per text, in order. Raises EmbedderError if the model returns anything else."""
        return self._encoded(self._documents, texts)

    def embed_queries(self, texts: Sequence[str]) -> list[SparseVector]:
        """One vector per query, in order. Raises EmbedderError if the model returns anything else."""
        return self._encoded(self._queries, texts)

    def _encoded(self, encode: Callable[..., Iterable[Any]], texts: Sequence[str]) -> list[SparseVector]:
        found = encode(list(texts)) if self._decode is None else self._decode(encode(list(texts)))
        rows = list(found)
        if len(rows) != len(texts):
            raise EmbedderError(f"sparse encoder {self.name!r} returned {len(rows)} results for {len(texts)} texts")
        return [self._vector(row) for row in rows]

    def _vector(self, row: Any) -> SparseVector:
        if not isinstance(row, Mapping) and hasattr(row, "indices") and hasattr(row, "values"):
            row = zip(row.indices, row.values, strict=True)  # fastembed's SparseEmbedding
        try:
            weights = {str(term): float(weight) for term, weight in dict(row).items()}
        except (TypeError, ValueError) as error:
            raise EmbedderError(
                f"sparse encoder {self.name!r} returned {type(row).__name__} for a text; expected {{term: weight}}"
            ) from error
        with np.errstate(over="ignore"):
            values = np.array(list(weights.values()), np.float64).astype(np.float32)
        if not np.isfinite(values).all():
            raise EmbedderError(f"sparse encoder {self.name!r} returned a weight that is NaN, infinite or above 3e38")
        return [term for term, value in zip(weights, values, strict=True) if value], values[values != 0]


def sparse_cache(directory: Path, encoder: SparseEncoder, *, writable: bool) -> FileCache[SparseVector]:
    """The cache of this encoder's vectors in `sparse.db`. A value is a line of JSON, the terms, and float32 weights."""

    def pack(vector: SparseVector) -> bytes:
        return json.dumps(vector[0]).encode() + b"\n" + vector[1].astype("<f4").tobytes()

    def unpack(stored: bytes) -> SparseVector:
        terms, _, weights = stored.partition(b"\n")
        return json.loads(terms), np.frombuffer(weights, "<f4")

    return FileCache(directory / FILE, encoder.name, KEPT, pack, unpack, writable=writable)


def forget_other_texts(directory: Path, texts: Iterable[str]) -> None:
    """Remove from `sparse.db` in a directory the vectors of all texts but these."""
    FileCache(directory / FILE, "", KEPT, pack=bytes, unpack=bytes).keep(texts)
