"""`pip install umi-retrieval` alone: what it weighs, and that it works without any extra."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PACKAGES_MAX = 48
MEGABYTES_MAX = 160


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_closure(lines: list[str]) -> set[str]:
    """The names of the packages that these requirements install, as this environment's metadata say."""
    found: set[tuple[str, str]] = set()
    waiting = [(line, "") for line in lines]
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for each in ("", *requirement.extras):
            key = (plain(requirement.name), each)
            if key not in found:
                found.add(key)
                waiting += [(more, each) for more in importlib.metadata.requires(requirement.name) or []]
    return {name for name, _ in found}


CORE = installed_closure(PROJECT["dependencies"])


@cache
def other_modules() -> list[str]:
    """The top-level modules of all installed packages that are not of the core."""
    homes = importlib.metadata.packages_distributions().items()
    core = CORE | {"umi-retrieval"}
    return sorted(module for module, packages in homes if not {plain(package) for package in packages} & core)


def run_with_the_core_alone(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process in which every module of any other package is as if it were not installed."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({other_modules()!r}))\n"
    command = [sys.executable, "-W", "error", "-c", hidden + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1])


def test_the_core_is_at_most_48_packages_and_160_megabytes():
    assert len(CORE | {"umi-retrieval"}) <= PACKAGES_MAX
    files = [file for name in CORE for file in importlib.metadata.files(name) or [] if file.suffix != ".pyc"]
    paths = [Path(str(file.locate())) for file in files]
    assert sum(path.stat().st_size for path in paths if path.is_file()) <= MEGABYTES_MAX * 10**6


def test_the_core_needs_none_of_the_packages_that_extras_bring():
    assert not CORE & {
        "chromadb",
        "langchain-core",
        "llama-index-core",
        "tiktoken",
        "rank-bm25",
        "pandas",
        "onnxruntime",
    }


def test_langchain_and_llamaindex_are_their_cores_alone_and_all_has_every_extra_but_ray():
    assert EXTRAS["langchain"] == ["langchain-core>=1.0,<2"]
    assert EXTRAS["llamaindex"] == ["llama-index-core>=0.13,<0.15"]
    (itself,) = (Requirement(line) for line in EXTRAS["all"] if line.startswith("umi-retrieval"))
    assert set(EXTRAS) - itself.extras == {"all", "bench", "dev", "docs", "engines", "scale"}


def test_with_the_core_alone_a_store_on_disk_is_searched_and_packed_into_a_context(tmp_path):
    done = run_with_the_core_alone(
        "from umi_common import Chunk, DualRetriever, HybridStore, TokenBudget\n"
        "with HybridStore.open(sys.argv[1]) as store:\n"
        "    store.add([Chunk('a', 'The roofers want nine thousand.'), Chunk('b', 'Luna is a grey cat.')])\n"
        "    umi = DualRetriever(store)\n"
        "    assert umi.search('what do the roofers want?', limit=1).ids == ['a']\n"
        "    context = umi.get_context('a grey cat', budget=TokenBudget(max_total=40))\n"
        "    assert 'Luna' in context.text and context.stats.tokens <= 40\n",
        str(tmp_path / "store"),
    )
    assert done.returncode == 0, done.stderr


def test_every_public_module_of_umi_common_is_imported_and_an_adapter_names_its_pip_line():
    done = run_with_the_core_alone(
        "import importlib, pkgutil, umi_common\n"
        "from umi_common.errors import MissingExtra\n"
        "for module in pkgutil.walk_packages(umi_common.__path__, 'umi_common.'):\n"
        "    if not module.name.rpartition('.')[2].startswith('_'):\n"
        "        importlib.import_module(module.name)\n"
        "for adapter in ('umi_langchain', 'umi_llamaindex'):\n"
        "    try:\n"
        "        importlib.import_module(adapter)\n"
        "    except MissingExtra as error:\n"
        "        print(error)\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "langchain-core is not installed; run: pip install 'umi-retrieval[langchain]'",
        "llama-index-core is not installed; run: pip install 'umi-retrieval[llamaindex]'",
    ]


def test_the_command_shows_its_help_and_the_demo_names_its_pip_line(tmp_path):
    done = run_with_the_core_alone(
        "from umi_common.cli import main\n"
        "for words in (['--help'], ['demo', '--directory', sys.argv[1]]):\n"
        "    sys.argv = ['umi', *words]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as ended:\n"
        "        print('ended with', ended.code)\n",
        str(tmp_path / "demo"),
    )
    assert "ended with 0" in done.stdout and "explain" in done.stdout
    assert "pip install 'umi-retrieval[demo]'" in " ".join(done.stderr.split())
