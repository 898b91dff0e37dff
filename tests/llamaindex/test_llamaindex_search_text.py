"""What LlamaIndex would embed is searched, its metadata and exclusions included; the node's own text comes back."""

from __future__ import annotations

import os
import subprocess
import sys

from llama_index.core.schema import MetadataMode, TextNode

from umi_llamaindex import UmiQuery, UmiRetriever, UmiVectorStore

NODES = [
    TextNode(
        id_="a",
        text="It lasts two years.",
        metadata={"title": "Warranty", "secret": "walrus"},
        excluded_embed_metadata_keys=["secret"],
    ),
    TextNode(
        id_="b", text="It takes a week.", metadata={"title": "Delivery"}, text_template="{content} {metadata_str}"
    ),
]


def found(retriever, query):
    return [item.node for item in retriever.retrieve(UmiQuery(query, strategy="text"))]


def test_titles_from_extractors_are_found_and_exclusions_are_not():
    store = UmiVectorStore()
    store.add(NODES)
    for retriever in (UmiRetriever.from_nodes(NODES), store.retriever()):
        assert [node.node_id for node in found(retriever, "warranty")] == ["a"]
        assert [node.node_id for node in found(retriever, "delivery")] == ["b"]
        assert found(retriever, "walrus") == []
        retriever.close()
    store.close()


def test_a_node_comes_back_with_its_own_text_and_embeds_as_before():
    retriever = UmiRetriever.from_nodes(NODES)
    for node in NODES:
        (back,) = (item for item in found(retriever, "it") if item.node_id == node.node_id)
        assert back.text == node.text
        assert back.get_content(MetadataMode.EMBED) == node.get_content(MetadataMode.EMBED)
        (chunk,) = retriever.umi.store.get([node.node_id])
        assert chunk.search_text == node.get_content(MetadataMode.EMBED)
    retriever.close()


def test_what_is_embedded_is_what_llamaindex_embeds(embed_model):
    seen = []
    embed = type(embed_model)._get_text_embeddings
    type(embed_model)._get_text_embeddings = lambda self, texts: seen.extend(texts) or embed(self, texts)
    try:
        UmiRetriever.from_nodes(NODES, embed_model).close()
    finally:
        type(embed_model)._get_text_embeddings = embed
    assert seen == [node.get_content(MetadataMode.EMBED) for node in NODES]


def test_a_set_in_the_metadata_is_searched_as_the_same_text_in_every_process():
    program = """
from llama_index.core.schema import TextNode
from umi_common.frameworks.records import PlaceKeys
from umi_llamaindex._convert import to_chunks
node = TextNode(id_="a", text="It lasts.", metadata={"tags": {"roof", "tiles", "slate"}, "n": frozenset("ba")})
print(to_chunks([node], PlaceKeys())[0].search_text)
"""
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert texts == {"tags: ['roof', 'slate', 'tiles']\nn: ['a', 'b']\n\nIt lasts.\n"}
