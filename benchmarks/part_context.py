"""Packing hits into a budget: umi beside the nearest function of each framework.

15 chunks of 4 sources, and 200 chunks of 400 tokens into 8,000; seeded text, cl100k_base throughout; "cold" counts
every text anew, "warm" finds the chunks' counts in memory. Every timed answer is checked: tokens recounted over the
finished text, caps, spans. LangChain: `trim_messages(strategy="first")`. LlamaIndex: the first prompt of
`PromptHelper.repack`, and `PromptHelper.truncate`. Neither deduplicates, cites, keeps order by source or reports.
Whether the evidence survives the budget: `python -m benchmarks.context_survival`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Plan, Row, alternated, timing
from umi_common.context.assemble import assemble
from umi_common.context.budget import AssembledContext, TokenBudget
from umi_common.context.tokens.counter import Counter, counter_for
from umi_common.types import Chunk, Hit

SIZES = (0,)
"""Nothing here depends on the number of chunks in a store."""
ENCODING = "cl100k_base"
SEED = 20
WORDS = (  # noqa: SIM905 - a sentence reads better than a list of 40 strings
    "the a of to in and that it was for on with as at by from they said we went house market boiler roof river price "
    "Monday June 300 1,250 cousin mortgage canal because however slowly yesterday agreement, report; survey. result. "
).split()
CASES = {
    "context, 15 chunks of 4 sources": (15, 100, 4, TokenBudget()),
    "context, 200 chunks of 400 tokens": (200, 400, 20, TokenBudget(max_total=8_000)),
}
REPEATS = 20


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a system of each case, with what it kept."""
    return [row for what, case in CASES.items() for row in _case(what, *case, plan, say)]


def _case(
    what: str, chunks: int, tokens: int, sources: int, budget: TokenBudget, plan: Plan, say: Callable[[str], None]
) -> list[Row]:
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
    rows: list[Row] = []
    kept: dict[str, Row] = {}
    for name, system in systems.items():
        try:
            answer = system()
        except ModuleNotFoundError as error:
            rows.append({"what": what, "size": None, "system": name, "skipped": f"{error.name} is not installed"})
            say(f"{name}: left out, {error.name} is not installed")
            continue
        ours = isinstance(answer, AssembledContext)
        kept[name] = check_umi(answer, found, budget) if ours else check_peer(answer, texts, total)
    spent = alternated({name: systems[name] for name in kept}, rounds=plan.rounds, repeats=REPEATS)
    rows += [
        {"what": what, "size": None, "system": name, **timing(rounds), **kept[name]} for name, rounds in spent.items()
    ]
    return rows


def hits(chunks: int, tokens: int, sources: int) -> list[Hit]:
    """Seeded chunks of about so many tokens, spread over sources, at positions that do not touch."""
    chance = random.Random(SEED)
    encoding = stated_encoding()
    found = []
    for i in range(chunks):
        ids = encoding.encode_ordinary(" ".join(chance.choices(WORDS, k=tokens)))[:tokens]
        chunk = Chunk(f"c{i:03}", encoding.decode(ids), source=f"doc-{chance.randrange(sources)}", position=i * 2)
        found.append(Hit(chunk, 1.0 - i / chunks, i + 1))
    return found


def stated_encoding() -> Any:
    """tiktoken's `ENCODING`, from the copy in llama-index-core where tiktoken's own cache is not set."""
    import llama_index.core
    import tiktoken

    copies = Path(llama_index.core.__file__).parent / "_static" / "tiktoken_cache"
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(copies))
    return tiktoken.get_encoding(ENCODING)


def fresh_counter() -> Counter:
    """A new counter with an empty cache."""
    known = counter_for(ENCODING)
    return Counter(known.measure, known.name, exceeds=known.surely_exceeds)


def langchain_trim(texts: Sequence[str], total: int) -> Callable[[], list[str]]:
    """The nearest function in langchain-core: drop messages from the end until the rest fits."""

    def trim() -> list[str]:
        from langchain_core.messages import HumanMessage, trim_messages

        count = stated_encoding().encode_ordinary
        kept = trim_messages(
            [HumanMessage(text) for text in texts],
            max_tokens=total,
            token_counter=lambda messages: sum(len(count(str(message.content))) for message in messages),
            strategy="first",
        )
        return [str(message.content) for message in kept]

    return trim


def llamaindex_helper(total: int) -> Any:
    """A PromptHelper that gives all of `total` to the context."""
    from llama_index.core import PromptTemplate
    from llama_index.core.indices.prompt_helper import PromptHelper

    helper = PromptHelper(
        context_window=total + 1,
        num_output=0,
        chunk_overlap_ratio=0.0,
        tokenizer=stated_encoding().encode_ordinary,
    )
    return helper, PromptTemplate("{context_str}")


def llamaindex_repack(texts: Sequence[str], total: int) -> Callable[[], list[str]]:
    """The text of the first LLM call of a compacting synthesizer."""

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


def check_umi(context: AssembledContext, found: Sequence[Hit], budget: TokenBudget) -> dict[str, Any]:
    """Check umi's promises by counting the tokens of the finished text again."""
    count = stated_encoding().encode_ordinary
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
    """Tokens of the result as it would stand in a prompt, without citations and sources."""
    joined = "\n\n".join(kept)
    whole = sum(text.strip() in joined for text in texts)
    begun = sum(text[:40].strip() in joined for text in texts)
    tokens = len(stated_encoding().encode_ordinary(joined))
    return {"tokens": tokens, "of": total, "chunks": begun, "chunks cut": begun - whole}
