"""The default embedder: wordllama's static model of 256 dimensions, which umi calls the built-in model.

The wheel of wordllama holds weights and tokenizer, so nothing is downloaded. `PackagedModel` is the base class of all
models whose files are in an installed package.
"""

from __future__ import annotations

import importlib.util
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from umi_common.errors import EmbedderError
from umi_common.pool import Vectors
from umi_common.runtime.forks import give_lock
from umi_common.types import utf8_text

DEFAULT_NAME = "wordllama/l2_supercat_256"
WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TEXT_CHARACTERS_MAX = 100_000
"""Largest number of characters of one text that are tokenized. Later characters hardly change the built-in model's
vector, which is a mean over all tokens, and `minilm` reads fewer."""
BATCH = 1_024
"""Number of texts that are tokenized in one call. Larger batches need more memory and are no faster."""


class PackagedModel(ABC):
    """A model that loads its files when it embeds its first text. A copied or unpickled model loads them again.
    Thread-safe."""

    name: str
    dim: int

    _lock: threading.Lock

    def __init__(self) -> None:
        give_lock(self)
        self.load_ms = 0.0
        """Milliseconds that loading took; 0: the model is not loaded."""
        self._model: tuple[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_model", "load_ms")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        PackagedModel.__init__(self)
        vars(self).update(state)

    @abstractmethod
    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, unit rows or zero rows."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """As `embed_documents`: the model treats queries like documents."""
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


class WordLlamaEmbedder(PackagedModel):
    """Mean of static token vectors, L2-normalised; thousands of short texts per second on one core.

    The vector of a text is the same, to the last bit, in every batch. A text without a known token gets a row of zeros.
    """

    name = DEFAULT_NAME
    dim = 256
    in_place = True
    """Stores call a model with this attribute in the calling thread, and cache none of its vectors: a call takes less
    than a millisecond."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """As `embed_documents`, but one space stands for any white space in a query, which has tokens of its own, and a
        query of several words, all in capitals, is in lower case, because the model knows few words in capitals."""
        plain = [" ".join(text.split()) for text in texts]
        return self.embed_documents([text.lower() if text.isupper() and " " in text else text for text in plain])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, 256) float32, unit rows or zero rows."""
        weights, tokenizer = self._loaded()
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), BATCH):
            plain = [_for_tokenizer(text[:TEXT_CHARACTERS_MAX]) for text in texts[start : start + BATCH]]
            for row, encoding in enumerate(tokenizer.encode_batch(plain, add_special_tokens=False), start):
                if encoding.ids:
                    vectors[row] = weights[encoding.ids].mean(axis=0)
        return unit_rows(vectors)

    def token_vectors(self) -> Vectors:
        """(32,000, 256) float32: row i is the vector of token i. Raises EmbedderError if the weights cannot be read."""
        weights: Vectors = self._loaded()[0]
        return weights

    def _load(self) -> tuple[Vectors, Any]:
        with _reading(WEIGHTS) as path:
            from safetensors.numpy import load_file

            weights = load_file(path)["embedding.weight"]
        return np.ascontiguousarray(weights, dtype=np.float32), embedded_tokenizer()


def _for_tokenizer(text: str) -> str:
    """The text with "\\n" for Windows' "\\r\\n", and with é as one character, which PDFs and file names of macOS write
    as an e and an accent. "\\r" and the accent have tokens of their own."""
    return normalize("NFC", utf8_text(text.replace("\r\n", "\n")))


@lru_cache(maxsize=1)
def embedded_tokenizer() -> Any:
    """The built-in model's tokenizer, a `tokenizers.Tokenizer` that neither pads nor truncates; one per process.

    Raises:
        EmbedderError: If the package with the tokenizer is not installed, or its file cannot be read.
    """
    with _reading(TOKENIZER) as path:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@contextmanager
def _reading(name: str) -> Iterator[Path]:
    """Path of a file of wordllama, for a block that reads it; any error of the block is raised as EmbedderError."""
    # wordllama is not imported: its import resets the root logger, and its loader asks the network.
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError("the built-in model is not installed; run: pip install wordllama, or pass embedder=")
    try:
        yield Path(spec.submodule_search_locations[0]) / name
    except Exception as error:  # safetensors and tokenizers raise direct subclasses of Exception
        raise EmbedderError(
            f"the built-in model cannot be read ({error}); reinstall wordllama or pass embedder="
        ) from error


def unit_rows(vectors: Any) -> Vectors:
    """(n, dim) float32, every row scaled to length 1. NaN and infinity count as 0; a row of zeros stays zero."""
    rows = np.asarray(vectors, dtype=np.float32)
    if not np.isfinite(rows).all():
        rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(norms > 0, norms, 1.0), dtype=np.float32)


@lru_cache(maxsize=1)
def default_embedder() -> WordLlamaEmbedder:
    """The built-in model, shared by the process; loaded at its first text."""
    return WordLlamaEmbedder()
