"""The stores that the suite runs over. A new one is one more entry in `KINDS`.

    def qdrant_local(embedder: Embedder, folder: Path) -> Store:
        return QdrantStore(QdrantClient(":memory:"), "contract", embedder)

    KINDS = [..., Kind("qdrant-local", qdrant_local, cosine=1e-6, ...)]

A tolerance or an exemption that is not the default has its reason beside it, and in docs/scale.md.
"""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import chromadb
import numpy as np

from umi_common.protocols import Embedder, Store
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.qdrant import QdrantStore

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("scale", "chroma")]

OWN_PARTS = Path(__file__).parents[2] / "docs" / "own-parts.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", OWN_PARTS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
LIST_STORE, _, _ = "\n".join(
    block for block in BLOCKS if "\ndef bm25(" in block or "class ListStore:" in block
).partition("\nlisted = ")
"""The blocks that define `ListStore`, without its use."""
Make = Callable[[Embedder, Path], Store]
"""An empty store with this embedder; the folder is empty and its own."""


@dataclass(frozen=True)
class Kind:
    """A store and how exactly it keeps the contract."""

    name: str
    make: Make
    cosine: float = 1e-6
    """How far its cosines may lie from float64's; also how near two chunks must score to stand in either order."""
    bm25: float = 1e-9
    """The same for BM25, as a share of the query's bound."""
    found: float = 1.0
    """Least share of the true best `depth` of an arm that its pool holds, over all queries of a test."""
    history: float = 0.0
    """How far the scores of two stores with the same chunks and other histories may lie apart."""
    exempt: Mapping[str, str] = field(default_factory=dict)
    """Test -> why it does not hold here."""


def in_memory(embedder: Embedder, folder: Path) -> Store:
    """HybridStore without a directory."""
    return HybridStore.open(embedder=embedder)


def on_disk(embedder: Embedder, folder: Path) -> Store:
    """HybridStore in a directory."""
    return HybridStore.open(folder / "store", embedder=embedder)


def qdrant_local(embedder: Embedder, folder: Path) -> Store:
    """QdrantStore over the client's local mode."""
    from qdrant_client import QdrantClient

    return QdrantStore(QdrantClient(":memory:"), "contract", embedder)


def python_lists(embedder: Embedder, folder: Path) -> Store:
    """The store that docs/own-parts.md shows."""
    names: dict[str, Any] = {"np": np}
    exec(LIST_STORE, names)
    store: Store = names["ListStore"](embedder)
    return store


def qdrant_engine(embedder: Embedder, folder: Path) -> Store:
    """QdrantStore over Qdrant's engine, which `qdrant-edge-py` runs in this process."""
    from edge_client import EdgeClient

    return QdrantStore(EdgeClient(folder / "shard"), "contract", embedder)


def chroma_embedded(embedder: Embedder, folder: Path) -> Store:
    """ChromaStore over a PersistentClient, its index in memory."""
    client = chromadb.PersistentClient(str(folder / "chroma"))
    return ChromaStore(client.create_collection("contract"), embedder=embedder)


def chroma_server(embedder: Embedder, folder: Path) -> Store:
    """ChromaStore over an HttpClient, its index in a directory."""
    return ChromaStore(_server().collection(), embedder=embedder, directory=folder / "beside")


@cache
def _server() -> Any:
    """The server of all stores of this process, which is stopped when the process ends."""
    from chroma_server import ChromaServer

    server = ChromaServer(Path(tempfile.mkdtemp(prefix="chroma-")))
    atexit.register(shutil.rmtree, server.folder, ignore_errors=True)
    atexit.register(server.close)
    server.start()
    return server


GAPS = {
    "test_positions_differ_by_one_exactly_where_chunks_stand_side_by_side": (
        "chunks more than one position apart do not count as adjacent"
    ),
}
REMOVED = dict.fromkeys(
    (
        "test_scores_after_deleting_are_those_of_a_store_that_never_had_the_chunk",
        "test_the_history_of_writes_does_not_matter",
    ),
    "a removed chunk counts in the engine's idf until its segment is optimised",
)
MUTE = {"test_a_chunk_without_a_word_is_a_chunk_to_bm25": "a chunk without a word does not count in the engine's idf"}
KINDS = [
    Kind("python-lists", python_lists),
    Kind("hybrid-memory", in_memory),
    Kind("hybrid-disk", on_disk),
    Kind("chroma-embedded", chroma_embedded),
    Kind("chroma-server", chroma_server),
    # The engine's idf is a float32.
    Kind("qdrant-local", qdrant_local, bm25=1e-6, history=1e-6, exempt=GAPS | MUTE),
    Kind("qdrant-engine", qdrant_engine, bm25=1e-6, history=1e-6, exempt=GAPS | REMOVED | MUTE),
]
