"""The chunks beside a chunk in its source, in one round trip.

A source's order is that of (position, id) among its living chunks, whatever gaps its positions have: two ordered
requests a place find what stands before and after it. Where positions mostly follow one another, a search asks for the
missing ones by their number instead, which brings nothing twice and nothing in vain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from umi_common.pool import NO_POSITION, NO_SOURCE, Ints
from umi_common.stores.qdrant.connection import Connection, models
from umi_common.stores.qdrant.points import Head

TIES = 2
"""Chunks more than needed that are asked for, in case several share one position."""
Place = tuple[str, int]
"""Source and position."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands around some places."""

    points: Mapping[str, Any]
    """By chunk id, as the server gave them."""
    following: Mapping[str, str]
    """The id directly after an id in its source, where that was seen."""
    previous: Mapping[str, str]
    """The id directly before."""

    def around(self, ids: Iterable[str], reach: int) -> list[str]:
        """Ids at most `reach` places from any of these, themselves included, where they were seen."""
        near: dict[str, None] = {}
        for id in ids:
            before, after = [id], [id]
            for _ in range(reach):
                if before[-1] in self.previous:
                    before.append(self.previous[before[-1]])
                if after[-1] in self.following:
                    after.append(self.following[after[-1]])
            near |= dict.fromkeys([*reversed(before), *after[1:]])
        return [id for id in near if id in self.points]


def beside(connection: Connection, places: Iterable[Place], reach: int, *, payload: Any, vectors: bool) -> Beside:
    """The chunks at most `reach` places before and after these places: one round trip.

    Raises:
        StoreUnavailable: If the server fails.
    """
    asked = [(place, after) for place in sorted(set(places)) for after in (False, True)]
    requests = [_request(place, after, reach, payload, vectors) for place, after in asked]
    answers = connection.query(requests) if requests else []
    points: dict[str, Any] = {}
    following: dict[str, str] = {}
    for points_there in answers:
        points |= {point.payload["id"]: point for point in points_there}
        inorder = [id for _, id in sorted((point.payload["position"], point.payload["id"]) for point in points_there)]
        following |= dict(pairwise(inorder))
    return Beside(points, following, {second: first for first, second in following.items()})


def _request(place: Place, after: bool, reach: int, payload: Any, vectors: bool) -> Any:
    m = models()
    source, position = place
    direction = m.Direction.ASC if after else m.Direction.DESC
    order = m.OrderBy(key="position", direction=direction, start_from=position)
    same = m.Filter(must=[m.FieldCondition(key="source", match=m.MatchValue(value=source))])
    return m.QueryRequest(
        query=m.OrderByQuery(order_by=order),
        filter=same,
        limit=reach + 1 + TIES,
        with_payload=payload,
        with_vector=vectors,
    )


def at_positions(connection: Connection, missing: Mapping[str, Collection[int]], *, payload: Any) -> list[Any]:
    """The chunks at these positions of their sources, with their vectors: one round trip.

    Raises:
        StoreUnavailable: If the server fails.
    """
    m = models()
    parts = [
        m.Filter(
            must=[
                m.FieldCondition(key="source", match=m.MatchValue(value=source)),
                m.FieldCondition(key="position", match=m.MatchAny(any=sorted(positions))),
            ]
        )
        for source, positions in sorted(missing.items())
    ]
    limit = (1 + TIES) * sum(map(len, missing.values()))
    return connection.some(m.Filter(should=parts), limit, payload=payload, vectors=True)


def missing_positions(heads: Mapping[str, Head], best: Collection[str], reach: int) -> dict[str, set[int]]:
    """By source, the positions at most `reach` from the best at which no head stands."""
    held: dict[str, set[int]] = defaultdict(set)
    for head in heads.values():
        if head.source is not None and head.position is not None:
            held[head.source].add(head.position)
    missing: dict[str, set[int]] = defaultdict(set)
    for id in best:
        source, position = heads[id].source, heads[id].position
        if source is not None and position is not None:
            missing[source] |= {position + step for step in range(-reach, reach + 1)} - held[source]
    return {source: positions for source, positions in missing.items() if positions}


def places_near(
    heads: Mapping[str, Head], best: Collection[str], missing: Mapping[str, set[int]], reach: int
) -> list[Place]:
    """Places of those of the best that have a missing position near them."""
    near = []
    for id in best:
        source, position = heads[id].source, heads[id].position
        if source is not None and position is not None and source in missing:
            around = range(position - reach, position + reach + 1)
            if not missing[source].isdisjoint(around):
                near.append((source, position))
    return near


def sources_of(heads: Sequence[Head]) -> Ints:
    """(n,) a code per source, by first appearance; NO_SOURCE."""
    codes: dict[str, int] = {}
    numbers = [NO_SOURCE if head.source is None else codes.setdefault(head.source, len(codes)) for head in heads]
    return np.array(numbers, dtype=np.int64)


def places_of(heads: Sequence[Head], following: Mapping[str, str]) -> Ints:
    """(n,) the order in the source, from 0: side by side differ by 1, what may stand apart by 2; NO_POSITION."""
    places = np.full(len(heads), NO_POSITION, dtype=np.int64)
    inside = [row for row, head in enumerate(heads) if head.source is not None and head.position is not None]
    inside.sort(key=lambda row: (str(heads[row].source), heads[row].position, heads[row].id))
    last: Head | None = None
    place = 0
    for row in inside:
        head = heads[row]
        if last is None or last.source != head.source:
            place = 0
        else:
            place += 1 if _side_by_side(last, head, following) else 2
        places[row], last = place, head
    return places


def _side_by_side(first: Head, second: Head, following: Mapping[str, str]) -> bool:
    assert first.position is not None and second.position is not None, "both have a place"
    return second.position - first.position <= 1 or following.get(first.id) == second.id
