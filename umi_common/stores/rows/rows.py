"""Ids, sources, positions and times of all chunks as arrays by row; row i is the i-th chunk that was appended.

`RowTable` grows in place, under the store's write lock. `Rows` is an immutable snapshot of it, so a search sees one
state from start to end. The row of a removed or replaced chunk stays and is marked dead; other rows are living.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import repeat

import numpy as np
import numpy.typing as npt

from umi_common.pool import NO_POSITION, NO_SOURCE, Floats, Ints
from umi_common.protocols import NEIGHBOURS_OF, RecallRequest
from umi_common.runtime.forks import cached_property
from umi_common.stores.arrays import Growing, distinct
from umi_common.stores.ledger.codec import Head
from umi_common.types import MICROSECONDS_PER_HOUR, TimeRange, microseconds

Mask = npt.NDArray[np.bool_]

MISSING = np.iinfo(np.int64).min
"""Entry of `position` or `time` for a chunk that has none."""
NO_NUMBERS: Ints = np.zeros(0, dtype=np.int64)
NO_ROWS: Mask = np.zeros(0, dtype=np.bool_)
UNKNOWN = -1
"""Row number for an id that has no living row."""
DEAD_ROWS_MAX = 10_000
"""If more rows than this, and more than half of all rows, are dead, a store builds its indexes again without them: see
`Rows.mostly_dead`. With fewer rows, the vectors are not saved in files (`dense.vectors.SAVED_FROM`)."""
RESORTED_FROM = 100
"""If there are more new rows than this, `source_order` is sorted again; up to so many are inserted one by one."""


@dataclass(eq=False, repr=False)
class Rows:
    """A snapshot of n rows. Must not be changed."""

    ids: list[str]
    """Ids by row. May have more than n items: those after the first n belong to later snapshots."""
    seq: Ints
    """(n,) sequence numbers, rising."""
    source: Ints
    """(n,) code of the source; NO_SOURCE if it has none."""
    position: Ints
    """(n,) as given by the user; MISSING if none was given."""
    time: Ints
    """(n,) microseconds since 1970; MISSING if none was given."""
    alive: Mask
    """(n,) whether each row is living."""
    living: int
    """Number of rows that are alive."""
    earlier_source_order: tuple[Ints, int] | None = None
    """`source_order` of an earlier snapshot, and the number of its rows."""

    def __len__(self) -> int:
        return len(self.seq)

    def mostly_dead(self, most: int) -> bool:
        """Whether more than `most` rows, and more than half of all rows, are dead."""
        return len(self) - self.living > max(most, self.living)

    def earlier(self, alive: Mask) -> Rows:
        """The snapshot of the first m rows at an earlier time, when the rows in `alive`, an (m,) mask, were alive."""
        seq, source, position, time = (each[: len(alive)] for each in (self.seq, self.source, self.position, self.time))
        return Rows(self.ids, seq, source, position, time, alive, int(np.count_nonzero(alive)))

    def rows_of_seqs(self, seqs: Sequence[int]) -> Ints:
        """The rows with these sequence numbers, dead rows included; unknown numbers are left out."""
        wanted = np.asarray(seqs, dtype=np.int64)
        rows = self.seq.searchsorted(wanted)
        inside = rows < len(self.seq)
        inside[inside] = self.seq[rows[inside]] == wanted[inside]
        return rows[inside]

    def among(self, seqs: Sequence[int], which: Mask) -> list[int]:
        """The given sequence numbers of the rows in `which`, an (n,) mask."""
        rows = self.rows_of_seqs(seqs)
        found: list[int] = self.seq[rows[which[rows]]].tolist()
        return found

    @cached_property
    def source_order(self) -> Ints:
        """Living rows with source and position, sorted by source, position and id, so that neighbours are adjacent."""
        order, known = self.earlier_source_order or (np.zeros(0, dtype=np.int64), 0)
        new = known + np.flatnonzero(self._has_position(slice(known, None)))
        if len(new) > RESORTED_FROM:
            return self._sorted(np.flatnonzero(self._has_position(slice(None))))
        if self.living < len(self):
            order = order[self.alive[order]]
        return self._inserted(order, new) if len(new) else order

    def known_source_order(self) -> tuple[Ints, int] | None:
        """The latest computed `source_order`, and the number of rows of its snapshot; None: none was computed yet."""
        return (self.source_order, len(self)) if "source_order" in self.__dict__ else self.earlier_source_order

    def _has_position(self, which: slice) -> Mask:
        """For each row of the slice, whether it is living and has a source and a position."""
        positioned: Mask = (self.source[which] != NO_SOURCE) & (self.position[which] != MISSING)
        return positioned & self.alive[which]

    def _sorted(self, rows: Ints) -> Ints:
        """The rows sorted by source, position and id."""
        order = rows[np.lexsort((self.position[rows], self.source[rows]))]
        tied = (np.diff(self.source[order]) == 0) & (np.diff(self.position[order]) == 0)
        if tied.any():
            involved = distinct(np.concatenate([order[:-1][tied], order[1:][tied]]))
            by_id = np.zeros(len(self), dtype=np.int64)  # of each tied row, its place among these by id
            by_id[sorted(involved.tolist(), key=self.ids.__getitem__)] = np.arange(len(involved))
            order = rows[np.lexsort((by_id[rows], self.position[rows], self.source[rows]))]
        return order

    def _inserted(self, order: Ints, new: Ints) -> Ints:
        """`order` with the new rows inserted at their places."""
        new = self._sorted(new)
        codes = self.source[order]
        insert_at = []
        for row in new.tolist():
            first, last = codes.searchsorted((self.source[row], self.source[row] + 1)).tolist()
            positions = self.position[order[first:last]]
            left, right = (first + int(positions.searchsorted(self.position[row], side)) for side in ("left", "right"))
            insert_at.append(bisect_left(order, self.ids[row], left, right, key=self.ids.__getitem__))
        return np.insert(order, insert_at, new)

    @cached_property
    def slot(self) -> Ints:
        """(n,) index of each row in `source_order`; -1: `source_order` lacks the row."""
        slot = np.full(len(self), -1, dtype=np.int64)
        slot[self.source_order] = np.arange(len(self.source_order))
        return slot

    @cached_property
    def index_in_source(self) -> Ints:
        """(n,) index of each row among the living rows of its source that have a position, from 0; else NO_POSITION."""
        starts = np.flatnonzero(np.diff(self.source[self.source_order], prepend=NO_SOURCE))
        sizes = np.diff(starts, append=len(self.source_order))
        index = np.full(len(self), NO_POSITION, dtype=np.int64)
        index[self.source_order] = np.arange(len(self.source_order)) - np.repeat(starts, sizes)
        return index

    def beside(self, rows: Ints, reach: int) -> Ints:
        """The given rows that have a position, and the rows at most `reach` places before or after each in its source;
        unsorted, with repeats."""
        slot = self.slot[rows]
        slots = slot[slot >= 0][:, None] + np.arange(-reach, reach + 1)
        inside = (slots >= 0) & (slots < len(self.source_order))
        found = self.source_order[np.where(inside, slots, 0)]
        codes = self.source[found]
        near: Ints = found[inside & (codes == codes[:, reach, None])]
        return near

    def with_neighbours(
        self, rankings: Sequence[Ints], others: Ints, request: RecallRequest, allowed: Mask | None
    ) -> Ints:
        """The rows of a pool, sorted by id: the rows of the rankings, `others`, and the neighbours of the best rows.

        The best rows are the first `request.depth // NEIGHBOURS_OF` of each ranking. Their neighbours are the allowed
        rows at most `request.around` places away in the same source.

        Args:
            rankings: Rows, best first.
            others: Further rows, in any order.
            allowed: (n,) whether each row may be found; None: all may be.
        """
        chosen = np.zeros(len(self), dtype=np.bool_)  # faster than sorting the row numbers
        for rows in (*rankings, others):
            chosen[rows] = True
        if request.around and rankings:
            best = np.concatenate([rows[: request.depth // NEIGHBOURS_OF] for rows in rankings]).astype(np.int64)
            beside = self.beside(best, request.around)
            chosen[beside if allowed is None else beside[allowed[beside]]] = True
        return self.by_id(chosen.nonzero()[0])

    def around(self, row: int, reach: int) -> Ints:
        """A row and the rows at most `reach` places before or after it in its source, in order; the row alone if it
        has no position."""
        slot = int(self.slot[row])
        near: Ints = self.source_order[max(0, slot - reach) : slot + reach + 1] if slot >= 0 else np.array([row])
        same: Ints = near[self.source[near] == self.source[row]]
        return same

    def by_id(self, rows: Ints) -> Ints:
        """The rows in the order of their ids."""
        return np.array(sorted(rows.tolist(), key=self.ids.__getitem__), dtype=np.int64)

    def age_hours(self, now: int, rows: Ints | slice = slice(None)) -> Floats:
        """Hours from each row's time to `now` (microseconds since 1970): negative after `now`, NaN without a time."""
        time = self.time[rows]
        return np.where(time == MISSING, np.nan, (now - time) / MICROSECONDS_PER_HOUR)

    def within(self, window: TimeRange) -> Mask:
        """(n,) whether each row has a time in the window, from its start to before its end."""
        inside: Mask = self.time != MISSING
        if window.start is not None:
            inside &= self.time >= microseconds(window.start)
        if window.end is not None:
            inside &= self.time < microseconds(window.end)
        return inside

    def allowed(self, passing: Mask | None, window: TimeRange | None) -> Mask | None:
        """(n,) whether each row is living, is in the mask `passing` and has a time in the window; None: all rows do."""
        masks = [] if self.living == len(self) else [self.alive]
        if window is not None:
            masks.append(self.within(window))
        if passing is not None:
            masks.append(passing)
        return reduce(np.logical_and, masks) if masks else None

    def decay(self, request: RecallRequest) -> Floats | None:
        """(n,) factors of decay; None: decay is off."""
        if request.decay.half_life_hours is None:
            return None
        return request.decay_weights(self.age_hours(microseconds(request.now)))


class RowTable:
    """All rows so far, by row number. Rows are appended and marked dead, never removed. One writer at a time.

    Args:
        ids: Ids of the first rows; "" for a dead row.
        seq, source, position, time, alive: Of the first rows, as in `Rows`.
        sources: Names of the sources by code.
    """

    def __init__(
        self,
        ids: Sequence[str] = (),
        seq: Ints = NO_NUMBERS,
        source: Ints = NO_NUMBERS,
        position: Ints = NO_NUMBERS,
        time: Ints = NO_NUMBERS,
        alive: Mask = NO_ROWS,
        sources: Sequence[str] = (),
    ) -> None:
        self._ids = list(ids)
        self._seq, self._source, self._position, self._time = map(Growing.copied, (seq, source, position, time))
        self._alive = Growing.copied(alive)
        self._by_id = {id: row for row, id in enumerate(ids) if id}
        """Id -> its living row."""
        self._last: Rows | None = None
        """The latest snapshot; None: none was made yet."""
        self._lock = threading.Lock()
        """Held while a write changes the rows, until their snapshot is made; see `located`."""
        self.sources = list(sources)
        """Names of the sources by code; append-only."""
        self._codes: dict[str | None, int] = {name: code for code, name in enumerate(sources)} | {None: NO_SOURCE}

    def __len__(self) -> int:
        return len(self._ids)

    def row_of(self, id: str) -> int | None:
        """The living row of an id; None: there is none."""
        return self._by_id.get(id)

    def rows_of(self, ids: Sequence[str]) -> Ints:
        """The living row of each id, in the order of `ids`; UNKNOWN for an id without one."""
        return np.fromiter(map(self._by_id.get, ids, repeat(UNKNOWN)), np.int64, len(ids))

    def seqs_of(self, ids: Sequence[str]) -> list[int | None]:
        """The sequence number of each id's living row, in the order of `ids`; None for an id without one."""
        rows = [self._by_id.get(id) for id in ids]
        seq = self._seq.view  # read after the rows, so that the array holds these rows
        return [None if row is None else int(seq[row]) for row in rows]

    @property
    def latest(self) -> Rows:
        """The latest snapshot. A write that is not indexed yet is in it."""
        return self.snapshot() if self._last is None else self._last

    def located(self, ids: Sequence[str]) -> tuple[Rows, Ints]:
        """The latest snapshot, and `rows_of(ids)` in it."""
        with self._lock:
            return self.latest, self.rows_of(ids)

    def replace(self, dead: Ints, heads: Sequence[Head]) -> tuple[Ints, Rows]:
        """Append living rows, and mark older ones dead; returns the numbers of the new rows, and a snapshot."""
        with self._lock:
            rows = self.append(heads)
            self.remove(dead)  # after the append, so that readers always find a row of a replaced id
            return rows, self.snapshot()

    def append(self, heads: Sequence[Head]) -> Ints:
        """Append living rows; returns their numbers. The caller removes older rows of their ids."""
        first = len(self._ids)
        rows = np.arange(first, first + len(heads))
        if not heads:
            return rows
        seqs, ids, sources, positions, times = map(list, zip(*heads, strict=True))
        self._ids.extend(ids)
        self._seq.extend(seqs)
        for source in dict.fromkeys(sources):
            if source not in self._codes:
                self._codes[source] = len(self.sources)
                self.sources.append(source)
        self._source.extend(list(map(self._codes.__getitem__, sources)))
        self._position.extend([MISSING if position is None else position for position in positions])
        self._time.extend([MISSING if time is None else time for time in times])
        self._alive.extend(np.ones(len(heads), dtype=np.bool_))
        self._by_id.update(zip(ids, rows.tolist(), strict=True))
        return rows

    def remove(self, rows: Ints) -> None:
        """Mark rows dead. Older snapshots do not change."""
        if not len(rows):
            return
        alive = self._alive.view.copy()
        alive[rows] = False
        self._alive = Growing.holding(alive)
        for row in rows.tolist():
            if self._by_id.get(self._ids[row]) == row:
                del self._by_id[self._ids[row]]

    def snapshot(self) -> Rows:
        """A snapshot of the current rows."""
        before = None if self._last is None else self._last.known_source_order()
        seq, source, position, time = (each.view for each in (self._seq, self._source, self._position, self._time))
        self._last = Rows(self._ids, seq, source, position, time, self._alive.view, len(self._by_id), before)
        return self._last
