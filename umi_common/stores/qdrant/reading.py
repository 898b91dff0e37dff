"""Chunks by id, by place and all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from umi_common.errors import InputError, InvalidLimit
from umi_common.filters import Filter, matches
from umi_common.pool import Vectors
from umi_common.stores.qdrant.connection import Connection, models
from umi_common.stores.qdrant.filters import compiled
from umi_common.stores.qdrant.neighbours import beside
from umi_common.stores.qdrant.points import DENSE, SETTINGS, metadata_of, point_id, to_chunk
from umi_common.types import Chunk


def get(connection: Connection, ids: Sequence[str]) -> list[Chunk | None]:
    """See `QdrantStore.get`."""
    points = [point_id(id) for id in ids]
    records = connection.retrieve(list(dict.fromkeys(points)))
    chunks = {id: to_chunk(record.payload) for id, record in records.items()}
    return [chunks.get(point) for point in points]


def vectors(connection: Connection, ids: Sequence[str], dim: int) -> Vectors:
    """See `QdrantStore.vectors`."""
    points = [point_id(id) for id in ids]
    records = connection.retrieve(list(dict.fromkeys(points)), payload=False, vectors=[DENSE])
    made = np.zeros((len(ids), dim), dtype=np.float32)
    for row, point in enumerate(points):
        stored = (records[point].vector or {}).get(DENSE) if point in records else None
        if stored is not None:
            made[row] = stored
    return made


def neighbours(connection: Connection, ids: Sequence[str], reach: int, where: Filter | None) -> dict[str, list[Chunk]]:
    """See `QdrantStore.neighbours`."""
    known = [chunk for chunk in get(connection, ids) if chunk is not None]
    places = [(c.source, c.position) for c in known if c.source is not None and c.position is not None]
    seen = beside(connection, places, reach, payload=True, vectors=False)
    chunks = {id: to_chunk(point.payload) for id, point in seen.points.items()} | {chunk.id: chunk for chunk in known}
    around = {chunk.id: [chunks[id] for id in seen.around([chunk.id], reach)] or [chunk] for chunk in known}
    return {id: [chunk for chunk in near if matches(where, chunk.metadata)] for id, near in around.items()}


def chunks_alone(condition: Any = None) -> Any:
    """A filter that lets the chunks through, all or those that pass a condition: not the settings."""
    m = models()
    settings = m.HasIdCondition(has_id=[SETTINGS])
    return m.Filter(must=None if condition is None else [condition], must_not=[settings])


def list_ids(connection: Connection, where: Filter | None, tenants: tuple[str, ...]) -> list[str]:
    """Of all chunks that pass, rising: a pass over the collection without texts and vectors."""
    condition = compiled(where, None, tenants).condition
    payload = ["id"] if where is None else ["id", "metadata", "exact"]
    records = (record for page in connection.pages(chunks_alone(condition), payload=payload) for record in page)
    return sorted(
        record.payload["id"] for record in records if where is None or matches(where, metadata_of(record.payload))
    )


class Pages:
    """Walks all chunks by rising id, a page at a time; lists the ids once a walk."""

    def __init__(self) -> None:
        self._walk: tuple[Filter | None, str, list[str]] | None = None
        """The filter, where the last page ended, and all ids."""

    def page(
        self, connection: Connection, where: Filter | None, after: str | None, limit: int, tenants: tuple[str, ...]
    ) -> list[Chunk]:
        """See `QdrantStore.scan`."""
        start = _checked(after, limit)
        walk = self._walk
        goes_on = walk is not None and walk[:2] == (where, start)
        ids = walk[2] if walk is not None and goes_on else list_ids(connection, where, tenants)
        page: list[Chunk] = []
        at = bisect_right(ids, start) if start else 0
        while len(page) < limit and at < len(ids):  # what has gone since the listing leaves gaps
            some = ids[at : at + limit - len(page)]
            at += len(some)
            page += [c for c in get(connection, some) if c is not None and matches(where, c.metadata)]
        self._walk = (where, page[-1].id, ids) if len(page) == limit else None
        return page


def _checked(after: str | None, limit: int) -> str:
    """No id is the empty text, so all are greater."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidLimit(f"limit is {limit!r}; expected a whole number above 0, the chunks of one page")
    if after is None:
        return ""
    try:
        after.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise InputError(f"after is {after!r:.80}; expected the last id of the page before, or None") from error
    return after
