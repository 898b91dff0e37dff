"""Every error that umi raises on purpose.

    UmiError
    ├── InputError (also ValueError)   a wrong argument; the message says how to fix it
    │   ├── EmptyQuery
    │   ├── QueryTooLong
    │   ├── InvalidLimit
    │   ├── InvalidTimeRange
    │   ├── InvalidChunk               names the chunk
    │   ├── DuplicateId                names the ids
    │   ├── InvalidVector              shape, dimension, NaN or infinity
    │   ├── FilterError                names the operator or key
    │   ├── ConfigError                names the field
    │   ├── FileUnreadable             a file to be indexed; names it
    │   ├── DatasetError               an evaluation file; names file and line
    │   └── BudgetError                a token budget is too small for any context
    ├── StoreError                     a store's directory, file, lock or server
    │   ├── StoreLocked                in use by another process, or by this one in a conflicting way
    │   ├── StoreClosed
    │   ├── StoreForked                used in a child process after a fork
    │   ├── StoreReadOnly
    │   ├── StoreMoved                 its directory or file was deleted, renamed or replaced while it was open
    │   ├── StoreFull                  the disk refused the write
    │   ├── NotAStore                  the directory holds something other than a store
    │   ├── LedgerDamaged              the ledger `umi.db`, which cannot be rebuilt, fails its integrity check
    │   ├── StoreUnavailable           the store's server failed; its own error is the cause
    │   ├── PartlyWritten              a server stored part of a batch; adding the batch again completes it
    │   ├── CopyDiffers                a migrated store differs from its source; names chunks
    │   └── ReindexRequired            made with another embedder, dimension or analyzer
    ├── EmbedderError                  the model failed; its own error is the cause
    ├── IndexUnavailable               one index cannot answer; searches continue with the other indexes
    ├── SearchUnavailable              no arm of the store can answer
    ├── SystemFailed                   a system that is compared with others failed; names system, dataset and query
    └── MissingExtra (also ImportError) an optional package is not installed; has the pip line

The error of a backend, such as a database or a model, never reaches the caller by itself: it is the `__cause__` of one
of these errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any


class UmiError(Exception):
    """Base class of every error that umi raises on purpose."""


class InputError(UmiError, ValueError):
    """An argument is wrong; the message says which value was expected and how to fix it."""


class EmptyQuery(InputError):
    """The query is empty or only white space."""


class QueryTooLong(InputError):
    """The query has more than 10,000 UTF-8 bytes."""


class InvalidLimit(InputError):
    """`limit` is outside 1..100, or another argument that is a number of chunks is too small or not a whole number."""


class InvalidTimeRange(InputError):
    """A datetime has no time zone, or a time range does not end after its start."""


class InvalidChunk(InputError):
    """A chunk cannot be stored; the message names the chunk and the field."""


class DuplicateId(InputError):
    """One batch holds the same id twice."""


class InvalidVector(InputError):
    """Vectors have a wrong shape, type or dimension, or hold NaN or infinity."""


class FilterError(InputError):
    """A metadata filter has an unknown operator or a wrong value; the message names the operator or key."""


class ConfigError(InputError):
    """A setting is unknown, out of range, or in conflict with another setting."""


class DatasetError(InputError):
    """An evaluation file is missing or malformed; the message names the file, the line and the expected content."""


class FileUnreadable(InputError):
    """A file to be indexed cannot be read; the message names the file, the line or page, and the fix."""


class BudgetError(InputError):
    """The token budget is too small to show one character of any hit, or its reserves leave no token."""


class StoreError(UmiError):
    """A failure of the store as a whole."""


class StoreLocked(StoreError):
    """The store is in use: another process writes to it, or this process has it open in a conflicting way."""


class StoreClosed(StoreError):
    """The store, or the retriever that searches it, was closed before the call had finished."""


class StoreForked(StoreError):
    """The store was opened before a fork and is used in the child process."""


class StoreReadOnly(StoreError):
    """A write to a store that was opened for reading."""


class StoreMoved(StoreError):
    """The directory or `umi.db` was deleted, renamed or replaced while the store was open; no write is acknowledged."""


class StoreFull(StoreError):
    """The disk or a file-size limit refused the write; everything that was stored before is intact."""


class NotAStore(StoreError):
    """There is no umi store at the path."""


class LedgerDamaged(StoreError):
    """`umi.db` fails its integrity check, so no call answers from it."""


class StoreUnavailable(StoreError):
    """The server behind the store did not answer, refused the call, or is too old; its own error is the cause."""


class PartlyWritten(StoreError):
    """The server failed within a batch; the message says how much is stored. Repeating the call completes the batch."""


class CopyDiffers(StoreError):
    """A migration's target differs from its source; the message names the chunks and says what to do."""


class ReindexRequired(StoreError):
    """The store was made with another embedder, dimension or analyzer; the message names the call that rebuilds it."""


class EmbedderError(UmiError):
    """The embedder failed or returned something unusable."""


class IndexUnavailable(UmiError):
    """One index cannot answer; searches continue with the other indexes."""


class SearchUnavailable(UmiError):
    """No arm of the store can answer."""


class SystemFailed(UmiError):
    """A system that is compared with others raised an error, which is the cause."""


class MissingExtra(UmiError, ImportError):
    """An optional package is not installed; the message has the pip line."""

    def __init__(self, package: str, extra: str | None = None) -> None:
        what = package if extra is None else f"'umi-retrieval[{extra}]'"
        super().__init__(f"{package} is not installed; run: pip install {what}")
        self.args = package, extra  # pickle calls the class with them


@contextmanager
def writing(path: object) -> Iterator[None]:
    """A block that writes a file which the caller named.

    Raises:
        InputError: If the file cannot be written; the message says why and what to do.
    """
    try:
        yield
    except OSError as error:
        folder = Path(str(path)).parent
        if isinstance(error, FileNotFoundError | NotADirectoryError) and not folder.is_dir():
            advice = f"there is no folder {folder}; create it, or name a file elsewhere"
        else:
            advice = f"{error.strerror or error}; name another file"
        raise InputError(f"cannot write {path}: {advice}") from error


def optional_module(module: str, package: str, extra: str | None = None) -> Any:
    """The imported module.

    Raises:
        MissingExtra: If the module, or one that it imports, is not installed; its message says to install `extra` of
            umi, or if that is None `package`.
        ImportError: If the module is installed but cannot be loaded.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(package, extra) from error
