"""A result that holds what strangers write: markup, controls, other scripts, a line of 100 kB."""

from __future__ import annotations

from datetime import datetime, timezone

from umi_common.types import Chunk, Degradation, Hit, SearchResult, Signal, Stage, Suppressed, Trace

MARKUP = "<script>document.title='owned'</script> <img src=x onerror=\"document.title='owned'\"> works"
OVERRIDE = "Acme \u202eemca\u202c \x1b[31mred"
LONG = "x" * 60_000 + " Acme " + "y" * 40_000


def hostile_result() -> SearchResult:
    """Four hits: plain, markup everywhere, direction overrides and escapes, a line of 100 kB."""
    chunks = [
        Chunk(
            "talk-1:4", "Priya started at Acme.", source="talk-1", event_time=datetime(2024, 4, 2, tzinfo=timezone.utc)
        ),
        Chunk("<script>1</script>", MARKUP, source="'\"><b>", metadata={"</td>": "<i>", "tags": ("a", "<u>")}),
        Chunk("over", OVERRIDE, source="تعمل في Acme"),
        Chunk("long", LONG),
    ]
    ways = [(1, 2, 2), (3, 1, 1), (None, 40, 17), (2, None, 9)]
    hits = tuple(
        Hit(
            chunk,
            1.0 / rank,
            rank,
            signals=(
                Signal("lexical", 0, lexical, 3.0 / rank),
                Signal("dense", 0, dense, 0.9 / rank),
                Signal("dense", 1, None, 0.1),
            ),
            stages={"fused": 1.0 / fused, "neighbours": 1.0 / rank},
            ranks={"fused": fused, "neighbours": rank},
        )
        for rank, (chunk, (lexical, dense, fused)) in enumerate(zip(chunks, ways, strict=True), 1)
    )
    return SearchResult(
        hits,
        "who works at <b>Acme</b>?",
        query_variations=("<script>document.title='owned'</script>",),
        deep_search_used=True,
        degraded=(Degradation("dense", "<b>damaged</b>", "searched exactly"),),
        suppressed=(Suppressed("<s>", "near-duplicate", "talk-1:4", 0.5),),
        trace=Trace((Stage("recall", 3.0, {"mode": "<hybrid>"}), Stage("fuse", 1.0)), 4.5),
    )
