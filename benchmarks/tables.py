"""Markdown tables from the saved figures. A missing figure is a dash; below, the reason for each peer left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks import results
from benchmarks.harness import Row

DASH = "–"


def written(value: Any) -> str:
    """The value with three significant digits."""
    if value is None:
        return DASH
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    for limit, digits in ((0.0995, 3), (0.995, 2), (9.95, 1)):
        if abs(value) < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def size_name(size: int) -> str:
    """1000 -> "1k"."""
    return f"{size // 1_000_000}M" if size >= 1_000_000 else f"{size // 1_000}k"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column left, the others right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def of(part: str, what: str) -> list[Row]:
    """The rows of one thing."""
    return [row for row in results.rows(part) if row["what"] == what]


def by_size(part: str, what: str, field: str, *, reasons: bool = True) -> str:
    """A line a system that has the figure, a column a size; below, if `reasons`, the systems left out and why."""
    rows = of(part, what)
    if not rows:
        return "Not measured yet."
    sizes = sorted({row["size"] for row in rows})
    names = list(dict.fromkeys(row["system"] for row in rows))
    cells = {(row["system"], row["size"]): row.get(field) for row in rows}
    measured = [name for name in names if any(cells.get((name, size)) is not None for size in sizes)]
    lines = [[name, *(written(cells.get((name, size))) for size in sizes)] for name in measured]
    left_out = [f"{row['system']} at {size_name(row['size'])}: {row['skipped']}" for row in rows if "skipped" in row]
    below = "\n\nLeft out: " + "; ".join(left_out) + "." if reasons and left_out else ""
    return table(["", *map(size_name, sizes)], lines) + below


def plain(part: str, what: str, fields: dict[str, str]) -> str:
    """A line a system, a column a field (name of the field -> its heading)."""
    rows = of(part, what)
    if not rows:
        return "Not measured yet."
    lines = [
        [row["system"], f"left out: {row['skipped']}", *[""] * (len(fields) - 1)]
        if "skipped" in row
        else [row["system"], *(written(row.get(field)) for field in fields)]
        for row in rows
    ]
    return table(["", *fields.values()], lines)


def machine() -> str:
    """Each machine with the first and last day of its figures; of all but the first, the parts measured there.

    The first is the machine with the most figures. Then the versions of the newest figures.
    """
    documents = {part: document for part in results.parts() if (document := results.load(part))}
    measured = [(part, entry) for part, document in documents.items() for entry in document["sizes"].values()]
    if not measured:
        return "Not measured yet."
    by_hardware: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for part, entry in measured:
        made = entry["machine"]
        hardware = f"{made['processor']}, {made['cores']} cores, {made['memory_gb']} GB, {made['system']}"
        by_hardware.setdefault(hardware, []).append((part, entry))
    machines = []
    for hardware, here in sorted(by_hardware.items(), key=lambda each: -len(each[1])):
        names = f": {', '.join(dict.fromkeys(part for part, _ in here))}" if machines else ""
        machines.append(f"{hardware}, {days(entry for _, entry in here)}{names}")
    newest = max((entry for _, entry in measured), key=lambda entry: entry["measured"])
    versions = ", ".join(f"{name} {version}" for name, version in newest["versions"].items())
    return f"{'; '.join(machines)}. Newest versions: {versions}."


def days(entries: Iterable[dict[str, Any]]) -> str:
    """The first and the last day on which these figures were measured; one day if they are equal."""
    dates = sorted({entry["measured"][:10] for entry in entries})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def concurrency() -> str:
    """Searches a second and p95, a column a number of callers."""
    rows = of("concurrency", "hybrid search, async callers")
    callers = sorted({row["callers"] for row in rows if "callers" in row})
    names = list(dict.fromkeys(row["system"] for row in rows))
    cells = {(row["system"], row.get("callers")): row for row in rows}

    def cell(name: str, count: int) -> str:
        row = cells.get((name, count))
        return DASH if row is None else f"{written(row['per_second'])} / {written(row['p95_ms'])}"

    if not rows:
        return "Not measured yet."
    return table(
        ["", *(str(count) for count in callers)], [[name, *(cell(name, c) for c in callers)] for name in names]
    )


def tail() -> str:
    """p50 / p95 / slowest, a column a size."""
    rows = [row for row in results.rows("tail") if "p50_ms" in row]
    if not rows:
        return "Not measured yet."
    sizes = sorted({row["size"] for row in rows})
    names = list(dict.fromkeys(row["system"] for row in rows))
    cells = {
        (row["system"], row["size"]): " / ".join(written(row[field]) for field in ("p50_ms", "p95_ms", "max_ms"))
        for row in rows
    }
    lines = [[name, *(cells.get((name, size), DASH) for size in sizes)] for name in names]
    return table(["", *map(size_name, sizes)], lines)


def remote() -> str:
    """p95 in ms by callers, and searches that failed or lost their vectors; asyncio."""
    rows = [row for row in results.rows("remote") if row.get("mode", "asyncio") == "asyncio"]
    if not rows:
        return "Not measured yet."
    callers = sorted({row["callers"] for row in rows if "callers" in row})
    cells = {(row["what"], row["system"], row.get("callers")): row for row in rows}
    lines = []
    for what, system in dict.fromkeys((row["what"], row["system"]) for row in rows):
        found = [cells.get((what, system, count)) for count in callers]
        lost = [sum(row[field] for row in found if row) for field in ("errors", "without_vectors")]
        lines.append([f"{what}: {system}", *(written(row and row["p95_ms"]) for row in found), *map(str, lost)])
    return table(["", *map(str, callers), "errors", "without vectors"], lines)


def store() -> str:
    """Time of writing and opening, a column a size."""
    rows = results.rows("store")
    if not rows:
        return "Not measured yet."
    sizes = sorted({row["size"] for row in rows})
    wholes = list(dict.fromkeys((row["what"], row["system"]) for row in rows))
    lines = []
    for what, system in wholes:
        found = {row["size"]: row for row in rows if (row["what"], row["system"]) == (what, system)}
        bulk = what.startswith("bulk")
        field = "per_second" if bulk else "p50_ms"
        unit = "documents/s" if bulk else "ms"
        name = f"{what}, {system}" if bulk else what
        lines.append([name, unit, *(written(found.get(size, {}).get(field)) for size in sizes)])
    return table(["", "", *map(size_name, sizes)], lines)


def stages() -> str:
    """Milliseconds of every stage, a column a size."""
    what = "stages of a hybrid search"
    parts = by_size("stages", what, "p50_ms").splitlines()
    parts.sort(key=lambda line: line.startswith("| in all"))  # stages that few searches have may be saved after it
    floor = by_size("stages", "floor of a hybrid search", "p50_ms").splitlines()
    return "\n".join([*parts, *floor[2:]])


def readme() -> str:
    """The one table of the README: umi, and every peer in multiples of it."""
    picks = (
        ("BM25, top 10, 100k chunks, ms", "bm25", "BM25, top 10", 100_000, "umi", "p50_ms"),
        ("hybrid search, 10k chunks, ms", "hybrid", "hybrid search, top 10, 384-d", 10_000, "umi", "p50_ms"),
        ("hybrid search, 100k chunks, ms", "hybrid", "hybrid search, top 10, 384-d", 100_000, "umi", "p50_ms"),
        ("weighted RRF, 2 x 1,000, ms", "ranking", "weighted RRF, 2 x 1,000", None, "umi", "p50_ms"),
        ("MMR, 50 to 10, ms", "ranking", "MMR, 50 to 10, 384-d", None, "umi", "p50_ms"),
        ("durable add, documents/s", "store", "bulk add, durable", 10_000, "umi", "per_second"),
    )
    lines = []
    for title, part, what, size, ours, field in picks:
        rows = [row for row in of(part, what) if row["size"] == size]
        cells = {_framework(row["system"]): row.get(field) for row in rows}
        lines.append([title, *(written(cells.get(name)) for name in (ours, "LangChain", "LlamaIndex"))])
    return table(["", "umi", "LangChain", "LlamaIndex"], lines) + "\n\n" + _short_machine({pick[1] for pick in picks})


def _framework(system: str) -> str:
    for name in ("LangChain", "LlamaIndex"):
        if system.startswith(name):
            return name
    return "LangChain" if system == "langchain-chroma" else system


def _short_machine(parts: Iterable[str]) -> str:
    entries = [entry for part in parts for entry in (results.load(part) or {"sizes": {}})["sizes"].values()]
    if not entries:
        return "Not measured yet."
    made = {f"{entry['machine']['cores']} cores ({entry['machine']['processor']})" for entry in entries}
    return f"Medians on {', '.join(sorted(made))}, {days(entries)}; `make bench` repeats it."


def engines() -> str:
    """A line an engine and size; below, the engines left out and why."""
    heads = {
        "p50_ms": "p50, ms",
        "p95_ms": "p95, ms",
        "times": "times umi",
        "per_second_16": "answers/s, 16 threads",
        "found": "found",
        "build_s": "build, s",
        "memory_mb": "memory, MB",
        "disk_mb": "disk, MB",
        "nDCG@10 SciFact": "nDCG@10 SciFact",
        "nDCG@10 LoCoMo": "LoCoMo",
    }
    rows = results.rows("engines")
    if not rows:
        return "Not measured yet."
    lines = [
        [f"{row['system']}, {size_name(row['size'])}", *(written(row.get(field)) for field in heads)]
        for row in rows
        if "p50_ms" in row
    ]
    reasons = [f"{row['system']} at {size_name(row['size'])}: {row['skipped']}" for row in rows if "skipped" in row]
    return table(["", *heads.values()], lines) + ("\n\nLeft out: " + "; ".join(reasons) + "." if reasons else "")


_RANKED = {"p50_ms": "p50, ms", "p95_ms": "p95, ms", "times": "times umi", "agrees": "same answer"}
TABLES: dict[str, Callable[[], str]] = {
    "readme": readme,
    "machine": machine,
    "bm25": lambda: by_size("bm25", "BM25, top 10", "p50_ms"),
    "bm25-agrees": lambda: by_size("bm25", "BM25, top 10", "agrees", reasons=False),
    "bm25-build": lambda: by_size("bm25", "BM25, top 10", "build_s", reasons=False),
    "bm25-memory": lambda: by_size("bm25", "BM25, top 10", "memory_mb", reasons=False),
    "dense": lambda: by_size("dense", "nearest neighbours, top 10", "p50_ms"),
    "dense-agrees": lambda: by_size("dense", "nearest neighbours, top 10", "agrees", reasons=False),
    "hybrid": lambda: by_size("hybrid", "hybrid search, top 10, 384-d", "p50_ms"),
    "hybrid-p95": lambda: by_size("hybrid", "hybrid search, top 10, 384-d", "p95_ms"),
    "hybrid-memory": lambda: by_size("hybrid", "hybrid search, top 10, 384-d", "memory_mb"),
    "fusion": lambda: plain("ranking", "weighted RRF, 2 x 1,000", _RANKED),
    "mmr": lambda: plain("ranking", "MMR, 50 to 10, 384-d", _RANKED),
    "context": lambda: plain(
        "context", "context, 15 chunks of 4 sources", {"p50_ms": "p50, ms", "p95_ms": "p95, ms", "tokens": "tokens"}
    ),
    "context-large": lambda: plain(
        "context",
        "context, 200 chunks of 400 tokens",
        {"p50_ms": "p50, ms", "p95_ms": "p95, ms", "tokens": "tokens", "of": "of", "chunks cut": "chunks cut"},
    ),
    "deep": lambda: plain(
        "deep",
        "deep search, three variations, LLM of 300 ms",
        {"p50_ms": "p50, ms", "p95_ms": "p95, ms", "above_ms": "above the LLM, ms"},
    ),
    "concurrency": concurrency,
    "store": store,
    "imports": lambda: plain("imports", "import, seconds", {"seconds": "seconds"}),
    "sizes": lambda: plain("sizes", "installed", {"packages": "packages", "megabytes": "MB", "largest": "largest, MB"}),
    "texts": lambda: plain(
        "texts",
        "texts and ties",
        {
            "chunks": "chunks",
            "words": "words each",
            "distinct": "distinct words",
            "tied_at_10": "scores equal to the 10th",
            "tied_at_200": "to the 200th",
        },
    ),
    "stages": stages,
    "tail": tail,
    "remote": remote,
    "engines": engines,
}
