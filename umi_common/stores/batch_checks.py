"""Checks of the arguments of all stores: the chunks and vectors of a write, ids, counts, directories."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from umi_common.errors import ConfigError, DuplicateId, InputError, InvalidChunk, InvalidLimit, InvalidVector
from umi_common.pool import Vectors, unit_vectors
from umi_common.protocols import Embedder
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk

OnInvalid = Literal["raise", "skip"]
URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""The beginning of a URL. `Path` makes one slash of two. A drive of Windows, as in C:/, has one letter."""
FIELDS = tuple(field.name for field in fields(Chunk))
"""Names of a chunk's fields, in order. A dict given in place of a chunk may have only these keys."""
CHUNK_OF_ROW = "Chunk(str(row.pop('id')), row.pop('text'), metadata=row)"
"""Expression that makes a chunk of `row`, a table's row as a dict, for messages."""
TAKEN_BY = {
    "langchain_core": "; umi_langchain.UmiRetriever.from_documents takes LangChain Documents",
    "llama_index": "; umi_llamaindex.UmiRetriever.from_nodes takes LlamaIndex nodes",
    "umi_common": "; HybridStore.add takes chunks, and UmiRetriever.from_store(store) searches them",
}
"""Package of a class -> end of an error message about an instance of it that was given to another interface of umi."""


@dataclass(frozen=True, slots=True)
class SkippedChunk:
    """An item of a batch that was not stored."""

    place: int
    """Index of the item in the batch, from 0."""
    id: str | None
    """None: the item has no id, or its id is not a string."""
    source: str | None
    """Source of the item, usually a file; None: it has none, or it is not a string."""
    reason: str
    """What is wrong and how to fix it, in one line."""


@dataclass(frozen=True, slots=True)
class AddReport:
    """The result of an `add`."""

    added: int = 0
    """Chunks stored: new ones, and ones that replaced a chunk with the same id."""
    unchanged: int = 0
    """Chunks that were already stored with the same fields."""
    skipped: tuple[SkippedChunk, ...] = ()
    """Invalid items, by rising index in the batch; only with on_invalid="skip"."""


class ValidBatch(NamedTuple):
    """The valid items of a batch as chunks, and reports of the invalid ones."""

    chunks: list[Chunk]
    vectors: Vectors | None
    """(n, dim) unit rows, one per chunk; None: the caller gave no vectors."""
    skipped: tuple[SkippedChunk, ...]

    def vectors_of(self, indices: Sequence[int], embedder: Embedder, **options: Any) -> Vectors:
        """(len(indices), dim) unit rows of the chunks at `indices`: the caller's vectors; if the caller gave none, the
        chunks are embedded, see `embedded` for the options."""
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
        dim: Dimension of the store's vectors; None: not known yet.
        on_invalid: "raise": the first invalid item raises. "skip": invalid items are left out.

    Raises:
        InvalidChunk, DuplicateId, InvalidVector: See `HybridStore.add`.
        ConfigError: If `on_invalid` is neither "raise" nor "skip".
    """
    if isinstance(items, (Chunk, Mapping, str)) or not isinstance(items, Iterable):
        raise InvalidChunk(f"chunks is {type(items).__name__}; expected a list of umi_common.Chunk or of dicts")
    check_no_table("chunks", items, CHUNK_OF_ROW)
    batch, vectors = list(items), list(vectors) if isinstance(vectors, Iterator) else vectors
    if skipped_list(on_invalid) is not None:
        return _without_invalid(batch, vectors, dim)
    chunks = checked_chunks(_as_chunk(index, item) for index, item in enumerate(batch))
    return ValidBatch(chunks, None if vectors is None else checked_vectors(vectors, chunks, dim), ())


def _without_invalid(batch: list[Any], vectors: Any, dim: int | None) -> ValidBatch:
    """The result of `valid_batch` for `on_invalid` "skip"."""
    rows, finite = (None, []) if vectors is None else _finite_rows(vectors, batch, dim)
    valid: dict[str, Chunk] = {}
    kept, skipped = [], []
    for index, item in enumerate(batch):
        try:
            chunk = _as_chunk(index, item)
            if chunk.id in valid:
                raise DuplicateId(f"id {chunk.id!r:.80} comes twice in this batch; the first is stored")
            if rows is not None and not finite[index]:
                raise InvalidVector(
                    f"the vector of chunk {chunk.id!r:.80} is missing, has another length than the others, or holds "
                    "NaN, infinity or a number beyond float32"
                )
        except (InvalidChunk, DuplicateId, InvalidVector) as error:
            skipped.append(SkippedChunk(index, _text(item, "id"), _text(item, "source"), str(error)))
        else:
            valid[chunk.id] = chunk
            kept.append(index)
    chunks = list(valid.values())
    return ValidBatch(chunks, None if rows is None else rows[kept], tuple(skipped))


def check_no_table(name: str, items: object, item: str) -> None:
    """Raise InvalidChunk for a data frame of pandas or polars: its iteration gives columns.

    Args:
        name: The argument, for the message.
        item: Expression that makes an item of `row`, a dict, for the message.
    """
    if hasattr(items, "columns") and hasattr(items, "to_dict"):
        rows = "to_dicts()" if hasattr(items, "to_dicts") else 'to_dict("records")'
        raise InvalidChunk(
            f"{name} is {type(items).__name__}, a table, whose iteration gives columns and not rows; "
            f"give [{item} for row in table.{rows}]"
        )


def taken_by(item: object, own: str = "umi_common") -> str:
    """The end of an error message about an item of a wrong type: "; " and what takes such items. "" for items of the
    package `own`, whose other items the caller takes, and for those that no interface of umi takes."""
    packages = {base.__module__.partition(".")[0] for base in type(item).__mro__} - {own}
    return next((advice for package, advice in TAKEN_BY.items() if package in packages), "")


def skipped_list(on_invalid: OnInvalid) -> list[SkippedChunk] | None:
    """A list for the items that "skip" leaves out, None for "raise"; raises ConfigError for any other `on_invalid`."""
    if on_invalid not in get_args(OnInvalid):
        raise ConfigError(f"on_invalid {on_invalid!r:.40}: expected 'raise' or 'skip'")
    return [] if on_invalid == "skip" else None


def _as_chunk(index: int, item: object) -> Chunk:
    """The item itself if it is a chunk; if it is a dict, the chunk with these fields. Any other item is invalid."""
    if isinstance(item, Chunk):
        return item
    if not isinstance(item, Mapping):
        raise InvalidChunk(
            f"item {index} is {type(item).__name__}; expected umi_common.Chunk or a dict of its fields{_chunk_of(item)}"
        )
    unknown = [key for key in item if key not in FIELDS]
    missing = [name for name in ("id", "text") if name not in item]
    if unknown or missing:
        wrong = [f"with the unknown key {key!r:.40}" for key in unknown[:1]]
        wrong += [f"without {name!r}" for name in missing[:1]]
        advice = "" if missing else f"; put other values into metadata: {{'metadata': {{{unknown[0]!r:.40}: ...}}}}"
        raise InvalidChunk(
            f"item {index} is {type(item).__name__} {' and '.join(wrong)}; expected the fields "
            f"{', '.join(FIELDS)}{advice}"
        )
    values = dict(item)
    if values.get("metadata", {}) is None:
        del values["metadata"]
    return Chunk(**values)


def _chunk_of(item: object) -> str:
    """The end of an error message about an item of a wrong type: "; " and how to make a chunk of it, or ""."""
    if advice := taken_by(item):
        return advice
    if isinstance(item, str):
        return '; of a string make Chunk("an id", string)'
    row = item[1] if isinstance(item, tuple) and len(item) == 2 else item  # DataFrame.iterrows() gives pairs
    if hasattr(row, "_asdict") or hasattr(row, "to_dict"):
        return f'; of the rows of a table make [{CHUNK_OF_ROW} for row in table.to_dict("records")]'
    return "; of a pair make Chunk(id, text)" if isinstance(item, (tuple, list)) else ""


def _text(item: object, name: str) -> str | None:
    """The value of the item's field `name`; None: the field is missing or not a string."""
    value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
    return value if isinstance(value, str) else None


def _finite_rows(vectors: Any, batch: list[Any], dim: int | None) -> tuple[Vectors, list[bool]]:
    """(n, dim) unit rows, and for each given row whether it is valid: `dim` finite numbers. The unit row of an invalid
    row has no meaning. A `dim` of None stands for the most frequent length, other than 0, of the rows.

    Raises:
        InvalidVector: If the number of rows is wrong or no row is a list of `dim` numbers.
    """
    given = vectors if isinstance(vectors, Iterable) else ()
    with suppress(TypeError, ValueError, OverflowError):  # a row is None, has another length or holds no numbers
        given = list(np.asarray(vectors, dtype=np.float32))  # a data frame would yield its column names
    rows: list[Vectors] = []
    for vector in given:
        try:
            rows.append(np.asarray(vector, dtype=np.float32))
        except (TypeError, ValueError, OverflowError):
            rows.append(np.zeros(0, dtype=np.float32))
    lengths = Counter(len(row) for row in rows if row.ndim == 1 and len(row))
    width = max(lengths, key=lengths.__getitem__, default=0) if dim is None else dim
    if width not in lengths:
        return checked_vectors(vectors, batch, dim), []  # raises, unless there are no rows
    valid = [row.shape == (width,) and bool(np.isfinite(row).all()) for row in rows]
    zeros = np.zeros(width, dtype=np.float32)
    matrix = np.stack([row if is_valid else zeros for row, is_valid in zip(rows, valid, strict=True)])
    return checked_vectors(matrix, batch, dim), valid


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
            f"{len(repeated)} ids occur more than once in this batch, such as {repeated[:3]}; keep one chunk of each id"
        )
    return batch


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
    if not chunks and not matrix.size:
        return np.zeros((0, 0 if dim is None else dim), dtype=np.float32)
    if matrix.ndim != 2 or len(matrix) != len(chunks) or not matrix.shape[1] or dim not in (None, matrix.shape[1]):
        expected = f"({len(chunks)}, {'dimension' if dim is None else dim})"
        raise InvalidVector(f"vectors have shape {matrix.shape}; expected {expected}, one row for each chunk")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        bad = chunks[int(np.flatnonzero(~finite)[0])].id
        raise InvalidVector(f"the vector of chunk {bad!r} holds NaN, infinity or a number beyond float32")
    return unit_vectors(matrix)


def check_store(store: object, advice: str, methods: Sequence[str] = ("recall",)) -> None:
    """Raise ConfigError unless `store` has these methods of a `protocols.Store`; `advice` ends the message."""
    if isinstance(store, type) or not all(hasattr(store, method) for method in methods):
        raise ConfigError(
            f"store is {type(store).__name__}; expected a store: HybridStore.open(path) opens one; {advice}"
        )


def checked_directory(path: object) -> Path:
    """The absolute path of a directory, with "~" replaced. Absolute, because the working directory may change later.

    Raises:
        ConfigError: If `path` is "", not a path, ":memory:" or a URL, or begins with "~name" of an unknown user.
    """
    if str(path) == ":memory:":
        raise ConfigError("path is ':memory:'; leave it out for a store in memory: HybridStore.open()")
    if URL.match(str(path)):
        raise ConfigError(f"path is {str(path)!r:.80}, a URL; expected a directory's name on this machine")
    if isinstance(path, (str, os.PathLike)) and str(path) and "\0" not in str(path):
        with suppress(RuntimeError):  # raised for the home directory of an unknown user
            return Path(path).expanduser().absolute()
    raise ConfigError(f"path is {path!r:.80}; expected a directory's name")


def checked_page(after: str | None, limit: int) -> tuple[str, int]:
    """`after` and `limit`, checked; an `after` of None becomes "", which sorts before every id.

    Args:
        after: The last id of the page before; None: this is the first page.

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
    return after, min(limit, sys.maxsize)  # SQLite's largest number


def checked_count(name: str, value: int, *, least: int) -> int:
    """`value` as an int; raises InvalidLimit, with the argument's name, unless it is a whole number >= `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidLimit(f"{name} is {value!r:.80}; expected a whole number of at least {least}")
    return int(value)


def ids_to_delete(ids: Iterable[str] | None, where: object, advice: str) -> list[str] | None:
    """The distinct ids that `delete` was given; None: `where` alone chooses the chunks.

    Args:
        advice: How to empty the store; ends the error message.

    Raises:
        InputError: If both `ids` and `where` are None, or `ids` is not a list of strings.
    """
    if ids is None and where is None:
        raise InputError(f"delete() needs ids= or where=; {advice}")
    return None if ids is None else list(dict.fromkeys(checked_ids(ids)))


def checked_ids(ids: Iterable[str]) -> list[str]:
    """The ids as a list; raises InputError if `ids` is one string, or no iterable of strings."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids is {ids!r:.80}; expected a list of ids")
    ids = list(ids)
    for index, id in enumerate(ids):
        if not isinstance(id, str):
            raise InputError(f"id {index} is {id!r:.80} ({type(id).__name__}); expected str, as ids are stored")
    return ids
