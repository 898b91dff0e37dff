"""`min_relevance` in LlamaIndex: a question about foreign matter gives an empty list, one about the texts its text."""

from __future__ import annotations

import numpy as np
import pytest
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import TextNode

from umi_common.errors import ConfigError, SearchUnavailable
from umi_common.pool import Pool
from umi_common.types import Chunk
from umi_llamaindex import UmiQuery, UmiRetriever, UmiVectorStore, create_umi_tool

ROOFS = [
    TextNode(id_="barn", text="The roof of the barn is covered with red tiles."),
    TextNode(id_="flat", text="A flat roof needs a slope of two percent so that rain runs off."),
    TextNode(id_="slate", text="Slate roofs last for more than a hundred years."),
]
FOREIGN = "quantum chromodynamics"
QUESTIONS = {
    "How long do slate roofs last?": "slate",
    "what slope does a flat roof need": "flat",
    "which tiles are on the barn": "barn",
}


@pytest.fixture(scope="module")
def strict():
    retriever = UmiRetriever.from_nodes(ROOFS, min_relevance=0.1)
    yield retriever
    retriever.close()


async def test_foreign_matter_finds_nothing_and_a_question_about_roofs_its_text(strict):
    assert strict.retrieve(FOREIGN) == await strict.aretrieve(FOREIGN) == []
    for question, right in QUESTIONS.items():
        assert strict.retrieve(question)[0].node_id == right
        assert (await strict.aretrieve(question))[0].node_id == right


def test_a_query_goes_before_the_retriever_and_zero_leaves_nothing_out(strict):
    assert len(strict.retrieve(UmiQuery(FOREIGN, min_relevance=0))) == len(ROOFS)
    plain = UmiRetriever(strict.umi)
    assert len(plain.retrieve(FOREIGN)) == len(ROOFS)
    assert plain.retrieve(UmiQuery(FOREIGN, min_relevance=0.1)) == []


def test_a_vector_stores_retriever_and_a_tool_find_nothing_about_foreign_matter(strict):
    store = UmiVectorStore()
    store.add(ROOFS)
    assert store.retriever(min_relevance=0.1).retrieve(FOREIGN) == []
    store.close()
    output = create_umi_tool(strict).call(query=FOREIGN)
    assert output.raw_output == []
    assert "roof" not in output.content


def test_a_similarity_postprocessor_cuts_by_relevance_where_it_is_the_nodes_score(strict):
    question = "How long do slate roofs last?"
    cutoff = SimilarityPostprocessor(similarity_cutoff=0.1)
    by_score, by_relevance = UmiRetriever(strict.umi), UmiRetriever(strict.umi, score="relevance")
    assert len(cutoff.postprocess_nodes(by_score.retrieve(FOREIGN))) > 0  # the best has the score 1 for any query
    assert cutoff.postprocess_nodes(by_relevance.retrieve(FOREIGN)) == []
    assert cutoff.postprocess_nodes(by_relevance.retrieve(question))[0].node_id == "slate"
    found = by_relevance.retrieve(question)
    assert [item.score for item in found] == [hit.relevance for hit in strict.umi.search(question)]
    assert [item.node_id for item in found] == [item.node_id for item in by_score.retrieve(question)]
    assert create_umi_tool(by_relevance).call(query=question).raw_output[0].score == found[0].score


@pytest.mark.parametrize("wrong", [-0.1, 1.5, "high", True])
def test_a_minimum_out_of_range_is_refused_where_it_is_given(strict, wrong):
    with pytest.raises(ConfigError, match="min_relevance"):
        UmiRetriever(strict.umi, min_relevance=wrong)
    with pytest.raises(ConfigError, match="min_relevance"):
        strict.retrieve(UmiQuery("roof", min_relevance=wrong))


def test_a_misspelt_option_and_an_unknown_score_are_refused(strict):
    with pytest.raises(ConfigError, match="min_relevance"):
        UmiRetriever.from_nodes(ROOFS, min_relevence=0.1)
    with pytest.raises(ConfigError, match="'score' or 'relevance'"):
        UmiRetriever(strict.umi, score="cosine")


class WithoutBound:
    """A store of one's own that answers with the lexical arm alone and does not say how large a score could be."""

    def recall(self, probes, **options):
        return Pool.of(["barn"], lexical=np.array([[3.0]]), lexical_bound=np.zeros(1))

    def get(self, ids):
        return [Chunk(id, "The roof of the barn is covered with red tiles.") for id in ids]

    def neighbours(self, ids, *, reach, where=None):
        return {}


def test_where_the_relevance_is_not_known_a_minimum_and_a_score_by_it_are_errors():
    assert len(UmiRetriever.from_store(WithoutBound()).retrieve("roof")) == 1
    with pytest.raises(ConfigError, match="relevance is not known"):
        UmiRetriever.from_store(WithoutBound(), min_relevance=0.1).retrieve("roof")
    with pytest.raises(SearchUnavailable, match="relevance is not known"):
        UmiRetriever.from_store(WithoutBound(), score="relevance").retrieve("roof")
