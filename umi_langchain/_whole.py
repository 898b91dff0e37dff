"""Search small, return the section: a hit's chunk gives way to all adjacent chunks of the same section or source."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from umi_common.context.budget import AssemblyPolicy
from umi_common.context.pieces import pieces_of
from umi_common.context.stitch import stitched
from umi_common.filters import Filter
from umi_common.protocols import Store, chunk_passes
from umi_common.types import Chunk, Hit, SearchResult, TimeRange

IDS_KEY = "umi_ids"
"""Where the metadata of a joined text lists the ids of its chunks, in reading order."""
REACH = 100
"""Most chunks before and after a hit that join it."""
POLICY = AssemblyPolicy()


def in_whole(
    result: SearchResult, store: Store, key: str, where: Filter | None, window: TimeRange | None
) -> SearchResult:
    """The result with one hit for each section: its best one, with the text of the section.

    Args:
        result: Best first.
        store: Holds the chunks.
        key: Metadata key whose value the chunks of a section share; a hit without it stays as it is.
        where, window: The search's own; chunks that do not pass are left out of a section, too.
    """
    around = store.neighbours(result.ids, reach=REACH, where=where)
    shown: set[str] = set()
    hits: list[Hit] = []
    for hit in result:
        if hit.chunk.id not in shown:
            visible = [chunk for chunk in around.get(hit.chunk.id, ()) if chunk_passes(chunk, where, window)]
            section = _section(hit.chunk, visible, key)
            shown.update(chunk.id for chunk in section)
            hits.append(replace(hit, chunk=_joined(hit.chunk, section), rank=len(hits) + 1))
    return replace(result, hits=tuple(hits))


def _section(found: Chunk, around: list[Chunk], key: str) -> list[Chunk]:
    """The adjacent chunks that have the value of `found` under the key, itself included."""
    if found.metadata.get(key) is not None:
        for _, group in groupby(around, lambda chunk: chunk.metadata.get(key)):
            section = list(group)
            if any(chunk.id == found.id for chunk in section):
                return section
    return [found]


def _joined(found: Chunk, section: list[Chunk]) -> Chunk:
    if len(section) == 1:
        return found
    pieces = pieces_of([Hit(chunk, 0.0, rank) for rank, chunk in enumerate(section, start=1)], POLICY)
    text = "\n\n".join(stretch.text for stretch in stitched(pieces, POLICY.joiner))
    return replace(found, text=text, metadata={**found.metadata, IDS_KEY: tuple(chunk.id for chunk in section)})
