"""`umi migrate`: a folder into Qdrant and back, killed on the way, and its errors in one line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from umi_common.cli.migrating import CHECKPOINT, Collection, address_of
from umi_common.cli.program import app
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

pytest.importorskip("qdrant_client")


def migrate(*arguments):
    done = CliRunner().invoke(app, ["migrate", *map(str, arguments)])
    return done, str(done.exception) if done.exception else done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store whose model the command line has never heard of."""
    path = tmp_path_factory.mktemp("stores") / "notes"
    with HybridStore.open(path, embedder=HashEmbedder(32)) as store:
        store.add([Chunk(f"c{number:04}", f"boat {number}", metadata={"n": number}) for number in range(150)])
    return path


def contents(path):
    with HybridStore.open(path, embedder=HashEmbedder(32), read_only=True) as store:
        chunks = store.scan(limit=100_000)
        return chunks, store.vectors([chunk.id for chunk in chunks]).tolist()


def test_a_folder_into_qdrant_and_back(folder, tmp_path):
    collection = f"qdrant:{tmp_path}/server/notes"
    done, said = migrate(folder, collection)
    assert done.exit_code == 0, said
    assert f"{collection} holds the same 150 chunks and vectors as {folder}; this run copied 150" in said
    done, said = migrate(collection, tmp_path / "back", "--json", "--page", 40)
    report = json.loads(said)
    assert (report["chunks"], report["copied"], report["samples"]) == (150, 150, 20)
    assert contents(tmp_path / "back") == contents(folder)
    assert not list(tmp_path.rglob(CHECKPOINT)) and not (folder / CHECKPOINT).exists()


def test_a_collection_into_another_one_in_the_same_folder(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    migrate(folder, f"qdrant:{tmp_path}/server/notes")
    done, said = migrate(f"qdrant:{tmp_path}/server/notes", f"qdrant:{tmp_path}/server/copy")
    assert done.exit_code == 0, said
    assert "this run copied 150" in said
    assert "20 sampled queries" in said and "100.0% of the ten best scores are equal within 5 %" in said
    done, said = migrate(f"qdrant:{tmp_path}/server/copy", tmp_path / "back")
    assert done.exit_code == 0, said
    assert contents(tmp_path / "back") == contents(folder)


def test_a_store_in_another_language_keeps_its_analyzer(tmp_path):
    from umi_common.config import UmiConfig

    german = UmiConfig(analyzer={"language": "german"})
    with HybridStore.open(tmp_path / "a", embedder=HashEmbedder(8), config=german) as store:
        store.add([Chunk("x", "Häuser")])
    migrate(tmp_path / "a", f"qdrant:{tmp_path}/server/notes")
    migrate(f"qdrant:{tmp_path}/server/notes", tmp_path / "b")
    with HybridStore.open(tmp_path / "b", embedder=HashEmbedder(8)) as copy:
        assert copy.config.analyzer.language == "german"
        assert copy.search_lexical("Haus")


def test_killed_in_the_middle_the_same_command_goes_on(tmp_path):
    with HybridStore.open(tmp_path / "a", embedder=HashEmbedder(32)) as store:
        store.add([Chunk(f"c{number:05}", f"boat {number}") for number in range(4_000)])
    command = ["migrate", str(tmp_path / "a"), str(tmp_path / "b"), "--page", "4", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "umi_common.cli", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (tmp_path / "b" / CHECKPOINT).exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    _, said = migrate(*command[1:3], "--json")
    report = json.loads(said)
    assert 0 < report["copied"] < report["chunks"] == 4_000
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


@pytest.mark.parametrize(
    "source, target, said",
    [
        ("nowhere", "qdrant:{tmp}/q/notes", "holds no store; make one: umi index FOLDER"),
        ("nowhere", "b", "holds no store; make one: umi index FOLDER"),
        ("{folder}", "{folder}", "is both source and target; name another target"),
        ("{folder}", "http://localhost:6333", "names no collection; write http://localhost:6333/COLLECTION"),
        ("{folder}", "qdrant:notes", "qdrant:notes names no collection; write qdrant:notes/COLLECTION"),
        ("{folder}", "qdrant:", "qdrant: names no collection; write qdrant:FOLDER/COLLECTION"),
        ("{folder}", "qdrant:/", "qdrant:/ names no collection; write qdrant:FOLDER/COLLECTION"),
        ("{folder}", "http://", "http:// names no collection; write http://HOST:6333/COLLECTION"),
        ("{folder}", "https:///notes", "https:///notes names no collection; write https://HOST:6333/COLLECTION"),
        ("{folder}", "https://host", "https://host names no collection; write https://host/COLLECTION"),
        ("qdrant:{tmp}/q/none", "{tmp}/b", "{tmp}/q is no folder; check its name"),
        ("qdrant:{tmp}/none", "{tmp}/b", "collection 'none' holds no store of umi; check the name"),
        ("{folder}", "htp://localhost:6333/notes", "'htp://localhost:6333/notes', a URL; expected a directory's name"),
        ("{folder}", "http://127.0.0.1:9/notes", "answers ([Errno 111] Connection refused); check that it runs"),
    ],
)
def test_an_error_is_one_line_with_its_fix(folder, tmp_path, source, target, said):
    done, told = migrate(source.format(folder=folder, tmp=tmp_path), target.format(folder=folder, tmp=tmp_path))
    assert done.exit_code == 1
    assert said.format(tmp=tmp_path) in told
    assert "\n" not in told.strip()
    assert not (tmp_path / "q").exists(), "an error makes no folder"


def test_a_target_of_another_model_is_refused(folder, tmp_path):
    with HybridStore.open(tmp_path / "b", embedder=HashEmbedder(16)) as store:
        store.add([Chunk("x", "boat")])
    done, told = migrate(folder, tmp_path / "b")
    assert done.exit_code == 1
    assert "embedder 'hash/32' (32 dimensions)" in told and "'hash/16' (16)" in told and "give an empty target" in told


def test_the_key_comes_from_the_environment_and_the_name_from_the_end(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    wanted = Collection({"url": "https://host:6333/behind/a/proxy", "api_key": "secret"}, "notes")
    assert address_of("https://host:6333/behind/a/proxy/notes") == wanted
    assert address_of("https://host:6333/behind/a/proxy/notes/") == wanted


def test_without_the_extra_the_pip_line_comes(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    done, told = migrate(folder, "http://localhost:6333/notes")
    assert done.exit_code == 1
    assert "pip install 'umi-retrieval[qdrant]'" in told


def test_a_client_that_refuses_its_address_is_told_with_the_address(folder, monkeypatch):
    import qdrant_client

    class Refusing:
        def __init__(self, **arguments):
            raise RuntimeError("no proxy")

    monkeypatch.setattr(qdrant_client, "QdrantClient", Refusing)
    done, told = migrate(folder, "http://localhost:6333/notes")
    assert done.exit_code == 1
    assert "no Qdrant at http://localhost:6333: no proxy" in told
