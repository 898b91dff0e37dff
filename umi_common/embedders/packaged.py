"""What models have in common whose files installed packages carry."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from umi_common.pool import Vectors
from umi_common.runtime.forks import give_lock

TEXT_CHARACTERS_MAX = 100_000
"""Characters of one text that are tokenized; those after them hardly change a mean, and no model reads so far."""


class PackagedModel(ABC):
    """A model that is loaded once, at the first text. Thread-safe; a copy loads the files again."""

    name: str
    dim: int
    symmetric = True

    _lock: threading.Lock

    def __init__(self) -> None:
        give_lock(self)
        self._model: tuple[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_model")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        PackagedModel.__init__(self)
        vars(self).update(state)

    @abstractmethod
    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, unit rows or zero rows."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The same as for documents: the model is symmetric."""
        return self.embed_documents(texts)

    @abstractmethod
    def _load(self) -> tuple[Any, Any]:
        """Weights and tokenizer."""

    def _loaded(self) -> tuple[Any, Any]:
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = self._load()
        return self._model
