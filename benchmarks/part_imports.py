"""Seconds of an import in a new process, less those of an empty process."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.harness import Plan, Row

SIZES = (0,)
WHAT = "import, seconds"
STATEMENTS = {
    "umi": "import umi_common",
    "umi in LangChain": "import umi_langchain",
    "umi in LlamaIndex": "import umi_llamaindex",
    "LangChain": "from langchain_classic.retrievers import EnsembleRetriever",
    "LlamaIndex": "from llama_index.core.retrievers import QueryFusionRetriever",
    "Chroma": "import chromadb",
}
NOTHING = "pass"


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """One row per import; measured in turn, so that all find the same files cached."""
    statements = {
        name: each for name, each in STATEMENTS.items() if importlib.util.find_spec(each.split()[1].split(".")[0])
    }
    for statement in statements.values():
        _seconds(statement)  # once, so that bytecode and files are there
    rounds = [{each: _seconds(each) for each in (NOTHING, *statements.values())} for _ in range(plan.rounds)]
    rows: list[Row] = []
    for name, statement in STATEMENTS.items():
        row: Row = {"what": WHAT, "size": None, "system": name}
        if name not in statements:
            rows.append({**row, "skipped": "not installed"})
            continue
        spent = statistics.median(each[statement] - each[NOTHING] for each in rounds)
        say(f"{statement}: {spent:.2f} s")
        rows.append({**row, "seconds": spent, "rounds": plan.rounds})
    return rows


def _seconds(statement: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-W", "ignore", "-c", statement], check=True, capture_output=True)
    return time.perf_counter() - begun
