"""A seeded corpus small enough for brute force, with chunks of each kind that a store treats differently."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np

from umi_common.pool import Pool
from umi_common.protocols import Probe, Store
from umi_common.types import Chunk

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
WORDS = [
    *("red", "blue", "green", "boat", "train", "night", "coast", "snow", "river", "valve", "boiler", "roof", "garden"),
    *("pear", "stake", "house", "market", "letter", "bridge", "tower", "winter", "summer", "music", "piano", "violin"),
    *("doctor", "lawyer", "painter", "color", "field", "forest", "lake", "hill", "stone"),
]
USERS = ("ann", "bob", "cleo")
SIZE = 120


def corpus(seed: int = 0, size: int = SIZE) -> list[Chunk]:
    """Chunks of 2 to 12 words in sources of many lengths; some without source, position or time; some texts twice."""
    dice = np.random.default_rng(seed)
    chunks: list[Chunk] = []
    for number in range(size):
        text = " ".join(dice.choice(WORDS, size=dice.integers(2, 13)))
        if number % 10 == 9:
            text = chunks[-1].text
        placed, timed = number % 7 != 3, number % 5 != 4
        chunks.append(
            Chunk(
                f"c{int(dice.integers(10**6)):06}-{number}",
                text,
                metadata={"user": USERS[number % 3], "number": number, "even": number % 2 == 0},
                source=f"s{int(dice.integers(8))}" if placed else None,
                position=int(dice.integers(1000)) if placed and number % 11 else None,
                event_time=NOW - timedelta(hours=float(dice.integers(0, 2000)) / 4) if timed else None,
            )
        )
    return chunks


def queries(seed: int = 0, count: int = 4) -> list[str]:
    """Queries of one to five words of the corpus; every second one also has a word that no chunk holds."""
    dice = np.random.default_rng(1_000 + seed)
    asked = [" ".join(dice.choice(WORDS, size=dice.integers(1, 6))) for _ in range(count)]
    return [f"{query} zyzzyva" if place % 2 else query for place, query in enumerate(asked)]


def search(store: Store, *texts: str, depth: int = 10, now: datetime = NOW, **options) -> Pool:
    """`store.recall` with defaults for depth and time."""
    return store.recall([Probe(text) for text in texts], depth=depth, now=now, **options)


def by_id(pool: Pool, scores: np.ndarray) -> dict[str, float]:
    """Row 0 of a (V, n) array, by id."""
    return dict(zip(pool.ids, scores[0].tolist(), strict=True))
