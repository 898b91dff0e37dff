"""The index that umi keeps beside a Chroma collection: what a search needs and Chroma does not have.

Each record with a readable text has one living row. Rows are numbered in the order of reading; a record that has
changed gets a new row, and its old row is dead. These values are kept by row:

    table      id, source, position, time; dead or living
    _lexical   postings of the text, for BM25
    names      the heading, if the text has one
    _digests   digest of the record as it was last read, by which a change is found
    _records   that record itself, if this process has read it
    _columns   metadata, from the first filter on
    vectors    a cache of the vectors in Chroma

`update` is the only write, by one thread at a time. It ends with a new `SideSnapshot`, which never changes and which
searches read. `save` writes table, postings, names and digests to files, and `load` reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from umi_common.embedders.cache import LruCache
from umi_common.filters import Filter, to_chroma
from umi_common.filters.tree import comparisons
from umi_common.pool import NO_SOURCE, Ints, Vectors, unit_vectors
from umi_common.stores.chroma.collection import ChromaCollection, Record
from umi_common.stores.chroma.records import KEY, ReadRecord, is_text, readable_chunk, record_digest
from umi_common.stores.chunk_names import Names
from umi_common.stores.corpus_stats import Calibration
from umi_common.stores.ledger.codec import Head
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.rows.metadata import MetadataColumns
from umi_common.stores.rows.rows import MISSING, UNKNOWN, Mask, Rows, RowTable
from umi_common.types import Chunk, TimeRange, microseconds

CACHE_BYTES = 128_000_000
"""Largest size of the cached vectors in bytes, for example 83,000 vectors of 384 dimensions."""
NUMBERS = count(1)
"""The numbers of the side indexes that this process makes."""
READ_AHEAD = 300
"""Number of further rows whose vectors are read whenever a vector is missing, if the vectors of all rows fit into
CACHE_BYTES. So the vectors of n rows are all cached after n / 300 searches that miss one."""


class CollectionVectors:
    """(n, dim) unit vectors of a collection by row of its side index, read when first needed. Thread-safe."""

    def __init__(self, side: SideIndex, dim: int) -> None:
        self._side, self._dim = side, dim
        self._most = CACHE_BYTES // (dim * np.dtype(np.float32).itemsize)
        self._cached: LruCache[int, Vectors] = LruCache(self._most)
        self._next = 0
        """The rows before this one were read ahead."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, dim)."""
        return len(self._side.snapshot.rows), self._dim

    def __getitem__(self, rows: Ints) -> Vectors:
        """(len(rows), dim) vectors; zeros for a record that is gone."""
        wanted = rows.tolist()
        found = self._cached.get(wanted)
        if missing := [row for row in wanted if row not in found]:
            found |= self._read(missing)
        zeros = np.zeros(self._dim, dtype=np.float32)
        return np.array([found.get(row, zeros) for row in wanted], np.float32).reshape(len(wanted), self._dim)

    def _read(self, missing: list[int]) -> dict[int, Vectors]:
        """Read and cache the vectors of these rows and of READ_AHEAD others. A record that is gone gets no vector in
        the cache, because it may come back."""
        rows, end = self._side.snapshot.rows, self._next
        if len(rows) <= self._most:
            end = min(self._next + READ_AHEAD, len(rows))
            ahead = self._next + np.flatnonzero(rows.alive[self._next : end])
            missing = [*missing, *ahead.tolist()]
        read, is_known = self._side.collection.vectors([rows.ids[row] for row in missing], self._dim)
        known = [row for row, there in zip(missing, is_known.tolist(), strict=True) if there]
        found = dict(zip(known, map(np.copy, unit_vectors(read[is_known])), strict=True))
        self._cached.put(found)
        self._next = end
        return found


@dataclass(frozen=True, slots=True)
class SideSnapshot:
    """The rows and postings after one update."""

    rows: Rows
    lexical: LexicalIndex


class SideIndex:
    """The index of one collection; see the module.

    Args:
        read: Makes a chunk of a record.
        dim: Dimension of the collection's vectors.
    """

    def __init__(self, collection: ChromaCollection, analyzer: Analyzer, read: ReadRecord, dim: int) -> None:
        self.collection, self.analyzer, self._read = collection, analyzer, read
        self.number = next(NUMBERS)
        """Distinguishes this index's rows from those of an earlier index of the collection."""
        self.table = RowTable()
        self._lexical = LexicalIndex(analyzer)
        self.names = Names(analyzer)
        """The headings of the texts: a text that mentions one refers to its row."""
        self._digests: list[int] = []
        self._records: list[Record | None] = []
        """None: the row is dead, or the record was read in an earlier process."""
        self._columns: MetadataColumns | None = None
        """None: no filter has asked for them yet."""
        self.vectors = CollectionVectors(self, dim)
        self.skipped: set[str] = set()
        """Ids of the records that have no row, because they have no text, or metadata that cannot be read."""
        self.derived: set[str] = set()
        """Metadata keys whose value in some chunk is not the value in Chroma, so that Chroma cannot filter by them."""
        self._in_source: Counter[str] = Counter()
        """Source -> number of its records that were read, the removed ones included; a replaced record counts once."""
        self.calibration = Calibration()
        self.damaged = False
        """Whether an update was interrupted, for example by Ctrl-C; the store then makes a new index."""
        self._write_lock = RLock()
        """Held during an update, and while the metadata columns are made, so that these miss no row."""
        self._publish()

    def without_dead_rows(self) -> SideIndex:
        """A new index of the living rows alone, in their order. Chroma is not called, and no text is analysed again.

        The caller must hold the follower's lock, under which all updates run. Vectors are read again when needed.
        """
        made = SideIndex(self.collection, self.analyzer, self._read, self.vectors.shape[1])
        rows, living = self.snapshot.rows, np.flatnonzero(self.snapshot.rows.alive)
        sources = [*self.table.sources, None]  # NO_SOURCE is -1, the index of None
        places = (array[living].tolist() for array in (rows.source, rows.position, rows.time))
        fields = zip(self.ids(), *places, strict=True)
        made.table.append([Head(row, id, sources[code], *place) for row, (id, code, *place) in enumerate(fields)])
        made._lexical = self._lexical.without_dead_rows(made.table.snapshot().source)
        for row, old in enumerate(living.tolist()):
            made._digests.append(self._digests[old])
            made._records.append(self._records[old])
            if old in self.names.by_row:
                made.names.put(row, self.names.by_row[old])
        if self._columns is not None:
            made._columns = self._columns.without_dead_rows(rows.alive)
        made.skipped, made.derived = set(self.skipped), set(self.derived)
        made._in_source = Counter({source: self._in_source[source] for source in made.table.sources})
        made._publish()
        return made

    def _publish(self) -> None:
        self.snapshot = SideSnapshot(self.table.snapshot(), self._lexical.view())

    def __len__(self) -> int:
        """Number of records in the index, the skipped ones included."""
        return self.snapshot.rows.living + len(self.skipped)

    def knows(self, id: str) -> bool:
        """Whether a record with this id was read, with or without a text."""
        return self.table.row_of(id) is not None or id in self.skipped

    def ids(self) -> list[str]:
        """Ids of all records with a text, in the order of their rows."""
        rows = self.snapshot.rows
        return [rows.ids[row] for row in np.flatnonzero(rows.alive).tolist()]

    def changed(self, records: Iterable[Record]) -> list[Record]:
        """The records that are new, that differ from the record last read, or that were skipped and now have a text."""

        def is_known(record: Record) -> bool:
            row = self.table.row_of(record.id)
            skipped = record.id in self.skipped and not is_text(record)
            return skipped if row is None else self._digests[row] == record_digest(record)

        return [record for record in records if not is_known(record)]

    def update(self, records: Sequence[Record], removed: Iterable[str] = ()) -> None:
        """Add records, replace records with the same ids, and remove the records with the ids `removed`."""
        with self._write_lock:
            made = [(record, chunk) for record in records if (chunk := self.chunk(record)) is not None]
            try:
                self._update({record.id for record in records}, set(removed), made)
            except BaseException:
                self.damaged = True
                raise

    def _update(self, read: set[str], removed: set[str], made: Sequence[tuple[Record, Chunk]]) -> None:
        """Give each record in `made` a row, and mark the older rows of these ids dead; skip the other ids in `read`."""
        replaced = read | removed
        self.skipped = (self.skipped - replaced) | (read - {record.id for record, _ in made})
        dead = [row for id in replaced if (row := self.table.row_of(id)) is not None]
        heads = [self._head(row, *each) for row, each in enumerate(made, len(self._records))]
        # The lists before the table: other threads look up a row in the table, and then in the lists.
        self._digests += [record_digest(record) for record, _ in made]
        self._records += [record for record, _ in made]
        rows, now = self.table.replace(np.array(dead, dtype=np.int64), heads)
        for row in dead:
            self._records[row] = None
        texts = [chunk.indexed_text for _, chunk in made]
        # The names before the snapshot: a search needs the names of all its rows, and ignores those of later rows.
        self.names.add(rows.tolist(), texts)
        self._lexical.update(rows.tolist(), texts, now.source[rows].tolist(), removed=dead)
        for record, chunk in made:
            one, other = {key: value for key, value in record.metadata.items() if key != KEY}, chunk.metadata
            alike = {key for key in one.keys() & other.keys() if one[key] == other[key]}
            self.derived |= (one.keys() | other.keys()) - alike
        if self._columns is not None and made:
            self._columns.add(rows.tolist(), [chunk.metadata for _, chunk in made])
        self._publish()

    def _head(self, row: int, record: Record, chunk: Chunk) -> Head:
        """The row's fields. A record with a source but no position gets as its position the number of records of this
        source that were read before. A record with KEY gets none: umi wrote it, of a chunk without a position."""
        source, position = chunk.source, chunk.position
        if source is not None:
            unstated = position is None and KEY not in record.metadata
            if unstated:
                position = self._in_source[source]
            if unstated or self._known_position(chunk.id, source) is None:
                self._in_source[source] += 1
        time = None if chunk.event_time is None else microseconds(chunk.event_time)
        return Head(row, chunk.id, source, position, time)

    def chunk(self, record: Record | None) -> Chunk | None:
        """As `records.readable_chunk`, but with the position that `_head` gave the record."""
        chunk = readable_chunk(record, self._read)
        if record is None or chunk is None or chunk.source is None or chunk.position is not None:
            return chunk
        position = None if KEY in record.metadata else self._known_position(chunk.id, chunk.source)
        return chunk if position in (None, MISSING) else replace(chunk, position=position)

    def _known_position(self, id: str, source: str) -> int | None:
        """Position of the record's row, MISSING if it has none; None: there is no row of this id with this source."""
        rows, row = self.row_of(id)
        if row is None or rows.source[row] == NO_SOURCE or self.table.sources[int(rows.source[row])] != source:
            return None
        return int(rows.position[row])

    def row_of(self, id: str) -> tuple[Rows, int | None]:
        """(a snapshot, the living row in it of the record with this id); None: there is no such record with a text."""
        rows, at = self.table.located([id])
        return rows, None if at[0] == UNKNOWN else int(at[0])

    def clause(self, where: Filter | None) -> dict[str, Any] | None:
        """A clause of Chroma's `where`, which passes at least the records whose chunks pass the filter; None: no
        clause is known, so that Chroma filters nothing."""
        if where is None or {leaf.key for leaf in comparisons(where)} & self.derived:
            return None
        clause = to_chroma(where)
        return None if clause is None else clause.where

    def last_read(self, id: str) -> Record | None:
        """The record as it was last read; None: it is not known, or was read in an earlier process."""
        row = self.table.row_of(id)
        return None if row is None else self._records[row]

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        """Id -> record as it was last read. The records that this process has not read yet are read from Chroma: a
        saved index holds only their digests."""
        found = {id: record for id in ids if (record := self.last_read(id)) is not None}
        read = self.collection.records([id for id in ids if id not in found])
        for id, record in read.items():
            row = self.table.row_of(id)
            if row is not None and self._digests[row] == record_digest(record):
                # The record is the one that was indexed; no program has changed it since.
                self._records[row] = record
        return found | read

    def columns(self) -> MetadataColumns:
        """The metadata columns, which the first call makes of all records."""
        with self._write_lock:
            if self._columns is None:
                rows, records = self.snapshot.rows, self.records(self.ids())
                metadatas: list[Any] = [{}] * len(rows)
                for row in np.flatnonzero(rows.alive).tolist():
                    chunk = readable_chunk(records.get(rows.ids[row]), self._read)
                    if chunk is not None:  # else another program changed the record, which `changed` will find
                        metadatas[row] = chunk.metadata
                columns = MetadataColumns()
                columns.add(range(len(rows)), metadatas)
                self._columns = columns
            return self._columns

    def allowed(self, where: Filter | None, window: TimeRange | None) -> tuple[SideSnapshot, Mask | None]:
        """(a snapshot, which of its rows are living and pass); None in place of the mask: all rows do."""
        if where is None:
            snapshot = self.snapshot
            return snapshot, snapshot.rows.allowed(None, window)
        columns = self.columns()  # before the snapshot, all of whose rows they must hold
        snapshot = self.snapshot
        return snapshot, snapshot.rows.allowed(columns.mask(where, len(snapshot.rows)), window)

    def save(self, directory: Path, made_of: dict[str, str]) -> None:
        """Write the index to the directory, in place of an older one. The caller must hold the follower's lock, under
        which all updates run.

        Args:
            made_of: The names of collection, embedder, analyzer and the function that reads a record. `load` accepts
                the index only if it is given equal ones.

        Raises:
            OSError: If a file cannot be written.
        """
        rows = self.snapshot.rows
        ids = [id if alive else "" for id, alive in zip(rows.ids[: len(rows)], rows.alive.tolist(), strict=True)]
        facts: dict[str, Any] = {
            "made_of": made_of,
            "ids": ids,
            "skipped": sorted(self.skipped),
            "derived": sorted(self.derived),
            "names": [(row, *name) for row, name in list(self.names.by_row.items()) if ids[row]],
        }
        arrays = {
            "source": rows.source,
            "position": rows.position,
            "time": rows.time,
            "digests": np.array(self._digests, dtype=np.int64),
            "in_source": np.array([self._in_source[source] for source in self.table.sources], dtype=np.int64),
            **self.calibration.saved(rows),
        }
        directory.mkdir(parents=True, exist_ok=True)
        self._lexical.save(directory, Mark(len(rows)), rows.seq, self.table.sources, arrays, facts)

    def load(self, directory: Path, made_of: dict[str, str]) -> bool:
        """Load a saved index; returns False if there is no readable index with this `made_of` and analyzer."""
        # The mark is only a number of rows; whether the index belongs to the collection is decided by `made_of` below.
        found = LexicalIndex.load(directory, self.analyzer, lambda mark: True)
        if found is None or found[1].facts.get("made_of") != made_of:
            return False
        self._lexical, saved = found
        facts, arrays, sources = saved.facts, saved.arrays, saved.sources
        ids, source, alive = facts["ids"], arrays["source"], saved.corpus.alive
        self.table = RowTable(ids, np.arange(len(ids)), source, arrays["position"], arrays["time"], alive, sources)
        self._digests, self._records = arrays["digests"].tolist(), [None] * len(ids)
        for row, *name in facts["names"]:
            self.names.put(row, tuple(name))
        self.skipped, self.derived = set(facts["skipped"]), set(facts["derived"])
        rows_in_source = np.bincount(source[source != NO_SOURCE], minlength=len(sources))
        counts = arrays.get("in_source", rows_in_source).tolist()  # indexes of older versions lack the array
        self._in_source = Counter(dict(zip(sources, counts, strict=True)))
        self._publish()
        self.calibration = Calibration.restored(self.snapshot.rows, arrays)
        return True
