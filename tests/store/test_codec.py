"""Chunks as rows: many encoded together give the same rows as each encoded alone."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from umi_common.stores.ledger.codec import decode, encode
from umi_common.types import Chunk

AWKWARD = st.text(st.sampled_from('{}[],:"\\\n\r\0 aé漢'), max_size=12) | st.sampled_from(
    ["},\n{", "},{", '"},\n{"', "\n"]
)
SCALARS = AWKWARD | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none() | st.floats(-1e9, 1e9)
METADATA = st.dictionaries(AWKWARD, SCALARS | st.lists(SCALARS, max_size=3).map(tuple), max_size=3)


@given(st.lists(METADATA, max_size=5))
def test_metadata_of_many_chunks_is_the_json_of_each(every: list[dict[str, object]]):
    chunks = [Chunk(f"c{at}", "text", metadata=metadata) for at, metadata in enumerate(every)]
    entries = encode(chunks)
    assert [entry.metadata for entry in entries] == [
        json.dumps(metadata, ensure_ascii=False, separators=(",", ":")) for metadata in every
    ]
    assert [decode(entry) for entry in entries] == chunks
