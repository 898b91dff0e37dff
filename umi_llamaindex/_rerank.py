"""A LlamaIndex node postprocessor (SentenceTransformerRerank, LLMRerank, ...) as umi's reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

from umi_common.framework_records import scores_of_kept


def reranker_of(model: Any) -> Any:
    """A postprocessor as a function from a query and texts to scores; any other model is returned unchanged.

    The postprocessor gets nodes with equal scores. The scores it returns are used; if they are still equal, its order.
    Texts whose nodes it drops are left out.
    """
    if not isinstance(model, BaseNodePostprocessor):
        return model

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        nodes = [NodeWithScore(node=TextNode(text=text, id_=str(row)), score=0.0) for row, text in enumerate(texts)]
        kept = model.postprocess_nodes(nodes, query_str=query)
        return scores_of_kept([(int(item.node.node_id), item.score) for item in kept], len(texts))

    return rerank
