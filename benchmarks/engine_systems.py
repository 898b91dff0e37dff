"""Engines that a user may pick instead of umi, each over the same chunks and vectors: BM25 and dense, fused by rank.

A builder gets a `Task` and returns a function from a question's number to the rows of the ten best. Engines are used as
their guides show: their own tokenizer and index defaults, no approximate vector index where the default is exact.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.corpus import looked_up
from umi_common.pool import Vectors
from umi_common.retriever import DualRetriever
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

TOP = 10
ARM_DEPTH = 60
"""Hits of each arm where the caller fuses them."""
RRF_K = 60
UMI = "umi"
BATCH = 5_000

Ask = Callable[[int], list[int]]


@dataclass(frozen=True)
class Task:
    """What an engine stores and what it is asked."""

    home: Path
    """A directory of its own."""
    chunks: Sequence[Chunk]
    vectors: Vectors
    questions: Sequence[str]
    question_vectors: Vectors

    @property
    def dim(self) -> int:
        """Of the vectors."""
        return self.vectors.shape[1]


def fused(*rankings: Sequence[int]) -> list[int]:
    """The ten best rows by reciprocal rank."""
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, row in enumerate(ranking, 1):
            scores[row] += 1.0 / (RRF_K + rank)
    return sorted(scores, key=lambda row: -scores[row])[:TOP]


def words_of(text: str) -> list[str]:
    """Lower-case words, for query languages that give signs a meaning."""
    return re.findall(r"\w+", text.lower())


def umi(task: Task) -> Ask:
    """`DualRetriever.search` with its defaults."""
    store = HybridStore.open(task.home, embedder=looked_up(task.questions, task.question_vectors, task.dim))
    rows = {chunk.id: row for row, chunk in enumerate(task.chunks)}
    for start in range(0, len(rows), BATCH):
        store.add(task.chunks[start : start + BATCH], vectors=task.vectors[start : start + BATCH])
    retriever = DualRetriever(store)
    return lambda number: [rows[id] for id in retriever.search(task.questions[number], limit=TOP).ids]


def lance(task: Task) -> Ask:
    """LanceDB's hybrid query with its native full-text index and its RRF; vectors are compared exactly."""
    import lancedb
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(task.vectors.reshape(-1)), task.dim)
    columns = {"row": list(range(len(task.chunks))), "text": [chunk.text for chunk in task.chunks], "vector": vectors}
    table = lancedb.connect(str(task.home)).create_table("chunks", pa.table(columns))
    table.create_fts_index("text")

    def ask(number: int) -> list[int]:
        query = table.search(query_type="hybrid").vector(task.question_vectors[number]).text(task.questions[number])
        return [hit["row"] for hit in query.limit(TOP).to_list()]

    return ask


def sqlite(task: Task) -> Ask:
    """SQLite's FTS5 (porter) and sqlite-vec in one file, fused by rank in Python; a connection for each thread.

    By apsw, because the sqlite3 of some Pythons loads no extensions.
    """
    import apsw
    import sqlite_vec

    local = threading.local()

    def connection() -> Any:
        if not hasattr(local, "connection"):
            local.connection = apsw.Connection(str(task.home / "engine.db"))
            local.connection.enable_load_extension(True)
            local.connection.load_extension(sqlite_vec.loadable_path())
        return local.connection

    with connection() as made:
        made.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter unicode61')")
        made.execute(f"CREATE VIRTUAL TABLE vectors USING vec0(vector float[{task.dim}] distance_metric=cosine)")
        texts = ((row, chunk.text) for row, chunk in enumerate(task.chunks))
        made.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", texts)
        blobs = ((row, vector.tobytes()) for row, vector in enumerate(task.vectors))
        made.executemany("INSERT INTO vectors(rowid, vector) VALUES (?, ?)", blobs)

    def ask(number: int) -> list[int]:
        any_word = " OR ".join(f'"{word}"' for word in words_of(task.questions[number]))
        by_words = connection().execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (any_word, ARM_DEPTH)
        )
        vector = task.question_vectors[number].tobytes()
        nearest = connection().execute("SELECT rowid FROM vectors WHERE vector MATCH ? AND k = ?", (vector, ARM_DEPTH))
        return fused([row for (row,) in by_words], [row for (row,) in nearest])

    return ask


def tantivy_usearch(task: Task) -> Ask:
    """tantivy's English BM25 and usearch's HNSW, fused by rank in Python."""
    import tantivy
    from usearch.index import Index

    schema = (
        tantivy.SchemaBuilder()
        .add_text_field("text", tokenizer_name="en_stem")
        .add_integer_field("row", stored=True, fast=True)
    )
    index = tantivy.Index(schema.build(), path=str(task.home))
    writer = index.writer()
    for row, chunk in enumerate(task.chunks):
        writer.add_document(tantivy.Document(text=chunk.text, row=row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    dense = Index(ndim=task.dim, metric="cos", dtype="f32")
    dense.add(np.arange(len(task.vectors)), task.vectors)
    dense.save(str(task.home / "vectors.usearch"))

    def ask(number: int) -> list[int]:
        query = index.parse_query(" ".join(words_of(task.questions[number])), ["text"])
        hits = searcher.search(query, ARM_DEPTH).hits
        by_words = [searcher.doc(address)["row"][0] for _, address in hits]
        return fused(by_words, dense.search(task.question_vectors[number], ARM_DEPTH).keys.tolist())

    return ask


def qdrant_edge(task: Task) -> Ask:
    """Qdrant's engine in this process: sparse vectors of BM25 with its idf, dense vectors, its RRF."""
    import qdrant_edge as edge
    import Stemmer

    stem, average = Stemmer.Stemmer("english"), np.mean([len(words_of(chunk.text)) for chunk in task.chunks])

    def sparse(text: str, *, query: bool) -> Any:
        counts = Counter(crc32(word.encode()) & 0x7FFFFFFF for word in stem.stemWords(words_of(text)))
        norm = 1.2 * (0.25 + 0.75 * counts.total() / average)
        values = [1.0 if query else count * 2.2 / (count + norm) for count in counts.values()]
        return edge.SparseVector(indices=list(counts), values=values)

    config = edge.EdgeConfig(
        vectors={"dense": edge.EdgeVectorParams(size=task.dim, distance=edge.Distance.Cosine)},
        sparse_vectors={"words": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
    )
    shard = edge.EdgeShard.create(str(task.home), config)
    for start in range(0, len(task.chunks), BATCH):
        rows = range(start, min(start + BATCH, len(task.chunks)))
        points = [
            edge.Point(
                row,
                {"dense": task.vectors[row].tolist(), "words": sparse(task.chunks[row].text, query=False)},
                {"text": task.chunks[row].text},
            )
            for row in rows
        ]
        shard.update(edge.UpdateOperation.upsert_points(points))
    shard.optimize()

    def ask(number: int) -> list[int]:
        words, vector = sparse(task.questions[number], query=True), task.question_vectors[number].tolist()
        arms = [
            edge.Prefetch(limit=ARM_DEPTH, query=edge.Query.Nearest(words, using="words")),
            edge.Prefetch(limit=ARM_DEPTH, query=edge.Query.Nearest(vector, using="dense")),
        ]
        request = edge.QueryRequest(limit=TOP, query=edge.Fusion.Rrf(k=RRF_K), prefetches=arms, with_payload=True)
        return [int(point.id) for point in shard.query(request)]

    return ask


def milvus_lite(task: Task) -> Ask:
    """Milvus Lite: its BM25 function and a flat vector index, its RRF."""
    import pymilvus as milvus

    client = milvus.MilvusClient(str(task.home / "milvus.db"))
    schema = client.create_schema()
    schema.add_field("row", milvus.DataType.INT64, is_primary=True)
    schema.add_field("text", milvus.DataType.VARCHAR, max_length=65_535, enable_analyzer=True)
    schema.add_field("words", milvus.DataType.SPARSE_FLOAT_VECTOR)
    schema.add_field("vector", milvus.DataType.FLOAT_VECTOR, dim=task.dim)
    schema.add_function(milvus.Function("bm25", milvus.FunctionType.BM25, ["text"], ["words"]))
    indexes = client.prepare_index_params()
    indexes.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    indexes.add_index("vector", index_type="FLAT", metric_type="COSINE")
    client.create_collection("chunks", schema=schema, index_params=indexes)
    for start in range(0, len(task.chunks), 1_000):
        rows = range(start, min(start + 1_000, len(task.chunks)))
        client.insert(
            "chunks", [{"row": r, "text": task.chunks[r].text, "vector": task.vectors[r].tolist()} for r in rows]
        )

    def ask(number: int) -> list[int]:
        by_words = milvus.AnnSearchRequest([task.questions[number]], "words", {"metric_type": "BM25"}, ARM_DEPTH)
        by_vector = milvus.AnnSearchRequest(
            [task.question_vectors[number].tolist()], "vector", {"metric_type": "COSINE"}, ARM_DEPTH
        )
        found = client.hybrid_search("chunks", [by_words, by_vector], milvus.RRFRanker(RRF_K), limit=TOP)
        return [hit["row"] for hit in found[0]]

    return ask


def haystack(task: Task) -> Ask:
    """Haystack's in-memory store: BM25 and embedding retrievers, joined by reciprocal rank."""
    from haystack import Document
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    pairs = enumerate(zip(task.chunks, task.vectors, strict=True))
    store.write_documents(
        [Document(id=str(row), content=chunk.text, embedding=vector.tolist()) for row, (chunk, vector) in pairs]
    )
    lexical = InMemoryBM25Retriever(store, top_k=ARM_DEPTH)
    dense = InMemoryEmbeddingRetriever(store, top_k=ARM_DEPTH)
    joiner = DocumentJoiner("reciprocal_rank_fusion", top_k=TOP)

    def ask(number: int) -> list[int]:
        by_words = lexical.run(query=task.questions[number])["documents"]
        by_vector = dense.run(query_embedding=task.question_vectors[number].tolist())["documents"]
        return [int(found.id) for found in joiner.run(documents=[by_words, by_vector])["documents"]]

    return ask


ENGINES: dict[str, Callable[[Task], Ask]] = {
    UMI: umi,
    "LanceDB hybrid": lance,
    "SQLite FTS5 + sqlite-vec": sqlite,
    "tantivy + usearch": tantivy_usearch,
    "qdrant-edge": qdrant_edge,
    "Milvus Lite": milvus_lite,
    "Haystack in memory": haystack,
}
