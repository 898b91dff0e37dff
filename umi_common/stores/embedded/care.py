"""Status, verification, repair, rebuild and compaction of an open store, and the reindexing of a closed one."""

from __future__ import annotations

import heapq
import os
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from umi_common.config import EmbedderConfig, UmiConfig
from umi_common.embedders import identity_of
from umi_common.embedders.cache import REPLIES, VectorCache, delete_cache, document_cache
from umi_common.embedders.sparse import forget_other_texts
from umi_common.errors import LedgerDamaged, StoreError
from umi_common.protocols import Embedder
from umi_common.stores.arrays import distinct
from umi_common.stores.dense.vectors import remove_others
from umi_common.stores.document_embedder import embedded, progress
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.directory import check_directory, locked_for_writing
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.acknowledged import MarkFile
from umi_common.stores.ledger.codec import Entry, checked, encode_vectors
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.history import Mark
from umi_common.stores.ledger.ledger import IDS_NAMED, SET_META, Ledger
from umi_common.stores.ledger.made_with import ANALYZER, EMBEDDER, analyzer_text, recorded
from umi_common.stores.ledger.sqlite import DATABASE_ERRORS
from umi_common.stores.lexical.file import drop
from umi_common.stores.rows.rows import Rows
from umi_common.stores.search_counts import SearchMetrics
from umi_common.stores.values import Verification

ROWS_AT_ONCE = 5_000
"""Number of rows that are read together, and compared in one pass over the postings, while all rows are checked."""
SAMPLE = 1_000
"""Number of chunks whose postings verify() compares with their texts, unless `full`. This takes some 0.1 s."""
DAMAGED_NAMED = 100
"""Largest number of damaged chunks, and of damaged vectors, that verify() names. It reads no chunks after it has found
more."""
RESTORE = "restore umi.db from a copy"
"""Advice for damage that repair() cannot correct."""
PROBLEMS_MAX = 10
"""Number of problems after which SQLite's integrity check stops."""
DROP_CACHED_PAGES = "PRAGMA shrink_memory"
"""Empties the connection's page cache, so that the statements after it read the disk."""
TEXTS_EMBEDDED_AT_ONCE = 2_000
"""Number of texts that are read and embedded at a time; limits the memory for texts and vectors."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Size, parts and problems of a store."""

    chunks: int
    sources: int
    dimension: int | None
    embedder: str
    """Name of the embedder that made the vectors; of an empty store, the embedder that it was opened with."""
    analyzer: str
    """Fingerprint of the analyzer."""
    lexical: str
    """"ready", "empty" or "building" and the number of indexed chunks; or why the lexical index cannot answer."""
    dense: str
    """Always "exact": the store has no approximate index."""
    dead_rows: int
    """Number of rows of removed chunks, which still take memory until compact()."""
    bytes_on_disk: int
    searches: SearchMetrics | None
    """Counts of the searches by all processes that opened the store for writing. If the store is open read-only, they
    are the counts last saved. None: the file `searches.json` cannot be read."""
    problems: tuple[str, ...] = ()
    """Problems that are found without reading chunks: `umi.db` was deleted or replaced while the store was open, or the
    lexical index is damaged, which `repair()` corrects."""


def status(core: Core) -> StoreStatus:
    """See `HybridStore.status`."""
    indexes, rows = core.indexes, core.indexes.snapshot.rows
    return StoreStatus(
        chunks=rows.living,
        sources=len(distinct(rows.source[rows.alive & (rows.source >= 0)])),
        dimension=core.dim,
        embedder=core.ledger.meta().get("embedder", core.embedder.name),
        analyzer=indexes.snapshot.row_data.analyzer.fingerprint,
        lexical=_lexical_state(core),
        dense="exact",
        dead_rows=len(rows) - rows.living,
        bytes_on_disk=0 if core.directory is None else _bytes_in(core.directory),
        searches=core.search_counter.totals(),
        problems=(*_check_location(core), *_check_lexical(core)),
    )


def _lexical_state(core: Core) -> str:
    snapshot = core.indexes.snapshot
    if core.indexes.building:
        return f"building, {snapshot.rows.living} chunks"
    chunks = len(snapshot.lexical)
    return snapshot.lexical_fault or f"{'ready' if chunks else 'empty'}, {chunks} chunks"


def _bytes_in(directory: Path) -> int:
    """Total size of all files in the directory, in bytes. A file that is removed during the call, or whose folder this
    process may not enter, counts 0."""
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += (Path(folder) / name).stat().st_size
    return size


def verify(core: Core, *, full: bool = False) -> Verification:
    """See `HybridStore.verify`."""
    problems = (*_ledger_problems(core), *_index_problems(core, full=full))
    return Verification(core.indexes.snapshot.rows.living, problems)


def _ledger_problems(core: Core) -> list[str]:
    return _problems_found(core, _check_location, _check_file, check_id_index, _check_rows, _check_vectors)


def _index_problems(core: Core, *, full: bool) -> list[str]:
    return _problems_found(core, _check_lexical, partial(_check_postings, full=full))


def _problems_found(core: Core, *checks: Callable[[Core], list[str]]) -> list[str]:
    """The problems that the checks return or raise, without duplicates, since a damaged row may fail two checks."""
    problems: list[str] = []
    for check in checks:
        try:
            problems += core.ledger.retry_read(partial(check, core))
        except LedgerDamaged as error:
            problems.append(f"umi.db: {error}")
    return list(dict.fromkeys(problems))


def _check_location(core: Core) -> list[str]:
    """Whether the path leads to the open `umi.db`. SQLite's checks read a deleted file without an error."""
    try:
        core.ledger.check_location()
    except StoreError as error:
        return [f"umi.db: {error}"]
    return []


def _check_file(core: Core) -> list[str]:
    """At most PROBLEMS_MAX messages of SQLite about damage in the file, which is read in full."""
    with core.ledger.reading() as connection:
        connection.execute(DROP_CACHED_PAGES)
        lines = [line for (line,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()]
    return [] if lines == ["ok"] else [f"umi.db: {line}" for line in lines]


def check_id_index(core: Core) -> list[str]:
    """Run `Ledger.check_id_index`, which raises LedgerDamaged for a problem; returns an empty list."""
    with core.ledger.snapshot() as connection:
        core.ledger.check_id_index(connection)
    return []


def _check_rows(core: Core) -> list[str]:
    snapshot = core.indexes.snapshot
    seq, rows = snapshot.rows.seq, np.flatnonzero(snapshot.rows.alive)
    problems: list[str] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        batch = rows[start : start + ROWS_AT_ONCE].tolist()
        read = _entries(core, snapshot.rows, batch)
        lost = core.lost([int(seq[row]) for row in batch if row not in read])
        problems += [f"umi.db: row {number} is missing; {RESTORE}" for number in lost]
        problems += [f"umi.db: {each}" for each in read.values() if isinstance(each, LedgerDamaged)]
        if len(problems) > DAMAGED_NAMED:
            break
    return _first_named(problems, "chunks")


def _check_vectors(core: Core) -> list[str]:
    with core.ledger.reading() as connection:
        damaged = core.ledger.damaged_vectors(connection)
    rows = core.indexes.snapshot.rows
    wrong = np.flatnonzero(rows.alive & np.isin(rows.seq, damaged)).tolist()
    problems = [f"umi.db: the vector of chunk {rows.ids[row]!r:.80} is not what was stored; {RESTORE}" for row in wrong]
    return _first_named(problems, "vectors")


def _first_named(problems: list[str], what: str) -> list[str]:
    """The first DAMAGED_NAMED problems; if there are more, a last item says so of `what`, "chunks" or "vectors"."""
    if len(problems) <= DAMAGED_NAMED:
        return problems
    more = f"umi.db: more than {DAMAGED_NAMED} {what} are damaged; the first {DAMAGED_NAMED} are named; {RESTORE}"
    return [*problems[:DAMAGED_NAMED], more]


def _entries(core: Core, rows: Rows, wanted: Sequence[int]) -> dict[int, Entry | LedgerDamaged]:
    """Row -> its entry, or an error if the entry is damaged. Rows that the ledger lacks are left out."""
    seqs = [int(rows.seq[row]) for row in wanted]
    try:
        entries = core.ledger.entries(seqs)
    except LedgerDamaged as error:
        if len(wanted) == 1:
            return {wanted[0]: LedgerDamaged(f"chunk {rows.ids[wanted[0]]!r:.80} cannot be read: {error}")}
        middle = len(wanted) // 2
        return {**_entries(core, rows, wanted[:middle]), **_entries(core, rows, wanted[middle:])}
    found: dict[int, Entry | LedgerDamaged] = {}
    for row, seq in zip(wanted, seqs, strict=True):
        if seq in entries:
            try:
                found[row] = checked(entries[seq])
            except LedgerDamaged as error:
                found[row] = error
    return found


def _check_lexical(core: Core) -> list[str]:
    snapshot = core.indexes.snapshot
    if snapshot.lexical_fault is not None:
        return [f"lexical index: {snapshot.lexical_fault}"]
    indexed, living = len(snapshot.lexical), snapshot.rows.living
    return [] if indexed == living else [f"lexical index: it holds {indexed} of {living} chunks"]


def _check_postings(core: Core, *, full: bool) -> list[str]:
    """Compare the postings of chunks with their texts: of all chunks if `full`, else of a fixed sample.

    The sample is the SAMPLE chunks whose ids have the smallest CRC-32.
    """
    snapshot = core.indexes.snapshot
    if snapshot.lexical_fault is not None:
        return []
    rows, ids = np.flatnonzero(snapshot.rows.alive), snapshot.rows.ids
    if not full and len(rows) > SAMPLE:
        rows = np.sort(heapq.nsmallest(SAMPLE, rows.tolist(), key=lambda row: zlib.crc32(ids[row].encode())))
    wrong: list[str] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        read = _entries(core, snapshot.rows, rows[start : start + ROWS_AT_ONCE].tolist())
        # `_check_rows` reports the rows that are damaged or lost.
        texts = {row: entry.indexed_text for row, entry in read.items() if isinstance(entry, Entry)}
        found = list(texts)
        differing = snapshot.lexical.differing(np.array(found, dtype=np.int64), list(texts.values()))
        wrong += [ids[found[at]] for at in differing]
    if not wrong:
        return []
    return [
        f"lexical index: postings of {len(wrong)} of {len(rows)} chunks differ from their texts, "
        f"e.g. {wrong[:IDS_NAMED]}"
    ]


def rebuild(core: Core) -> None:
    """See `HybridStore.rebuild`."""
    core.ready_to_write()
    with core.writing:
        core.indexes.building = True
        try:
            if core.directory is not None:
                drop(core.directory)
                remove_others(core.directory, None)
            failpoint("rebuild.dropped")
            core.indexes.load(fresh=True)
            core.indexes.save(always=True)
        finally:
            core.indexes.building = False


def repair(core: Core) -> Verification:
    """See `HybridStore.repair`."""
    problems = _ledger_problems(core)
    if problems:
        core.ready_to_write()
        with core.writing:
            _remake_indexes(core.ledger)
        problems = _ledger_problems(core)
    if problems:
        raise LedgerDamaged(f"repair() cannot mend umi.db (problems: {len(problems)}). The first is: {problems[0]}")
    if not _index_problems(core, full=True):
        return Verification(core.indexes.snapshot.rows.living, ())
    rebuild(core)
    return verify(core)


def _remake_indexes(ledger: Ledger) -> None:
    """Build SQLite's indexes again from the tables. If that fails, the transaction is rolled back and no index changes.

    Raises:
        LedgerDamaged: If a table is damaged, or if SQLite cannot replace an index.
    """
    try:
        with ledger.transaction() as connection:
            connection.execute(DROP_CACHED_PAGES)
            connection.execute("REINDEX")
            # Read all rows after REINDEX: it may have overwritten pages of a table that were wrongly listed as free.
            ledger.changes(connection, None)
            ledger.check_id_index(connection)
        ledger.compact()  # frees the pages that only the damaged index used
    except LedgerDamaged as error:
        cause = error.__cause__  # if SQLite failed, quote its error: the message of `error` advises to call repair()
        reason = f" ({cause}); {RESTORE}" if isinstance(cause, DATABASE_ERRORS) else f": {error}"
        raise LedgerDamaged(f"repair() cannot mend {ledger.path}{reason}") from error


def compact(core: Core) -> None:
    """See `HybridStore.compact`."""
    core.ready_to_write()
    with core.writing:
        core.vector_cache.clear()  # the cache may hold vectors of removed chunks
        core.ledger.compact()
        rebuild(core)
        if core.directory is not None:
            delete_cache(core.directory / REPLIES)
            with core.ledger.reading() as connection:
                forget_other_texts(core.directory, (text for _, text, _ in core.ledger.texts(connection)))


def reindex(directory: Path, embedder: Embedder | None, config: UmiConfig | None, *, show_progress: bool) -> None:
    """See `HybridStore.reindex`."""
    check_directory(directory, must_exist=True)
    lock = locked_for_writing(directory)
    mark_file = MarkFile(directory)
    try:
        with closing(Ledger(directory / FILE)) as ledger:
            mark_file.check(mark_file.read(), ledger, _mark(ledger))
            session = ledger.begin_session()
            made_with = {} if config is None else recorded(ANALYZER, analyzer_text(config.analyzer))
            if embedder is None:
                ledger.set_meta(made_with)
            else:
                settings = (UmiConfig() if config is None else config).embedder
                cache = document_cache(directory, identity_of(embedder), settings.cached_documents)
                made_with |= recorded(EMBEDDER, embedder.name)
                _embed_again(ledger, embedder, settings, cache, made_with, show_progress=show_progress)
            mark = _mark(ledger)
        # SQLite keeps the write-ahead log if another process is reading; then the mark must not say "closed".
        mark_file.write(mark, session, closed=not ledger.log_bytes())
    finally:
        lock.release()


def _mark(ledger: Ledger) -> Mark:
    with ledger.reading() as connection:
        return ledger.mark(connection)


def _embed_again(
    ledger: Ledger,
    embedder: Embedder,
    config: EmbedderConfig,
    cache: VectorCache,
    made_with: dict[str, str],
    *,
    show_progress: bool,
) -> None:
    """Replace all vectors, and store the settings `made_with`, in one transaction.

    If it fails, the old vectors and settings stay; `cache` holds the new vectors so far.
    """
    dim: int | None = None
    with ledger.transaction() as connection, progress(ledger.count(connection), show_progress) as advance:
        stored = ledger.texts(connection)
        while rows := list(islice(stored, TEXTS_EMBEDDED_AT_ONCE)):
            heads, texts = [head for head, _, _ in rows], [text for _, text, _ in rows]
            vectors = embedded([head.id for head in heads], texts, embedder, dim=dim, config=config, cache=cache)
            dim = vectors.shape[1]
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (seq, vector, checksum) VALUES (?, ?, ?)",
                [(head.seq, *blob) for head, blob in zip(heads, encode_vectors(vectors), strict=True)],
            )
            advance(len(rows))
        connection.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'epoch'")
        connection.executemany(SET_META, made_with.items())
        # Recorded as a commit, so that other processes notice the change.
        ledger.record(connection, [b"embedder", embedder.name.encode()])
