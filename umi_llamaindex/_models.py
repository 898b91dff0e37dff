"""A caller's models: LlamaIndex's `Settings` in place of a model, and a node postprocessor as umi's reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core import Settings
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

from umi_common.framework_records import scores_of_kept


class SettingsLLM:
    """An LLM that calls the current `Settings.llm`. If that changes, umi's cached replies of the old one stay valid."""

    def complete(self, prompt: str) -> Any:
        """The completion of the current `Settings.llm`."""
        return Settings.llm.complete(prompt)

    async def acomplete(self, prompt: str) -> Any:
        """`complete` on an event loop."""
        return await Settings.llm.acomplete(prompt)


def llm_of(llm: Any) -> Any:
    """The LLM of an `llm` argument: for `Settings`, one that reads `Settings.llm` at each call."""
    return SettingsLLM() if llm is Settings else llm


def embed_model_of(embed_model: Any) -> Any:
    """The embed model of an `embed_model` argument: for `Settings`, the present `Settings.embed_model`."""
    return Settings.embed_model if embed_model is Settings else embed_model


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
