"""Real passages and questions of every mix: p50, p95 and the slowest, of umi's hybrid search, its BM25 and tantivy's.

Passages are the dev sets' texts and chats, cut to PASSAGE_WORDS words, each once. No two mixes share a question. Each
question is asked once before it counts and REPEATS times that count; the median counts. Milliseconds are those of the
processor, which all systems spend in one thread: other load on the machine would decide the slowest by the wall clock.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Plan, Row
from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.sim import HashEmbedder

WHAT = "tail, real passages"
SIZES = (10_000, 50_000, 100_000)
DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
QUESTIONS = 200
PASTED = 20
PASTED_BYTES = 2_000
LONG_BYTES = 10_000
PASSAGE_WORDS = 110
DEPTH = 200
"""Best passages that BM25 and tantivy return: as many as the hybrid search asks of each arm."""
REPEATS = 3
BATCH = 10_000
RARE = "zeppelin"
"""A word that three chunks get."""
COMMON = (f"what is the {RARE}", f"how did they get it to be a {RARE}", f"who was in the {RARE} and what did he do")
FUNCTION_WORDS = ("to be or not to be", "what is it that you did", "who are they and why")

Ask = Callable[[str], Any]


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row for each mix and system."""
    if not DATA.is_dir():
        return [{"what": WHAT, "size": size, "system": "umi", "skipped": "the evaluation data is not there"}]
    random = np.random.default_rng(8)
    passages = list(dict.fromkeys(_passages()))
    texts = [passages[at] for at in random.permutation(len(passages))[:size].tolist()]
    texts = [f"{text} {RARE}" if row % (len(texts) // 3) == 7 else text for row, text in enumerate(texts)]
    mixes = _mixes(texts, random)
    with HybridStore.open(embedder=HashEmbedder()) as store:
        for start in range(0, len(texts), BATCH):
            store.add([Chunk(f"{start + at:07d}", text) for at, text in enumerate(texts[start : start + BATCH])])
        say(f"store filled with {len(texts)} passages")
        retriever = DualRetriever(store)
        systems: dict[str, Ask] = {
            "umi, hybrid": retriever.search,
            f"umi, BM25, {DEPTH} best": lambda question: store.search_lexical(question, k=DEPTH),
        }
        try:
            systems[f"tantivy, {DEPTH} best"] = _tantivy(texts)
        except ModuleNotFoundError:
            say("tantivy is not installed")
        return [
            {"what": WHAT, "size": size, "system": f"{mix}: {name}", **_figures(ask, questions)}
            for mix, questions in mixes.items()
            for name, ask in systems.items()
        ]


def _mixes(texts: Sequence[str], random: np.random.Generator) -> Mapping[str, Sequence[str]]:
    questions = list(dict.fromkeys(_lines("queries.jsonl")))
    asked = [questions[at] for at in random.choice(len(questions), QUESTIONS, replace=False).tolist()]

    def pasted(size: int) -> list[str]:
        drawn = random.choice(len(texts), (PASTED, 200))
        return [" ".join(texts[row] for row in rows).encode()[:size].decode(errors="ignore") for rows in drawn.tolist()]

    return {
        "questions": asked,
        "questions, a tenth pasted text of 2,000 bytes": [*asked[PASTED:], *pasted(PASTED_BYTES)],
        "pasted text of 10,000 bytes": pasted(LONG_BYTES),
        "common words and a rare one": COMMON,
        "function words alone": FUNCTION_WORDS,
    }


def _figures(ask: Ask, questions: Sequence[str]) -> Row:
    for question in questions:
        ask(question)
    times = np.median([[_milliseconds(ask, question) for question in questions] for _ in range(REPEATS)], axis=0)
    p50, p95 = np.quantile(times, (0.5, 0.95)).tolist()
    return {"p50_ms": p50, "p95_ms": p95, "max_ms": float(times.max())}


def _milliseconds(ask: Ask, question: str) -> float:
    begun = time.process_time()
    ask(question)
    return (time.process_time() - begun) * 1e3


def _tantivy(texts: Sequence[str]) -> Ask:
    """The best of a question's words in an index in memory; the documents are not read. Raises ModuleNotFoundError."""
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="en_stem", index_option="freq")
    index = tantivy.Index(schema.build())
    writer = index.writer(heap_size=256_000_000, num_threads=1)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(question: str) -> Any:
        words = " ".join(re.findall(r"[^\W_]+", question.lower()))
        return searcher.search(index.parse_query(words, ["text"]), DEPTH, count=False).hits

    return ask


def _passages() -> Iterator[str]:
    """All texts, cut to PASSAGE_WORDS words."""
    for text in chain(_lines("corpus.jsonl"), _turns()):
        words = iter(text.split())
        while passage := " ".join(islice(words, PASSAGE_WORDS)):
            yield passage


def _turns() -> Iterator[str]:
    for path in sorted(DATA.rglob("haystacks/*.json.gz")):
        for session in json.loads(gzip.decompress(path.read_bytes()))["sessions"]:
            yield from (turn["content"] for turn in session)


def _lines(name: str) -> Iterator[str]:
    """The texts of all files of a name, in the order of their paths; those in English."""
    for path in sorted(DATA.rglob(name)):
        if "xquad" not in path.parts:
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if text := f"{record.get('title') or ''} {record['text']}".strip():
                    yield text
