"""Replace the chunk of each hit by its section: the chunk joined with adjacent chunks that share a metadata value."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from umi_common.context.budget import AssemblyPolicy
from umi_common.context.pieces import HEAD_KEY, LINE_KEY, pieces_of, stitched
from umi_common.filters import Comparison, Filter, Not
from umi_common.frameworks.records import IDS_KEY, METADATA_ALONE, to_metadata
from umi_common.protocols import Store, chunk_passes
from umi_common.runtime.losses import log_bug, log_once, warn_once
from umi_common.types import Chunk, Degradation, Hit, SearchResult, TimeRange

REACH = 100
"""Chunks that are read on each side of a hit. If the section may be longer, ALL are read on each side."""
ALL = 1_000_000
"""More chunks than a source has."""
NO_POSITION = (
    "whole=%r joins adjacent chunks, but a found chunk has no source or no position, so it is returned alone; give "
    "the documents a source in their metadata, and either a position or a start index (split them with "
    "add_start_index=True). Logged once for this key."
)
NO_KEY = (
    "whole=%r joins adjacent chunks with the same value under this metadata key, but no chunk of the store has the "
    "key, so every chunk is returned alone; check its spelling. Logged once for this key."
)
POLICY = AssemblyPolicy()
"""Policy that joins adjacent chunks: text that two chunks share where they meet appears once."""


def with_sections(
    result: SearchResult, store: Store, key: str, where: Filter | None, window: TimeRange | None
) -> SearchResult:
    """The result with one hit for each section: its best hit, with the text of the whole section.

    If the store fails, the hits stay as they are, and `degraded` names the failure.

    Args:
        key: Metadata key whose value the chunks of a section share; a hit without the key stays as it is.
        where, window: Filter and time range of the search; a section holds only chunks that pass both.
    """
    shown: set[str] = set()
    hits: list[Hit] = []
    try:
        if result.hits and all(_value(hit.chunk, key) is None for hit in result):
            if not store.scan(where=Not(Comparison(key, "$eq", None)), limit=1):
                warn_once("whole", f"no {key}", NO_KEY, key)
            return result
        around = store.neighbours(result.ids, reach=REACH, where=where)
        for hit in result:
            if hit.chunk.id not in shown:
                section = _section(hit.chunk, around.get(hit.chunk.id, []), store, key, where, window)
                shown.update(chunk.id for chunk in section)
                chunk = _joined(hit.chunk, section) if _value(hit.chunk, key) is not None else hit.chunk
                hits.append(replace(hit, chunk=chunk, rank=len(hits) + 1))
        return replace(result, hits=tuple(hits))
    except Exception as error:  # noqa: BLE001 - the chunks are found, and are returned without their sections
        log_bug("neighbours", error)
        lost = Degradation("neighbours", type(error).__name__, "returned the found chunks in place of whole sections")
        log_once([lost])
        return replace(result, degraded=(*result.degraded, lost))


def _section(
    found: Chunk, around: list[Chunk], store: Store, key: str, where: Filter | None, window: TimeRange | None
) -> list[Chunk]:
    """The section of `found`, in reading order.

    `around` is `found` and, of the REACH chunks before it and the REACH chunks after it, those that pass `where`.
    """
    if _value(found, key) is None:
        return [found]
    if found.source is None or found.position is None:
        warn_once("whole", key, NO_POSITION, key)
        return [found]
    visible = [chunk for chunk in around if chunk_passes(chunk, where, window)]
    section = _within(found, visible, key)
    # The section may go on beyond `visible` if it holds the first or last chunk of it, unless `around` is the whole
    # source. Without a filter, an `around` of at most REACH chunks is the whole source: if it lacks a chunk of the
    # source, it holds REACH chunks on that side and `found`. With a filter, the number of chunks tells nothing.
    ends = {chunk.id for chunk in (*visible[:1], *visible[-1:])}
    is_whole_source = where is None and len(around) <= REACH
    if is_whole_source or not ends & {chunk.id for chunk in section}:
        return section
    whole = store.neighbours([found.id], reach=ALL, where=where).get(found.id, [])
    return _within(found, [chunk for chunk in whole if chunk_passes(chunk, where, window)], key)


def _within(found: Chunk, around: list[Chunk], key: str) -> list[Chunk]:
    """`found` and the chunks adjacent to it in `around` that have the same value under the key, in reading order."""
    sections = (list(group) for _, group in groupby(around, lambda chunk: _value(chunk, key)))
    return next((section for section in sections if any(chunk.id == found.id for chunk in section)), [found])


def _value(chunk: Chunk, key: str) -> Any:
    return to_metadata(chunk, METADATA_ALONE).get(key) if key in chunk.metadata else None


def _joined(found: Chunk, section: list[Chunk]) -> Chunk:
    """`found` with the joined text of its section, and with the ids of the section's chunks under `IDS_KEY`."""
    # All scores are equal, so the chunks are joined in the order of their ranks, which is the reading order.
    pieces = pieces_of([Hit(chunk, 0.0, rank) for rank, chunk in enumerate(section, start=1)], POLICY)
    text = "\n\n".join(stretch.text for stretch in stitched(pieces, POLICY.joiner)) if len(section) > 1 else found.text
    # These keys describe how a text begins, so their values are those of the section's first chunk.
    places = (*POLICY.offset_keys, HEAD_KEY, LINE_KEY)
    metadata = {key: value for key, value in found.metadata.items() if key not in places}
    metadata |= {key: value for key, value in section[0].metadata.items() if key in places}
    return replace(found, text=text, metadata={**metadata, IDS_KEY: tuple(chunk.id for chunk in section)})
