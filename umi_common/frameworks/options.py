"""Check the arguments of the adapters' classes, and find methods that a subclass replaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import getattr_static
from typing import Any

import numpy as np
from pydantic import ValidationError

from umi_common.config import UmiConfig, first_fault
from umi_common.context.budget import TokenBudget
from umi_common.errors import ConfigError
from umi_common.search.request import refuse_unknown_options

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
    """Raise ConfigError if a retriever's constructor was given an option that it does not have.

    Args:
        given: Names of the options.
        own: Names of the constructor's options.
        factory: "from_documents" or "from_nodes", which takes `FACTORY_OPTIONS`.
        opening: Names of the options with which `factory` opens a store.
    """
    own = list(own)
    refuse_unknown_options(given, (*own, *opening, *FACTORY_OPTIONS, *UmiConfig.model_fields), ConfigError)
    for name in sorted(set(given) - set(own)):
        if name in UmiConfig.model_fields or name in ("llm", "reranker", "arms"):
            store = "" if name == "arms" else ", and of UmiVectorStore"
            raise ConfigError(f"{name} is an option of {factory} and from_store{store}; give it there")
        raise ConfigError(f"{name} is an option of {factory}, which opens a store itself; from_store takes an open one")


def refuse_other_retriever(retriever: Any, kind: type, *methods: str) -> None:
    """Raise ConfigError unless the retriever of a tool or context is a `kind` that searches by the methods of `kind`.

    Args:
        retriever: The argument that the caller gave.
        kind: The adapter's `UmiRetriever`.
        methods: Methods that the retriever's class must not replace, besides OWN_SEARCH.
    """
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
