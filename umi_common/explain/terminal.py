"""A result in a terminal: the plain twin of the notebook's table."""

from __future__ import annotations

from umi_common.explain.reasons import reasons
from umi_common.explain.texts import excerpt, query_terms, visible
from umi_common.types import SearchResult

TEXT_CHARACTERS = 160


def to_text(result: SearchResult) -> str:
    """Hits with reasons; no colour, one to three lines a hit, nothing in a text can steer the terminal."""
    terms = query_terms(result)
    lines = [f"{len(result)} hits, {result.mode}, {result.trace.milliseconds:.1f} ms"]
    lines.extend(f"  also searched: {visible(text)}" for text in result.query_variations)
    for hit in result:
        place = f"  [{_line(hit.chunk.source)}]" if hit.chunk.source else ""
        lines.append(f"{hit.rank:>3}  {hit.score:.3f}  {_line(hit.chunk.id)}{place}")
        lines.append(f"       {visible(excerpt(hit.chunk.text, terms, TEXT_CHARACTERS))}")
        lines.append(f"       {' · '.join(reasons(hit))}")
    lines.extend(f"  without {loss.part}: {loss.reason}; {loss.consequence}" for loss in result.degraded)
    if result.suppressed:
        lines.append(f"  left out: {len(result.suppressed)} (result.suppressed says why)")
    return "\n".join(lines)


def _line(text: str) -> str:
    return visible(" ".join(text.split()))
