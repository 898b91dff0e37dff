"""Translate LangChain's structured queries, which an LLM writes for `SelfQueryRetriever`, to umi's filters."""

from __future__ import annotations

from typing import Any

from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery, Visitor

from umi_common.filters import Scope, asked_filter
from umi_common.runtime.losses import warn_once
from umi_common.search.request import LIMIT_MAX

OVER_LIMIT = "an LLM asked SelfQueryRetriever for %d documents; a search returns at most %d. Logged once."


class UmiTranslator(Visitor):
    """Translates a structured query to a query text and a filter of umi.

    Use: `SelfQueryRetriever.from_llm(..., vectorstore=UmiVectorStore(...), structured_query_translator=...)`. The
    comparator "contain" looks for an item in a list. A date is compared as an ISO string, because metadata holds dates
    as ISO strings. With an empty list, no document passes "in", and every document passes "nin".

    Args:
        filter: Documents must pass this filter and the filter that the LLM writes. A filter in `search_kwargs` would
            not do: LangChain replaces it by the filter that the LLM writes.

    Raises:
        FilterError: If `filter` is not valid.
    """

    allowed_comparators = tuple(comparator for comparator in Comparator if comparator != Comparator.LIKE)
    allowed_operators = tuple(Operator)

    def __init__(self, filter: Any = None) -> None:
        self._scope = Scope(asked_filter(filter))

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        """The filter of an "and", "or" or "not"."""
        parts = [argument.accept(self) for argument in operation.arguments]
        if operation.operator is Operator.NOT:
            return {"$not": {"$or": parts}}
        return {f"${operation.operator.value}": parts}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        """The filter of one comparison."""
        self._validate_func(comparison.comparator)
        value = _plain(comparison.value)
        if value == [] and comparison.comparator in (Comparator.IN, Comparator.NIN):  # umi's filters refuse empty lists
            any_document = {"$or": [{comparison.attribute: {"$exists": exists}} for exists in (True, False)]}
            return any_document if comparison.comparator is Comparator.NIN else {"$not": any_document}
        name = "contains" if comparison.comparator is Comparator.CONTAIN else comparison.comparator.value
        return {comparison.attribute: {f"${name}": value}}

    def visit_structured_query(self, structured_query: StructuredQuery) -> tuple[str, dict[str, Any]]:
        """(text to search for, options of the search); raises FilterError if a comparator cannot take its value.

        A limit above LIMIT_MAX, the largest that a search for a text accepts, is lowered in `structured_query`, where
        LangChain reads it. Without a text, the documents that pass the filter are listed, up to any limit.
        """
        asked = None if structured_query.filter is None else structured_query.filter.accept(self)
        where = self._scope.narrow(asked)
        limit = structured_query.limit
        if limit is not None and limit > LIMIT_MAX and structured_query.query.strip():
            warn_once("selfquery", "limit", OVER_LIMIT, limit, LIMIT_MAX)
            structured_query.limit = LIMIT_MAX
        return structured_query.query, {} if where is None else {"filter": where}


def _plain(value: Any) -> Any:
    """`value` with ISO strings in place of LangChain's dates ({"type": "date", "date": "2024-05-01"}) in it."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value[value["type"]] if isinstance(value, dict) and value.get("type") in ("date", "datetime") else value
