"""One in-memory store a dataset, shared by all umi configurations that can share an index."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.evaluation.datasets import Dataset
from umi_common.pool import Vectors
from umi_common.protocols import Embedder

EmbedderChoice = Embedder | Callable[[Dataset], Any] | None
"""One embedder for all datasets, a function that gives each dataset its own, or None: the embedded default."""


def settings_text(settings: BaseModel) -> str:
    """Settings as JSON that is the same in every process; sets have no order of their own."""
    return json.dumps(settings.model_dump(), sort_keys=True, default=sorted)


class Stores:
    """Builds a dataset's store and vectors once and keeps the last few.

    Args:
        embedder: See `EmbedderChoice`.
        keep: Datasets kept at once; the least recently used is closed.
    """

    def __init__(self, embedder: EmbedderChoice = None, *, keep: int = 8) -> None:
        self._choice = embedder
        self._keep = keep
        self._built: OrderedDict[int, _Built] = OrderedDict()

    def embedder(self, dataset: Dataset) -> Embedder:
        """The embedder that this dataset is measured with."""
        return self._of(dataset).embedder

    def vectors(self, dataset: Dataset) -> Vectors:
        """(n, dim) of the dataset's chunks, in their order; computed once."""
        return self._of(dataset).vectors()

    def open(self, dataset: Dataset, config: UmiConfig) -> Any:
        """The HybridStore of the dataset under this configuration's analyzer."""
        return self._of(dataset).store(config)

    def close(self) -> None:
        """Close every store."""
        while self._built:
            self._built.popitem()[1].close()

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _of(self, dataset: Dataset) -> _Built:
        key = id(dataset.chunks)  # shared by all splits of one dataset; kept alive by _Built
        if key not in self._built:
            self._built[key] = _Built(dataset, self._embedder_for(dataset))
            while len(self._built) > self._keep:
                self._built.popitem(last=False)[1].close()
        self._built.move_to_end(key)
        return self._built[key]

    def _embedder_for(self, dataset: Dataset) -> Embedder:
        if self._choice is None or isinstance(self._choice, Embedder):
            return as_embedder(self._choice)
        return as_embedder(self._choice(dataset))


class _Built:
    def __init__(self, dataset: Dataset, embedder: Embedder) -> None:
        self.chunks = dataset.chunks
        self.embedder = embedder
        self._vectors: Vectors | None = None
        self._stores: dict[str, Any] = {}

    def vectors(self) -> Vectors:
        if self._vectors is None:
            self._vectors = self.embedder.embed_documents([chunk.text for chunk in self.chunks])
        return self._vectors

    def store(self, config: UmiConfig) -> Any:
        from umi_common.stores.embedded.hybrid import HybridStore  # heavy, and not needed to judge other systems

        key = settings_text(config.analyzer)
        if key not in self._stores:
            store = HybridStore.open(None, embedder=self.embedder, config=config)
            store.add(self.chunks, vectors=self.vectors())
            self._stores[key] = store
        return self._stores[key]

    def close(self) -> None:
        while self._stores:
            self._stores.popitem()[1].close()
