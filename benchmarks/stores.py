"""One store on the disk for all systems of a size: umi's, and a Chroma collection of the same vectors."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus, looked_up, make_chunks, make_corpus, make_vectors, question_vectors, word
from benchmarks.harness import Spec
from umi_common.pool import Vectors
from umi_common.stores.embedded.hybrid import HybridStore

BATCH = 5_000
OUT = Path(__file__).parent / "out"
"""Not in git; `make clean` removes it."""
DONE = "done"
CHROMA_EF = 400
"""Chroma's candidate list while searching, in vectors."""


@dataclass(frozen=True)
class Material:
    """The texts and vectors of one size, for all systems."""

    corpus: Corpus | None
    texts: list[str]
    vectors: Vectors
    questions: list[str]
    question_vectors: Vectors


def material(spec: Spec, *, words: bool = True) -> Material:
    """From the seed; without `words` a text is one word, and so is a question."""
    vectors = make_vectors(spec.size, spec.dim)
    if words:
        corpus = make_corpus(spec.size)
        texts, asked = corpus.texts(), corpus.questions(spec.questions)
    else:
        corpus, texts = None, [word(row) for row in range(spec.size)]
        asked = [(word(spec.size + at), at * 7919 % spec.size) for at in range(spec.questions)]
    rows = [row for _, row in asked]
    return Material(corpus, texts, vectors, [text for text, _ in asked], question_vectors(vectors, rows))


def embedder_of(made: Material, spec: Spec) -> Any:
    """Looks the questions' vectors up."""
    return looked_up(made.questions, made.question_vectors, spec.dim)


@contextmanager
def shared_store(spec: Spec, say: Callable[[str], None], *, words: bool = True) -> Iterator[Spec]:
    """A spec whose home holds the store of this size; kept below benchmarks/out for the next part until the run ends.

    Made in a process of its own.
    """
    kept = _kept(spec, words=words).parent
    if not (kept / DONE).exists():
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        begun = time.perf_counter()
        making = replace(spec, home=str(kept))
        process = multiprocessing.get_context("spawn").Process(target=_make_store, args=(making, words))
        process.start()
        process.join()
        if process.exitcode:
            raise RuntimeError(f"making the store ended with code {process.exitcode}")
        (kept / DONE).touch()
        say(f"store of {spec.size} chunks made in {time.perf_counter() - begun:.0f} s")
    with tempfile.TemporaryDirectory(dir=OUT) as home:
        yield replace(spec, home=home)


def forget_stores() -> None:
    """Remove the stores of earlier runs."""
    shutil.rmtree(OUT, ignore_errors=True)


def _make_store(spec: Spec, words: bool) -> None:
    made = material(spec, words=words)
    chunks = make_chunks(made.texts)
    with HybridStore.open(Path(spec.home) / "store", embedder=embedder_of(made, spec)) as store:
        for start in range(0, spec.size, BATCH):
            store.add(chunks[start : start + BATCH], vectors=made.vectors[start : start + BATCH])


def _kept(spec: Spec, *, words: bool) -> Path:
    return OUT / f"{spec.size}-{spec.dim}{'' if words else '-vectors'}" / "store"


def open_store(spec: Spec, made: Material, *, words: bool = True) -> HybridStore:
    """umi over a copy of the store."""
    path = shutil.copytree(_kept(spec, words=words), Path(spec.home) / "umi")
    return HybridStore.open(path, embedder=embedder_of(made, spec))


def chroma_collection(spec: Spec, made: Material, name: str) -> Any:
    """A Chroma collection of the store's vectors, made anew; ids are ledger numbers, row + 1."""
    client = open_chroma(Path(spec.home) / f"{name}-chroma")
    configuration = {"hnsw": {"space": "cosine", "ef_search": CHROMA_EF, "ef_construction": 200}}
    collection = client.create_collection("vectors", configuration=configuration, embedding_function=None)
    for start in range(0, spec.size, BATCH):
        vectors = made.vectors[start : start + BATCH]
        collection.add(ids=[str(start + at + 1) for at in range(len(vectors))], embeddings=vectors)
    return collection


def open_chroma(directory: Path) -> Any:
    """Chroma's own client on a new directory."""
    import chromadb
    from chromadb.config import Settings

    return chromadb.PersistentClient(str(directory), settings=Settings(anonymized_telemetry=False))
