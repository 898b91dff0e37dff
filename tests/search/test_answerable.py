"""Whether the store holds an answer at all: `Hit.relevance`, `SearchResult.answerable`, `min_relevance`."""

from __future__ import annotations

import numpy as np
import pytest

from umi_common.config import UmiConfig
from umi_common.errors import ConfigError
from umi_common.pool import Pool
from umi_common.retriever import DualRetriever
from umi_common.search.extra_arms import Arm
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

ROOFS = [
    Chunk("a", "The roof of the barn is covered with red tiles."),
    Chunk("b", "A flat roof needs a slope of two percent so that rain runs off."),
    Chunk("c", "Slate roofs last for more than a hundred years."),
]
QUESTIONS = ("How long do slate roofs last?", "what slope does a flat roof need", "which tiles are on the barn")


@pytest.fixture(scope="module")
def store():
    with HybridStore.open() as store:
        store.add(ROOFS)
        yield store


@pytest.mark.parametrize("strategy", ["hybrid", "text", "vector"])
def test_quantum_chromodynamics_over_three_texts_about_roofs_is_not_answerable(store, strategy):
    result = DualRetriever(store).search("quantum chromodynamics", strategy=strategy)
    assert result.answerable is False
    assert all(hit.relevance < 0.01 for hit in result)


@pytest.mark.parametrize("strategy", ["hybrid", "vector"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_one_of_three_texts_answers_is_answerable(store, question, strategy):
    assert DualRetriever(store).search(question, strategy=strategy).answerable is True


@pytest.mark.parametrize("question", QUESTIONS)
def test_words_alone_tell_a_question_about_roofs_from_one_about_bread(store, question):
    umi = DualRetriever(store)
    foreign = umi.search("the price of bread in Paris", strategy="text")
    assert umi.search(question, strategy="text")[0].relevance > foreign[0].relevance


def test_nothing_found_is_not_answerable(store):
    assert DualRetriever(store).search("roof", where={"year": 1900}).answerable is False


def test_min_relevance_leaves_out_the_hits_below_it_and_says_so(store):
    umi = DualRetriever(store)
    free = umi.search(QUESTIONS[0])
    result = umi.search(QUESTIONS[0], min_relevance=0.05)
    assert (free.ids, result.ids) == (["c", "b", "a"], ["c"])
    assert [(left_out.id, left_out.reason) for left_out in result.suppressed] == [
        ("b", "relevance"),
        ("a", "relevance"),
    ]
    assert umi.search("quantum chromodynamics", min_relevance=0.05).ids == []
    assert umi.get_context("quantum chromodynamics", min_relevance=0.05).text == ""


async def test_the_setting_holds_for_every_search_and_an_argument_goes_before_it(store):
    umi = DualRetriever(store, config=UmiConfig().replaced(relevance={"minimum": 0.05}))
    assert umi.search(QUESTIONS[0]).ids == (await umi.asearch(QUESTIONS[0])).ids == ["c"]
    assert len(umi.search(QUESTIONS[0], min_relevance=0.0)) == 3
    assert [result.ids for result in umi.search_many(QUESTIONS, min_relevance=0.05)] == [["c"], ["b"], ["a"]]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), "high", True])
def test_a_min_relevance_out_of_range_is_refused(store, wrong):
    with pytest.raises(ConfigError, match="min_relevance"):
        DualRetriever(store).search("roof", min_relevance=wrong)


class WithoutBound:
    """A store of one's own that answers with the lexical arm alone and does not say how large a score could be."""

    def recall(self, probes, **options):
        return Pool.of(["a", "b"], lexical=np.array([[3.0, 1.0]]), lexical_bound=np.zeros(1))

    def get(self, ids):
        chunks = {chunk.id: chunk for chunk in ROOFS}
        return [chunks.get(id) for id in ids]

    def neighbours(self, ids, *, reach, where=None):
        return {}


def test_a_threshold_that_cannot_be_evaluated_raises():
    umi = DualRetriever(WithoutBound())
    result = umi.search("roof")
    assert (result.answerable, [hit.relevance for hit in result]) == (None, [None, None])
    with pytest.raises(ConfigError, match=r"relevance is not known.*Pool\.lexical_bound"):
        umi.search("roof", min_relevance=0.1)


def test_relevance_falls_along_the_result_after_a_reranker_and_after_mmr(store):
    def shortest_first(query, texts):
        return [-float(len(text)) for text in texts]

    plain = DualRetriever(store).search(QUESTIONS[0])
    for umi in (
        DualRetriever(store, reranker=shortest_first),
        DualRetriever(store, config=UmiConfig().replaced(mmr={"enabled": True})),
        DualRetriever(store, config=UmiConfig().replaced(fusion={"method": "rrf"})),
        DualRetriever(store, config=UmiConfig().replaced(decay={"half_life_hours": 24.0})),
    ):
        relevances = [hit.relevance for hit in umi.search(QUESTIONS[0])]
        assert relevances == sorted(relevances, reverse=True)
        assert relevances[0] == pytest.approx(plain[0].relevance)


def test_an_extra_arm_makes_foreign_matter_no_more_relevant(store):
    def web(query, k, where, window):
        return [(Chunk("w", "Quarks carry colour charge."), 0.9)]

    result = DualRetriever(store, arms=[Arm("web", web)]).search("quantum chromodynamics")
    assert "w" in result.ids
    assert result.answerable is False


def test_a_variation_of_the_query_counts_as_the_query_does(store):
    asked = UmiConfig().replaced(routing={"mode": "always"})
    deep = DualRetriever(store, rewriter=lambda prompt: f'["{QUESTIONS[0]}"]', config=asked)
    alone = [DualRetriever(store).search(query)[0].relevance for query in ("quantum chromodynamics", QUESTIONS[0])]
    assert alone[0] < deep.search("quantum chromodynamics")[0].relevance < alone[1]


@pytest.mark.parametrize("question", QUESTIONS)
def test_fusion_by_ranks_tells_the_right_text_from_the_others(store, question):
    found = DualRetriever(store, config=UmiConfig().replaced(fusion={"method": "rrf"})).search(question)
    first, *others = [hit.relevance for hit in found]
    assert found.answerable and all(other < first / 4 for other in others)


def test_fusion_by_ranks_of_an_extra_arm_alone_has_relevances_of_the_stores_evidence(store):
    off = UmiConfig().replaced(fusion={"method": "rrf", "lexical_weight": 0.0, "dense_weight": 0.0})
    arm = Arm("titles", lambda query, k, where, window: [(ROOFS[1], 1.0)])
    found = DualRetriever(store, config=off, arms=[arm]).search("what slope does a flat roof need")
    assert found.ids[0] == "b" and found[0].relevance > 0.3
