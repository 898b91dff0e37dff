"""Convert LlamaIndex nodes to chunks and back. The nodes that a caller passes are not changed.

A chunk's metadata is the node's own, and beside it, as in LlamaIndex's own stores, the node as JSON without the text.
From this JSON ids, relationships, templates, excluded keys and nested metadata are restored. Example, a node of "d":

    {"author": "ann", "_node_id": "n", "start_char_idx": 10, "_node_content": "{...}", "_node_type": "TextNode",
     "document_id": "d", "doc_id": "d", "ref_doc_id": "d"}

Datetimes become ISO strings.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any
from uuid import UUID

from llama_index.core.schema import (
    BaseComponent,
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore.utils import doc_to_json
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from umi_common.embedders import unit_rows
from umi_common.errors import InvalidChunk, InvalidVector
from umi_common.filters import parse_filter
from umi_common.frameworks.records import (
    IDS_NAMED,
    PlaceKeys,
    plain_metadata,
    position_in_metadata,
    source_in_metadata,
    to_chunk,
    to_metadata,
)
from umi_common.frameworks.writing import KnownSources
from umi_common.protocols import pages
from umi_common.stores.batch_checks import SkippedChunk, check_no_table, taken_by
from umi_common.types import Chunk, plain_value

log = logging.getLogger("umi")

NODE_CONTENT, NODE_TYPE, NODE_ID = "_node_content", "_node_type", "_node_id"
"""Metadata keys of the node as JSON, of the name of its class, and of its id."""
REF_DOC_ID = "ref_doc_id"
"""Metadata key of the id of the node's document."""
START = "start_char_idx"
"""Field of a node, and key of its metadata for umi's context assembly: index of its first character, see
`document_start`."""
DOCUMENT_FIELDS = ("document_id", "doc_id")
"""Metadata keys under which other stores look for the document's id."""
NODE_FIELDS = (NODE_CONTENT, NODE_TYPE, *DOCUMENT_FIELDS, REF_DOC_ID)
"""Metadata keys that LlamaIndex's vector stores add."""
SAME_MODEL_COSINE = 0.99
"""Smallest cosine at which two embeddings of one text count as made by one model. It is below 1, because embedding
services round differently from call to call."""
FILE_PATH = "file_path"
"""Metadata key under which `SimpleDirectoryReader` writes the path of the file."""
SOURCE_KEY = "source"
"""Metadata key of the source of a node without a document."""
SKIP_ADVICE = '; from_nodes(..., on_invalid="skip") or UmiVectorStore(on_invalid="skip") leaves such nodes out'


def to_chunks(
    nodes: Iterable[BaseNode],
    keys: PlaceKeys,
    following: Places | None = None,
    skipped: list[SkippedChunk] | None = None,
    *,
    advice: str = "",
) -> list[Chunk]:
    """The chunks of the nodes that are not skipped, in order. A chunk has the id of its node.

    The indexed text is the text that LlamaIndex would embed: text and metadata in the node's template, without the
    keys in `excluded_embed_metadata_keys`. The source is the metadata under `keys.source`, else the node's
    `ref_doc_id`, else metadata["source"]. The position is the metadata under `keys.position`, else that of `following`.

    Args:
        nodes: Text nodes in reading order.
        following: Gives a position for each node. If the node becomes a chunk, this position is then taken, also if
            the metadata state another. None: the position is the node's `document_start`, if it has one.
        skipped: A node that cannot be stored, or repeats the id of an earlier node, is appended here and left out.
            None: a node that cannot be stored raises InvalidChunk, which names it and ends with `advice`, and repeated
            ids are kept.
    """
    chunks, taken = [], set()
    for index, node in enumerate(nodes):
        check_node(index, node)
        source = node_source(node, keys)
        position = document_start(node) if following is None else following.of(node, source)
        try:
            chunk = to_chunk(
                node.get_content(MetadataMode.NONE),
                {**node.metadata, **_added_metadata(node)},
                id=node.node_id,
                keys=keys,
                source=source,
                position=position,
                search_text=_embedded_text(node),
            )
            if skipped is not None and chunk.id in taken:
                raise InvalidChunk(f"id {chunk.id!r:.80} comes twice in this batch; the first is kept")
        except InvalidChunk as error:
            if skipped is None:
                raise InvalidChunk(f"node {index}: {error}{advice}") from error
            skipped.append(SkippedChunk(index, node.node_id, source, str(error)))
            continue
        if following is not None and position is not None:
            following.take(source, position)
        taken.add(chunk.id)
        chunks.append(chunk)
    return chunks


def _embedded_text(node: BaseNode) -> str:
    """The text that LlamaIndex embeds, with sets in the metadata sorted: another process may have another order."""
    sets = {key: value for key, value in node.metadata.items() if isinstance(value, (set, frozenset))}
    if sets:
        lists = {key: sorted(value, key=repr) for key, value in sets.items()}
        node = node.model_copy(update={"metadata": node.metadata | lists})
    return node.get_content(MetadataMode.EMBED)


def check_node(index: int, node: object, holder: str = "TextNode(text=...)") -> None:
    """Raise InvalidChunk if the item at `index` of a list is no node; the message suggests `holder` for a string."""
    if not isinstance(node, BaseNode):
        advice = "; give its .node" if isinstance(node, NodeWithScore) else taken_by(node, "llama_index")
        raise InvalidChunk(
            f"node {index} is {type(node).__name__}; expected a list of LlamaIndex nodes or Documents; "
            f"wrap a string as {holder}{advice}"
        )


def node_source(node: BaseNode, keys: PlaceKeys) -> str | None:
    """The source of a node's chunk, as `to_chunks` describes it."""
    stated = None if keys.source is None else source_in_metadata(node.metadata.get(keys.source))
    if stated is not None:
        return stated
    return source_in_metadata(node.metadata.get(SOURCE_KEY)) if node.ref_doc_id is None else node.ref_doc_id


def document_start(node: BaseNode) -> int | None:
    """Index of the node's first character in its document; None: not known, as for a node with a parent:
    `HierarchicalNodeParser` counts its `start_char_idx` in the parent's text."""
    return None if NodeRelationship.PARENT in node.relationships else getattr(node, START, None)


class Places:
    """Gives positions to nodes whose metadata state none. By its position, a chunk is in reading order in its source.

    A node with a `document_start` gets this number, added to the first free position of the source when the node's
    document began. Another node gets the first free position. So two documents of one source, each with nodes that
    start at 0 and 900, get 0, 900, 901 and 1801.

    Args:
        free: Source -> its first free position before these nodes; 0 for other sources.
    """

    def __init__(self, free: Mapping[str | None, int] | None = None) -> None:
        self._free = Counter(free)
        self._begun: dict[tuple[str | None, str | None], int] = {}
        """(source, document) -> first free position when the first node of the document came."""

    def of(self, node: BaseNode, source: str | None) -> int:
        """The node's position; if the source is the node's document itself, its `document_start`."""
        start = document_start(node)
        if start is None:
            return self._free[source]
        if source == node.ref_doc_id:
            return start
        return start + self._begun.setdefault((source, node.ref_doc_id), self._free[source])

    def take(self, source: str | None, position: int) -> None:
        """Positions up to this one are no longer free."""
        self._free[source] = max(self._free[source], position + 1)


class SourceEnds(KnownSources):
    """Gives nodes that state no position the positions after the last stored node of their source."""

    def placed(
        self, nodes: Sequence[BaseNode], skipped: list[SkippedChunk] | None
    ) -> AbstractContextManager[list[Chunk]]:
        """A context manager that gives the chunks, made by `to_chunks`; the `with` block must store them."""
        return self._stored(lambda: to_chunks(nodes, self.keys, self._following(nodes), skipped, advice=SKIP_ADVICE))

    def _following(self, nodes: Sequence[BaseNode]) -> Places:
        """Positions that begin, in each source, after the stored nodes or, if some of `nodes` are stored already, at
        the smallest position of these."""
        key = self.keys.position
        nodes = [node for node in nodes if isinstance(node, BaseNode)]
        own = {
            node.node_id: source
            for node in nodes
            if (source := node_source(node, self.keys)) is not None
            and (document_start(node) is None or source != node.ref_doc_id)
            and (key is None or position_in_metadata(node.metadata.get(key)) is None)
        }
        self._read(set(own.values()) - self._sources.keys(), nodes)
        free: dict[str | None, int] = {source: self._sources[source] for source in own.values()}
        for id, chunk in zip(own, self.store.get(list(own)), strict=True):
            if chunk is not None and chunk.position is not None:
                free[own[id]] = min(free[own[id]], chunk.position)
        return Places(free)

    def _read(self, sources: set[str], nodes: Sequence[BaseNode]) -> None:
        """Set `_sources`, the next position of each source, from the stored chunks and those that are being stored."""
        self._sources |= dict.fromkeys(sources, 0)
        if not sources:
            return
        keys = {REF_DOC_ID, SOURCE_KEY, self.keys.source or SOURCE_KEY}
        # The metadata of source "5" may hold the number 5; one beyond 64 bits cannot be stored.
        stated = (plain_value(node.metadata.get(key)) for node in nodes for key in keys)
        numbers = {repr(value): value for value in stated if isinstance(value, (int, float)) and abs(value) < 2**63}
        conditions = [{key: {"$in": [*sorted(sources), *numbers.values()]}} for key in sorted(keys)]
        for chunks in chain(pages(self.store, where=parse_filter({"$or": conditions})), self._pending):
            self._note(chunks)

    def _note(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if chunk.source in self._sources and chunk.position is not None:
                self._sources[chunk.source] = max(self._sources[chunk.source], chunk.position + 1)


def _added_metadata(node: BaseNode) -> dict[str, Any]:
    """Metadata to store beside the node's own (an example is at the top of this file). They replace the node's own
    values under the same keys, except under DOCUMENT_FIELDS. Raises InvalidChunk if JSON cannot hold the node.

    The JSON of an index node also holds the node that the index node refers to, but no retriever or engine.
    """
    plain, target = _plain(node), node.obj if isinstance(node, IndexNode) else None
    try:
        stored = node_to_metadata_dict(plain, remove_text=True)
        if isinstance(target, BaseNode):
            content = {**json.loads(stored[NODE_CONTENT]), "obj": doc_to_json(_plain(target))}
            stored[NODE_CONTENT] = json.dumps(content, ensure_ascii=False)
    except (TypeError, ValueError) as error:  # pydantic's serialisation errors are ValueErrors
        raise InvalidChunk(f"node {node.node_id!r} cannot be written as JSON: {error}") from error
    start, keys = document_start(node), [NODE_CONTENT, NODE_TYPE]
    if node.ref_doc_id is not None:  # else LlamaIndex writes the id "None", so such nodes would seem to be one document
        keys += [*(key for key in DOCUMENT_FIELDS if key not in node.metadata), REF_DOC_ID]
    ids = {NODE_ID: node.node_id} if start is None else {NODE_ID: node.node_id, START: start}
    return ids | {key: stored[key] for key in keys}


def _plain(node: BaseNode) -> BaseNode:
    """A copy that JSON can hold: without the embedding, and without the object that an index node refers to."""
    without = {"embedding": None, "obj": None} if isinstance(node, IndexNode) else {"embedding": None}
    return node.model_copy(update={"metadata": plain_metadata(node.metadata), **without})


def listed(nodes: Any, name: str = "nodes") -> list[Any]:
    """The items of the argument `name` as a list; raises InvalidChunk for one node, a string or None."""
    if not isinstance(nodes, Iterable) or isinstance(nodes, (str, BaseComponent)):
        raise InvalidChunk(f"{name} is {type(nodes).__name__}; expected a list of LlamaIndex nodes or Documents")
    check_no_table(name, nodes, "TextNode(text=row.pop('text'), metadata=row)")
    return list(nodes)


def is_blank(node: object) -> bool:
    """Whether `node` has neither an image nor a text other than white space, as the node of an empty page."""
    if not isinstance(node, (TextNode, Document)) or isinstance(node, ImageNode):
        return False
    return getattr(node, "image_resource", None) is None and not node.get_content(MetadataMode.NONE).strip()


def node_text(item: NodeWithScore) -> str:
    """The text of the node, without metadata."""
    return item.node.get_content(MetadataMode.NONE)


def with_text(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    """The nodes that are not blank. A warning gives the number of blank nodes, and at most IDS_NAMED of their ids."""
    blank = [node.node_id for node in nodes if is_blank(node)]
    if blank:
        log.warning("%d nodes without text are left out: %s", len(blank), ", ".join(blank[:IDS_NAMED]))
    return [node for node in nodes if not is_blank(node)]


def without_skipped(nodes: Sequence[BaseNode], skipped: Iterable[SkippedChunk]) -> list[BaseNode]:
    """The nodes that `to_chunks` did not add to `skipped`, aligned with the chunks that it returned."""
    places = {each.place for each in skipped}
    return [node for place, node in enumerate(nodes) if place not in places]


def add_embedded(store: Any, nodes: Sequence[BaseNode], chunks: Sequence[Chunk]) -> None:
    """Add each chunk whose node has an embedding to the store, with the embedding as its vector.

    Chunks that the `HybridStore` already holds unchanged are not added again. The first new chunk is also embedded by
    the store's model, to check that this model made the embeddings.

    Raises:
        InvalidVector: If the embedding and the model's vector of the first new chunk differ in dimension, or have a
            cosine below SAME_MODEL_COSINE.
    """
    pairs = [(chunk, node.embedding) for chunk, node in zip(chunks, nodes, strict=True) if node.embedding is not None]
    stored = store.get([chunk.id for chunk, _ in pairs])
    new = [pair for pair, known in zip(pairs, stored, strict=True) if pair[0] != known]
    if not new:
        return
    first, given = new[0]
    made = store.embedder.embed_documents([first.indexed_text])[0]
    if len(given) != len(made) or unit_rows([given])[0] @ unit_rows([made])[0] < SAME_MODEL_COSINE:
        raise InvalidVector(
            f"node {first.id!r}: its embedding is not what embed_model gives for it ({store.embedder.name!r}); give "
            "the model that made it, or set node.embedding = None"
        )
    store.add([chunk for chunk, _ in new], vectors=[vector for _, vector in new])


def node_origin(chunk: Chunk, source_key: str | None) -> Hashable:
    """`stated_origin` or, if that is None, (text, metadata) of the chunk, which only equal nodes share."""
    stated = stated_origin(chunk.metadata, chunk.metadata.get(REF_DOC_ID), source_key)
    if stated is not None:
        return stated
    own = {key: value for key, value in chunk.metadata.items() if key not in (NODE_ID, *NODE_FIELDS)}
    return chunk.text, frozenset(own.items())


def stated_origin(metadata: Mapping[str, Any], document: object, source_key: str | None) -> Hashable | None:
    """(key, value) that identifies the document of a node in all versions of the document; None: there is none.

    The value is the metadata under `source_key`, else under "file_path", if it can be a source (`source_in_metadata`);
    else the id `document`, unless it is random.
    """
    for key in (source_key, FILE_PATH):
        stated = None if key is None else source_in_metadata(metadata.get(key))
        if stated is not None:
            return key, stated
    return (REF_DOC_ID, document) if isinstance(document, str) and not _is_random(document) else None


def _is_random(id: str) -> bool:
    """Whether the id is a random UUID (version 4), which LlamaIndex gives to each new document."""
    try:
        return UUID(id).version == 4
    except ValueError:
        return False


def of_documents(ids: Sequence[str]) -> dict[str, Any]:
    """A filter for the nodes of the documents with these ids, and for the documents that were stored unsplit, each as
    a node without a document. If `ids` is empty, no node passes."""
    if not ids:
        return {REF_DOC_ID: {"$exists": True, "$not": {"$exists": True}}}
    among = {"$in": ids}
    return {"$or": [{REF_DOC_ID: among}, {NODE_ID: among, REF_DOC_ID: None}]}


def document_of(chunk: Chunk) -> str | None:
    """The `ref_doc_id` of a chunk's node, None if it has none; the source of a chunk that was not stored as a node."""
    return chunk.metadata.get(REF_DOC_ID) if NODE_CONTENT in chunk.metadata else chunk.source  # type: ignore[return-value]


def to_node(chunk: Chunk) -> BaseNode:
    """The node of a chunk. A chunk that was not a node becomes a `TextNode` with the chunk's source as source node."""
    if NODE_CONTENT in chunk.metadata:
        return restored(dict(chunk.metadata), chunk.text)
    node = TextNode(id_=chunk.id, text=chunk.text, metadata=to_metadata(chunk))
    if chunk.source is not None:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=chunk.source)
    return node


def restored(metadata: dict[str, Any], text: str) -> BaseNode:
    """The node that the JSON in a chunk's metadata describes, with this text."""
    # LlamaIndex's `metadata_dict_to_node` would make a text node of an `ImageDocument`.
    if metadata.get(NODE_TYPE) != ImageDocument.class_name():
        return metadata_dict_to_node(metadata, text=text)
    node = ImageDocument.from_json(metadata[NODE_CONTENT])
    node.set_content(text)
    return node
