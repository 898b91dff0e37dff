"""PEERS.md, LlamaIndex: a test for each row, named after what the peer gets wrong. Each shows umi's side of it."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import threading
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import RetrieverTool
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from umi_common.config import UmiConfig
from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.tokens.counter import counter_for
from umi_common.filters import matches, parse_filter
from umi_common.retriever import DualRetriever
from umi_common.sim import FaultyLLM, ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_llamaindex import (
    UmiContextBudget,
    UmiDecay,
    UmiEmbedding,
    UmiMemoryBlock,
    UmiMMR,
    UmiQuery,
    UmiRetriever,
    UmiVectorStore,
)

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
ALWAYS = {"mode": "always"}


def node(id: str, text: str, **metadata) -> TextNode:
    return TextNode(id_=id, text=text, metadata=metadata)


def ids(found: list[NodeWithScore]) -> list[str]:
    return [one.node.node_id for one in found]


class TestFusion:
    """Weights ignored, rank from 0, dedupe by hash, scores written into others' nodes, an LLM always, errors kill."""

    NODES = (node("words", "error ERR-4711 at boot"), node("meaning", "the machine fails when it starts up"))

    def test_weights_work_per_arm(self):
        for lexical, first in ((0.99, "words"), (0.01, "meaning")):
            fusion = {"method": "rrf", "lexical_weight": lexical, "dense_weight": 1 - lexical}
            retriever = UmiRetriever.from_nodes(self.NODES, fusion=fusion, neighbours={"enabled": False})
            bundle = QueryBundle("ERR-4711", embedding=UmiEmbedding().get_query_embedding("machine startup failure"))
            assert ids(retriever.retrieve(bundle))[0] == first

    def test_weights_work_per_variation(self):
        llm = ScriptedLLM(lambda prompt: ["rice with salt", "salted rice", "rice, salt"])
        nodes = [node("asked", "Bob met Carl"), node("proposed", "rice with salt")]
        for weight, first in ((0.0, "asked"), (50.0, "proposed")):
            fusion = {"variation_weight": weight}
            retriever = UmiRetriever.from_nodes(nodes, llm=llm, fusion=fusion, routing=ALWAYS)
            assert ids(retriever.retrieve("Bob met Carl"))[0] == first

    def test_ranks_start_at_one(self):
        fusion = {"method": "rrf", "lexical_weight": 1, "dense_weight": 0}
        retriever = UmiRetriever.from_nodes(self.NODES, fusion=fusion, neighbours={"enabled": False})
        (best,) = retriever.search(UmiQuery("ERR-4711", strategy="text"))
        assert best.signals[0].rank == 1 and best.score == pytest.approx(1 / (60 + 1))

    def test_a_datetime_in_the_metadata_does_not_part_a_node_from_itself(self):
        retriever = UmiRetriever.from_nodes([node("n", "Ann met Bob", timestamp=MAY)])
        assert ids(retriever.retrieve("Ann")) == ["n"], "both arms found one node, not two"

    def test_texts_that_are_equal_stay_two_nodes_by_id(self):
        nodes = [node("a", "the same text"), node("b", "the same text")]
        retriever = UmiRetriever.from_nodes(nodes, duplicates={"enabled": False})
        assert retriever.search("same text").ids == ["a", "b"]

    def test_scores_are_written_into_copies(self):
        retriever = UmiRetriever.from_nodes(self.NODES)
        first = retriever.retrieve("boot")
        kept = copy.deepcopy(first)
        for one in retriever.retrieve("boot"):
            one.score = -1.0
            one.node.metadata["changed"] = True
        assert first == kept == retriever.retrieve("boot")

    @pytest.mark.parametrize(
        "reply", ['```json\n["Carl"]\n```', '<think>hm</think>["Carl"]', "1. Carl", "Sure:\n- Carl"]
    )
    def test_fences_numbers_and_thoughts_are_no_queries(self, reply):
        retriever = UmiRetriever.from_nodes(self.NODES, llm=ScriptedLLM([reply]), routing=ALWAYS)
        assert retriever.search("who?").query_variations in (("Carl",), ())

    async def test_an_error_does_not_kill_the_call(self):
        retriever = UmiRetriever.from_nodes(self.NODES, llm=FaultyLLM("raises"), routing=ALWAYS)
        assert ids(retriever.retrieve("ERR-4711")) == ids(await retriever.aretrieve("ERR-4711"))
        assert [lost.part for lost in retriever.search("ERR-4711 boot").degraded] == ["rewriter"]


class TestAsync:
    """`_aretrieve` runs sync code on the loop; `asyncio_run` hides errors."""

    async def test_a_slow_embed_model_leaves_the_loop_free(self):
        class Slow(UmiEmbedding):
            def _get_query_embedding(self, query: str) -> list[float]:
                assert free.wait(30), "the loop ran no other task"
                return super()._get_query_embedding(query)

        free = threading.Event()
        retriever = UmiRetriever.from_nodes(
            [node("n", "Ann met Bob")], embed_model=Slow(), recall={"embedder_timeout_seconds": 60.0}
        )
        search = asyncio.create_task(retriever.aretrieve("Ann"))
        for _ in range(20):
            await asyncio.sleep(0.001)
            assert not search.done()
        free.set()
        assert ids(await search) == ["n"]

    async def test_errors_are_what_they_are(self):
        retriever = UmiRetriever.from_nodes([node("n", "Ann met Bob")])
        wrong = UmiQuery("Ann", filters={"user": {"$like": "a"}})
        with pytest.raises(ValueError, match="unknown operator"):
            await retriever.aretrieve(wrong)
        with pytest.raises(ValueError, match="unknown operator"):
            retriever.retrieve(wrong)


class TestBM25:
    """Static, padded with zero scores, leaky filters, English stop words, persistence that forgets, empty crashes."""

    def test_nodes_come_and_go(self):
        store = UmiVectorStore()
        store.add([node("a", "walrus"), node("b", "gecko")])
        retriever = store.retriever()
        store.delete_nodes(["a"])
        store.add([node("c", "another walrus")])
        assert ids(retriever.retrieve(UmiQuery("walrus", strategy="text"))) == ["c"]

    def test_nothing_is_padded_with_nodes_that_do_not_match(self):
        retriever = UmiRetriever.from_nodes([node("a", "walrus"), node("b", "gecko")])
        found = retriever.retrieve(UmiQuery("walrus", strategy="text", limit=2))
        assert ids(found) == ["a"] and found[0].score > 0
        assert retriever.retrieve(UmiQuery("heron", strategy="text")) == []

    def test_a_filter_never_leaks_another_tenants_nodes(self):
        rng = np.random.default_rng(4)
        words = ["walrus", "gecko", "heron", "otter"]
        nodes = [
            node(
                f"n{i:02}", " ".join(rng.choice(words, 3)), tenant=f"t{i % 3}", year=2020 + i % 5, tags=["x"] * (i % 2)
            )
            for i in range(60)
        ]
        retriever = UmiRetriever.from_nodes(nodes)
        plain = [
            MetadataFilter(key="tenant", value="t1"),
            MetadataFilter(key="tenant", value=["t0", "t2"], operator=FilterOperator.IN),
            MetadataFilter(key="year", value=2022, operator=FilterOperator.GTE),
            MetadataFilter(key="year", value=2023, operator=FilterOperator.NE),
            MetadataFilter(key="tags", value="x", operator=FilterOperator.CONTAINS),
        ]
        nested = [
            MetadataFilters(
                filters=[one, MetadataFilters(filters=[other], condition=FilterCondition.NOT)], condition=how
            )
            for one in plain
            for other in plain
            for how in (FilterCondition.AND, FilterCondition.OR)
        ]
        for asked in [*(MetadataFilters(filters=[one]) for one in plain), *nested]:
            tree = parse_filter(asked)
            allowed = {one.node_id for one in nodes if matches(tree, one.metadata)}
            for strategy in ("hybrid", "text", "vector"):
                found = ids(retriever.retrieve(UmiQuery("walrus heron", filters=asked, limit=100, strategy=strategy)))
                assert set(found) <= allowed, (asked, strategy)

    def test_no_languages_stop_words_are_dropped(self):
        retriever = UmiRetriever.from_nodes([node("a", "to be or not to be"), node("b", "der die das")])
        assert ids(retriever.retrieve(UmiQuery("to be", strategy="text"))) == ["a"]
        assert ids(retriever.retrieve(UmiQuery("die", strategy="text"))) == ["b"]

    def test_what_is_kept_keeps_its_language(self, tmp_path):
        german = {"language": "german"}
        UmiRetriever.from_nodes([node("a", "die Häuser")], persist_dir=str(tmp_path / "umi"), analyzer=german).close()
        with HybridStore.open(tmp_path / "umi") as store:
            assert store.config.analyzer.language == "german"
            assert ids(UmiRetriever.from_store(store).retrieve(UmiQuery("Haus", strategy="text"))) == ["a"]

    async def test_an_empty_corpus_gives_nothing(self):
        retriever = UmiRetriever.from_nodes([])
        assert retriever.retrieve("walrus") == await retriever.aretrieve("walrus") == []


class TestChroma:
    """Hybrid modes silently dense, score exp(-distance), no embeddings, an id added again keeps the old text."""

    def test_hybrid_is_hybrid_and_what_is_not_there_is_refused(self):
        store = UmiVectorStore()
        store.add([node("words", "error ERR-4711"), node("meaning", "sleeping cats")])
        vector = store.embed_model.get_query_embedding("felines dozing")
        query = VectorStoreQuery(vector, 2, query_str="ERR-4711", mode=VectorStoreQueryMode.HYBRID)
        assert set(store.query(query).ids) == {"words", "meaning"}
        with pytest.raises(ValueError, match="svm"):
            store.query(VectorStoreQuery(vector, 2, mode=VectorStoreQueryMode.SVM))

    def test_the_dense_score_is_the_cosine(self):
        retriever = UmiRetriever.from_nodes([node("a", "sleeping cats"), node("b", "tax law")])
        model = UmiEmbedding()
        for hit in retriever.search("felines"):
            (dense,) = [signal.score for signal in hit.signals if signal.arm == "dense"]
            expected = np.dot(model.get_query_embedding("felines"), model.get_text_embedding(hit.chunk.text))
            assert dense == pytest.approx(float(expected), abs=1e-5)

    def test_vectors_are_at_hand_for_mmr(self):
        texts = ["cats sleep", "cats sleep", "tax law", "plain rice"]
        retriever = UmiRetriever.from_nodes(
            [node(str(i), text, place=i) for i, text in enumerate(texts)], duplicates={"enabled": False}
        )
        found = retriever.retrieve("cats sleep")
        assert ids(found)[:2] == ["0", "1"]
        found = UmiMMR(top_n=2, trade_off=0.3).postprocess_nodes(found)
        assert len({one.node.get_content() for one in found}) == 2

    def test_an_id_added_again_has_the_new_text(self):
        store = UmiVectorStore()
        store.add([node("a", "old words")])
        store.add([node("a", "new words")])
        assert [one.get_content() for one in store.get_nodes()] == ["new words"]
        assert store.query(VectorStoreQuery(query_str="old", mode=VectorStoreQueryMode.TEXT_SEARCH)).ids == []


class TestMMR:
    """Compares with the last pick only."""

    def test_a_third_pick_is_compared_with_the_first_too(self):
        vectors = {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0], "like a": [0.99, 0.0, 0.14], "new": [0.0, 0.0, 1.0]}
        scores = {"a": 1.0, "b": 0.9, "like a": 0.85, "new": 0.8}
        nodes = [
            NodeWithScore(node=TextNode(id_=id, text=id, embedding=vector), score=scores[id])
            for id, vector in vectors.items()
        ]
        assert ids(UmiMMR(top_n=3, trade_off=0.5).postprocess_nodes(nodes)) == ["a", "b", "new"]


class TestTimeWeighted:
    """Additive, halves in minutes, score 0 becomes 1, ISO strings crash, metadata changed in place."""

    def test_it_multiplies_leaves_zero_alone_reads_iso_strings_and_changes_nothing(self):
        nodes = [
            NodeWithScore(node=node("old", "x", timestamp=(MAY - timedelta(hours=24)).isoformat()), score=0.8),
            NodeWithScore(node=node("zero", "y", timestamp=MAY.timestamp()), score=0.0),
            NodeWithScore(node=node("undated", "z"), score=0.5),
        ]
        before = copy.deepcopy(nodes)
        step = UmiDecay(half_life_hours=24, floor=0.0, clock=lambda: MAY)
        scores = {one.node.node_id: one.score for one in step.postprocess_nodes(nodes)}
        assert scores == pytest.approx({"old": 0.4, "zero": 0.0, "undated": 0.5})
        assert nodes == before and step.postprocess_nodes(nodes) == step.postprocess_nodes(nodes)

    def test_there_is_no_default_that_forgets(self):
        with pytest.raises(ValueError, match="half_life_hours"):
            UmiDecay()
        assert UmiConfig().decay.half_life_hours is None

    def test_recency_drops_no_unrelated_nodes(self):
        nodes = [NodeWithScore(node=node(str(i), f"text {i}", timestamp=MAY.isoformat()), score=1.0) for i in range(5)]
        assert len(UmiDecay(half_life_hours=1, clock=lambda: MAY).postprocess_nodes(nodes)) == 5


class TestReorderAndPromptHelper:
    """Reorder, then truncation loses the second best; overflow means more LLM calls or a tail cut in mid-text."""

    def test_edges_first_keeps_the_best_two_whatever_the_budget(self):
        nodes = [NodeWithScore(node=node(str(i), f"sentence number {i}."), score=1 - i / 10) for i in range(8)]
        policy = AssemblyPolicy(order="edges-first")
        for total in (6, 12, 20):
            step = UmiContextBudget(
                budget=TokenBudget(max_total=total), policy=policy, counter=lambda t: len(t.split())
            )
            found = ids(step.postprocess_nodes(nodes))
            assert {"0", "1"} <= set(found) and {found[0], found[-1]} == {"0", "1"}

    def test_it_is_never_over_and_ends_with_a_sentence(self):
        text = "One sentence is here. Another one follows it. " * 20
        step = UmiContextBudget(budget=TokenBudget(max_total=50))
        (found,) = step.postprocess_nodes([NodeWithScore(node=node("a", text), score=1.0)])
        assert counter_for().count(found.get_content(MetadataMode.LLM)) <= 50
        assert found.node.get_content().rstrip().endswith(".")


class TestVectorMemoryBlock:
    """Pins the first session_id, so one user reads another's memory; atruncate drops everything."""

    async def test_a_later_call_is_answered_from_its_own_session(self):
        with HybridStore.open() as store:
            block = UmiMemoryBlock(umi=DualRetriever(store), user="ann")
            for session in ("one", "two"):
                await block.aput([ChatMessage(role="user", content=f"the code of {session}")], session_id=session)
            question = [ChatMessage(role="user", content="the code")]
            first = await block.aget(question, session_id="one")
            second = await block.aget(question, session_id="two")
            assert ("one" in first, "two" in first) == ("two" in second, "one" in second) == (True, False)
            assert "code" in await block.atruncate(first, 1)


class TestRetrieverTool:
    """Turns input="x" into "\\ninput is x\\n"."""

    async def test_the_words_reach_the_search_alone(self):
        retriever = UmiRetriever.from_nodes([node("a", "the walrus"), node("b", "an input is data")])
        assert retriever.search("\ninput is walrus\n").query == "walrus"
        tool = RetrieverTool.from_defaults(retriever)
        assert tool.call(input="walrus").raw_output == (await tool.acall(input="walrus")).raw_output
        assert ids(tool.call(input="walrus").raw_output)[0] == "a"


class TestContract:
    """The contract paragraph."""

    def test_the_bundles_embedding_and_strings_are_honoured_and_the_bundle_is_left_alone(self):
        retriever = UmiRetriever.from_nodes([node("a", "sleeping cats"), node("b", "tax law")])
        for bundle in (
            QueryBundle("zzz", embedding=UmiEmbedding().get_query_embedding("tax law")),
            QueryBundle("zzz", custom_embedding_strs=["tax law", "law of taxes"]),
        ):
            before = copy.deepcopy(bundle)
            assert ids(retriever.retrieve(bundle))[0] == "b" and bundle == before
        assert retriever.retrieve(QueryBundle("tax law", custom_embedding_strs=[]))

    def test_scores_are_finite_and_nodes_survive_json(self):
        retriever = UmiRetriever.from_nodes([node("a", "sleeping cats", when=MAY), node("b", "tax law")])
        for one in retriever.retrieve("cats"):
            assert math.isfinite(one.score) and json.loads(one.to_json())

    def test_base_classes_are_in_the_mro(self):
        names = {
            base.__name__ for made in (UmiEmbedding, UmiVectorStore, UmiMMR, UmiMemoryBlock) for base in made.__mro__
        }
        assert {"BasePydanticVectorStore", "BaseNodePostprocessor", "BaseMemoryBlock"} <= names
        assert issubclass(UmiEmbedding, BaseEmbedding)
