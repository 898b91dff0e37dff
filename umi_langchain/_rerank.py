"""A LangChain document compressor (FlashRank, Cohere, CrossEncoderReranker, ...) as umi's reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor

PLACE = "umi_place"


def reranker_of(model: Any) -> Any:
    """Scores by place in what a compressor returns, what it drops last; anything else as it is, for the core."""
    if not isinstance(model, BaseDocumentCompressor):
        return model

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        documents = [Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)]
        kept = model.compress_documents(documents, query)
        scores = [0.0] * len(texts)
        for rank, document in enumerate(kept):
            scores[document.metadata[PLACE]] = float(len(texts) - rank)
        return scores

    return rerank
