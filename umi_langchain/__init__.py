"""umi for LangChain. Needs langchain-core; UmiMemoryMiddleware also needs langchain, and UmiStore langgraph."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from umi_common.errors import MissingExtra

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("langchain-core", "langchain") from error

from umi_langchain._parts import as_arm
from umi_langchain.compressor import UmiCompressor, UmiDecay, UmiMMR, UmiNearDuplicates, UmiNeighbours
from umi_langchain.retriever import UmiRetriever
from umi_langchain.selfquery import UmiTranslator
from umi_langchain.tool import create_umi_context, create_umi_tool
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


_AGENTS = {"UmiMemoryMiddleware": ("langchain", "middleware"), "UmiStore": ("langgraph", "store")}
"""Class for agents -> (package of its base class, module of `umi_langchain` that defines it)."""
for _name, (_package, _) in _AGENTS.items():
    if find_spec(_package) is None:  # `import *` leaves the class out; importing it by name raises MissingExtra
        __all__.remove(_name)


def __getattr__(name: str) -> Any:
    if name in _AGENTS:
        return getattr(import_module(f"umi_langchain.{_AGENTS[name][1]}"), name)
    raise AttributeError(f"module 'umi_langchain' has no attribute {name!r}")
