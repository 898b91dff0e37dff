"""The chunks of one `add`: records become chunks, and invalid items raise or are left out and reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from umi_common.config import EmbedderConfig
from umi_common.embedders.cache import VectorCache
from umi_common.errors import ConfigError, DuplicateId, InvalidChunk, InvalidVector
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.stores.batch_checks import checked_chunks, checked_vectors, embedded
from umi_common.types import Chunk

OnInvalid = Literal["raise", "skip"]
FIELDS = tuple(field.name for field in fields(Chunk))
"""Keys that a record may have."""


@dataclass(frozen=True, slots=True)
class SkippedChunk:
    """An item of a batch that was not stored."""

    place: int
    """Its index in the batch, from 0."""
    id: str | None
    """None: it has no id that is a string."""
    source: str | None
    """Source of the chunk, usually a file; None: it has none."""
    reason: str
    """What is wrong and how to fix it, in one line."""


@dataclass(frozen=True, slots=True)
class AddReport:
    """The result of an `add`."""

    added: int = 0
    """Chunks stored: new ones, and ones that replaced a chunk with the same id."""
    unchanged: int = 0
    """Chunks that were stored already, the same in every field."""
    skipped: tuple[SkippedChunk, ...] = ()
    """Invalid items, by rising index in the batch; only with on_invalid="skip"."""


class ValidBatch(NamedTuple):
    """The valid items of a batch as chunks, and the others."""

    chunks: list[Chunk]
    vectors: Vectors | None
    """(n, dim) unit rows, one per chunk; None: the caller gave none."""
    skipped: tuple[SkippedChunk, ...]

    def vectors_of(
        self,
        indices: Sequence[int],
        embedder: Embedder,
        *,
        dim: int | None,
        show_progress: bool,
        config: EmbedderConfig,
        cache: VectorCache | None,
    ) -> Vectors:
        """(len(indices), dim) unit rows of these chunks: the caller's, else from the embedder; see `embedded`."""
        if self.vectors is not None:
            return self.vectors if len(indices) == len(self.chunks) else self.vectors[list(indices)]
        chunks = [self.chunks[index] for index in indices]
        ids, texts = [chunk.id for chunk in chunks], [chunk.indexed_text for chunk in chunks]
        return embedded(ids, texts, embedder, dim=dim, show_progress=show_progress, config=config, cache=cache)


def valid_batch(
    items: Iterable[Chunk | Mapping[str, Any]], vectors: Any, dim: int | None, on_invalid: OnInvalid
) -> ValidBatch:
    """The chunks and vectors of a batch; see `HybridStore.add`.

    Args:
        items: Chunks, or records with the fields of `Chunk` as keys.
        vectors: (n, dim), one row per item; None: the embedder makes them.
        dim: Dimension of the store; None: not known yet.
        on_invalid: "raise": the first invalid item raises. "skip": invalid items are left out.

    Raises:
        InvalidChunk, DuplicateId, InvalidVector: As `HybridStore.add`.
        ConfigError: If `on_invalid` is neither.
    """
    if isinstance(items, (Chunk, Mapping, str)) or not isinstance(items, Iterable):
        raise InvalidChunk(f"chunks is {type(items).__name__}; expected a list of umi_common.Chunk or of dicts")
    batch = list(items)
    if checked_on_invalid(on_invalid) == "raise":
        chunks = checked_chunks(_as_chunk(index, item) for index, item in enumerate(batch))
        return ValidBatch(chunks, None if vectors is None else checked_vectors(vectors, chunks, dim), ())
    rows, finite = (None, []) if vectors is None else _finite_rows(vectors, batch, dim)
    valid: dict[str, Chunk] = {}
    kept, skipped = [], []
    for index, item in enumerate(batch):
        try:
            chunk = _as_chunk(index, item)
            if chunk.id in valid:
                raise DuplicateId(f"id {chunk.id!r:.80} comes twice in this batch; the first is stored")
            if rows is not None and not finite[index]:
                raise InvalidVector(f"the vector of chunk {chunk.id!r:.80} holds NaN, infinity or is beyond float32")
        except (InvalidChunk, DuplicateId, InvalidVector) as error:
            skipped.append(SkippedChunk(index, _text(item, "id"), _text(item, "source"), str(error)))
        else:
            valid[chunk.id] = chunk
            kept.append(index)
    chunks = list(valid.values())
    return ValidBatch(chunks, None if rows is None else rows[kept], tuple(skipped))


def checked_on_invalid(on_invalid: OnInvalid) -> OnInvalid:
    """`on_invalid`; raises ConfigError unless it is "raise" or "skip"."""
    if on_invalid not in get_args(OnInvalid):
        raise ConfigError(f"on_invalid {on_invalid!r:.40}: expected 'raise' or 'skip'")
    return on_invalid


def _as_chunk(index: int, item: object) -> Chunk:
    """The item if it is a chunk, else the chunk of a record.

    Raises:
        InvalidChunk: If it is neither; names the item by its index.
    """
    if isinstance(item, Chunk):
        return item
    if not isinstance(item, Mapping):
        raise InvalidChunk(f"item {index} is {type(item).__name__}; expected umi_common.Chunk or a dict of its fields")
    unknown = [key for key in item if key not in FIELDS]
    missing = [name for name in ("id", "text") if name not in item]
    if unknown or missing:
        wrong = f"with the unknown key {unknown[0]!r:.40}" if unknown else f"without {missing[0]!r}"
        raise InvalidChunk(f"item {index} is {type(item).__name__} {wrong}; expected the fields {', '.join(FIELDS)}")
    record = dict(item)
    if record.get("metadata", {}) is None:
        del record["metadata"]
    return Chunk(**record)


def _text(item: object, name: str) -> str | None:
    """A field of an item, if it is a string."""
    value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
    return value if isinstance(value, str) else None


def _finite_rows(vectors: Any, batch: list[Any], dim: int | None) -> tuple[Vectors, list[bool]]:
    """(n, dim) unit rows, and whether each row was finite; other rows are arbitrary.

    Raises:
        InvalidVector: If the shape is wrong or the values are no numbers.
    """
    try:
        finite = np.isfinite(np.asarray(vectors, dtype=np.float32))
    except (TypeError, ValueError, OverflowError):  # no numbers, or rows of different lengths: raises InvalidVector
        return checked_vectors(vectors, batch, dim), []
    rows = checked_vectors(vectors if finite.all() else np.where(finite, vectors, 0.0), batch, dim)
    return rows, [bool(row.all()) for row in finite]
