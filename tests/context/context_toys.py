"""Small hits, sources and counters for the context tests."""

from __future__ import annotations

from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path

from umi_common.types import Chunk, Hit, Signal

_LLAMA_INDEX = find_spec("llama_index")
CL100K_FOLDER = Path(next(iter(_LLAMA_INDEX.submodule_search_locations)) if _LLAMA_INDEX else ".").joinpath(
    "core", "_static", "tiktoken_cache"
)
"""A folder laid out as tiktoken's cache, with cl100k_base and o200k_base: llama-index-core ships one."""

MAY = datetime(2023, 5, 8, tzinfo=timezone.utc)


class Words:
    """One token a word: budgets can be worked out by hand."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


def hit(id, text, score=1.0, rank=1, *, source=None, position=None, time=None, signals=(), **metadata):
    chunk = Chunk(id, text, source=source, position=position, event_time=time, metadata=metadata)
    return Hit(chunk, score, rank, tuple(Signal(*signal) for signal in signals))


def hits(*texts, source=None):
    """Hits a, b, c, ... with falling scores; each its own source unless one is given."""
    return [
        hit("abcdefghijklmnopqrstuvwxyz"[i], text, 1.0 - i / 100, i + 1, source=source or f"s{i}", position=i * 10)
        for i, text in enumerate(texts)
    ]


def windows(text, starts, length, *, source="book", key="start_index"):
    """Chunks of a source at known offsets, as a splitter with overlap makes them."""
    return [
        hit(
            f"w{start:03}",
            text[start : start + length],
            1.0 - i / 100,
            i + 1,
            source=source,
            position=i,
            **{key: start},
        )
        for i, start in enumerate(starts)
        if text[start : start + length].strip()
    ]


def shown(part, chunks):
    """Assert that every span of a part points at exactly the text shown."""
    assert len(part.spans) == len(part.ids)
    for span in part.spans:
        text = chunks[span.id].text[span.start : span.end]
        assert text
        assert part.text[span.at : span.at + len(text)] == text
        if span.in_source is not None:
            assert span.in_source[1] - span.in_source[0] == len(text)
    return True
