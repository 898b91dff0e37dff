"""umi's ranking stages as LangChain document compressors, for the documents of any retriever.

Each works in a `ContextualCompressionRetriever` or a `DocumentCompressorPipeline`, and ignores the query. A document's
score is `metadata[score_key]` if all documents have a finite one and are sorted by it, else 1 / rank; if a score is
negative, the smallest is subtracted from all. The input is not changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict

from umi_common.config import (
    DecayConfig,
    DuplicatesConfig,
    MmrConfig,
    NeighboursConfig,
    NotNegative,
    OneOrMore,
    Positive,
    Share,
    Similarity,
)
from umi_common.decay import decay, rate_of
from umi_common.embedders import as_embedder, unit_rows
from umi_common.framework_records import CheckedFields, ages_in_hours, position_in_metadata, source_in_metadata
from umi_common.pool import NO_POSITION, NO_SOURCE, Floats, Ints, Vectors
from umi_common.ranking.duplicates import DuplicateFinder
from umi_common.ranking.evidence import min_max
from umi_common.ranking.fusion import best_first
from umi_common.ranking.mmr import mmr
from umi_common.ranking.neighbours import spread
from umi_common.types import utc_now
from umi_langchain._convert import REASONS_KEY, SCORE_KEY
from umi_langchain.compressor import scores_of_documents


class _Stage(CheckedFields, BaseDocumentCompressor):
    """Base class: reads the documents' scores, calls `_ranked`, and returns copies with the new scores."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", allow_inf_nan=False)

    score_key: str = SCORE_KEY
    """Metadata key of a document's score, read and written."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The documents that the stage keeps, in its order; documents that get a new score are copies."""
        if not documents:
            return []
        given = np.array(scores_of_documents(documents, self.score_key), dtype=np.float64)
        rows, scores = self._ranked(documents, given - min(0.0, float(given.min())))
        if scores is None:
            return [documents[row] for row in rows]
        return [self._scored(documents[row], float(scores[row])) for row in rows]

    def _scored(self, document: Document, score: float) -> Document:
        metadata = {**document.metadata, self.score_key: score}
        return Document(id=document.id, page_content=document.page_content, metadata=metadata)

    @abstractmethod
    def _ranked(self, documents: Sequence[Document], scores: Floats) -> tuple[Ints, Floats | None]:
        """Indices of the documents to return, in order, and the new scores of all (n,); None: the scores stay."""


class UmiDecay(_Stage):
    """Multiply scores by floor + (1 - floor) * 2 ** (-age / half-life), and sort the documents by the new scores.

    A document without a time keeps its score; a time in the future has age 0.
    """

    half_life_hours: Positive
    """Age at which the factor has fallen halfway to `floor`."""
    floor: Share = DecayConfig().floor
    """Smallest factor, 0..1."""
    time_key: str = "timestamp"
    """Metadata key of the document's time: a datetime, an ISO string (UTC without a zone) or seconds since 1970."""
    clock: Callable[[], datetime] | None = None
    """Returns the present as an aware datetime; None: the computer's clock."""

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> tuple[Ints, Floats | None]:
        now = utc_now() if self.clock is None else self.clock()
        ages = ages_in_hours((document.metadata for document in documents), self.time_key, now)
        decayed = decay(scores, ages, rate=rate_of(self.half_life_hours), floor=self.floor)
        return best_first(decayed), decayed


class UmiNeighbours(_Stage):
    """Add to each score a share of the scores of the adjacent documents of the same source, and sort by the sums.

    Documents are adjacent if their positions differ by 1. The sums are scaled so that the best is 1; the formula is in
    `ranking.neighbours.spread`.
    """

    previous: NotNegative = NeighboursConfig().previous
    """Weight of the score of the document before it."""
    following: NotNegative = NeighboursConfig().following
    """Weight of the score of the document after it."""
    source_key: str = "source"
    """Metadata key of the source, such as a file, that a document is a part of."""
    position_key: str = "position"
    """Metadata key of the document's position in its source, a whole number."""

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> tuple[Ints, Floats | None]:
        sources = [source_in_metadata(document.metadata.get(self.source_key)) for document in documents]
        positions = [position_in_metadata(document.metadata.get(self.position_key)) for document in documents]
        codes = {name: code for code, name in enumerate(dict.fromkeys(sources))}
        gained = spread(
            scores,
            np.array([NO_SOURCE if name is None else codes[name] for name in sources], dtype=np.int64),
            np.array([NO_POSITION if each is None else each for each in positions], dtype=np.int64),
            np.array([len(document.page_content.split()) for document in documents], dtype=np.int64),
            np.zeros(len(documents)),
            previous=self.previous,
            following=self.following,
            source_share=0.0,
        )
        return best_first(gained), gained


class UmiNearDuplicates(_Stage):
    """Remove duplicates: of equal or near documents only the one with the best score stays. Order and scores stay.

    Two documents are equal if their texts differ only in case, white space, Unicode form and punctuation. They are near
    if one text is the other with plain words added, their cosine is at least `similarity` and their metadata is equal,
    `score_key` and "umi_reasons" apart.
    Documents that differ in a number, a name, a negation or the order of their words are not near.
    """

    similarity: Similarity = DuplicatesConfig().similarity
    """Smallest cosine of near documents."""
    embedding: Any = None
    """Embeds the texts; None: umi's embedded model."""

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> tuple[Ints, Floats | None]:
        vectors = _vectors(documents, self.embedding)
        finder = DuplicateFinder(DuplicatesConfig(similarity=self.similarity, across_sources=True))
        kept, own = [], (self.score_key, REASONS_KEY)
        for row in best_first(scores).tolist():
            document = documents[row]
            metadata = {key: value for key, value in document.metadata.items() if key not in own}
            if not finder.add(str(row), document.page_content, vectors[row], repr(sorted(metadata.items()))):
                kept.append(row)
        return np.sort(np.array(kept, dtype=np.int64)), None


class UmiMMR(_Stage):
    """Choose documents one by one by maximal marginal relevance: relevant, and unlike those chosen before.

    They are returned in the order of choice. Relevance is the score, scaled to 0..1 over the documents; the scores in
    the metadata stay.
    """

    top_n: OneOrMore | None = None
    """Largest number of documents that are returned; None: no limit."""
    trade_off: Share = MmrConfig().trade_off
    """lambda: 1 is relevance alone, 0 is diversity alone."""
    pool: OneOrMore = MmrConfig().pool
    """Number of the best documents from which MMR chooses, but at least as many as are returned."""
    embedding: Any = None
    """Embeds the texts; None: umi's embedded model."""

    def _ranked(self, documents: Sequence[Document], scores: Floats) -> tuple[Ints, Floats | None]:
        limit = len(documents) if self.top_n is None else self.top_n
        vectors = _vectors(documents, self.embedding)
        return mmr(min_max(scores), vectors, limit=limit, trade_off=self.trade_off, pool=self.pool), None


def _vectors(documents: Sequence[Document], embedding: Any) -> Vectors:
    """(n, dim) L2-normalised vectors of the texts. Errors of the embedding pass through."""
    return unit_rows(as_embedder(embedding).embed_documents([document.page_content for document in documents]))
