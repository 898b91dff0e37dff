"""The content and the answers that a store must have: dictionaries, and answers of a store written in one batch."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from umi_common import DualRetriever, HybridStore, UmiConfig
from umi_common.sim import HashEmbedder, VirtualClock
from umi_common.types import Chunk

Content: TypeAlias = "Mapping[str, Chunk]"
"""All chunks that a store holds at one moment, by id."""
DIMENSIONS = 8
SCORES_DIFFER = 1e-9
STORES_KEPT = 6
VERSION = re.compile(r"\bv\d+v\b")
"""The word in a chunk's text that no other version of a chunk has."""


class LawBroken(AssertionError):
    """The store broke one of the laws that `world` lists."""


def difference(content: Content, ids: Sequence[str], chunks: Sequence[Chunk | None]) -> str:
    """How a store's ids and chunks differ from the content that it must hold; "" if they do not."""
    if list(ids) == sorted(content) and list(chunks) == [content[id] for id in ids]:
        return ""
    found = dict(zip(ids, chunks, strict=True))
    wrong = [
        f"{id}: {_said(found.get(id))}, expected {_said(content.get(id))}"
        for id in sorted({*found, *content})
        if found.get(id) != content.get(id)
    ]
    return "; ".join(wrong) or f"ids {list(ids)}, expected {sorted(content)}"


def _said(chunk: Chunk | None) -> str:
    return "nothing" if chunk is None else f"{chunk.text!r} of {chunk.metadata.get('user')}"


class WrittenAtOnce:
    """Answers of stores into which each content was written in one batch, and nothing else."""

    def __init__(self, config: UmiConfig, llm: Any, clock: VirtualClock) -> None:
        self._config, self._llm, self._clock = config, llm, clock
        self._known: OrderedDict[tuple[Any, ...], tuple[HybridStore, DualRetriever]] = OrderedDict()

    def of(self, content: Content) -> tuple[HybridStore, DualRetriever]:
        """A store with this content, and its retriever."""
        key = tuple((id, content[id].text) for id in sorted(content))
        if key not in self._known:
            store = HybridStore.open(embedder=HashEmbedder(DIMENSIONS), config=self._config)
            store.add([content[id] for id in sorted(content)])
            umi = DualRetriever(store, rewriter=self._llm, config=self._config, clock=self._clock)
            self._known[key] = (store, umi)
            if len(self._known) > STORES_KEPT:
                self._close(*self._known.popitem(last=False)[1])
        self._known.move_to_end(key)
        return self._known[key]

    def close(self) -> None:
        """Close all stores."""
        for store, umi in self._known.values():
            self._close(store, umi)
        self._known.clear()

    @staticmethod
    def _close(store: HybridStore, umi: DualRetriever) -> None:
        umi.close()
        store.close()


def visible(content: Content, user: str | None, since: datetime | None) -> Content:
    """The chunks that a search may show."""
    return {
        id: chunk
        for id, chunk in content.items()
        if (user is None or chunk.metadata["user"] == user)
        and (since is None or (chunk.event_time is not None and chunk.event_time >= since))
    }


def check_hits(hits: Sequence[Any], moments: Sequence[Content], user: str | None, since: datetime | None) -> None:
    """Raise LawBroken unless each hit passes the filter, and all are versions of one of these moments."""
    seen = [visible(content, user, since) for content in moments]
    for hit in hits:
        if not any(content.get(hit.chunk.id) == hit.chunk for content in seen):
            raise LawBroken(f"a hit is no version that passed: {hit.chunk}")
    if not any(all(content.get(hit.chunk.id) == hit.chunk for hit in hits) for content in seen):
        raise LawBroken(f"hits of several moments: {[(hit.chunk.id, hit.chunk.text) for hit in hits]}")


def check_texts(text: str, moments: Sequence[Content], user: str | None, since: datetime | None, where: str) -> None:
    """Raise LawBroken unless every version that the text shows passed the filter at one of these moments."""
    allowed = {
        word
        for content in moments
        for chunk in visible(content, user, since).values()
        for word in VERSION.findall(chunk.text)
    }
    wrong = sorted({word for word in VERSION.findall(text) if word not in allowed})
    if wrong:
        raise LawBroken(f"{where} shows {', '.join(wrong)}, which no moment of this search allowed")


def check_ids(ids: Sequence[str], moments: Sequence[Content], user: str | None, since: datetime | None) -> None:
    """Raise LawBroken unless each of these ids, which a result names, passed the filter at one of these moments."""
    allowed = {id for content in moments for id in visible(content, user, since)}
    if not set(ids) <= allowed:
        raise LawBroken(f"the result names {sorted(set(ids) - allowed)}, which no moment of this search allowed")


def same_answers(found: Sequence[tuple[Any, float]], expected: Sequence[tuple[Any, float]]) -> bool:
    """Whether both have the same items in the same order, with scores that differ by at most 1e-9."""
    return [item for item, _ in found] == [item for item, _ in expected] and all(
        abs(score - other) <= SCORES_DIFFER * max(1.0, abs(other))
        for (_, score), (_, other) in zip(found, expected, strict=True)
    )
