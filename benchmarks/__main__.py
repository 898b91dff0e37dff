"""Every speed benchmark, one after the other: `python -m benchmarks` or `make bench`. JSON goes to results/."""

from __future__ import annotations

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def main() -> int:
    """Run the `main` of each bench_*.py."""
    RESULTS.mkdir(exist_ok=True)
    for path in sorted(HERE.glob("bench_*.py")):
        print(f"\n== {path.stem}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{path} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main(["--json", str(RESULTS / f"{path.stem}.json")])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
