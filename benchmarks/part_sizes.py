"""Packages and megabytes of an installation, for the core and each extra, each in a new environment.

Every file that a package brings is counted; bytecode is not, because not every installer writes it (pip's adds about a
quarter). Needs uv and a package registry, so it runs only if it is named: `python -m benchmarks sizes`.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Plan, Row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SIZES = (0,)
WHAT = "installed"
ROOT = Path(__file__).resolve().parents[1]
OURS = ("docs", "dev", "bench")
"""Extras for working on umi; they are left out."""
LARGEST = 4
"""Packages that are named in a row."""


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row for `umi-retrieval` and each `umi-retrieval[extra]`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = []
    for extra in ("", *(name for name in project["optional-dependencies"] if name not in OURS)):
        megabytes = _installed(f"{ROOT}[{extra}]" if extra else str(ROOT))
        largest = sorted(megabytes, key=lambda name: -megabytes[name])[:LARGEST]
        row: Row = {"what": WHAT, "size": None, "system": f"umi-retrieval{f'[{extra}]' if extra else ''}"}
        row |= {"packages": len(megabytes), "megabytes": sum(megabytes.values())}
        row["largest"] = ", ".join(f"{name} {megabytes[name]:.0f}" for name in largest)
        say(f"{row['system']}: {row['packages']} packages, {row['megabytes']:.0f} MB")
        rows.append(row)
    return rows


def _installed(requirement: str) -> dict[str, float]:
    """Megabytes by package of a new environment of this Python with the requirement in it."""
    uv = Path(sys.executable).parent / "uv"
    with tempfile.TemporaryDirectory(prefix="umi-sizes-") as folder:
        for command in (
            [uv, "venv", "--quiet", "--python", sys.executable, folder],
            [uv, "pip", "install", "--quiet", "--python", folder, requirement],
        ):
            subprocess.run([str(word) for word in command], check=True)
        sites = [str(path) for path in Path(folder).rglob("site-packages")]
        return {each.metadata["Name"]: _megabytes(each) for each in importlib.metadata.distributions(path=sites)}


def _megabytes(package: importlib.metadata.Distribution) -> float:
    paths = (Path(str(file.locate())) for file in package.files or () if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6
