"""umi's ranking stages as LangChain document compressors, for the documents of any retriever.

Each stage works in a `ContextualCompressionRetriever` or a `DocumentCompressorPipeline`, and ignores the query. A
document's score is `metadata[score_key]` if all documents have a finite score there and the list is sorted by it, else
1 / rank. If a score is negative, the smallest score is subtracted from all. The given documents are not changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pprint import pformat
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict

from umi_common.embedders import as_embedder, unit_rows
from umi_common.frameworks.options import CheckedFields
from umi_common.frameworks.records import position_in_metadata, source_in_metadata
from umi_common.frameworks.stages import DecayFields, MmrFields, NearDuplicatesFields, NeighboursFields, Ranked
from umi_common.pool import NO_POSITION, Floats, Vectors, source_codes
from umi_langchain._convert import REASONS_KEY, SCORE_KEY
from umi_langchain.compressor import scores_of_documents


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
