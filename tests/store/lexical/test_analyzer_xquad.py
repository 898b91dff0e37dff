"""Languages: BM25 over xquad with umi's analyzer finds at least as much as bm25s with the right stemmer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import bm25s
import numpy as np
import pytest
import Stemmer

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex

XQUAD = Path(__file__).parents[3] / ".." / "shared" / "data" / "xquad"
STEMMERS = {
    "ar": "arabic", "de": "german", "el": "greek", "en": "english", "es": "spanish", "hi": "hindi",
    "ro": "romanian", "ru": "russian", "th": None, "tr": "turkish", "vi": None, "zh": None,
}  # fmt: skip
"""None: Snowball has none; Thai and Chinese are compared with character bigrams."""
QUICK = ["en", "hi", "zh"]


@pytest.mark.parametrize(
    "language", [pytest.param(code, marks=[] if code in QUICK else pytest.mark.slow) for code in STEMMERS]
)
def test_first_place_at_least_as_often_as_bm25s(language: str):
    if not XQUAD.is_dir():
        pytest.skip("../shared/data/xquad is not there")
    passages, questions, answers = _read(XQUAD / language)
    assert _ours(language, passages, questions, answers) >= _bm25s(language, passages, questions, answers)


def _read(folder: Path) -> tuple[list[str], list[str], list[int]]:
    """Texts of the passages, of the questions, and the place of the passage that answers each question."""
    passages = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    questions = {
        q["_id"]: q["text"] for q in map(json.loads, (folder / "queries.jsonl").read_text("utf-8").splitlines())
    }
    place = {passage["_id"]: i for i, passage in enumerate(passages)}
    pairs = [line.split("\t") for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]]
    return [p["text"] for p in passages], [questions[pair[0]] for pair in pairs], [place[pair[1]] for pair in pairs]


def _ours(language: str, passages: list[str], questions: list[str], answers: list[int]) -> float:
    index = LexicalIndex(Analyzer(AnalyzerConfig(language=STEMMERS[language] or "english")))
    index.update(range(len(passages)), passages, [-1] * len(passages))
    found = index.search(questions, k=1, config=LexicalConfig(function_word_weight=1.0), id_of="{:03d}".format)
    return float(np.mean([ranking.rows.tolist() == [right] for ranking, right in zip(found, answers, strict=True)]))


def _bm25s(language: str, passages: list[str], questions: list[str], answers: list[int]) -> float:
    model = bm25s.BM25()
    model.index(_tokens(language, passages), show_progress=False)
    tops = [int(np.argmax(model.get_scores(tokens))) if tokens else -1 for tokens in _tokens(language, questions)]
    return float(np.mean(np.array(tops) == answers))


def _tokens(language: str, texts: list[str]) -> list[list[str]]:
    if language in ("th", "zh"):
        return [[gram for run in re.findall(r"\w+", text.lower()) for gram in _bigrams(run)] for text in texts]
    name = STEMMERS[language]
    stemmer = None if name is None else Stemmer.Stemmer(name)
    return bm25s.tokenize(texts, stopwords=None, stemmer=stemmer, return_ids=False, show_progress=False)


def _bigrams(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
