"""Resources for 10^6 to 10^10 chunks, computed from those of one: python -m benchmarks.cost_model prints the tables.

The bytes and milliseconds of a chunk come from benchmarks/results/sizing.json and ingest.json, of the largest size
measured. What no measurement here can give stands below as an assumption, with its reason. docs/scale.md holds the
tables as they are printed; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import Any

Rows = Sequence[dict[str, Any]]
ENGINE = "Qdrant's engine, one shard"
RESULTS = Path(__file__).parent / "results"
SIZES = tuple(10**power for power in range(6, 11))
NODE_CORES, NODE_MEMORY, NODE_DISK = 16, 128e9, 4e12
"""A common machine of a cloud, bytes; 70 % of memory and disk are used."""
USED = 0.7
REPLICAS = 2
GRAPH_BYTES = 2 * 16 * 4 * 1.1
"""HNSW with Qdrant's m = 16: 32 links of 4 bytes on the lowest level, a tenth more above."""
POINT_BYTES = 60.0
"""Id tracker and versions: two maps between a 16-byte id and a 4-byte number, as Qdrant documents its layout."""
SHARD_CHUNKS = 20_000_000
"""Largest shard: a BM25 list of a word in every tenth chunk is then 2 million entries long, some ms of a core."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One chunk and one search as measured."""

    measured_at: int
    vector: float
    disk: float
    postings: float
    embedded_memory: float
    indexing_ms: float
    search_ms: float
    """Of the processor, in the engine, with `measured_at` chunks."""
    search_growth: float
    """Factor of that for ten times as many chunks, between the smallest and the largest size measured."""
    embedded_search_ms: float
    embeds_per_second: float

    @property
    def memory(self) -> float:
        """With float32 vectors, the graph and the postings in memory, payload on the disk."""
        return self.vector + self.postings + GRAPH_BYTES + POINT_BYTES

    @property
    def memory_quantised(self) -> float:
        """With one byte a dimension in memory and the float32 vectors on the disk."""
        return self.memory - 0.75 * self.vector


def measured() -> Measured:
    """From the files of results."""
    small, large = ({row["system"]: row for row in rows} for rows in _ends("sizing"))
    engine, embedded = large[ENGINE], large["HybridStore"]
    spent = [each[ENGINE]["of it in the engine, processor p50 ms"] for each in (small, large)]
    tens = log10(engine["chunks"] / small[ENGINE]["chunks"])
    ingest = next(each for each in _ends("ingest")[1] if "default" in each["what"] and each["system"] == "one process")
    return Measured(
        measured_at=engine["chunks"],
        vector=engine["bytes of vector"],
        disk=engine["bytes on disk, all"],
        postings=engine["bytes on disk, postings"],
        embedded_memory=embedded["bytes of memory of its own"],
        indexing_ms=engine["processor ms a chunk added and indexed"],
        search_ms=spent[1],
        search_growth=(spent[1] / spent[0]) ** (1 / tens) if tens else 10.0,
        embedded_search_ms=embedded["search, processor p50 ms"],
        embeds_per_second=ingest["chunks/s"],
    )


def chunk_table() -> str:
    """Markdown: what was measured of one chunk."""
    embedded, engine = ({row["system"]: row for row in _ends("sizing")[1]}[name] for name in ("HybridStore", ENGINE))
    lines = ["| of a chunk | HybridStore | Qdrant's engine, one shard |", "|---|---:|---:|"]
    for name, figures in (
        ("bytes on disk", ["bytes on disk, all"]),
        ("of it text, vector and metadata", ["bytes on disk, ledger"]),
        ("of it vector", ["bytes on disk, vectors"]),
        ("of it postings", ["bytes on disk, postings"]),
        ("of it payload: text, metadata, facts, their indexes", ["bytes on disk, payload and its indexes"]),
        ("bytes of memory", ["bytes of memory of its own"]),
        ("processor, added and indexed, ms", ["processor ms a chunk added and indexed"]),
        ("processor, one search, ms", ["of it in the engine, processor p50 ms", "search, processor p50 ms"]),
    ):
        of_engine = None if name == "bytes of memory" else _first(engine, figures)
        lines.append(f"| {name} | {_cell(_first(embedded, figures))} | {_cell(of_engine)} |")
    return "\n".join(lines)


def ingest_table() -> str:
    """Markdown: the runs of bulk ingestion."""
    lines = ["| | one process | Ray, 2 workers |", "|---|---:|---:|"]
    rows = [row for row in _ends("ingest")[1] if "chunks/s" in row]
    for what in dict.fromkeys(row["what"] for row in rows):
        pair = {row["system"]: row for row in rows if row["what"] == what}
        cells = [f"{pair[system]['chunks/s']:,.0f}/s" for system in ("one process", "Ray, 2 workers")]
        chunks = next(iter(pair.values()))["chunks"]
        lines.append(f"| {what.removeprefix('ingest, ')}, {chunks:,} chunks | {' | '.join(cells)} |")
    killed = next(row for row in _ends("ingest")[1] if "ids there once" in row)
    lines.append(
        f"| a worker killed, then the driver, then run again: ids there exactly once | | {killed['ids there once']:,} |"
    )
    lines.append(f"| of them written by the second run | | {killed['chunks written by the rerun']:,} |")
    return "\n".join(lines)


def sizes_table(chunk: Measured) -> str:
    """Markdown: memory, disk, shards and machines, by chunks."""
    lines = [
        "| chunks | one machine, HybridStore: memory | cluster, both replicas: memory | int8 in memory | disk | shards "
        "| machines, by | with int8, by |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for size in SIZES:
        plain, quantised = (machines(size, each, chunk.disk) for each in (chunk.memory, chunk.memory_quantised))
        cells = (
            f"10^{len(str(size)) - 1}",
            written(size * chunk.embedded_memory),
            written(REPLICAS * size * chunk.memory),
            written(REPLICAS * size * chunk.memory_quantised),
            written(REPLICAS * size * chunk.disk),
            f"{shards(size):,}",
            "{:,} {}".format(*plain),
            "{:,} {}".format(*quantised),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def work_table(chunk: Measured) -> str:
    """Markdown: hours of one core to embed and to index, searches a second of the cluster, by chunks."""
    lines = [
        "| chunks | read and embed, core-hours | index both replicas, core-hours | on 64 cores "
        "| searches/s, whole cluster |",
        "|---:|---:|---:|---:|---:|",
    ]
    for size in SIZES:
        embed = size / chunk.embeds_per_second / 3600
        index = REPLICAS * size * chunk.indexing_ms / 3.6e6
        nodes, _ = machines(size, chunk.memory_quantised, chunk.disk)
        lines.append(
            f"| 10^{len(str(size)) - 1} | {embed:,.1f} | {index:,.1f} | {hours((embed + index) / 64)} "
            f"| {searches(size, nodes, chunk):,.0f} |"
        )
    return "\n".join(lines)


def machines(size: int, memory: float, disk: float) -> tuple[int, str]:
    """Number of machines, at least one a replica, and which resource requires them."""
    by_memory = -(-REPLICAS * size * memory // (USED * NODE_MEMORY))
    by_disk = -(-REPLICAS * size * disk // (USED * NODE_DISK))
    most = max(by_memory, by_disk, REPLICAS)
    reason = "replicas" if most == REPLICAS >= max(by_memory, by_disk) else "memory" if most == by_memory else "disk"
    return int(most), reason


def shards(size: int) -> int:
    """At least one."""
    return -(-size // SHARD_CHUNKS)


def searches(size: int, nodes: int, chunk: Measured) -> float:
    """Searches a second. Every search asks one replica of every shard, so the processor time of all shards counts."""
    grown: float = chunk.search_growth ** max(0.0, log10(min(size, SHARD_CHUNKS) / chunk.measured_at))
    return nodes * NODE_CORES * 1e3 / (chunk.search_ms * grown * shards(size))


def written(count: float) -> str:
    """1.5 TB."""
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count / 1e6:,.0f} MB"


def hours(count: float) -> str:
    """3 min, 5 h, 12 days."""
    if count < 1:
        return f"{60 * count:,.0f} min"
    return f"{count:,.0f} h" if count < 72 else f"{count / 24:,.0f} days"


def _first(row: dict[str, Any], names: Sequence[str]) -> float | None:
    return next((row[name] for name in names if name in row), None)


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _ends(part: str) -> tuple[Rows, Rows]:
    """Of the smallest size measured and of the largest."""
    sizes = json.loads((RESULTS / f"{part}.json").read_text(encoding="utf-8"))["sizes"]
    return sizes[min(sizes, key=int)]["rows"], sizes[max(sizes, key=int)]["rows"]


if __name__ == "__main__":
    _chunk = measured()
    print(_chunk, chunk_table(), ingest_table(), sizes_table(_chunk), work_table(_chunk), sep="\n\n")
