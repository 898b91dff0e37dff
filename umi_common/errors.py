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
    │   └── BudgetError                a context cannot hold even a header
    ├── StoreError                     a store's directory, file, lock or server
    │   ├── StoreLocked                another writer holds it
    │   ├── StoreClosed
    │   ├── StoreForked                used in a child process after a fork
    │   ├── StoreReadOnly
    │   ├── StoreMoved                 directory or file deleted, renamed or replaced while open
    │   ├── StoreFull                  the disk refused the write
    │   ├── NotAStore                  the directory holds something other than a store
    │   ├── LedgerDamaged              the ledger, which cannot be rebuilt, fails its check
    │   ├── StoreUnavailable           the store's server failed; its own error is the cause
    │   ├── PartlyWritten              a server stored part of a batch; adding the batch again completes it
    │   ├── CopyDiffers                a migrated store differs from its source; names chunks
    │   └── ReindexRequired            another embedder, dimension or analyzer
    ├── EmbedderError                  the model failed; its own error is the cause
    ├── IndexUnavailable               one index cannot answer; searches use the other
    ├── SearchUnavailable              no arm of the store can answer
    ├── SystemFailed                   a system under comparison; names system, dataset and query
    └── MissingExtra (also ImportError) names the pip line

A backend's error is the `__cause__` of one of these; it never reaches the caller by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class UmiError(Exception):
    """Base class of every error that umi raises on purpose."""


class InputError(UmiError, ValueError):
    """An argument is wrong; the message says what was expected and how to fix it."""


class EmptyQuery(InputError):
    """The query is empty or only white space."""


class QueryTooLong(InputError):
    """The query has more than 10,000 UTF-8 bytes."""


class InvalidLimit(InputError):
    """`limit` is outside 1..100, or another number of chunks is not a whole number or too small."""


class InvalidTimeRange(InputError):
    """A naive datetime, or an end before its start."""


class InvalidChunk(InputError):
    """A chunk that cannot be stored; names it and the field."""


class DuplicateId(InputError):
    """One batch holds the same id twice."""


class InvalidVector(InputError):
    """Vectors of the wrong shape, type or dimension, or with NaN or infinity."""


class FilterError(InputError):
    """A metadata filter with an unknown operator or a wrong value; names the operator or key."""


class ConfigError(InputError):
    """A setting out of range, unknown, or in conflict with another."""


class DatasetError(InputError):
    """An evaluation file is missing or malformed; names the file, the line and what was expected."""


class FileUnreadable(InputError):
    """A file to be indexed cannot be read; names the file, the line or page, and the fix."""


class BudgetError(InputError):
    """A token budget that cannot hold even a header."""


class StoreError(UmiError):
    """A failure of the store as a whole."""


class StoreLocked(StoreError):
    """Another process writes to this directory, or this process with another embedder or config."""


class StoreClosed(StoreError):
    """The store, or the retriever that searches it, was closed before this call had run."""


class StoreForked(StoreError):
    """The store was opened before a fork and used in the child."""


class StoreReadOnly(StoreError):
    """A write to a store that was opened for reading."""


class StoreMoved(StoreError):
    """The directory or `umi.db` was deleted, renamed or replaced while the store was open; no write is acknowledged."""


class StoreFull(StoreError):
    """The disk or a file-size limit refused the write; what was stored before is intact."""


class NotAStore(StoreError):
    """The path exists and is not a umi store."""


class LedgerDamaged(StoreError):
    """`umi.db` fails its integrity check, so no call answers from it."""


class StoreUnavailable(StoreError):
    """The server behind the store did not answer, refused, or is too old; its own error is the cause."""


class PartlyWritten(StoreError):
    """The server failed within a batch; the message says how much is stored. The same call again completes it."""


class CopyDiffers(StoreError):
    """A migration's target differs from its source; the message names the chunks and says what to do."""


class ReindexRequired(StoreError):
    """The store was made with another embedder, dimension or analyzer; names the call that rebuilds it."""


class EmbedderError(UmiError):
    """The embedder failed or returned something unusable."""


class IndexUnavailable(UmiError):
    """One index cannot answer."""


class SearchUnavailable(UmiError):
    """No arm of the store can answer."""


class SystemFailed(UmiError):
    """A system under comparison raised; its own error is the cause."""


class MissingExtra(UmiError, ImportError):
    """An optional package is not installed; names the pip line."""

    def __init__(self, package: str, extra: str | None = None) -> None:
        what = package if extra is None else f"'umi-retrieval[{extra}]'"
        super().__init__(f"{package} is not installed; run: pip install {what}")


def optional_module(module: str, package: str, extra: str | None = None) -> Any:
    """The module, imported; raises MissingExtra if its package, which an extra installs, is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(package, extra) from error
