"""umi as a LangChain vector store, with hybrid search. LangChain's `index()` can fill it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from typing_extensions import Self

from umi_common.errors import ConfigError, InvalidVector, SearchUnavailable
from umi_common.filters import Scope, asked_filter
from umi_common.frameworks.classes import SharesStore, in_thread, retriever_over
from umi_common.frameworks.records import PlaceKeys
from umi_common.protocols import Embedder, chunk_passes, pages
from umi_common.retriever import DualRetriever, Where
from umi_common.search.request import (
    LIMIT_MAX,
    SearchOptions,
    SearchRequest,
    checked_limit,
    end_of,
    refuse_unknown_options,
)
from umi_common.stores.batch_checks import OnInvalid, skipped_list
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Hit, SearchResult, utc_now
from umi_langchain._convert import SourcePlaces, add_documents, as_documents, to_document
from umi_langchain._messages import as_turns
from umi_langchain._parts import reranker_of
from umi_langchain._search_text import SearchText
from umi_langchain.retriever import CallOptions, UmiRetriever

log = logging.getLogger("umi")

SEARCHES = ("similarity_search", "max_marginal_relevance_search")
"""Beginnings of the names of the synchronous search methods, such as `similarity_search_by_vector`."""
WRITE_OPTIONS = ("ids", "search_text", "show_progress", "batch_size", "current_time")
"""Options of `add_documents`."""


class UmiVectorStore(SharesStore, VectorStore):
    """A writable store with hybrid search and LangChain's vector store interface.

    Searches take `k` (1..100) and `filter`, and by keyword the other options of `DualRetriever.search`. A blank query,
    as from `SelfQueryRetriever`, lists the first `k` documents by id that pass the filter, of any number `k`, each with
    score 0 and relevance 1. `as_retriever()` returns LangChain's own retriever, `retriever()` a `UmiRetriever` with
    scores and reasons.

    Args:
        embedding: The model that makes the vectors: an `Embeddings` or a name such as "minilm"; see `HybridStore.open`.
            None: umi's built-in model.
        persist_directory: Directory of the store; None: the store is in memory.
        llm: A chat model, an LLM or a function from prompt to reply, for deep search; None: no deep search.
        store: An existing store, in place of embedding and persist_directory; `close` does not close it.
        reranker: As in `DualRetriever`.
        read_only: Search an existing directory that another process writes.
        search_text: As in `UmiRetriever.from_documents`, for all documents that are added.
        on_invalid: "raise", or "skip": documents that cannot be stored, for example blank ones, are left out, and
            `skipped` lists them.
        source_key, position_key, time_key: As the fields of `UmiRetriever`.
        **sections: Sections of `UmiConfig`: `fusion={"method": "rrf"}`.

    Raises:
        ConfigError: If an option is unknown, out of range, or given beside a `store` that has it.
    """

    def __init__(
        self,
        embedding: Embeddings | str | None = None,
        persist_directory: str | None = None,
        *,
        llm: Any = None,
        store: HybridStore | None = None,
        reranker: Any = None,
        read_only: bool = False,
        search_text: SearchText = None,
        on_invalid: OnInvalid = "raise",
        source_key: str | None = "source",
        position_key: str | None = "position",
        time_key: str | None = "timestamp",
        **sections: Any,
    ) -> None:
        self._owns_store = store is None
        self._embedding = embedding
        self._search_text = search_text
        self._skipped = skipped_list(on_invalid)
        self._keys = PlaceKeys(source_key, position_key, time_key)
        self.umi = retriever_over(
            UmiVectorStore,
            store,
            sections,
            embedder=embedding,
            directory=persist_directory,
            read_only=read_only,
            rewriter=llm,
            reranker=reranker_of(reranker, self._keys),
        )
        self.store: HybridStore = self.umi.store  # type: ignore[assignment]
        self._places = SourcePlaces(self.store, self._keys)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make an asynchronous search call the synchronous one in a thread if a subclass replaces only the latter."""
        super().__init_subclass__(**kwargs)
        for name in list(vars(cls)):
            if name.startswith(SEARCHES) and f"a{name}" not in vars(cls):
                setattr(cls, f"a{name}", in_thread(name))

    @property
    def embeddings(self) -> Embeddings:
        """The `Embeddings` that the constructor was given, else the store's embedder as `Embeddings`."""
        return self._embedding if isinstance(self._embedding, Embeddings) else StoreEmbeddings(self.store.embedder)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | str | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        ids: list[str] | None = None,
        **options: Any,
    ) -> Self:
        """`from_documents` for texts; `metadatas` and `ids` are aligned with them."""
        return cls.from_documents(as_documents(texts, metadatas, ids), embedding, **options)

    afrom_texts = classmethod(in_thread("from_texts"))

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings | str | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """A store that holds these documents.

        `ids` and `show_progress` are as in `add_documents`, options as in the constructor.
        """
        made = cls(embedding, **options)
        try:
            # Passed only if True: a subclass may have an `add_documents` without this option.
            shown: dict[str, Any] = {"show_progress": True} if show_progress else {}
            made.add_documents(documents, ids=ids, **shown)
        except BaseException:
            made.close()
            raise
        return made

    afrom_documents = classmethod(in_thread("from_documents"))

    def retriever(self, **options: Any) -> UmiRetriever:
        """A `UmiRetriever` over this store; options are its fields, such as `k`, `filter` and `deep_search`.

        Its `add_documents` uses this store's `search_text` and `on_invalid`.
        """
        keys = {"source_key": self._keys.source, "position_key": self._keys.position, "time_key": self._keys.time}
        made = UmiRetriever(umi=self.umi, **{**keys, **options})
        made._search_text, made._skipped = self._search_text, self._skipped
        if made.keys == self._keys:  # so that retriever and store never give the same position to two documents
            made._places = self._places
        return made

    def as_retriever(self, **options: Any) -> VectorStoreRetriever:
        """A `VectorStoreRetriever` over this store; options are its fields. An unknown option raises TypeError."""
        unknown = sorted(set(options) - set(VectorStoreRetriever.model_fields))
        if unknown:
            raise TypeError(
                f"no option {unknown[0]!r}; LangChain's retriever takes search_kwargs={{{unknown[0]!r}: ...}}, "
                f"umi's retriever({unknown[0]}=...)"
            )
        return super().as_retriever(**options)

    def add_documents(
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        *,
        search_text: SearchText = None,
        show_progress: bool = False,
        **options: Any,
    ) -> list[str]:
        """Insert documents, or replace stored documents with the same id; an error writes nothing.

        Args:
            documents: In reading order. A document without an id gets a hash of its text and metadata.
            ids: Ids in place of the documents' own, aligned. None, for all or for one document: the document's own id.
            search_text: As in `UmiRetriever.from_documents`, for these documents; None: that of the constructor.
            show_progress: Whether to show progress bars while texts are embedded and stored.
            **options: Two options that LangChain passes. `index()` passes `batch_size`, and removes the old versions of
                the documents later. So a document gets the position of its old version; the size of batches does not
                change. `TimeWeightedVectorStoreRetriever` passes `current_time`, which has no effect: the time of a
                document is in its metadata.

        Returns:
            The ids, aligned, without the ids of documents that `on_invalid="skip"` leaves out.

        Raises:
            InvalidChunk, DuplicateId: If a document cannot be stored, or two have the same id; the message names the
                document.
            TypeError: If an option is unknown.
        """
        refuse_unknown_options(options, WRITE_OPTIONS, TypeError)
        how = self._search_text if search_text is None else search_text
        again = "batch_size" in options
        return add_documents(
            self._places, documents, ids, how, replaces=again, skipped=self._skipped, show_progress=show_progress
        )

    aadd_documents = in_thread("add_documents")

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        ids: list[str] | None = None,
        **options: Any,
    ) -> list[str]:
        """`add_documents` for texts; `metadatas` and `ids` are aligned with them."""
        return self.add_documents(as_documents(texts, metadatas, ids), **options)

    aadd_texts = in_thread("add_texts")  # LangChain's own drops texts that have no id, and all texts of an iterator

    def delete(self, ids: list[str] | None = None, *, where: Where = None, **options: Any) -> bool:
        """Remove the documents that have one of the ids, if ids are given, and pass the filter, if one is given.

        Returns True. Unknown ids are ignored.

        Raises:
            InputError: If neither ids nor a filter is given; `delete(store.store.ids())` removes all documents.
            TypeError: If an option is unknown: it may be meant as a condition.
        """
        refuse_unknown_options(options, ("ids", "where"), TypeError)
        self.store.delete(ids, where=where)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents with these ids, in the order of the ids; unknown ids are left out."""
        return [to_document(chunk, self._keys) for chunk in self.store.get(ids) if chunk is not None]

    def similarity_search(self, query: str, k: int = 4, filter: Where = None, **options: Any) -> list[Document]:
        """The best documents, best first, at most `k` (1..100); options are those of `DualRetriever.search`."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, **options)]

    async def asimilarity_search(self, query: str, k: int = 4, filter: Where = None, **options: Any) -> list[Document]:
        """`similarity_search` for an event loop."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, filter, **options)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Where = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """`similarity_search` with scores, which do not compare between queries."""
        return self._scored(self._search(self.umi, query, k, filter, options))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Where = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_score` for an event loop."""
        return self._scored(await self._asearch(self.umi, query, k, filter, options))

    def similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, filter: Where = None, *, score_threshold: float | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """`similarity_search` with `hit.relevance`, 0..1, which compares between queries.

        Documents of a lower relevance than `score_threshold`, another name of `min_relevance`, are left out.

        Raises:
            SearchUnavailable: If the dense arm did not answer.
            ConfigError: If the threshold is outside 0..1, or is given by both names.
        """
        return self._relevant(self._search(self.umi, query, k, filter, _with_threshold(score_threshold, options)))

    async def asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, filter: Where = None, *, score_threshold: float | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_relevance_scores` for an event loop."""
        options = _with_threshold(score_threshold, options)
        return self._relevant(await self._asearch(self.umi, query, k, filter, options))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Where = None, **options: Any
    ) -> list[Document]:
        """The best documents by cosine with `embedding` (dim,), without BM25, best first.

        As in other searches, adjacent documents of a source raise each other's score.
        """
        return self.similarity_search("", k, filter, **_vector_only(embedding, options))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: Where = None, **options: Any
    ) -> list[Document]:
        """Documents that are relevant and unlike each other, in the order in which maximal marginal relevance chooses.

        Args:
            fetch_k: Number of best documents from which MMR chooses; if it is below `k`, MMR chooses from `k`.
            lambda_mult: 0..1; with 1 only relevance counts, with 0 only diversity.
        """
        found = self.max_marginal_relevance_search_with_score(query, k, fetch_k, lambda_mult, filter, **options)
        return [document for document, _ in found]

    def max_marginal_relevance_search_with_score(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: Where = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """`max_marginal_relevance_search` with scores. The documents are not in the order of the scores."""
        return self._scored(self._search(self._diverse(fetch_k, lambda_mult), query, k, filter, options))

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: Where = None, **options: Any
    ) -> list[Document]:
        """`max_marginal_relevance_search` for an event loop."""
        found = await self.amax_marginal_relevance_search_with_score(query, k, fetch_k, lambda_mult, filter, **options)
        return [document for document, _ in found]

    async def amax_marginal_relevance_search_with_score(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: Where = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """`max_marginal_relevance_search_with_score` for an event loop."""
        return self._scored(await self._asearch(self._diverse(fetch_k, lambda_mult), query, k, filter, options))

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Where = None,
        **options: Any,
    ) -> list[Document]:
        """`max_marginal_relevance_search` among the documents with the largest cosine with `embedding` (dim,)."""
        options = _vector_only(embedding, options)
        return self.max_marginal_relevance_search("", k, fetch_k, lambda_mult, filter, **options)

    def _search(self, umi: DualRetriever, query: str, k: int, filter: Where, options: dict[str, Any]) -> SearchResult:
        if _is_listing(query, options):
            return self._listed(k, filter, **options)
        return umi.search(end_of(query), **_asked(k, filter, options))

    async def _asearch(
        self, umi: DualRetriever, query: str, k: int, filter: Where, options: dict[str, Any]
    ) -> SearchResult:
        if _is_listing(query, options):
            return await asyncio.to_thread(self._listed, k, filter, **options)
        return await umi.asearch(end_of(query), **_asked(k, filter, options))

    def _listed(
        self, k: Any, filter: Where, *, now: datetime | None = None, on_stage: object = None, **options: Any
    ) -> SearchResult:
        """The result for a blank query. The options are checked as those of a search."""
        k = options.pop("limit", k)
        bounded = LIMIT_MAX if isinstance(k, (int, np.integer)) and k > LIMIT_MAX else k  # a listing has no largest k
        asked = _asked(bounded, filter, options)
        request = SearchRequest.checked(query="any text", now=utc_now() if now is None else now, **asked)
        passing = (
            chunk
            for page in pages(self.store, where=request.where)
            for chunk in page
            if chunk_passes(chunk, None, request.time_range)
        )
        hits = [Hit(chunk, 0.0, rank, relevance=1.0) for rank, chunk in enumerate(islice(passing, k), start=1)]
        return SearchResult(tuple(hits), "", answerable=bool(hits))

    def _diverse(self, fetch_k: int, lambda_mult: object) -> DualRetriever:
        if not isinstance(lambda_mult, (int, float, np.number)) or not 0 <= lambda_mult <= 1:
            raise ConfigError(f"lambda_mult is {lambda_mult!r}; expected 0 (diversity alone) to 1 (relevance alone)")
        pool = 1 if fetch_k == 0 else fetch_k  # the smallest `mmr.pool` is 1; MMR chooses from at least k anyway
        return self.umi.with_config(mmr={"enabled": True, "trade_off": lambda_mult, "pool": pool})

    def _scored(self, result: SearchResult) -> list[tuple[Document, float]]:
        return [(to_document(hit.chunk, self._keys), hit.score) for hit in result]

    def _relevant(self, result: SearchResult) -> list[tuple[Document, float]]:
        """Documents with their relevance, 0..1, best first.

        SearchUnavailable is raised if the dense arm did not answer: without it, the relevances do not fit a threshold
        that was chosen for both arms.
        """
        if result.mode == "text" or result.answerable is None:
            lost = "; ".join(f"{loss.part}: {loss.reason}" for loss in result.degraded) or "the strategy is 'text'"
            raise SearchUnavailable(
                f"relevance scores and score_threshold need the vectors, which did not answer ({lost}); fix the cause, "
                "or search without relevance scores: similarity_search, similarity_search_with_score"
            )
        if not result.hits and result.answerable:
            log.warning(
                "no document reaches score_threshold, although the best hit is relevant: relevance is a probability "
                "between 0 and 1, not a cosine; 0.1 is a good threshold to start with"
            )
        return [(to_document(hit.chunk, self._keys), hit.relevance) for hit in result if hit.relevance is not None]


def _with_threshold(score_threshold: float | None, options: dict[str, Any]) -> dict[str, Any]:
    if score_threshold is None:
        return options
    if options.get("min_relevance") is not None:
        raise ConfigError("score_threshold and min_relevance are two names of one option; give one of them")
    return {**options, "min_relevance": score_threshold}


def _vector_only(embedding: list[float], options: dict[str, Any]) -> dict[str, Any]:
    if embedding is None:
        raise InvalidVector("embedding is None; expected a list of numbers: store.embeddings.embed_query(text)")
    return {**options, "strategy": "vector", "query_vector": embedding}


def _is_listing(query: str, options: dict[str, Any]) -> bool:
    """Whether the query is blank and no vector is given: then documents are listed by id, not searched."""
    return not end_of(query).strip() and options.get("query_vector") is None


def _asked(k: int, filter: Where, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `DualRetriever.search`. Documents must pass both `filter` and the option `where`."""
    refuse_unknown_options(set(options) - set(SearchOptions.__annotations__), CallOptions.__annotations__, TypeError)
    where = Scope(asked_filter(filter)).narrow(options.get("where"))
    history = as_turns(options.get("history", ()))
    return {"limit": checked_limit(k, "k"), **options, "where": where, "history": history}


class StoreEmbeddings(Embeddings):
    """The embedder of a store as LangChain `Embeddings`, for LangChain's own filters and selectors."""

    def __init__(self, umi_embedder: Embedder) -> None:
        self.umi_embedder = umi_embedder
        """The store's embedder. A store that is opened with this `Embeddings` uses that embedder and its name."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts to be stored, n lists of dim numbers."""
        return self.umi_embedder.embed_documents(texts).tolist()  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query, dim numbers."""
        return self.umi_embedder.embed_queries([text])[0].tolist()  # type: ignore[no-any-return]
