"""Nodes to chunks and back."""

from __future__ import annotations

import copy
from datetime import datetime, timezone

import numpy as np
import pytest
from llama_index.core.node_parser import HierarchicalNodeParser, TokenTextSplitter, get_leaf_nodes
from llama_index.core.schema import (
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llamaindex_toys import page_nodes

from umi_common.errors import InvalidChunk
from umi_common.frameworks.records import PlaceKeys
from umi_common.sim import HashEmbedder
from umi_common.types import Chunk
from umi_llamaindex import UmiVectorStore
from umi_llamaindex._convert import Places, to_chunks, to_node

KEYS = PlaceKeys(None)


def one(node: TextNode, keys: PlaceKeys = KEYS) -> Chunk:
    return to_chunks([node], keys, Places())[0]


def whole() -> TextNode:
    return TextNode(
        id_="n1",
        text="the text",
        metadata={"a": 1, "nested": {"b": [1, {"c": None}]}, "tags": ["x", "y"]},
        excluded_embed_metadata_keys=["a"],
        excluded_llm_metadata_keys=["tags"],
        metadata_template="{key}={value}",
        text_template="{content} // {metadata_str}",
        start_char_idx=10,
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc", node_type=ObjectType.DOCUMENT, hash="h"),
            NodeRelationship.PREVIOUS: RelatedNodeInfo(node_id="n0"),
            NodeRelationship.CHILD: [RelatedNodeInfo(node_id="n2")],
        },
    )


def test_a_node_comes_back_equal():
    node = whole()
    back = to_node(one(node))
    assert back == node and type(back) is TextNode
    assert back.get_content(MetadataMode.LLM) == node.get_content(MetadataMode.LLM)
    assert back.hash == node.hash


def test_a_node_given_is_not_changed():
    node = whole()
    node.embedding = [1.0]
    before = copy.deepcopy(node)
    one(node)
    assert node == before and node.metadata is not before.metadata


def test_its_document_is_its_source_and_the_order_of_the_list_its_position():
    related = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc")}
    nodes = [TextNode(text="a", relationships=related), TextNode(text="b"), TextNode(text="c", relationships=related)]
    chunks = to_chunks(nodes, KEYS, Places())
    assert [(c.source, c.position) for c in chunks] == [("doc", 0), (None, None), ("doc", 1)]


def test_a_node_that_a_splitter_did_not_find_in_its_text_stands_behind_the_one_before_it():
    document = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d")}
    nodes = [TextNode(text="text", start_char_idx=start, relationships=document) for start in (0, 400, None, 800)]
    assert [chunk.position for chunk in to_chunks(nodes, KEYS, Places())] == [0, 400, 401, 800]


def test_the_pages_of_one_file_follow_one_another_where_the_file_is_the_source():
    pages = [node for page in (1, 2, 3) for node in page_nodes(page)]
    by_file = to_chunks(pages, PlaceKeys("file_path"), Places())
    assert [chunk.position for chunk in by_file] == [0, 400, 401, 801, 802, 1202]
    assert [chunk.position for chunk in to_chunks(pages, KEYS, Places())] == [0, 400] * 3  # each page is a source


def test_metadata_can_hold_source_position_and_time():
    metadata = {"file": "f", "n": 7, "when": datetime(2024, 5, 1, tzinfo=timezone.utc)}
    node = TextNode(
        text="a", metadata=metadata, relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc")}
    )
    chunk = one(node, PlaceKeys("file", "n", "when"))
    assert (chunk.source, chunk.position, chunk.event_time) == ("f", 7, metadata["when"])


def test_a_node_without_a_document_may_name_its_source():
    assert one(TextNode(text="a", metadata={"source": "chat"})).source == "chat"


@pytest.mark.parametrize("empty", ["", float("nan"), [], {}])
def test_nodes_without_a_document_whose_metadata_name_no_source_have_none(empty):
    """Of rows of a table whose column "source" is empty: they are not one source, and not neighbours."""
    assert one(TextNode(text="a", metadata={"source": empty})).source is None


def test_datetimes_and_numpy_values_come_back_as_what_they_stand_for():
    node = TextNode(text="a", metadata={"when": datetime(2024, 5, 1), "n": np.int64(3), "row": np.array([1.5])})
    assert to_node(one(node)).metadata == {"when": "2024-05-01T00:00:00", "n": 3, "row": [1.5]}


@pytest.mark.parametrize(
    "node", [IndexNode(id_="i", text="index", index_id="other"), ImageNode(id_="m", text="caption", image_path="a.png")]
)
def test_other_kinds_of_text_nodes_stay_what_they_are(node):
    back = to_node(one(node))
    assert back == node and type(back) is type(node)


def test_an_image_with_a_caption_that_was_read_as_a_document_keeps_its_image():
    image = ImageDocument(id_="i", text="a red kettle", metadata={"file": "kettle.png"})
    image.image_path = "kettle.png"
    back = to_node(one(image))
    assert isinstance(back, ImageDocument) and back.image_path == "kettle.png"
    assert (back.node_id, back.get_content(), back.metadata) == ("i", "a red kettle", {"file": "kettle.png"})


def test_a_chunk_from_elsewhere_becomes_a_text_node_of_its_source():
    moment = datetime(2024, 5, 1, tzinfo=timezone.utc)
    node = to_node(Chunk("c", "text", metadata={"user": "ann"}, source="chat", position=3, event_time=moment))
    assert (node.node_id, node.get_content(), node.ref_doc_id) == ("c", "text", "chat")
    assert node.metadata == {"user": "ann", "source": "chat", "timestamp": "2024-05-01T00:00:00+00:00"}


@pytest.mark.parametrize("value", [object(), b"bytes", {1: "a"}])
def test_what_cannot_be_stored_is_refused_with_node_and_key(value):
    with pytest.raises(InvalidChunk, match=r"^node 1: metadata\['key'\]"):
        to_chunks([TextNode(text="fine"), TextNode(text="x", metadata={"key": value})], KEYS, Places())


def test_an_image_without_text_is_refused_by_its_place():
    with pytest.raises(InvalidChunk, match=r"^node 0: chunk 'm': text is empty"):
        one(ImageNode(id_="m", image_path="a.png"))


def test_a_german_date_is_a_time_and_one_that_may_be_two_days_is_said_once(caplog):
    keys = PlaceKeys(time="date of letter")
    dates = ["18.11.2026", "05/06/2026", "06/05/2026"]
    nodes = [TextNode(text=f"letter {day}", metadata={"date of letter": day}) for day in dates]
    times = [chunk.event_time for chunk in to_chunks(nodes, keys)]
    assert times == [datetime(2026, 11, 18, tzinfo=timezone.utc), None, None]
    (said,) = caplog.records
    assert "metadata['date of letter'] is '05/06/2026'" in said.getMessage()


def hierarchy(text: str) -> list[TextNode]:
    """The smallest nodes of a hierarchy of three levels."""
    levels = [TokenTextSplitter(chunk_size=size, chunk_overlap=0) for size in (200, 60, 20)]
    names = [f"level {level}" for level in range(3)]
    by_name = dict(zip(names, levels, strict=True))
    parser = HierarchicalNodeParser.from_defaults(node_parser_ids=names, node_parser_map=by_name)
    return get_leaf_nodes(parser.get_nodes_from_documents([Document(text=text, id_="d")]))


def test_the_leaves_of_a_hierarchy_stand_in_the_order_of_their_text():
    leaves = hierarchy(" ".join(f"word{i}" for i in range(400)))
    assert sum(leaf.start_char_idx == 0 for leaf in leaves) > 5, "each counts in its parent's text"
    positions = [chunk.position for chunk in to_chunks(leaves, KEYS, Places())]
    assert positions == list(range(len(leaves)))


def test_leaves_that_are_added_in_several_calls_follow_one_another():
    leaves = hierarchy(" ".join(f"word{i}" for i in range(400)))
    with UmiVectorStore(HashEmbedder(16)) as store:
        store.add(leaves[:30])
        store.add(leaves[30:])
        chunks = store.client.get([leaf.node_id for leaf in leaves])
    assert [chunk.position for chunk in chunks if chunk is not None] == list(range(len(leaves)))


def test_a_set_in_the_metadata_is_searched_in_one_order_in_every_process():
    (chunk,) = to_chunks([TextNode(text="x", metadata={"tags": {"d", "a", "c", "b"}})], PlaceKeys())
    assert chunk.indexed_text == "tags: ['a', 'b', 'c', 'd']\n\nx"
