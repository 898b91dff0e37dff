"""Use LangChain's parts in umi: a retriever or vector store as an arm, a document compressor as a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore, VectorStoreRetriever

from umi_common.errors import ConfigError
from umi_common.filters import Filter, Scope, asked_filter, to_chroma
from umi_common.frameworks.ranking import arm_reply, checked_reply, scores_of_kept
from umi_common.frameworks.records import PlaceKeys, chroma_collection
from umi_common.protocols import chunk_passes
from umi_common.search.extra_arms import Arm, ArmReply
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.types import Chunk, TimeRange
from umi_langchain._convert import SCORE_KEY, to_chunks, to_document

KEYS = PlaceKeys()
"""Default metadata keys of source, position and time."""
Finder = Runnable[str, list[Document]] | VectorStore | Arm
"""Types that `as_arm` accepts."""
ROW_KEY = "umi_row"
"""Metadata key under which `_Compressor` puts the index of a document among the documents to rerank, from 0."""


def as_arm(finder: Finder, name: str | None = None, weight: float = 0.5, *, keys: PlaceKeys = KEYS) -> Arm:
    """A retriever or vector store as an arm, for `UmiRetriever.from_store(arms=...)`.

    The arm scores its documents by their rank. A document without an id gets a hash of its text and metadata as id.

    umi drops documents of the arm that do not pass the filter and the time range of a search. To have fewer dropped,
    the arm passes filter and time range on to a retriever or store of umi and to an `InMemoryVectorStore`, and the
    filter to Chroma. Any other finder has its own filter syntax and gets neither.

    Args:
        finder: A `BaseRetriever` or another runnable from a query to documents, such as `retriever.with_retry()`; a
            `VectorStore`; or an `Arm`, which is returned unchanged.
        name: The arm's name in reasons and in `degraded`; None: the name of the finder's class.
        weight: As in `Arm`. With `fusion={"dense_weight": 0.0}`, a vector store with weight 0.55, which is the default
            of `fusion.dense_weight`, replaces the dense arm.
        keys: Metadata keys of source, position and time, for documents that umi's store does not hold.

    Raises:
        ConfigError: If `finder` has another type, or if `name` or `weight` is not as described.
    """
    if isinstance(finder, Arm):
        return finder
    if not isinstance(finder, (Runnable, VectorStore)):
        raise ConfigError(
            f"arm {type(finder).__name__}: expected a BaseRetriever or another runnable, a VectorStore or "
            "umi_common.search.extra_arms.Arm"
        )
    search, asearch = partial(_search, finder, keys), partial(_asearch, finder, keys)  # closures cannot be pickled
    return Arm(type(finder).__name__ if name is None else name, search, weight, asearch)


def _search(
    finder: Any, keys: PlaceKeys, query: str, k: int, where: Filter | None, window: TimeRange | None
) -> ArmReply:
    search = finder.invoke if isinstance(finder, Runnable) else partial(finder.similarity_search, k=k)
    return _scored(search(query, **_narrowing(finder, where, window, keys)), k, keys)


async def _asearch(
    finder: Any, keys: PlaceKeys, query: str, k: int, where: Filter | None, window: TimeRange | None
) -> ArmReply:
    search = finder.ainvoke if isinstance(finder, Runnable) else partial(finder.asimilarity_search, k=k)
    return _scored(await search(query, **_narrowing(finder, where, window, keys)), k, keys)


def _narrowing(finder: Any, where: Filter | None, window: TimeRange | None, keys: PlaceKeys) -> dict[str, Any]:
    """The options that pass the filter `where` and, except to Chroma, the time range `window` to a call of `finder`.

    {}: the finder's filter syntax is not known. A filter in a retriever's `search_kwargs` still applies.
    """
    if isinstance(finder, Runnable) and not isinstance(finder, BaseRetriever):  # `bind` may have set its options
        return {}
    if hasattr(finder, "umi"):  # umi's retriever or vector store
        return {"filter": where, "time_range": window}
    store, own = finder, None
    if isinstance(finder, VectorStoreRetriever):
        store, own = finder.vectorstore, finder.search_kwargs.get("filter")
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


def _scored(reply: Any, k: int, keys: PlaceKeys) -> ArmReply:
    """The first k documents with text, as chunks with the scores of `arm_reply`."""
    with_text = [document for document in checked_reply(reply, Document) if document.page_content.strip()][:k]
    skipped: list[SkippedChunk] = []
    chunks = to_chunks(with_text, keys, skipped=skipped)[1]
    return arm_reply("document", chunks, skipped, k)


def reranker_of(model: Any, keys: PlaceKeys) -> Any:
    """A document compressor, such as that of FlashRank or Cohere, as a reranker; any other model stays as it is."""
    return _Compressor(model, keys) if isinstance(model, BaseDocumentCompressor) else model


class _Compressor:
    """A reranker that calls a document compressor."""

    def __init__(self, model: BaseDocumentCompressor, keys: PlaceKeys) -> None:
        self._model, self._keys = model, keys

    def score_chunks(self, query: str, chunks: Sequence[Chunk]) -> list[float]:
        """`scores_of_kept` of the documents that the compressor returns. It gets the texts that are searched."""
        documents = [to_document(chunk, self._keys) for chunk in chunks]
        for row, (document, chunk) in enumerate(zip(documents, chunks, strict=True)):
            document.page_content = chunk.indexed_text
            document.metadata.pop(SCORE_KEY, None)
            document.metadata[ROW_KEY] = row
        kept = checked_reply(self._model.compress_documents(documents, query), Document)
        return scores_of_kept(
            [(each.metadata.get(ROW_KEY), each.metadata.get(SCORE_KEY)) for each in kept], len(chunks)
        )
