"""Builds the in-memory store and the vectors of each dataset once, for all configurations that can share them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.evaluation.datasets import Dataset
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.runtime.closing import Closing
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk

EmbedderChoice = str | Embedder | Callable[[Dataset], Any] | None
"""An embedder or the name of one for all datasets, or a function from a dataset to its embedder. None: the model that a
system's settings name, else the default embedder."""
DatasetKey = tuple[int, str | None]
"""(`id()` of the dataset's tuple of chunks, name of the model). All splits of a dataset share this tuple, and `Stores`
keeps it alive."""


def settings_text(settings: BaseModel) -> str:
    """Settings as JSON that is equal in every process: keys and sets are sorted."""
    return json.dumps(settings.model_dump(), sort_keys=True, default=sorted)


class Stores(Closing):
    """Builds the store and the vectors of each dataset once, and keeps the stores open until `close`."""

    def __init__(self, embedder: EmbedderChoice = None) -> None:
        self._choice = embedder
        self._embedders: dict[DatasetKey, tuple[Sequence[Chunk], Embedder]] = {}
        self._vectors: dict[DatasetKey, Vectors] = {}
        self._stores: dict[tuple[DatasetKey, str], Any] = {}
        """By dataset and JSON of the analyzer's settings."""

    def embedder(self, dataset: Dataset, model: str | None = None) -> Embedder:
        """The embedder of this dataset.

        Args:
            model: The model that a system's settings name; used only if no embedder was given to `Stores`.
        """
        key, choice = self._key(dataset, model), self._choice
        if key not in self._embedders:
            if not (choice is None or isinstance(choice, (str, Embedder))):
                choice = choice(dataset)
            self._embedders[key] = dataset.chunks, as_embedder(model if choice is None else choice)
        return self._embedders[key][1]

    def vectors(self, dataset: Dataset, model: str | None = None) -> Vectors:
        """(n, dim) unit vectors of the dataset's n chunks, in order; computed once. For `model` see `embedder`."""
        key = self._key(dataset, model)
        if key not in self._vectors:
            ids, texts = [chunk.id for chunk in dataset.chunks], [chunk.indexed_text for chunk in dataset.chunks]
            self._vectors[key] = embedded(ids, texts, self.embedder(dataset, model), dim=None)
        return self._vectors[key]

    def open(self, dataset: Dataset, config: UmiConfig) -> Any:
        """The HybridStore of the dataset for this configuration's analyzer and model, built at the first call."""
        from umi_common.stores.embedded.hybrid import HybridStore  # slow to import, and other systems do not need it

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
