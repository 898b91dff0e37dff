"""Reindexing, compacting, importing and repairing a store."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from small_store import chunks, search

from umi_common.config import AnalyzerConfig, UmiConfig
from umi_common.errors import (
    ConfigError,
    EmbedderError,
    InvalidChunk,
    LedgerDamaged,
    NotAStore,
    ReindexRequired,
    StoreFull,
)
from umi_common.retriever import DualRetriever
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded import care
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.failpoints import armed
from umi_common.stores.lexical import file
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.types import Chunk


@pytest.fixture
def path(tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(64)) as store:
        store.add(chunks())
    return tmp_path / "s"


def test_status_says_what_there_is(path):
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        store.delete(["t0"])
        status = store.status()
    assert (status.chunks, status.sources, status.dimension, status.dead_rows) == (4, 1, 64, 1)
    assert status.embedder == "hash/64"
    assert status.dense == "exact"
    assert status.bytes_on_disk > 4096


def test_a_sound_store_verifies(path):
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        found = store.verify()
        assert found
        assert found.checked == 5


def test_a_damaged_row_is_one_problem(path):
    with closing(sqlite3.connect(path / "umi.db")) as connection:
        connection.execute("UPDATE chunks SET text = 'other words' WHERE id = 't0'")
        connection.commit()
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        (problem,) = store.verify().problems
    assert "'t0' is not what was stored" in problem


def test_rebuilding_embeds_nothing_and_changes_nothing(path):
    embedder = CountingEmbedder(HashEmbedder(64))
    with HybridStore.open(path, embedder=embedder) as store:
        before = search(store, "red boat").ids
        embedder.texts.clear()
        store.rebuild()
        assert not embedder.texts
        assert search(store, "red boat").ids == before


def test_compacting_frees_rows_and_bytes(path):
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        store.add([Chunk(f"x{i}", "some words " * 500) for i in range(200)])
        store.delete([f"x{i}" for i in range(200)])
        before = store.status()
        store.compact()
        after = store.status()
        assert after.dead_rows == 0 < before.dead_rows
        assert after.bytes_on_disk < before.bytes_on_disk / 2
        assert store.ids() == ["t0", "t1", "t2", "t3", "t4"]
        assert store.verify()


def test_a_deleted_user_leaves_no_byte_behind_once_the_store_is_compacted(path):
    traces = ("xylophone", "of-ursula", "talk-of-ursula", "user-ursula")
    spoken = {"source": "talk-of-ursula", "metadata": {"user": "user-ursula"}}
    keeping = UmiConfig(rewrite={"keep_replies": True}, routing={"mode": "always"})
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        store.add([Chunk(f"of-ursula-{i}", f"my xylophone number {i}", position=i, **spoken) for i in range(300)])
        with DualRetriever(store, rewriter=lambda prompt: '["my xylophone"]', config=keeping) as umi:
            assert umi.search("loudest instrument").query_variations == ("my xylophone",)
        assert b"xylophone" in (path / "rewrites.db").read_bytes()
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        assert store.delete(where={"user": "user-ursula"}) == 300
        store.compact()
        files = [file for file in path.rglob("*") if file.is_file()]
        assert not [(file.name, trace) for file in files for trace in traces if trace.encode() in file.read_bytes()]


def deletions_in(path):
    with closing(sqlite3.connect(path / "umi.db")) as ledger:
        return ledger.execute("SELECT count(*) FROM deletions").fetchone()[0]


def test_compacting_empties_the_list_of_deletions_and_a_reader_misses_none(path):
    with HybridStore.open(path, embedder=HashEmbedder(64), read_only=True) as reader:
        assert len(reader) == 5
        with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
            store.delete(["t1", "t3"])
            store.add([Chunk("t0", "a green boat")])
            store.compact()
            assert deletions_in(path) == 0
            assert store.verify()
            assert reader.ids() == store.ids() == ["t0", "t2", "t4"]
            assert reader.get(["t0", "t1"]) == store.get(["t0", "t1"])
            store.delete(["t2"])
            assert reader.ids() == ["t0", "t4"]


def test_the_list_of_deletions_stays_short_and_a_reader_far_behind_misses_none(tmp_path):
    path, every = tmp_path / "s", [Chunk(f"c{i}", "boat") for i in range(6_000)]
    vectors = np.ones((len(every), 2), dtype=np.float32)
    with HybridStore.open(path, embedder=HashEmbedder(2)) as store:
        store.add(every, vectors=vectors)
        with HybridStore.open(path, embedder=HashEmbedder(2), read_only=True) as reader:
            assert len(reader) == 6_000
            store.delete(["c7"])
            for turn in range(9):
                store.add([Chunk(chunk.id, f"boat {turn}") for chunk in every], vectors=vectors)
            store.delete(["c8"])
            assert deletions_in(path) == 50_000
            assert reader.get(["c8", "c9"]) == [None, Chunk("c9", "boat 8")]
            assert reader.ids() == store.ids()


def test_reindexing_embeds_everything_again(path):
    HybridStore.reindex(path, embedder=HashEmbedder(32))
    with HybridStore.open(path, embedder=HashEmbedder(32)) as store:
        assert store.status().dimension == 32
        assert search(store, "red boat").mode == "hybrid"
        assert store.verify()
    with pytest.raises(ReindexRequired):
        HybridStore.open(path, embedder=HashEmbedder(64))


def test_reindexing_names_the_chunks_on_which_the_embedder_fails(path):
    with pytest.raises(EmbedderError, match="chunks 't0' to 't4'"):
        HybridStore.reindex(path, embedder=lambda texts: 1 / 0)


def test_reindexing_makes_a_vector_that_the_ledger_has_lost(path):
    with closing(sqlite3.connect(path / "umi.db")) as ledger:
        ledger.execute("DELETE FROM vectors WHERE seq = 1")
        ledger.commit()
    HybridStore.reindex(path, embedder=HashEmbedder(64))
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        assert store.verify()


def test_reindexing_under_another_analyzer(path):
    HybridStore.reindex(path, config=UmiConfig(analyzer={"language": "none"}))
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        assert store.config.analyzer.language == "none"
        assert not search(store, "boating").lexical.any()


def test_reindexing_that_fails_leaves_the_store_as_it_was(path):
    with pytest.raises(EmbedderError):
        HybridStore.reindex(path, embedder=FaultyEmbedder(HashEmbedder(32), fail_on="sails"))
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        assert store.verify()
        assert len(store) == 5


@pytest.mark.parametrize("commit", [1, 2, 3])
def test_embedder_and_analyzer_change_together_or_not_at_all(path, commit):
    commits, german = count(1), UmiConfig(analyzer=AnalyzerConfig(language="german"))

    def full_disk():
        if next(commits) == commit:
            raise sqlite3.OperationalError("database or disk is full")

    with armed("ledger.commit", full_disk), suppress(StoreFull):
        HybridStore.reindex(path, embedder=HashEmbedder(32), config=german)
    opened = []
    for dim, config in ((64, UmiConfig()), (32, german)):
        with suppress(ReindexRequired), HybridStore.open(path, embedder=HashEmbedder(dim), config=config) as store:
            opened.append((store.status().dimension, bool(store.verify())))
    assert opened in ([(64, True)], [(32, True)])


def test_reindexing_nothing_makes_nothing(tmp_path):
    with pytest.raises(NotAStore):
        HybridStore.reindex(tmp_path / "none", embedder=HashEmbedder())
    assert not (tmp_path / "none").exists()


def test_reindexing_without_an_embedder_or_a_config_is_refused(path):
    with pytest.raises(ConfigError, match=r"embedder=.*config="):
        HybridStore.reindex(path)


def test_a_reader_follows_a_reindex_of_the_vectors(path):
    with HybridStore.open(path, embedder=HashEmbedder(64), read_only=True) as reader:
        assert search(reader, "red boat").vectors.shape[1] == 64
        HybridStore.reindex(path, embedder=HashEmbedder(32))
        assert len(reader) == 5
        pool = search(reader, "red boat")
        assert pool.vectors.shape[1] == 32
        assert [loss.part for loss in pool.degraded] == ["embedder"]


class FakeCollection:
    """The methods of a Chroma collection that an import calls."""

    name = "fake"

    def __init__(self, rows):
        self.rows = {row[0]: row for row in rows}

    def count(self):
        return len(self.rows)

    def get(self, ids=None, include=(), limit=None, offset=0):
        rows = list(self.rows.values())[offset:] if ids is None else [self.rows[id] for id in reversed(ids)]
        return {
            "ids": [row[0] for row in rows],
            "documents": [row[1] for row in rows],
            "metadatas": [row[2] for row in rows],
            "embeddings": [row[3] for row in rows],
        }


def collection(dim=64):
    embed = HashEmbedder(dim).embed_documents
    return FakeCollection(
        [
            (
                "a",
                "red boat",
                {"source": "s", "position": 2, "event_time": "2024-05-01T10:00:00"},
                5 * embed(["red boat"])[0],
            ),
            (
                "b",
                "blue boat",
                {"ref_doc_id": "s", "chunk_index": 1.0, "timestamp": 0, "_node_content": "{}"},
                embed(["blue boat"])[0],
            ),
            ("c", None, None, embed(["?"])[0]),
            ("d", "loose", None, embed(["loose"])[0]),
        ]
    )


def test_a_collection_comes_over_with_its_vectors():
    embedder = CountingEmbedder(HashEmbedder(64))
    with HybridStore.open(embedder=embedder) as store:
        report = store.import_collection(collection())
        assert (report.chunks, report.skipped) == (3, ("c",))
        assert len(embedder.texts) <= 3
        first, second, third = store.get(["a", "b", "d"])
        assert (first.source, first.position, first.event_time.isoformat()) == ("s", 2, "2024-05-01T10:00:00+00:00")
        assert (second.source, second.position, second.event_time.timestamp()) == ("s", 1, 0)
        assert "_node_content" not in second.metadata
        assert (third.source, third.position, third.event_time) == (None, None, None)
        assert [chunk.id for chunk in store.neighbours(["a"], reach=1)["a"]] == ["b", "a"]
        store.import_collection(collection())
        assert store.status().dead_rows == 0


def test_a_collection_of_another_embedder_is_refused():
    with HybridStore.open(embedder=HashEmbedder(32)) as store:
        with pytest.raises(ReindexRequired, match="64 dimensions"):
            store.import_collection(collection())
        assert len(store) == 0


def test_a_time_that_is_none_is_named():
    rows = collection()
    rows.rows["a"][2]["event_time"] = "yesterday"
    with HybridStore.open(embedder=HashEmbedder(64)) as store, pytest.raises(InvalidChunk, match=r"'a'.*yesterday"):
        store.import_collection(rows)


def test_drift_tells_what_moved():
    rows = collection()
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.import_collection(rows)
        assert rows.rows["c"][1] is None and not store.drift(rows)  # a record without a text is not imported
        rows.rows["d"] = ("d", None, *rows.rows["d"][2:])
        assert store.drift(rows).changed == ("d",)
        rows.rows["d"] = ("d", "loose", *rows.rows["d"][2:])
        rows.rows["b"] = ("b", "green boat", *rows.rows["b"][2:])
        rows.rows["e"] = ("e", "new", None, rows.rows["d"][3])
        store.add([Chunk("f", "only here")])
        moved = store.drift(rows)
    assert (moved.missing, moved.extra, moved.changed) == (("e",), ("f",), ("b",))


@pytest.mark.slow
def test_a_real_chroma_collection_comes_over(tmp_path):
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(tmp_path / "theirs"), settings=Settings(anonymized_telemetry=False))
    theirs = client.create_collection("docs", embedding_function=None)
    texts = [f"red boat number {i}" for i in range(2_500)]
    theirs.add(
        ids=[f"d{i}" for i in range(2_500)],
        documents=texts,
        metadatas=[{"source": f"s{i // 10}", "position": i % 10} for i in range(2_500)],
        embeddings=HashEmbedder(64).embed_documents(texts),
    )
    with HybridStore.open(tmp_path / "ours", embedder=HashEmbedder(64)) as store:
        assert store.import_collection(theirs).chunks == 2_500
        assert [chunk.id for chunk in store.neighbours(["d15"], reach=1)["d15"]] == ["d14", "d15", "d16"]
        assert not store.drift(theirs)
        assert store.verify()
    client.close()


def test_verify_names_a_chunk_that_was_changed_behind_our_back(path):
    with sqlite3.connect(path / "umi.db") as ledger:
        ledger.execute("UPDATE chunks SET text = 'another' WHERE id = 't3'")
    ledger.close()
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        found = store.verify()
        assert not found
        assert "t3" in found.problems[0]
        with pytest.raises(LedgerDamaged, match="t3"):
            store.get(["t3"])
        with pytest.raises(LedgerDamaged, match="restore") as failure:
            store.repair()
        assert str(failure.value).count("restore") == 1


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "other",
    [
        {"t1": "a blue blue boat"},
        {"t1": "a boat"},
        {"t1": "a blue ship"},
        {"t1": "a blue boat", "t3": "nothing of the kind, none"},
    ],
)
def test_verify_compares_words_with_texts_and_repair_indexes_them_again(path, tmp_path, other, full):
    """The saved index holds the postings of other texts and the mark of this ledger."""
    texts = {chunk.id: other.get(chunk.id, chunk.text) for chunk in chunks()}
    with HybridStore.open(tmp_path / "other", embedder=HashEmbedder(64)) as store:
        store.add(
            [Chunk(chunk.id, texts[chunk.id], source=chunk.source, position=chunk.position) for chunk in chunks()]
        )
    take_postings(tmp_path / "other", path)
    embedder = CountingEmbedder(HashEmbedder(64))
    with HybridStore.open(path, embedder=embedder) as store:
        changed = sorted(id for id in texts if texts[id] != store.get([id])[0].text)
        assert store.verify(full=full).problems == (
            f"lexical index: postings of {len(changed)} of 5 chunks differ from their texts, e.g. {changed}",
        )
        assert store.repair()
        assert store.search_lexical("blue") == search_afresh("blue")
    assert not embedder.texts


DAMAGE = {
    "other words": "UPDATE chunks SET text = 'other words' WHERE id = ?",
    "a byte that is no UTF-8": "UPDATE chunks SET text = CAST(x'610064ff' AS TEXT) WHERE id = ?",
    "another vector": "UPDATE vectors SET vector = zeroblob(256) WHERE seq = (SELECT seq FROM chunks WHERE id = ?)",
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE.keys())
def test_full_verification_names_every_damaged_chunk_and_goes_on_to_the_postings(path, tmp_path, change):
    with HybridStore.open(tmp_path / "other", embedder=HashEmbedder(64)) as store:
        store.add([Chunk(each.id, f"{each.text} twice" if each.id == "t4" else each.text) for each in chunks()])
    take_postings(tmp_path / "other", path)
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        with closing(sqlite3.connect(path / "umi.db")) as ledger:
            ledger.executemany(change, [("t0",), ("t3",)])
            ledger.commit()
        problems = store.verify(full=True).problems
        assert [[f"'t{i}'" in problem for problem in problems] for i in (0, 3, 4)] == np.eye(3, dtype=bool).tolist()
        with pytest.raises(LedgerDamaged, match="restore"):
            store.repair()


def test_repair_names_the_call_that_mends_a_store_of_which_only_vectors_are_damaged(path):
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        with closing(sqlite3.connect(path / "umi.db")) as ledger:
            ledger.execute(DAMAGE["another vector"], ("t0",))
            ledger.commit()
        with pytest.raises(LedgerDamaged, match=r"'t0'.*restore umi.db from a copy, or .*HybridStore\.reindex\(path"):
            store.repair()
    HybridStore.reindex(path, embedder=HashEmbedder(64))
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        assert store.repair() and len(store) == 5


def test_repair_advises_no_new_vectors_where_a_text_is_lost_too(path):
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        with closing(sqlite3.connect(path / "umi.db")) as ledger:
            ledger.execute(DAMAGE["another vector"], ("t0",))
            ledger.execute(DAMAGE["other words"], ("t3",))
            ledger.commit()
        with pytest.raises(LedgerDamaged, match=r"restore umi\.db from a copy$"):
            store.repair()


def test_verification_of_a_store_with_very_many_damaged_chunks_names_the_first_hundred(tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(2)) as store:
        store.add([Chunk(f"c{i:03}", f"boat {i}") for i in range(300)])
        with closing(sqlite3.connect(tmp_path / "s" / "umi.db")) as ledger:
            ledger.execute("UPDATE chunks SET text = 'other' WHERE id > 'c009'")
            ledger.execute("UPDATE vectors SET vector = zeroblob(8)")
            ledger.commit()
        problems = store.verify(full=True).problems
    assert (len(problems), "'c010'" in problems[0], "'c109'" in problems[99]) == (202, True, True)
    more = "umi.db: more than 100 %s are damaged; the first 100 are named; restore umi.db from a copy"
    assert (problems[100], problems[201]) == (more % "chunks", more % "vectors")


def take_postings(other, path):
    """Write the other store's postings into the saved index of the store at `path`."""
    fingerprint = Analyzer(AnalyzerConfig()).fingerprint
    theirs, ours = (file.newest(each, fingerprint, lambda mark: True) for each in (other, path))
    file.write(path, replace(ours, corpus=theirs.corpus), fingerprint)


def search_afresh(query):
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add(chunks())
        return store.search_lexical(query)


def test_full_verification_finds_what_lies_outside_the_sample(tmp_path):
    every = [Chunk(f"c{i}", f"boat {i}") for i in range(1_500)]
    for name, text in (("s", "boat 700"), ("other", "ship 700")):
        with HybridStore.open(tmp_path / name, embedder=HashEmbedder(2)) as store:
            store.add([*every[:700], Chunk("outside9", text), *every[701:]])
            sample = sorted(store.ids(), key=lambda id: zlib.crc32(id.encode()))[:1_000]
            assert "outside9" not in sample
    take_postings(tmp_path / "other", tmp_path / "s")
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(2)) as store:
        assert store.verify()
        assert "1 of 1500" in store.verify(full=True).problems[0]
        assert store.repair()
        assert store.verify(full=True)


def test_repair_of_a_healthy_store_reads_its_file_once(path, monkeypatch):
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        read, check = [], care._check_file
        monkeypatch.setattr(care, "_check_file", lambda core: read.append(core) or check(core))
        assert store.repair() == store.verify()
        assert len(read) == 2, "one for each of the two calls"


def test_repair_brings_back_an_index_that_failed(path):
    with HybridStore.open(path, embedder=HashEmbedder(64)) as store:
        store._core.indexes.snapshot.row_data.lexical_fault = "broken for the test"
        store.add([Chunk("new", "purple submarine")])
        assert search(store, "purple").mode == "vector"
        assert not store.verify()
        assert store.repair()
        assert search(store, "purple").lexical_rank.max() == 1
