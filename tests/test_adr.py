"""The acceptance behaviours of the ADRs that the project started from, each under the section it comes from."""

from __future__ import annotations

import inspect

import pytest

from umi_common.config import REWRITE_TEMPLATE
from umi_common.errors import EmptyQuery, InvalidLimit, QueryTooLong
from umi_common.retriever import DualRetriever
from umi_common.search.request import LIMIT_MAX, QUERY_BYTES_MAX
from umi_common.sim import FaultyLLM, HashEmbedder, ScriptedLLM, SimLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk


@pytest.fixture()
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add([Chunk("a", "Priya works at Acme."), Chunk("b", "Acme Corp employee list."), Chunk("c", "A cat.")])
        yield store


def deep(store, llm):
    umi = DualRetriever(store, rewriter=llm)
    umi.reconfigure(routing={"mode": "heuristic"})
    return umi


class TestADR009:
    def test_fast_path_direct_search_for_simple_queries(self, store):
        """Requirements 1: "Fast path: Direct search for simple, specific queries"."""
        llm = ScriptedLLM([])
        result = deep(store, llm).search("Acme")
        assert not result.deep_search_used
        assert set(result.ids[:2]) == {"a", "b"}

    def test_query_rewriting_example(self, store):
        """Query Rewriting: "Who do I know at Acme?" becomes "Acme", "works at Acme", "Acme Corp employee"."""
        llm = ScriptedLLM(lambda prompt: '["Acme", "works at Acme", "Acme Corp employee"]')
        result = deep(store, llm).search("Who do I know at Acme?")
        assert result.deep_search_used
        assert result.query_variations == ("Acme", "works at Acme", "Acme Corp employee")
        assert set(result.ids[:2]) == {"a", "b"}

    @pytest.mark.parametrize(
        "query", ["who is it", "related to x", "recently seen", "last week", "similar ones", "before noon"]
    )
    def test_triggers(self, store, query):
        """Deep Search Heuristics: question words, relationship terms, temporal terms, abstract concepts."""
        assert DualRetriever(store).needs_deep_search(query)

    def test_rrf_formula(self, store):
        """RRF Merging: "Documents appearing in multiple lists get higher scores", k = 60."""
        assert DualRetriever(store).merge_rrf(["x", "both"], ["y", "both"], k=60)[0] == "both"

    def test_graceful_degradation(self, store):
        """Requirements 4: "Falls back to fast search if LLM fails"."""
        assert deep(store, FaultyLLM("raises")).search("who?").ids == DualRetriever(store).search("who?").ids

    def test_determinism_under_a_seed(self, store):
        """Consequences: "Same seed produces same query rewrites"."""
        first, second = (deep(store, SimLLM(seed=7)).search("Who is at Acme?") for _ in range(2))
        assert first.query_variations == second.query_variations
        assert first.ids == second.ids

    def test_deep_search_can_be_turned_off(self, store):
        """Consequences: "`deep_search=False` for fast-only mode"."""
        assert not deep(store, FaultyLLM("raises")).search("who?", deep_search=False).degraded

    def test_signature(self):
        """API Design: `search(query, *, limit=10, deep_search=True, time_range=None)`."""
        parameters = inspect.signature(DualRetriever.search).parameters
        assert [parameters[name].default for name in ("limit", "deep_search", "time_range")] == [10, True, None]


class TestADR015:
    def test_constants(self):
        """Constants: results 1..100, default 10; query at most 10,000 bytes; at most 3 rewrites; RRF k 60."""
        assert (LIMIT_MAX, QUERY_BYTES_MAX) == (100, 10_000)

    def test_errors(self, store):
        """Error Types: EmptyQuery, QueryTooLong, InvalidLimit."""
        umi = DualRetriever(store)
        for error, arguments in (
            (EmptyQuery, {"query": ""}),
            (QueryTooLong, {"query": "x" * 10_001}),
            (InvalidLimit, {"query": "x", "limit": 0}),
            (InvalidLimit, {"query": "x", "limit": 101}),
        ):
            with pytest.raises(error):
                umi.search(**arguments)

    def test_llm_errors_are_not_propagated(self, store):
        """Error Types: "LLM errors are NOT propagated - we degrade gracefully instead"."""
        assert deep(store, FaultyLLM("raises")).rewrite_query("who?") == ["who?"]

    def test_at_most_three_variations(self, store):
        """Constants: RETRIEVAL_QUERY_REWRITE_COUNT_MAX = 3."""
        llm = ScriptedLLM(lambda prompt: '["one", "two", "three", "four"]')
        assert deep(store, llm).search("who?").query_variations == ("one", "two", "three")

    def test_prompt(self, store):
        """Query Rewrite Prompt, word for word."""
        prompts = []
        deep(store, lambda prompt: prompts.append(prompt) or "[]").search("Who is at Acme?")
        assert prompts == [REWRITE_TEMPLATE.replace("{query}", "Who is at Acme?")]
        assert REWRITE_TEMPLATE.startswith("Rewrite this search query into 2-3 variations that would help find")
        assert REWRITE_TEMPLATE.endswith("Only return the JSON array, nothing else.")

    def test_merge_rrf_ties_fall_to_the_smaller_id(self, store):
        """RRF Algorithm; the ties are ours: equal inputs give equal outputs."""
        assert DualRetriever(store).merge_rrf(["b"], ["a"]) == ["a", "b"]
