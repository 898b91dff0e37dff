"""Base classes of the adapters' classes, which open and close a store, and checks of their arguments.

Adapters take the sections of `UmiConfig`, such as `when` or `embedder`, as keyword arguments.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Iterable, Mapping
from inspect import getattr_static, signature
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError
from typing_extensions import Self

from umi_common.config import UmiConfig, first_fault
from umi_common.context.budget import TokenBudget
from umi_common.errors import ConfigError
from umi_common.retriever import DualRetriever, store_settings
from umi_common.runtime.closing import Closing
from umi_common.search.request import refuse_unknown_options
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore

OWN_SEARCH = ("_get_relevant_documents", "_aget_relevant_documents", "_retrieve", "_aretrieve")
"""Methods by which a subclass of an adapter's retriever may search in its own way."""
FACTORY_OPTIONS = ("llm", "reranker", "arms", "mirror", "on_invalid", "read_only")
"""Options of `from_documents` and `from_nodes` that the constructors of the retrievers do not have."""


class CheckedFields:
    """First base of a pydantic class: a wrong field raises ConfigError with the message of `config.first_fault`."""

    def __init__(self, *unnamed: Any, **fields: Any) -> None:
        if unnamed:
            names: Any = type(self).model_fields  # type: ignore[attr-defined]
            expected = ", ".join(f"{name}=..." for name in names if name != "callback_manager")
            raise ConfigError(f"{type(self).__name__}({unnamed[0]!r:.40}): expected fields by name: {expected}")
        given = fields.get("umi")
        if hasattr(given, "recall") or hasattr(given, "umi"):
            advice = "DualRetriever(store)" if hasattr(given, "recall") else "the property umi of that object"
            raise ConfigError(f"umi is {type(given).__name__}; expected a DualRetriever: {advice}")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(first_fault(type(self), error)) from error  # type: ignore[arg-type]


class TakesBudget(CheckedFields):
    """First base of a pydantic class with a field `budget`, which may be given as a number of tokens, and first."""

    def __init__(self, budget: TokenBudget | int | None = None, **fields: Any) -> None:
        if budget is not None:
            fields["budget"] = TokenBudget(max_total=budget) if isinstance(budget, (int, np.integer)) else budget
        super().__init__(**fields)


def sections_and_fields(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the options that are sections of `UmiConfig`, all other options)."""
    sections = {name: value for name, value in options.items() if name in UmiConfig.model_fields}
    return sections, {name: value for name, value in options.items() if name not in sections}


def refuse_factory_options(given: Iterable[str], own: Iterable[str], factory: str, *opening: str) -> None:
    """Raise ConfigError if a retriever's constructor, with the options `own`, was `given` another.

    `factory` is "from_documents" or "from_nodes", which takes `FACTORY_OPTIONS` and opens a store by `opening`.
    """
    own = list(own)
    refuse_unknown_options(given, (*own, *opening, *FACTORY_OPTIONS, *UmiConfig.model_fields), ConfigError)
    for name in sorted(set(given) - set(own)):
        if name in UmiConfig.model_fields or name in ("llm", "reranker", "arms"):
            store = "" if name == "arms" else ", and of UmiVectorStore"
            raise ConfigError(f"{name} is an option of {factory} and from_store{store}; give it there")
        raise ConfigError(f"{name} is an option of {factory}, which opens a store itself; from_store takes an open one")


def refuse_other_retriever(retriever: Any, kind: type, *methods: str) -> None:
    """Raise ConfigError unless the retriever of a tool or context is a `kind`, the adapter's `UmiRetriever`, whose
    class replaces neither `methods` nor OWN_SEARCH."""
    if not isinstance(retriever, kind):
        raise ConfigError(
            f"retriever is {type(retriever).__name__}; expected a UmiRetriever: UmiRetriever.from_store(store), or "
            "the .retriever() of a UmiVectorStore"
        )
    own = [name for name in (*OWN_SEARCH, *methods) if hasattr(kind, name) and overrides(retriever, kind, name)]
    if own:
        raise ConfigError(
            f"{type(retriever).__name__} has its own {own[0]}, which a tool or context would not call; use a filter of "
            "the retriever instead, or the framework's own retriever tool"
        )


def overrides(instance: object, base: type, *methods: str) -> bool:
    """Whether the instance's class replaces one of the methods of `base`; then calls must not bypass that method."""
    own = type(instance)
    return any(getattr_static(own, name) is not getattr_static(base, name) for name in methods)


def in_thread(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """An asynchronous method that calls the synchronous method `name` in a thread."""

    async def method(self: Any, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **options)

    method.__doc__ = f"`{name}` in a thread."
    return method


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
    """Base class of the adapters' vector stores. A deep copy shares the store, because frameworks copy their parts
    deeply. If the original has opened the store, `close` of either closes it for both."""

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

        `fill` adds chunks to the retriever's store; it is not called if `read_only`. `options` are those of
        `from_store`, among them sections of `UmiConfig`.
        """
        config = UmiConfig(**sections_and_fields(options)[0])
        store = HybridStore.open(directory, embedder=embedder, config=_of_store(config), read_only=read_only)
        return cls._owning(store, None if read_only else fill, **options)

    @classmethod
    def _over_chroma(
        cls, collection: Any, embedder: Any, directory: str | None, read: Any, mirror: bool, /, **options: Any
    ) -> Self:
        """A retriever over a Chroma collection, searched in place; `read` makes a chunk of a record."""
        if mirror:
            raise ConfigError("mirror is for copies; give copy=True, too: without it, every write is found")
        config = UmiConfig(**sections_and_fields(options)[0])
        return cls._owning(ChromaStore(collection, embedder, directory, config, read=read), None, **options)

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
    read_only: bool,
    **parts: Any,
) -> DualRetriever:
    """The `DualRetriever` of an adapter's vector store.

    Args:
        kind: Class of the vector store. The first parameters of its constructor are `embedder` and `directory`, under
            names of its own; the last are the sections.
        store: The store to search; None: a store is opened, and closed again if the retriever cannot be made.
        sections: Sections of `UmiConfig` by name; they replace those with which `store` was opened.
        **parts: As in `DualRetriever`.

    Raises:
        ConfigError: If an embedder or a directory is given beside a store, or `read_only` beside a store that is open
            for writing, or a section is unknown or wrong.
    """
    own = list(signature(kind.__init__).parameters)[1:-1]  # type: ignore[misc]
    refuse_unknown_options(sections, (*own, *UmiConfig.model_fields), ConfigError)
    if store is not None:
        if embedder is not None or directory is not None:
            raise ConfigError(f"store= has an embedder and a directory already; leave {own[0]} and {own[1]} out")
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
