"""umi for LangChain; needs langchain-core, and langchain only for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umi_common.errors import MissingExtra

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("langchain-core", "langchain") from error

from umi_langchain._parts import as_arm
from umi_langchain.compressor import UmiCompressor
from umi_langchain.context import create_umi_context
from umi_langchain.postprocessor import UmiDecay, UmiMMR, UmiNearDuplicates, UmiNeighbours
from umi_langchain.retriever import UmiRetriever
from umi_langchain.selfquery import UmiTranslator
from umi_langchain.tool import create_umi_tool
from umi_langchain.vectorstore import UmiVectorStore

if TYPE_CHECKING:
    from umi_langchain.middleware import UmiMemoryMiddleware
    from umi_langchain.store import UmiStore

__all__ = [
    "UmiCompressor",
    "UmiDecay",
    "UmiMMR",
    "UmiMemoryMiddleware",
    "UmiNearDuplicates",
    "UmiNeighbours",
    "UmiRetriever",
    "UmiStore",
    "UmiTranslator",
    "UmiVectorStore",
    "as_arm",
    "create_umi_context",
    "create_umi_tool",
]


def __getattr__(name: str) -> Any:
    if name == "UmiMemoryMiddleware":  # its base class is in langchain, which only agents need
        from umi_langchain.middleware import UmiMemoryMiddleware

        return UmiMemoryMiddleware
    if name == "UmiStore":  # its base class is in langgraph, which only agents need
        from umi_langchain.store import UmiStore

        return UmiStore
    raise AttributeError(f"module 'umi_langchain' has no attribute {name!r}")
