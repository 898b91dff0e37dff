"""Checks of the arguments of all stores; the texts of an `add`, embedded."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from umi_common.config import EmbedderConfig
from umi_common.embedders.adapters import declared_dim
from umi_common.embedders.cache import FileCache, VectorCache
from umi_common.embedders.documents import BatchFailed, batches_of, embed_batches
from umi_common.errors import (
    ConfigError,
    DuplicateId,
    EmbedderError,
    InputError,
    InvalidChunk,
    InvalidLimit,
    InvalidVector,
    ReindexRequired,
    UmiError,
)
from umi_common.pool import Vectors, unit_vectors
from umi_common.progress import progress_bar
from umi_common.protocols import Embedder
from umi_common.runtime.losses import warn_once
from umi_common.types import Chunk

OnInvalid = Literal["raise", "skip"]
FIELDS = tuple(field.name for field in fields(Chunk))
"""Keys that a dict in place of a chunk may have."""
CACHED_FROM = 16
"""Fewest texts of one call for which the cache of vectors is used. Writing the cache is a second write to the disk;
without it, adding one message of a chat is one write."""


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
    """The valid items of a batch as chunks, and reports of the invalid ones."""

    chunks: list[Chunk]
    vectors: Vectors | None
    """(n, dim) unit rows, one per chunk; None: the caller gave none."""
    skipped: tuple[SkippedChunk, ...]

    def vectors_of(self, indices: Sequence[int], embedder: Embedder, **options: Any) -> Vectors:
        """(len(indices), dim) unit rows of these chunks: the caller's, else from `embedded` with these options."""
        if self.vectors is not None:
            return self.vectors if len(indices) == len(self.chunks) else self.vectors[list(indices)]
        chunks = [self.chunks[index] for index in indices]
        return embedded([chunk.id for chunk in chunks], [chunk.indexed_text for chunk in chunks], embedder, **options)


def valid_batch(
    items: Iterable[Chunk | Mapping[str, Any]], vectors: Any, dim: int | None, on_invalid: OnInvalid
) -> ValidBatch:
    """The chunks and vectors of a batch; see `HybridStore.add`.

    Args:
        items: Chunks, or dicts with the fields of `Chunk` as keys.
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
    """The item if it is a chunk, else the chunk with the fields of a dict.

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
    values = dict(item)
    if values.get("metadata", {}) is None:
        del values["metadata"]
    return Chunk(**values)


def _text(item: object, name: str) -> str | None:
    """A field of an item, if it is a string."""
    value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
    return value if isinstance(value, str) else None


def _finite_rows(vectors: Any, batch: list[Any], dim: int | None) -> tuple[Vectors, list[bool]]:
    """(n, dim) unit rows, and whether each row was finite; a row that was not is arbitrary.

    Raises:
        InvalidVector: If the shape is wrong or the values are no numbers.
    """
    try:
        finite = np.isfinite(np.asarray(vectors, dtype=np.float32))
    except (TypeError, ValueError, OverflowError):  # no numbers, or rows of different lengths: raises InvalidVector
        return checked_vectors(vectors, batch, dim), []
    rows = checked_vectors(vectors if finite.all() else np.where(finite, vectors, 0.0), batch, dim)
    return rows, [bool(row.all()) for row in finite]


def checked_chunks(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The chunks as a list.

    Raises:
        InvalidChunk: If an item is not a Chunk.
        DuplicateId: If two chunks have the same id; names the first three such ids.
    """
    batch = list(chunks)
    for index, chunk in enumerate(batch):
        if not isinstance(chunk, Chunk):
            raise InvalidChunk(f"item {index} is {type(chunk).__name__}; expected umi_common.Chunk")
    repeated = [id for id, count in Counter(chunk.id for chunk in batch).items() if count > 1]
    if repeated:
        raise DuplicateId(
            f"{len(repeated)} ids occur more than once in this batch, first {repeated[:3]}; keep one chunk of each id"
        )
    return batch


ZEROS_WARNING = (
    "embedder %r gave vectors of zeros for all %d texts of a call: they are found by their words alone. Check the "
    "model, then embed them again with HybridStore.reindex(). Logged once for each model."
)


def embedded(
    ids: Sequence[str],
    texts: Sequence[str],
    embedder: Embedder,
    *,
    dim: int | None,
    show_progress: bool = False,
    config: EmbedderConfig | None = None,
    cache: VectorCache | None = None,
) -> Vectors:
    """(n, dim) unit rows for the texts, in their order. A text that the model embeds as zeros gets a row of zeros.

    Args:
        ids: (n,) ids of the texts' chunks, for error messages.
        texts: (n,) texts. Equal texts are embedded once.
        dim: Dimension of the vectors in the store; None: the store holds none.
        config: Sizes of batches, and for how long failed calls are retried; None: the defaults.
        cache: Texts found in it are not embedded; each batch is added to it as soon as it is embedded, so a repeated
            call embeds no text twice. Not used for fewer than CACHED_FROM texts, nor if the embedder is `in_place`.
            None: no cache.

    Raises:
        EmbedderError: If the embedder fails, or does not return one finite vector per text; names the chunk.
        ReindexRequired: If the embedder's dimension is not `dim`.
    """
    config = EmbedderConfig() if config is None else config
    if len(texts) < CACHED_FROM:
        cache = None
    if getattr(embedder, "in_place", False):
        # No service is called: a cache saves no time, and the bytes of a call need no limit.
        cache, config = None, config.model_copy(update={"batch_bytes": sys.maxsize})
    known = {} if cache is None else cache.get(texts)
    size = dim or declared_dim(embedder)
    if size is None and known and len(known) == len(set(texts)):
        # All are cached; under the same name, the model may have another dimension by now.
        size = embedded(ids[:1], ["dimension"], embedder, dim=None, config=config).shape[1]
    known = {text: vector for text, vector in known.items() if size in (None, len(vector))}
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        if text not in known:
            first.setdefault(text, index)
    missing = list(first.values())
    with progress(len(texts), show_progress) as advance:
        advance(len(texts) - len(missing))

        def on_batch(batch: Sequence[int], vectors: object) -> None:
            nonlocal dim
            rows = _checked_rows([ids[index] for index in batch], vectors, embedder, dim)
            dim, own = rows.shape[1], [texts[index] for index in batch]
            if len(own) > 1 and not rows.any() and not getattr(embedder, "in_place", False):
                warn_once("embedder", f"zeros of {embedder.name}", ZEROS_WARNING, embedder.name, len(own))
            known.update(zip(own, rows, strict=True))
            if cache is not None:
                cache.put({text: known[text].copy() for text in own})
            advance(len(batch))

        try:
            embed_batches(embedder, texts, batches_of(texts, missing, config), config, on_batch, advance.note)
        except BatchFailed as failed:
            raise embedding_failure(failed, ids, embedder.name, cache) from failed.__cause__
    if dim is not None and any(len(vector) != dim for vector in known.values()):
        return embedded(ids, texts, embedder, dim=dim, show_progress=show_progress, config=config, cache=cache)
    return np.stack([known[text] for text in texts]) if texts else np.zeros((0, dim or 0), dtype=np.float32)


def embedding_failure(failed: BatchFailed, ids: Sequence[str], name: str, cache: object) -> Exception:
    """The error to raise for a failed batch, which names the chunks of the batch and says what to do.

    Args:
        failed: Its `batch` holds indices of `ids`, its cause is the embedder's error.
        ids: (n,) ids of the texts' chunks.
        name: Of the embedder.
        cache: Holds the vectors of the batches before; None: there is no cache.
    """
    error = failed.__cause__
    if isinstance(error, UmiError):
        return error
    advice = "Repeat the call"
    if isinstance(cache, FileCache):
        advice = "Repeat the call: what the cache holds is not embedded again"
    elif cache is not None:
        advice = (
            "Repeat the call on this open store, whose cache is in memory; one that outlives the store needs a "
            "directory and a model with a model_name"
        )
    return EmbedderError(
        f"embedder {name!r} failed on chunks {ids[failed.batch[0]]!r} to {ids[failed.batch[-1]]!r} "
        f"({type(error).__name__}); nothing was stored. {advice}"
    )


def _checked_rows(ids: Sequence[str], returned: object, embedder: Embedder, dim: int | None) -> Vectors:
    """(n, dim) unit rows from what the embedder returned for these chunks; raises as `embedded`."""
    try:
        vectors = np.asarray(returned, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(
            f"embedder {embedder.name!r} did not return a matrix of numbers for chunks {ids[0]!r} to {ids[-1]!r}; "
            f"nothing was stored; expected shape ({len(ids)}, dimension)"
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(ids) or not vectors.shape[1]:
        raise EmbedderError(
            f"embedder {embedder.name!r} returned shape {vectors.shape} for {len(ids)} texts from chunk {ids[0]!r} on; "
            f"expected ({len(ids)}, dimension)"
        )
    if dim is not None and vectors.shape[1] != dim:
        raise ReindexRequired(
            f"embedder {embedder.name!r} gives {vectors.shape[1]} dimensions and the store holds {dim}; "
            "open the store with its own embedder, or call HybridStore.reindex(path, embedder=...)"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        bad = ids[int(np.flatnonzero(~finite)[0])]
        raise EmbedderError(
            f"embedder {embedder.name!r} returned NaN or infinity for chunk {bad!r}; nothing was stored"
        )
    return unit_vectors(vectors)


def checked_vectors(vectors: object, chunks: Sequence[Chunk], dim: int | None) -> Vectors:
    """A caller's own vectors as (n, dim) unit rows.

    Raises:
        InvalidVector: If the shape or the dimension is wrong, or a value is not finite; names the chunk.
    """
    try:
        matrix = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidVector(
            f"vectors are not a matrix of numbers ({error}); expected one row of numbers for each chunk"
        ) from error
    expected = f"({len(chunks)}, {'dimension' if dim is None else dim})"
    if not chunks and not matrix.size:
        return np.zeros((0, 0 if dim is None else dim), dtype=np.float32)
    if matrix.ndim != 2 or len(matrix) != len(chunks) or not matrix.shape[1] or dim not in (None, matrix.shape[1]):
        raise InvalidVector(f"vectors have shape {matrix.shape}; expected {expected}, one row for each chunk")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        bad = chunks[int(np.flatnonzero(~finite)[0])].id
        raise InvalidVector(f"the vector of chunk {bad!r} holds NaN, infinity or a number beyond float32")
    return unit_vectors(matrix)


def checked_directory(path: object) -> Path:
    """A directory's absolute path with "~" replaced, because the program may change its working directory.

    Raises:
        ConfigError: If `path` is "" or not a path, or "~name" of a user that there is not.
    """
    if isinstance(path, (str, os.PathLike)) and str(path) and "\0" not in str(path):
        with suppress(RuntimeError):
            return Path(path).expanduser().absolute()
    raise ConfigError(f"path is {path!r:.80}; expected a directory's name")


def checked_page(after: str | None, limit: int) -> tuple[str, int]:
    """`after`, the last id of the page before, or "" for None, which sorts before every id; and `limit`.

    Raises:
        InvalidLimit: If `limit` is not a whole number of at least 1.
        InputError: If `after` is not a string that UTF-8 can encode.
    """
    limit = checked_count("limit", limit, least=1)
    try:
        after = "" if after is None else after
        after.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise InputError(f"after is {after!r:.80}; expected the last id of the page before, or None") from error
    return after, limit


def checked_count(name: str, value: int, *, least: int) -> int:
    """The value of this argument; raises InvalidLimit unless it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidLimit(f"{name} is {value!r:.80}; expected a whole number of at least {least}")
    return int(value)


def ids_to_delete(ids: Iterable[str] | None, where: object, advice: str) -> list[str] | None:
    """The ids of a `delete`, each once; None: all chunks that pass its filter are removed.

    Args:
        advice: How to empty the store.

    Raises:
        InputError: If there is neither a list of ids nor a filter.
    """
    if ids is None and where is None:
        raise InputError(f"delete() needs ids= or where=; {advice}")
    return None if ids is None else list(dict.fromkeys(checked_ids(ids)))


def checked_ids(ids: Iterable[str]) -> list[str]:
    """The ids as a list; raises InputError if they are one string, or no collection of strings."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids is {ids!r:.80}; expected a list of ids")
    ids = list(ids)
    for index, id in enumerate(ids):
        if not isinstance(id, str):
            raise InputError(f"id {index} is {id!r:.80} ({type(id).__name__}); expected str, as ids are stored")
    return ids


class progress:
    """A progress bar over `total` chunks, as a context manager; call it with a count to advance.

    Args:
        show: False: there is no bar, and calls do nothing.
    """

    def __init__(self, total: int, show: bool) -> None:
        self._bar = progress_bar(total=total, unit="chunk", desc="embedding") if show else None

    def __enter__(self) -> progress:
        return self

    def __call__(self, count: int) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str("", refresh=False)
            self._bar.update(count)

    def note(self, text: str) -> None:
        """Show a text beside the bar until it advances."""
        if self._bar is not None:
            self._bar.set_postfix_str(text)

    def __exit__(self, *exc_info: object) -> None:
        if self._bar is not None:
            self._bar.close()
