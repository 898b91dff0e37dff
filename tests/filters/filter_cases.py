"""Metadata and filters for the differential tests: few keys and values, so that filters often match; many are odd."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from umi_common.stores.rows.metadata import MetadataColumns
from umi_common.types import Metadata

KEYS = [
    "a",
    "b",
    "a.b",
    'q"uote',
    "it's",
    "[0]",
    "$.a",
    "",
    "é",
    "e\u0301",
    "日本",
    "\0",
    "a\0b",
    "a\1b",
    "\\u0000",
    "\\",
    "\n",
    "A",
    "😀",
]
SEEDED_KEYS = ["a", "b", "a.b", 'q"uote', "\0", "a\0b", "é", "\\u0000"]
STRINGS = [
    "",
    "x",
    "X",
    "aÄx",
    "äX",
    "x\0",
    "x\0y",
    "x\1",
    "x\1\2",
    "\\u0000",
    "\\",
    "x\\",
    '"',
    "é",
    "e\u0301",
    "1",
    "1.0",
    "true",
    "null",
    "日本",
    "😀",
    "\uffff",
    "[]",
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    0.0,
    -0.0,
    1.0,
    0.5,
    2.5,
    -2.5,
    0.1 + 0.2,
    0.3,
    5e-324,
    1e16,
    1e22,
    2.0**53,
    2.0**63,
    1.7976931348623157e308,
]
SCALARS = [*STRINGS, *NUMBERS, True, False, None]

OPERATORS = [
    *("$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$contains", "$not_contains", "$exists"),
    *("$text_match", "$text_match_insensitive"),
]

keys = st.sampled_from(KEYS) | st.text(st.characters(codec="utf-8"), max_size=4)
strings = st.sampled_from(STRINGS) | st.text(st.characters(codec="utf-8"), max_size=4)
numbers = st.sampled_from(NUMBERS) | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = strings | numbers | st.booleans() | st.none()
searched = strings.filter(lambda text: text and min(text) > "\2")
values = scalars | st.lists(scalars, max_size=3)
metadatas = st.dictionaries(keys, values, max_size=4)

_operators = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), values),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(scalars, min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), strings | numbers),
    st.tuples(st.sampled_from(["$contains", "$not_contains"]), scalars),
    st.tuples(st.sampled_from(["$text_match", "$text_match_insensitive"]), searched),
    st.tuples(st.just("$exists"), st.booleans()),
)
_on_key = st.dictionaries(
    keys.filter(lambda key: not key.startswith("$")), _operators.map(lambda pair: dict([pair])), min_size=1, max_size=2
)
wheres = st.recursive(
    _on_key,
    lambda inner: st.one_of(
        st.builds(
            lambda group, parts: {group: parts},
            st.sampled_from(["$and", "$or"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        inner.map(lambda part: {"$not": part}),
    ),
    max_leaves=6,
)


class Cases:
    """Seeded pairs of metadata and filter dicts."""

    def __init__(self, seed: int, keys: Sequence[str] = SEEDED_KEYS, scalars: Sequence[Any] = SCALARS) -> None:
        self._random = random.Random(seed)
        self._keys = list(keys)
        self._scalars = scalars
        self._searched = [text for text in scalars if isinstance(text, str) and text and min(text) > "\2"] or ["x"]
        self._ordered = [one for one in scalars if one is not None and not isinstance(one, bool)]

    def value(self) -> Any:
        if self._random.random() < 0.2:
            return [self._random.choice(self._scalars) for _ in range(self._random.randrange(3))]
        return self._random.choice(self._scalars)

    def metadata(self) -> dict[str, Any]:
        return {
            key: self.value()
            for key in self._random.sample(self._keys, self._random.randint(0, min(4, len(self._keys))))
        }

    def where(self, depth: int = 3) -> dict[str, Any]:
        draw = self._random.random()
        if depth and draw < 0.3:
            return {
                self._random.choice(["$and", "$or"]): [self.where(depth - 1) for _ in range(self._random.randint(1, 3))]
            }
        if depth and draw < 0.4:
            return {"$not": self.where(depth - 1)}
        return {self._random.choice(self._keys): self._asked()}

    def _asked(self) -> dict[str, Any]:
        operator = self._random.choice(OPERATORS)
        if operator in ("$in", "$nin"):
            return {operator: [self._random.choice(self._scalars) for _ in range(self._random.randint(1, 4))]}
        if operator.startswith("$text_match"):
            return {operator: self._random.choice(self._searched)}
        if operator in ("$gt", "$gte", "$lt", "$lte"):
            return {operator: self._random.choice(self._ordered)}
        if operator == "$exists":
            return {operator: self._random.random() < 0.5}
        return {operator: self.value() if operator in ("$eq", "$ne") else self._random.choice(self._scalars)}


def columns_of(metadatas: Sequence[Metadata]) -> MetadataColumns:
    """Columns with row i for metadatas[i]."""
    columns = MetadataColumns()
    columns.add(range(len(metadatas)), metadatas)
    return columns
