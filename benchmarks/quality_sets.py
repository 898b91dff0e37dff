"""The collections that quality is measured on, and the encoders' vectors for them."""

from __future__ import annotations

import json
import random
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from umi_common import Chunk
from umi_common.embedders import default_embedder, unit_rows
from umi_common.errors import DatasetError, EmbedderError, InvalidVector
from umi_common.evaluation import Dataset, load_beir, load_conversations, load_haystacks
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.sim import ScriptedLLM

MINILM = "minilm"
DEFAULT = "default"
POSITIONED = ("locomo", "qmsum")
"""Sets in which shuffling positions is worth a run."""
ARRAYS = ("docs", "queries")
"""Names in a file of vectors."""
LANGUAGES = ("ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")

LOADERS: dict[str, Callable[[Path], list[Dataset]]] = {
    "locomo": load_conversations,
    "longmemeval_s": load_haystacks,
    "qmsum": load_conversations,
    "scifact": lambda folder: [load_beir(folder)],
    "cranfield": lambda folder: [load_beir(folder)],
    "mtrag_pool": lambda folder: [load_beir(folder)],
    "cosqa": lambda folder: [load_beir(folder)],
    "hotpotqa": lambda folder: [load_beir(folder)],
    "musique": lambda folder: [load_beir(folder)],
    "xquad": lambda folder: [load_beir(folder / language, name=f"xquad {language}") for language in LANGUAGES],
}
STANDARD = tuple(name for name in LOADERS if name != "xquad")
"""What a run without --sets takes; xquad has no vectors and is about analyzers."""


@dataclass(frozen=True)
class Collection:
    """One set under one encoder."""

    name: str
    encoder: str
    datasets: list[Dataset]
    embedder: Callable[[Dataset], Embedder]

    @property
    def title(self) -> str:
        """The name of its datasets: set/encoder, and what was done to it."""
        return self.datasets[0].name

    def called(self, what: str) -> Collection:
        """The same under another title."""
        return replace(self, datasets=[replace(part, name=f"{part.name}/{what}") for part in self.datasets])


def load_collection(data: Path, name: str, encoder: str) -> Collection | None:
    """The set with this encoder's vectors; None where the data or every vector file is absent.

    Its queries have no history, which the other systems cannot use.
    """
    if not (data / name).is_dir():
        return None
    datasets = [_without_history(dataset) for dataset in LOADERS[name](data / name)]
    if encoder == DEFAULT:
        return Collection(name, encoder, _renamed(datasets, encoder), lambda dataset: default_embedder())
    files = {dataset.group: _vector_file(data, encoder, name, dataset) for dataset in datasets}
    kept = [dataset for dataset in datasets if files[dataset.group].exists()]
    if not kept:
        return None
    return Collection(
        name, encoder, _renamed(kept, encoder), lambda dataset: load_vectors(files[dataset.group], dataset)
    )


def shuffled(collection: Collection, *, across_sources: bool = False) -> Collection:
    """The same set with positions, and across sources also sources, that carry nothing."""
    dealt = [with_shuffled_positions(dataset, 1, across_sources=across_sources) for dataset in collection.datasets]
    return replace(collection, datasets=dealt).called("shuffled across" if across_sources else "shuffled")


def with_shuffled_positions(dataset: Dataset, seed: int = 0, *, across_sources: bool = False) -> Dataset:
    """The same documents with shuffled positions, so that their order holds no information.

    Args:
        seed: Same seed, same order.
        across_sources: Shuffle the sources too; their number and lengths stay. False: shuffle within each source.
    """
    rng, positioned = random.Random(seed), [chunk for chunk in dataset.chunks if chunk.position is not None]
    free: dict[str | None, list[tuple[str | None, int | None]]] = defaultdict(list)
    for chunk in positioned:
        free[None if across_sources else chunk.source].append((chunk.source, chunk.position))
    for places in free.values():
        rng.shuffle(places)
    moved: dict[str, Chunk] = {}
    for chunk in positioned:
        source, position = free[None if across_sources else chunk.source].pop()
        moved[chunk.id] = replace(chunk, source=source, position=position)
    return replace(dataset, chunks=tuple(moved.get(chunk.id, chunk) for chunk in dataset.chunks))


def recorded_rewriter(data: Path, name: str) -> ScriptedLLM | None:
    """An LLM that answers from the recorded rewrites of a set; None where there are none."""
    path = data / "rewrites" / f"{name}.jsonl"
    if not path.exists():
        return None
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return ScriptedLLM(by_query({record["q"]: record["v"] for record in records}))


def by_query(variations: Mapping[str, Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """A function from a prompt to the variations of its query.

    The query is a whole line of the prompt, or follows a label ("Query: ..."). The last line that is a key of
    `variations` counts, because earlier lines are messages of the conversation.

    Raises:
        LookupError: If no line is a key.
    """

    def reply(prompt: str) -> Sequence[str]:
        for line in reversed(prompt.splitlines()):
            for part in (line.strip(), line.partition(": ")[2].strip()):
                if part in variations:
                    return variations[part]
        raise LookupError("no line of the prompt is a recorded query")

    return reply


def _without_history(dataset: Dataset) -> Dataset:
    return replace(dataset, queries=tuple(replace(query, history=()) for query in dataset.queries))


def _renamed(datasets: list[Dataset], encoder: str) -> list[Dataset]:
    return [replace(dataset, name=f"{dataset.name}/{encoder}") for dataset in datasets]


def _vector_file(data: Path, encoder: str, name: str, dataset: Dataset) -> Path:
    folder = data / "vectors" / encoder
    return folder / f"{name}.npz" if dataset.group == name else folder / name / f"{dataset.group}.npz"


class PrecomputedEmbedder:
    """An Embedder that looks vectors up by text; documents and queries are kept apart.

    Args:
        name: Identity of the model that made them.
        documents: (dim,) float32 by text, all of one dimension.
        queries: The same for queries; None: the documents' vectors are used for both.

    Raises:
        InvalidVector: If there is no vector, or dimensions differ.
    """

    def __init__(
        self, name: str, documents: Mapping[str, Vectors], queries: Mapping[str, Vectors] | None = None
    ) -> None:
        self.name = name
        self._documents = dict(documents)
        self._queries = self._documents if queries is None else dict(queries)
        dims = {vector.shape for known in (self._documents, self._queries) for vector in known.values()}
        if len(dims) != 1:
            raise InvalidVector(f"vectors of {name!r} have shapes {sorted(dims)[:3]}; expected one, (dim,)")
        (self.dim,) = dims.pop()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32; raises EmbedderError for a text that has no vector."""
        return self._looked_up(self._documents, texts, "document")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32; raises EmbedderError for a text that has no vector, such as a rewritten query."""
        return self._looked_up(self._queries, texts, "query")

    def _looked_up(self, known: Mapping[str, Vectors], texts: Sequence[str], kind: str) -> Vectors:
        missing = sum(text not in known for text in texts)
        if missing:
            raise EmbedderError(f"{self.name!r} has no vector for {missing} of {len(texts)} {kind} texts")
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return np.stack([known[text] for text in texts])


def load_vectors(path: str | Path, dataset: Dataset, *, name: str | None = None) -> PrecomputedEmbedder:
    """The vectors of a dataset: an npz with arrays `docs` (n, dim) and `queries` (m, dim) in the dataset's order.

    Args:
        dataset: Whose chunks and queries the rows belong to.
        name: Identity of the model; None: the name of the folder that holds the file.

    Raises:
        DatasetError: If the file is missing, no npz, lacks an array, or its rows do not match the dataset.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            docs, queries = (unit_rows(arrays[array]) for array in ARRAYS)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"cannot read vectors from {path}: {error}; expected an npz with docs and queries"
        ) from error
    docs = np.delete(docs, [row for row in dataset.blank if row < len(docs)], axis=0)
    if len(docs) != len(dataset.chunks) or len(queries) != len(dataset.queries):
        raise DatasetError(
            f"{path} holds {len(docs)} document and {len(queries)} query vectors; "
            f"the dataset has {len(dataset.chunks)} and {len(dataset.queries)}"
        )
    return PrecomputedEmbedder(
        path.parent.name if name is None else name,
        {chunk.indexed_text: vector for chunk, vector in zip(dataset.chunks, docs, strict=True)},
        {query.text: vector for query, vector in zip(dataset.queries, queries, strict=True)},
    )
