"""umi for LlamaIndex. Needs the package llama-index-core."""

from __future__ import annotations

from umi_common.errors import MissingExtra

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("llama-index-core", "llamaindex") from error

from umi_llamaindex._parts import as_arm
from umi_llamaindex.context_budget import UmiContextBudget
from umi_llamaindex.embedding import UmiEmbedding
from umi_llamaindex.events import UmiDegradationEvent, UmiStageEvent
from umi_llamaindex.memory import UmiMemoryBlock
from umi_llamaindex.postprocessor import UmiDecay, UmiMMR, UmiNearDuplicates, UmiNeighbours, UmiPostprocessor
from umi_llamaindex.query import UmiQuery
from umi_llamaindex.retriever import UmiRetriever
from umi_llamaindex.tool import create_umi_tool
from umi_llamaindex.vector_store import UmiVectorStore

__all__ = [
    "UmiContextBudget",
    "UmiDecay",
    "UmiDegradationEvent",
    "UmiEmbedding",
    "UmiMMR",
    "UmiMemoryBlock",
    "UmiNearDuplicates",
    "UmiNeighbours",
    "UmiPostprocessor",
    "UmiQuery",
    "UmiRetriever",
    "UmiStageEvent",
    "UmiVectorStore",
    "as_arm",
    "create_umi_tool",
]
