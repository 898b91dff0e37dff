"""The in-memory store and the vectors of each dataset, made once for all configurations; vectors from a file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder, unit_rows
from umi_common.errors import DatasetError, EmbedderError, InvalidVector
from umi_common.evaluation.datasets import Dataset
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.runtime.closing import Closing
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk

EmbedderChoice = str | Embedder | Callable[[Dataset], Any] | None
"""One embedder or name for all datasets, a function from a dataset to its embedder, or None: the model that a
system's settings name, else the embedded model."""
DatasetKey = tuple[int, str | None]
"""`id()` of the chunks, which all splits of a dataset share and `Stores` keeps alive; and the name of the model."""
ARRAYS = ("docs", "queries")


def settings_text(settings: BaseModel) -> str:
    """Settings as JSON that is equal in every process: keys and sets are sorted."""
    return json.dumps(settings.model_dump(), sort_keys=True, default=sorted)


class Stores(Closing):
    """Builds the store and the vectors of each dataset once, and keeps them until it is closed."""

    def __init__(self, embedder: EmbedderChoice = None) -> None:
        self._choice = embedder
        self._embedders: dict[DatasetKey, tuple[Sequence[Chunk], Embedder]] = {}
        self._vectors: dict[DatasetKey, Vectors] = {}
        self._stores: dict[tuple[DatasetKey, str], Any] = {}
        """By dataset and settings of the analyzer."""

    def embedder(self, dataset: Dataset, model: str | None = None) -> Embedder:
        """The embedder of this dataset; `model`: that of a system's settings, for `EmbedderChoice` None."""
        key, choice = self._key(dataset, model), self._choice
        if key not in self._embedders:
            if not (choice is None or isinstance(choice, (str, Embedder))):
                choice = choice(dataset)
            self._embedders[key] = dataset.chunks, as_embedder(model if choice is None else choice)
        return self._embedders[key][1]

    def vectors(self, dataset: Dataset, model: str | None = None) -> Vectors:
        """(n, dim) unit rows of the dataset's chunks, in their order; computed once. `model` as in `embedder`."""
        key = self._key(dataset, model)
        if key not in self._vectors:
            ids, texts = [chunk.id for chunk in dataset.chunks], [chunk.indexed_text for chunk in dataset.chunks]
            self._vectors[key] = embedded(ids, texts, self.embedder(dataset, model), dim=None)
        return self._vectors[key]

    def open(self, dataset: Dataset, config: UmiConfig) -> Any:
        """The HybridStore of the dataset under this configuration's analyzer and model."""
        from umi_common.stores.embedded.hybrid import HybridStore  # takes long to import, and only umi needs it

        model = config.embedder.model
        key = self._key(dataset, model), settings_text(config.analyzer)
        if key not in self._stores:
            store = HybridStore.open(None, embedder=self.embedder(dataset, model), config=config)
            store.add(dataset.chunks, vectors=self.vectors(dataset, model))
            self._stores[key] = store
        return self._stores[key]

    def close(self) -> None:
        """Close every store."""
        while self._stores:
            self._stores.popitem()[1].close()

    def _key(self, dataset: Dataset, model: str | None) -> DatasetKey:
        return id(dataset.chunks), model if self._choice is None else None


class PrecomputedEmbedder:
    """An Embedder that looks vectors up by text; documents and queries are kept apart.

    Args:
        name: Identity of the model that made them.
        documents: (dim,) float32 by text, all of one dimension.
        queries: The same for queries; None: the documents' vectors are used for both.

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
        {chunk.indexed_text: vector for chunk, vector in zip(dataset.chunks, docs, strict=True)},
        {query.text: vector for query, vector in zip(dataset.queries, queries, strict=True)},
    )
