"""A result as a data frame."""

from __future__ import annotations

from typing import Any

from umi_common.errors import MissingExtra
from umi_common.types import SearchResult


def to_frame(result: SearchResult) -> Any:
    """A pandas DataFrame, one row a hit: rank, id, score, source, event_time, arm ranks and scores, stages, text.

    Raises:
        MissingExtra: Without pandas.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "notebooks") from error
    rows = []
    for hit in result:
        row: dict[str, Any] = {"rank": hit.rank, "id": hit.chunk.id, "score": hit.score}
        row.update(source=hit.chunk.source, event_time=hit.chunk.event_time)
        for signal in hit.signals:
            row[f"{signal.arm}_rank_{signal.variation}"] = signal.rank
            row[f"{signal.arm}_score_{signal.variation}"] = signal.score
        row.update({f"after_{name}": score for name, score in hit.stages.items()})
        row["text"] = hit.chunk.text
        rows.append(row)
    return pandas.DataFrame(rows)
