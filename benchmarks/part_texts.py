"""Is the synthetic text like real text? Ties among BM25 scores, lengths and vocabulary, beside real sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.corpus import make_corpus, word
from benchmarks.harness import Plan, Row
from benchmarks.oracle import tied_at
from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex

WHAT = "texts and ties"
SIZES = (0,)
DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
SETS = ("scifact", "cosqa")
QUESTIONS = 100
SYNTHETIC = 5_000
EQUAL_WORDS, EQUAL_VOCABULARY = 43, 20_000
"""Words of every chunk of plain Zipf text, and distinct words of all chunks."""


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a set: mean chunks with exactly the score of the 10th and of the 200th, words a chunk, distinct words."""
    corpus = make_corpus(SYNTHETIC)
    rows = [_row("synthetic", corpus.texts(), [text for text, _ in corpus.questions(QUESTIONS)])]
    rows.append(_row("plain Zipf, equal lengths", *_plain()))
    for name in SETS:
        if not (DATA / name / "corpus.jsonl").exists():
            rows.append({"what": WHAT, "size": None, "system": name, "skipped": "the evaluation data is not there"})
            continue
        documents = _lines(DATA / name / "corpus.jsonl")
        texts = [f"{each.get('title', '')} {each['text']}".strip() for each in documents]
        asked = [each["text"] for each in _lines(DATA / name / "queries.jsonl")[:QUESTIONS]]
        rows.append(_row(name, texts, asked))
    return rows


def _plain() -> tuple[list[str], list[str]]:
    random = np.random.default_rng(3)
    weights = 1.0 / np.arange(1, EQUAL_VOCABULARY + 1)
    drawn = random.choice(EQUAL_VOCABULARY, size=(SYNTHETIC, EQUAL_WORDS), p=weights / weights.sum())
    texts = [" ".join(word(number) for number in row) for row in drawn.tolist()]
    asked = [random.choice(np.unique(row), size=5, replace=False).tolist() for row in drawn[:QUESTIONS]]
    return texts, [" ".join(map(word, numbers)) for numbers in asked]


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _row(name: str, texts: Sequence[str], questions: Sequence[str]) -> Row:
    analyzer = Analyzer(AnalyzerConfig())
    index = LexicalIndex(analyzer)
    index.update(range(len(texts)), texts, [-1] * len(texts))
    scored = index.score(questions, np.arange(len(texts)), config=LexicalConfig()).lexical
    words = [analyzer.terms(text) for text in texts]
    return {
        "what": WHAT,
        "size": None,
        "system": name,
        "chunks": len(texts),
        "words": float(np.mean([len(each) for each in words])),
        "distinct": len({word for each in words for word in each}),
        "tied_at_10": float(np.mean([tied_at(scores, 10) for scores in scored])),
        "tied_at_200": float(np.mean([tied_at(scores, 200) for scores in scored])),
    }
