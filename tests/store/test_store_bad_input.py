"""An error names the wrong argument and how to fix it, and nothing is written."""

from __future__ import annotations

import re
import sqlite3
from datetime import datetime
from functools import partial
from pathlib import Path

import chromadb
import numpy as np
import pandas
import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode
from qdrant_client import QdrantClient
from small_store import NOW, chunks, search

from umi_common.config import UmiConfig
from umi_common.errors import (
    ConfigError,
    DuplicateId,
    EmbedderError,
    FilterError,
    InputError,
    InvalidChunk,
    InvalidLimit,
    InvalidVector,
    LedgerDamaged,
    NotAStore,
    ReindexRequired,
    StoreError,
    StoreReadOnly,
)
from umi_common.protocols import Probe
from umi_common.retriever import DualRetriever
from umi_common.sim import FaultyEmbedder, HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.qdrant import QdrantStore
from umi_common.types import Chunk


@pytest.fixture
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as opened:
        opened.add(chunks())
        yield opened


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Chunk("a", " \n"), "'a'.*empty"),
        (lambda: Chunk("", "text"), "non-empty"),
        (lambda: Chunk("a", "text", metadata={"k": {"nested": 1}}), "'k'"),
        (lambda: Chunk("a", "text", metadata={1: "x"}), "metadata key"),
        (lambda: Chunk("a", "text", event_time=datetime(2024, 1, 1)), "time zone"),
    ],
)
def test_a_bad_chunk_is_named(make, said):
    with pytest.raises(InvalidChunk, match=said):
        make()


@pytest.mark.parametrize("given", [Chunk("a", "text"), {"id": "a", "text": "text"}, "text", None, 7])
def test_one_chunk_in_place_of_a_list_says_what_to_pass(store, given):
    for on_invalid in ("raise", "skip"):
        with pytest.raises(InvalidChunk, match=r"expected a list of umi_common\.Chunk"):
            store.add(given, on_invalid=on_invalid)


@pytest.mark.parametrize("on_invalid", ["raise", "skip"])
def test_a_data_frame_is_refused_with_the_code_that_makes_chunks_of_its_rows(store, on_invalid):
    table = pandas.DataFrame({"id": [1, 2], "text": ["a red pear", "a blue plum"], "price": [3, 4]})
    with pytest.raises(InvalidChunk, match="DataFrame, a table, whose iteration gives columns and not rows") as caught:
        store.add(table, on_invalid=on_invalid)
    code = str(caught.value).partition("; give ")[2]
    report = store.add(eval(code, {"Chunk": Chunk, "table": table}), on_invalid=on_invalid)
    assert report.added == 2
    assert store.get(["2"]) == [Chunk("2", "a blue plum", metadata={"price": 4})]


def test_a_row_with_a_column_of_its_own_is_told_to_put_it_into_the_metadata(store):
    with pytest.raises(InvalidChunk, match=r"unknown key 'price'; .*put other values into metadata: \{'metadata'"):
        store.add([{"id": "a", "text": "a red pear", "price": 3}])
    with pytest.raises(InvalidChunk, match="unknown key 'page_content' and without 'text'"):
        store.add([{"id": "a", "page_content": "a red pear"}])


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("a red pear", r'Chunk\("an id", string\)'),
        (Document("a red pear"), "umi_langchain.UmiRetriever.from_documents takes LangChain Documents"),
        (TextNode(text="a red pear"), "umi_llamaindex.UmiRetriever.from_nodes takes LlamaIndex nodes"),
        (5, "a dict of its fields$"),
    ],
)
def test_an_item_that_the_store_does_not_take_names_the_interface_that_does(store, item, told):
    with pytest.raises(InvalidChunk, match=rf"item 0 is {type(item).__name__}; expected umi_common.Chunk .*{told}"):
        store.add([item])


@pytest.mark.parametrize("ids", ["t0", None, 5])
def test_one_id_in_place_of_a_list_is_not_read_letter_by_letter(store, ids, tmp_path):
    collection = chromadb.PersistentClient(str(tmp_path)).create_collection("ids")
    for each in (store, ChromaStore(collection, HashEmbedder())):
        for read in (each.get, each.vectors, partial(each.neighbours, reach=1)):
            with pytest.raises(InputError, match="expected a list of ids"):
                read(ids)
        with pytest.raises(InputError):
            each.delete(ids)
        assert each.get(iter(["no such id"])) == [None]


@pytest.mark.parametrize("id", [5, None, b"t0"])
def test_an_id_that_is_no_string_is_refused_in_place_of_finding_and_removing_nothing(store, id, tmp_path):
    collection = chromadb.PersistentClient(str(tmp_path)).create_collection("ids")
    qdrant = QdrantStore(QdrantClient(":memory:"), "ids", HashEmbedder())
    for each in (store, ChromaStore(collection, HashEmbedder()), qdrant):
        for call in (each.get, each.vectors, each.delete, partial(each.neighbours, reach=1)):
            with pytest.raises(InputError, match=r"id 1 is .*; expected str"):
                call(["no such id", id])


@pytest.mark.parametrize("reach", [-1, 1.5, "2", None, True])
def test_a_reach_or_a_number_of_results_that_is_none_is_refused(store, reach, tmp_path):
    collection = chromadb.PersistentClient(str(tmp_path)).create_collection("reach")
    qdrant = QdrantStore(QdrantClient(":memory:"), "reach", HashEmbedder())
    for each in (store, ChromaStore(collection, HashEmbedder()), qdrant):
        with pytest.raises(InvalidLimit, match=r"reach is .*; expected a whole number of at least 0"):
            each.neighbours(["t0"], reach=reach)
        with pytest.raises(InvalidLimit, match=r"limit is .*; expected a whole number of at least 1"):
            each.scan(limit=reach)
        with pytest.raises(InvalidLimit, match=r"depth is .*; expected a whole number of at least 1"):
            each.recall([Probe("boat")], depth=reach, now=NOW)
    with pytest.raises(InvalidLimit, match=r"k is .*; expected a whole number of at least 1"):
        store.search_lexical("red boat", k=reach)


def test_a_dict_in_place_of_settings_is_refused(store):
    for refused in (lambda: HybridStore.open(config={}), lambda: DualRetriever(store, config={"fusion": {}})):
        with pytest.raises(ConfigError, match=r"config is dict; expected UmiConfig"):
            refused()


def unchanged(store: HybridStore) -> bool:
    return store.ids() == ["t0", "t1", "t2", "t3", "t4"] and store.get(["t0"]) == [chunks()[0]]


@pytest.mark.parametrize(
    ("batch", "vectors", "error", "said"),
    [
        ([Chunk("a", "x"), Chunk("b", "y"), Chunk("a", "z")], None, DuplicateId, "'a'"),
        ([Chunk("a", "x"), {"id": "b"}], None, InvalidChunk, "item 1 is dict without 'text'"),
        ([Chunk("a", "x")], np.full((1, 64), np.nan), InvalidVector, "'a'"),
        ([Chunk("a", "x"), Chunk("b", "x")], np.diag([1.0, np.inf]) @ np.ones((2, 64)), InvalidVector, "NaN|'b'"),
        ([Chunk("a", "x")], np.ones((1, 63)), InvalidVector, r"\(1, 63\).*\(1, 64\)"),
        ([Chunk("a", "x")], np.ones((2, 64)), InvalidVector, r"\(2, 64\)"),
        ([Chunk("a", "x")], [["no", "numbers"]], InvalidVector, "numbers"),
        ([Chunk("a", "x")], 1e300 * np.ones((1, 64)), InvalidVector, "float32"),
        ([Chunk("a", "x")], [[10**400] * 64], InvalidVector, "numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(overflow|invalid value).*:RuntimeWarning")
def test_a_bad_batch_is_refused_whole(store, batch, vectors, error, said):
    with pytest.raises(error, match=said):
        store.add(batch, vectors=vectors)
    assert unchanged(store)


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("raises", EmbedderError, "down"),
        ("nan", EmbedderError, "NaN.*'n(256|512)'"),  # a slow machine's model gets both batches at the same time
        ("short", EmbedderError, "shape"),
        ("shape", ReindexRequired, "63 dimensions.*64"),
    ],
)
def test_an_embedder_that_fails_half_way_writes_nothing(store, fault, error, said):
    store._core.embedder = FaultyEmbedder(HashEmbedder(64), fail_on=2, fault=fault)
    with pytest.raises(error, match=said):
        store.add([Chunk(f"n{i}", f"text {i}") for i in range(600)])
    assert unchanged(store)


def test_the_first_vectors_have_the_dimension_that_the_embedder_states(tmp_path):
    class Misstated(HashEmbedder):
        def embed_documents(self, texts):
            return np.ones((len(texts), 65), np.float32)

    with HybridStore.open(tmp_path / "s", embedder=Misstated(64)) as store:
        with pytest.raises(EmbedderError, match="has dim 64 and returned 65 dimensions; nothing was stored"):
            store.add(chunks())
        assert not len(store)


def test_an_embedders_own_error_is_the_cause():
    class Broken(HashEmbedder):
        def embed_documents(self, texts):
            raise ConnectionError("no route")

    without_retries = UmiConfig().replaced(embedder={"retry_seconds": 0.0})
    with (
        HybridStore.open(embedder=Broken(64), config=without_retries) as store,
        pytest.raises(EmbedderError, match=r"'a'.*ConnectionError") as caught,
    ):
        store.add([Chunk("a", "x")])
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_ctrl_c_while_embedding_leaves_the_store_as_it_was(store):
    def interrupted(texts):
        raise KeyboardInterrupt

    store._core.embedder.embed_documents = interrupted
    with pytest.raises(KeyboardInterrupt):
        store.add([Chunk("a", "x")])
    assert unchanged(store)


def test_delete_wants_to_know_what(store):
    with pytest.raises(InputError, match="ids= or where="):
        store.delete()
    with pytest.raises(InputError, match="list"):
        store.delete("t0")
    with pytest.raises(FilterError):
        store.delete(where={})
    with pytest.raises(FilterError):
        store.delete(where={"user": {"$regex": "a"}})
    assert unchanged(store)


def test_a_query_vector_of_another_dimension_is_refused(store):
    with pytest.raises(InvalidVector, match="64"):
        store.recall([Probe("x", np.ones(3, dtype=np.float32))], depth=10, now=NOW)


@pytest.mark.parametrize("path", ["memory", Path("memory"), None])
def test_a_store_made_without_open_says_to_use_open(path):
    with pytest.raises(ConfigError, match=r"expected HybridStore\.open\(path\), which opens a store"):
        HybridStore(path)


@pytest.mark.parametrize("path", ["", "a\0b", b"folder", 5, "~no-such-user/s"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_path_that_was_lost_is_refused_and_does_not_open_the_current_directory(
    path, read_only, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="expected a directory's name"):
        HybridStore.open(path, embedder=HashEmbedder(), read_only=read_only)
    assert not list(tmp_path.iterdir())


def test_a_foreign_directory_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(NotAStore, match=r"letter\.txt"):
        HybridStore.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(NotAStore, match="is a file"):
        HybridStore.open(tmp_path / "letter.txt")
    with pytest.raises(StoreError, match="check its name"):
        HybridStore.open(tmp_path / ("x" * 5_000))


@pytest.mark.parametrize("name", ["umi.db_backup.zip", "searches.json.txt", "embeddings.db2"])
def test_a_directory_with_a_foreign_file_named_like_one_of_umi_is_left_alone(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(NotAStore, match=re.escape(name)):
        HybridStore.open(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("umi.db.new", "umi.db.new-journal", "embeddings.db-wal", "searches.json.new", "umi.lock"),
        *("umi.db-ingest", "umi.db-migration.json"),
    ],
)
def test_a_directory_with_what_a_killed_writer_left_before_the_ledger_becomes_a_store(tmp_path, name):
    (tmp_path / name).touch()
    with HybridStore.open(tmp_path, embedder=HashEmbedder(64)) as store:
        assert len(store) == 0


def test_a_store_that_lost_its_ledger_has_lost_it_although_the_system_added_a_file(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(64)) as store:
        store.add(chunks())
    (tmp_path / "umi.db").unlink()
    (tmp_path / ".DS_Store").touch()
    with pytest.raises(LedgerDamaged, match=r"has lost umi\.db; restore it from a copy"):
        HybridStore.open(tmp_path, embedder=HashEmbedder(64))


def test_another_programs_directory_with_a_folder_named_lexical_is_no_store(tmp_path):
    (tmp_path / "lexical").mkdir()
    (tmp_path / "setup.py").touch()
    with pytest.raises(NotAStore, match=r"setup\.py"):
        HybridStore.open(tmp_path)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_link_to_nothing_is_named(tmp_path, read_only):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(NotAStore, match=r"link is a link to .*gone, which does not exist"):
        HybridStore.open(link, read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder_in_place_of_the_ledger_is_named(tmp_path, read_only):
    (tmp_path / "umi.db").mkdir()
    with pytest.raises(NotAStore, match=r"umi\.db is a directory; give umi a directory of its own"):
        HybridStore.open(tmp_path, read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_directory_that_may_not_be_entered_has_not_lost_its_ledger(tmp_path, monkeypatch, read_only):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(64)) as made:
        made.add(chunks())
    stat = Path.stat

    def refused(path: Path, **options):
        if path.name == "umi.db":
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    def exists(path: Path) -> bool:  # as of Python 3.14: False for every error of the system
        try:
            path.stat()
        except OSError:
            return False
        return True

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refused)
        patch.setattr(Path, "exists", exists)
        with pytest.raises(StoreError, match=r"cannot be read \(Permission denied\); check its name and permissions"):
            HybridStore.open(tmp_path, embedder=HashEmbedder(64), read_only=read_only)
    with HybridStore.open(tmp_path, embedder=HashEmbedder(64)) as opened:
        assert len(opened) == len(chunks())


def test_a_foreign_database_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "umi.db") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    before = (tmp_path / "umi.db").read_bytes()
    with pytest.raises(NotAStore, match="another program"):
        HybridStore.open(tmp_path)
    assert (tmp_path / "umi.db").read_bytes() == before


def test_reading_what_is_not_there_makes_nothing(tmp_path):
    with pytest.raises(NotAStore, match="no store"):
        HybridStore.open(tmp_path / "s", read_only=True)
    assert not (tmp_path / "s").exists()
    with pytest.raises(ConfigError):
        HybridStore.open(read_only=True)


def test_a_store_of_another_embedder_is_refused_with_the_call_that_changes_it(tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(64)) as store:
        store.add(chunks())
    with pytest.raises(ReindexRequired, match=r"hash/64.*hash/32.*HybridStore\.reindex\(path, embedder="):
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder(32))
    with pytest.raises(ReindexRequired, match=r"HybridStore\.reindex\(path, config="):
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder(64), config=UmiConfig(analyzer={"language": "none"}))
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(64)) as store:
        assert len(store) == 5


def test_an_empty_store_may_change_its_embedder(tmp_path):
    HybridStore.open(tmp_path / "s", embedder=HashEmbedder(64)).close()
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(32)) as store:
        store.add(chunks())
        assert store.status().dimension == 32


def test_the_analyzer_of_the_store_is_kept_when_none_is_given(tmp_path):
    german = UmiConfig(analyzer={"language": "german"})
    HybridStore.open(tmp_path / "s", embedder=HashEmbedder(), config=german).close()
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        assert store.config.analyzer.language == "german"


def test_a_newer_format_is_refused(tmp_path):
    HybridStore.open(tmp_path / "s", embedder=HashEmbedder()).close()
    with sqlite3.connect(tmp_path / "s" / "umi.db") as ledger:
        ledger.execute("PRAGMA user_version = 99")
    ledger.close()
    with pytest.raises(StoreError, match=r"99.*upgrade"):
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder())


def test_a_lost_ledger_is_told_from_an_empty_directory(tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        store.add(chunks())
    (tmp_path / "s" / "umi.db").unlink()
    with pytest.raises(LedgerDamaged, match="lost"):
        HybridStore.open(tmp_path / "s", embedder=HashEmbedder())


def test_a_reader_writes_nothing(tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        store.add(chunks())
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(), read_only=True) as reader:
        for write in (
            lambda: reader.add([Chunk("a", "x")]),
            lambda: reader.delete(["t0"]),
            reader.rebuild,
            reader.compact,
        ):
            with pytest.raises(StoreReadOnly):
                write()
        assert "t0" in search(reader, "red boat").ids


@pytest.mark.parametrize("config", [None, {"fusion": {}}])
def test_settings_that_are_no_settings_are_refused(store, config):
    before = store.config
    with pytest.raises(ConfigError, match=f"config is {type(config).__name__}; expected UmiConfig"):
        store.reconfigure(config)
    assert store.config is before


@pytest.mark.parametrize("seconds", [None, "2", 0])
def test_a_chroma_store_says_what_its_seconds_must_be(seconds, tmp_path):
    collection = chromadb.PersistentClient(str(tmp_path)).create_collection("seconds")
    with pytest.raises(InputError, match="expected a number above 0"):
        ChromaStore(collection, HashEmbedder(64), sync_seconds=seconds)


def test_a_chroma_store_refuses_settings_that_are_a_dict(tmp_path):
    collection = chromadb.PersistentClient(str(tmp_path)).create_collection("settings")
    with pytest.raises(ConfigError, match="config is dict; expected UmiConfig"):
        ChromaStore(collection, HashEmbedder(64), config={"fusion": {}})


def test_the_name_that_sqlite_has_for_memory_is_refused_with_the_way_to_a_store_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (":memory:", Path(":memory:")):
        with pytest.raises(ConfigError, match=r"path is ':memory:'; leave it out for a store in memory: HybridStore"):
            HybridStore.open(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path", ["s3://bucket/notes", "sqlite:///notes.db", "file:///notes", Path("s3://bucket/notes")]
)
def test_a_url_is_refused_instead_of_becoming_a_folder_of_this_name(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"a URL; expected a directory's name on this machine"):
        HybridStore.open(path)
    assert not list(tmp_path.iterdir())


def test_a_path_longer_than_sqlite_can_open_is_named_as_the_cause(tmp_path):
    folder = tmp_path.joinpath(*["x" * 100] * 6)
    folder.mkdir(parents=True)
    with pytest.raises(StoreError, match="no path longer than about 500 bytes"):
        HybridStore.open(folder / "store")


def test_a_folder_with_a_colon_in_its_name_is_no_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("notes: 2024", "./a:/b", tmp_path / "s3:" / "c"):
        HybridStore.open(path).close()


@pytest.mark.parametrize(
    "rows",
    [
        lambda table: [row for _, row in table.iterrows()],
        lambda table: table.iterrows(),
        lambda table: table.itertuples(),
        lambda table: table.itertuples(index=False),
    ],
    ids=["Series", "iterrows", "itertuples", "itertuples without index"],
)
def test_rows_of_a_table_are_refused_with_the_way_to_make_chunks_of_them(rows):
    table = pandas.DataFrame({"id": ["a", "b"], "text": ["a boat", "a raft"], "price": [3, 4]})
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        with pytest.raises(InvalidChunk) as caught:
            store.add(rows(table))
        advice = str(caught.value).partition("make ")[2]
        store.add(eval(advice, {"Chunk": Chunk, "table": table}))
        assert store.get(["b"]) == [Chunk("b", "a raft", metadata={"price": 4})]


@pytest.mark.parametrize("pair", [("a", "a boat"), ["a", "a boat"]])
def test_an_id_and_a_text_without_a_chunk_are_refused_with_the_way_to_make_one(pair):
    told = r"item 0 is (tuple|list); .*; of a pair make Chunk\(id, text\)"
    with HybridStore.open(embedder=HashEmbedder(64)) as store, pytest.raises(InvalidChunk, match=told):
        store.add([pair])
