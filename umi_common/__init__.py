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
    "umi_common.config": ["UmiConfig"],
    "umi_common.context.budget": ["AssembledContext", "AssemblyPolicy", "TokenBudget"],
    "umi_common.errors": ["UmiError"],
    "umi_common.protocols": ["Embedder", "Reranker", "Rewriter"],
    "umi_common.retriever": ["DualRetriever"],
    "umi_common.stores.embedded.hybrid": ["HybridStore"],
    "umi_common.types": ["Chunk", "Hit", "SearchResult", "TimeRange"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'umi_common' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
