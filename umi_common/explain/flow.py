"""The rank-flow picture, as inline SVG: one line per hit through its ranks in the arms and after the stages.

A column is an arm or a stage. With 20 hits shown, ranks 1 to 20 of a column are in rows 1 to 20. Below a horizontal
rule follow the column's larger ranks, in order, and then the hits without a rank in this column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from umi_common.explain.reasons import Step, steps
from umi_common.explain.texts import escaped, snippet
from umi_common.types import Hit, SearchResult

HITS_SHOWN = 20
"""Largest number of hits in the picture, so that their lines can be told apart."""
COLUMN, ROW = 92, 26
"""Distance of two columns and of two rows, in px."""
LEFT, TOP, RIGHT, BOTTOM = 42, 44, 230, 12
"""Margins around the columns and rows, in px."""
ID_CHARACTERS = 30
"""Largest number of characters of a chunk's id; a longer id is cut."""


def flow_picture(result: SearchResult) -> str:
    """The rank-flow picture of a result as SVG; "" if there are no hits."""
    hits = result.hits[:HITS_SHOWN]
    if not hits:
        return ""
    paths = steps(hits)
    rows_by_column = [_rows([path[column].rank for path in paths], len(hits)) for column in range(len(paths[0]))]
    deepest = max(max(rows) for rows in rows_by_column)
    width = LEFT + COLUMN * (len(rows_by_column) - 1) + RIGHT
    height = TOP + ROW * deepest + BOTTOM
    heads = "".join(
        f"<text class='head' x='{LEFT + COLUMN * column}' y='24' text-anchor='middle'>{escaped(step.name)}</text>"
        for column, step in enumerate(paths[0])
    )
    y = TOP + ROW * len(hits)
    rule = f"<line class='rule' x1='0' x2='{width}' y1='{y}' y2='{y}'/>" if deepest > len(hits) else ""
    rows_by_hit = zip(*rows_by_column, strict=True)
    lines = [_line(*each) for each in zip(hits, paths, rows_by_hit, strict=True)]
    drawn = "".join(reversed(lines))  # the first hit last, so that its line is above the others
    return (
        f"<svg class='flow' role='img' aria-labelledby='flow-title flow-about' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}'><title id='flow-title'>Rank of each hit at each stage</title>"
        f"<desc id='flow-about'>Each hit above states its ranks.</desc>{heads}{rule}{drawn}</svg>"
    )


def _rows(ranks: Sequence[int | None], shown: int) -> list[int]:
    """The row, from 1, of each hit in a column, for its rank there; None: no rank. `shown`: hits in the picture."""
    ranks_or_infinity = [math.inf if rank is None else rank for rank in ranks]
    larger = sorted({rank for rank in ranks_or_infinity if rank > shown})
    below = {rank: row for row, rank in enumerate(larger, shown + 1)}
    return [below[rank] if rank in below else int(rank) for rank in ranks_or_infinity]


def _line(hit: Hit, path: Sequence[Step], rows: Sequence[int]) -> str:
    points = [(LEFT + COLUMN * column, TOP + ROW * (row - 1) + ROW // 2) for column, row in enumerate(rows)]
    half = COLUMN // 2
    curve = f"M{points[0][0]} {points[0][1]}" + "".join(
        f"C{x0 + half} {y0} {x1 - half} {y1} {x1} {y1}" for (x0, y0), (x1, y1) in pairwise(points)
    )
    dots = "".join(
        f"<circle cx='{x}' cy='{y}' r='10'/><text x='{x}' y='{y + 4}' text-anchor='middle'>"
        f"{'–' if step.rank is None else step.rank}</text>"
        for (x, y), step in zip(points, path, strict=True)
    )
    x, y = points[-1]
    name = escaped(snippet(hit.chunk.id, ID_CHARACTERS))
    return (
        f"<g class='hit{' first' if hit.rank == 1 else ''}' data-rank='{hit.rank}'><path d='{curve}'/>{dots}"
        f"<text class='name' x='{x + 18}' y='{y + 4}'>{name}</text></g>"
    )
