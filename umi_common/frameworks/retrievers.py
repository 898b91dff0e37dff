"""Base classes of the adapters' retrievers and vector stores, which open and close a store.

Adapters take the sections of `UmiConfig`, such as `when` or `embedder`, as keyword arguments.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from umi_common.config import UmiConfig
from umi_common.errors import ConfigError
from umi_common.frameworks.options import sections_and_fields
from umi_common.retriever import DualRetriever, store_settings
from umi_common.runtime.closing import Closing
from umi_common.search.request import refuse_unknown_options
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.stores.embedded.hybrid import HybridStore


class OwnsStore(Closing):
    """Base class of the adapters' retrievers and vector stores."""

    if TYPE_CHECKING:  # in a pydantic class, this annotation would be a field
        umi: DualRetriever
    _owns_store: bool  # subclasses set both
    """Whether `close` closes the store; False: the caller has opened it."""
    _skipped: list[SkippedChunk] | None
    """Items that could not be stored and were left out; None: an item that cannot be stored raises."""

    @property
    def skipped(self) -> tuple[SkippedChunk, ...]:
        """The documents or nodes that `on_invalid="skip"` left out, with the reasons."""
        return tuple(self._skipped or ())

    def close(self) -> None:
        """End the threads of `self.umi`, and close the store if this object has opened it."""
        self.umi.close()
        if self._owns_store:
            self.umi.store.close()


class SharesStore(OwnsStore):
    """Base class of the adapters' vector stores.

    A deep copy is a shallow one: an open store cannot be copied, and frameworks copy their parts deeply. Original and
    copy have the same `umi` and store. If the original has opened the store, `close` of either closes it for both.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.umi.store!r})"

    def __deepcopy__(self, memo: Any = None) -> Self:
        return copy.copy(self)


class OpensStore(OwnsStore):
    """Base class of the adapters' retrievers, which have a classmethod `from_store(store, **options)`."""

    @classmethod
    def _opened(
        cls,
        fill: Callable[[Self], None],
        embedder: Any,
        directory: str | None,
        /,  # positional, because `options` may hold the section `embedder`
        *,
        read_only: bool = False,
        **options: Any,
    ) -> Self:
        """Open a store, and make a retriever over it by `_owning`.

        Args:
            fill: Is called with the retriever, and adds chunks to its store; not called if `read_only`.
            embedder: As in `HybridStore.open`.
            directory: Path of the store; None: a store in memory.
            options: Options of `from_store`, among them sections of `UmiConfig`.
        """
        config = UmiConfig(**sections_and_fields(options)[0])
        store = HybridStore.open(directory, embedder=embedder, config=_of_store(config), read_only=read_only)
        return cls._owning(store, None if read_only else fill, **options)

    @classmethod
    def _owning(cls, store: Any, fill: Callable[[Self], None] | None, /, **options: Any) -> Self:
        """A retriever made by `from_store`, whose `close` also closes the store, filled by `fill`.

        If `from_store` or `fill` fails, the store is closed.
        """
        try:
            if "store" in options:
                raise ConfigError(
                    "store= is not taken here, because this call opens a store itself; "
                    "from_store(store) searches an open store, UmiVectorStore(store=...) adds to it"
                )
            if "on_invalid" in options:
                raise ConfigError(
                    "on_invalid is for documents and nodes; leave it out here: records of a vector store that have no "
                    "text are always left out, and the logger umi names them"
                )
            retriever: Self = cls.from_store(store, **options)  # type: ignore[attr-defined]
            if fill is not None:
                fill(retriever)
        except BaseException:
            store.close()
            raise
        retriever._owns_store = True
        return retriever


def retriever_over(
    kind: type,
    store: HybridStore | None,
    sections: Mapping[str, Any],
    *,
    embedder: Any,
    directory: Any,
    names: tuple[str, str],
    read_only: bool,
    **parts: Any,
) -> DualRetriever:
    """The `DualRetriever` of an adapter's vector store.

    Args:
        kind: Class of the vector store, whose constructor takes the sections as its last parameter.
        store: The store to search; None: a store is opened, and closed again if the retriever cannot be made.
        sections: Sections of `UmiConfig` by name; they replace those with which `store` was opened.
        embedder, directory: As in `HybridStore.open`, to open a store.
        names: What the vector store calls its arguments `embedder` and `directory`, for messages.
        read_only: As in `HybridStore.open`.
        **parts: As in `DualRetriever`.

    Raises:
        ConfigError: If an embedder or a directory is given beside a store, or `read_only` beside a store that is open
            for writing, or a section is unknown or wrong.
    """
    own = list(signature(kind.__init__).parameters)[1:-1]  # type: ignore[misc]
    refuse_unknown_options(sections, (*own, *UmiConfig.model_fields), ConfigError)
    if store is not None:
        if embedder is not None or directory is not None:
            raise ConfigError(f"store= has an embedder and a directory already; leave {' and '.join(names)} out")
        if read_only and not getattr(store, "read_only", True):
            raise ConfigError(
                "read_only=True opens a directory only to read it, but the store of store= is open for writing; "
                "leave one of them out"
            )
        return DualRetriever(store, config=store_settings(store).replaced(**sections), **parts)
    config = UmiConfig(**sections)
    opened = HybridStore.open(directory, embedder=embedder, config=_of_store(config), read_only=read_only)
    try:
        return DualRetriever(opened, config=opened.config.replaced(**sections), **parts)
    except BaseException:
        opened.close()
        raise


def _of_store(config: UmiConfig) -> UmiConfig:
    """The sections that are settings of a store. The others are settings of a retriever, so a notebook cell that makes
    one may run again with others while its store is still open."""
    return UmiConfig(
        **{name: getattr(config, name) for name in ("analyzer", "embedder") if name in config.model_fields_set}
    )
