"""Does the evidence fit, how fast, and does the answer survive? umi's packing beside what each framework has nearest.

    python benchmarks/bench_context.py [--repeats 50] [--data DIR] [--locomo] [--json FILE]

Speed: 15 chunks of 4 sources, and 200 chunks of 400 tokens into 8,000; seeded text, cl100k_base throughout; "cold"
counts every text anew, "warm" finds the chunks' counts in memory. Every timed answer is checked: tokens recounted over
the finished text, caps, spans. LangChain: `trim_messages(strategy="first")`. LlamaIndex: the first prompt of
`PromptHelper.repack`, and `PromptHelper.truncate`. Neither deduplicates, cites, keeps order by source or reports.

--locomo: share of LoCoMo's gold evidence that survives into 1,000 and 2,000 tokens, beside a plain top-k cut.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from context_survival import survival

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssembledContext, TokenBudget
from umi_common.context.encodings import load_encoding
from umi_common.context.tokens import Counter, counter_for
from umi_common.types import Chunk, Hit

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
ENCODING = "cl100k_base"
SEED = 20
WORDS = (  # noqa: SIM905 - a sentence reads better than a list of 40 strings
    "the a of to in and that it was for on with as at by from they said we went house market boiler roof river price "
    "Monday June 300 1,250 cousin mortgage canal because however slowly yesterday agreement, report; survey. result. "
).split()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for and print a line a system; 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--locomo", action="store_true", help="measure the survival of gold evidence, too")
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args(arguments)
    results: dict[str, Any] = {
        "15 chunks of 4 sources": speed(15, 100, 4, TokenBudget(), options.repeats),
        "200 chunks of 400 tokens into 8,000": speed(
            200, 400, 20, TokenBudget(max_total=8_000, per_source_max=8_000), options.repeats
        ),
    }
    if options.locomo:
        results["locomo"] = survival(options.data, totals=(1_000, 2_000))
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def speed(chunks: int, tokens: int, sources: int, budget: TokenBudget, repeats: int) -> dict[str, Any]:
    """Milliseconds and the checked answer of every system for one size."""
    found = hits(chunks, tokens, sources)
    texts = [hit.chunk.text for hit in found]
    total = budget.available
    systems: dict[str, Callable[[], Any]] = {
        "umi, cold": lambda: assemble(found, budget=budget, counter=fresh_counter()),
        "umi, warm": lambda: assemble(found, budget=budget, counter=ENCODING),
        "LangChain trim_messages": langchain_trim(texts, total),
        "LlamaIndex repack, first prompt": llamaindex_repack(texts, total),
        "LlamaIndex truncate": llamaindex_truncate(texts, total),
    }
    print(f"{chunks} chunks of about {tokens} tokens, {sources} sources, into {total} tokens")
    results = {}
    for name, system in systems.items():
        if (timed := measured(system, repeats)) is None:
            print(f"  {name:34} not installed")
            continue
        answer, times = timed
        kept = (
            check_umi(answer, found, budget)
            if isinstance(answer, AssembledContext)
            else check_peer(answer, texts, total)
        )
        p50, p95 = percentile(times, 50), percentile(times, 95)
        results[name] = {"p50_ms": p50, "p95_ms": p95, "best_ms": min(times), **kept}
        print(f"  {name:32} p50 {p50:8.2f} ms  p95 {p95:8.2f} ms  best {min(times):8.2f} ms  {kept}")
    return results


def hits(chunks: int, tokens: int, sources: int) -> list[Hit]:
    """Seeded chunks of about so many tokens, spread over sources, at positions that do not touch."""
    chance = random.Random(SEED)
    encoding = load_encoding(ENCODING)
    found = []
    for i in range(chunks):
        ids = encoding.encode_ordinary(" ".join(chance.choices(WORDS, k=tokens)))[:tokens]
        chunk = Chunk(f"c{i:03}", encoding.decode(ids), source=f"doc-{chance.randrange(sources)}", position=i * 2)
        found.append(Hit(chunk, 1.0 - i / chunks, i + 1))
    return found


def fresh_counter() -> Counter:
    """A counter that has counted nothing yet."""
    known = counter_for(ENCODING)
    return Counter(known.measure, known.name, exceeds=known.surely_exceeds)


def langchain_trim(texts: Sequence[str], total: int) -> Callable[[], list[str]]:
    """The nearest in langchain-core: drop messages from the end until the rest fits."""

    def trim() -> list[str]:
        from langchain_core.messages import HumanMessage, trim_messages

        count = load_encoding(ENCODING).encode_ordinary
        kept = trim_messages(
            [HumanMessage(text) for text in texts],
            max_tokens=total,
            token_counter=lambda messages: sum(len(count(str(message.content))) for message in messages),
            strategy="first",
        )
        return [str(message.content) for message in kept]

    return trim


def llamaindex_helper(total: int) -> Any:
    """A PromptHelper that leaves all of `total` to the context."""
    from llama_index.core import PromptTemplate
    from llama_index.core.indices.prompt_helper import PromptHelper

    helper = PromptHelper(
        context_window=total + 1,
        num_output=0,
        chunk_overlap_ratio=0.0,
        tokenizer=load_encoding(ENCODING).encode_ordinary,
    )
    return helper, PromptTemplate("{context_str}")


def llamaindex_repack(texts: Sequence[str], total: int) -> Callable[[], list[str]]:
    """What the first LLM call of a compacting synthesizer sees."""

    def repack() -> list[str]:
        helper, prompt = llamaindex_helper(total)
        return list(helper.repack(prompt, list(texts))[:1])

    return repack


def llamaindex_truncate(texts: Sequence[str], total: int) -> Callable[[], list[str]]:
    """All chunks in one call, each cut to an equal share."""

    def truncate() -> list[str]:
        helper, prompt = llamaindex_helper(total)
        return list(helper.truncate(prompt, list(texts)))

    return truncate


def measured(system: Callable[[], Any], repeats: int) -> tuple[Any, list[float]] | None:
    """The answer and the times of a system; None where its package is missing."""
    try:
        answer = system()
    except ImportError:
        return None
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        system()
        times.append((time.perf_counter() - started) * 1e3)
    return answer, times


def check_umi(context: AssembledContext, found: Sequence[Hit], budget: TokenBudget) -> dict[str, Any]:
    """Every promise, recounted from the finished text."""
    count = load_encoding(ENCODING).encode_ordinary
    chunks = {hit.chunk.id: hit.chunk for hit in found}
    tokens = len(count(context.text))
    if tokens != context.stats.tokens or tokens > budget.available:
        raise RuntimeError(f"{tokens} tokens, {context.stats.tokens} stated, {budget.available} allowed")
    for part in context.parts:
        if part.text not in context.text:
            raise RuntimeError(f"part {part.ids} is not shown as it is")
        for span in part.spans:
            if part.text[span.at : span.at + span.end - span.start] != chunks[span.id].text[span.start : span.end]:
                raise RuntimeError(f"span {span} does not point at what is shown")
    cut = sum(part.trimmed for part in context.parts)
    return {"tokens": tokens, "of": budget.available, "chunks": len(context.ids), "chunks cut": cut}


def check_peer(kept: Sequence[str], texts: Sequence[str], total: int) -> dict[str, Any]:
    """What came out, counted as it would stand in a prompt: no citation, no source."""
    joined = "\n\n".join(kept)
    whole = sum(text.strip() in joined for text in texts)
    begun = sum(text[:40].strip() in joined for text in texts)
    tokens = len(load_encoding(ENCODING).encode_ordinary(joined))
    return {"tokens": tokens, "of": total, "chunks": begun, "chunks cut": begun - whole}


def percentile(times: Sequence[float], share: int) -> float:
    """Of at least two times, in their unit."""
    return statistics.quantiles(times, n=100, method="inclusive")[share - 1]


if __name__ == "__main__":
    raise SystemExit(main())
