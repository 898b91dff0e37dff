"""The context budget: what the LLM reads never exceeds it, and one node is always there."""

from __future__ import annotations

import copy
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.errors import BudgetError
from umi_common.retriever import DualRetriever
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_llamaindex import UmiContextBudget, UmiMemoryBlock, UmiMMR, UmiRetriever, create_umi_tool

WORDS = st.sampled_from(["alpha", "beta", "gamma.", "delta\n", "x" * 30])


def words(text: str) -> int:
    """A counter that hands can follow: white space parts tokens."""
    return len(text.split())


def read_by_the_llm(found: list[NodeWithScore]) -> str:
    return "\n\n".join(one.get_content(MetadataMode.LLM) for one in found)


def item(id: str, text: str, score: float | None = None, doc: str | None = None, **metadata) -> NodeWithScore:
    related = {} if doc is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=doc)}
    return NodeWithScore(node=TextNode(id_=id, text=text, metadata=metadata, relationships=related), score=score)


def of(total: int, **options) -> UmiContextBudget:
    budget = TokenBudget(max_total=total)
    return UmiContextBudget(budget=budget, counter=words, **options)


def test_what_does_not_fit_is_skipped_and_what_comes_after_it_goes_in():
    nodes = [item("a", "one two three", 0.9), item("long", "word " * 50, 0.8), item("b", "four five", 0.7)]
    assert [one.node.node_id for one in of(5).postprocess_nodes(nodes)] == ["a", "b"]


def test_the_metadata_that_llamaindex_writes_counts():
    nodes = [item(f"n{i}", f"text number {i}", 1 - i / 10, file="a b c d", page=i) for i in range(6)]
    found = of(30).postprocess_nodes(nodes)
    assert 1 < len(found) < 6 and words(read_by_the_llm(found)) <= 30
    assert found[0].node == nodes[0].node, "metadata stays where there is room for it"


@pytest.mark.parametrize(
    "node",
    [
        ImageNode(id_="m", image_path="a.png", metadata={"file": "a.png"}),
        Document(id_="m", image_resource=MediaResource(path="a.png"), metadata={"file": "a.png"}),
    ],
)
def test_an_image_without_text_is_kept_and_takes_no_tokens(node):
    """Of a multimodal chain: the images go to the model beside the texts."""
    image = NodeWithScore(node=node, score=0.9)
    blank, text = item("blank", " "), item("a", "one two three", 0.8)
    found = of(3).postprocess_nodes([image, blank, text])
    assert [one.node.node_id for one in found] == ["a", "m"] and words(read_by_the_llm(found)) == 3
    path = found[1].node.image_path if isinstance(node, ImageNode) else str(found[1].node.image_resource.path)
    assert path == "a.png" and found[1].score == 0.9
    assert [one.node.node_id for one in of(3).postprocess_nodes([image])] == ["m"]


def test_metadata_gives_way_to_text_where_there_is_no_room_for_both():
    found = of(6).postprocess_nodes([item("a", "five words of plain text", 1.0, note="word " * 40)])
    assert read_by_the_llm(found) == "five words of plain text"
    assert found[0].node.metadata["note"], "it is hidden, not lost"


@given(
    texts=st.lists(st.lists(WORDS, min_size=1, max_size=40).map(" ".join), min_size=1, max_size=10),
    total=st.integers(3, 60),
    note=st.integers(0, 8),
)
@settings(max_examples=60, deadline=None)
def test_it_is_never_over_and_never_empty(texts, total, note):
    nodes = [item(f"n{i}", text, None, note="w " * note) for i, text in enumerate(texts)]
    before = copy.deepcopy(nodes)
    found = of(total).postprocess_nodes(nodes)
    assert 1 <= words(read_by_the_llm(found)) <= total
    assert nodes == before


def test_a_larger_budget_never_shows_less_text_beside_the_metadata():
    texts = [
        "The heap is kept in order by the sift. It grows when an item is pushed and shrinks when it is popped.",
        "Lunch was served at noon in the canteen. The soup was hot and the bread was new.",
        "The code of the vault is 4711. It rained all day long, and the guards stayed in.",
        "The train to Oslo leaves at nine from platform four, and arrives at noon.",
    ]
    nodes = [item(f"n{i}", text, 1 - i / 10, file="report.txt") for i, text in enumerate(texts)]
    found = [UmiContextBudget(total).postprocess_nodes(nodes, query_str="heap") for total in range(20, 140)]
    shown = [sum(len(one.node.get_content()) for one in each) for each in found]
    assert shown == sorted(shown)
    assert [len(each) for each in found].index(4) == 109, "129 tokens hold all four"


def test_the_best_node_is_whole_before_a_larger_budget_shows_the_metadata_of_long_names():
    text = "Valve one is checked each day. It is opened by hand, and then it is closed again."
    nodes = [item("best", text, 0.9, note="word " * 30), item("next", "Lunch is at noon.", 0.5)]
    whole = [one.node.text == text for one in (of(total).postprocess_nodes(nodes)[0] for total in range(2, 90))]
    assert whole == sorted(whole), "what was whole stays whole"
    assert of(50).postprocess_nodes(nodes)[0].node == nodes[0].node


def test_a_repeat_is_left_out_and_the_better_one_stays():
    nodes = [item("better", "the very same words", 0.9), item("worse", "the very same words", 0.1)]
    assert [one.node.node_id for one in of(100).postprocess_nodes(nodes)] == ["better"]


def test_nodes_that_follow_each_other_become_one_with_the_ids_of_both():
    a, b = item("a", "It began in May.", 0.9, "doc"), item("b", "It ended in June.", 0.8, "doc")
    a.node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="b")
    (one,) = of(100).postprocess_nodes([b, a])
    assert one.node.get_content() == "It began in May.\nIt ended in June."
    assert (one.node.node_id, one.node.metadata["umi_ids"], one.score) == ("a", ["a", "b"], 0.9)
    assert "umi_ids" not in one.get_content(MetadataMode.LLM)
    assert "umi_ids" not in a.node.metadata


def test_the_order_of_mmr_is_not_undone():
    nodes = [
        item("a", "cats sleep", 1.0),
        item("b", "cats sleep much", 0.9),
        item("c", "tax law", 0.5),
        item("d", "plain rice", 0.0),
    ]
    chosen = UmiMMR(top_n=3, trade_off=0.5).postprocess_nodes(nodes)
    assert [one.node.node_id for one in chosen][:2] == ["a", "c"]
    assert [one.node.node_id for one in of(4).postprocess_nodes(chosen)] == ["a", "c"]


async def test_a_store_brings_the_neighbours_that_the_policy_asks_for():
    texts = ["Where did she go?", "She went to Oslo by train.", "And then home."]
    retriever = UmiRetriever.from_nodes([item(f"n{i}", text, doc="talk").node for i, text in enumerate(texts)])
    found = retriever.retrieve("Oslo train")[:1]
    assert [one.node.node_id for one in found] == ["n1"]
    step = UmiContextBudget(store=retriever.umi.store, policy=AssemblyPolicy(neighbours=1))
    (one,) = step.postprocess_nodes(found)
    assert one.node.get_content() == "\n".join(texts)
    assert await step.apostprocess_nodes(found) == [one]
    retriever.close()


def test_the_filter_of_neighbours_stays_when_its_caller_changes_it_for_the_next_user():
    nodes = [item(f"n{i}", text, doc="talk").node for i, text in enumerate(["ann asks", "the train", "bob knows"])]
    for node, user in zip(nodes, ("ann", "ann", "bob"), strict=True):
        node.metadata = {"user": user}
    with UmiRetriever.from_nodes(nodes) as retriever:
        scope = {"user": "ann"}
        step = UmiContextBudget(store=retriever.umi.store, policy=AssemblyPolicy(neighbours=1), where=scope)
        scope["user"] = "bob"
        (one,) = step.postprocess_nodes(retriever.retrieve("train")[:1])
    assert one.node.get_content() == "ann asks\nthe train"


def test_blank_nodes_and_no_nodes_give_none():
    assert of(5).postprocess_nodes([]) == of(5).postprocess_nodes([item("a", "  ")]) == []


def test_a_budget_in_which_nothing_fits_is_refused():
    with pytest.raises(BudgetError):
        UmiContextBudget(budget=TokenBudget(max_total=1), counter=lambda text: 5 * len(text)).postprocess_nodes(
            [item("a", "text")]
        )


def test_a_store_of_strangers_changes_nothing():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        nodes = [item("a", "one two", 1.0)]
        assert of(10, store=store).postprocess_nodes(nodes) == nodes


def test_half_an_emoji_in_a_node_does_not_lose_the_others():
    nodes = [item("a", "cats sleep \ud83d", 1.0), item("b", "tax law", 0.5)]
    kept = of(20).postprocess_nodes(nodes)
    assert [one.node.get_content() for one in kept] == ["cats sleep ?", "tax law"]


def test_overlapping_nodes_that_name_no_neighbour_are_one_text_in_any_order_of_relevance():
    text = " ".join(f"word{n}" for n in range(60))
    starts = [text.index("word20"), 0, text.index("word10")]
    nodes = [item(f"n{start}", text[start : start + 150], 1 - rank / 10, doc="d") for rank, start in enumerate(starts)]
    for one, start in zip(nodes, starts, strict=True):
        one.node.start_char_idx, one.node.end_char_idx = start, start + 150
    (found,) = of(500).postprocess_nodes(nodes)
    assert found.node.text == text[: max(starts) + 150]
    assert (found.node.start_char_idx, found.node.end_char_idx) == (0, max(starts) + 150)


def test_the_answer_amid_a_long_node_is_kept_and_the_node_says_where_it_begins():
    text = f"{'Lunch was served again. ' * 60}The code of the vault is 4711. {'It rained all day long. ' * 60}"
    long = item("page", text, 0.9)
    long.node.start_char_idx, long.node.end_char_idx = 500, 500 + len(text)
    (kept,) = of(40).postprocess_nodes([long], query_str="what is the code of the vault?")
    assert "The code of the vault is 4711." in kept.node.text
    start = kept.node.start_char_idx - 500
    assert start > 0 and text[start : kept.node.end_char_idx - 500] == kept.node.text
    tool = create_umi_tool(UmiRetriever.from_nodes([long.node]), budget=60)
    assert "4711" in tool(query="what is the code of the vault?").content


def test_leaves_of_two_parents_are_not_joined_as_if_one_followed_the_other():
    """`HierarchicalNodeParser` counts a leaf's start in its parent, so starts of two parents do not compare."""
    leaves = [item("a", "The roof is old.", 0.9, doc="d"), item("b", "Lunch was served.", 0.8, doc="d")]
    for leaf, parent, start in zip(leaves, ("p1", "p7"), (0, 17), strict=True):
        leaf.node.start_char_idx, leaf.node.end_char_idx = start, start + len(leaf.node.get_content())
        leaf.node.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id=parent)
    assert [one.node.node_id for one in of(50).postprocess_nodes(leaves)] == ["a", "b"]


@pytest.mark.parametrize("best", [0, 1, 2])
def test_a_hit_goes_before_the_neighbours_that_prev_next_adds_without_scores(best):
    texts = ["Lunch was served at noon.", "The code of the vault is 4711.", "It rained all day long."]
    nodes = [item(f"n{i}", text, 0.9 if i == best else None) for i, text in enumerate(texts)]
    assert [one.node.node_id for one in of(7).postprocess_nodes(nodes)] == [f"n{best}"]
    assert UmiMMR(top_n=1).postprocess_nodes(nodes)[0].node.node_id == f"n{best}"


def test_a_pasted_log_as_the_query_takes_no_seconds():
    nodes = [item(f"n{i}", "The heap is kept in order by the sift. " * 30 + f"Part {i}.") for i in range(5)]
    question = "ERROR: connection refused by the queue\n" * 50_000 + "how is a heap kept in order?"
    begun = time.perf_counter()
    assert UmiContextBudget(budget=200).postprocess_nodes(nodes, query_str=question)
    assert time.perf_counter() - begun < 2


def test_a_budget_may_be_a_whole_number_of_numpy():
    assert UmiContextBudget(np.int64(60)).budget == UmiContextBudget(60).budget
    with HybridStore.open() as store:
        assert UmiMemoryBlock(umi=DualRetriever(store), user="ann", budget=np.int64(60)).budget.max_total == 60


def test_nodes_of_two_splitters_of_one_document_show_each_sentence_once():
    sentences = [f"Sentence {number} tells of valve {number * 7}. " for number in range(60)]
    document = Document(text="".join(sentences), id_="manual")
    large, small = (
        TokenTextSplitter(chunk_size=size, chunk_overlap=0).get_nodes_from_documents([document]) for size in (300, 60)
    )
    found = [NodeWithScore(node=node, score=1 / rank) for rank, node in enumerate([*large[:2], *small], 1)]
    assert len(small) > 2 * len(large) > 2
    for documents in ([document], [document, Document(text="a note without a start", id_="note")]):
        others = [NodeWithScore(node=TextNode(text=one.text), score=0.01) for one in documents[1:]]
        first, *_ = UmiContextBudget(2_000).postprocess_nodes([*found, *others], query_str="valve 70")
        assert first.node.get_content() == document.text.strip()
    read = read_by_the_llm(UmiContextBudget(800).postprocess_nodes(found, query_str="valve 70"))
    assert "valve 70." in read and all(read.count(sentence.strip()) <= 1 for sentence in sentences)
