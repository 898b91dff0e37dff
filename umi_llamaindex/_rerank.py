"""A LlamaIndex node postprocessor (SentenceTransformerRerank, LLMRerank, ...) as umi's reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode


def reranker_of(model: Any) -> Any:
    """Scores by place in what a postprocessor returns, what it drops last; anything else as it is, for the core."""
    if not isinstance(model, BaseNodePostprocessor):
        return model

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        nodes = [NodeWithScore(node=TextNode(text=text, id_=str(place)), score=0.0) for place, text in enumerate(texts)]
        scores = [0.0] * len(texts)
        for rank, item in enumerate(model.postprocess_nodes(nodes, query_str=query)):
            scores[int(item.node.node_id)] = float(len(texts) - rank)
        return scores

    return rerank
