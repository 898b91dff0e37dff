"""A result as plain text for a terminal, in short or with all details."""

from __future__ import annotations

from collections.abc import Iterator

from umi_common.explain.marking import QueryWords, excerpt, marked
from umi_common.explain.reasons import decided, in_words, rank_path, reasons, steps
from umi_common.explain.texts import hit_count, one_line, place
from umi_common.types import Hit, SearchResult, Stage, Suppressed


def to_text(result: SearchResult, *, emphasis: tuple[str, str] = ("", ""), full: bool = False) -> str:
    """A result as plain text: three lines per hit, the last of which says why the hit was found.

    Control characters in the texts are replaced by their codes, so that they do not reach the terminal.

    Args:
        emphasis: The strings to put before and after each word of the query.
        full: Whether to add each hit's rank after each stage, the chunks left out and why, and the facts of each stage.
    """
    words = QueryWords.of(result)
    lines = [f"{hit_count(result)}, {result.mode}, {result.trace.milliseconds:.1f} ms"]
    if result.hits and result.answerable is False:
        best = max(hit.relevance or 0.0 for hit in result)
        lines.append(f"  none is likely to answer the query: the best relevance is {best:.2f}, of 0 to 1")
    lines.extend(f"  also searched: {one_line(text)}" for text in result.query_variations)
    for hit, path in zip(result, steps(result), strict=True):
        lines += _hit(hit, words, emphasis)
        if full:
            lines.append(f"       {rank_path(path)}")
    lines += ["  " + one_line(f"without {loss.part}: {loss.reason}; {loss.consequence}") for loss in result.degraded]
    if full:
        lines += [*map(_left_out, result.suppressed), *map(_stage, result.trace)]
    elif result.suppressed:
        lines.append(f"  left out: {len(result.suppressed)} (result.suppressed says why)")
    return "\n".join(lines)


def _hit(hit: Hit, words: QueryWords, emphasis: tuple[str, str]) -> Iterator[str]:
    where = one_line(" · ".join(place(hit.chunk)))
    yield f"{hit.rank:>3}  {hit.score:.3f}  {one_line(hit.chunk.id)}" + (f"  [{where}]" if where else "")
    yield f"       {marked(excerpt(hit.chunk.text, words, 160), words, around=emphasis, written=str)}"
    yield f"       {one_line(' · '.join(reasons(hit)))}"


def _left_out(suppressed: Suppressed) -> str:
    by = "" if suppressed.by is None else f", replaced by {suppressed.by}"
    return "  " + one_line(f"left out: {suppressed.id} ({in_words(suppressed.reason)}{by})")


def _stage(stage: Stage) -> str:
    return f"  {stage.name:<20} {stage.milliseconds:8.2f} ms  {one_line(decided(stage))}".rstrip()
