"""umi as a LlamaIndex vector store. It keeps BM25 and vectors, so a pipeline needs no second index for BM25."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, ImageNode, IndexNode
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from typing_extensions import Self

from umi_common.config import MmrConfig
from umi_common.embedders.default import unit_rows
from umi_common.errors import ConfigError, EmptyQuery, InputError, InvalidVector
from umi_common.filters import Filter, Scope, matches, parse_filter
from umi_common.frameworks.classes import SharesStore, in_thread, overrides, retriever_over
from umi_common.frameworks.records import PlaceKeys
from umi_common.protocols import Probe, pages
from umi_common.retriever import DualRetriever
from umi_common.runtime.guards import ThreadLimiter
from umi_common.runtime.losses import warn_once
from umi_common.search.request import QUERY_BYTES_MAX, checked_limit, end_of, refuse_unknown_options
from umi_common.stores.batch_checks import OnInvalid, SkippedChunk, skipped_list
from umi_common.stores.document_embedder import embedded
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk, Hit, utc_now
from umi_llamaindex._convert import (
    NODE_ID,
    NODE_TYPE,
    SourceEnds,
    document_of,
    listed,
    of_documents,
    to_node,
    with_text,
    without_skipped,
)
from umi_llamaindex._parts import embed_model_of, llm_of, reranker_of
from umi_llamaindex.embedding import UmiEmbedding
from umi_llamaindex.events import NamedInTraces
from umi_llamaindex.query import NO_TEXT
from umi_llamaindex.retriever import UmiRetriever

COPIES_CHECKED = 3
"""Number of nodes of one `add` that are looked up in the store, to detect nodes that are added again under new ids. A
few are enough, because a second run adds every text again."""
COPY_CANDIDATES = 10
"""Number of stored chunks, the best by BM25, with which the text of each of these nodes is compared."""
MODEL_CHECKED = 3
"""Number of stored nodes whose vectors are compared with the vectors that the store's model makes of their texts."""
OTHER_MODEL_COSINE = 0.3
"""If the cosines of all MODEL_CHECKED nodes are lower, another model made their vectors: cosines of two models are
around 0. Those of one model are larger, even if it embedded another part of the node than the text that umi indexes."""
ONE_MODEL = (
    "give the index or pipeline embed_model=store.embed_model, or open the store with the model of the index or "
    "pipeline: UmiVectorStore(embed_model)"
)
"""Advice in messages for an index that uses another embed model than its store."""
ENGINES = (BaseQueryEngine, BaseRetriever)
"""Classes of objects that an index node may refer to and that no store can hold."""
ENGINES_LOST = (
    "a directory cannot hold the engines and retrievers that index nodes refer to; another process that opens the "
    "directory must give them to retriever(object_map={index_id: engine}). Logged once."
)
LISTED_TYPES = (ImageNode.class_name(), IndexNode.class_name())
"""Types of nodes whose ids a `VectorStoreIndex` lists, although the store holds their texts. This is the index list."""
IDS_READ = 1_000
"""Largest number of node ids that are looked up at once, to detect whether the ids of a query are an index list."""
PREFETCH_FACTOR = 4.0
"""Default of `mmr_prefetch_factor`, as in LlamaIndex's simple store: candidates of MMR for each node of the result."""
EXTRAS = ("where", "mmr_threshold", "mmr_prefetch_k", "mmr_prefetch_factor")
"""Arguments of `query` besides the query. LlamaIndex calls them `vector_store_kwargs`; its stores use them, too."""

TEXT = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
"""Modes that search by BM25 alone."""
LIMITS = {VectorStoreQueryMode.HYBRID: "hybrid_top_k", **dict.fromkeys(TEXT, "sparse_top_k")}
"""Mode -> field of the query that holds the limit; `similarity_top_k` for other modes, and if the field is None."""
log = logging.getLogger("umi")


class UmiVectorStore(SharesStore, NamedInTraces, BasePydanticVectorStore):
    """A writable store with hybrid search, with the interface of LlamaIndex's vector stores.

    Use it in an `IngestionPipeline` or a `VectorStoreIndex`, or search it with its `retriever()`, a `UmiRetriever`.
    When a write to a directory returns, the nodes are on the disk, and both BM25 and vectors find them.

    Modes of a query: DEFAULT and HYBRID use BM25 and vectors, HYBRID with `alpha` as the weight of the vectors (0: BM25
    alone, 1: vectors alone). TEXT_SEARCH and SPARSE use BM25 alone. MMR diversifies the result with `mmr_threshold`.
    Any other mode raises ConfigError. Similarities are umi's scores: larger is better, and the scale differs from query
    to query.

    Args:
        embed_model: The model that made the nodes' embeddings; the store embeds nodes without an embedding with it.
            None: umi's built-in model, which the property `embed_model` returns for pipelines and indexes. The object
            `Settings` of LlamaIndex: the current `Settings.embed_model`.
        persist_dir: Directory of the store; None: the store is in memory.
        store: An existing store, in place of embed_model and persist_dir; the caller closes it.
        llm: As in `UmiRetriever.from_nodes`, for `retriever()`; `query` asks no LLM.
        reranker: As in `DualRetriever`.
        read_only: Search an existing directory that another process writes.
        on_invalid: "raise", or "skip": nodes that cannot be stored, for example blank ones, are left out, and `skipped`
            lists them. A pipeline then goes on; it has removed the old nodes of changed documents before it adds nodes.
        source_key, position_key, time_key: As in `UmiRetriever.from_nodes`.
        **sections: Sections of `UmiConfig`: `fusion={"method": "rrf"}`.

    Raises:
        ConfigError: If an option is unknown, out of range, or given beside a `store` that has it.
    """

    stores_text: bool = True

    _umi: DualRetriever = PrivateAttr()
    _keys: PlaceKeys = PrivateAttr()
    _skipped: list[SkippedChunk] | None = PrivateAttr()
    _owns_store: bool = PrivateAttr()
    _warned_of_copies: bool = PrivateAttr(default=False)
    _model_checked: bool = PrivateAttr(default=False)
    _ends: SourceEnds = PrivateAttr()
    _objects: dict[str, Any] = PrivateAttr(default_factory=dict)
    """`index_id` of an index node that was added -> the engine or retriever that it refers to."""
    _listed: set[str] = PrivateAttr(default_factory=set)
    """Ids of image and index nodes that this object has added or read."""

    def __init__(
        self,
        embed_model: Any = None,
        persist_dir: str | None = None,
        *,
        store: HybridStore | None = None,
        llm: Any = None,
        reranker: Any = None,
        read_only: bool = False,
        on_invalid: OnInvalid = "raise",
        source_key: str | None = None,
        position_key: str | None = "position",
        time_key: str | None = "timestamp",
        **sections: Any,
    ) -> None:
        super().__init__(stores_text=True)
        self._owns_store = store is None
        self._keys = PlaceKeys(source_key, position_key, time_key)
        self._skipped = skipped_list(on_invalid)
        self._umi = retriever_over(
            UmiVectorStore,
            store,
            sections,
            embedder=embed_model_of(embed_model),
            directory=persist_dir,
            read_only=read_only,
            rewriter=llm_of(llm),
            reranker=reranker_of(reranker),
        )
        self._ends = SourceEnds(self.client, self._keys)

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickle. The process that loads it opens the directory of the store. ConfigError is raised if
        the store cannot be pickled; LlamaIndex would omit it without an error."""
        state: dict[str, Any] = super().__getstate__()
        if "_umi" not in state["__pydantic_private__"]:
            raise ConfigError(
                "a store in memory cannot be pickled, nor a store with an embed_model that cannot be pickled; open the "
                "store with persist_dir and a model that can be pickled, or open it anew in the other process"
            )
        state["__pydantic_private__"].setdefault("_objects", {})  # engines that cannot be pickled; `add` has warned
        return state

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Raise ConfigError: JSON, as `to_dict` and `to_json` write it, holds no nodes and no directory."""
        raise ConfigError(
            "a UmiVectorStore cannot be read from JSON, which does not hold its nodes; open its directory again: "
            "UmiVectorStore(persist_dir=...)"
        )

    @property
    def umi(self) -> DualRetriever:  # type: ignore[override]
        """The `DualRetriever` with which `query` searches."""
        return self._umi

    @property
    def client(self) -> HybridStore:
        """The `HybridStore` in which this vector store keeps its nodes."""
        return self._umi.store  # type: ignore[return-value]

    @property
    def embed_model(self) -> BaseEmbedding:
        """The store's embedder as a LlamaIndex embed model, for pipelines and indexes."""
        return UmiEmbedding(self.client.embedder)

    def retriever(self, similarity_top_k: int = 10, **options: Any) -> UmiRetriever:
        """A `UmiRetriever` over this store; `options` are arguments of its constructor.

        Index nodes that this object has added are resolved to the engines and retrievers that they refer to. The first
        call embeds three stored texts, within the timeout of a query's embedding. If another model made the stored
        vectors, the logger `umi` warns.
        """
        self._warn_of_another_model()
        options["object_map"] = self._objects | (options.get("object_map") or {})
        return UmiRetriever(self._umi, similarity_top_k, **options)

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Do nothing: each write to a directory is on the disk at once. For a store in memory, log a warning."""
        if self.client.path is None and len(self.client):
            log.warning(
                "persist() does not keep the %d nodes of a UmiVectorStore in memory; UmiVectorStore(persist_dir=...) "
                "keeps each write at once",
                len(self.client),
            )

    def add(self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any) -> list[str]:
        """Insert nodes, or replace stored nodes with the same id. Returns the ids of all `nodes`.

        An error writes nothing. Blank nodes, which readers and splitters make of empty pages, are left out, and the
        logger `umi` names them. They raise no error, because a pipeline has already removed the old nodes of changed
        documents when it calls `add`. If the store already holds the same texts under other ids, the nodes are added,
        and the logger warns once.

        Args:
            show_progress: Whether to show progress bars while texts are embedded and stored. Other arguments, which
                frameworks pass, have no effect.

        Raises:
            InvalidChunk, DuplicateId: If a node cannot be stored, or two have the same id, unless `on_invalid` is
                "skip"; the message names the node.
            InvalidVector: If an embedding has another dimension than the store's vectors.
            EmbedderError: If the store's model failed on nodes without an embedding.
        """
        nodes = listed(nodes)
        skipped: list[SkippedChunk] = []
        given = with_text(nodes) if self._skipped is None else nodes
        with self._ends.placed(given, None if self._skipped is None else skipped) as chunks:
            copied = not self._warned_of_copies and self._holds_copies(chunks)
            vectors = _vectors(without_skipped(given, skipped), chunks, self.client, show_progress)
            self.client.add(chunks, vectors=vectors, show_progress=show_progress)
        self._remember_index_nodes(nodes)
        if self._skipped is not None:
            self._skipped += skipped
        if copied:
            self._warned_of_copies = True
            log.warning(
                "the store already holds some of these texts under other ids, so they are now stored twice; a second "
                "run of VectorStoreIndex.from_documents does this. To avoid it, call clear() of this store first. "
                "UmiRetriever.from_nodes(nodes, persist_dir=...) replaces the nodes of the same documents, and with "
                "mirror=True it also removes all other nodes"
            )
        return [node.node_id for node in nodes]

    def _remember_index_nodes(self, nodes: Sequence[BaseNode]) -> None:
        self._listed.difference_update(node.node_id for node in nodes)  # an id may be that of another node now
        self._listed.update(node.node_id for node in nodes if isinstance(node, (ImageNode, IndexNode)))
        index_nodes = [node for node in nodes if isinstance(node, IndexNode)]
        engines = {node.index_id: node.obj for node in index_nodes if isinstance(node.obj, ENGINES)}
        if engines and self.client.path is not None:
            warn_once("index nodes", "engines", ENGINES_LOST)
        self._objects |= engines

    def _warn_of_another_model(self) -> None:
        """Log one warning if another model than the store's made the stored vectors. `add` accepts these, because an
        index that embeds queries with that model finds the nodes."""
        chunks = [] if self._model_checked else self.client.scan(limit=MODEL_CHECKED)
        if not chunks:
            return
        self._model_checked, model = True, self.client.embedder
        texts, seconds = [chunk.indexed_text for chunk in chunks], self._umi.config.recall.embedder_timeout_seconds
        try:
            made = unit_rows(ThreadLimiter(1).call(lambda: model.embed_documents(texts), seconds))
        except Exception:  # noqa: BLE001 - a search calls this model, too, and reports its failure
            return
        stored = self.client.vectors([chunk.id for chunk in chunks])
        if stored.shape == made.shape and (stored * made).sum(axis=1).max() < OTHER_MODEL_COSINE:
            log.warning(
                "another model than the store's (%s) made the embeddings of its nodes; %s", model.name, ONE_MODEL
            )

    def _holds_copies(self, chunks: Sequence[Chunk]) -> bool:
        """Whether the store holds the text of one of COPIES_CHECKED chunks under another id, because nodes are added
        again: a splitter makes new ids in each run."""
        if not len(self.client):
            return False
        ids, now = {chunk.id for chunk in chunks}, utc_now()
        for chunk in chunks[:: max(1, len(chunks) // COPIES_CHECKED)][:COPIES_CHECKED]:  # spread over all chunks
            near = self.client.recall(
                [Probe(chunk.text[-QUERY_BYTES_MAX:])], depth=COPY_CANDIDATES, now=now, strategy="text"
            ).ids
            stored = {found.text for found in self.client.get([id for id in near if id not in ids]) if found}
            if chunk.text in stored:
                return True
        return False

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove all nodes of a document, or the document itself if it was stored without a splitter.

        For a text that was not stored as a node, for example by `umi index`, the source counts as its document.

        Raises:
            InputError: If the id is no string; None would remove all nodes without a document.
            ConfigError: If another argument is given: the caller may mean it as a condition, and ignoring it would
                remove more nodes.
        """
        refuse_unknown_options(delete_kwargs, ("ref_doc_id",), ConfigError)
        if not isinstance(ref_doc_id, str):
            raise InputError(f"ref_doc_id is {ref_doc_id!r:.80}; expected the id of a document, a string")
        self.client.delete(where=of_documents([ref_doc_id]))
        others = chain.from_iterable(pages(self.client, where=parse_filter({NODE_ID: None})))
        ids = [chunk.id for chunk in others if document_of(chunk) == ref_doc_id]
        if ids:
            self.client.delete(ids)

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Remove nodes by id or by filter. With both, only nodes that have one of the ids and pass the filter.

        Raises:
            InputError: If neither ids nor a filter is given.
            ConfigError: If another argument is given, as for `delete`.
        """
        refuse_unknown_options(delete_kwargs, ("node_ids", "filters"), ConfigError)
        where = parse_filter(filters)
        if node_ids is None and where is None:
            raise InputError("delete_nodes() needs node_ids or filters; clear() removes all nodes")
        self.client.delete(node_ids, where=where)

    def clear(self) -> None:
        """Remove all nodes."""
        self.client.delete(self.client.ids())

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """Document id -> ids of the document's nodes, and metadata of the first node.

        Use it in place of `VectorStoreIndex.ref_doc_info`, which raises an error.
        """
        found: dict[str, RefDocInfo] = {}
        for chunk in chain.from_iterable(pages(self.client)):
            document = document_of(chunk)
            if document is not None:
                if document not in found:
                    found[document] = RefDocInfo(metadata=to_node(chunk).metadata)
                found[document].node_ids.append(chunk.id)
        return found

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes with these ids, in the order of the ids; without ids, all nodes, by rising id.

        Nodes that do not pass the filter, and unknown ids, are left out.
        """
        where = parse_filter(filters)
        if node_ids is None:
            return [to_node(chunk) for chunk in chain.from_iterable(pages(self.client, where=where))]
        found = (chunk for chunk in self.client.get(node_ids) if chunk is not None)
        return [to_node(chunk) for chunk in found if matches(where, chunk.metadata)]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The best nodes, best first. Of a query over 10,000 bytes only the last 10,000 are searched.

        A blank query, which `VectorIndexAutoRetriever` may send, returns the first nodes by id that pass the filter,
        with similarity 0; without a filter, it returns no node. `node_ids` do not filter if all are ids of image and
        index nodes: a `VectorStoreIndex` sends the ids of all its image and index nodes with every query. `doc_ids` and
        other `node_ids` find only texts that were stored as nodes.

        Raises:
            ConfigError: If umi does not have the mode or an argument, or if alpha is outside 0..1.
            EmptyQuery: If the query has neither `query_str` nor `query_embedding` nor a filter.
            UmiError: As `DualRetriever.search`.
        """
        text, options, changes = self._search_of(query, kwargs)
        with _with_advice():
            hits = self._umi.with_config(**changes).search(text, **options).hits if text else ()
        return self._answer(query, options, hits)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """`query` for an event loop, which is never blocked."""
        if overrides(self, UmiVectorStore, "query") and not overrides(self, UmiVectorStore, "aquery"):
            return await asyncio.to_thread(self.query, query, **kwargs)
        text, options, changes = await asyncio.to_thread(self._search_of, query, kwargs)
        with _with_advice():
            hits = (await self._umi.with_config(**changes).asearch(text, **options)).hits if text else ()
        return await asyncio.to_thread(self._answer, query, options, hits)

    def _search_of(
        self, query: VectorStoreQuery, extras: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """(query text, options of `DualRetriever.search`, changes of `UmiConfig` for this query); raises as `query`.

        The query text is "" for a blank query, and NO_TEXT for a query that has only a vector. `extras` are EXTRAS.
        """
        refuse_unknown_options(extras, EXTRAS, ConfigError)
        strategy, changes = _mode_settings(query, extras)
        if self._is_index_list(query.node_ids or []):
            query = replace(query, node_ids=None)
        limit_name = LIMITS.get(query.mode, "similarity_top_k")
        if getattr(query, limit_name) is None:
            limit_name = "similarity_top_k"
        where, text = _filter_of(query, extras.get("where")), query.query_str
        by_vector = not text and query.query_embedding is not None and strategy != "text"
        if text is None and not by_vector and where is None:
            needed = "query_str" if strategy == "text" else "query_str or query_embedding"
            raise EmptyQuery(f"the query has nothing to search for; give {needed}, or filters to list nodes")
        options = {
            "limit": checked_limit(getattr(query, limit_name), limit_name),
            "where": where,
            "deep_search": False,
            "strategy": "vector" if by_vector else strategy,
            "query_vector": None if strategy == "text" else query.query_embedding,
        }
        return NO_TEXT if by_vector else end_of("" if text is None else text.strip()), options, changes

    def _is_index_list(self, ids: list[str]) -> bool:
        """Whether the node ids of a query are an index list: each stored one is that of an image or index node.

        A `VectorStoreIndex` over a store with text sends its index list when it means any node of the store. The list
        may also hold ids of removed nodes.
        """
        unknown = [id for id in ids if id not in self._listed]
        for start in range(0, len(unknown), IDS_READ):
            stored = [chunk for chunk in self.client.get(unknown[start : start + IDS_READ]) if chunk is not None]
            if any(chunk.metadata.get(NODE_TYPE) not in LISTED_TYPES for chunk in stored):
                return False
            self._listed.update(chunk.id for chunk in stored)
        return not self._listed.isdisjoint(ids)

    def _answer(self, query: VectorStoreQuery, options: dict[str, Any], hits: Sequence[Hit]) -> VectorStoreQueryResult:
        """The nodes of the hits; for a blank query with a filter, the first nodes by id that pass the filter."""
        found = [(hit.chunk, hit.score) for hit in hits]
        if not hits and not (query.query_str or "").strip() and options["where"] is not None:
            found = [(chunk, 0.0) for chunk in self.client.scan(where=options["where"], limit=options["limit"])]
        return VectorStoreQueryResult(
            nodes=[to_node(chunk) for chunk, _ in found],
            similarities=[score for _, score in found],
            ids=[chunk.id for chunk, _ in found],
        )

    async_add = in_thread("add")
    adelete = in_thread("delete")
    adelete_nodes = in_thread("delete_nodes")
    aclear = in_thread("clear")
    aget_nodes = in_thread("get_nodes")


def _mode_settings(query: VectorStoreQuery, extras: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """(strategy, changes of `UmiConfig`) for the mode of a query; raises ConfigError if umi does not have the mode."""
    mode, alpha = query.mode, query.alpha
    if mode in TEXT:
        return "text", {}
    if mode == VectorStoreQueryMode.MMR:
        return "hybrid", {"mmr": _mmr(query, extras)}
    if mode not in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.HYBRID):
        raise ConfigError(
            f"mode {getattr(mode, 'value', mode)!r}: expected default, hybrid, text_search, sparse or mmr"
        )
    if mode == VectorStoreQueryMode.DEFAULT or alpha is None:
        return "hybrid", {}
    if not isinstance(alpha, (int, float, np.number)) or not 0 <= alpha <= 1:
        raise ConfigError(f"alpha {alpha!r}: expected 0 (the lexical arm alone) to 1 (the dense arm alone)")
    if alpha in (0, 1):
        return "vector" if alpha else "text", {}
    return "hybrid", {"fusion": {"lexical_weight": 1.0 - alpha, "dense_weight": alpha}}


def _mmr(query: VectorStoreQuery, extras: Mapping[str, Any]) -> dict[str, Any]:
    """The settings `mmr` for a query in the mode MMR. `query.mmr_threshold` has precedence over that in `extras`."""
    factor, pool = extras.get("mmr_prefetch_factor"), extras.get("mmr_prefetch_k")
    if pool is None:
        pool = int(query.similarity_top_k * (PREFETCH_FACTOR if factor is None else factor))
    threshold = extras.get("mmr_threshold") if query.mmr_threshold is None else query.mmr_threshold
    trade_off = MmrConfig().trade_off if threshold is None else threshold
    return {"enabled": True, "trade_off": trade_off, "pool": max(1, pool)}


def _filter_of(query: VectorStoreQuery, where: Any) -> Filter | None:
    """The conjunction of the query's filters, ids of documents and nodes, and `where`."""
    documents = None if query.doc_ids is None else of_documents(query.doc_ids)
    nodes = {NODE_ID: {"$in": query.node_ids}} if query.node_ids else None  # VectorStoreIndex sends [] for "any node"
    every: Filter | None = None
    for condition in (query.filters, where, documents, nodes):
        every = Scope(every).narrow(condition)
    return every


def _vectors(nodes: Sequence[BaseNode], chunks: Sequence[Chunk], store: HybridStore, show_progress: bool) -> Any:
    """The vectors of the nodes: their embeddings, and vectors of the store's model for nodes without an embedding.

    None: no node has an embedding, so the store embeds all.
    """
    embedder = store.embedder
    given: list[Any] = [node.embedding for node in nodes]
    for node in nodes:
        if node.embedding is not None and len(node.embedding) != embedder.dim:
            raise InvalidVector(
                f"node {node.node_id!r}: its embedding has {len(node.embedding)} dimensions, and the store's model "
                f"{embedder.name!r} gives {embedder.dim}; {ONE_MODEL}"
            )
    missing = [index for index, vector in enumerate(given) if vector is None]
    if len(missing) == len(given):
        return None
    ids, texts = [chunks[index].id for index in missing], [chunks[index].indexed_text for index in missing]
    made = iter(embedded(ids, texts, embedder, dim=None, config=store.config.embedder, show_progress=show_progress))
    return [next(made) if vector is None else vector for vector in given]


@contextmanager
def _with_advice() -> Iterator[None]:
    try:
        yield
    except InvalidVector as error:
        raise InvalidVector(f"{error}; {ONE_MODEL}") from error
