"""Speed, side by side with the peers: `make bench`, or some of it.

    python -m benchmarks                                  # everything, about a quarter of an hour on two cores
    python -m benchmarks bm25 hybrid --sizes 1k,10k       # some parts, some sizes
    python -m benchmarks --resume                         # leave out what was measured in the last twelve hours
    python -m benchmarks --pages                          # measure nothing, draw tables and plots anew
    python -m benchmarks --list                           # the parts and their sizes

Figures go to benchmarks/results/<part>.json, size by size as they are measured, so a run that breaks off loses one
size of one part. Tables go between the markers of README.md and docs/performance.md, plots to docs/pictures.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from types import ModuleType

from benchmarks import results
from benchmarks.harness import Plan
from benchmarks.stores import forget_stores

PARTS = (
    "bm25",
    "dense",
    "hybrid",
    "ranking",
    "context",
    "deep",
    "concurrency",
    "store",
    "imports",
    "texts",
    "stages",
)
EXTRAS = ("survival", "ingest", "sizing", "remote", "tail", "sizes", "engines")
"""Parts that run only if they are named."""
RESUME_HOURS = 12.0
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the requested parts and write the pages; returns 0, or 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", choices=[[], *PARTS, *EXTRAS], metavar="part", help=", ".join((*PARTS, *EXTRAS))
    )
    parser.add_argument("--sizes", type=_sizes, help="1k,10k,100k,1M; others than a part's own are left out")
    parser.add_argument("--rounds", type=int, default=Plan.rounds)
    parser.add_argument(
        "--resume", action="store_true", help=f"leave out what is younger than {RESUME_HOURS:.0f} hours"
    )
    parser.add_argument("--pages", action="store_true", help="measure nothing, draw tables and plots anew")
    parser.add_argument("--list", action="store_true", help="the parts and their sizes")
    options = parser.parse_args(arguments)
    parts = {name: importlib.import_module(f"benchmarks.part_{name}") for name in options.parts or PARTS}
    if options.list:
        for name, part in parts.items():
            print(f"{name:<12} {', '.join(map(_written, part.SIZES)):<24} {(part.__doc__ or '').splitlines()[0]}")
        return 0
    failed = [] if options.pages else _measured(parts, options)
    from benchmarks.pages import write_pages

    for path in write_pages():
        print(f"wrote {path}")
    return 1 if failed else 0


def _measured(parts: dict[str, ModuleType], options: argparse.Namespace) -> list[str]:
    """Measure every part, also after one failed; returns the names of the failed parts."""
    begun, failed = time.monotonic(), []
    if not options.resume:
        forget_stores()
    jobs = [(name, size) for name, part in parts.items() for size in part.SIZES]
    if options.sizes:
        jobs = [(name, size) for name, size in jobs if size in options.sizes or size == 0]
    if options.resume:
        jobs = [(name, size) for name, size in jobs if results.age_hours(name, size, options.rounds) > RESUME_HOURS]
    for at, (name, size) in enumerate(jobs, 1):

        def say(line: str, name: str = name) -> None:
            print(f"  {time.monotonic() - begun:6.0f} s  {name}: {line}", flush=True)

        print(f"[{at}/{len(jobs)}] {name}{f', {_written(size)} chunks' if size else ''}", flush=True)
        try:
            rows = parts[name].measure(size, Plan(rounds=options.rounds), say)
        except (Exception, SystemExit) as error:  # noqa: BLE001 the next part may still be measured
            failed.append(name)
            say(f"FAILED: {type(error).__name__}: {error}")
            continue
        results.save(name, size, rows, options.rounds)
        for row in rows:
            print(f"           {_line(row)}", flush=True)
    forget_stores()
    return failed


def _line(row: dict[str, object]) -> str:
    shown = {key: value for key, value in row.items() if key not in ("what", "size", "system") and value is not None}
    figures = "  ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in shown.items()
    )
    return f"{row.get('what')}, {row.get('system')}: {figures}"


def _sizes(text: str) -> list[int]:
    units = {"k": 1_000, "m": 1_000_000}
    return [
        int(float(each[:-1]) * units[each[-1].lower()]) if each[-1].isalpha() else int(each) for each in text.split(",")
    ]


def _written(size: int) -> str:
    if not size:
        return "-"
    return f"{size // 1_000_000}M" if size >= 1_000_000 else f"{size // 1_000}k"


if __name__ == "__main__":
    for _name in ONE_THREAD:  # before numpy is loaded in any child: all systems get the same
        os.environ.setdefault(_name, "1")
    sys.exit(main())
