"""Base class of the models whose files are in an installed package."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from umi_common.pool import Vectors
from umi_common.runtime.forks import give_lock

TEXT_CHARACTERS_MAX = 100_000
"""Characters of one text that are tokenized: later ones hardly change the default's mean, and MiniLM reads fewer."""


class PackagedModel(ABC):
    """A model that is loaded once, for its first text. Thread-safe. A copy, or a pickled one, loads the files again."""

    name: str
    dim: int
    symmetric = True

    _lock: threading.Lock

    def __init__(self) -> None:
        give_lock(self)
        self.load_ms = 0.0
        """Milliseconds that loading took; 0 before."""
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
        """As `embed_documents`: the model does not distinguish queries."""
        return self.embed_documents(texts)

    @abstractmethod
    def _load(self) -> tuple[Any, Any]:
        """The model (its weights, or a session that holds them) and its tokenizer."""

    def _loaded(self) -> tuple[Any, Any]:
        if self._model is None:
            with self._lock:
                if self._model is None:
                    begun = time.perf_counter()
                    self._model = self._load()
                    self.load_ms = (time.perf_counter() - begun) * 1e3
        return self._model
