"""A LangChain document compressor (FlashRank, Cohere, CrossEncoderReranker, ...) as umi's reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor

from umi_common.framework_records import scores_of_kept
from umi_langchain._convert import SCORE_KEY

ROW_KEY = "umi_row"


def reranker_of(model: Any) -> Any:
    """A compressor as a scoring function; documents that it drops are left out. Other models unchanged.

    A score is its `metadata["relevance_score"]` where each document that it keeps has one, else the order counts.
    """
    if not isinstance(model, BaseDocumentCompressor):
        return model

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        documents = [Document(page_content=text, metadata={ROW_KEY: row}) for row, text in enumerate(texts)]
        kept = model.compress_documents(documents, query)
        return scores_of_kept([(found.metadata[ROW_KEY], found.metadata.get(SCORE_KEY)) for found in kept], len(texts))

    return rerank
