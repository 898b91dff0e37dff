"""Makes tests/golden/store-v1: a store as schema version 1 writes it, and what it answers.

    python tests/golden/store_v1.py

Only for a change that keeps version 1. A new version gets a folder of its own, and this one stays: the code of the day
must open it.
"""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from umi_common.config import LexicalConfig
from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.directory import LOCK
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

HOME = Path(__file__).parent / "store-v1"
STORE = HOME / "store"
ANSWERS = HOME / "answers.json"
NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
QUERIES = ["red boat", "who took the night train to the coast?", "東京", "AC-12"]


def embedder() -> HashEmbedder:
    """The one that the store was made with."""
    return HashEmbedder(16)


def chunks() -> list[Chunk]:
    """Every kind of field and of metadata value."""
    when = NOW - timedelta(days=3, microseconds=7)
    return [
        Chunk("t0", "The red boat left at night.", metadata={"user": "ann", "turn": 0}, source="chat", position=0),
        Chunk("t1", "A blue boat came back.", metadata={"user": "bob", "turn": 1.5}, source="chat", position=10),
        Chunk("t2", "Ann took the night train to the coast.", metadata={"tags": ["a", 1, None, True]}, event_time=when),
        Chunk("t3", "Ticket AC-12/b was Mel's.", metadata={"done": False, "note": None}, source="tickets", position=-1),
        Chunk("日本", "東京で会いましょう。", metadata={"é\n\"'": "😀"}, source="chat", position=20, event_time=NOW),
    ]


def answers(store: HybridStore) -> dict[str, Any]:
    """What a search sees: ids and the raw scores of both arms, by query."""
    lexical = LexicalConfig(function_word_weight=1.0)  # the weight of function words is no property of the store
    pools = {query: store.recall([Probe(query)], depth=10, now=NOW, around=1, lexical=lexical) for query in QUERIES}
    return {
        query: {"ids": list(pool.ids), "lexical": pool.lexical[0].tolist(), "dense": pool.dense[0].tolist()}
        for query, pool in pools.items()
    }


def main() -> None:
    """Write the folder anew."""
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    with HybridStore.open(STORE, embedder=embedder()) as store:
        store.add([Chunk("gone", "This one is removed."), Chunk("t0", "An older text.")])
        store.add(chunks())
        store.delete(["gone"])
        ANSWERS.write_text(json.dumps(answers(store), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (STORE / LOCK).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
