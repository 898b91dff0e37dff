"""Compare the points of a collection with what umi writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.stores.qdrant.collection import OpenCollection, chunks_alone
from umi_common.stores.qdrant.filters import facts_of
from umi_common.stores.qdrant.points import DENSE, LEXICAL, chunk_of_payload, point_id, sparse
from umi_common.stores.values import Verification

LENGTH_TOLERANCE = 1e-3
"""Largest difference of a unit vector's length from 1."""
VALUE_TOLERANCE = 1e-6
"""Largest difference of a term's stored value from the one computed from the text."""


def verify(collection: OpenCollection) -> Verification:
    """See `QdrantStore.verify`."""
    checked, problems = 0, list[str]()
    for records in collection.connection.pages(chunks_alone(), vectors=True):
        for record in records:
            checked += 1
            problems += _problems(record, collection)
    return Verification(checked, tuple(problems))


def _problems(record: Any, collection: OpenCollection) -> list[str]:
    try:
        chunk = chunk_of_payload(record.payload or {})
    except LedgerDamaged as error:
        return [str(error)]
    found = []
    if str(record.id) != point_id(chunk.id):
        found.append(f"it is stored as point {record.id}; expected {point_id(chunk.id)}")
    if record.payload.get("facts") != facts_of(chunk.metadata):
        found.append("its facts for filters are not those of its metadata")
    vectors = record.vector or {}
    dense = vectors.get(DENSE)
    if dense is not None and abs(float(np.linalg.norm(np.asarray(dense, dtype=np.float64))) - 1.0) > LENGTH_TOLERANCE:
        found.append("its vector is not of length 1")
    indices, values = sparse(collection.analyzer.terms(chunk.indexed_text), collection.saturation)
    lexical = vectors.get(LEXICAL)
    stored = ([], []) if lexical is None else (list(lexical.indices), list(lexical.values))
    if stored[0] != indices or not np.allclose(stored[1], values, rtol=0.0, atol=VALUE_TOLERANCE):
        found.append("its stored terms are not its text's")
    return [f"chunk {chunk.id!r}: {problem}" for problem in found]
