"""Saved figures: a JSON file for each part, with machine and versions; a new run replaces the rows it measured."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.harness import Row

FOLDER = Path(__file__).parent / "results"
PACKAGES = (
    "numpy",
    "chromadb",
    "tantivy",
    "bm25s",
    "numba",
    "rank-bm25",
    "langchain-classic",
    "langchain-community",
    "langchain-core",
    "langchain-chroma",
    "llama-index-core",
    "llama-index-retrievers-bm25",
    "pyversity",
)


def parts() -> list[str]:
    """The parts with saved figures, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(part: str) -> dict[str, Any] | None:
    """A part's file; None: it was never measured."""
    path = FOLDER / f"{part}.json"
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def save(part: str, size: int, rows: Sequence[Row], rounds: int) -> None:
    """Replace the part's rows of this size."""
    known = load(part) or {"sizes": {}}
    sizes = dict(known["sizes"])
    measured = {
        "measured": now(),
        "rounds": rounds,
        "machine": machine(),
        "versions": versions(),
        "rows": [_rounded(row) for row in rows],
    }
    sizes[str(size)] = measured
    document = {"part": part, "sizes": {key: sizes[key] for key in sorted(sizes, key=int)}}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{part}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def rows(part: str) -> list[Row]:
    """Of all sizes, smallest first; empty where the part was never measured."""
    document = load(part)
    return [] if document is None else [row for each in document["sizes"].values() for row in each["rows"]]


def age_hours(part: str, size: int, rounds: int) -> float:
    """Since this size was measured in so many rounds; infinite where it never was."""
    document = load(part)
    entry = None if document is None else document["sizes"].get(str(size))
    if entry is None or entry.get("rounds") != rounds:
        return float("inf")
    measured = datetime.fromisoformat(entry["measured"])
    return (datetime.now(timezone.utc) - measured).total_seconds() / 3600


def now() -> str:
    """The present, to the minute."""
    return datetime.now(timezone.utc).isoformat(timespec="minutes")


def machine() -> dict[str, Any]:
    """The machine that the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "threads": {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")},
    }


def versions() -> dict[str, str]:
    """Of Python, SQLite and every package that is installed."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in ("umi-retrieval", *PACKAGES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gb() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (ValueError, OSError, AttributeError):
        return None


def _rounded(row: Row) -> Row:
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
