"""LangChain's retrievers and vector stores as further arms of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from umi_common.errors import ConfigError
from umi_common.filters import Filter
from umi_common.framework_records import PlaceKeys, scores_by_rank
from umi_common.search.extra_arms import Arm
from umi_common.types import Chunk, TimeRange
from umi_langchain._convert import to_chunks

KEYS = PlaceKeys("source", "position", "timestamp")


def as_arm(finder: Any, name: str | None = None, weight: float = 0.5, *, keys: PlaceKeys = KEYS) -> Arm:
    """A retriever or vector store as an arm of `UmiRetriever(arms=...)`, where its documents count by rank.

    Filters and time ranges are not passed on, since each store has its own syntax: documents that do not pass are
    dropped afterwards. A document without an id gets a hash of text and metadata, as in `from_documents`.

    Args:
        finder: A `BaseRetriever`, a `VectorStore`, or an `Arm`, which comes back as it is.
        name: Names the arm in reasons and in `degraded`; None: its class.
        weight: >= 0, beside `fusion.lexical_weight` (0.45) and `fusion.dense_weight` (0.55). With
            `fusion={"dense_weight": 0.0}` and 0.55 here, a vector store takes the place of the dense arm.
        keys: Metadata keys of source, position and time, for documents that umi's store does not hold.

    Raises:
        ConfigError: If it is none of these, or name or weight are wrong.
    """
    if isinstance(finder, Arm):
        return finder
    if not isinstance(finder, (BaseRetriever, VectorStore)):
        raise ConfigError(
            f"arm {type(finder).__name__}: expected a BaseRetriever, a VectorStore or umi_common.search.extra_arms.Arm"
        )

    def search(query: str, k: int, where: Filter | None, window: TimeRange | None) -> list[tuple[Chunk | str, float]]:
        found = finder.invoke(query) if isinstance(finder, BaseRetriever) else finder.similarity_search(query, k)
        return _scored(found, k, keys)

    async def asearch(
        query: str, k: int, where: Filter | None, window: TimeRange | None
    ) -> list[tuple[Chunk | str, float]]:
        if isinstance(finder, BaseRetriever):
            return _scored(await finder.ainvoke(query), k, keys)
        return _scored(await finder.asimilarity_search(query, k), k, keys)

    return Arm(type(finder).__name__ if name is None else name, search, weight, asearch)


def _scored(documents: Sequence[Document], k: int, keys: PlaceKeys) -> list[tuple[Chunk | str, float]]:
    """The chunks of the first `k` documents with text, scored by rank."""
    written = [document for document in documents if document.page_content.strip()][:k]
    ids, chunks = to_chunks(written, keys)
    by_id = {chunk.id: chunk for chunk in reversed(chunks)}
    return scores_by_rank((by_id[id] for id in dict.fromkeys(ids)), k)
