"""Find the chunks before and after a chunk in its source, mostly in one round trip.

A source is ordered by (position, id), and its positions may have gaps. Two sorted requests for each position find the
chunks before and after it. If many chunks share a position, the requests are repeated with a larger limit. If
successive positions mostly differ by 1 (`Statistics.gapless`), a search instead requests the missing positions by
number, and so reads no chunk twice. It then does not find a chunk that shares its position with a candidate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from umi_common.pool import NO_POSITION, Ints
from umi_common.stores.qdrant.connection import Connection, models
from umi_common.stores.qdrant.points import HEAD, Candidate, own_points
from umi_common.types import Chunk

TIES = 2
"""Number of additional chunks in a request, because several chunks may have the same position."""
REPEATED_BELOW = 256
"""A request with at least this limit is not repeated with a larger limit. If so many chunks have one position, the
chunks at the positions before and after it are not found."""

LOCAL_LIMIT = 2**31
"""A number above the number of points of any collection in local mode."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Points around the requested positions, and which of them follows which."""

    points: Mapping[str, Any]
    """Chunk id -> point."""
    following: Mapping[str, str]
    """Chunk id -> the id directly after it in its source, if that id is known."""

    def around(self, ids: Iterable[str], reach: int) -> list[str]:
        """The known ids at most `reach` chunks before or after any of `ids`, and `ids` themselves if known."""
        near: dict[str, None] = {}
        previous = {second: first for first, second in self.following.items()}
        for id in ids:
            before, after = _walked(previous, id, reach), _walked(self.following, id, reach)
            near |= dict.fromkeys([*reversed(before), *after[1:]])
        return [id for id in near if id in self.points]


def _walked(steps: Mapping[str, str], id: str, count: int) -> list[str]:
    """`id` and the next `count` ids along `steps`; fewer if the steps end before."""
    ids = [id]
    while len(ids) <= count and ids[-1] in steps:
        ids.append(steps[ids[-1]])
    return ids


def beside(
    connection: Connection, chunks: Iterable[Chunk | Candidate], reach: int, *, payload: Any, vectors: bool
) -> Beside:
    """The chunks at most `reach` places before and after the positions of `chunks`; in local mode, perhaps others of
    their sources, too."""
    places = {(each.source, each.position) for each in chunks if each.source is not None and each.position is not None}
    if connection.is_local:
        return _in_sources(connection, {source for source, _ in places}, payload, vectors)
    open_requests = [(*place, after) for place in sorted(places) for after in (False, True)]
    limit = reach + 1 + TIES
    points: dict[str, Any] = {}
    following: dict[str, str] = {}
    while open_requests:
        answers = connection.query([_request(*each, limit, payload, vectors) for each in open_requests])
        repeated = []
        for each, answer in zip(open_requests, answers, strict=True):
            position = each[1]
            # An answer that was cut off may lack chunks at its last position, so that position is left out.
            cut_at = answer[-1].payload["position"] if len(answer) == limit else None
            whole = [point for point in own_points(answer) if point.payload["position"] != cut_at]
            beyond = sum(point.payload["position"] != position for point in whole)
            if cut_at is not None and beyond < reach and limit < REPEATED_BELOW:
                repeated.append(each)
                continue
            points |= {point.payload["id"]: point for point in whole}
            # Each answer has no gaps: all chunks of the source between its first and its last.
            in_order = sorted((point.payload["position"], point.payload["id"]) for point in whole)
            following |= dict(pairwise(id for _, id in in_order))
        open_requests, limit = repeated, 4 * limit
    return Beside(points, following)


def _in_sources(connection: Connection, sources: Collection[str], payload: Any, vectors: bool) -> Beside:
    """All chunks of the sources that have a position, in one request: local mode compares every point with each."""
    if not sources:
        return Beside({}, {})
    m = models()
    same = m.Filter(must=[m.FieldCondition(key="source", match=m.MatchAny(any=sorted(sources)))])
    request = m.QueryRequest(filter=same, limit=LOCAL_LIMIT, with_payload=payload, with_vector=vectors)
    found = own_points(connection.query([request])[0])
    points = [point for point in found if point.payload.get("position") is not None]
    points.sort(key=lambda point: (point.payload["source"], point.payload["position"], point.payload["id"]))
    following = {
        first.payload["id"]: second.payload["id"]
        for first, second in pairwise(points)
        if first.payload["source"] == second.payload["source"]
    }
    return Beside({point.payload["id"]: point for point in points}, following)


def _request(source: str, position: int, after: bool, limit: int, payload: Any, vectors: bool) -> Any:
    """The request for the chunks of a source from a position on, by rising position; without `after` by falling one."""
    m = models()
    direction = m.Direction.ASC if after else m.Direction.DESC
    query = m.OrderByQuery(order_by=m.OrderBy(key="position", direction=direction, start_from=position))
    same = m.Filter(must=[m.FieldCondition(key="source", match=m.MatchValue(value=source))])
    return m.QueryRequest(query=query, filter=same, limit=limit, with_payload=payload, with_vector=vectors)


def at_positions(connection: Connection, missing: Mapping[str, Collection[int]]) -> list[Any]:
    """The points at the positions `missing`, a mapping from source to positions; one round trip, which reads at most
    1 + TIES points for each position."""
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
    # Local mode compares every point with each part, unless the point's source is none of these.
    of_sources = m.FieldCondition(key="source", match=m.MatchAny(any=sorted(missing)))
    limit = (1 + TIES) * sum(map(len, missing.values()))
    return connection.page(m.Filter(must=[of_sources], should=parts), limit, payload=HEAD, vectors=True)[0]


def missing_positions(candidates: Mapping[str, Candidate], best: Collection[str], reach: int) -> dict[str, set[int]]:
    """Source -> the positions without a candidate that are at most `reach` from a candidate in `best`."""
    held = {(each.source, each.position) for each in candidates.values()}
    missing: dict[str, set[int]] = defaultdict(set)
    for id in best:
        source, position = candidates[id].source, candidates[id].position
        if source is not None and position is not None:
            near = range(position - reach, position + reach + 1)
            missing[source].update(other for other in near if (source, other) not in held)
    return {source: positions for source, positions in missing.items() if positions}


def indices_in_source(candidates: Sequence[Candidate], following: Mapping[str, str]) -> Ints:
    """(n,) numbers that rise along each source, from 0; NO_POSITION for a candidate without source or position.

    The numbers of two successive candidates of a source differ by 1 if the candidates are adjacent, else by 2. Without
    `following`, candidates count as adjacent if their positions differ by at most 1.
    """
    indices = np.full(len(candidates), NO_POSITION, dtype=np.int64)
    in_sources = sorted(
        (each.source, each.position, each.id, row)
        for row, each in enumerate(candidates)
        if each.source is not None and each.position is not None
    )
    index, before = 0, None
    for source, position, id, row in in_sources:
        if before is None or source != before[0]:
            index = 0
        elif position - before[1] <= 1 or following.get(before[2]) == id:
            index += 1
        else:
            index += 2
        indices[row], before = index, (source, position, id)
    return indices
