"""umi's ranking stages behind any LangChain retriever."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, timezone
from pathlib import PurePosixPath

import numpy as np
import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from pytest import approx

from umi_common.errors import ConfigError
from umi_common.sim import HashEmbedder
from umi_langchain import UmiDecay, UmiMMR, UmiNearDuplicates, UmiNeighbours, UmiRetriever
from umi_llamaindex import UmiMMR as LlamaIndexMMR

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
DAY_OLD = (NOW - timedelta(days=1)).isoformat()


def document(id, score=None, text=None, **metadata):
    scored = {} if score is None else {"relevance_score": score}
    return Document(id=id, page_content=text or f"text of {id}", metadata={**metadata, **scored})


def ids(documents):
    return [each.id for each in documents]


def test_a_day_old_document_at_a_half_life_of_a_day_has_fallen_halfway_to_the_floor():
    given = [document("old", 1.0, timestamp=DAY_OLD), document("new", 0.7, timestamp=NOW), document("undated", 0.65)]
    found = UmiDecay(half_life_hours=24, floor=0.2, clock=lambda: NOW).compress_documents(given, "")
    assert ids(found) == ["new", "undated", "old"]
    assert [each.metadata["relevance_score"] for each in found] == approx([0.7, 0.65, 0.6])


def test_a_document_gains_from_those_beside_it_in_its_source():
    given = [
        document("a", 1.0, source="s", position=4),
        document("far", 0.5, source="t", position=4),
        document("alone", 0.5),
        document("beside", 0.45, source="s", position=5),
    ]
    assert ids(UmiNeighbours().compress_documents(given, "")) == ["a", "beside", "far", "alone"]


def test_neighbours_read_source_and_position_as_a_store_does():
    given = [
        document("a", 1.0, source=7, position=4),
        document("list", 0.5, source=["s", "t"], position=5),
        document("vast", 0.48, source="7", position=2**70),
        document("beside", 0.45, source="7", position=5),
    ]
    assert ids(UmiNeighbours().compress_documents(given, "")) == ["a", "beside", "list", "vast"]


def test_a_clock_without_a_time_zone_is_refused_with_what_to_add():
    stage = UmiDecay(half_life_hours=24, clock=lambda: datetime(2026, 11, 1))
    with pytest.raises(ConfigError, match=r"^now 2026-11-01T00:00:00 has no time zone"):
        stage.compress_documents([document("a", timestamp=DAY_OLD)], "")


def test_of_two_that_say_the_same_the_better_stays_and_scores_are_left_alone():
    given = [
        document("b", 0.9, "the fee is 3 euros"),
        document("c", 0.5, "no"),
        document("a", 0.1, "The fee is 3 euros."),
    ]
    assert UmiNearDuplicates(embedding=HashEmbedder()).compress_documents(given, "") == given[:2]


def test_of_near_copies_one_stays_whatever_key_holds_the_score_and_with_reasons_too():
    texts = ["the fee is 3 euros", "the fee is 3 euros now"]
    with UmiRetriever.from_texts(texts, score_key="score", reasons=True) as retriever:
        found = retriever.invoke("the fee")
    stage = UmiNearDuplicates(similarity=0.5, score_key="score")
    assert stage.compress_documents(found, "") == found[:1]


def test_of_near_copies_one_stays_though_their_nested_metadata_have_another_order_or_keys_of_several_types():
    better = Document(page_content="the fee is 3 euros", metadata={"page": {"from": 1, "to": 2}, 1: "x"})
    other = Document(page_content="the fee is 3 euros now", metadata={1: "x", "page": {"to": 2, "from": 1}})
    assert UmiNearDuplicates(similarity=0.5).compress_documents([better, other], "") == [better]


def test_a_stage_reads_and_writes_the_score_under_its_key():
    given = [document("old", score=None, timestamp=DAY_OLD, points=1.0), document("new", timestamp=NOW, points=0.7)]
    found = UmiDecay(half_life_hours=24, score_key="points", clock=lambda: NOW).compress_documents(given, "")
    assert [each.metadata["points"] for each in found] == approx([0.75, 0.7])
    assert all("relevance_score" not in each.metadata for each in found)


def test_mmr_chooses_as_in_llamaindex():
    from llama_index.core.schema import NodeWithScore, TextNode

    texts = ["a red cat", "a red cat sat", "a blue dog", "rain in May"]
    given = [document(str(n), 1 - n / 10, text) for n, text in enumerate(texts)]
    nodes = [
        NodeWithScore(node=TextNode(id_=each.id, text=each.page_content), score=1 - n / 10)
        for n, each in enumerate(given)
    ]
    for trade_off in (0.0, 0.3, 0.7, 1.0):
        settings = {"top_n": 3, "trade_off": trade_off}
        chosen = UmiMMR(embedding=HashEmbedder(), **settings).compress_documents(given, "")
        theirs = LlamaIndexMMR(embed_model=HashEmbedder(), **settings).postprocess_nodes(nodes)
        assert ids(chosen) == [each.node_id for each in theirs]
        assert all(each in given for each in chosen)


async def test_they_stand_behind_a_retriever_in_a_pipeline():
    retriever = UmiRetriever.from_texts(["the fee is 3 euros", "The fee is 3 euros!", "fees are due in May", "a cat"])
    steps = [UmiDecay(half_life_hours=24), UmiNeighbours(), UmiNearDuplicates(), UmiMMR(top_n=2)]
    compressing = ContextualCompressionRetriever(
        base_retriever=retriever, base_compressor=DocumentCompressorPipeline(transformers=steps)
    )
    found = compressing.invoke("what is the fee?")
    assert len(found) == 2 and "3 euros" in found[0].page_content
    assert await compressing.ainvoke("what is the fee?") == found
    retriever.close()


@pytest.mark.parametrize("stage", [UmiDecay(half_life_hours=9), UmiNeighbours(), UmiNearDuplicates(), UmiMMR()])
def test_documents_are_not_changed_and_none_gives_none(stage):
    given = [document("a", timestamp=DAY_OLD), document("b", -1.0), document("c", float("nan"))]
    before = copy.deepcopy(given[:2])
    assert set(ids(stage.compress_documents(given, ""))) == {"a", "b", "c"}
    assert given[:2] == before
    assert stage.compress_documents([], "") == []


def test_a_setting_out_of_range_is_refused():
    for make in (
        lambda: UmiDecay(half_life_hours=-1),
        lambda: UmiNeighbours(previous=-1),
        lambda: UmiNearDuplicates(similarity=2),
        lambda: UmiMMR(top_n=0),
    ):
        with pytest.raises(ConfigError):
            make()


@pytest.mark.parametrize("stage", [UmiDecay, UmiNeighbours, UmiNearDuplicates, UmiMMR, LlamaIndexMMR])
def test_a_setting_without_its_name_is_refused_and_the_names_are_told(stage):
    with pytest.raises(ConfigError, match=rf"{stage.__name__}\(30\): expected fields by name: .*=\.\.\."):
        stage(30)


@pytest.mark.parametrize("stage", [UmiDecay(half_life_hours=24), UmiMMR(top_n=1), UmiNearDuplicates(), UmiNeighbours()])
def test_a_stage_takes_documents_one_after_the_other_as_any_other_list(stage):
    given = [document("a", 0.9, text="Ann met Bob."), document("b", 0.5, text="Carl lives in Oslo.")]
    assert stage.compress_documents(iter(given), "Ann") == stage.compress_documents(given, "Ann") != []
    assert stage.compress_documents(iter([]), "Ann") == []


def test_positions_and_sources_of_a_table_are_read_and_missing_sources_are_not_one_source():
    def neighbours(source, kind):
        given = [document(str(n), score, source=source, position=kind(n)) for n, score in enumerate((1.0, 0.4, 0.5))]
        return ids(UmiNeighbours().compress_documents(given, ""))

    for source in ("s", np.str_("s"), PurePosixPath("s"), np.int64(7)):
        for kind in (int, np.int64, float):
            assert neighbours(source, kind) == ["0", "1", "2"], (source, kind)
    assert neighbours(float("nan"), int) == neighbours(None, int) == ["0", "2", "1"]
