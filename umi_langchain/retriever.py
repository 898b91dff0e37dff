"""umi as a LangChain retriever: a `DualRetriever` with LangChain's arguments and results."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import MessageLikeRepresentation
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, PrivateAttr, SkipValidation
from typing_extensions import Self, TypedDict, Unpack

from umi_common.errors import ConfigError
from umi_common.explain import reasons
from umi_common.filters import Filter, Scope, asked_filter, parse_filter
from umi_common.frameworks.classes import (
    CheckedFields,
    OpensStore,
    in_thread,
    overrides,
    refuse_factory_options,
    sections_and_fields,
)
from umi_common.frameworks.records import PlaceKeys, chroma_collection
from umi_common.frameworks.writing import add_mirrored, copy_mirrored
from umi_common.protocols import Store
from umi_common.retriever import DualRetriever, Strategy, Where, store_settings
from umi_common.search.extra_arms import arms_of
from umi_common.search.request import Window, checked_limit, checked_relevance, end_of, narrowed, refuse_unknown_options
from umi_common.stores.batch_checks import OnInvalid, SkippedChunk, skipped_list
from umi_common.types import SearchResult, as_utc
from umi_langchain._convert import (
    REASONS_KEY,
    SCORE_KEY,
    SKIP_ADVICE,
    SourcePlaces,
    add_documents,
    as_documents,
    checked_documents,
    chunk_pages,
    document_chunk_of_record,
    document_origin,
    to_chunks,
    to_document,
    warn_of_hidden,
)
from umi_langchain._messages import as_turns
from umi_langchain._parts import Finder, as_arm, reranker_of
from umi_langchain._runs import abatched, asearched, batched, searched
from umi_langchain._search_text import SearchText
from umi_langchain._sections import with_sections


class CallOptions(TypedDict, total=False):
    """The options of one call: `history` and `strategy` as in `DualRetriever.search`, the others as in `UmiRetriever`.

    For an option that is missing or None, the retriever's own value is used. Documents must pass both filters and lie
    in both time ranges.
    """

    k: int | None
    filter: Where
    time_range: Window
    deep_search: bool | None
    now: datetime | None
    history: Sequence[str | MessageLikeRepresentation]
    strategy: Strategy
    min_relevance: float | None


class UmiRetriever(OpensStore, CheckedFields, BaseRetriever):
    """Hybrid search with reasons, as a `Runnable[str, list[Document]]`.

    Make a retriever with `from_documents`, `from_texts`, `from_vectorstore` or `from_store`. A call takes the options
    of `CallOptions`: `retriever.invoke(query, k=3, filter={"user": "ann"})`.

    Documents are returned best first, with id and score (see `score_key`). Of a query over 10,000 bytes only the last
    10,000 are searched, and the logger `umi` warns of it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    umi: DualRetriever
    """The `DualRetriever` that searches."""
    k: int = 10
    """Largest number of documents in a result, 1..100."""
    filter: SkipValidation[Where] = None
    """Metadata filter of every call; documents must also pass the filter of the call. Scores still use counts over all
    documents of the store, such as the number of documents with a word (docs/tenants.md)."""
    time_range: SkipValidation[Window] = None
    """(start, end) aware datetimes: only documents with a time in [start, end)."""
    deep_search: bool = True
    """Whether the LLM, if there is one, may be asked for variations of the query."""
    now: datetime | None = None
    """The time that "last week" and ages refer to; None: the present."""
    min_relevance: float | None = None
    """0..1; documents of a lower `hit.relevance` are left out. None: the setting `relevance.minimum`."""
    whole: str | None = None
    """Metadata key, for example "section" or "source". Each returned document is then the joined text of a found chunk
    and of the adjacent chunks with the same value under the key; `metadata["umi_ids"]` lists the ids of these chunks.
    None: each document is one chunk."""
    score_key: str | None = SCORE_KEY
    """Metadata key of a document's score, unless the document has a value there. None: no score; without `reasons` and
    `whole`, two results then hold equal documents, and `MultiQueryRetriever` returns each document once."""
    reasons: bool = False
    """Whether `metadata["umi_reasons"]` says why each document was found."""
    source_key: str | None = "source"
    """Metadata key of the source, such as a file, that a text is a part of; None: texts have no source."""
    position_key: str | None = "position"
    """Metadata key of the position in the source. A document without it, or any document if this is None, gets its
    position from "start_index", which LangChain's splitters write."""
    time_key: str | None = "timestamp"
    """Metadata key of the time: a datetime, an ISO string (UTC without a zone) or seconds since 1970. None: no key."""
    _owns_store: bool = PrivateAttr(default=False)
    _skipped: list[SkippedChunk] | None = PrivateAttr(default=None)
    _search_text: SearchText = PrivateAttr(default=None)
    _places: SourcePlaces = PrivateAttr()
    _found: Callable[..., SearchResult] | None = PrivateAttr(default=None)
    """In a batch, a function that gives the outcome for the query that is invoked; None: the query is searched."""

    def __init__(self, **fields: Any) -> None:
        opening = ("embedding", "persist_directory", "search_text")
        refuse_factory_options(fields, type(self).model_fields, "from_documents", *opening)
        if "umi" not in fields:
            raise ConfigError("umi is missing; UmiRetriever.from_documents(documents, ...) makes a retriever")
        checked_relevance(fields.get("min_relevance"))
        super().__init__(**fields)
        checked_limit(self.k, "k")
        asked_filter(self.filter)
        narrowed(None, self.time_range)
        if self.now is not None:
            as_utc(self.now, "now")
        self.filter = copy.deepcopy(self.filter)  # the caller may change the dict later
        self._places = SourcePlaces(self.umi.store, self.keys)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document] = (),
        embedding: Embeddings | str | None = None,
        llm: Any = None,
        persist_directory: str | None = None,
        k: int | None = None,
        *,
        docs: Iterable[Document] = (),
        search_text: SearchText = None,
        mirror: bool = False,
        on_invalid: OnInvalid = "raise",
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """Store documents, and make a retriever over the store.

        The documents replace all stored documents of the same sources, so an edited file is found by its new text only.
        With a `filter`, only stored documents that pass it are replaced, so documents of other users stay. To add
        documents to a source, use `add_documents`.

        Args:
            documents: In reading order. Ids are kept; a document without an id gets a hash of its text and metadata.
            embedding: The model that makes the vectors: an `Embeddings` or a name such as "minilm"; see
                `HybridStore.open`. None: umi's built-in model.
            llm: A chat model, an LLM or a function from prompt to reply, for deep search; None: no deep search.
            persist_directory: Directory of the store; texts that it holds already are not embedded again. None: the
                store is in memory.
            k: As the field `k`; None: 10.
            docs: Another name of `documents`.
            search_text: The text to search in place of a document's text, which results show: a template of metadata
                keys, such as "{title}: {text}", or a list of keys, whose values come before the text. None: the text
                with the headings that a splitter moved into the metadata ("Header 2").
            mirror: Also remove from the directory every document that is not given and passes the `filter`.
            on_invalid: "raise", or "skip": documents that cannot be stored, for example blank ones, are left out, and
                `skipped` lists them.
            show_progress: Whether to show progress bars while texts are embedded and stored.
            **options: Fields of this class; sections of `UmiConfig` (`fusion={"method": "rrf"}`); `reranker`, as in
                `DualRetriever`; `arms`, further retrievers and vector stores whose documents are fused with those of
                the store (see `as_arm`); `read_only=True`, without documents, to search a directory that another
                process writes.

        Raises:
            InvalidChunk, DuplicateId: If a document cannot be stored, or two have the same id; the message names the
                document. Nothing is stored.
            ConfigError: If an option is unknown or out of range; and as `from_store`.
        """
        given = [*checked_documents(documents), *checked_documents(docs)]
        skipped = skipped_list(on_invalid)

        def fill(retriever: Self) -> None:
            store, keys, within = retriever.umi.store, retriever.keys, asked_filter(retriever.filter)
            chunks = to_chunks(given, keys, Counter(), search_text, skipped, advice=SKIP_ADVICE)[1]
            origin, gone = partial(document_origin, keys=keys), [(each.id, each.source) for each in skipped or ()]
            add_mirrored(
                store, chunks, origin, left_out=gone, within=within, everything=mirror, show_progress=show_progress
            )
            warn_of_hidden(chunks, within)

        if options.get("read_only") and (given or mirror):
            raise ConfigError("read_only=True stores nothing; leave documents and mirror out")
        retriever = cls._opened(fill, embedding, persist_directory, llm=llm, k=k, **options)
        retriever._skipped, retriever._search_text = skipped, search_text
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *positional: Any,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        ids: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """`from_documents` for texts; metadatas and ids are aligned with the texts.

        Positional arguments are (texts, embedding, metadatas, ids), as in LangChain's vector stores. If the second is a
        list, or `embedding` is given by name, they are (texts, metadatas, ids), as in LangChain's retrievers. TypeError
        is raised for other positional arguments, ConfigError if the lengths differ.
        """
        as_retrievers = "embedding" in options or (bool(positional) and isinstance(positional[0], (list, tuple)))
        names = ("metadatas", "ids") if as_retrievers else ("embedding", "metadatas", "ids")
        named = {"metadatas": metadatas, "ids": ids}
        if len(positional) > len(names):
            raise TypeError(f"from_texts takes at most {len(names)} arguments after the texts: {', '.join(names)}")
        for name in names[: len(positional)]:
            if named.get(name) is not None:
                raise TypeError(f"from_texts got {name} twice, by position and by name")
        given = named | dict(zip(names, positional, strict=False))
        return cls.from_documents(as_documents(texts, given.pop("metadatas"), given.pop("ids")), **given, **options)

    @classmethod
    def from_vectorstore(
        cls,
        vectorstore: Any,
        embedding: Embeddings | str | None = None,
        llm: Any = None,
        persist_directory: str | None = None,
        k: int | None = None,
        *,
        copy: bool = False,
        mirror: bool = False,
        **options: Any,
    ) -> Self:
        """Make a retriever over a Chroma vector store, which is searched in place; see `ChromaStore`.

        Later writes to the vector store are found, too. Its stored vectors are used. Three of its texts are embedded
        once, to check that `embedding` made the vectors.

        Args:
            vectorstore: A `langchain_chroma.Chroma`. `add_documents` and `delete` of the retriever change it.
            embedding: The model that made the stored vectors; None: the vector store's own embedding.
            persist_directory: Directory of umi's index of the texts or, with `copy`, of the copy; None: in memory.
            copy: Copy the vector store into a store of umi, by the rules of `from_documents`; later writes to the
                vector store are not found.
            llm, k, mirror, options: As in `from_documents`; `mirror` is for copies.

        Raises:
            ConfigError: If `vectorstore` is no Chroma store; give the documents of another store to `from_documents`.
                Or if `mirror` is given without `copy`.
            ReindexRequired: If another model made the stored vectors.
        """
        collection = chroma_collection(vectorstore, "Chroma")
        if collection is None:
            raise ConfigError(
                f"vectorstore is {type(vectorstore).__name__}; expected langchain_chroma.Chroma. If this is a "
                "retriever over a Chroma store, give its .vectorstore; if a chromadb Collection, use "
                "UmiRetriever.from_store(ChromaStore(collection, embedder)); if a UmiVectorStore, use its "
                ".retriever(); for any other store, give its documents to from_documents"
            )
        embedding = vectorstore.embeddings if embedding is None else embedding
        if not copy:
            read = partial(document_chunk_of_record, cls.model_construct(**sections_and_fields(options)[1]).keys)
            return cls._over_chroma(vectorstore, embedding, persist_directory, read, mirror, llm=llm, k=k, **options)

        def fill(retriever: Self) -> None:
            store, keys, within = retriever.umi.store, retriever.keys, asked_filter(retriever.filter)
            origin, pages = partial(document_origin, keys=keys), chunk_pages(collection, keys)
            copy_mirrored(store, collection.name, pages, origin, within=within, everything=mirror)

        return cls._opened(fill, embedding, persist_directory, llm=llm, k=k, **options)

    @classmethod
    def from_store(
        cls,
        store: Store,
        llm: Any = None,
        k: int | None = None,
        *,
        reranker: Any = None,
        arms: Sequence[Finder] | None = None,
        **options: Any,
    ) -> Self:
        """Make a retriever over an existing store, which `close` does not close.

        The arguments are as in `from_documents`, without those that open or fill a store. Sections of `UmiConfig` that
        are not given are those with which the store was opened.

        Raises:
            ConfigError, InvalidLimit, FilterError, InvalidTimeRange: If an option is unknown or not valid.
        """
        settings, fields = sections_and_fields(options)
        keys = cls.model_construct(**fields).keys
        further = arms_of(arms, partial(as_arm, keys=keys))
        config = store_settings(store).replaced(**settings)
        umi = DualRetriever(store, rewriter=llm, reranker=reranker_of(reranker, keys), arms=further, config=config)
        return cls(umi=umi, **fields if k is None else {**fields, "k": k})

    @property
    def keys(self) -> PlaceKeys:
        """The metadata keys of source, position and time."""
        return PlaceKeys(self.source_key, self.position_key, self.time_key)

    def add_documents(
        self,
        documents: Sequence[Document],
        ids: Sequence[str | None] | None = None,
        *,
        search_text: SearchText = None,
        show_progress: bool = False,
    ) -> list[str]:
        """`UmiVectorStore.add_documents` for the retriever's store."""
        how = self._search_text if search_text is None else search_text
        within = asked_filter(self.filter)
        if (self._places.store, self._places.keys) != (self.umi.store, self.keys):  # assigned, or in a copy
            self._places = SourcePlaces(self.umi.store, self.keys)
        return add_documents(
            self._places, documents, ids, how, within=within, skipped=self._skipped, show_progress=show_progress
        )

    aadd_documents = in_thread("add_documents")

    def delete(self, ids: Sequence[str] | None = None, *, where: Where = None) -> bool:
        """Remove the documents that have one of the ids, if ids are given, and pass the filter, if one is given.

        Returns True. Documents that do not pass the retriever's filter are never removed. Unknown ids are ignored.

        Raises:
            InputError: If neither ids nor a filter is given.
        """
        within = None if ids is None and where is None else self._where(parse_filter(where))
        self.umi.store.delete(ids, where=within)
        return True

    adelete = in_thread("delete")

    def search(self, query: str, **options: Unpack[CallOptions]) -> SearchResult:
        """The `SearchResult` from which `invoke` makes documents: hits with signals, failed parts, and the trace.

        Its hits are the chunks found; with `whole`, `invoke` makes documents of its `sections`.
        """
        return self.umi.search(end_of(query), **self.core_options(options))

    async def asearch(self, query: str, **options: Unpack[CallOptions]) -> SearchResult:
        """`search` for an event loop."""
        return await self.umi.asearch(end_of(query), **self.core_options(options))

    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[list[Document]]:
        """The documents of each input, aligned, as `invoke` returns them.

        Up to `max_concurrency` inputs, by default all, share one call of the embedder and one recall from the store.
        Every input has its own callback run.

        Args:
            config: One config for all inputs, or a list with one for each.
            return_exceptions: Return the exception of an input in place of its documents; False: raise the first one.
            **options: `CallOptions`, equal for all inputs.

        Raises:
            InputError: If `inputs` is no list, or a query cannot be searched and `return_exceptions` is False.
            ConfigError: If `max_concurrency` is below 1.
        """
        if overrides(self, UmiRetriever, "invoke", "_get_relevant_documents"):
            return super().batch(inputs, config, return_exceptions=return_exceptions, **options)
        return batched(self, inputs, config, options, return_exceptions=return_exceptions)

    async def abatch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[list[Document]]:
        """`batch` for an event loop."""
        if overrides(self, UmiRetriever, "ainvoke", "_get_relevant_documents", "_aget_relevant_documents"):
            return await super().abatch(inputs, config, return_exceptions=return_exceptions, **options)
        return await abatched(self, inputs, config, options, return_exceptions=return_exceptions)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Unpack[CallOptions]
    ) -> list[Document]:
        asked = self.core_options(options)
        result = searched(self._found or self.umi.search, run_manager.get_child(), end_of(query), **asked)
        return self.documents(self.sections(result, asked))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Unpack[CallOptions]
    ) -> list[Document]:
        own = partial(overrides, self, UmiRetriever)
        if own("_get_relevant_documents") and not own("_aget_relevant_documents"):
            sync = run_manager.get_sync()
            return await asyncio.to_thread(self._get_relevant_documents, query, run_manager=sync, **options)
        asked = self.core_options(options)
        result = await asearched(self._found or self.umi.asearch, run_manager.get_child(), end_of(query), **asked)
        await asyncio.sleep(0)  # lets the event loop run other tasks between the answers of a batch
        if self.whole is not None:
            result = await asyncio.to_thread(self.sections, result, asked)
        return self.documents(result)

    def sections(self, result: SearchResult, asked: Mapping[str, Any]) -> SearchResult:
        """The result of a search with these `core_options`, with sections in place of chunks if `whole` is set."""
        if self.whole is None:
            return result
        return with_sections(result, self.umi.store, self.whole, asked["where"], asked["time_range"])

    def documents(self, result: SearchResult) -> list[Document]:
        """The documents of a result of `search`, one for each hit."""
        documents = []
        for hit in result:
            document = to_document(hit.chunk, self.keys)
            if self.score_key is not None:
                document.metadata.setdefault(self.score_key, hit.score)
            if self.reasons:
                document.metadata[REASONS_KEY] = reasons(hit)
            documents.append(document)
        return documents

    def core_options(self, options: Mapping[str, object]) -> dict[str, Any]:
        """The arguments of `DualRetriever.search` for the options of a call; missing ones are the retriever's own.

        An unknown option raises TypeError; a wrong one InvalidLimit, FilterError, InvalidTimeRange or InputError.
        """
        refuse_unknown_options(options, CallOptions.__annotations__, TypeError)
        asked: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return {
            "limit": checked_limit(asked.get("k", self.k), "k"),
            "where": self._where(asked.get("filter")),
            "time_range": narrowed(self.time_range, asked.get("time_range")),
            "deep_search": asked.get("deep_search", self.deep_search),
            "now": asked.get("now", self.now),
            "history": as_turns(asked.get("history", ())),
            "strategy": asked.get("strategy", "hybrid"),
            "min_relevance": asked.get("min_relevance", self.min_relevance),
        }

    def _where(self, asked: Where) -> Filter | None:
        return Scope(asked_filter(self.filter)).narrow(asked_filter(asked))

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = LangSmithRetrieverParams(ls_retriever_name="umi", ls_vector_store_provider="umi")
        if (embedder := getattr(self.umi.store, "embedder", None)) is not None:
            params["ls_embedding_model"] = embedder.name
        return params
