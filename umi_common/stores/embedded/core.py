"""An open store: ledger, indexes, embedder and lock as one, and the rules of writing to them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.errors import InputError, LedgerDamaged, StoreClosed, StoreForked, StoreReadOnly
from umi_common.filters import Filter, parse_filter
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.runtime.limits import COMPUTE_SLOTS
from umi_common.stores.batch_checks import checked_chunks, checked_vectors, embedded, refuse_other_dimension
from umi_common.stores.distinct import distinct
from umi_common.stores.embedded.directory import WriterLock
from umi_common.stores.embedded.indexes import Indexes
from umi_common.stores.embedded.state import Change
from umi_common.stores.ledger.acknowledged import HighWater
from umi_common.stores.ledger.codec import Entry, Head, decode, encode, encode_vectors
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.ledger.made_with import fingerprint
from umi_common.types import Chunk

BEGUN_FROM = 200
"""Texts from which analysing them while SQLite commits is worth a thread."""


class Core:
    """What every part of the façade works on."""

    def __init__(
        self, directory: Path | None, ledger: Ledger, lock: WriterLock | None, embedder: Embedder, config: UmiConfig
    ) -> None:
        self.directory = directory
        self.ledger = ledger
        self.embedder = embedder
        self.config = config
        self.high_water = HighWater(directory)
        acknowledged = self.high_water.read()
        self.indexes = Indexes(ledger, directory, config.analyzer)
        self.high_water.check(acknowledged, ledger, self.indexes.state.mark)
        self._session: str | None = None
        """Of this writer, as `Ledger.begin_session` names it; None: nothing was written yet."""
        self.writing = threading.RLock()
        """Held from looking at what is there until the change is in the indexes."""
        self._lock = lock
        self._pid = os.getpid()
        self._closed = False

    def ready(self) -> None:
        """Before every read: usable, and level with the ledger.

        Raises:
            StoreClosed, StoreForked: As named.
        """
        self._check_open()
        self.indexes.follow()

    def ready_to_write(self) -> None:
        """Before every write.

        Raises:
            StoreClosed, StoreForked, StoreReadOnly, StoreMoved: As named.
        """
        self._check_open()
        if self.ledger.read_only:
            raise StoreReadOnly("the store was opened with read_only=True; open it without to write")
        self.ledger.check_location()
        self.indexes.follow()

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise StoreForked("the store was opened before a fork; open it again in this process")
        if self._closed:
            raise StoreClosed("the store is closed; open it again")

    @property
    def dim(self) -> int | None:
        """Of the stored vectors; None: there never was one."""
        return self.indexes.state.vectors.shape[1] or None

    def add(self, chunks: Iterable[Chunk], vectors: Any, *, show_progress: bool) -> None:
        """See `HybridStore.add`."""
        self.ready_to_write()
        batch = checked_chunks(chunks)
        given = None if vectors is None else checked_vectors(vectors, batch, self.dim)
        entries = encode(batch)
        while True:
            same = self._unchanged(entries, given)
            todo = [at for at, entry in enumerate(entries) if entry.id not in same]
            if not todo:
                return
            if given is not None:
                made = given[todo] if same else given
            else:
                ids, texts = [batch[at].id for at in todo], [batch[at].text for at in todo]
                made = embedded(ids, texts, self.embedder, dim=self.dim, show_progress=show_progress)
            with self.writing:
                self.ready_to_write()
                # While we embedded, another thread may have removed what was unchanged; then look again.
                if self.indexes.seqs_of(list(same)) == list(same.values()):
                    refuse_other_dimension(made, self.dim)
                    self._replace([entries[at] for at in todo], made)
                    return

    def _unchanged(self, entries: Sequence[Entry], vectors: Vectors | None) -> dict[str, int]:
        """Ids, with ledger numbers, of entries that are stored just so; with `vectors`, these as well."""
        known = {at: seq for at, seq in enumerate(self._seqs_of(entries)) if seq is not None}
        stored = self.ledger.checksums(list(known.values())) if known else {}
        same = {}
        for at, seq in known.items():
            digest, checksum = stored.get(seq, (None, None))
            if digest == entries[at].digest and (
                vectors is None or [checksum] == [check for _, check in encode_vectors(vectors[at : at + 1])]
            ):
                same[entries[at].id] = seq
        return same

    def _replace(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        dead = [seq for seq in self._seqs_of(entries) if seq is not None]
        self._commit(dead, entries, vectors)

    def _seqs_of(self, entries: Sequence[Entry]) -> list[int | None]:
        return self.indexes.seqs_of([entry.id for entry in entries])

    def delete(self, ids: Iterable[str] | None, where: Filter | Mapping[str, Any] | None) -> int:
        """See `HybridStore.delete`."""
        self.ready_to_write()
        tree = parse_filter(where)
        if ids is None and tree is None:
            raise InputError("delete() needs ids= or where=; to empty a store, delete its directory")
        if isinstance(ids, str):
            raise InputError("delete(ids=...) takes a list of ids; put the one id into a list")
        wanted = None if ids is None else list(ids)
        with self.writing:
            self.ready_to_write()
            state = self.indexes.state
            allowed = state.by_row.mask(state, tree, None)
            chosen = np.ones(len(state.rows), dtype=np.bool_) if allowed is None else allowed
            if wanted is not None:
                named = {row for id in wanted if (row := self.indexes.row_of(id)) is not None}
                only = np.zeros(len(state.rows), dtype=np.bool_)
                only[list(named)] = True
                chosen = chosen & only
            dead = state.rows.seq[chosen].tolist()
            if dead:
                self._commit(dead, [], np.zeros((0, state.vectors.shape[1]), dtype=np.float32))
            return len(dead)

    def _commit(self, dead: Sequence[int], entries: Sequence[Entry], vectors: Vectors) -> None:
        indexes = self.indexes
        settings = fingerprint(self.embedder) if indexes.state.mark.seq == 0 else None
        if self._session is None:
            self._session = self.ledger.begin_session()
        try:
            texts, metadata = [entry.text for entry in entries], [entry.metadata for entry in entries]
            meanwhile = partial(indexes.state.by_row.lexical.begin, texts) if len(texts) >= BEGUN_FROM else None
            mark = self.ledger.change(dead, entries, vectors, settings, meanwhile)
            self.high_water.write(mark, self._session)
            seqs = range(mark.seq - len(entries) + 1, mark.seq + 1)
            heads = [Head(seq, *entry[:4]) for seq, entry in zip(seqs, entries, strict=True)]
            indexes.apply(Change(mark, dead, heads, texts, metadata, vectors))
        except BaseException:
            indexes.stale = True  # the commit may have been made: the next call asks the ledger
            raise
        indexes.save(always=False)

    def ids(self) -> list[str]:
        """Of all living chunks, rising."""
        rows = self.indexes.state.rows
        return sorted(rows.ids[row] for row in np.flatnonzero(rows.alive).tolist())

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """See `HybridStore.get`."""
        return self.get_versions(ids, self.indexes.seqs_of(ids))

    def get_versions(
        self, ids: Sequence[str], seqs: Sequence[int | None], *, exact: bool = False
    ) -> list[Chunk | None]:
        """See `HybridStore.get_versions`."""
        wanted = list(seqs)
        found = self._present([seq for seq in wanted if seq])
        while gone := [] if exact else [at for at, seq in enumerate(wanted) if seq and seq not in found]:
            self.ready()
            for at, seq in zip(gone, self.indexes.seqs_of([ids[at] for at in gone]), strict=True):
                wanted[at] = None if seq == wanted[at] else seq
            found |= self._present([seq for at in gone if (seq := wanted[at])])
        return [found.get(seq) if seq else None for seq in wanted]

    def _present(self, seqs: Sequence[int]) -> dict[int, Chunk]:
        """Chunks by ledger number, without those that are known to be removed: they may still be in memory."""
        removed = self.indexes.removed(seqs)
        return self.chunks([seq for seq, gone in zip(seqs, removed, strict=True) if not gone])

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """See `HybridStore.vectors`."""
        with self.indexes.lock:  # rows and vectors of one moment
            found = [(at, row) for at, id in enumerate(ids) if (row := self.indexes.row_of(id)) is not None]
            stored = self.indexes.state.vectors
            made = np.zeros((len(ids), stored.shape[1]), dtype=np.float32)
            made[[at for at, _ in found]] = stored[[row for _, row in found]]
        return made

    def neighbours(self, ids: Sequence[str], reach: int, where: Filter | None) -> dict[str, list[Chunk]]:
        """See `HybridStore.neighbours`."""
        state = self.indexes.state
        rows, by_row = state.rows, state.by_row
        allowed = None if where is None else by_row.mask(state, where, None)
        around: dict[str, list[int]] = {}
        for id in ids:
            row = by_row.row_of(id)
            if row is not None and row < len(rows):
                beside = distinct(rows.beside(np.array([row]), reach))
                ordered = beside[np.argsort(rows.slot[beside])] if len(beside) else np.array([row])
                ordered = ordered if allowed is None else ordered[allowed[ordered]]
                around[id] = rows.seq[ordered].tolist()
        chunks = self.chunks(sorted({seq for seqs in around.values() for seq in seqs}))
        return {id: [chunks[seq] for seq in seqs if seq in chunks] for id, seqs in around.items()}

    def chunks(self, seqs: Sequence[int]) -> dict[int, Chunk]:
        """Chunks by ledger number; those that are gone are left out.

        Raises:
            LedgerDamaged: If one that nobody removed is not there.
        """
        kept = self.indexes.state.by_row.chunks
        found, missing = kept.known(seqs)
        if missing:
            with COMPUTE_SLOTS.held():
                read = {seq: decode(entry) for seq, entry in self.ledger.entries(missing).items()}
            if len(read) < len(missing) and not self.ledger.read_only:
                self._check_lost([seq for seq in missing if seq not in read])
            kept.keep(read)
            found.update(read)
        return found

    def _check_lost(self, seqs: Sequence[int]) -> None:
        """What is gone from the ledger must have been removed by a write; wait for the write under way to say so."""
        if not any(self.indexes.alive(seqs)):
            return
        with self.writing:
            self.indexes.follow()
            lost = [seq for seq, alive in zip(seqs, self.indexes.alive(seqs), strict=True) if alive]
        if lost:
            raise LedgerDamaged(f"the ledger has lost row {lost[0]}; restore umi.db from a copy")

    def close(self) -> None:
        """Save what is worth saving and let go; a second call does nothing."""
        if self._closed or os.getpid() != self._pid:
            return
        with self.writing:
            self._closed = True
            try:
                if not self.ledger.read_only:
                    self.indexes.save(always=True)
            finally:
                self.ledger.close()
                if self._session is not None and self.ledger.in_place() and not self.ledger.has_log():
                    self.high_water.write(self.indexes.state.mark, self._session, closed=True)
                self.high_water.close()
                if self._lock is not None:
                    self._lock.release()
