"""The BM25 systems: each builds from the same texts and gives rows of the ten best. Peers are imported where used."""

from __future__ import annotations

import logging
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import Corpus
from benchmarks.harness import Asking, Build, Prepare, Skipped, Spec

TOP = 10
TEXTS, QUESTIONS = "texts.txt", "questions.txt"
BATCH = 5_000
FILTERED_MAX = 100_000
LANGCHAIN_MAX = 100_000
"""Largest size for BM25Retriever: above, a query takes seconds, since it scores every chunk in Python."""
LLAMAINDEX_MAX = 100_000
"""Largest size for LlamaIndex's BM25Retriever: above, its build takes minutes."""
FTS5_MAX = 100_000
"""Largest size for FTS5: above, a question with one common word takes a second."""


def keep_material(corpus: Corpus, spec: Spec) -> None:
    """Write texts and questions into the home for the children, who would each take half a minute to make 1,000,000."""
    questions = [text for text, _ in corpus.questions(spec.questions)]
    (Path(spec.home) / TEXTS).write_text("\n".join(corpus.texts()), encoding="ascii")
    (Path(spec.home) / QUESTIONS).write_text("\n".join(questions), encoding="ascii")


def material(spec: Spec) -> tuple[list[str], list[str]]:
    """Texts and questions."""
    texts, questions = ((Path(spec.home) / name).read_text(encoding="ascii").split("\n") for name in (TEXTS, QUESTIONS))
    return texts, questions


def _umi(spec: Spec, *, held: bool) -> Build:
    from umi_common.config import AnalyzerConfig, LexicalConfig
    from umi_common.stores.lexical.analyzer import Analyzer
    from umi_common.stores.lexical.index import LexicalIndex

    texts, questions = material(spec)
    config = LexicalConfig()

    def build() -> Asking:
        index = LexicalIndex(Analyzer(AnalyzerConfig()))
        for start in range(0, spec.size, BATCH):
            some = texts[start : start + BATCH]
            index.update(range(start, start + len(some)), some, [-1] * len(some))
        random = np.random.default_rng(4)
        allowed = random.random(spec.size) < 0.5 if held else None
        weights = 0.5 + 0.5 * 2.0 ** (-np.arange(spec.size) / spec.size) if held else None

        def ask(number: int) -> list[int]:
            (found,) = index.search([questions[number]], k=TOP, config=config, allowed=allowed, weights=weights)
            rows: list[int] = found.rows.tolist()
            return rows

        return Asking(ask)

    return build


def umi(spec: Spec) -> Build:
    """umi's postings."""
    return _umi(spec, held=False)


def umi_filtered(spec: Spec) -> Build:
    """The same, with a filter that half of the chunks pass and a decay weight on each."""
    if spec.size > FILTERED_MAX:
        raise Skipped("measured up to 100,000")
    return _umi(spec, held=True)


def langchain(spec: Spec) -> Build:
    """langchain_community's BM25Retriever with its defaults: rank_bm25 over `text.split()`."""
    if spec.size > LANGCHAIN_MAX:
        raise Skipped("it scores every chunk in Python: 0.3 s a query at 100,000")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package announces its end at import
        from langchain_community.retrievers import BM25Retriever
    texts, questions = material(spec)

    def build() -> Asking:
        rows = [{"row": row} for row in range(len(texts))]
        retriever = BM25Retriever.from_texts(texts, metadatas=rows, k=TOP)
        return Asking(lambda number: [document.metadata["row"] for document in retriever.invoke(questions[number])])

    return build


def llamaindex(spec: Spec) -> Build:
    """llama_index's BM25Retriever with its defaults: bm25s behind its stemmer and stop words."""
    if spec.size > LLAMAINDEX_MAX:
        raise Skipped("its build takes minutes: 20 s at 100,000")
    from llama_index.core.schema import BaseNode, TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    texts, questions = material(spec)

    def build() -> Asking:
        nodes: list[BaseNode] = [TextNode(id_=str(row), text=text) for row, text in enumerate(texts)]
        retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=TOP)
        return Asking(lambda number: [int(hit.node.node_id) for hit in retriever.retrieve(questions[number])])

    return build


def bm25s(spec: Spec) -> Build:
    """bm25s with its numba backend, Lucene's variant, k1 1.2 and b 0.75, English stemmer."""
    import bm25s as library
    import numba  # noqa: F401  so that its absence shows as such
    import Stemmer

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    texts, questions = material(spec)
    stemmer = Stemmer.Stemmer("english")
    tiny = library.BM25(method="lucene", backend="numba")  # numba compiles at the first call, outside of any figure
    tiny.index([["a", "b"], ["b"]], show_progress=False)
    tiny.retrieve([["a"]], k=1, show_progress=False)

    def build() -> Asking:
        tokens = library.tokenize(texts, stopwords=None, stemmer=stemmer, show_progress=False)
        index = library.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
        index.index(tokens, show_progress=False)

        def ask(number: int) -> list[int]:
            words = library.tokenize(
                [questions[number]], stopwords=None, stemmer=stemmer, return_ids=False, show_progress=False
            )
            rows, _ = index.retrieve(words, k=min(TOP, spec.size), show_progress=False, sorted=True)
            found: list[int] = rows[0].tolist()
            return found

        return Asking(ask)

    return build


def tantivy(spec: Spec) -> Build:
    """tantivy with its English stemming tokenizer, merged after the build; the row is a stored fast field."""
    import tantivy as library

    texts, questions = material(spec)
    home = Path(spec.home) / "tantivy"
    home.mkdir()

    def build() -> Asking:
        schema = library.SchemaBuilder()
        schema.add_text_field("text", stored=False, tokenizer_name="en_stem", index_option="freq")
        schema.add_integer_field("row", stored=True, indexed=False, fast=True)
        index = library.Index(schema.build(), path=str(home))
        writer = index.writer(heap_size=256_000_000, num_threads=1)
        for row, text in enumerate(texts):
            writer.add_document(library.Document(text=text, row=row))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        searcher = index.searcher()

        def ask(number: int) -> list[int]:
            query = index.parse_query(questions[number], ["text"])
            hits: list[Any] = searcher.search(query, TOP, count=False).hits
            return [searcher.doc(address)["row"][0] for _, address in hits]

        return Asking(ask)

    return build


def fts5(spec: Spec) -> Build:
    """SQLite FTS5 in memory, porter stemmer, its own bm25()."""
    if spec.size > FTS5_MAX:
        raise Skipped("it scores every match of every word: about a second a query")
    texts, questions = material(spec)

    def build() -> Asking:
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE VIRTUAL TABLE chunks USING fts5(text, tokenize = 'porter unicode61')")
        connection.executemany("INSERT INTO chunks (rowid, text) VALUES (?, ?)", enumerate(texts, 1))
        connection.commit()
        sql = "SELECT rowid FROM chunks WHERE chunks MATCH ? ORDER BY bm25(chunks) LIMIT ?"

        def ask(number: int) -> list[int]:
            return [row - 1 for (row,) in connection.execute(sql, (" OR ".join(questions[number].split()), TOP))]

        return Asking(ask)

    return build


SYSTEMS: dict[str, Prepare] = {
    "umi": umi,
    "umi, filter and decay on": umi_filtered,
    "tantivy": tantivy,
    "bm25s, numba": bm25s,
    "LlamaIndex BM25Retriever": llamaindex,
    "LangChain BM25Retriever": langchain,
    "SQLite FTS5": fts5,
}
