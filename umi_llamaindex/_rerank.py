"""A LlamaIndex node postprocessor (SentenceTransformerRerank, LLMRerank, ...) as umi's reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

from umi_common.framework_records import scores_by_order


def reranker_of(model: Any) -> Any:
    """A postprocessor as a scoring function: by the order it returns, nodes it drops last. Other models unchanged."""
    if not isinstance(model, BaseNodePostprocessor):
        return model

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        nodes = [NodeWithScore(node=TextNode(text=text, id_=str(row)), score=0.0) for row, text in enumerate(texts)]
        kept = model.postprocess_nodes(nodes, query_str=query)
        return scores_by_order([int(item.node.node_id) for item in kept], len(texts))

    return rerank
