"""Models by name: those whose files are in an installed package, and those of fastembed and sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from umi_common.embedders.default import DEFAULT_NAME, default_embedder
from umi_common.embedders.minilm import MINILM, MINILM_NAME, MiniLMEmbedder
from umi_common.errors import ConfigError, optional_module
from umi_common.protocols import Embedder

EMBEDDER_NAMES = "'default', 'minilm', 'fastembed:MODEL' or 'sentence-transformers:MODEL'"

Functions = tuple[Callable[[list[str]], Any], Callable[[list[str]], Any]]
"""(function from documents to vectors, function from queries to vectors)"""

minilm_embedder = lru_cache(maxsize=1)(MiniLMEmbedder)
PACKAGED: dict[str, Callable[[], Embedder]] = {
    "default": default_embedder,
    DEFAULT_NAME: default_embedder,
    MINILM: minilm_embedder,
    MINILM_NAME: minilm_embedder,
}
"""Models that need no download, by short name and by the name that a store records. One of each per process."""


def library_model(name: str) -> Functions:
    """The model "LIBRARY:MODEL", loaded by the library, which may download it.

    Raises:
        ConfigError: If the name is of another form.
        MissingExtra: If the library is not installed; gives the pip command.
    """
    library, _, model = name.partition(":")
    if library not in LIBRARIES or not model:
        raise ConfigError(f"embedder is {name!r}; expected {EMBEDDER_NAMES}")
    return LIBRARIES[library](optional_module(library.replace("-", "_"), library), model)


def _fastembed(module: Any, name: str) -> Functions:
    model = module.TextEmbedding(model_name=name)
    return lambda texts: list(model.embed(texts)), lambda texts: list(model.query_embed(texts))


def _sentence_transformers(module: Any, name: str) -> Functions:
    model = module.SentenceTransformer(name)
    # Since version 5 there are two methods, which put the model's own instruction before the text.
    methods = ("encode_document", "encode_query") if hasattr(model, "encode_query") else ("encode", "encode")
    documents, queries = (partial(getattr(model, method), show_progress_bar=False) for method in methods)
    return documents, queries


LIBRARIES = {"fastembed": _fastembed, "sentence-transformers": _sentence_transformers}
