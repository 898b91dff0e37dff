"""The share of LoCoMo's gold evidence that is left after a search's hits are packed into a budget."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.part_context import ENCODING, stated_encoding
from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_common.types import Hit


def survival(data: Path, *, totals: Sequence[int], limit: int = 100) -> dict[str, Any]:
    """Mean share of a question's gold turns that is in the context, over LoCoMo dev."""
    from umi_common.evaluation import load_conversations, load_vectors

    if not (data / "locomo").is_dir():
        print(f"locomo: the evaluation data is not there ({data}); nothing measured")
        return {}
    stated_encoding()
    found: list[tuple[list[Hit], frozenset[str]]] = []
    for dataset in load_conversations(data / "locomo"):
        embedder = load_vectors(data / "vectors" / "minilm" / "locomo" / f"{dataset.group}.npz", dataset)
        found += searched(dataset, embedder, limit)
    results = {}
    for total in totals:
        for name, policy in (("umi", AssemblyPolicy()), ("umi, by density", AssemblyPolicy(pack="density"))):
            results[f"{name}, {total}"] = survived(found, TokenBudget(max_total=total), policy)
        results[f"top-k cut, {total}"] = {
            "gold": statistics.fmean(cut_share(hits, gold, total) for hits, gold in found)
        }
    for name, figures in results.items():
        print(f"  {name:28}", "  ".join(f"{key} {value:.4f}" for key, value in figures.items()))
    return results


def searched(dataset: Any, embedder: Any, limit: int) -> list[tuple[list[Hit], frozenset[str]]]:
    """umi's hits for every question of a conversation, and the gold turns."""
    from umi_common import DualRetriever, HybridStore

    with HybridStore.open(embedder=embedder) as store:
        store.add(dataset.chunks)
        umi = DualRetriever(store)
        return [
            (list(umi.search(query.text, limit=limit, now=query.now).hits), frozenset(dataset.relevant(query.id)))
            for query in dataset.judged
        ]


def survived(
    found: Sequence[tuple[list[Hit], frozenset[str]]], budget: TokenBudget, policy: AssemblyPolicy
) -> dict[str, float]:
    """Number of gold turns in the context, and in equally many best hits."""
    in_context, in_top = [], []
    for hits, gold in found:
        ids = assemble(hits, budget=budget, policy=policy, counter=ENCODING).ids
        in_context.append(len(gold & set(ids)) / len(gold))
        in_top.append(len(gold & {hit.chunk.id for hit in hits[: len(ids)]}) / len(gold))
    gold_share, top_share = statistics.fmean(in_context), statistics.fmean(in_top)
    return {"gold": gold_share, "in as many top hits": top_share, "ratio": gold_share / top_share}


def cut_share(found: Sequence[Hit], gold: frozenset[str], total: int) -> float:
    """Number of gold turns in the best hits up to the first that does not fit; bare texts, a line each, no citation."""
    counter, tokens, kept = counter_for(ENCODING), 0, set()
    for hit in found:
        tokens += counter.count(hit.chunk.text) + 1
        if tokens > total:
            break
        kept.add(hit.chunk.id)
    return len(gold & kept) / len(gold)
