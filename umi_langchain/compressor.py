"""umi's packing and ranking stages as LangChain document compressors, for the documents of any retriever.

Each stage works in a `ContextualCompressionRetriever` or a `DocumentCompressorPipeline`. The given documents are not
changed. The ranking stages ignore the query. Their score of a document is `metadata[score_key]` if all documents have a
finite score there and the list is sorted by it, else 1 / rank. If a score is negative, the smallest is subtracted.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pprint import pformat
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict

from umi_common.context.budget import AssemblyPolicy, ContextPart, TokenBudget, without_layout
from umi_common.context.pieces import HEAD_KEY, LINE_KEY
from umi_common.embedders import as_embedder, unit_rows
from umi_common.frameworks.classes import CheckedFields, TakesBudget
from umi_common.frameworks.ranking import (
    DecayFields,
    MmrFields,
    NearDuplicatesFields,
    NeighboursFields,
    Ranked,
    edges_first,
)
from umi_common.frameworks.records import IDS_KEY, PlaceKeys, position_in_metadata, source_in_metadata
from umi_common.pool import NO_POSITION, Floats, Vectors, source_codes
from umi_common.search.passages import assemble_for
from umi_common.search.request import end_of
from umi_common.types import Hit, utf8_text
from umi_langchain._convert import (
    PAGE,
    REASONS_KEY,
    SCORE_KEY,
    START_INDEX,
    document_source,
    sources_in_parts,
    to_chunks,
)


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
        """A copy with only the metadata that packing reads: other values may be objects that no chunk can hold. In the
        sources `in_parts`, the order of the parts is not known, so start indexes are left out."""
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


class _Stage(CheckedFields, BaseDocumentCompressor):
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", allow_inf_nan=False)

    score_key: str = SCORE_KEY
    """Metadata key under which a document's score is read and written."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The documents that the stage keeps, in the stage's order; copies if the stage changes scores."""
        documents = list(documents)
        if not documents:
            return []
        given = np.array(scores_of_documents(documents, self.score_key), dtype=np.float64)
        rows, scores = self._ranked(documents, given - min(0.0, float(given.min())))
        if scores is None:
            return [documents[row] for row in rows]
        kept = [(documents[row], {self.score_key: float(scores[row])}) for row in rows]
        return [document.model_copy(update={"metadata": {**document.metadata, **scored}}) for document, scored in kept]

    @abstractmethod
    def _ranked(self, documents: Sequence[Document], scores: Floats) -> Ranked:
        """The result for n documents with scores (n,) >= 0; see `Ranked`."""


class UmiDecay(DecayFields, _Stage):
    """Multiply scores by floor + (1 - floor) * 2 ** (-age / half_life_hours), and sort the documents by the new scores.

    The age is in hours. A document without a time keeps its score; a time in the future has age 0.
    """

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> Ranked:
        return self.decayed(scores, (document.metadata for document in documents))


class UmiNeighbours(NeighboursFields, _Stage):
    """Add to each score a share of the scores of the adjacent documents of the same source, and sort by the sums.

    Documents are adjacent if their positions differ by 1. The sums are scaled so that the largest is 1; the formula is
    in `ranking.neighbours.neighbour_scores`.
    """

    source_key: str = "source"
    """Metadata key of the source, such as a file, that a document is a part of."""
    position_key: str = "position"
    """Metadata key of the document's position in its source, a whole number."""

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> Ranked:
        sources = source_codes(source_in_metadata(document.metadata.get(self.source_key)) for document in documents)
        stated = [position_in_metadata(document.metadata.get(self.position_key)) for document in documents]
        positions = np.array([NO_POSITION if each is None else each for each in stated], dtype=np.int64)
        return self.gained(scores, sources, positions, [document.page_content for document in documents])


class UmiNearDuplicates(NearDuplicatesFields, _Stage):
    """Remove duplicates: of equal or nearly equal documents, the one with the best score stays.

    The order and the scores of the remaining documents do not change. Two documents are equal if their texts differ
    only in case, white space, Unicode form or punctuation. They are nearly equal if one text is the other with words
    added, the cosine of the texts is at least `similarity`, and the metadata is equal except for the keys `score_key`
    and "umi_reasons". Texts that differ in a number, a name, a negation or the order of words are not nearly equal.
    """

    embedding: Any = None
    """Embeds the texts; None: umi's built-in model."""

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> Ranked:
        of_search = (self.score_key, REASONS_KEY)
        groups = [
            pformat({key: value for key, value in document.metadata.items() if key not in of_search})  # sorts the keys
            for document in documents
        ]
        texts = [document.page_content for document in documents]
        return self.distinct(scores, texts, _vectors(texts, self.embedding), groups)


class UmiMMR(MmrFields, _Stage):
    """Choose documents one by one by maximal marginal relevance: relevant, and unlike the documents chosen before.

    The documents are returned in the order in which they are chosen. The relevance of a document is its score, scaled
    to 0..1 over all documents. The scores in the metadata do not change.
    """

    embedding: Any = None
    """Embeds the texts; None: umi's built-in model."""

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> Ranked:
        return self.chosen(scores, _vectors([document.page_content for document in documents], self.embedding))


def _vectors(texts: Sequence[str], embedding: Any) -> Vectors:
    return unit_rows(as_embedder(embedding).embed_documents(texts))
