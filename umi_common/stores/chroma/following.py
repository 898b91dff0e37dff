"""Updates a side index after writes to its collection, by this process or by other programs.

The ids of writes through the collection object that umi was given are noted, and the next search reads these records.

Writes of other programs are found by the number of records, which every search counts. After a slow count, the next
count waits until PAUSE_FACTOR times its duration has passed, except before a search by text alone. If the number
differs from the index, all ids are listed, new records are read, and removed records are dropped from the index.

A replaced record does not change the number. So every `Follower.seconds` seconds a search reads the next
RECORDS_COMPARED records and compares them with the index. If some have changed, the next records are compared at once.
If a record is gone, all ids are listed. While searches are made, every write is found after at most
ceil(records / RECORDS_COMPARED) * `Follower.seconds` seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from umi_common.errors import StoreUnavailable
from umi_common.stores.chroma.side_index import SideIndex

RECORDS_COMPARED = 1_000
"""Number of records that are read and compared together, which takes about 20 ms."""
SLOW_COUNT_SECONDS = 0.01
"""A count that takes at least this long is slow. Chroma counts 10,000 records in 1 ms, 100,000 in 25 ms."""
PAUSE_FACTOR = 10
"""Shortest time from the beginning of a slow count to the next count, as a multiple of the slow count's duration."""


class Follower:
    """Updates a side index after writes to its collection. Thread-safe.

    Args:
        side: The side index, changed only under `lock`.
        seconds: Seconds between two comparisons of records.
        lock: A reentrant lock, which the followers of one store share: a new side index replaces `side` under it.
    """

    def __init__(self, side: SideIndex, seconds: float, lock: threading.RLock) -> None:
        self.lock = lock
        self.seconds = seconds
        self._collection, self._side = side.collection, side
        self.compared_at = time.monotonic()
        """When records were last compared."""
        self._uncompared: list[str] = []
        """Ids of the records that this round of comparisons has not read yet. A round reads every record once."""
        self._written: set[str] = set()
        """Ids of records that were written and must be read again."""
        self._count_due = False
        """Whether the next `follow` counts the records even soon after a slow count."""
        self._next_count = 0.0
        """Value of `time.monotonic()` at which the pause after a slow count ends; 0: there is no pause."""
        self._written_lock = threading.Lock()
        """Guards `_written`."""
        side.collection.observe(self)

    def over(self, side: SideIndex) -> Follower:
        """A follower of another index of the same records, which continues this one's round of comparisons and reads
        the records that this one has noted. The caller holds `lock`."""
        made = Follower(side, self.seconds, self.lock)  # notes writes from now on
        made.compared_at, made._uncompared = self.compared_at, self._uncompared
        with self._written_lock:
            noted = list(self._written)
        made.written(noted)
        return made

    def follow(self, *, always: bool = True) -> None:
        """Update the index if a write was noted, if the number of records differs, or if a comparison is due.

        Args:
            always: Count the records even soon after a slow count; see PAUSE_FACTOR.
        """
        if self._written:
            self._read_written()
        if always or self._count_due or time.monotonic() >= self._next_count:
            self._compare_number()
        if time.monotonic() - self.compared_at >= self.seconds and self.lock.acquire(blocking=False):
            try:
                self.compare_records()
            finally:
                self.lock.release()

    def _compare_number(self) -> None:
        begun = time.monotonic()
        self._count_due = False  # before counting, because a later write sets it again
        self._next_count = 0.0
        same = self._collection.count() == len(self._side)
        took = time.monotonic() - begun
        if not same:
            with self.lock:
                if self._collection.count() != len(self._side):
                    self.compare_ids()
        elif took >= SLOW_COUNT_SECONDS:
            self._next_count = begun + PAUSE_FACTOR * took

    def written(self, ids: Sequence[str]) -> None:
        """Note a write through the same collection object: the next `follow` reads these records and counts.

        Called in the thread that wrote, even if the write failed.

        Args:
            ids: The ids that the caller of the write gave; empty for a deletion by a filter.
        """
        with self._written_lock:
            self._written.update(ids)
            self._count_due = True

    def forget(self, ids: Sequence[str]) -> None:
        """Remove ids from the noted ones, because the caller reads their records now."""
        with self._written_lock:
            self._written.difference_update(ids)

    def _read_written(self) -> None:
        with self.lock:
            with self._written_lock:
                ids, self._written = sorted(self._written), set()
            try:
                self._reread(ids, every=True)
            except BaseException:
                self.written(ids)
                raise

    def settle(self) -> None:
        """Read the noted records. If Chroma fails, remove them from the index, so that the next opening reads them."""
        try:
            self._read_written()
        except StoreUnavailable:
            with self.lock:
                self._side.update([], self._written)

    def sync(self) -> None:
        """Compare all ids and all records with the index."""
        with self.lock:
            self.compare_ids()
            self._uncompared = []
            while self.compare_records():
                pass

    def compare_ids(self) -> None:
        """List all ids; read the records that are new, and drop those that are gone. The caller holds `lock`."""
        gone = {*self._side.ids(), *self._side.skipped}
        new: list[str] = []
        for page in self._collection.pages_of_ids():
            gone.difference_update(page)
            new += [id for id in page if not self._side.knows(id)]
        if gone:
            self._side.update([], gone)
        self._reread(new)

    def compare_records(self) -> bool:
        """Compare the next records; returns whether this round has further records. The caller holds `lock`."""
        if not self._uncompared:
            self._uncompared = [*self._side.ids(), *self._side.skipped]
        changed = True
        while changed and self._uncompared:
            some, self._uncompared = self._uncompared[:RECORDS_COMPARED], self._uncompared[RECORDS_COMPARED:]
            changed = self._reread(some)
        self.compared_at = time.monotonic()
        return bool(self._uncompared)

    def _reread(self, ids: Sequence[str], *, every: bool = False) -> bool:
        """Read some records, and update the index with those that differ. Returns whether any differed or are gone.

        Args:
            every: Update records with the same text and metadata too, because their vectors may be new.
        """
        differing = False
        for start in range(0, len(ids), RECORDS_COMPARED):
            some = ids[start : start + RECORDS_COMPARED]
            read = self._collection.records(some)
            missing = [id for id in some if id not in read and self._side.knows(id)]
            there = [read[id] for id in some if id in read]
            changed = there if every else self._side.changed(there)
            if changed or missing:
                self._side.update(changed, missing)
                differing = True
            if missing and not every:  # if as many records are new, the number of records is the same
                self.compare_ids()
        return differing
