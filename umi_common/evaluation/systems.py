"""The systems that can be compared: umi with a configuration, and other retrievers.

A system is a `UmiConfig`, a `UmiSystem`, a retriever over the documents of every dataset, or a function that is called
once per dataset with (dataset, embedder) or (dataset) and returns a retriever or a search function:

    - a `DualRetriever`;
    - a LangChain retriever: `invoke(text)` -> documents with `.id`, or an id in their metadata;
    - a LlamaIndex retriever: `retrieve(text)` -> nodes with `.node.node_id`;
    - a search function: (query, k) -> ids, best first, or an `Answer`; query is an `evaluation.Query`.

Frameworks are recognised by their methods; none is imported.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from umi_common.config import AnalyzerConfig, EmbedderConfig, UmiConfig
from umi_common.embedders import as_embedder
from umi_common.embedders.adapters import FRAMEWORK_METHODS, LIBRARY_METHODS
from umi_common.errors import ConfigError, SystemFailed
from umi_common.evaluation.datasets import Dataset, Query
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.query.rewriting.models import model_name
from umi_common.runtime.closing import Closing
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk, SearchResult

System = object
"""A system of one of the kinds above."""
EmbedderChoice = Any
"""A model or its name, for all datasets, as for `as_embedder`; or a function from a dataset to its model. None: the
model in a system's settings, else the default embedder."""
MODEL_METHODS = [documents for documents, _ in (*FRAMEWORK_METHODS, *LIBRARY_METHODS)]
"""Names of the methods by which models embed documents. A callable with none of them is a function to a model."""
DatasetKey = tuple[tuple[Chunk, ...], str | None]
"""(the dataset's chunks, which all splits of a dataset share; name of the model)."""
ID_KEYS = ("id", "_id", "doc_id", "chunk_id")
"""Metadata keys for the id of a LangChain document; the first one that is not None is used."""


@dataclass(frozen=True, slots=True)
class UmiSystem:
    """umi with a configuration, and optionally with an LLM, a reranker, or only one arm."""

    config: UmiConfig = field(default_factory=UmiConfig)
    rewriter: Any = None
    """An LLM, which is asked for the queries that the settings `routing` choose: a `Rewriter`, or a function from
    prompt to reply. None: no LLM."""
    reranker: Any = None
    """The reranker, of any kind that `DualRetriever` accepts; None: no reranking."""
    strategy: str = "hybrid"
    """"hybrid": both arms; "text": only the lexical arm; "vector": only the dense arm."""


def arm(name: Literal["lexical", "dense"]) -> UmiSystem:
    """A system that ranks by the scores of one arm of umi.

    The settings `neighbours`, `references`, `duplicates`, `when` (periods that the query names) and `fusion.adaptive`
    are off. The stages of `search.reorder.stages` do not run in a search by one arm. Another name raises ConfigError.
    """
    if name not in ("lexical", "dense"):
        raise ConfigError(f"arm {name!r:.80}; expected 'lexical' or 'dense'")
    off = {"enabled": False}
    config = UmiConfig().replaced(neighbours=off, references=off, duplicates=off, when=off, fusion={"adaptive": False})
    return UmiSystem(config, strategy={"lexical": "text", "dense": "vector"}[name])


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a system for one query."""

    ids: tuple[str, ...]
    """Ids of the documents found, best first."""
    llm_calls: int | None = None
    """Number of LLM calls; None: not known."""
    arms: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """By id and arm: the rank, from 1, in the arm's list for the original query; None: the document was found
    otherwise, and the arm has scored it, but its list lacks it."""
    degraded: tuple[str, ...] = ()
    """Names of the parts of the search that failed."""


Search = Callable[[Query, int], Answer]
"""A function from a query and a number k to an answer with at most k ids."""


def open_system(name: str, system: System, dataset: Dataset, stores: Stores) -> Search:
    """The search function of a system over one dataset.

    ConfigError is raised if `system`, or the result of its function, is none of the kinds in this module's docstring,
    SystemFailed if the function raises.
    """
    if isinstance(system, UmiConfig):
        system = UmiSystem(system)
    if isinstance(system, UmiSystem):
        from umi_common.retriever import DualRetriever

        store, config = stores.open(dataset, system.config), system.config
        retriever = DualRetriever(store, rewriter=system.rewriter, reranker=system.reranker, config=config)
        return _search_by_umi(retriever, system.strategy)
    if not isinstance(system, type) and (search := _search_by_retriever(name, system)) is not None:
        return search
    if not callable(system):
        raise ConfigError(
            f"system {name!r} is {type(system).__name__}; expected a UmiConfig, a UmiSystem or a function of a "
            "dataset; or a retriever over its documents"
        )
    arguments = (dataset, stores.embedder(dataset)) if _takes_embedder(system) else (dataset,)
    try:
        built = system(*arguments)
    except Exception as error:
        raise SystemFailed(
            f"system {name!r} failed when it was built for {dataset.name}/{dataset.group}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if (search := _search_by_retriever(name, built)) is not None:
        return search
    if not callable(built):
        raise ConfigError(
            f"system {name!r} built a {type(built).__name__}; expected a function (query, k) -> ids, a LangChain "
            "retriever, a LlamaIndex retriever or a DualRetriever"
        )

    def answer(query: Query, k: int) -> Answer:
        found = built(query, k)
        return replace(found, ids=_cut(found.ids, k)) if isinstance(found, Answer) else Answer(_cut(found, k))

    return answer


def _takes_embedder(factory: Callable[..., Any]) -> bool:
    """Whether a function has two positional parameters without defaults; False for a builtin whose are not known."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.default is each.empty and each.kind in positional for each in parameters) == 2


def _search_by_retriever(name: str, retriever: Any) -> Search | None:
    """The search function of a retriever; None if the object is no retriever."""
    if hasattr(retriever, "reconfigure"):
        return _search_by_umi(retriever, "hybrid")
    if hasattr(retriever, "invoke"):
        return lambda query, k: Answer(_cut((_document_id(name, item) for item in retriever.invoke(query.text)), k))
    if hasattr(retriever, "retrieve"):
        return lambda query, k: Answer(_cut((item.node.node_id for item in retriever.retrieve(query.text)), k))
    return None


def _search_by_umi(retriever: Any, strategy: str) -> Search:
    def search(query: Query, k: int) -> Answer:
        before = retriever.metrics().llm_calls
        result: SearchResult = retriever.search(
            query.text, limit=k, now=query.now, history=query.history, strategy=strategy
        )
        arms = {
            hit.chunk.id: {signal.arm: signal.rank for signal in hit.signals if signal.variation == 0}
            for hit in result.hits
        }
        llm_calls = retriever.metrics().llm_calls - before
        return Answer(tuple(result.ids), llm_calls, arms, tuple(loss.part for loss in result.degraded))

    return search


def _document_id(name: str, document: Any) -> str:
    metadata = getattr(document, "metadata", {})
    for id in (getattr(document, "id", None), *map(metadata.get, ID_KEYS)):
        if id is not None:
            return str(id)
    keys = ", ".join(ID_KEYS)
    raise ConfigError(f"system {name!r} returned a document without .id and without metadata {keys}: {document!r:.80}")


def _cut(ids: Any, k: int) -> tuple[str, ...]:
    """The first k distinct ids; some frameworks return a document several times."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise ConfigError(f"the search returned {ids!r:.80}; expected a list of ids, best first")
    return tuple(dict.fromkeys(str(id) for id in ids))[:k]


class Stores(Closing):
    """Builds the store and the vectors of each dataset once, and keeps the stores open until `close`."""

    def __init__(self, embedder: EmbedderChoice = None) -> None:
        self._choice = embedder
        self._embedders: dict[DatasetKey, Embedder] = {}
        self._vectors: dict[DatasetKey, Vectors] = {}
        self._stores: dict[tuple[DatasetKey, AnalyzerConfig, EmbedderConfig], Any] = {}

    def embedder(self, dataset: Dataset, model: str | None = None) -> Embedder:
        """The embedder of this dataset: the one that `Stores` was given or, if it was given none, `model`."""
        key, choice = self._key(dataset, model), self._choice
        if key not in self._embedders:
            if callable(choice) and not any(hasattr(choice, method) for method in MODEL_METHODS):
                choice = choice(dataset)
            self._embedders[key] = as_embedder(model if choice is None else choice)
        return self._embedders[key]

    def vectors(self, dataset: Dataset, model: str | None = None) -> Vectors:
        """(n, dim) unit vectors of the dataset's n chunks, in order, computed once; `model` as in `embedder`."""
        key = self._key(dataset, model)
        if key not in self._vectors:
            ids, texts = [chunk.id for chunk in dataset.chunks], [chunk.indexed_text for chunk in dataset.chunks]
            self._vectors[key] = embedded(ids, texts, self.embedder(dataset, model), dim=None)
        return self._vectors[key]

    def open(self, dataset: Dataset, config: UmiConfig) -> Any:
        """The `HybridStore` of the dataset, built at the first call. Configurations with equal sections `analyzer` and
        `embedder` share it: all other settings are given with each search."""
        from umi_common.stores.embedded.hybrid import HybridStore  # slow to import, and other systems do not need it

        model = config.embedder.model
        key = self._key(dataset, model), config.analyzer, config.embedder
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
        return dataset.chunks, model if self._choice is None else None


def settings_of(system: System) -> Any:
    """A system's part of `run_key`: umi's settings, and the names of its rewriter and reranker. Of a function or a
    retriever it is the type and the name: its code, settings and documents are not known."""
    if isinstance(system, UmiConfig):
        system = UmiSystem(system)
    if not isinstance(system, UmiSystem):
        return model_name(system)
    settings = json.dumps(system.config.model_dump(), sort_keys=True, default=sorted)
    return [settings, system.strategy, model_name(system.rewriter), model_name(system.reranker)]
