"""Metadata by key. A comparison is evaluated once for each distinct value of its key, and not once for each chunk.

The column of a key has its distinct values, each at the index that is its code, and for each row the code of its value.
The results of the last filters are cached. A range such as "created in the last 7 days" is new in each search and not
in the cache, so the distinct values are also sorted, and the values in a range are found by bisection.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.embedders.cache import LruCache
from umi_common.filters import And, Comparison, Filter, Or, holds, identity
from umi_common.filters.tree import ORDERINGS, comparisons, same_kind
from umi_common.pool import Ints
from umi_common.stores.arrays import Growing
from umi_common.stores.rows.rows import Mask
from umi_common.types import Metadata, MetadataValue

NO_VALUE = 0
"""Code of None, and of the rows that lack the key."""

CACHED_MAX = 32
"""Largest number of cached masks, one for each filter."""

COMPARING = frozenset({"$eq", "$in", *ORDERINGS})
"""Operators that are true only if both values are of the same kind, such as two numbers."""
LIKE_SHARE, LIKE_MAX = 0.7, 3
"""Smallest ratio of `difflib`, 0..1, at which two texts are similar; largest number of similar texts that are named."""
TEXTS_MAX = 5
"""Largest number of texts of a filter that are compared with the values of their keys, because no row has them."""
COMPARED_MAX = 10_000
"""Largest number of values of a key that are compared with a text of a filter that none equals."""
BOOLEANS = "true or false"
LISTS = "lists or nested values"
"""Name of the kind of lists, and of nested values of a framework's documents, which are stored as lists."""
EMPTY = ("", ())
"""Values with which a filter asks whether a chunk's value is empty or missing, as LlamaIndex's `is_empty` does."""
NO_VALUES = b"[null]"
"""JSON of the values of a column in which no row has a value: None alone, whose code is `NO_VALUE`."""

_PLAIN = frozenset({str, int, float})
"""Types whose values are their own `filters.identity`, the key by which equal values are one. It differs from the value
for booleans, because True == 1, and for lists. Calling it for the types here, too, would double the time of `add`."""


class MetadataColumns:
    """Evaluates filters over rows 0..n-1; a result is a boolean array.

    A code takes 4 bytes a row, or up to 8 after the array has grown. Rows are only appended, so a cached mask is
    extended and never computed again. One writer at a time; readers never wait for it.
    """

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        """Keys without a column although rows may have a value, because `restored` got none. A filter on such a key
        cannot be evaluated."""
        self._columns: dict[str, _Column] = {}
        self._rows = 0
        self._masks: LruCache[Filter, Mask] = LruCache(CACHED_MAX)

    @classmethod
    def restored(cls, keys: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]], rows: int) -> MetadataColumns:
        """The columns of `rows` rows from what `saved` returned. The values of a key are read when they are used. A key
        whose arrays are missing is in `left_out`."""
        columns = cls()
        for at, key in enumerate(keys):
            if f"codes {at}" in arrays:
                columns._columns[key] = _Column(arrays[f"codes {at}"].astype(np.int32), arrays[f"values {at}"].data)
            else:
                columns.left_out.add(key)
        columns._rows = rows
        return columns

    def saved(self, alive: Mask) -> tuple[list[str], dict[str, npt.NDArray[Any]]]:
        """(keys, arrays by name) for `restored`, without the values that only dead rows have.

        Those of keys[i] are "codes i" and "values i"; the keys in `left_out` come first and have no arrays.

        Args:
            alive: (len(self),) whether each row is living.
        """
        keys = sorted(self.left_out)
        arrays: dict[str, npt.NDArray[Any]] = {}
        for key, column in self._columns.items():
            codes, values = column.saved(alive)
            if values != NO_VALUES:
                arrays |= {f"codes {len(keys)}": codes, f"values {len(keys)}": np.frombuffer(values, np.uint8)}
                keys.append(key)
        return keys, arrays

    def without_dead_rows(self, alive: Mask) -> MetadataColumns:
        """New columns of the living rows, numbered from 0 in their order; `alive` as in `saved`."""
        keys, arrays = self.saved(alive)
        kept = {name: array[alive] if name.startswith("codes") else array for name, array in arrays.items()}
        return MetadataColumns.restored(keys, kept, int(np.count_nonzero(alive)))

    @property
    def keys(self) -> Set[str]:
        """The keys under which some row has a value."""
        return self._columns.keys()

    def __len__(self) -> int:
        """One more than the highest row so far."""
        return self._rows

    def add(self, rows: Sequence[int], metadatas: Sequence[Metadata]) -> None:
        """Append the metadata of new rows; a row that `rows` skips has no metadata.

        Args:
            rows: Strictly rising, each >= len(self).
            metadatas: metadatas[i] belongs to rows[i]; its lists are tuples, or lists as JSON gives them.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        assert len(rows) == len(metadatas) and (np.diff(numbers, prepend=self._rows - 1) > 0).all()
        if not len(numbers):
            return
        found: defaultdict[str, tuple[list[int], list[MetadataValue]]] = defaultdict(lambda: ([], []))
        for row, metadata in zip(numbers.tolist(), metadatas, strict=True):
            for key, value in metadata.items():
                if value is not None and key not in self.left_out:
                    at, values = found[key]
                    at.append(row)
                    values.append(value)
        for key in found.keys() - self._columns.keys():
            self._columns[key] = _Column(np.full(self._rows, NO_VALUE, dtype=np.int32))
        stop = int(numbers[-1]) + 1
        for key, column in self._columns.items():
            column.put(stop, *found.get(key, ([], [])))
        self._rows = stop  # last, so that readers see a row only when all its codes are set

    def mask(self, where: Filter, n: int) -> Mask:
        """(n,) whether each of the rows 0..n-1 passes, as `filters.matches` defines it; n <= len(self). Read-only."""
        assert 0 <= n <= self._rows
        known = self._masks.get([where]).get(where)
        if known is None or len(known) < n:
            start = 0 if known is None else len(known)
            added = self._evaluate(where, start, n)
            known = added if known is None else np.concatenate([known, added])
            known.flags.writeable = False
            self._masks.put({where: known})
        return known[:n]

    def unknown_keys(self, where: Filter) -> list[str]:
        """Keys of the filter under which no row has a value, rising. Keys inside a `Not` are left out, because rows
        without a value may pass a `Not`."""
        return sorted({each.key for each in comparisons(where, negated=False)} - self._columns.keys())

    def other_kinds(self, where: Filter) -> dict[str, tuple[str, str]]:
        """Key -> (kinds of the values in the filter, kinds of the stored values), for keys where they have no kind in
        common: {"year": ("text", "a number")} for the filter {"year": "2021"} if years are stored as numbers.

        Keys inside a `Not` are left out. The values in `EMPTY` have no kind in a filter.
        """
        asked: dict[str, set[str]] = {}
        for each in comparisons(where, negated=False):
            if each.key in self._columns:
                asked.setdefault(each.key, set()).update(_kinds_asked(each))
        found: dict[str, tuple[str, str]] = {}
        for key, kinds in asked.items():
            held = self._columns[key].kinds(unless=kinds)
            if kinds and kinds.isdisjoint(held):
                found[key] = (" or ".join(sorted(kinds)), " or ".join(sorted(held)))
        return found

    def similar_texts(self, where: Filter) -> list[tuple[str, str, list[str]]]:
        """(key, text, stored texts that resemble it) for each text of the filter, given by `$eq` or `$in`, that no row
        has under the key although rows have similar ones (`_Column.similar`). Keys inside a `Not` are left out."""
        similar = [(key, text, column.similar(text)) for key, text, column in self._missing_texts(where)]
        return [each for each in similar if each[2]]

    def in_other_capitals(self, where: Filter) -> list[str]:
        """The keys of `similar_texts` under which a row has the text of the filter but for its capitals."""
        return [key for key, text, column in self._missing_texts(where) if column.in_other_capitals(text) is not None]

    def _missing_texts(self, where: Filter) -> Iterator[tuple[str, str, _Column]]:
        """(key, text, column) for the first `TEXTS_MAX` texts that a filter asks for by `$eq` or `$in` and that no row
        has; columns of more than `COMPARED_MAX` values are left out."""
        equal = (each for each in comparisons(where, negated=False) if each.operator in ("$eq", "$in"))
        asked = ((each.key, value) for each in equal if each.key in self._columns for value in _alternatives(each))
        texts = ((key, value, self._columns[key]) for key, value in asked if value and type(value) is str)
        return islice((each for each in texts if each[2].may_resemble(each[1])), TEXTS_MAX)

    def _evaluate(self, where: Filter, start: int, stop: int) -> Mask:
        """The mask of rows start..stop-1, as a new array, which the caller may change."""
        if isinstance(where, Comparison):
            column = self._columns.get(where.key)
            if column is None:
                return np.full(stop - start, holds(where, None))
            return column.mask(where, start, stop)
        if isinstance(where, (And, Or)):
            combine = np.logical_and if isinstance(where, And) else np.logical_or
            mask = self._evaluate(where.parts[0], start, stop)
            for part in where.parts[1:]:
                combine(mask, self._evaluate(part, start, stop), out=mask)
            return mask
        mask = self._evaluate(where.part, start, stop)
        return np.logical_not(mask, out=mask)


class _Column:
    """The values of one key: codes by row, and values by code. Neither a row's code nor a code's value ever changes.

    Args:
        codes: Of the first rows.
        values: JSON of their values, each at the index of its code.
    """

    def __init__(self, codes: npt.NDArray[np.int32], values: bytes | memoryview = NO_VALUES) -> None:
        self._codes = Growing.holding(codes)
        self._json = values
        self._read: dict[str, tuple[list[MetadataValue], dict[Hashable, int]]] = {}
        """"values" -> `_known`, once it has been read. It is a dict, because `setdefault` sets a value only once, also
        if two threads read at a time. A lock would do so, too, but could stay locked in a forked process."""
        self._sorted: dict[bool, tuple[int, Ints]] = {}
        """For numbers (False) and texts (True): (number of `_values` searched for them, their codes, the code of the
        smallest value first)."""

    @property
    def _known(self) -> tuple[list[MetadataValue], dict[Hashable, int]]:
        """(values by code, code by identity of the value)"""
        known = self._read.get("values")
        if known is None:
            values = list(map(_of_json, json.loads(bytes(self._json))))
            code_of = {each if type(each) in _PLAIN else identity(each): code for code, each in enumerate(values)}
            # If another thread has read them meanwhile, its values are used: a writer may have added some.
            known = self._read.setdefault("values", (values, code_of))
            self._json = NO_VALUES
        return known

    @property
    def _values(self) -> list[MetadataValue]:
        return self._known[0]

    def saved(self, alive: Mask) -> tuple[npt.NDArray[np.unsignedinteger[Any]], bytes]:
        """(codes by row, in the smallest type; JSON of the values by code), without values that only dead rows have.
        The codes are new; those of dead rows are NO_VALUE."""
        codes, values = np.where(alive, self._codes.view, NO_VALUE), self._values
        used = np.zeros(len(values), dtype=np.bool_)
        used[NO_VALUE] = used[codes] = True
        kept = [values[code] for code in used.nonzero()[0].tolist()]
        return (used.cumsum() - 1).astype(np.min_scalar_type(len(kept)))[codes], json.dumps(kept).encode()

    def put(self, stop: int, rows: Sequence[int], values: Sequence[MetadataValue]) -> None:
        """Set the value of rows[i] to values[i]; other new rows before `stop` have no value."""
        codes: list[int] = []
        known, code_of = self._known if len(values) else ([], {})
        for value in values:
            key = value if type(value) in _PLAIN else identity(value)
            code = code_of.get(key)
            if code is None:
                code = len(known)
                known.append(_of_json(value))  # before its code can be seen by a reader
                code_of[key] = code
            codes.append(code)
        self._codes.extend(np.full(max(0, stop - len(self._codes.view)), NO_VALUE))
        self._codes.view[np.asarray(rows, dtype=np.int64)] = codes

    def kinds(self, *, unless: set[str]) -> set[str]:
        """The kinds of all values; of the first value alone if its kind is in `unless`, to keep it fast."""
        first = _kinds(self._values[:2])  # None is at NO_VALUE
        return _kinds(self._values) if first.isdisjoint(unless) else first

    def may_resemble(self, text: str) -> bool:
        """Whether no row has had the text, and there are at most `COMPARED_MAX` values to compare it with."""
        values, code_of = self._known
        return text not in code_of and len(values) <= COMPARED_MAX

    def similar(self, text: str) -> list[str]:
        """At most `LIKE_MAX` values, or items of lists, that resemble a text: the one that differs only in capitals,
        else those that hold it, else those spelled nearly so. None if a list holds the text itself."""
        items = (item for value in self._values for item in (value if isinstance(value, tuple) else [value]))
        held = dict.fromkeys(item for item in items if isinstance(item, str))
        folded, texts = text.casefold(), {each.casefold(): each for each in held}
        if folded in texts:
            return [] if text in held else [texts[folded]]
        longer = [each for each in texts if folded in each] or get_close_matches(folded, texts, LIKE_MAX, LIKE_SHARE)
        return [texts[each] for each in longer[:LIKE_MAX]]

    def in_other_capitals(self, text: str) -> str | None:
        """The value that differs from a text only in capitals."""
        texts, folded = (value for value in self._values if isinstance(value, str)), text.casefold()
        return next((value for value in texts if value.casefold() == folded), None)

    def mask(self, comparison: Comparison, start: int, stop: int) -> Mask:
        """(stop - start,) whether each of the rows start..stop-1 passes; their codes must be set."""
        codes, (values, code_of) = self._codes.view[start:stop], self._known
        count = len(values)
        if comparison.operator == "$eq":
            return np.asarray(codes == code_of.get(comparison.identity, -1), dtype=np.bool_)
        table = np.zeros(count, dtype=np.bool_)
        if comparison.operator == "$in" and isinstance(comparison.identity, frozenset):
            table[[code for value in comparison.identity if (code := code_of.get(value, count)) < count]] = True
        elif comparison.operator in ORDERINGS and not start:
            passing = self._codes_in_range(comparison)
            table[passing[passing < count]] = True  # a writer may have added values
        elif start:  # a cached mask is extended: only the values of its new rows are compared
            for code in set(codes.tolist()):
                table[code] = holds(comparison, values[code])
        else:
            table[:] = [holds(comparison, value) for value in values[:count]]
        return table.take(codes)

    def _codes_in_range(self, comparison: Comparison) -> Ints:
        """The codes of the values that pass a comparison by order."""
        of_texts, bound = isinstance(comparison.value, str), comparison.value
        value_of: Callable[[int], Any] = self._values.__getitem__
        read, codes = self._sorted.get(of_texts, (0, np.zeros(0, dtype=np.int64)))
        count = len(self._values)
        if read < count:
            new = sorted((code for code in range(read, count) if same_kind(value_of(code), bound)), key=value_of)
            places = [bisect_right(codes, value_of(code), key=value_of) for code in new]
            codes = np.insert(codes, np.array(places, dtype=np.int64), new)
            self._sorted[of_texts] = (count, codes)
        bisect = bisect_left if comparison.operator in ("$gte", "$lt") else bisect_right
        at = bisect(codes, bound, key=value_of)  # type: ignore[type-var]  # one kind: numbers or texts
        return codes[:at] if comparison.operator in ("$lt", "$lte") else codes[at:]


def _alternatives(comparison: Comparison) -> Sequence[MetadataValue]:
    """The values that a comparison names: those of `$in`, else one."""
    value = comparison.value
    return value if isinstance(value, tuple) and comparison.operator == "$in" else [value]


def _kinds_asked(comparison: Comparison) -> set[str]:
    """The kinds of the values that can pass a comparison; empty if it asks whether there is a value."""
    if comparison.operator in COMPARING:
        return _kinds(value for value in _alternatives(comparison) if value not in EMPTY)
    return {LISTS if comparison.operator == "$contains" else "text"}


def _kinds(values: Iterable[MetadataValue]) -> set[str]:
    """The kinds of values; None has no kind."""
    names = {bool: BOOLEANS, str: "text", tuple: LISTS}
    return {names.get(kind, "a number") for kind in set(map(type, values)) - {type(None)}}


def _of_json(value: MetadataValue | list[Any]) -> MetadataValue:
    """The value as a chunk holds it: a list of JSON becomes a tuple."""
    return tuple(value) if isinstance(value, list) else value
