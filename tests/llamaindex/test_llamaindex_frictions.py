"""What a LlamaIndex engineer types first, in the ecosystem's own words."""

from __future__ import annotations

import asyncio
import pickle
import threading
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import Document, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from umi_common.errors import ConfigError, InvalidTimeRange, InvalidVector
from umi_llamaindex import UmiContextBudget, UmiQuery, UmiRetriever, UmiVectorStore, create_umi_tool

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
NODES = [TextNode(id_=str(n), text=text) for n, text in enumerate(["Ann met Bob", "Bob met Carl", "Carl met Dora"])]


async def test_forty_queries_with_alpha_start_no_forty_threads():
    store = UmiVectorStore()
    store.add(NODES)
    query = VectorStoreQuery(query_str="who met Carl?", mode=VectorStoreQueryMode.HYBRID, alpha=0.3, similarity_top_k=2)
    before = threading.active_count()
    most = 0

    async def ask():
        nonlocal most
        found = await store.aquery(query)
        most = max(most, threading.active_count())
        return found.ids

    answers = await asyncio.gather(*(ask() for _ in range(40)))
    assert all(answer == answers[0] for answer in answers)
    assert most - before < 12
    store.close()


def test_embeddings_of_nodes_are_used_again(embed_model):
    nodes = [node.model_copy(update={"embedding": embed_model.get_text_embedding(node.text)}) for node in NODES[:2]]
    made = embed_model.documents
    retriever = UmiRetriever.from_nodes([*nodes, NODES[2]], embed_model)
    assert embed_model.documents - made <= 2  # the third node, and one of the two for comparison
    assert np.allclose(retriever.umi.store.vectors(["0"])[0], nodes[0].embedding, atol=1e-6)
    retriever.close()


def test_embeddings_of_another_model_are_refused(embed_model):
    strange = [NODES[0].model_copy(update={"embedding": [1.0, *[0.0] * 255]})]
    with pytest.raises(InvalidVector, match="node '0': its embedding is not what embed_model gives for it"):
        UmiRetriever.from_nodes(strange, embed_model)
    UmiRetriever.from_nodes(strange).close()  # umi's own model makes its own


def test_a_budget_is_a_number_of_tokens():
    assert UmiContextBudget(500).budget.max_total == UmiContextBudget(budget=500).budget.max_total == 500
    nodes = [NodeWithScore(node=node, score=1.0) for node in NODES]
    assert UmiContextBudget(500).postprocess_nodes(nodes)


def test_a_long_chat_message_is_searched_by_its_end():
    retriever = UmiRetriever.from_nodes(NODES)
    (first, *_) = retriever.retrieve("blah é " * 5_000 + "who met Dora?")
    assert first.node.node_id == "2"
    retriever.close()


def test_millisecond_timestamps_are_times():
    node = TextNode(text="May Day", metadata={"timestamp": int(MAY.timestamp() * 1000)})
    retriever = UmiRetriever.from_nodes([node])
    assert retriever.retrieve(UmiQuery("day", time_range=(MAY, MAY + timedelta(days=1))))
    retriever.close()


def test_two_retrievers_of_one_class_may_be_arms():
    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle):
            return [NodeWithScore(node=NODES[0], score=1.0)]

    retriever = UmiRetriever.from_nodes(NODES, arms=[Fixed(), Fixed()])
    assert {"Fixed", "Fixed 2"} <= {signal.arm for hit in retriever.search("Ann") for signal in hit.signals}
    retriever.close()


def test_a_tool_cites_files_by_name():
    nodes = [
        TextNode(
            text=text,
            metadata={"file_name": "fees.pdf", "page_label": page},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"6f1c{page}")},
        )
        for page, text in (("1", "The fee is 3 euros."), ("2", "Fees are due in May."))
    ]
    retriever = UmiRetriever.from_nodes(nodes)
    content = create_umi_tool(retriever).call(query="fee").content
    assert "fees.pdf, page 1" in content and "fees.pdf, page 2" in content and "6f1c" not in content
    retriever.close()


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"persist_directory": "x"}, "did you mean persist_dir"),
        ({"config": None}, "fusion="),
        ({"retriever_weights": [1]}, "lexical_weight"),
    ],
)
def test_an_unknown_parameter_says_what_was_meant(option, advice):
    for make in (UmiRetriever.from_nodes, UmiVectorStore):
        with pytest.raises(ConfigError, match=f"no option '{next(iter(option))}'.*{advice}"):
            make(**option)


def test_top_k_is_called_similarity_top_k():
    with pytest.raises(ConfigError, match="did you mean similarity_top_k"):
        UmiRetriever.from_nodes(NODES, top_k=3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that LlamaIndex imports
def test_an_index_over_umi_deletes_nodes_and_clears():
    store = UmiVectorStore()
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    index.insert(Document(text="Ann met Bob", doc_id="d"))
    index.insert_nodes(NODES[1:])
    index.delete_nodes(["1"])
    index.delete_ref_doc("d")
    assert [node.node_id for node in store.get_nodes()] == ["2"]
    store.clear()
    assert store.get_nodes() == []
    store.close()


def test_a_time_range_of_a_query_narrows_the_retrievers_own():
    nodes = [TextNode(id_=str(d), text=f"met {d}", metadata={"timestamp": MAY + timedelta(days=d)}) for d in range(3)]
    retriever = UmiRetriever.from_nodes(nodes, time_range=(MAY + timedelta(days=1), None))
    found = retriever.retrieve(UmiQuery("who met?", time_range=(MAY, MAY + timedelta(days=2))))
    assert [each.node.node_id for each in found] == ["1"]
    with pytest.raises(InvalidTimeRange, match="lies outside the retriever's own"):
        retriever.retrieve(UmiQuery("who met?", time_range=(MAY, MAY + timedelta(hours=1))))
    retriever.close()


def test_a_pickled_retriever_reads_the_same_directory_and_one_in_memory_says_what_to_do(tmp_path):
    kept = UmiRetriever.from_nodes([TextNode(id_="1", text="Ann met Bob")], persist_dir=str(tmp_path))
    again = pickle.loads(pickle.dumps(kept))  # noqa: S301 our own bytes
    assert [each.node.node_id for each in again.retrieve("Bob")] == ["1"]
    for retriever in (again, kept):
        retriever.close()
    fleeting = UmiRetriever.from_nodes([TextNode(text="Ann met Bob")])
    with pytest.raises(ConfigError, match=r"in memory cannot be pickled.*directory"):
        pickle.dumps(fleeting)
    fleeting.close()
