"""Choose the nodes that fit a token budget. Text and metadata count, since LlamaIndex writes both into its prompt."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

from umi_common.context.budget import AssembledContext, AssemblyPolicy, ContextPart, TokenBudget, without_layout
from umi_common.context.format import Format
from umi_common.context.tokens.counter import Counter, counter_for
from umi_common.errors import BudgetError
from umi_common.filters import parse_filter
from umi_common.frameworks.classes import TakesBudget
from umi_common.frameworks.ranking import edges_first
from umi_common.frameworks.records import IDS_KEY, METADATA_ALONE, time_in
from umi_common.search.passages import assemble_for
from umi_common.search.request import end_of
from umi_common.types import Chunk, Hit, utf8_text
from umi_llamaindex._convert import START, document_start, is_blank, node_source, node_text, to_node
from umi_llamaindex.events import NamedInTraces
from umi_llamaindex.postprocessor import positions_of, scores_of


class UmiContextBudget(NamedInTraces, TakesBudget, BaseNodePostprocessor):
    """Keeps the best nodes that fit a token budget. Repeats are left out, adjacent nodes joined, and long nodes cut
    around the passage that answers the query.

    The budget limits all that the LLM reads: texts, the metadata that LlamaIndex writes beside the texts, and the
    separators. If the best node does not fit, and its metadata would take more tokens than is left for its text, the
    metadata of all nodes is hidden from the LLM; with `pack="density"`, only if no node fits. At least one node is
    returned if one has text and is of a kind that the policy allows.

    Nodes are chosen in the order of the list, nodes without a score last. If the scores show that LlamaIndex's
    `LongContextReorder` put the best nodes at both ends of the list, the best are chosen first, and all are returned in
    the order of the list. In any other list that is not sorted by score, 1 / rank replaces the scores. Images without
    text are returned after the other nodes; they count as 0 tokens, and their metadata is hidden from the LLM.

    Raises:
        BudgetError: If the budget cannot hold one character of any node.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    budget: TokenBudget = TokenBudget()
    """Limits in tokens: in total, per document and per node. A number limits the total."""
    policy: AssemblyPolicy = AssemblyPolicy()
    """Order, number of neighbours, and which texts count as repeats. Its format, header and citations are ignored."""
    counter: Any = Field(default=None, exclude=True)
    """Counts tokens: name of a model or encoding, a tokenizer, or a function; None: the default of `counter_for`."""
    store: Any = Field(default=None, exclude=True)
    """The `Store` that the nodes come from, read for the neighbours that `policy` requires. None: no neighbours."""
    where: Any = None
    """Filter that neighbours must pass, usually that of the search that found the nodes; None: no filter."""
    time_key: str = "timestamp"
    """Metadata key of the event time, which the order "chronological" sorts by."""

    def __init__(self, budget: TokenBudget | int | None = None, **fields: Any) -> None:
        super().__init__(budget, **fields)
        self.where = copy.deepcopy(self.where)  # the caller may change the dict later

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = list(nodes)
        images = [item for item in nodes if not node_text(item).strip() and not is_blank(item.node)]
        query = "" if query_bundle is None else end_of(query_bundle.query_str)
        return [*self._fitting(nodes, query), *map(_with_hidden_metadata, images)]

    def _fitting(self, nodes: list[NodeWithScore], query: str) -> list[NodeWithScore]:
        """The nodes with text that fit the budget. A text is cut around the passages that answer the query."""
        by_id: dict[str, NodeWithScore] = {}
        for item in nodes:
            if node_text(item).strip():
                by_id.setdefault(item.node.node_id, item)
        if not by_id:
            return []
        items, index_of = sorted(by_id.values(), key=lambda item: item.score is None), dict[str, int]()
        if edges_first([item.score or 0.0 for item in items]):
            index_of = {item.node.node_id: index for index, item in enumerate(items)}
            items.sort(key=lambda item: -(item.score or 0.0))
        hits, around = self._hits(items)
        policy, count = without_layout(self.policy), counter_for(self.counter)

        def packed(layout: _NodeFormat) -> AssembledContext:
            return assemble_for(
                query, hits, budget=self.budget, policy=policy, counter=count, around=around, layout=layout
            )

        layout = _NodeFormat(by_id, around, index_of)
        with suppress(BudgetError):  # raised if, beside the metadata, not one character fits
            context = packed(layout)
            best = hits[0].chunk.id if policy.pack == "score" else None  # "density" may leave out a long best node
            if _has_room(context, best, layout, count):
                return layout.nodes(context.parts)
        layout.hides_metadata = True
        return layout.nodes(packed(layout).parts)

    def _hits(self, items: Sequence[NodeWithScore]) -> tuple[list[Hit], Mapping[str, list[Chunk]]]:
        """(the nodes as hits, the chunks of the store beside each hit). A node that the store holds with the same text
        is replaced by the store's chunk, whose source and position say which chunks are beside it."""
        scores = scores_of(items)
        if (np.diff(scores) > 0).any():  # the list is not sorted by score, but for example by MMR
            scores = 1.0 / np.arange(1, len(items) + 1)
        # Positions that come from relationships cannot be mixed with the positions of the store's chunks.
        positions = _positions(items) if self.store is None else [None] * len(items)
        chunks = [self._chunk(item, position) for item, position in zip(items, positions, strict=True)]
        around: Mapping[str, list[Chunk]] = {}
        if self.store is not None:
            known = self.store.get([chunk.id for chunk in chunks])
            pairs = zip(chunks, known, strict=True)
            chunks = [own if stored is None or stored.text != own.text else stored for own, stored in pairs]
            if self.policy.neighbours:
                ids = [chunk.id for chunk in chunks]
                around = self.store.neighbours(ids, reach=self.policy.neighbours, where=parse_filter(self.where))
        ranked = enumerate(zip(chunks, scores, strict=True), start=1)
        return [Hit(chunk, float(score), rank) for rank, (chunk, score) in ranked], around

    def _chunk(self, item: NodeWithScore, position: int | None) -> Chunk:
        """A chunk with the fields of a node that assembly uses."""
        node = item.node
        wanted = (self.policy.kind_key, *self.policy.offset_keys)
        facts = {key: node.metadata[key] for key in wanted if isinstance(node.metadata.get(key), (str, int))}
        start = document_start(node)
        return Chunk(
            node.node_id,
            utf8_text(node_text(item)),
            metadata=facts if start is None else {**facts, START: start},
            source=node_source(node, METADATA_ALONE),
            position=position,
            event_time=time_in(node.metadata, self.time_key),
        )


def _positions(items: Sequence[NodeWithScore]) -> list[int | None]:
    """The positions of the nodes by `positions_of`. In a document in which a node lies within another, as after two
    splitters, a node's position is its start: then text that several nodes hold is shown once."""
    spans: dict[str | None, list[tuple[int, int]]] = {}
    starts = [document_start(item.node) for item in items]
    for item, start in zip(items, starts, strict=True):
        begin = -1 if start is None else start
        spans.setdefault(item.node.ref_doc_id, []).append((begin, begin + len(node_text(item))))
    nested = set()
    for document, found in spans.items():
        found.sort(key=lambda span: (span[0], -span[1]))  # of spans with the same beginning the longest first
        if found[0][0] >= 0 and any(before[1] >= span[1] for before, span in pairwise(found)):
            nested.add(document)
    rows = zip(items, starts, positions_of(items).tolist(), strict=True)
    return [start if item.node.ref_doc_id in nested else position for item, start, position in rows]


class _NodeFormat(Format):
    """Writes a part as LlamaIndex writes its node: metadata and text, with blank lines between nodes."""

    between = "\n\n"

    def __init__(
        self, items: Mapping[str, NodeWithScore], around: Mapping[str, list[Chunk]], index_of: Mapping[str, int]
    ) -> None:
        """`items` by node id, `around` as in `assemble`; parts are sorted by the least `index_of` of their nodes."""
        self._items, self._index_of = items, index_of
        self._neighbours = {chunk.id: chunk for beside in around.values() for chunk in beside}
        self.hides_metadata = False
        """Whether the metadata is hidden from the LLM."""

    def nodes(self, parts: Iterable[ContextPart]) -> list[NodeWithScore]:
        """The nodes of the parts, in order."""

        def index(part: ContextPart) -> int:
            return min(self._index_of.get(id, len(self._index_of)) for id in part.ids)

        return [self._node(part) for part in sorted(parts, key=index)]

    def written(self, part: ContextPart) -> str:
        return self._node(part).get_content(MetadataMode.LLM)

    def render(self, parts: Sequence[ContextPart]) -> str:
        return self.between.join(item.get_content(MetadataMode.LLM) for item in self.nodes(parts))

    def text_around_parts(self) -> str:
        return ""

    def _node_of(self, id: str) -> BaseNode:
        return self._items[id].node if id in self._items else to_node(self._neighbours[id])

    def _node(self, part: ContextPart) -> NodeWithScore:
        """The node of a part: the part's first node, or a copy with the part's text."""
        scores = [self._items[id].score for id in part.ids if id in self._items]
        score = max((score for score in scores if score is not None), default=part.score)
        first = self._node_of(part.ids[0])
        item = NodeWithScore(node=first, score=score)
        if len(part.ids) > 1 or part.text != first.get_content(MetadataMode.NONE):
            item = NodeWithScore(node=_with_text_of(part, first, self._node_of(part.ids[-1])), score=score)
        return _with_hidden_metadata(item) if self.hides_metadata else item


def _with_text_of(part: ContextPart, first: BaseNode, last: BaseNode) -> BaseNode:
    """A copy of a part's first node, with the part's text, and the place of this text in the document if it is known.
    `last` is the part's last node."""
    changes: dict[str, Any] = {"embedding": None}
    if len(part.ids) > 1:
        changes["metadata"] = {**first.metadata, IDS_KEY: list(part.ids)}
        for hidden in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
            changes[hidden] = [*getattr(first, hidden), IDS_KEY]
    if part.spans[0].start and getattr(first, START, None) is not None:
        changes[START] = getattr(first, START) + part.spans[0].start
    if getattr(last, START, None) is not None:
        changes["end_char_idx"] = getattr(last, START) + part.spans[-1].end
    node = first.model_copy(update=changes)
    node.set_content(part.text)
    return node


def _has_room(context: AssembledContext, best: str | None, layout: _NodeFormat, counter: Counter) -> bool:
    """Whether the metadata leaves room for text: the best node is shown whole or with at least as much text as
    metadata, or is left out for another reason than its length."""
    if any(drop.id == best and drop.reason in ("total", "chunk") for drop in context.stats.dropped):
        return False
    shown = next((part for part in context if best in part.ids), None)
    return shown is None or not shown.trimmed or 2 * shown.tokens >= counter.count(layout.written(shown))


def _with_hidden_metadata(item: NodeWithScore) -> NodeWithScore:
    node: BaseNode = item.node.model_copy(update={"excluded_llm_metadata_keys": list(item.node.metadata)})
    return NodeWithScore(node=node, score=item.score)
