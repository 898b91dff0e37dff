"""What goes to a package index: the wheel and the sdist, built, looked into and installed; wheels for every Python."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSION = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
WEIGHTS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
"""Of wordllama's 256-d weights, in 0.2.2.post0 as in 0.4.0.post1."""

IN_THE_REPOSITORY = re.compile(
    r"https://(?:github\.com/umi-retrieval/umi/blob|raw\.githubusercontent\.com/umi-retrieval/umi)/main/([^#]+)"
)


def build(kind: str, project: Path, target: Path) -> Path:
    """The wheel or sdist of a project, built with the hatchling that is installed here."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = target.iterdir()
    return path


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """Built from the sdist, as an installer without a wheel would."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    return build("wheel", folder / f"umi_retrieval-{VERSION}", tmp_path_factory.mktemp("wheel"))


def test_the_sdist_has_the_packages_their_tests_the_readme_and_the_licence_and_nothing_else(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", "umi_common/py.typed"} <= names
    assert {name.split("/")[0] for name in names if "/" in name} == {
        "umi_common",
        "umi_langchain",
        "umi_llamaindex",
        "tests",
    }


def test_the_wheel_has_the_three_packages_typed_with_their_data_and_no_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.name == f"umi_retrieval-{VERSION}-py3-none-any.whl"
    assert {name.split("/")[0] for name in names} == {
        "umi_common",
        "umi_langchain",
        "umi_llamaindex",
        f"umi_retrieval-{VERSION}.dist-info",
    }
    assert not any("test" in Path(name).name for name in names)
    own = {str(path.relative_to(ROOT)) for path in (ROOT / "umi_common").rglob("*") if path.is_file()}
    data = {name for name in own if not name.endswith((".py", ".pyc"))}
    assert {"umi_common/py.typed", "umi_common/explain/page.css"} <= data <= set(names)
    assert {"umi_langchain/py.typed", "umi_llamaindex/py.typed"} <= set(names)
    assert f"umi_retrieval-{VERSION}.dist-info/licenses/LICENSE" in names


def test_the_metadata_name_the_pythons_the_licence_the_authors_and_the_addresses(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_string(archive.read(f"umi_retrieval-{VERSION}.dist-info/METADATA").decode())
    pythons = [f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)]
    assert set(pythons) <= set(metadata.get_all("Classifier"))
    assert (metadata["Requires-Python"], metadata["License-Expression"], metadata["Author"]) == (
        ">=3.10",
        "MIT",
        "The umi authors",
    )
    assert {line.split(",")[0] for line in metadata.get_all("Project-URL")} >= {"Homepage", "Changelog", "Issues"}
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_a_package_index_can_follow_every_link_and_show_every_picture_of_the_readme():
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert targets
    for target in targets:
        assert target.startswith("https://"), target
        inside = IN_THE_REPOSITORY.match(target)
        assert inside is None or (ROOT / inside[1]).exists(), target


def test_the_wheel_works_in_a_new_environment(wheel, tmp_path):
    """The environment has this one's packages behind its own, so nothing is downloaded."""
    venv.create(tmp_path, with_pip=False)
    binaries = tmp_path / ("Scripts" if os.name == "nt" else "bin")
    python = binaries / Path(sys.executable).name
    here = {"base": str(tmp_path), "platbase": str(tmp_path)}
    site = Path(sysconfig.get_path("purelib", vars=here))
    (site / "packages-of-the-tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--disable-pip-version-check",
        str(wheel),
    ]
    code = (
        "import importlib.util, umi_common\n"
        "from umi_common import Chunk, DualRetriever, HybridStore\n"
        "store = HybridStore.open()\n"
        "store.add([Chunk('a', 'The roofers want nine thousand.')])\n"
        "print(umi_common.__file__, DualRetriever(store).search('roofers').ids)\n"
        "print(*(importlib.util.find_spec(name).origin for name in ('umi_langchain', 'umi_llamaindex')), sep='\\n')\n"
    )
    for command, wanted in (
        ([sys.executable, "-m", "pip", "--python", str(python), *install], ""),
        ([str(python), "-c", code], f"{site / 'umi_common' / '__init__.py'} ['a']\n{site / 'umi_langchain'}"),
        ([str(binaries / "umi"), "--help"], "explain"),
    ):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert wanted in done.stdout


def test_the_embedded_model_is_the_one_that_every_stored_vector_was_made_with():
    home = Path(importlib.util.find_spec("wordllama").submodule_search_locations[0])
    weights = (home / "weights" / "l2_supercat_256.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == WEIGHTS_SHA256, importlib.metadata.version("wordllama")


@pytest.mark.parametrize("python", ["3.10", "3.14"])
def test_every_package_of_the_core_has_a_wheel_for(python):
    """Resolves the core as that Python would, from wheels alone; metadata is read, nothing is installed."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip("uv is not beside this Python")
    command = [uv, "pip", "compile", "--quiet", "--python-version", python, "--only-binary", ":all:", "pyproject.toml"]
    environment = {**os.environ, "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("the registry did not answer within a minute")
    if done.returncode and "No solution found" not in done.stderr:
        pytest.skip(f"no registry answers: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    expected = "wordllama==0.2.2.post0" if python == "3.14" else "wordllama==0.4"
    assert expected in done.stdout
