"""umi: find the right passage, say why, and fit it into the prompt.

    from umi_common import Chunk, DualRetriever, HybridStore, TokenBudget

Each name below is imported when it is first used, so that `import umi_common` itself is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umi_common.config import UmiConfig as UmiConfig
    from umi_common.context.budget import AssembledContext as AssembledContext
    from umi_common.context.budget import AssemblyPolicy as AssemblyPolicy
    from umi_common.context.budget import TokenBudget as TokenBudget
    from umi_common.errors import UmiError as UmiError
    from umi_common.protocols import Embedder as Embedder
    from umi_common.protocols import Reranker as Reranker
    from umi_common.protocols import Rewriter as Rewriter
    from umi_common.retriever import DualRetriever as DualRetriever
    from umi_common.stores.embedded.hybrid import HybridStore as HybridStore
    from umi_common.types import Chunk as Chunk
    from umi_common.types import Hit as Hit
    from umi_common.types import SearchResult as SearchResult
    from umi_common.types import TimeRange as TimeRange

__version__ = "0.1.0"

_MODULES = {
    "AssembledContext": "umi_common.context.budget",
    "AssemblyPolicy": "umi_common.context.budget",
    "Chunk": "umi_common.types",
    "DualRetriever": "umi_common.retriever",
    "Embedder": "umi_common.protocols",
    "Hit": "umi_common.types",
    "HybridStore": "umi_common.stores.embedded.hybrid",
    "Reranker": "umi_common.protocols",
    "Rewriter": "umi_common.protocols",
    "SearchResult": "umi_common.types",
    "TimeRange": "umi_common.types",
    "TokenBudget": "umi_common.context.budget",
    "UmiConfig": "umi_common.config",
    "UmiError": "umi_common.errors",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'umi_common' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
