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
"""Largest number of cached texts, over all models: about 1 GB. The oldest are dropped first."""

METHODS = (("encode_document", "encode_query"), ("embed", "query_embed"), ("__call__", "__call__"))
"""Names of the methods for documents and for queries: of sentence-transformers, of fastembed, of a function."""

SparseVector = tuple[list[str], npt.NDArray[np.float32]]
"""n distinct terms, and their (n,) finite weights other than 0."""


class SparseEncoder:
    """A sparse encoder of any supported kind behind one interface.

    Args:
        encoder: A function or a model with a pair of METHODS.
        model: Name and version of the model; None: the name that the encoder states, if it states one.

    Raises:
        ConfigError: If the encoder is neither.
    """

    def __init__(self, encoder: Any, model: str | None) -> None:
        own_name, has_name = name_of(encoder)
        self.name = own_name if model is None else model
        self.named = has_name or model is not None
        """Whether the name identifies the model, so that weights may be kept in a file."""
        pairs = [(getattr(encoder, first, None), getattr(encoder, second, None)) for first, second in METHODS]
        found = [(documents, queries) for documents, queries in pairs if documents and queries]
        if isinstance(encoder, type) or not found:
            raise ConfigError(
                f"sparse encoder is {type(encoder).__name__} {encoder!r:.80}; expected a function from texts to "
                "{term: weight}, or a model with encode_document and encode_query, or with embed and query_embed"
            )
        self._documents, self._queries = found[0]
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
        if not hasattr(found, "__iter__"):
            raise EmbedderError(
                f"sparse encoder {self.name!r} returned {type(found).__name__} for {len(texts)} texts; expected one "
                "{term: weight} for each text"
            )
        rows = list(found)
        if len(rows) != len(texts):
            raise EmbedderError(f"sparse encoder {self.name!r} returned {len(rows)} results for {len(texts)} texts")
        return [self._vector(row) for row in rows]

    def _vector(self, row: Any) -> SparseVector:
        try:
            if not isinstance(row, Mapping) and hasattr(row, "indices"):  # fastembed's SparseEmbedding
                pairs = dict(zip(row.indices, row.values, strict=True))
            else:
                pairs = dict(row)
            weights = {str(term): float(weight) for term, weight in pairs.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise EmbedderError(
                f"sparse encoder {self.name!r} returned {type(row).__name__} for a text; expected {{term: weight}}"
            ) from error
        with np.errstate(over="ignore"):  # a weight that float32 cannot hold becomes infinite, and is refused below
            values = np.array(list(weights.values()), np.float64).astype(np.float32)
        if not np.isfinite(values).all():
            raise EmbedderError(
                f"sparse encoder {self.name!r} returned a weight that is NaN, infinite or in size above 3e38"
            )
        return [term for term, value in zip(weights, values, strict=True) if value], values[values != 0]


def sparse_cache(directory: Path, encoder: SparseEncoder, *, writable: bool) -> FileCache[SparseVector]:
    """The cache of this encoder's vectors in `sparse.db`: their terms as one line of JSON, then weights as float32."""

    def pack(vector: SparseVector) -> bytes:
        return json.dumps(vector[0]).encode() + b"\n" + vector[1].astype("<f4").tobytes()

    def unpack(stored: bytes) -> SparseVector:
        terms, _, weights = stored.partition(b"\n")
        return json.loads(terms), np.frombuffer(weights, "<f4")

    return FileCache(directory / FILE, encoder.name, KEPT, pack, unpack, writable=writable)


def forget_other_texts(directory: Path, texts: Iterable[str]) -> None:
    """Keep only the vectors of these texts in a directory's `sparse.db`, for every model."""
    FileCache(directory / FILE, "", KEPT, pack=bytes, unpack=bytes).keep(texts)
