"""How much work a call does, counted and not timed: what makes searches slow again shows here, on any machine.

Counted where the work leaves umi: the embedder, SQLite's own trace, Chroma's `query`, and the postings that the scorer
reads.
"""

from __future__ import annotations

import cProfile
import pstats
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.files import index
from umi_common.sim import CountingEmbedder, HashEmbedder, ScriptedLLM
from umi_common.stores import corpus_stats as calibration
from umi_common.stores.dense import cosines as dense
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.bm25 import RowScorer
from umi_common.stores.lexical.index import LexicalIndex

WORDS = "boat river boiler canal mortgage survey roof cousin house market".split()  # noqa: SIM905
VARIATIONS = ["boat on the river", "roof survey", "market house"]


def chunks(count: int) -> list[Chunk]:
    return [
        Chunk(
            f"c{i:04}",
            f"{WORDS[i % 10]} {WORDS[(i * 7 + 3) % 10]} item{i}",
            source=f"s{i // 20}",
            position=i % 20,
            metadata={"user": f"u{i % 3}"},
        )
        for i in range(count)
    ]


@dataclass
class Counts:
    """Work since `start`."""

    embedder: CountingEmbedder = field(default_factory=lambda: CountingEmbedder(HashEmbedder()))
    sql: list[str] = field(default_factory=list)
    indexed: int = 0
    """Texts cut into terms."""

    def start(self) -> None:
        self.sql.clear()
        self.embedder.texts.clear()
        self.embedder.document_calls = self.embedder.query_calls = self.indexed = 0

    @property
    def embedded(self) -> tuple[int, int]:
        """(calls, texts)"""
        return self.embedder.document_calls + self.embedder.query_calls, len(self.embedder.texts)


@pytest.fixture
def counts(monkeypatch) -> Counts:
    counted = Counts()
    connect, update = sqlite3.connect, LexicalIndex.update

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(counted.sql.append)
        return connection

    def indexed(index, rows=(), texts=(), sources=(), **removed):
        counted.indexed += len(texts)
        update(index, rows, texts, sources, **removed)

    monkeypatch.setattr(sqlite3, "connect", traced)
    monkeypatch.setattr(LexicalIndex, "update", indexed)
    return counted


@pytest.fixture
def store(counts, tmp_path):
    with HybridStore.open(tmp_path / "store", embedder=counts.embedder) as opened:
        opened.add(chunks(600))
        yield opened


@pytest.fixture
def umi(store):
    with DualRetriever(store) as retriever:
        retriever.search("boat")
        retriever.search("boat", where={"user": "u0"})  # the first filter reads all metadata, once
        yield retriever


def test_a_search_embeds_once_and_asks_sqlite_twice(umi, counts):
    """One call with one text to the embedder; a statement for the best chunks, whose references are sought, and one for
    those that are shown."""
    counts.start()
    umi.search("canal item33")
    assert counts.embedded == (1, 1)
    assert len(counts.sql) <= 2


def test_a_search_with_its_vector_embeds_nothing(umi, counts):
    counts.start()
    umi.search("canal item34", query_vector=[1.0] * counts.embedder.dim)
    assert counts.embedded == (0, 0)


def test_a_filter_costs_no_further_statement(umi, counts):
    """Metadata is in memory after the first filter, and no filter reads the ledger row by row."""
    counts.start()
    umi.search("canal item35", where={"user": "u1"})
    assert counts.embedded == (1, 1)
    assert len(counts.sql) <= 2


def test_a_repeated_search_reads_no_chunk_again(umi, counts):
    umi.search("canal item36")
    counts.start()
    umi.search("canal item36")
    assert not counts.sql


def test_a_deep_search_embeds_twice_and_asks_the_llm_once(store, counts):
    """The query, then its three variations in one call: the query's own vector is kept."""
    llm = ScriptedLLM(lambda _: VARIATIONS)
    with DualRetriever(store, rewriter=llm, config=UmiConfig(routing={"mode": "always"})) as umi:
        counts.start()
        result = umi.search("canal item37")
    assert result.query_variations == tuple(VARIATIONS)
    assert len(llm.prompts) == 1
    assert counts.embedded == (2, 4)
    assert len(counts.sql) <= 3  # the names are read at the first search of a store


def test_a_context_asks_sqlite_once_for_hits_and_once_for_their_neighbours(umi, counts):
    counts.start()
    umi.get_context("canal item38", counter=len)
    assert counts.embedded == (1, 1)
    assert len(counts.sql) <= 2


def test_a_batch_embeds_once_and_reads_chunks_once(umi, counts):
    """32 queries are one batch: one call of the embedder, one statement for its chunks, one a query for references."""
    counts.start()
    umi.search_many([f"canal item{i}" for i in range(32)])
    assert counts.embedded == (1, 32)
    assert len(counts.sql) <= 1 + 32


def test_searches_together_are_compared_with_the_vectors_in_one_pass_and_gather_none(umi, monkeypatch):
    passes: list[tuple[int, int]] = []
    computed = dense.cosines

    def counted(vectors, queries):
        passes.append((len(vectors), len(queries)))
        return computed(vectors, queries)

    for module in (dense, calibration):
        monkeypatch.setattr(module, "cosines", counted)
    monkeypatch.setattr(dense, "cosines_at", counted)
    umi.search_many([f"canal item{i}" for i in range(8)])
    assert passes == [(len(umi.store), 8)]


def test_a_turn_costs_the_same_in_a_store_of_any_size(counts, tmp_path):
    """One embedding, one text analysed, eleven statements, one commit: nothing grows with what is stored already."""
    spent = []
    for count in (20, 1_000):
        with HybridStore.open(tmp_path / f"s{count}", embedder=counts.embedder) as store:
            store.add(chunks(count))
            counts.start()
            store.add([Chunk("turn", "one more turn about the boat")])
            assert counts.embedded == (1, 1)
            assert counts.indexed == 1
            assert sum(statement == "COMMIT" for statement in counts.sql) == 1
            spent.append(len(counts.sql))
    assert spent[0] == spent[1] <= 11


def test_a_batch_of_chunks_is_one_commit_and_two_rows_a_chunk(counts, tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=counts.embedder) as store:
        counts.start()
        store.add(chunks(500))
        assert counts.embedded == (2, 500)  # 256 texts at a time
        assert counts.indexed == 500
        assert len(counts.sql) <= 2 * 500 + 8


def test_what_is_stored_already_costs_no_embedding_and_writes_nothing(store, counts):
    counts.start()
    store.add(chunks(600))
    assert counts.embedded == (0, 0)
    assert not [statement for statement in counts.sql if statement.startswith(("INSERT", "UPDATE", "DELETE"))]


def test_indexing_many_small_files_costs_each_file_the_same(tmp_path):
    def calls_for(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"{number}.txt").touch()
        with HybridStore.open(embedder=HashEmbedder(16)) as store, cProfile.Profile() as profile:
            index(store, [folder], checkpoint=tmp_path / f"{count}.db")
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]

    few, many = calls_for(400), calls_for(1600)
    assert many < 4.5 * few


def test_opening_costs_the_same_statements_for_any_number_of_chunks(counts, tmp_path):
    """And embeds nothing, and analyses no text again: the snapshot holds the postings.

    Two of the statements ask whether the file has the column `search_text`. Seven read what was written or deleted
    since the arrays were saved and compare the number of rows, instead of reading all rows.
    """
    spent = []
    for count in (20, 1_000):
        with HybridStore.open(tmp_path / f"s{count}", embedder=counts.embedder) as store:
            store.add(chunks(count))
        counts.start()
        with HybridStore.open(tmp_path / f"s{count}", embedder=counts.embedder):
            spent.append(len(counts.sql))
        assert counts.embedded == (0, 0)
        assert counts.indexed == 0
    assert spent[0] == spent[1] <= 38


def rare(number: int) -> str:
    """7 -> "qaah": a word without digits, which would be cut into parts."""
    return "q" + f"{number:03}".translate(str.maketrans("0123456789", "abcdfghjkm"))


@pytest.fixture(scope="module")
def large() -> LexicalIndex:
    """40,000 chunks: "the" in all, "often" in every second, "qaah" and its like in 40 each."""
    index = LexicalIndex(Analyzer(AnalyzerConfig()))
    texts = [f"the {'often' if i % 2 else 'rarely'} {rare(i % 1_000)}" + " more" * (i % 5) for i in range(40_000)]
    index.update(range(len(texts)), texts, [-1] * len(texts))
    return index


@pytest.fixture
def touched(monkeypatch) -> list[int]:
    """Postings read as lists, and rows looked up, one number a call."""
    seen: list[int] = []
    impacts, lookup = RowScorer.impacts, RowScorer.lookup

    def counted_impacts(scorer, terms):
        found = impacts(scorer, terms)
        seen.append(sum(len(rows) for rows, _ in found))
        return found

    def counted_lookup(scorer, terms, rows):
        seen.append(len(terms) * len(rows))
        return lookup(scorer, terms, rows)

    monkeypatch.setattr(RowScorer, "impacts", counted_impacts)
    monkeypatch.setattr(RowScorer, "lookup", counted_lookup)
    return seen


def test_common_words_beside_a_rare_one_are_looked_up_and_not_read(large, touched):
    """60,040 postings match; six passes over the rare word's 40 are enough: three words for the threshold, one list,
    two words looked up."""
    (found,) = large.search([f"the often {rare(7)}"], k=10, config=LexicalConfig())
    assert len(found) == 10
    assert 40 <= sum(touched) <= 7 * 40


def test_a_word_too_rare_to_fill_the_pool_does_not_read_the_lists_of_the_common_words_beside_it(touched):
    """60,000 postings match; the rare word's are read, and the rows that can win are looked up, twice."""
    random, index = np.random.default_rng(3), LexicalIndex(Analyzer(AnalyzerConfig()))
    numbers = random.integers(1, 160, 40_000).tolist()
    texts = [" ".join(["the", "what", "is"][: each % 4] + ["more"] * (each // 4)) for each in numbers]
    texts[:3] = [f"{text} zeppelin" for text in texts[:3]]
    index.update(range(len(texts)), texts, [-1] * len(texts))
    (found,) = index.search(["what is the zeppelin"], k=200, config=LexicalConfig())
    assert sorted(found.rows[:3].tolist()) == [0, 1, 2]
    assert len(found) == 200
    assert sum(touched) < 15_000


def test_scoring_a_pool_looks_up_its_rows_and_reads_no_long_list(large, touched):
    """Three words, 40 rows: 120 look-ups; and for the bound the rare word's own 40 postings, once."""
    large.score([f"the often {rare(7)}"], list(range(7, 40_007, 1_000)), config=LexicalConfig())
    assert sum(touched) <= 4 * 40


def test_no_write_and_no_search_imports_what_only_masked_arrays_need():
    """numpy.ma takes 30 ms and more, the first time; `np.unique` asks for it."""
    script = """
import sys
from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.sim import HashEmbedder
with HybridStore.open(embedder=HashEmbedder()) as store:
    for part in range(2):
        store.add([Chunk(f"c{part}-{i}", f"boat {i}", source="s", position=i) for i in range(300)])
    store.delete(["c0-7"])
    DualRetriever(store).search("boat 7")
print("numpy.ma" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
