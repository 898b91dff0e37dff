"""Retrievers and vector stores of the adapters that open a store of their own, which they close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from typing_extensions import Self

from umi_common.config import UmiConfig
from umi_common.errors import ConfigError
from umi_common.frameworks.records import stages_and_fields
from umi_common.retriever import DualRetriever
from umi_common.runtime.closing import Closing
from umi_common.stores.embedded.hybrid import HybridStore


class OwnsStore(Closing):
    """A retriever or vector store of an adapter, over `umi`."""

    umi: DualRetriever
    _owns_store: bool

    def close(self) -> None:
        """End the threads, and close the store unless the caller made it."""
        self.umi.close()
        if self._owns_store:
            self.umi.store.close()


class OpensStore(OwnsStore):
    """A retriever of an adapter. `from_store(store, **options)` makes one, whose store the caller closes."""

    @classmethod
    def _opened(
        cls,
        fill: Callable[[Self], None],
        embedder: Any,
        directory: str | None,
        *,
        read_only: bool = False,
        **options: Any,
    ) -> Self:
        """`_owning` for a store that is opened with these arguments; with `read_only`, nothing is added."""
        stages, _ = stages_and_fields(options)
        config = UmiConfig(**stages) if stages else None  # None: the defaults, with the store's analyzer
        store = HybridStore.open(directory, embedder=embedder, config=config, read_only=read_only)
        return cls._owning(store, None if read_only else fill, **options)

    @classmethod
    def _owning(cls, store: Any, fill: Callable[[Self], None] | None, **options: Any) -> Self:
        """`from_store` for a store that `close` closes; `fill` adds to it. If this fails, the store is closed."""
        try:
            retriever: Self = cls.from_store(store, **options)  # type: ignore[attr-defined]
            if fill is not None:
                fill(retriever)
        except BaseException:
            store.close()
            raise
        retriever._owns_store = True
        return retriever


def retriever_over(
    store: HybridStore | None, opening: Mapping[str, Any], stages: Mapping[str, Any], *, read_only: bool, **parts: Any
) -> DualRetriever:
    """A retriever over the store of a vector store; None: over one that is opened. If this fails, that one is closed.

    Args:
        opening: Embedder and directory, under the names that the vector store's arguments have.
        stages: Stages of `UmiConfig`.
        read_only: As in `HybridStore.open`.
        **parts: As in `DualRetriever`.

    Raises:
        ConfigError: If there are a store and an embedder or directory, or a stage is wrong.
    """
    embedder, directory = opening.values()
    if store is not None and not embedder is directory is None:
        raise ConfigError(f"store= has an embedder and a directory already; leave {' and '.join(opening)} out")
    config = UmiConfig(**stages)
    if store is not None:
        return DualRetriever(store, config=config, **parts)
    own = HybridStore.open(directory, embedder=embedder, config=config if stages else None, read_only=read_only)
    try:
        return DualRetriever(own, config=config, **parts)
    except BaseException:
        own.close()
        raise


def in_thread(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """An asynchronous method that calls the method `name` in a thread."""

    async def method(self: Any, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **options)

    method.__doc__ = f"`{name}` in a thread."
    return method
