"""A question in one language finds its answer in another, where the embedder is multilingual."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.embedders import default_embedder
from umi_common.pool import Vectors
from umi_common.protocols import Embedder

XQUAD = Path(__file__).parents[2] / ".." / "shared" / "data" / "xquad"
GERMAN = {
    "Wie werden die Kosten einer Reise abgerechnet?": "How are the expenses of a trip settled?",
    "Die Kosten der Kantine werden am Ende des Monats vom Lohn abgezogen.": "Canteen meals reduce the wage.",
    "Wie die Probezeit verlängert wird, steht im Vertrag.": "The contract tells about the probation period.",
    "Die Heizung wird im Oktober eingeschaltet.": "The heating starts in October.",
}
ENGLISH = [
    "Travel expenses are settled within 14 days after you hand in the receipts of the trip.",
    "The office is closed on public holidays and between the years.",
    "New laptops are ordered by the IT department.",
]


class TranslatingEmbedder:
    """A multilingual model: a text and its translation, if `translations` has one, have the same vector."""

    def __init__(self, embedder: Embedder, translations: Mapping[str, str]) -> None:
        self.name, self.dim = f"translating {embedder.name}", embedder.dim
        self._embedder, self._translations = embedder, translations

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_documents([self._translations.get(text, text) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_queries([self._translations.get(text, text) for text in texts])


def test_a_german_question_finds_the_english_answer_before_german_texts_on_other_subjects():
    question, *german = GERMAN
    with HybridStore.open(embedder=TranslatingEmbedder(default_embedder(), GERMAN)) as store:
        store.add([Chunk(id=text, text=text) for text in (*german, *ENGLISH)])
        with DualRetriever(store) as umi:
            assert umi.search(question).ids[0] == ENGLISH[0]


@pytest.mark.parametrize("language", ["de", "es", "ru", "zh"])
def test_in_a_store_of_two_languages_an_answer_is_found_in_either(language: str):
    """Half of the passages are in English, the other half in the language of the questions."""
    if not XQUAD.is_dir():
        pytest.skip("../shared/data/xquad is not there")
    texts = {each: _texts(XQUAD / each / "corpus.jsonl") for each in ("en", language)}
    questions = {each: _texts(XQUAD / each / "queries.jsonl") for each in ("en", language)}
    answers = dict(
        line.split("\t")[:2] for line in (XQUAD / language / "qrels.tsv").read_text("utf-8").splitlines()[1:]
    )
    english = {id for number, id in enumerate(texts["en"]) if number % 2}
    embedder = TranslatingEmbedder(
        default_embedder(),
        {each[language][id]: each["en"][id] for each in (texts, questions) for id in each["en"]},
    )
    found: dict[tuple[str, bool], list[float]] = {}
    with HybridStore.open(embedder=embedder) as store, DualRetriever(store) as umi:
        store.add([Chunk(id=id, text=texts["en" if id in english else language][id]) for id in texts["en"]])
        for number, (id, question) in enumerate(questions[language].items()):
            if number % 6 == 0:
                for strategy in ("hybrid", "vector"):
                    ids = umi.search(question, limit=10, strategy=strategy).ids
                    reciprocal = 1 / (ids.index(answers[id]) + 1) if answers[id] in ids else 0.0
                    found.setdefault((strategy, answers[id] in english), []).append(reciprocal)
    mrr = {which: float(np.mean(each)) for which, each in found.items()}
    assert mrr["hybrid", True] >= SHARE_MIN * mrr["vector", True], mrr
    assert mrr["hybrid", False] >= mrr["vector", False], mrr


SHARE_MIN = 0.75
"""Smallest share of the mean reciprocal rank of the dense arm alone for answers in the other language."""


def _texts(path: Path) -> dict[str, str]:
    return {each["_id"]: each["text"] for each in map(json.loads, path.read_text("utf-8").splitlines())}


def test_a_question_whose_words_no_note_holds_finds_the_note_in_its_own_language():
    """The built-in model knows little Japanese: its cosines of these notes are chance."""
    notes = [
        "Der Nutzer ist nach Gent umgezogen, Am Markt 7.",
        "Der Nutzer verträgt keine Haselnüsse.",
        "Der Nutzer mag schwarzen Espresso.",
        "Der Nutzer spielt donnerstags Doppelkopf.",
        "Der Nutzer möchte geduzt werden.",
        "El usuario nació el 15 de marzo de 1984.",
        "ユーザーの妹は来年フランスに留学する。",
        "ユーザーはえびアレルギーがある。",
        "ユーザーの猫は7歳で、腎臓の薬を飲んでいる。",
        "ユーザーは毎朝ジョギングをしている。",
    ]
    with HybridStore.open() as store:
        store.add(Chunk(text, text) for text in notes)
        assert DualRetriever(store).search("Wo wohne ich jetzt?").ids[0] == notes[0]
