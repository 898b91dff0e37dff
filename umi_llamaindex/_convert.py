"""LlamaIndex nodes to chunks and back. Nothing a caller passes in is changed.

A chunk keeps the node as LlamaIndex itself would store it, without the text: as JSON under `_node_content`. So ids,
relationships, templates, excluded keys and nested metadata come back; datetimes come back as ISO strings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from umi_common.embedders import unit_rows
from umi_common.errors import ConfigError, InvalidChunk, InvalidVector, SearchUnavailable
from umi_common.framework_records import PlaceKeys, collection_pages, plain_metadata, to_chunk, to_metadata
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.valid_batch import SkippedChunk
from umi_common.types import Chunk, Hit

NodeScore = Literal["score", "relevance"]
"""Which field of a hit a node's score is."""
NODE_CONTENT = "_node_content"
NODE_ID = "_node_id"
REF_DOC_ID = "ref_doc_id"
START = "start_char_idx"
"""A node's field, and the key under which umi's context assembly looks for it."""
KEPT = (NODE_CONTENT, "_node_type", "document_id", "doc_id", REF_DOC_ID)
"""What LlamaIndex's vector stores write beside a node's own metadata; theirs wins over a key of the same name."""
SAME_MODEL = 0.99
"""Cosine of two embeddings of one text by one model, at least; services round theirs differently from call to call."""
FILE_PATH = "file_path"
"""Metadata key for the file, as `SimpleDirectoryReader` writes it."""
SOURCE_KEY = "source"
"""Where a node without a source node may name what it was cut from."""


def to_chunks(
    nodes: Iterable[BaseNode],
    keys: PlaceKeys,
    seen: Counter[str | None] | None = None,
    skipped: list[SkippedChunk] | None = None,
) -> list[Chunk]:
    """A chunk per node, with the node's id. What LlamaIndex would embed is searched: text and metadata, by the node's
    template and without its `excluded_embed_metadata_keys`.

    Its source is what `keys` say, else the node's `ref_doc_id`, else metadata["source"]; its position what `keys` say,
    else its first character's place in its document, else the node's place among those of its source.

    Args:
        nodes: Text nodes in reading order.
        keys: Where source, position and time stand in the metadata.
        seen: How many nodes of each source came before, brought up to date; None: take no place for a position.
        skipped: Gets the nodes that cannot be stored, which are left out; None: they raise.

    Raises:
        InvalidChunk: Names the node.
    """
    chunks = []
    for place, node in enumerate(nodes):
        if not isinstance(node, BaseNode):
            raise InvalidChunk(
                f"node {place} is {type(node).__name__}; expected a list of LlamaIndex nodes or Documents; "
                "TextNode(text=...) holds a string"
            )
        source = node.ref_doc_id if node.ref_doc_id is not None else node.metadata.get(SOURCE_KEY)
        source = None if source is None else str(source)
        start = getattr(node, START, None)
        if seen is not None and start is None:
            start = seen[source]
        try:
            chunk = to_chunk(
                node.get_content(MetadataMode.NONE),
                {**node.metadata, **_kept(node)},
                id=node.node_id,
                keys=keys,
                source=source,
                position=start,
                search_text=node.get_content(MetadataMode.EMBED),
            )
        except InvalidChunk as error:
            if skipped is None:
                raise InvalidChunk(
                    f'node {place}: {error}; from_nodes(..., on_invalid="skip") leaves such nodes out'
                ) from error
            skipped.append(SkippedChunk(place, node.node_id, source, str(error)))
            continue
        if seen is not None:
            seen[source] += 1
        chunks.append(chunk)
    return chunks


def add_embedded(store: HybridStore, nodes: Sequence[BaseNode], chunks: Sequence[Chunk]) -> None:
    """Store those chunks whose nodes bring their embeddings, and are not stored yet.

    Raises:
        InvalidVector: If the embedding of the first one is not what the store's model makes of it; names the node.
    """
    given_by_id = {node.node_id: node.embedding for node in nodes}
    pairs = [(chunk, vector) for chunk in chunks if (vector := given_by_id[chunk.id]) is not None]
    stored = store.get([chunk.id for chunk, _ in pairs])
    new = [pair for pair, known in zip(pairs, stored, strict=True) if pair[0] != known]
    if not new:
        return
    (first, given), model = new[0], store.embedder
    made = model.embed_documents([first.indexed_text])[0]
    if len(given) != len(made) or unit_rows([given])[0] @ unit_rows([made])[0] < SAME_MODEL:
        raise InvalidVector(
            f"node {first.id!r}: its embedding is not what embed_model gives for it ({model.name!r}); give the model "
            "that made it, or set node.embedding = None"
        )
    store.add([chunk for chunk, _ in new], vectors=[vector for _, vector in new])


def node_origin(chunk: Chunk, source_key: str | None) -> Hashable:
    """What a stored node was cut from, in any version of it.

    The metadata under `source_key`; else the file that a reader names; else its document's id; else, where that was
    made anew by LlamaIndex, text and metadata: only the same node replaces it.
    """
    for key in (source_key, FILE_PATH):
        if key is not None and key in chunk.metadata:
            return key, chunk.metadata[key]
    document = chunk.metadata.get(REF_DOC_ID)
    if isinstance(document, str) and not _is_random(document):
        return REF_DOC_ID, document
    return chunk.text, frozenset((key, value) for key, value in chunk.metadata.items() if key not in (NODE_ID, *KEPT))


def _is_random(id: str) -> bool:
    try:
        return UUID(id).version == 4
    except ValueError:
        return False


def index_pages(index: VectorStoreIndex, keys: PlaceKeys) -> Iterator[tuple[list[Chunk], Any]]:
    """The chunks of an index with their vectors (n, dim), page by page.

    Raises:
        ConfigError: If its vector store is neither Chroma nor LlamaIndex's own simple one.
    """
    vector_store = index.vector_store
    collection = getattr(vector_store, "_collection", None)
    seen: Counter[str | None] = Counter()
    if collection is not None:  # its docstore is empty: the nodes are in the collection
        for page in collection_pages(collection):
            rows = zip(page.ids, page.texts, page.metadatas, strict=True)
            yield to_chunks([_node(id, text, metadata) for id, text, metadata in rows], keys, seen), page.vectors
    elif isinstance(vector_store, SimpleVectorStore):
        ids = list(index.index_struct.nodes_dict)
        yield to_chunks(index.docstore.get_nodes(ids), keys, seen), [vector_store.get(id) for id in ids]
    else:
        raise ConfigError(
            f"the index keeps its vectors in {type(vector_store).__name__}; expected ChromaVectorStore or "
            "SimpleVectorStore; a UmiVectorStore has its own: .retriever(); for any other, give its nodes to from_nodes"
        )


def node_chunk_of_record(keys: PlaceKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    """The chunk of a record of a Chroma collection; without a position where neither node nor metadata names one.

    Raises:
        InvalidChunk: If it cannot be one.
    """
    return to_chunks([_node(id, text, dict(metadata))], keys)[0]


def to_scored_node(hit: Hit, score: NodeScore = "score") -> NodeWithScore:
    """A new node with the hit's score, or with its relevance. Raises SearchUnavailable if that is not known."""
    if score == "relevance" and hit.relevance is None:
        raise SearchUnavailable(
            "score='relevance': the relevance is not known, because the store answered by words alone and gives no "
            "bound of their scores (Pool.lexical_bound); retrieve with score='score'"
        )
    return NodeWithScore(node=to_node(hit.chunk), score=hit.score if score == "score" else hit.relevance)


def to_node(chunk: Chunk) -> BaseNode:
    """The node of a chunk; a `TextNode` where the chunk came from elsewhere, its source as source node."""
    metadata = dict(chunk.metadata)
    if NODE_CONTENT in metadata:
        return metadata_dict_to_node(metadata, text=chunk.text)
    node = TextNode(id_=chunk.id, text=chunk.text, metadata=to_metadata(chunk))
    if chunk.source is not None:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=chunk.source)
    return node


def _node(id: str, text: str, metadata: dict[str, Any]) -> BaseNode:
    if NODE_CONTENT in metadata:
        return metadata_dict_to_node(metadata, text=text)
    return TextNode(id_=id, text=text, metadata=metadata)


def _kept(node: BaseNode) -> dict[str, Any]:
    """What is stored beside the node's own metadata: its JSON without the text, its id, its document's id."""
    changes: dict[str, Any] = {"metadata": plain_metadata(node.metadata), "embedding": None}
    if isinstance(node, IndexNode):
        changes["obj"] = None  # what it points at is found by its index_id
    plain = node.model_copy(update=changes)
    try:
        stored = node_to_metadata_dict(plain, remove_text=True)
    except (TypeError, ValueError) as error:  # pydantic's serialisation errors are ValueErrors
        raise InvalidChunk(f"node {node.node_id!r} cannot be written as JSON: {error}") from error
    keys = KEPT if node.ref_doc_id is not None else KEPT[:2]  # a document called "None" would be everybody's
    start = getattr(node, START, None)
    place = {} if start is None else {START: start}
    return {NODE_ID: node.node_id, **place, **{key: stored[key] for key in keys}}
