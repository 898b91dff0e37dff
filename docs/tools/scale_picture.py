"""The picture of docs/scale.md; `pictures.py` writes it."""

from __future__ import annotations

from svg import Drawing


def scale() -> str:
    """Files, workers, the cluster; and the same retriever on top of it."""
    drawing = Drawing(560, "Beyond one machine: ingestion on Ray, a sharded store, the same retriever")
    drawing.box(20, 10, 228, 62, ("files", "JSONL in ranges, others whole"))
    drawing.box(272, 10, 228, 62, ("checkpoint", "what is finished; SQLite"), "brown")
    drawing.arrow(134, 72, 134, 99)
    drawing.arrow(386, 99, 386, 72)
    drawing.box(20, 100, 480, 62, ("driver", "gives parts to workers, records outcomes, removes stale chunks"), "blue")
    for number in range(3):
        x = 20 + 163 * number
        drawing.arrow(x + 77, 162, x + 77, 193)
        drawing.box(
            x, 194, 154, 62, (f"worker {number + 1}" if number < 2 else "worker n", "read, chunk, embed"), "teal"
        )
        drawing.arrow(x + 77, 256, x + 77, 291)
    drawing.box(20, 292, 480, 96, "", "plain")
    drawing.label(260, 312, "Qdrant: shards × replicas, one collection", anchor="middle", bold=True)
    for number, name in enumerate(("shard 1", "shard 2", "shard m")):
        drawing.box(32 + 156 * number, 322, 144, 56, (name, "dense, terms, text"), "violet")
    drawing.arrow(260, 441, 260, 389)
    drawing.box(20, 442, 480, 62, ("QdrantStore in any number of processes", "one batched query a search"), "blue")
    drawing.arrow(260, 519, 260, 505)
    drawing.box(20, 520, 480, 34, "DualRetriever, the adapters: as with HybridStore", "teal")
    return drawing.text()
