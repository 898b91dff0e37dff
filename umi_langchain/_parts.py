"""Use LangChain's parts in umi: a retriever or vector store as an arm, a document compressor as a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore, VectorStoreRetriever

from umi_common.errors import ConfigError
from umi_common.filters import Filter, Scope, asked_filter, to_chroma
from umi_common.frameworks.records import PlaceKeys, chroma_collection
from umi_common.frameworks.scores import scores_by_rank, scores_of_kept
from umi_common.protocols import chunk_passes
from umi_common.runtime.losses import warn_once
from umi_common.search.extra_arms import Arm
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.types import Chunk, TimeRange
from umi_langchain._convert import SCORE_KEY, to_chunks

KEYS = PlaceKeys()
Finder = BaseRetriever | VectorStore | Arm
ScoredChunks = list[tuple[Chunk | str, float]]
ROW_KEY = "umi_row"
"""Metadata key of a document's index among the texts to rerank."""


def as_arm(finder: Finder, name: str | None = None, weight: float = 0.5, *, keys: PlaceKeys = KEYS) -> Arm:
    """A retriever or vector store as an arm of `UmiRetriever(arms=...)`. Its documents are scored by their rank.

    Documents that do not pass the filter and the time range of a search are dropped. So that fewer are dropped, umi's
    retrievers and stores and `InMemoryVectorStore` get both, and Chroma gets the filter. Other finders get neither,
    because each has its own syntax. The id of a document without one is a hash of its text and metadata.

    Args:
        finder: A `BaseRetriever`, a `VectorStore`, or an `Arm`, which is returned unchanged.
        name: The arm's name in reasons and in `degraded`; None: the name of its class.
        weight: >= 0, on the scale of `fusion.lexical_weight` (0.45) and `fusion.dense_weight` (0.55). With
            `fusion={"dense_weight": 0.0}` and weight 0.55, a vector store replaces the dense arm. It counts double, up
            to the sum of both, for a document that the store does not hold.
        keys: Metadata keys of source, position and time, for documents that umi's store does not hold.

    Raises:
        ConfigError: If `finder` is none of these, or name or weight are wrong.
    """
    if isinstance(finder, Arm):
        return finder
    if not isinstance(finder, (BaseRetriever, VectorStore)):
        raise ConfigError(
            f"arm {type(finder).__name__}: expected a BaseRetriever, a VectorStore or umi_common.search.extra_arms.Arm"
        )

    asked = _Asked(finder, keys)
    return Arm(type(finder).__name__ if name is None else name, asked.search, weight, asked.asearch)


@dataclass(frozen=True)
class _Asked:
    """The search functions of an arm; methods, because closures cannot be pickled."""

    finder: BaseRetriever | VectorStore
    keys: PlaceKeys

    def search(self, query: str, k: int, where: Filter | None, window: TimeRange | None) -> ScoredChunks:
        options = _narrowing(self.finder, where, window, self.keys)
        if isinstance(self.finder, BaseRetriever):
            return _scored(self.finder.invoke(query, **options), k, self.keys)
        return _scored(self.finder.similarity_search(query, k, **options), k, self.keys)

    async def asearch(self, query: str, k: int, where: Filter | None, window: TimeRange | None) -> ScoredChunks:
        options = _narrowing(self.finder, where, window, self.keys)
        if isinstance(self.finder, BaseRetriever):
            return _scored(await self.finder.ainvoke(query, **options), k, self.keys)
        return _scored(await self.finder.asimilarity_search(query, k, **options), k, self.keys)


def _narrowing(finder: Any, where: Filter | None, window: TimeRange | None, keys: PlaceKeys) -> dict[str, Any]:
    """Search options with which a finder of a known kind returns only documents that pass; its own filter still holds.
    {} for a finder of another kind."""
    if hasattr(finder, "umi"):
        return {"filter": where, "time_range": window}
    of_store = isinstance(finder, VectorStoreRetriever)
    store, own = (finder.vectorstore, finder.search_kwargs.get("filter")) if of_store else (finder, None)
    if hasattr(store, "umi"):
        return {"filter": Scope(asked_filter(own)).narrow(where), "time_range": window}
    if isinstance(store, InMemoryVectorStore):

        def passes(document: Document) -> bool:
            _, chunks = to_chunks([document], keys, skipped=[])
            return (own is None or own(document)) and (not chunks or chunk_passes(chunks[0], where, window))

        return {"filter": passes}
    clause = None if where is None or chroma_collection(store, "Chroma") is None else to_chroma(where)
    if clause is None:
        return {}
    return {"filter": {"$and": [own, clause.where]} if own else clause.where}


def _scored(documents: Sequence[Document], k: int, keys: PlaceKeys) -> ScoredChunks:
    """The chunks of the first `k` documents with text, scored by rank; one that cannot be a chunk is left out."""
    with_text = [document for document in documents if document.page_content.strip()][:k]
    skipped: list[SkippedChunk] = []
    ids, chunks = to_chunks(with_text, keys, skipped=skipped)
    for gone in skipped:
        warn_once("arm", str(gone.id), "document %r of an arm is left out: umi cannot hold its metadata", gone.id)
    by_id = {chunk.id: chunk for chunk in reversed(chunks)}
    return scores_by_rank((by_id[id] for id in dict.fromkeys(ids)), k)


def reranker_of(model: Any) -> Any:
    """A document compressor (FlashRank, Cohere, CrossEncoderReranker) as a scoring function; any other model as it is.

    The scores are `metadata["relevance_score"]` if all returned documents have one; else they fall with the order of
    the documents. Documents that the compressor drops are left out of the result.
    """
    return partial(_rerank, model) if isinstance(model, BaseDocumentCompressor) else model


def _rerank(model: BaseDocumentCompressor, query: str, texts: Sequence[str]) -> list[float]:
    documents = [Document(page_content=text, metadata={ROW_KEY: row}) for row, text in enumerate(texts)]
    kept = model.compress_documents(documents, query)
    return scores_of_kept([(found.metadata[ROW_KEY], found.metadata.get(SCORE_KEY)) for found in kept], len(texts))
