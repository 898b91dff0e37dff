"""umi as a LlamaIndex retriever."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from inspect import signature
from typing import Any, Literal, get_args

import llama_index.core.instrumentation as instrument
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.ingestion import run_transformations
from llama_index.core.prompts import BasePromptTemplate, PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, TransformComponent
from llama_index.core.vector_stores.types import MetadataFilters
from typing_extensions import Self

from umi_common.context.budget import AssembledContext
from umi_common.errors import ConfigError, InputError, SearchUnavailable
from umi_common.filters import Scope, Where, asked_filter
from umi_common.frameworks.classes import OpensStore, overrides, refuse_factory_options, sections_and_fields
from umi_common.frameworks.records import PlaceKeys, chroma_collection
from umi_common.frameworks.writing import add_mirrored, copy_mirrored
from umi_common.protocols import Embedder, Store
from umi_common.retriever import DualRetriever, store_settings
from umi_common.runtime.losses import warn_once
from umi_common.search.extra_arms import Arm, arms_of
from umi_common.search.request import Window, checked_limit, checked_relevance, narrowed, refuse_unlisted
from umi_common.stores.batch_checks import OnInvalid, skipped_list
from umi_common.types import SearchResult, as_utc
from umi_llamaindex._convert import (
    SKIP_ADVICE,
    Places,
    add_embedded,
    check_node,
    listed,
    node_origin,
    stated_origin,
    to_chunks,
    to_node,
    without_skipped,
)
from umi_llamaindex._index import index_pages, node_chunk_of_record
from umi_llamaindex._parts import as_arm, embed_model_of, llm_of, reranker_of
from umi_llamaindex.events import send_events
from umi_llamaindex.query import NO_TEXT, UmiQuery, defines_vector, history_texts, query_text

dispatcher = instrument.get_dispatcher(__name__)  # type: ignore[attr-defined]

NodeScore = Literal["score", "relevance"]
"""The field of a hit that becomes the score of its node."""
REWRITE_PROMPT = "rewrite"
"""Name of the LLM's prompt among the retriever's prompts."""
BLANK_QUERY = "a retriever was given a blank query, for which it finds nothing. Logged once."
UNUSED_STRINGS = "custom_embedding_strs of a query could not be embedded (%s); its text is searched. Logged once."


class UmiRetriever(OpensStore, BaseRetriever):
    """Hybrid search over nodes; `retrieve` and `aretrieve` take a string, a `QueryBundle` or a `UmiQuery`.

    Make a retriever with `from_documents`, `from_nodes`, `from_index` or `from_store`. Nodes are returned best first,
    as copies with their ids and relationships; `search` and `asearch` return a `SearchResult`, with each hit's ranks
    and scores. Of a query over 10,000 bytes only the last 10,000 are searched, and the logger `umi` warns of it. For a
    blank query `retrieve` returns no nodes, so that a query engine does not fail, and `search` raises EmptyQuery.

    The query's vector is the bundle's `embedding`, else the mean of the vectors of its `custom_embedding_strs`, else
    the vector of its text. A query with a vector and a blank text is searched by the dense arm alone. In deep search,
    the retriever's prompt "rewrite" asks the LLM for variations of the query.

    Args:
        umi: The `DualRetriever` that searches.
        similarity_top_k: Largest number of nodes of a result, 1..100.
        filters: `MetadataFilters`, or a filter as a dict, for every query; chunks must also pass the query's own.
        time_range: (start, end) aware datetimes: only chunks with an event time in [start, end).
        deep_search: Whether the LLM, if there is one, may be asked for variations of the query.
        now: The present, for phrases such as "last week"; None: the time of the clock.
        min_relevance: 0..1; nodes of a lower relevance are left out. None: the setting `relevance.minimum`.
        score: Field of a hit that becomes the node's score: "score", whose scale differs from query to query, or
            "relevance", 0..1, which compares between queries, as a `SimilarityPostprocessor` needs it.
        callback_manager: None: at each query, the current `Settings.callback_manager`.
        object_map, objects, verbose: As in `BaseRetriever`, but both `object_map` and `objects` may be given.

    Raises:
        ConfigError, InvalidLimit, FilterError, InvalidTimeRange: If an argument is unknown or not as described.
    """

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Raise ConfigError for an unknown argument; the message suggests the right one."""
        refuse_factory_options(options, cls._own_options(), "from_nodes", "embed_model", "persist_dir")
        return super().__new__(cls)

    def __init__(
        self,
        umi: DualRetriever,
        similarity_top_k: int = 10,
        *,
        filters: Where | MetadataFilters = None,
        time_range: Window = None,
        deep_search: bool = True,
        now: datetime | None = None,
        min_relevance: float | None = None,
        score: NodeScore = "score",
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        if score not in get_args(NodeScore):
            raise ConfigError(f"score {score!r:.80}: expected 'score' or 'relevance'")
        if not isinstance(umi, DualRetriever):
            raise ConfigError(
                f"umi is {type(umi).__name__}; expected a DualRetriever; from_store takes a store, from_nodes takes "
                "nodes, from_index takes an index, and a UmiVectorStore has .retriever()"
            )
        named = {node.index_id: node.obj for node in objects or ()}
        super().__init__(callback_manager, {**(object_map or {}), **named}, None, verbose)
        self._default_callbacks = self.callback_manager if callback_manager is None else None
        self.umi = umi
        self.similarity_top_k = checked_limit(similarity_top_k, "similarity_top_k")
        self._scope = Scope(asked_filter(filters))
        self._time_range = narrowed(None, time_range)
        if now is not None:
            as_utc(now, "now")
        self._deep_search = deep_search
        self._now = now
        self._min_relevance = checked_relevance(min_relevance)
        self._score: NodeScore = score
        self._owns_store, self._skipped = False, None
        self._found: SearchResult | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.umi!r}, similarity_top_k={self.similarity_top_k})"

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode] = (),
        embed_model: Any = None,
        llm: Any = None,
        persist_dir: str | None = None,
        similarity_top_k: int | None = None,
        *,
        mirror: bool = False,
        on_invalid: OnInvalid = "raise",
        show_progress: bool = False,
        source_key: str | None = None,
        position_key: str | None = "position",
        time_key: str | None = "timestamp",
        **options: Any,
    ) -> Self:
        """Store nodes, and make a retriever over the store.

        The nodes replace all stored nodes of the same files or documents, so an edited file is found by its new text
        only. With `filters`, only stored nodes that pass them are replaced, so nodes of other users stay. To add nodes
        to a document, use `UmiVectorStore.add`.

        Args:
            nodes: Text nodes in reading order. Ids are kept. Embeddings are used if `embed_model` is given. Index nodes
                are resolved to their objects.
            embed_model: The model that makes the vectors. None: umi's built-in model, not `Settings.embed_model`. The
                object `Settings` itself: the current `Settings.embed_model`.
            llm: An LLM or a function from prompt to reply, for deep search; None: no LLM is asked. The object
                `Settings` itself: the current `Settings.llm` at each call.
            persist_dir: Directory of the store; nodes that it holds already are not embedded again. None: the store is
                in memory.
            similarity_top_k: Largest number of nodes of a result, 1..100; None: 10.
            mirror: Also remove from the directory every node that is not given and passes `filters`.
            on_invalid: "raise", or "skip": nodes that cannot be stored, for example blank ones, are left out, and
                `skipped` lists them.
            show_progress: Whether to show progress bars while texts are embedded and stored.
            source_key: Metadata key of a node's source. A node without it, or any node if this is None, has its source
                node as source, else metadata["source"].
            position_key: Metadata key of a node's position in its source. A node without it gets its position from
                `start_char_idx`, else from the order of `nodes`.
            time_key: Metadata key of a node's event time: a datetime, an ISO string (UTC without a zone) or seconds
                since 1970.
            **options: Arguments of this class; sections of `UmiConfig` (`fusion={"method": "rrf"}`); `reranker`, as in
                `DualRetriever`; `arms`, further retrievers whose nodes are fused with those of the store (see
                `as_arm`); `read_only=True`, without nodes, to search a directory that another process writes.

        Raises:
            InvalidChunk, DuplicateId: If a node cannot be stored, or two have the same id; the message names the node.
                Nothing is stored.
            InvalidVector: If another model than `embed_model` made a node's embedding; the message names the node.
            ConfigError: If an option is unknown or out of range.
        """
        nodes = listed(nodes)
        keys = PlaceKeys(source_key, position_key, time_key)
        skipped = skipped_list(on_invalid)

        def fill(retriever: Self) -> None:
            store, chunks = retriever.umi.store, to_chunks(nodes, keys, Places(), skipped, advice=SKIP_ADVICE)
            if embed_model is not None:
                add_embedded(store, without_skipped(nodes, skipped or ()), chunks)
            origin = partial(node_origin, source_key=source_key)
            unstored = [nodes[each.place] for each in skipped or ()]
            gone = [(node.node_id, stated_origin(node.metadata, node.ref_doc_id, source_key)) for node in unstored]
            within = retriever._scope.where
            add_mirrored(
                store, chunks, origin, left_out=gone, within=within, everything=mirror, show_progress=show_progress
            )

        if options.get("read_only") and (nodes or mirror):
            raise ConfigError("read_only=True stores nothing; leave nodes and mirror out")
        own = {node.index_id: node.obj for node in nodes if isinstance(node, IndexNode) and node.obj is not None}
        options["object_map"] = own | (options.get("object_map") or {})
        options["arms"] = arms_of(options.get("arms"), partial(as_arm, keys=keys))
        model = embed_model_of(embed_model)
        retriever = cls._opened(fill, model, persist_dir, llm=llm, similarity_top_k=similarity_top_k, **options)
        retriever._skipped = skipped
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[BaseNode] = (),
        transformations: Sequence[TransformComponent] | None = None,
        *,
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """`from_nodes` for documents, which the transformations first split into nodes.

        Args:
            documents: Documents of a reader, such as `SimpleDirectoryReader`.
            transformations: Splitters and extractors; None: `Settings.transformations`, by default one splitter.
            show_progress: Whether to show progress bars while the transformations run, and while texts are embedded
                and stored.
            **options: As in `from_nodes`.

        Raises:
            InvalidChunk, ConfigError, DuplicateId: If an argument is no list of its kind; also as `from_nodes`.
        """
        documents = listed(documents, "documents")
        for index, document in enumerate(documents):
            check_node(index, document, "Document(text=...)")
        if not isinstance(transformations, (list, tuple, type(None))):
            raise ConfigError(f"transformations is {type(transformations).__name__}; expected a list: [...]")
        steps = Settings.transformations if transformations is None else transformations
        nodes = run_transformations(documents, steps, show_progress=show_progress)
        return cls.from_nodes(nodes, show_progress=show_progress, **options)

    @classmethod
    def from_index(
        cls,
        index: VectorStoreIndex,
        embed_model: Any = None,
        llm: Any = None,
        persist_dir: str | None = None,
        similarity_top_k: int | None = None,
        *,
        source_key: str | None = None,
        position_key: str | None = "position",
        time_key: str | None = "timestamp",
        copy: bool = False,
        mirror: bool = False,
        **options: Any,
    ) -> Self:
        """Make a retriever over an index.

        An index over Chroma is searched in place, so later writes to the index are found; see `ChromaStore`. An index
        over LlamaIndex's simple vector store is copied. The stored vectors are used. Only three stored texts are
        embedded, to check that `embed_model` made the vectors.

        Args:
            index: An index over a `ChromaVectorStore` or a `SimpleVectorStore`.
            embed_model: The model that made the index's vectors; None: the index's own model.
            persist_dir: Directory of umi's index of the texts or, if the index is copied, of the copy; None: in memory.
            copy: Whether to copy an index over Chroma, too, by the rules of `from_nodes`; later writes to the index are
                then not found.
            llm, similarity_top_k, mirror, source_key, position_key, time_key, options: As in `from_nodes`; `mirror` is
                for copies.

        Raises:
            ConfigError: If the index is no `VectorStoreIndex`, or its vector store is of another kind.
            ReindexRequired: If another model made the index's vectors.
        """
        if not isinstance(index, VectorStoreIndex):
            raise ConfigError(
                f"index is {type(index).__name__}; expected a VectorStoreIndex, over Chroma for example; "
                "for any other index, give its nodes to from_nodes"
            )
        options["object_map"] = index._object_map | (options.get("object_map") or {})
        model = embed_model_of(index._embed_model if embed_model is None else embed_model)
        keys = PlaceKeys(source_key, position_key, time_key)
        options["arms"] = arms_of(options.get("arms"), partial(as_arm, keys=keys))
        collection = chroma_collection(index.vector_store, "ChromaVectorStore")
        if collection is not None and not copy:
            read = partial(node_chunk_of_record, keys)
            options |= {"llm": llm, "similarity_top_k": similarity_top_k}
            return cls._over_chroma(collection, model, persist_dir, read, mirror, **options)

        def fill(retriever: Self) -> None:
            name = getattr(collection, "name", type(index.vector_store).__name__)
            origin, within = partial(node_origin, source_key=source_key), retriever._scope.where
            pages = index_pages(index, keys)
            copy_mirrored(retriever.umi.store, name, pages, origin, within=within, everything=mirror)

        return cls._opened(fill, model, persist_dir, llm=llm, similarity_top_k=similarity_top_k, **options)

    @classmethod
    def from_store(
        cls,
        store: Store,
        llm: Any = None,
        similarity_top_k: int | None = None,
        *,
        reranker: Any = None,
        arms: Sequence[BaseRetriever | Arm] | None = None,
        **options: Any,
    ) -> Self:
        """Make a retriever over an existing store, which the caller closes.

        The arguments are as in `from_nodes`, without those that open or fill a store. Sections of `UmiConfig` that are
        not given are those with which the store was opened.

        Raises:
            ConfigError, InvalidLimit: If an option is unknown or out of range.
        """
        sections, fields = sections_and_fields(options)
        config, model = store_settings(store).replaced(**sections), reranker_of(reranker)
        umi = DualRetriever(store, rewriter=llm_of(llm), reranker=model, arms=arms_of(arms, as_arm), config=config)
        return cls(umi, **fields if similarity_top_k is None else {**fields, "similarity_top_k": similarity_top_k})

    @classmethod
    def _own_options(cls) -> list[str]:
        """Names of the arguments of the constructors, of a subclass first, then of this class."""
        bases = cls.__mro__[: cls.__mro__.index(UmiRetriever) + 1]
        constructors = [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]
        return [name for constructor in constructors for name in list(signature(constructor).parameters)[1:]]

    def search(self, query: str | QueryBundle) -> SearchResult:
        """The `SearchResult` from which `retrieve` makes nodes: hits with signals, failed parts, and the trace.

        Raises:
            EmptyQuery: If the query has neither text nor vector.
            InputError: If an option of the query is wrong.
        """
        bundle = _as_bundle(query)
        return self.umi.search(_searched(bundle), query_vector=self._query_vector(bundle), **self._options(bundle))

    async def asearch(self, query: str | QueryBundle) -> SearchResult:
        """`search` for an event loop, which is never blocked."""
        bundle = _as_bundle(query)
        vector = await self._aquery_vector(bundle)
        return await self.umi.asearch(_searched(bundle), query_vector=vector, **self._options(bundle))

    def batch(self, queries: Sequence[str | QueryBundle]) -> list[list[NodeWithScore]]:
        """The nodes of each query, aligned, as `retrieve` returns them.

        Queries with equal options share one call of the embedder and one recall from the store.

        Raises:
            InputError: If `queries` is no list.
        """
        bundles = _as_bundles(queries)
        if overrides(self, UmiRetriever, "_retrieve", "search"):
            return [self.retrieve(bundle) for bundle in bundles]
        answers: dict[int, SearchResult] = {}
        for rows, texts, options in self._groups(bundles):
            answers.update(zip(rows, self.umi.search_many(texts, **options), strict=True))
        return [self._answering(answers.get(row)).retrieve(bundle) for row, bundle in enumerate(bundles)]

    async def abatch(self, queries: Sequence[str | QueryBundle]) -> list[list[NodeWithScore]]:
        """`batch` for an event loop."""
        bundles = _as_bundles(queries)
        if overrides(self, UmiRetriever, "_retrieve", "_aretrieve", "asearch"):
            return [await self.aretrieve(bundle) for bundle in bundles]
        answers: dict[int, SearchResult] = {}
        for rows, texts, options in self._groups(bundles):
            answers.update(zip(rows, await self.umi.asearch_many(texts, **options), strict=True))
        return [await self._answering(answers.get(row)).aretrieve(bundle) for row, bundle in enumerate(bundles)]

    def get_context(self, query: str | QueryBundle, **packing: Any) -> AssembledContext:
        """The hits of a search as text for a prompt, within a token budget.

        Args:
            query: A string, a `QueryBundle` or a `UmiQuery`. The best 50 hits are candidates for the context, or the
                best `limit` hits if a `UmiQuery` has a `limit`.
            **packing: `budget`, `policy`, `counter` and options of a search, as in `DualRetriever.get_context`. Chunks
                must pass `where` and `time_range` as well as those of the query and of the retriever. Another option
                replaces the query's; None: the query's is used.
        """
        bundle = _as_bundle(query)
        options = self._context_options(bundle, self._query_vector(bundle), packing)
        return self.umi.get_context(_searched(bundle), **options)

    async def aget_context(self, query: str | QueryBundle, **packing: Any) -> AssembledContext:
        """`get_context` for an event loop."""
        bundle = _as_bundle(query)
        options = self._context_options(bundle, await self._aquery_vector(bundle), packing)
        return await self.umi.aget_context(_searched(bundle), **options)

    def nodes(self, result: SearchResult) -> list[NodeWithScore]:
        """The nodes of a result of `search`, as `retrieve` returns them; raises SearchUnavailable if the relevance is
        their score and is not known."""
        if self._score == "relevance" and any(hit.relevance is None for hit in result):
            raise SearchUnavailable(
                "score='relevance': the relevance is not known, because the store answered by BM25 alone and gives no "
                "upper bound of its scores (for authors of stores: Pool.lexical_bound); retrieve with score='score'"
            )
        return [NodeWithScore(node=to_node(hit.chunk), score=getattr(hit, self._score)) for hit in result]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._is_blank(query_bundle):
            return []
        return self._nodes_with_events(self.search(query_bundle) if self._found is None else self._found)

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if overrides(self, UmiRetriever, "_retrieve") and not overrides(self, UmiRetriever, "_aretrieve"):
            return await asyncio.to_thread(self._retrieve, query_bundle)
        if self._is_blank(query_bundle):
            return []
        if self._found is not None:
            await asyncio.sleep(0)  # lets the event loop run other tasks between the queries of a batch
            return self._nodes_with_events(self._found)
        return self._nodes_with_events(await self.asearch(query_bundle))

    def _answering(self, result: SearchResult | None) -> Self:
        """A copy that returns this result for any query; for None one that searches."""
        other = copy.copy(self)
        other._found = result
        return other

    def _nodes_with_events(self, result: SearchResult) -> list[NodeWithScore]:
        send_events(dispatcher, result)
        return self.nodes(result)

    def _groups(self, bundles: Sequence[QueryBundle]) -> Iterator[tuple[list[int], list[str], dict[str, Any]]]:
        """Yield groups of queries with equal options, as (indices of the queries, their texts, options). Queries that
        define a vector, and blank queries, are in no group."""
        options = [self._options(bundle) for bundle in bundles]
        remaining = [row for row, bundle in enumerate(bundles) if query_text(bundle) and not defines_vector(bundle)]
        while remaining:
            group = [row for row in remaining if options[row] == options[remaining[0]]]
            yield group, [query_text(bundles[row]) for row in group], options[group[0]]
            remaining = [row for row in remaining if options[row] != options[group[0]]]

    def _context_options(self, bundle: QueryBundle, vector: Any, packing: Mapping[str, Any]) -> dict[str, Any]:
        """Options of `DualRetriever.get_context`: those in `packing` that are not None, else those of the query."""
        options = self._options(bundle) | {"query_vector": vector}
        if not isinstance(bundle, UmiQuery) or bundle.limit is None:
            del options["limit"]  # `similarity_top_k` must not replace the default of `get_context`
        narrower = {
            "where": Scope(options["where"]).narrow(asked_filter(packing.get("where"))),
            "time_range": narrowed(options["time_range"], packing.get("time_range")),
        }
        return {**options, **{name: value for name, value in packing.items() if value is not None}, **narrower}

    def _options(self, bundle: QueryBundle) -> dict[str, Any]:
        """Options of `DualRetriever.search`: the query's values and, where these are None, the retriever's own."""
        asked = bundle if isinstance(bundle, UmiQuery) else UmiQuery(bundle.query_str)
        has_text = bool(query_text(bundle))
        deep_search = self._deep_search if asked.deep_search is None else asked.deep_search
        return {
            "limit": self.similarity_top_k if asked.limit is None else asked.limit,
            "where": self._scope.narrow(asked_filter(asked.filters)),
            "time_range": narrowed(self._time_range, asked.time_range),
            "deep_search": has_text and deep_search,
            "now": self._now if asked.now is None else asked.now,
            "history": history_texts(asked.history),
            "strategy": ("hybrid" if has_text else "vector") if asked.strategy is None else asked.strategy,
            "min_relevance": self._min_relevance if asked.min_relevance is None else asked.min_relevance,
        }

    def _is_blank(self, bundle: QueryBundle) -> bool:
        """Whether a query has neither text nor vector; chat engines may send one. Logs one warning per process."""
        if query_text(bundle) or defines_vector(bundle):
            return False
        self._options(bundle)  # raises if an option is wrong
        warn_once("query", "blank", BLANK_QUERY)
        return True

    def _query_vector(self, bundle: QueryBundle) -> Any:
        """(dim,) the bundle's `embedding` or the mean vector of its `custom_embedding_strs`; None: it has neither, or
        the embedder failed."""
        embedder: Embedder | None = getattr(self.umi.store, "embedder", None)
        if bundle.embedding is not None or not bundle.custom_embedding_strs or embedder is None:
            return bundle.embedding
        try:
            return embedder.embed_queries(bundle.custom_embedding_strs).mean(axis=0)
        except Exception as error:  # noqa: BLE001 - the search embeds the query's text instead, and reports a failure
            warn_once("custom_embedding_strs", type(error).__name__, UNUSED_STRINGS, type(error).__name__)
            return None

    async def _aquery_vector(self, bundle: QueryBundle) -> Any:
        """`_query_vector` for an event loop: in a thread if it may call the embedder."""
        embeds = bool(bundle.custom_embedding_strs)
        return await asyncio.to_thread(self._query_vector, bundle) if embeds else bundle.embedding

    def _check_callback_manager(self) -> None:
        """Use the current `Settings.callback_manager`, unless the caller has set another; called for each query."""
        if self.callback_manager is self._default_callbacks:
            self.callback_manager = self._default_callbacks = Settings.callback_manager

    def _get_prompts(self) -> PromptDictType:
        return {REWRITE_PROMPT: PromptTemplate(self.umi.config.rewrite.template)}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        prompt: BasePromptTemplate | None = prompts.get(REWRITE_PROMPT)
        if prompt is not None:  # each placeholder is its own value, so the result is the template
            template = prompt.format(query="{query}", history="{history}")
            self.umi.reconfigure(rewrite={"template": template})


def _as_bundles(queries: Sequence[str | QueryBundle]) -> list[QueryBundle]:
    refuse_unlisted(queries, "queries")
    return [_as_bundle(query) for query in queries]


def _as_bundle(query: str | QueryBundle) -> QueryBundle:
    if isinstance(query, str):
        return QueryBundle(query)
    if not isinstance(query, QueryBundle):
        raise InputError(f"query is {type(query).__name__}; expected a string, a QueryBundle or a UmiQuery")
    return query


def _searched(bundle: QueryBundle) -> str:
    """The text to search for; `NO_TEXT` for a query that has only a vector."""
    return query_text(bundle) or (NO_TEXT if defines_vector(bundle) else "")
