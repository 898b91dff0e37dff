"""A LangChain document compressor (FlashRank, Cohere, CrossEncoderReranker, ...) as umi's reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor

from umi_common.framework_records import scores_by_order

ROW_KEY = "umi_row"


def reranker_of(model: Any) -> Any:
    """A compressor as a scoring function: by the order it returns, documents it drops last. Other models unchanged."""
    if not isinstance(model, BaseDocumentCompressor):
        return model

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        documents = [Document(page_content=text, metadata={ROW_KEY: row}) for row, text in enumerate(texts)]
        kept = model.compress_documents(documents, query)
        return scores_by_order([document.metadata[ROW_KEY] for document in kept], len(texts))

    return rerank
