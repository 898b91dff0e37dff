"""A sentence encoder's vectors from a file, so that quality with it is measured without the model."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from umi_common.embedders import unit_rows
from umi_common.errors import DatasetError, EmbedderError, InvalidVector
from umi_common.evaluation.datasets import Dataset
from umi_common.pool import Vectors

ARRAYS = ("docs", "queries")


class PrecomputedEmbedder:
    """An Embedder that looks vectors up by text; documents and queries are kept apart.

    Args:
        name: Identity of the model that made them.
        documents: (dim,) float32 by text, all of one dimension.
        queries: Likewise; None: the documents' serve for both.

    Raises:
        InvalidVector: If there is no vector, or dimensions differ.
    """

    def __init__(
        self, name: str, documents: Mapping[str, Vectors], queries: Mapping[str, Vectors] | None = None
    ) -> None:
        self.name = name
        self._documents = dict(documents)
        self._queries = self._documents if queries is None else dict(queries)
        dims = {vector.shape for known in (self._documents, self._queries) for vector in known.values()}
        if len(dims) != 1:
            raise InvalidVector(f"vectors of {name!r} have shapes {sorted(dims)[:3]}; expected one, (dim,)")
        (self.dim,) = dims.pop()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32; raises EmbedderError for a text that has no vector."""
        return self._looked_up(self._documents, texts, "document")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32; raises EmbedderError for a text that has no vector, such as a rewritten query."""
        return self._looked_up(self._queries, texts, "query")

    def _looked_up(self, known: Mapping[str, Vectors], texts: Sequence[str], kind: str) -> Vectors:
        missing = sum(text not in known for text in texts)
        if missing:
            raise EmbedderError(f"{self.name!r} has no vector for {missing} of {len(texts)} {kind} texts")
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return np.stack([known[text] for text in texts])


def load_vectors(path: str | Path, dataset: Dataset, *, name: str | None = None) -> PrecomputedEmbedder:
    """The vectors of a dataset: an npz with arrays `docs` (n, dim) and `queries` (m, dim) in the dataset's order.

    Args:
        path: The npz file.
        dataset: Whose chunks and queries the rows belong to.
        name: Identity of the model; None: the name of the folder that holds the file.

    Raises:
        DatasetError: If the file is missing, no npz, lacks an array, or its rows do not match the dataset.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            docs, queries = (unit_rows(arrays[array]) for array in ARRAYS)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"cannot read vectors from {path}: {error}; expected an npz with docs and queries"
        ) from error
    docs = np.delete(docs, [row for row in dataset.blank if row < len(docs)], axis=0)
    if len(docs) != len(dataset.chunks) or len(queries) != len(dataset.queries):
        raise DatasetError(
            f"{path} holds {len(docs)} document and {len(queries)} query vectors; "
            f"the dataset has {len(dataset.chunks)} and {len(dataset.queries)}"
        )
    return PrecomputedEmbedder(
        path.parent.name if name is None else name,
        {chunk.text: vector for chunk, vector in zip(dataset.chunks, docs, strict=True)},
        {query.text: vector for query, vector in zip(dataset.queries, queries, strict=True)},
    )
