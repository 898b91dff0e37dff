"""The chunks of a `VectorStoreIndex`, read from its Chroma collection or from its docstore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores import SimpleVectorStore

from umi_common.errors import ConfigError, InvalidChunk
from umi_common.frameworks.records import PlaceKeys, chroma_collection, same_float
from umi_common.stores.chroma.chroma_import import pages_with_text
from umi_common.stores.chroma.records import copied_chunk
from umi_common.types import Chunk
from umi_llamaindex._convert import NODE_CONTENT, NODE_FIELDS, NODE_ID, START, Places, restored, to_chunks, with_text


def index_pages(index: VectorStoreIndex, keys: PlaceKeys) -> Iterator[tuple[list[Chunk], Any]]:
    """Yield the chunks of an index and their vectors (n, dim), page by page.

    Raises:
        ConfigError: If the index's vector store is neither a `ChromaVectorStore` nor a `SimpleVectorStore`.
    """
    vector_store = index.vector_store
    collection = chroma_collection(vector_store, "ChromaVectorStore")
    following = Places()
    if collection is not None:  # then the docstore is empty, and the collection holds the nodes
        for records, vectors in pages_with_text(collection):
            nodes = [_node(id, text or "", metadata) for id, text, metadata in records]
            rows = zip(to_chunks(nodes, keys, following), nodes, records, strict=True)
            pairs = [(record, _as_recorded(chunk, node, record.metadata, keys)) for chunk, node, record in rows]
            yield [copied_chunk(record, chunk, partial(node_chunk_of_record, keys)) for record, chunk in pairs], vectors
    elif isinstance(vector_store, SimpleVectorStore):
        nodes = with_text(index.docstore.get_nodes(list(index.index_struct.nodes_dict)))
        yield to_chunks(nodes, keys, following), [vector_store.get(node.node_id) for node in nodes]
    else:
        raise ConfigError(
            f"the index keeps its vectors in {type(vector_store).__name__}; expected ChromaVectorStore or "
            "SimpleVectorStore; for a UmiVectorStore, use its .retriever(); for any other store, give its nodes to "
            "from_nodes"
        )


def node_chunk_of_record(keys: PlaceKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    """The chunk of a record of a Chroma collection, with a position only if the node or the metadata states one."""
    node = _node(id, text, dict(metadata))
    return _as_recorded(to_chunks([node], keys)[0], node, metadata, keys)


def _node(id: str, text: str, metadata: dict[str, Any]) -> BaseNode:
    """The node of a record of a Chroma collection; raises InvalidChunk if its JSON cannot be read."""
    if NODE_CONTENT not in metadata:
        return TextNode(id_=id, text=text, metadata=metadata)
    try:
        return restored(metadata, text)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidChunk(
            f"record {id!r:.80}: its {NODE_CONTENT} is no node ({type(error).__name__}); write it again or delete it"
        ) from error


def _as_recorded(chunk: Chunk, node: BaseNode, record: Mapping[str, Any], keys: PlaceKeys) -> Chunk:
    """`chunk`, made of a record's node, with the changes that other programs have made in the record's metadata.

    Two differences are no changes: "" in the record for None, and a float that the server has rounded. The search text
    does not change, because the record's vector was made from it.
    """
    if NODE_CONTENT not in record:
        return chunk
    now: dict[str, Any] = {}
    own = {NODE_ID, START, *NODE_FIELDS}
    for key, written in node.metadata.items():
        value = record.get(key)
        if key in own or same_float(written, value) or (written is None and value in (None, "")):
            now[key] = written
        elif key in record:
            now[key] = value
    now |= {key: record[key] for key in sorted(record.keys() - node.metadata.keys() - own)}
    if repr(now) == repr(node.metadata):
        return chunk
    changed = to_chunks([node.model_copy(update={"metadata": now})], keys)[0]
    position = chunk.position if changed.position is None else changed.position
    return replace(changed, search_text=chunk.search_text, position=position)
