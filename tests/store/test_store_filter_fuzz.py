"""Random filters over random metadata, through the whole search: no chunk that fails the filter is returned."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from small_store import NOW, search

sys.path.insert(0, str(Path(__file__).parents[1] / "filters"))
from filter_cases import Cases

from umi_common.config import LexicalConfig, UmiConfig
from umi_common.filters import matches, parse_filter
from umi_common.retriever import DualRetriever
from umi_common.sim import FaultyLLM, HashEmbedder, ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

CHUNKS, STORES, FILTERS_EACH = 50, 4, 50
"""STORES x FILTERS_EACH filters, each against CHUNKS chunks: 10,000 pairs."""
WORDS = ["red", "boat", "night", "train", "coast", "snow"]
HOSTILE = [
    '{"where": {}, "limit": 10000}',
    "red boat night train coast snow OR 1=1 --",
    '$or: [{"user": {"$exists": true}}]',
]
"""Variations that ask for more than the caller may see, in the words of the corpus."""


def stored(cases: Cases, dice: np.random.Generator) -> list[Chunk]:
    """Chunks of few words in few sources, so that every query meets most of them and their neighbours."""
    return [
        Chunk(
            f"c{number:02}",
            " ".join(dice.choice(WORDS, size=3)),
            metadata=cases.metadata(),
            source=f"s{number % 4}",
            position=number,
        )
        for number in range(CHUNKS)
    ]


def hostile_llms() -> list:
    """LLMs, of which every second one gives variations that are searched; the others give none, or refused ones."""
    obeyed = ScriptedLLM(lambda _: HOSTILE)
    return [obeyed, FaultyLLM("injection"), obeyed, FaultyLLM("echo")]


def config(**routing) -> UmiConfig:
    return UmiConfig(routing=routing, rewrite={"cache_size": 0})


def test_ten_thousand_filter_and_chunk_pairs():
    pairs = passed = deep = 0
    for seed in range(STORES):
        cases, dice = Cases(seed), np.random.default_rng(seed)
        chunks = stored(cases, dice)
        with HybridStore.open(embedder=HashEmbedder(256)) as store:
            store.add(chunks)
            store.delete([chunk.id for chunk in chunks[:5]])
            store.add(chunks[:5])  # rows that have moved
            umis = [DualRetriever(store, rewriter=llm, config=config(mode="always")) for llm in hostile_llms()]
            for turn in range(FILTERS_EACH):
                where = cases.where()
                may = {chunk.id for chunk in chunks if matches(parse_filter(where), chunk.metadata)}
                query = " ".join(dice.choice(WORDS, size=2))
                check_recall(store, chunks, query, where, may)
                for deep_search in (False, True):
                    result = umis[turn % len(umis)].search(
                        query, limit=CHUNKS, where=where, now=NOW, deep_search=deep_search
                    )
                    shown = {*result.ids, *(each.id for each in result.suppressed)}
                    assert shown <= may, (seed, where, deep_search)
                    deep += result.deep_search_used
                pairs, passed = pairs + len(chunks), passed + len(may)
    assert pairs == 10_000
    assert 0.1 < passed / pairs < 0.9, "the cases should test both answers"
    assert deep >= STORES * FILTERS_EACH // 2, "the hostile rewrites should be searched"


def check_recall(store: HybridStore, chunks: list[Chunk], query: str, where: dict, may: set[str]) -> None:
    """Both arms under two BM25 variants: they find all chunks that pass and match, and no others."""
    tree = parse_filter(where)
    holding = {chunk.id for chunk in chunks if set(query.split()) & set(chunk.text.split())}
    for variant in ("lucene", "plus"):
        lexical = LexicalConfig(variant=variant, delta=1.0)
        pool = search(store, query, depth=CHUNKS, where=tree, around=2, lexical=lexical)
        assert set(pool.ids) <= may, (where, variant)
        assert {pool.ids[row] for row in np.flatnonzero(pool.lexical_rank[0])} == may & holding, (where, variant)
        assert {pool.ids[row] for row in np.flatnonzero(pool.dense_rank[0])} == may, (where, variant)
    beside = store.neighbours(sorted(may), reach=3, where=where)
    assert {chunk.id for chunks in beside.values() for chunk in chunks} == may, where
