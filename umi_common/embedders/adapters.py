"""Make an embedder from a name, from a model of LangChain or LlamaIndex, or from functions, sync or async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache, partial
from inspect import iscoroutinefunction, signature
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.embedders.default import DEFAULT_NAME, default_embedder
from umi_common.embedders.documents import documents_embedded
from umi_common.embedders.minilm import MINILM, MINILM_NAME, MiniLMEmbedder
from umi_common.errors import ConfigError, EmbedderError, optional_module
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.runtime.loop_thread import LoopThread

Embed = Callable[[list[str]], Any]
AsyncEmbed = Callable[[list[str]], Awaitable[Any]]
"""Both are functions from texts to a matrix of numbers, one row per text, or to an iterator over its rows."""
EMBEDDER_NAMES = "'default', 'minilm', 'fastembed:MODEL' or 'sentence-transformers:MODEL'"

minilm_embedder = lru_cache(maxsize=1)(MiniLMEmbedder)
PACKAGED: dict[str, Callable[[], Embedder]] = {
    "default": default_embedder,
    DEFAULT_NAME: default_embedder,
    MINILM: minilm_embedder,
    MINILM_NAME: minilm_embedder,
}
"""Functions that return the models that need no download, by short name and by the name that a store records. Each
model is made once per process."""

LIBRARIES = {"fastembed": "TextEmbedding", "sentence-transformers": "SentenceTransformer"}
"""Library -> its class that loads a model by name, as in `SentenceTransformer("all-MiniLM-L6-v2")`."""
LIBRARY_METHODS = (("encode_document", "encode_query"), ("encode", "encode"), ("embed", "query_embed"))
"""Names of the methods for documents and for queries. First: sentence-transformers since version 5, whose methods put
the model's own instruction before the text. Second: its older versions, and model2vec. Third: fastembed."""
FRAMEWORK_METHODS = (("embed_documents", "embed_query"), ("get_text_embedding_batch", "get_query_embedding"))
"""Names of the methods for documents and for one query: LangChain's, then LlamaIndex's. Async ones begin with "a"."""
WRAPPED = ("underlying_embeddings", "base_embeddings")
"""Attributes of LangChain's `CacheBackedEmbeddings` and `HypotheticalDocumentEmbedder` that hold the wrapped model."""
LANGCHAIN_BASE = "langchain_core.embeddings.embeddings"
"""Module of LangChain's base class. Async methods of this class are not used, because they run the sync methods in
asyncio's few threads."""


class CallableEmbedder:
    """An embedder made of functions, each of which takes texts and returns vectors.

    Sync methods call the sync function. If there is none, or it raises NotImplementedError, they run the coroutine
    function on an event loop in a thread. `aembed_queries`, which exists only if queries have a coroutine function,
    awaits that function.

    Args:
        documents: Function for documents.
        queries: Function for queries. If `queries` and `aqueries` are None, those for documents are used.
        name: Name of the model, which a store records.
        dim: Dimension of the vectors; None: it is found by embedding one short text.
        one_by_one: Whether the model embeds one query a call, so that n queries are n calls.
        adocuments: Coroutine function for documents.
        aqueries: Coroutine function for queries.
        named: Whether `name` identifies the model, so that vectors may be cached under it in a file. False if it is
            only the name of a class or function.
    """

    def __init__(
        self,
        documents: Embed | None,
        queries: Embed | None = None,
        *,
        name: str,
        dim: int | None = None,
        one_by_one: bool = False,
        adocuments: AsyncEmbed | None = None,
        aqueries: AsyncEmbed | None = None,
        named: bool = True,
    ) -> None:
        self.name = name
        self.one_by_one = one_by_one
        self.named = named
        if queries is None and aqueries is None:
            queries, aqueries = documents, adocuments
        if not ((documents or adocuments) and (queries or aqueries)):
            raise ConfigError(f"embedder {name!r} has no function for documents, or none for queries")
        self._documents, self._adocuments = documents, adocuments
        self._queries, self._aqueries = queries, aqueries
        if aqueries is not None:
            self.aembed_queries = self._aembed_queries
        self._dim = dim
        self._loop_thread = LoopThread("umi-async-model")

    @property
    def dim(self) -> int:
        """Dimension of the vectors; found by embedding one short text if it was not given."""
        if self._dim is None:
            self._dim = int(documents_embedded(self, ["dimension"]).shape[1])
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) the function's vectors, converted to float32 and not normalised."""
        return _as_matrix(self._loop_thread.call(self._documents, self._adocuments, list(texts)), self.name)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) the function's vectors, converted to float32 and not normalised."""
        return _as_matrix(self._loop_thread.call(self._queries, self._aqueries, list(texts)), self.name)

    async def _aembed_queries(self, texts: Sequence[str]) -> Vectors:
        """`embed_queries` for event loops; `__init__` sets it as `aembed_queries` if there is a coroutine function."""
        assert self._aqueries is not None
        return _as_matrix(await self._aqueries(list(texts)), self.name)

    def close(self) -> None:
        """End the thread that runs coroutine functions for sync code; a later call starts a new thread."""
        self._loop_thread.close()


def _as_matrix(vectors: Any, name: str) -> Vectors:
    try:
        matrix = np.asarray(list(vectors) if isinstance(vectors, Iterator) else vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(f"embedder {name!r} returned no list of vectors of equal length: {error}") from error
    if matrix.ndim != 2:
        raise EmbedderError(f"embedder {name!r} returned shape {matrix.shape}; expected (texts, dimension)")
    return matrix


class AbsentEmbedder:
    """Name and dimension of a model that is not loaded, to open a store that is only copied, checked or counted."""

    def __init__(self, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Raises EmbedderError."""
        raise EmbedderError(
            f"embedder {self.name!r} is not loaded; open the store with embedder= to add texts or search"
        )

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Raises EmbedderError."""
        return self.embed_documents(texts)


def as_embedder(model: Any, config: UmiConfig | None = None) -> Embedder:
    """An Embedder from a model, a name or a function.

    A store records the embedder's name. By form of `model`, the embedder and its name are:

    - "default" or "minilm": a packaged model (PACKAGED), with the model's own name.
    - "LIBRARY:MODEL", such as "fastembed:BAAI/bge-small-en-v1.5": a CallableEmbedder with this string as its name.
    - An Embedder (its class has `embed_documents` and `embed_queries`, and it has a `name`), or umi's object that wraps
      one for a framework: the Embedder itself.
    - A model of LangChain or LlamaIndex: a FrameworkEmbedder, named by the model's class and the name that the model
      states, such as "OpenAIEmbeddings/text-embedding-3-small"; by the class alone if it states none. A model that
      wraps another (WRAPPED) gets the wrapped model's name.
    - A model of sentence-transformers, model2vec or fastembed, or another with methods of LIBRARY_METHODS: a
      CallableEmbedder, named in the same way.
    - A function from texts to vectors, sync or async: a CallableEmbedder with the function's name.

    Args:
        model: See above; methods may be async. None: `config.embedder.model`; if that is None too, "default".

    Raises:
        ConfigError: If `model` is none of these.
        MissingExtra: If the package of a named model is not installed; the message has the pip line.
    """
    if model is None:
        model = (None if config is None else config.embedder.model) or "default"
    if isinstance(model, str):
        return _model_of_name(model)
    if isinstance(model, type):
        raise ConfigError(f"embedder is the class {model.__name__}; expected an instance of it: {model.__name__}(...)")
    model = getattr(model, "umi_embedder", None) or model  # umi_langchain and umi_llamaindex wrap umi's embedders
    if all(hasattr(type(model), part) for part in ("embed_documents", "embed_queries")) and hasattr(model, "name"):
        return model  # type: ignore[no-any-return]
    for documents, query in FRAMEWORK_METHODS:
        if all(hasattr(model, part) or hasattr(model, f"a{part}") for part in (documents, query)):
            return FrameworkEmbedder(model, documents, query)
    if (embedder := _library_model(model, *name_of(model))) is not None:
        return embedder
    # B004 advises `callable`, which does not tell whether the method is a coroutine function.
    if iscoroutinefunction(model) or iscoroutinefunction(getattr(model, "__call__", None)):  # noqa: B004
        return CallableEmbedder(None, adocuments=model, name=name_of(model)[0], named=False)
    if callable(model):
        return CallableEmbedder(model, name=name_of(model)[0], named=False)
    raise ConfigError(
        f"embedder is {type(model).__name__}; expected {EMBEDDER_NAMES}, an object with name, dim, embed_documents and "
        "embed_queries, a LangChain Embeddings, a LlamaIndex embed model, a model of sentence-transformers or "
        "fastembed, or a function from texts to vectors"
    )


@lru_cache(maxsize=8)
def _model_of_name(name: str) -> Embedder:
    """The model of this name in PACKAGED. For "LIBRARY:MODEL", the library loads the model, and may download it."""
    if name in PACKAGED:
        return PACKAGED[name]()
    library, _, model = name.partition(":")
    if library not in LIBRARIES or not model:
        raise ConfigError(
            f"embedder is {name!r}; expected {EMBEDDER_NAMES}; if it is a model of another library, pass the model "
            "itself, such as OpenAIEmbeddings(...); if it is the directory of a store, pass it as persist_directory "
            "(LangChain) or persist_dir (LlamaIndex)"
        )
    module = optional_module(library.replace("-", "_"), library)
    embedder = _library_model(getattr(module, LIBRARIES[library])(model), name)
    assert embedder is not None, "each library's class has its methods"
    return embedder


def _library_model(model: Any, name: str, named: bool = True) -> CallableEmbedder | None:
    """An embedder that calls two methods of `model`; None: the model has no pair of methods in LIBRARY_METHODS."""
    for names in LIBRARY_METHODS:
        methods = [getattr(model, method, None) for method in names]
        if None not in methods:
            return CallableEmbedder(*map(_without_progress_bar, methods), name=name, named=named)
    return None


def _without_progress_bar(method: Any) -> Any:
    try:
        has_option = "show_progress_bar" in signature(method).parameters
    except ValueError:  # a method written in C may state no signature
        has_option = False
    return partial(method, show_progress_bar=False) if has_option else method


def identity_of(embedder: Embedder) -> str | None:
    """The name under which a file may cache this embedder's vectors; None: its name does not identify the model."""
    return embedder.name if getattr(embedder, "named", True) else None


def declared_dim(embedder: Embedder) -> int | None:
    """The embedder's dimension, if it is known without a call of the model; else None."""
    return embedder._dim if isinstance(embedder, CallableEmbedder) else getattr(embedder, "dim", None)


class FrameworkEmbedder(CallableEmbedder):
    """An embedder that calls two methods of a model of LangChain or LlamaIndex, a pair of FRAMEWORK_METHODS.

    A user may set `symmetric = True` on a model that gives a query the same vector as a document with its text. Queries
    are then embedded as documents, several in one call.
    """

    def __init__(self, model: Any, documents: str, query: str) -> None:
        self._arguments = model, documents, query
        name, named = name_of(_unwrapped(model)[-1])
        own: dict[str, Any] = {"name": name, "named": named, "adocuments": _async_method(model, f"a{documents}")}
        if getattr(model, "symmetric", False) is True:
            super().__init__(getattr(model, documents, None), **own)
            return
        embed_query, aembed_query = getattr(model, query, None), _async_method(model, f"a{query}")

        async def aembed_queries(texts: list[str]) -> list[Any]:
            return [await aembed_query(text) for text in texts]

        super().__init__(
            getattr(model, documents, None),
            None if embed_query is None else lambda texts: [embed_query(text) for text in texts],
            aqueries=None if aembed_query is None else aembed_queries,
            one_by_one=True,
            **own,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return FrameworkEmbedder, self._arguments  # the functions made in `__init__` cannot be pickled


def _async_method(model: Any, name: str) -> Any:
    """A model's async method. None if there is none, or if the model, or a model that it wraps, inherits it from
    LangChain's base class (LANGCHAIN_BASE)."""
    method = getattr(model, name, None)
    inherited = any(
        getattr(getattr(each, name, None), "__module__", None) == LANGCHAIN_BASE for each in _unwrapped(model)
    )
    return None if inherited else method


def _unwrapped(model: Any) -> list[Any]:
    """The model and all models that it wraps, outermost first."""
    models = [model]
    while len(models) < 10:  # a limit, in case two models wrap each other
        inner = next((found for name in WRAPPED if (found := getattr(models[-1], name, None)) is not None), None)
        if inner is None:
            break
        models.append(inner)
    return models


def name_of(model: Any) -> tuple[str, bool]:
    """The model's name, and whether the model states it."""
    for attribute in ("model_name", "model", "model_id", "name"):
        stated = getattr(model, attribute, None)
        if isinstance(stated, str) and stated not in ("", "unknown"):
            return f"{type(model).__name__}/{stated}", True
    return str(getattr(model, "__qualname__", type(model).__qualname__)), False
