"""Pack the documents of any LangChain retriever into a token budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict

from umi_common.context.budget import AssemblyPolicy, ContextPart, TokenBudget, without_layout
from umi_common.context.pieces import HEAD_KEY, LINE_KEY
from umi_common.frameworks.options import TakesBudget
from umi_common.frameworks.records import IDS_KEY, PlaceKeys
from umi_common.frameworks.scores import edges_first
from umi_common.search.passages import assemble_for
from umi_common.search.request import end_of
from umi_common.types import Hit, utf8_text
from umi_langchain._convert import SCORE_KEY, to_chunks
from umi_langchain._positions import PAGE, START_INDEX, document_source, sources_in_parts


class UmiCompressor(TakesBudget, BaseDocumentCompressor):
    """Returns the documents that fit a token budget. Repeats are left out, adjacent texts joined, and long texts cut
    around the passage that answers the query.

    The budget counts the texts and the blank line that LangChain's chains put between two of them; metadata is not
    counted. Documents with a higher score are chosen first. The score is `metadata["relevance_score"]` if all documents
    have one and the list is sorted by it, else 1 / rank: a reranker may change the order without changing the scores.

    The result holds copies with the documents' ids and metadata. A document joined from several has the id and the
    metadata of the first one, and the ids of all in `metadata["umi_ids"]`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    budget: TokenBudget = TokenBudget()
    """Limits in tokens: in total, per source and per document. A number limits the total."""
    policy: AssemblyPolicy = AssemblyPolicy()
    """Order of the documents, and which documents count as repeats. Its format, header and citations are not used."""
    counter: Any = None
    """Counts tokens: name of a model or encoding, a tokenizer, or a function; None: the default of `counter_for`."""
    source_key: str | None = "source"
    """As in `UmiRetriever`."""
    position_key: str | None = "position"
    """As in `UmiRetriever`."""
    time_key: str | None = "timestamp"
    """As in `UmiRetriever`."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The documents that fit the budget, in the policy's order. Blank documents are left out.

        Raises:
            BudgetError: If the budget cannot hold one character of any document.
            InvalidChunk: If the time of a document is a datetime without a zone; the message names the document.
        """
        filled = [
            document.model_copy(update={"page_content": utf8_text(document.page_content)})
            for document in documents
            if document.page_content.strip()
        ]
        keys = PlaceKeys(self.source_key, self.position_key, self.time_key)
        in_parts = sources_in_parts(filled, self.source_key)
        ids, chunks = to_chunks([self._with_read_metadata(document, in_parts) for document in filled], keys)
        scores = scores_of_documents(filled)
        # Documents of two stores may have the same id, so (id, text) identifies a document. Of equals the first counts.
        first_rows: dict[tuple[str, str], int] = {}
        for row, (id, document) in enumerate(zip(ids, filled, strict=True)):
            first_rows.setdefault((id, document.page_content), row)
        by_pair = {(chunk.id, chunk.text): chunk for chunk in reversed(chunks)}
        hits = [
            Hit(replace(by_pair[pair], id=f"{row:06}"), scores[row], rank)
            for rank, (pair, row) in enumerate(first_rows.items(), start=1)
        ]
        policy = without_layout(self.policy)
        context = assemble_for(end_of(query or ""), hits, budget=self.budget, policy=policy, counter=self.counter)
        return [_document(part, filled[int(part.ids[0])], [ids[int(row)] for row in part.ids]) for part in context]

    def _with_read_metadata(self, document: Document, in_parts: set[str]) -> Document:
        """A copy with only the metadata that packing reads: other values may be objects that no chunk can hold.

        Args:
            in_parts: The result of `sources_in_parts`. Copies of documents of these sources have no start index,
                because the order of the parts is not known.
        """
        places = (self.source_key, self.position_key, self.time_key, START_INDEX, PAGE)
        read = {*places, self.policy.kind_key, *self.policy.offset_keys, HEAD_KEY, LINE_KEY}
        metadata = {key: value for key, value in document.metadata.items() if key in read}
        if document_source(document, self.source_key) in in_parts:
            metadata.pop(START_INDEX, None)
        return document.model_copy(update={"metadata": metadata})


def scores_of_documents(documents: Sequence[Document], key: str = SCORE_KEY) -> list[float]:
    """A score for each document: `metadata[key]` if these values fit the order of the list, else 1 / rank, rank from 1.

    The values fit if all are finite, and either fall along the list or are in the order of `LongContextReorder`. They
    do not fit after a reranker that changes the order and leaves the retriever's scores in the metadata.
    """
    stated = [document.metadata.get(key) for document in documents]
    if all(isinstance(score, (int, float, np.number)) and math.isfinite(score) for score in stated):
        scores = [float(score) for score in stated if score is not None]
        if scores == sorted(scores, reverse=True) or edges_first(scores):
            return scores
    return [1.0 / rank for rank in range(1, len(documents) + 1)]


def _document(part: ContextPart, first: Document, ids: list[str]) -> Document:
    """The document of a part of the context: `first` with the part's text and score; with `ids` if it joins several."""
    metadata = {**first.metadata, SCORE_KEY: part.score}
    if len(ids) > 1:
        metadata[IDS_KEY] = ids
    start = metadata.get(START_INDEX)
    if isinstance(start, int) and start >= 0:
        metadata[START_INDEX] = start + part.spans[0].start
    return Document(id=first.id, page_content=part.text, metadata=metadata)
