"""The share of the right answers that is left after a search's hits are packed into a budget: of LoCoMo's gold
evidence, and of XQuAD's answers amid long texts."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.part_context import ENCODING, stated_encoding
from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_common.search.passages import passage_finder
from umi_common.types import Chunk, Hit

PARAGRAPHS = 12
"""Number of XQuAD's paragraphs that are joined to one long text, about 9,400 characters in English."""
EVERY = 12
"""Every so many questions of XQuAD are asked."""


def survival(data: Path, *, totals: Sequence[int], limit: int = 100) -> dict[str, Any]:
    """Mean share of a question's gold turns that is in the context, over LoCoMo dev."""
    from benchmarks.quality_sets import load_vectors
    from umi_common.evaluation import load_conversations

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


def answers_in_long_texts(data: Path, language: str, *, totals: Sequence[int]) -> dict[str, Any]:
    """Share of XQuAD's questions whose answer is in the context of ten long texts, by budget: texts cut to their
    beginning, and around the passage that answers."""
    from umi_common import DualRetriever, HybridStore

    folder = data / "xquad" / language
    if not folder.is_dir():
        return {}
    paragraphs, questions = (
        [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    texts = [
        "\n\n".join(each["text"] for each in paragraphs[at : at + PARAGRAPHS])
        for at in range(0, len(paragraphs), PARAGRAPHS)
    ]
    kept: dict[str, list[bool]] = {}
    with HybridStore.open() as store:
        store.add([Chunk(f"t{at}", text, source=f"t{at}") for at, text in enumerate(texts)])
        umi = DualRetriever(store)
        for question in questions[::EVERY]:
            hits, answers = umi.search(question["text"]).hits, question["metadata"]["answers"]
            for way, passage_of in (
                ("beginning", None),
                ("passage", passage_finder(question["text"])),
            ):
                for total in totals:
                    text = assemble(hits, budget=total, passage_of=passage_of).text
                    kept.setdefault(f"{way}, {language}, {total}", []).append(any(each in text for each in answers))
    return {name: {"answers": statistics.fmean(found)} for name, found in kept.items()}


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
