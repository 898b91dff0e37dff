"""ChromaStore over a user's own collection: writes of others are found, and failures are reported."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timezone

import chromadb
import numpy as np
import pytest
from chroma_server import ChromaServer
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from umi_common import DualRetriever, HybridStore, UmiConfig
from umi_common.errors import (
    ConfigError,
    EmbedderError,
    InputError,
    InvalidChunk,
    PartlyWritten,
    ReindexRequired,
    SearchUnavailable,
    StoreClosed,
    StoreUnavailable,
)
from umi_common.filters import parse_filter
from umi_common.frameworks.records import PlaceKeys
from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.chroma import store as store_module
from umi_common.stores.chroma.collection import ChromaCollection, Record
from umi_common.stores.chroma.following import Follower
from umi_common.stores.chroma.records import KEY, chunk_of_record, reader
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.types import Chunk
from umi_langchain import UmiRetriever

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
DIM = 32
MODEL = HashEmbedder(DIM)
TEXTS = {
    "t0": "Priya started in accounting at Acme.",
    "t1": "The roofers want nine thousand.",
    "t2": "Luna is a grey cat.",
    "t3": "The boiler leaks again.",
}


class HashEmbeddings(Embeddings):
    """LangChain's view of the same model."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return MODEL.embed_documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class Reversed(HashEmbedder):
    """Another model of the same dimension."""

    def embed_documents(self, texts):
        return super().embed_documents([text[::-1] for text in texts])


class Broken(HashEmbedder):
    """An embedder that fails at its first text."""

    def embed_documents(self, texts):
        raise RuntimeError("no such model")


@pytest.fixture
def client(tmp_path):
    return chromadb.PersistentClient(str(tmp_path / "chroma"))


@pytest.fixture
def collection(client):
    made = client.create_collection("notes")
    write(made, TEXTS)
    return made


def write(collection, texts, metadatas=None):
    vectors = MODEL.embed_documents(list(texts.values()))
    collection.upsert(ids=list(texts), documents=list(texts.values()), embeddings=vectors, metadatas=metadatas)


def found(store, query, **options):
    with DualRetriever(store) as umi:
        return umi.search(query, now=NOW, **options).ids


def by_words(store, query, **options):
    pool = store.recall([Probe(query)], depth=5, now=NOW, strategy="text", **options)
    return {id for id, rank in zip(pool.ids, pool.lexical_rank[0], strict=True) if rank}


@pytest.fixture
def chroma(tmp_path):
    vectorstore = Chroma(embedding_function=HashEmbeddings(), persist_directory=str(tmp_path / "langchain"))
    vectorstore.add_texts(list(TEXTS.values()), ids=list(TEXTS))
    return vectorstore


def test_a_text_that_langchain_adds_is_found_by_the_next_search(chroma):
    retriever = UmiRetriever.from_vectorstore(chroma, k=2)
    assert retriever.invoke("roofers")[0].id == "t1"
    chroma.add_texts(["The plumber comes on Friday."], ids=["new"])
    assert retriever.invoke("plumber")[0].id == "new"
    chroma.delete(["new"])
    assert "new" not in {document.id for document in retriever.invoke("plumber")}
    retriever.close()
    assert chroma.get(["t1"])["ids"] == ["t1"]


def test_a_text_that_the_same_langchain_store_replaces_is_found_by_the_next_search(chroma):
    with ChromaStore(chroma, MODEL, sync_seconds=1_000) as store:
        assert by_words(store, "roofers") == {"t1"}
        chroma.update_document("t1", Document(page_content="Snow fell.", metadata={"season": "winter"}))
        assert by_words(store, "snow") == {"t1"} and not by_words(store, "roofers")
        assert by_words(store, "snow", where=parse_filter({"season": "winter"})) == {"t1"}


def test_a_text_that_takes_the_place_of_a_deleted_one_is_found_by_the_next_search(chroma):
    with ChromaStore(chroma, MODEL, sync_seconds=1_000) as store:
        assert by_words(store, "roofers") == {"t1"}
        chroma.delete(["t1"])
        chroma.add_texts(["Snow fell."], ids=["t9"])
        assert by_words(store, "snow") == {"t9"} and not by_words(store, "roofers")


@pytest.mark.parametrize("saved", [False, True])
def test_a_search_that_is_interrupted_while_it_reads_new_records_costs_none_of_them(
    client, collection, tmp_path, monkeypatch, saved
):
    directory = tmp_path / "side" if saved else None
    with ChromaStore(collection, MODEL, directory, sync_seconds=1_000) as store:
        assert by_words(store, "roofers") == {"t1"}
        write(client.get_collection("notes"), {"t1": "Hail fell.", "t9": "Snow fell."})  # by another object
        with monkeypatch.context() as patch:
            patch.setattr(LexicalIndex, "update", interrupted)
            with pytest.raises(KeyboardInterrupt):
                by_words(store, "snow")
        store.save()
        assert by_words(store, "snow") == {"t9"} and by_words(store, "hail") == {"t1"}
        write(collection, {"t1": "The roofers want nine thousand."})
        assert by_words(store, "roofers") == {"t1"} and found(store, "boiler")[0] == "t3"


def interrupted(*arguments, **named):
    raise KeyboardInterrupt


def test_a_text_that_is_deleted_by_a_filter_is_gone_from_the_next_search(collection):
    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        write(collection, {"t9": "Snow fell."}, [{"season": "winter"}])
        assert by_words(store, "snow") == {"t9"}
        collection.delete(where={"season": "winter"})
        assert not by_words(store, "snow")


def test_a_write_that_chroma_refuses_raises_chromas_own_error(client, collection):
    with ChromaStore(collection, MODEL):
        ids, plain = np.array(["t1", "t2"]), client.get_collection("notes")
        errors = []
        for each in (plain, collection):
            with pytest.raises(Exception) as caught:
                each.update(ids, documents="one text for two ids")
            errors.append(repr(caught.value))
        assert errors[0] == errors[1]


def test_a_vector_that_is_replaced_under_the_same_text_is_used_by_the_next_search(collection):
    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        probe = Probe("Luna is a grey cat.")
        assert store.recall([probe], depth=5, now=NOW).dense[0].max() == pytest.approx(1.0)
        collection.update("t2", embeddings=-MODEL.embed_documents(["Luna is a grey cat."]))
        assert store.recall([probe], depth=5, now=NOW).dense[0].min() == pytest.approx(-1.0)


def test_two_stores_over_one_collection_both_hear_of_a_write_and_a_closed_one_does_not(collection):
    with ChromaStore(collection, MODEL, sync_seconds=1_000) as one:
        two = ChromaStore(collection, MODEL, sync_seconds=1_000)
        write(collection, {"t1": "Snow fell."})
        assert by_words(one, "snow") == by_words(two, "snow") == {"t1"}
        two.close()
        write(collection, {"t1": "Rain fell."})
        assert by_words(one, "rain") == {"t1"}


def test_a_text_that_another_object_replaces_is_found_within_the_stated_bound(client, collection):
    store = ChromaStore(collection, MODEL, sync_seconds=0.05)
    assert by_words(store, "roofers") == {"t1"}
    write(client.get_collection("notes"), {"t1": "Snow fell."})
    time.sleep(store.status().bound_seconds)
    assert by_words(store, "snow") == {"t1"} and not by_words(store, "roofers")
    store.close()


def test_a_langchain_store_that_is_reset_is_followed(chroma):
    store = ChromaStore(chroma, MODEL)
    assert len(store) == len(TEXTS)
    chroma.reset_collection()
    chroma.add_texts(["Only this one."], ids=["only"])
    assert found(store, "this") == ["only"]
    store.close()


def test_writes_through_umi_are_in_the_collection_and_found_at_once(collection):
    with ChromaStore(collection, MODEL) as store:
        store.add([Chunk("new", "The plumber comes on Friday.", metadata={"by": "ann"}, source="chat", position=7)])
        assert collection.get(["new"])["documents"] == ["The plumber comes on Friday."]
        assert collection.get(["new"], where={"by": "ann"})["ids"] == ["new"]
        assert found(store, "plumber")[0] == "new"
        assert store.get(["new"])[0].position == 7
        store.add([Chunk("new", "The painter comes.")])
        assert "by" not in (collection.get(["new"])["metadatas"][0] or {})
        assert store.delete(["new"]) == 1
        assert collection.get(["new"])["ids"] == []


def test_what_another_client_writes_is_found(tmp_path):
    with ChromaServer(tmp_path / "server") as server:
        mine = server.collection()
        write(mine, TEXTS)
        with ChromaStore(mine, MODEL, sync_seconds=0.05) as store:
            assert found(store, "cat")[0] == "t2"
            theirs = server.client().get_collection(mine.name)
            write(theirs, {"t9": "A yellow submarine."})
            end = time.monotonic() + 60  # on a busy machine the count is slow, and is not made by every search
            while found(store, "submarine")[0] != "t9":
                assert time.monotonic() < end
            write(theirs, {"t2": "Luna is a black dog."})
            store.sync()
            assert by_words(store, "dog") == {"t2"} and not by_words(store, "cat")


def test_words_answer_while_the_server_is_down_and_say_so(tmp_path, monkeypatch):
    # On a busy machine a count is slow, and the search after it does not count.
    monkeypatch.setattr("umi_common.stores.chroma.following.SLOW_COUNT_SECONDS", 60.0)
    with ChromaServer(tmp_path / "server") as server:
        mine = server.collection()
        write(mine, TEXTS)
        store = ChromaStore(mine, MODEL)
        umi = DualRetriever(store)
        assert not umi.search("roofers").degraded
        server.stop()
        result = umi.search("roofers")
        assert result.ids[0] == "t1" and [loss.part for loss in result.degraded] == ["chroma"]
        with pytest.raises(SearchUnavailable, match="Chroma failed"):
            umi.search("roofers", strategy="vector")
        with pytest.raises(StoreUnavailable, match="Chroma failed at"):
            store.add([Chunk("new", "one")])
        server.start()
        assert not umi.search("roofers").degraded
        umi.close()
        store.close()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="a process cannot be stopped here")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_words_answer_while_the_server_hangs_and_only_the_first_search_waits_for_it(tmp_path, asynchronous):
    with ChromaServer(tmp_path / "server") as server:
        mine = server.collection()
        write(mine, TEXTS)
        if asynchronous:
            mine = asyncio.run(_async_collection(server.port, mine.name))
        with ChromaStore(mine, MODEL) as store, DualRetriever(store) as umi:
            assert not umi.search("roofers").degraded
            server.hang()
            for seconds, reason in [(25.0, "did not answer in time"), (5.0, "left alone for 10 s")]:
                begun = time.monotonic()
                result = umi.search("roofers")
                assert time.monotonic() - begun < seconds
                assert result.ids[0] == "t1" and [loss.part for loss in result.degraded] == ["chroma"]
                assert reason in result.degraded[0].reason
            with pytest.raises(StoreUnavailable, match="left alone"):
                store.add([Chunk("new", "one")])
            server.answer()
            end = time.monotonic() + 30
            while umi.search("roofers").degraded and time.monotonic() < end:
                time.sleep(0.2)
            assert umi.search("roofers").mode == "hybrid" and not umi.search("roofers").degraded


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="a process cannot be stopped here")
def test_a_write_that_the_server_does_not_answer_ends_and_is_found_when_it_is_done_later(tmp_path, monkeypatch):
    monkeypatch.setattr("umi_common.stores.chroma.collection.WRITE_SECONDS", 1.0)
    monkeypatch.setattr("umi_common.stores.chroma.collection.PAUSE_SECONDS", 0.5)
    with ChromaServer(tmp_path / "server") as server:
        mine = server.collection()
        write(mine, TEXTS)
        upsert = mine.upsert

        def stopped(**arguments):
            server.hang()
            upsert(**arguments)

        mine.upsert = stopped
        with ChromaStore(mine, MODEL, sync_seconds=1_000) as store:
            with pytest.raises(PartlyWritten):
                store.add([Chunk("new", "The plumber comes on Friday.")])
            server.answer()
            mine.upsert = upsert
            end = time.monotonic() + 30
            while by_words(store, "plumber") != {"new"} and time.monotonic() < end:
                time.sleep(0.2)
            assert by_words(store, "plumber") == {"new"}


def test_a_collection_of_an_asynchronous_client_is_imported(tmp_path):
    with ChromaServer(tmp_path / "server") as server:
        mine = server.collection()
        write(mine, TEXTS)
        theirs = asyncio.run(_async_collection(server.port, mine.name))
        with HybridStore.open(embedder=MODEL) as store:
            assert store.import_collection(theirs).chunks == len(TEXTS)
            assert not store.drift(theirs)
            mine.delete(["t1"])
            assert store.drift(theirs).extra == ("t1",)


async def _async_collection(port, name):
    client = await chromadb.AsyncHttpClient("127.0.0.1", port)
    return await client.get_collection(name)


def test_a_collection_that_was_deleted_is_an_error_that_says_so(client, collection):
    store = ChromaStore(collection, MODEL)
    client.delete_collection("notes")
    with pytest.raises(StoreUnavailable, match="it was deleted"):
        len(store)
    store.close()


WRITER = """
import sys, chromadb
collection = chromadb.PersistentClient(sys.argv[1]).get_collection("notes")
collection.add(ids=["new"], documents=["The plumber comes."], embeddings=[[1.0] * int(sys.argv[2])])
"""


def test_a_folder_that_another_process_writes_is_named_as_the_reason_of_lost_vectors(tmp_path, collection):
    with ChromaStore(collection, MODEL) as store, DualRetriever(store) as umi:
        assert not umi.search("cat").degraded
        subprocess.run([sys.executable, "-c", WRITER, str(tmp_path / "chroma"), str(DIM)], check=True)
        result = umi.search("plumber")
        assert result.ids[0] == "new"
        assert "another process has written to its folder" in result.degraded[0].reason


@pytest.mark.parametrize(
    "message",
    [
        "error returned from database: (code: 13) database or disk is full",
        "Error in compaction: Failed to apply logs to the hnsw segment writer",
    ],
)
def test_a_write_to_a_full_disk_says_that_the_disk_is_full_and_the_call_completes_it_later(collection, message):
    upsert = collection.upsert

    def refused(**arguments):
        raise RuntimeError(message)

    with ChromaStore(collection, MODEL) as store:
        collection.upsert = refused
        with pytest.raises(PartlyWritten, match=r"check whether their disk is full.*call add\(\) again"):
            store.add([Chunk("new", "The plumber comes on Friday.")])
        collection.upsert = upsert
        store.add([Chunk("new", "The plumber comes on Friday.")])
        assert by_words(store, "plumber") == {"new"}


def test_a_collection_that_is_renamed_goes_on(collection):
    with ChromaStore(collection, MODEL) as store:
        collection.modify(name="renamed")
        assert found(store, "cat")[0] == "t2"
        assert store.status().collection == "renamed"


@pytest.mark.parametrize(
    "where", [{"n": {"$gte": 2_950}}, {"n": {"$gt": 400}, "kind": {"$ne": "b"}}, {"name": {"$gt": "n2"}}]
)
def test_a_filter_is_exact_in_both_arms_whether_chroma_can_say_it_or_not(client, where):
    size = 3_000
    made = client.create_collection("many")
    texts = {f"c{n:04}": f"boat number {n}" for n in range(size)}
    metadatas = [{"n": n, "kind": "ab"[n % 2], "name": f"n{n}"} for n in range(size)]
    write(made, texts, metadatas)
    with ChromaStore(made, MODEL) as store:
        tree = parse_filter(where)
        may = {id for id, metadata in zip(texts, metadatas, strict=True) if passes(where, metadata)}
        pool = store.recall([Probe("boat number")], depth=40, now=NOW, where=tree)
        assert set(pool.ids) <= may
        assert pool.lexical_rank.max() == pool.dense_rank.max() == min(40, len(may))


def passes(where, metadata):
    from umi_common.filters import matches

    return matches(parse_filter(where), metadata)


def test_a_record_that_no_longer_passes_the_filter_is_not_shown(collection):
    write(collection, TEXTS, [{"user": "ann"}] * len(TEXTS))
    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        assert "t2" in found(store, "cat", where={"user": "ann"})
        collection.update(ids=["t2"], metadatas=[{"user": "bob"}])
        assert "t2" not in found(store, "cat", where={"user": "ann"})


def test_a_hit_never_has_the_text_of_one_version_with_the_lists_of_the_next(collection, monkeypatch):
    write(collection, {"t1": "Bob paid the roofers."}, [{"readers": ["bob", "eve"]}])
    read, answers = collection.get, []

    def interrupted(**arguments):  # as Chroma answers if Ann's record becomes Bob's while it is read
        answer = read(**arguments)
        if "documents" in arguments["include"]:
            answers.append(answer)
            if len(answers) == 1:
                return {**answer, "documents": ["Ann hides the money under the roof."]}
        return answer

    with ChromaStore(collection, MODEL) as store, DualRetriever(store) as umi:
        monkeypatch.setattr(collection, "get", interrupted)
        hits = umi.search("roofers", where={"readers": {"$contains": "bob"}}).hits
    assert [hit.chunk.text for hit in hits] == ["Bob paid the roofers."]
    assert len(answers) == 3  # two that differ, and one equal to the second


def test_a_chunk_written_while_another_program_writes_its_record_gets_none_of_the_others_keys(
    client, collection, monkeypatch
):
    mine, upsert = Chunk("t1", "Ann hides the money under the roof.", metadata={"readers": ["ann"]}), collection.upsert

    def late(**arguments):  # Bob's program writes after umi has read the old record, and before umi writes
        monkeypatch.setattr(collection, "upsert", upsert)
        other = client.get_collection("notes", embedding_function=None)
        write(other, {"t1": "Bob paid the roofers."}, [{"readers": ["bob"], "user": "bob"}])
        return upsert(**arguments)

    with ChromaStore(collection, MODEL) as store:
        monkeypatch.setattr(collection, "upsert", late)
        store.add([mine])
        assert store.get(["t1"]) == [mine]
        assert found(store, "roof", where={"readers": {"$contains": "bob"}}) == []


def test_a_record_that_is_renewed_while_expired_ones_are_deleted_stays(client, collection, monkeypatch):
    write(collection, {"t0": TEXTS["t0"], "t1": TEXTS["t1"]}, [{"expires": 1}, {"expires": 2}])
    delete, other = collection.delete, client.get_collection("notes", embedding_function=None)

    def late(**arguments):  # another program renews it after its expiry was read
        other.update(ids=["t0"], metadatas=[{"expires": 9}])
        return delete(**arguments)

    with ChromaStore(collection, MODEL) as store:
        monkeypatch.setattr(collection, "delete", late)
        assert store.delete(where={"expires": {"$lte": 3}}) == 1
        assert store.get(["t0", "t1"])[1] is None
        assert found(store, "accounting", where={"expires": 9}) == ["t0"]


def test_vectors_of_another_model_are_refused_with_the_fix(collection):
    with pytest.raises(ReindexRequired, match=r"not made by embedder.*ChromaStore\(collection, embedder=\.\.\.\)"):
        ChromaStore(collection, Reversed(DIM))
    with pytest.raises(ReindexRequired, match="32 dimensions"):
        ChromaStore(collection, HashEmbedder(DIM + 1))


def test_records_without_a_text_are_skipped_and_listed_until_they_have_one(collection):
    collection.add(ids=["null"], embeddings=MODEL.embed_documents(["a"]), documents=None)
    collection.add(ids=["blank"], embeddings=MODEL.embed_documents(["a"]), documents=["   "])
    with ChromaStore(collection, MODEL, sync_seconds=0.01) as store:
        assert store.status().skipped == ("blank", "null")
        assert len(store) == len(TEXTS) and store.get(["null"]) == [None]
        write(collection, {"null": "A text at last."})
        time.sleep(0.05)
        assert found(store, "text")[0] == "null"
        assert store.status().skipped == ("blank",)


def test_a_collection_of_vectors_without_texts_says_so_when_it_is_opened(client, caplog):
    vectors_alone = client.create_collection("vectors", embedding_function=None)
    vectors_alone.add(ids=["v0", "v1"], embeddings=MODEL.embed_documents(["one", "two"]))
    chroma = Chroma(client=client, collection_name="vectors", embedding_function=HashEmbeddings())
    with UmiRetriever.from_vectorstore(chroma) as retriever:
        assert retriever.invoke("one") == []
    assert "2 of 2 records of collection 'vectors' are not searched" in caplog.text
    assert "v0, v1" in caplog.text


def test_the_status_says_how_far_behind(collection):
    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        assert store.status().behind == 0
        write(collection, {"a": "one more", "b": "and another"})
        assert store.status().behind == 2
        len(store)
        assert (store.status().behind, store.status().chunks) == (0, len(TEXTS) + 2)


@pytest.mark.parametrize("method", ["search", "score"])
def test_vectors_answer_while_the_lexical_index_fails_and_say_so(collection, monkeypatch, method):
    def broken(*_: object, **__: object) -> None:
        raise KeyError("broken for the test")

    monkeypatch.setattr(LexicalIndex, method, broken)
    with ChromaStore(collection, MODEL) as store, DualRetriever(store) as umi:
        result = umi.search(TEXTS["t1"], now=NOW)
        assert result.ids[0] == "t1" and result.mode == "vector"
        assert [loss.part for loss in result.degraded] == ["lexical"]
        with pytest.raises(SearchUnavailable, match="lexical: KeyError"):
            umi.search(TEXTS["t1"], now=NOW, strategy="text")
        collection.delete(list(TEXTS))
        assert umi.search(TEXTS["t1"], now=NOW).ids == []


def test_an_index_in_a_directory_is_opened_again_and_brought_up(collection, tmp_path):
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        store.add([Chunk("x", "one", source="s", position=2), Chunk("y", "two", source="s", position=1)])
        before = store.recall([Probe("roofers want one")], depth=5, now=NOW, around=1)
    collection.delete(["t0"])
    write(collection, {"t8": "The plumber comes."})
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        assert found(store, "plumber")[0] == "t8" and store.get(["t0"]) == [None]
        collection.delete(["t8"])
        write(collection, {"t0": TEXTS["t0"]})
        assert store.status().behind == 0  # one went and one came
        store.sync()
        after = store.recall([Probe("roofers want one")], depth=5, now=NOW, around=1)
    assert after.ids == before.ids
    assert after.lexical.tolist() == before.lexical.tolist() and after.dense.tolist() == before.dense.tolist()


@pytest.mark.parametrize("harm", [b"", b"nonsense", None])
def test_a_damaged_index_is_made_anew(collection, tmp_path, harm):
    ChromaStore(collection, MODEL, tmp_path / "beside").close()
    file = next((tmp_path / "beside" / "lexical").iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if harm is None else harm)
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        assert found(store, "cat")[0] == "t2"


def test_an_index_of_another_collection_is_not_used(client, collection, tmp_path):
    ChromaStore(collection, MODEL, tmp_path / "beside").close()
    other = client.create_collection("other")
    write(other, {"o": "Something else."})
    with ChromaStore(other, MODEL, tmp_path / "beside") as store:
        assert store.ids() == ["o"]


def test_what_is_no_collection_is_refused():
    with pytest.raises(ConfigError, match="expected a Chroma collection"):
        ChromaStore(object(), MODEL)
    with pytest.raises(InputError, match="sync_seconds"):
        ChromaStore(object(), MODEL, sync_seconds=0)


async def test_a_collection_of_an_asynchronous_client_is_searched_while_its_loop_goes_on(tmp_path):
    with ChromaServer(tmp_path / "server") as server:
        client = await chromadb.AsyncHttpClient("127.0.0.1", server.port)
        collection = await client.create_collection("notes")
        vectors = MODEL.embed_documents(list(TEXTS.values()))
        await collection.add(ids=list(TEXTS), documents=list(TEXTS.values()), embeddings=vectors)
        store = await asyncio.to_thread(ChromaStore, collection, MODEL, sync_seconds=1_000)
        umi = DualRetriever(store)
        assert (await umi.asearch("roofers", now=NOW)).ids[0] == "t1"
        assert umi.search("roofers", now=NOW).ids[0] == "t1"  # a blocking call from inside the loop, too
        await collection.update("t1", documents="Snow fell.", embeddings=MODEL.embed_documents(["Snow fell."]))
        assert (await umi.asearch("snow", now=NOW)).ids[0] == "t1"
        store.add([Chunk("new", "The plumber comes on Friday.")])
        assert await collection.count() == len(TEXTS) + 1
        umi.close()
        store.close()


def test_a_closed_store_says_so(collection):
    store = ChromaStore(collection, MODEL)
    store.close()
    for call in (
        lambda: len(store),
        lambda: store.get(["t0"]),
        lambda: store.recall([Probe("x")], depth=1, now=NOW),
        store.status,
        store.save,
        lambda: store.last_read(["t0"]),
    ):
        with pytest.raises(StoreClosed):
            call()


def test_more_records_than_chroma_takes_in_one_call_are_written(client):
    most = client.get_max_batch_size()
    made = client.create_collection("many")
    with ChromaStore(made, MODEL) as store:
        store.add([Chunk(f"c{n}", f"text {n}") for n in range(most + 10)])
        assert len(store) == made.count() == most + 10


def test_records_stand_in_the_order_in_which_they_came_where_they_name_a_source_alone(chroma):
    chroma.add_texts([f"part {n}" for n in range(4)], [{"source": "book"}] * 4, ids=[f"p{n}" for n in range(4)])
    with ChromaStore(chroma, MODEL) as store:
        assert [chunk.id for chunk in store.neighbours(["p1"], reach=1)["p1"]] == ["p0", "p1", "p2"]
        assert [chunk.position for chunk in store.get(["p0", "p3"])] == [0, 3]


async def test_a_store_over_an_asynchronous_client_that_cannot_be_opened_leaves_no_thread(tmp_path):
    def threads():
        return {thread for thread in threading.enumerate() if thread.name == "umi-chroma"}

    with ChromaServer(tmp_path / "server") as server:
        client = await chromadb.AsyncHttpClient("127.0.0.1", server.port)
        collection = await client.create_collection("notes")
        vectors = MODEL.embed_documents(list(TEXTS.values()))
        await collection.add(ids=list(TEXTS), documents=list(TEXTS.values()), embeddings=vectors)
        with pytest.raises(ReindexRequired):
            await asyncio.to_thread(ChromaStore, collection, Reversed(DIM))
        assert not threads()
        with pytest.raises(EmbedderError):
            await asyncio.to_thread(ChromaStore, collection, Broken(DIM))
        assert not threads()
        store = await asyncio.to_thread(ChromaStore, collection, MODEL)
        await asyncio.to_thread(store.close)
        await asyncio.to_thread(store.close)
        assert not threads()
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(ChromaStore, collection, MODEL)
    assert not threads()


class Failing:
    """A collection whose reads of records by id fail once `gone` is set: a server that stops in mid-query."""

    gone = False

    def __init__(self, collection):
        self.inner = collection

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def get(self, **arguments):
        if self.gone and "ids" in arguments:
            raise ConnectionError("gone")
        return self.inner.get(**arguments)


async def test_a_server_that_stops_between_the_search_and_the_reading_of_its_hits_costs_no_answer(collection):
    failing = Failing(collection)
    with ChromaStore(failing, MODEL) as store, DualRetriever(store) as umi:
        assert not umi.search("roofers", now=NOW).degraded
        failing.gone = True
        for result in (umi.search("roofers", now=NOW), await umi.asearch("roofers", now=NOW)):
            assert result.ids[0] == "t1" and [loss.part for loss in result.degraded] == ["chroma"]
        with pytest.raises(StoreUnavailable, match="Chroma failed at get"):
            store.get(["t1"])
        failing.gone = False
        assert not umi.search("roofers", now=NOW).degraded


def test_a_recall_calls_a_server_that_is_gone_once_and_states_one_loss(collection):
    class Gone:
        calls: Counter[str] | None = None

        def __getattr__(self, name):
            found = getattr(collection, name)
            if self.calls is None or not callable(found):
                return found

            def call(*args, **named):
                self.calls[name] += 1
                raise ConnectionError("gone")

            return call

    gone = Gone()
    with ChromaStore(gone, MODEL) as store:
        for strategy in ("hybrid", "text"):
            gone.calls = Counter()
            pool = store.recall([Probe("roofers")], depth=3, now=NOW, strategy=strategy)
            assert "t1" in pool.ids and [loss.part for loss in pool.degraded] == ["chroma"]
            assert gone.calls == {"count": 1}


def test_a_langchain_store_whose_collection_is_deleted_answers_by_words_and_says_so(chroma):
    store = ChromaStore(chroma, MODEL)
    with DualRetriever(store) as umi:
        assert not umi.search("roofers", now=NOW).degraded
        chroma.delete_collection()
        result = umi.search("roofers", now=NOW)
        assert result.ids and [loss.part for loss in result.degraded] == ["chroma"]
        with pytest.raises(StoreUnavailable, match="make another vector store"):
            store.add([Chunk("new", "one")])
        with pytest.raises(StoreUnavailable, match="make another vector store"):
            ChromaStore(chroma, MODEL)
    store.close()


def test_a_saved_index_is_not_used_for_other_keys_of_time_and_source(collection, tmp_path):
    collection.update(["t1", "t2"], metadatas=[{"written": "2020-01-01"}, {"written": "2024-02-02"}])
    ChromaStore(collection, MODEL, tmp_path / "beside").close()
    with ChromaStore(collection, MODEL, tmp_path / "beside", keys=PlaceKeys(time="written")) as store:
        assert found(store, "roofers or a cat", time_range=(datetime(2024, 1, 1, tzinfo=timezone.utc), None)) == ["t2"]


def test_true_that_becomes_1_is_another_value_for_reads_filters_and_writes(collection):
    collection.update(["t1", "t2"], metadatas=[{"paid": True}, {"paid": False}])
    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        assert store.get(["t1"])[0].metadata["paid"] is True
        collection.update("t1", metadatas={"paid": 1})
        assert store.get(["t1"])[0].metadata["paid"] is not True
        assert store.add([Chunk("t2", TEXTS["t2"], metadata={"paid": 0})]).added == 1
        assert set(found(store, "roofers or a cat", where={"paid": {"$in": [0, 1]}})) == {"t1", "t2"}


def test_a_value_that_chroma_lacks_is_replaced_by_one_that_it_has(collection):
    with ChromaStore(collection, MODEL) as store:
        store.add([Chunk("x", "A tagged text.", metadata={"tags": ["a", 1], "owner": None, "share": 0.5})])
        collection.update("x", metadatas={"tags": "none", "owner": 7, "share": True})
        assert found(store, "tagged")[0] == "x"
        assert store.get(["x"])[0].metadata == {"tags": "none", "owner": 7, "share": True}


def test_a_text_that_another_program_replaces_is_searched_and_not_the_search_text_of_the_old_one(collection):
    with ChromaStore(collection, MODEL) as store:
        store.add([Chunk("x", "Nine thousand.", search_text="What do the roofers want? Nine thousand.")])
        assert "x" in by_words(store, "roofers")
        write(collection, {"x": "Snow fell."})
        assert by_words(store, "snow") == {"x"} and by_words(store, "roofers") == {"t1"}
        assert store.get(["x"])[0].search_text is None


def test_a_time_that_another_program_changes_is_followed_also_beside_a_fraction(collection):
    march, may = (datetime(2024, month, 1, tzinfo=timezone.utc) for month in (3, 5))
    with ChromaStore(collection, MODEL) as store:
        store.add([Chunk("x", "A dated text.", metadata={"n": 0.5, "timestamp": may.isoformat()}, event_time=may)])
        collection.update("x", metadatas={"timestamp": march.isoformat()})
        assert found(store, "dated", time_range=(may, None)) == []
        assert found(store, "dated", time_range=(march, may)) == ["x"]


def test_a_source_position_or_time_that_another_program_writes_replaces_the_one_that_the_metadata_lacked(collection):
    march, may = (datetime(2024, month, 1, tzinfo=timezone.utc) for month in (3, 5))
    with ChromaStore(collection, MODEL) as store:
        store.add([Chunk("x", "A dated text.", source="chat", position=1, event_time=may)])
        store.add([Chunk("y", "Another dated text.", source="chat", position=2, event_time=may)])
        collection.update("x", metadatas={"timestamp": march.isoformat(), "owner": "Priya"})
        assert found(store, "dated", time_range=(march, may)) == ["x"]
        chunk = store.get(["x"])[0]
        assert (chunk.source, chunk.position, chunk.event_time) == ("chat", 1, march)
        assert [near.id for near in store.neighbours(["y"], reach=1)["y"]] == ["x", "y"]
        collection.update("x", metadatas={"source": "book", "position": 7})
        chunk = store.get(["x"])[0]
        assert (chunk.source, chunk.position, chunk.event_time) == ("book", 7, march)
        assert found(store, "dated", where={"source": "book"}) == ["x"]
        assert [near.id for near in store.neighbours(["y"], reach=1)["y"]] == ["y"]


@pytest.mark.parametrize("reopened", [False, True])
def test_a_fraction_that_another_program_removes_is_gone_from_hits_and_filters(collection, tmp_path, reopened):
    store = ChromaStore(collection, MODEL, tmp_path / "index")
    store.add([Chunk("x", "A shared text.", metadata={"share": 0.5, "owner": None, "page": 3, "_umi": 0.5})])
    assert found(store, "shared", where={"share": {"$gt": 0}}) == ["x"]
    collection.update("x", metadatas={"share": None, "page": None})
    if reopened:
        store.close()
        store = ChromaStore(collection, MODEL, tmp_path / "index")
    assert store.get(["x"])[0].metadata == {"owner": None, "_umi": 0.5}
    assert found(store, "shared", where={"share": {"$gt": 0}}) == []
    assert "x" in found(store, "shared", where={"share": {"$ne": 0.5}})
    store.close()


def test_a_record_of_an_older_version_gives_the_source_position_and_time_under_umis_key():
    own = '{"metadata": {"n": 0.5}, "source": "chat", "position": 3, "time": 1577836800000000}'
    chunk = chunk_of_record(Record("x", "A text.", {KEY: own, "n": 0.5, "source": "m"}), reader(PlaceKeys()))
    assert (chunk.source, chunk.position, chunk.metadata) == ("chat", 3, {"n": 0.5, "source": "m"})
    assert chunk.event_time == datetime(2020, 1, 1, tzinfo=timezone.utc)


def test_what_another_program_wrote_under_umis_key_makes_a_skipped_record_and_no_error(collection):
    with ChromaStore(collection, MODEL) as store:
        collection.update("t1", metadatas={"_umi": "hello"})
        assert "t1" not in found(store, "roofers or a cat") and store.status().skipped == ("t1",)
    collection.update("t0", metadatas={"_umi": '{"metadata": 5}'})
    with ChromaStore(collection, MODEL) as store:
        assert found(store, "cat")[0] == "t2" and store.status().skipped == ("t0", "t1")


@pytest.mark.parametrize("model", [HashEmbedder(DIM // 2), Reversed(DIM)])
def test_a_collection_that_gets_vectors_of_another_model_after_it_was_opened_says_so_each_time(client, model):
    made = client.create_collection("later")
    with ChromaStore(made, MODEL) as store:
        assert found(store, "roofers") == []
        made.add(ids=list(TEXTS), documents=list(TEXTS.values()), embeddings=model.embed_documents(TEXTS.values()))
        for _ in range(2):
            with pytest.raises(ReindexRequired, match=r"ChromaStore\(collection, embedder="):
                found(store, "roofers")


def test_a_langchain_store_that_is_reset_to_another_model_says_so_at_each_search(chroma):
    with ChromaStore(chroma, MODEL) as store:
        assert len(store) == len(TEXTS)
        chroma.reset_collection()
        chroma._collection.add(
            ids=["t1", "t2", "t3", "t4"],
            documents=["Snow fell."] * 4,
            embeddings=Reversed(DIM).embed_documents(["Snow fell."] * 4),
        )
        for _ in range(2):
            with pytest.raises(ReindexRequired, match="not made by embedder"):
                found(store, "snow")


def test_a_write_while_the_first_filter_after_reopening_reads_the_collection_is_found_by_filters(collection, tmp_path):
    ChromaStore(collection, MODEL, tmp_path / "beside").close()
    meddled = Meddled(collection)
    with ChromaStore(meddled, MODEL, tmp_path / "beside") as store:
        writer = threading.Thread(target=store.add, args=([Chunk("new", "The plumber.", metadata={"by": "ann"})],))
        meddled.before_reading = writer
        found(store, "plumber", where={"by": "ann"})
        writer.join()
        assert found(store, "plumber", where={"by": "ann"}) == ["new"]
        assert "new" not in found(store, "plumber", where={"by": {"$ne": "ann"}})


class Meddled:
    """A collection that starts a thread when all records are read, and gives it half a second."""

    before_reading = None

    def __init__(self, collection):
        self.inner = collection

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def get(self, **arguments):
        if self.before_reading is not None and len(arguments.get("ids", ())) == len(TEXTS):
            thread, self.before_reading = self.before_reading, None
            thread.start()
            thread.join(0.5)
        return self.inner.get(**arguments)


def test_a_record_that_is_gone_for_a_moment_has_its_vector_again_when_it_is_back(collection):
    absent = Absent(collection)
    with ChromaStore(absent, MODEL, sync_seconds=1_000) as store:
        absent.ids = {"t2"}
        assert not store.vectors(["t2"]).any()
        probe = Probe("Luna is a grey cat.")
        assert store.recall([probe], depth=5, now=NOW).dense.max() < 0.9
        absent.ids = set()
        assert store.recall([probe], depth=5, now=NOW).dense.max() == pytest.approx(1.0)


class Absent:
    """A collection that returns no vectors for some records, as while another program deletes and adds them again."""

    ids = frozenset()

    def __init__(self, collection):
        self.inner = collection

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def get(self, **arguments):
        if arguments.get("include") == ["embeddings"]:
            arguments["ids"] = [id for id in arguments["ids"] if id not in self.ids] or ["none"]
        return self.inner.get(**arguments)


def test_a_search_by_words_ranks_as_over_the_embedded_store(client):
    topics = ("roof repair", "grey cat", "late bus")
    chunks = [Chunk(f"m{n}", f"{topics[n % 7 % 3]} day {n}", source=f"chat{n % 2}", position=n // 2) for n in range(40)]
    with ChromaStore(client.create_collection("chats"), MODEL) as store, HybridStore.open(embedder=MODEL) as embedded:
        for each in (store, embedded):
            each.add(chunks)
        for settings in ({}, {"mmr": {"enabled": True}}):
            config = UmiConfig(**settings, references={"enabled": False})  # which ChromaStore does not look for
            live, copy = (
                DualRetriever(each, config=config).search("cat on day 12", strategy="text", now=NOW)
                for each in (store, embedded)
            )
            assert [(hit.chunk.id, hit.score) for hit in live.hits] == [(hit.chunk.id, hit.score) for hit in copy.hits]


def test_a_fraction_that_another_program_changes_a_little_is_another_fraction(collection):
    with ChromaStore(collection, MODEL) as store:
        store.add([Chunk("x", "A dated text.", metadata={"timestamp": 1714564800.5})])
        collection.update("x", metadatas={"timestamp": 1714564801.5})
        assert store.get(["x"])[0].metadata["timestamp"] == 1714564801.5


def test_nested_metadata_of_a_document_added_to_a_live_collection_comes_back_as_it_was(chroma):
    metadata = {"nest": {"a": [1, {"b": 2}]}, "tags": ["p", 1], "share": 0.5}
    with UmiRetriever.from_vectorstore(chroma, k=1) as retriever:
        retriever.add_documents([Document(id="x", page_content="A nested note.", metadata=metadata)])
        (found,) = retriever.invoke("nested")
        assert {key: found.metadata[key] for key in metadata} == metadata and "_umi_json" not in found.metadata
        chroma.update_document("x", Document(page_content="A flat note.", metadata={"nest": "none"}))
        assert retriever.invoke("flat", filter={"nest": "none"})[0].metadata["nest"] == "none"


def test_a_record_that_was_read_before_a_search_found_it_gets_its_position_all_the_same(client, collection):
    store = ChromaStore(collection, MODEL)
    ids, texts = ["n0", "n1"], ["The boiler leaks.", "The roof leaks."]
    client.get_collection(collection.name).add(
        ids=ids, documents=texts, metadatas=[{"source": "notes"}] * 2, embeddings=MODEL.embed_documents(texts)
    )
    assert [chunk.position for chunk in store.get(ids)] == [None, None]  # no search has indexed them yet
    assert len(store) == len(store.ids())
    assert [chunk.position for chunk in store.get(ids)] == [0, 1]


@pytest.mark.parametrize("reopened", [False, True])
def test_a_position_does_not_depend_on_how_often_the_records_before_it_were_edited(collection, tmp_path, reopened):
    """Neighbours are the records beside a hit, so a gap in the positions would hide them."""
    here = tmp_path / "index" if reopened else None

    def written(ids, **metadata):
        collection.upsert(
            ids=ids,
            documents=[f"note {id}" for id in ids],
            embeddings=MODEL.embed_documents([f"note {id}" for id in ids]),
            metadatas=[{"source": "notes", **metadata}] * len(ids),
        )

    written(["n0", "n1"])
    store = ChromaStore(collection, MODEL, directory=here)
    store.sync()
    for edit in range(3):
        written(["n1"], edit=edit)
        store.sync()
    if reopened:
        store.close()
        store = ChromaStore(collection, MODEL, directory=here)
        store.sync()
    written(["n2"])
    store.sync()
    assert [chunk.position for chunk in store.get(["n0", "n1", "n2"])] == [0, 1, 2]
    assert [chunk.id for chunk in store.neighbours(["n1"], reach=1)["n1"]] == ["n0", "n1", "n2"]
    store.close()


def test_metadata_that_cannot_be_read_is_named_and_not_the_json_that_umi_wrote_beside_it():
    record = Record("x", "A text.", {KEY: '{"metadata": {"owner": null}}', "timestamp": datetime(2024, 3, 1)})
    with pytest.raises(InvalidChunk, match=r"timestamp.*no time zone"):
        chunk_of_record(record, reader(PlaceKeys()))


@pytest.mark.parametrize(
    "own", ['{"metadata": {}, "source": 5}', '{"metadata": {"a": {}}}', '{"metadata": {}, "position": "x"}']
)
def test_a_wrong_field_under_umis_key_is_an_invalid_chunk(own):
    with pytest.raises(InvalidChunk):
        chunk_of_record(Record("x", "A text.", {KEY: own, "source": "s"}), reader(PlaceKeys()))


def test_the_index_of_records_that_are_replaced_again_and_again_stays_small(collection, monkeypatch):
    monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 10)
    rows, versions = [], []
    with ChromaStore(collection, MODEL) as store:
        for turn in range(40):
            if turn % 2:
                write(collection, {"t2": f"Luna is a grey cat, seen {turn} times."})  # another program
            else:
                store.add([Chunk("t2", f"Luna is a grey cat, seen {turn} times.")])
            assert found(store, f"cat seen {turn} times")[0] == "t2"
            listing = store.listing()
            rows.append(len(listing.passing))
            versions.append(max(listing.versions))
        assert len(store) == len(TEXTS) and store.get(["t2"])[0].text == "Luna is a grey cat, seen 39 times."
    assert max(rows) <= len(TEXTS) + 11
    assert versions == sorted(set(versions)), "no version is used twice"


def test_searches_go_on_while_one_makes_a_new_index_without_the_replaced_records(collection, monkeypatch):
    monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 0)
    with ChromaStore(collection, MODEL) as store:
        begun, end, begin = threading.Event(), threading.Event(), store._begin
        monkeypatch.setattr(store, "_begin", lambda: (begun.set(), end.wait(10), begin()))
        for turn in range(5):
            store.add([Chunk("t2", f"Luna is a grey cat, seen {turn} times.")])
        first = threading.Thread(target=lambda: found(store, "boiler"))
        first.start()
        assert begun.wait(10)
        assert found(store, "boiler")[0] == "t3"
        assert first.is_alive()
        end.set()
        first.join()
        assert len(store.listing().passing) == len(TEXTS)


def test_a_text_written_while_another_thread_makes_a_new_index_is_found_by_the_next_search(collection, monkeypatch):
    monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 0)
    read, end, searched = threading.Event(), threading.Event(), threading.Event()
    compare_ids, follow = Follower.compare_ids, Follower.follow

    def slow_reading(self: Follower) -> None:
        compare_ids(self)
        read.set()
        end.wait(10)

    def slow_following(self: Follower, **options: bool) -> None:
        if threading.current_thread() is first:
            searched.wait(10)
        follow(self, **options)

    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        for turn in range(5):
            store.add([Chunk("t2", f"Luna is a grey cat, seen {turn} times.")])
        first = threading.Thread(target=lambda: found(store, "boiler"))
        monkeypatch.setattr(Follower, "compare_ids", slow_reading)
        monkeypatch.setattr(Follower, "follow", slow_following)
        first.start()
        assert read.wait(10)
        write(collection, {"t1": "Snow fell."})
        threading.Timer(0.2, end.set).start()
        answer = by_words(store, "snow")
        searched.set()
        first.join()
    assert answer == {"t1"}


def test_a_new_index_without_the_replaced_records_needs_no_embedder(collection, monkeypatch):
    monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 0)
    embedder = HashEmbedder(DIM)
    with ChromaStore(collection, embedder) as store:
        for turn in range(5):
            store.add([Chunk("t2", f"Luna is a grey cat, seen {turn} times.")])
        monkeypatch.setattr(embedder, "embed_documents", Broken().embed_documents)
        assert found(store, "boiler", strategy="text")[0] == "t3"
        assert len(store.listing().passing) == len(TEXTS)


def test_the_search_that_drops_the_replaced_records_reads_and_analyses_no_text_again(collection, monkeypatch):
    monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 0)
    with ChromaStore(collection, MODEL) as store:
        for turn in range(5):
            store.add([Chunk("t2", f"Luna is a grey cat, seen {turn} times.")])
        read, indexed, records, update = [], [], ChromaCollection.records, LexicalIndex.update
        with monkeypatch.context() as patch:
            patch.setattr(ChromaCollection, "records", lambda self, ids: read.extend(ids) or records(self, ids))
            patch.setattr(LexicalIndex, "update", lambda self, *_, **new: indexed.append(_) or update(self, *_, **new))
            assert len(store.listing().passing) == len(TEXTS)
        assert (read, indexed) == ([], [])
        assert by_words(store, "seen 4 times") == {"t2"} and found(store, "boiler")[0] == "t3"


def test_a_store_that_has_dropped_the_replaced_records_answers_as_a_new_one(collection, monkeypatch):
    texts = {f"n{n}": f"Jarrowby {n % 5}. The mill of {n % 7} stones stands near Arden {n}." for n in range(30)}
    write(collection, texts, [{"source": f"s{n % 3}", "page": n % 4} for n in range(30)])
    where = parse_filter({"page": {"$in": [1, 2]}})
    with ChromaStore(collection, MODEL) as store:
        assert by_words(store, "mill", where=where)
        write(collection, {id: f"{text} Again." for id, text in list(texts.items())[::2]})
        collection.delete(ids=["n3", "t1"])
        write(collection, {id: f"{text} And again." for id, text in list(texts.items())[1::4]})
        write(collection, {"t2": "  "})  # no longer a chunk
        monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 0)
        for turn in range(40):
            write(collection, {"t0": f"Priya left Acme {turn} times."})
            len(store)
        assert len(store.listing().passing) < 60
        with ChromaStore(collection, MODEL) as new:
            assert store.ids() == new.ids() and store.status().skipped == new.status().skipped == ("t2",)
            for query in ("mill near Arden 12", "Jarrowby 3", "grey cat", "again"):
                for options in ({}, {"where": where}, {"strategy": "text"}):
                    pools = [
                        each.recall([Probe(query)], depth=20, now=NOW, around=1, **options) for each in (store, new)
                    ]
                    assert list(pools[0].ids) == list(pools[1].ids)
                    for name in ("lexical", "lexical_bound", "coverage", "dense", "source_lexical", "position"):
                        one, other = (getattr(pool, name) for pool in pools)
                        assert np.array_equal(one, other), name
            write(collection, {"t4": "Snow fell on Jarrowby."}, [{"source": "s1", "page": 1}])
            for each in (store, new):
                assert by_words(each, "snow", where=where) == {"t4"}
                assert each.get(["t4"])[0].position == 10


def test_a_write_that_was_noted_before_the_replaced_records_are_dropped_is_found_by_the_next_search(
    collection, monkeypatch
):
    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        for turn in range(5):
            store.add([Chunk("t2", f"Luna is a grey cat, seen {turn} times.")])
        monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 0)
        write(collection, {"t1": "Snow fell."})
        assert by_words(store, "snow") == {"t1"}
        assert len(store.listing().passing) == len(TEXTS) + 1, "the rows before were dropped, and t1 replaced then"


def test_the_versions_of_chunks_stay_the_same_while_another_thread_drops_the_replaced_records(collection, monkeypatch):
    making, end, compare = threading.Event(), threading.Event(), Follower.compare_ids

    def slow_compare(self: Follower) -> None:
        making.set()
        end.wait(10)
        compare(self)

    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        for turn in range(5):
            store.add([Chunk("t2", f"Luna is a grey cat, seen {turn} times.")])
        before = store.listing()
        monkeypatch.setattr(store_module, "DEAD_ROWS_MAX", 0)
        monkeypatch.setattr(Follower, "compare_ids", slow_compare)
        other = threading.Thread(target=store.listing)
        other.start()
        assert making.wait(10)
        during = store.listing()
        end.set()
        other.join()
        assert during.versions.tolist() == before.versions.tolist()
        assert not set(store.listing().versions) & set(before.versions), "the rows have other numbers now"


def test_neighbours_of_a_record_do_not_wait_until_the_texts_of_a_write_are_indexed(collection, while_texts_are_indexed):
    def pages(text: str) -> list[Chunk]:
        return [Chunk(f"p{n}", f"{text} on page {n}.", source="book", position=n) for n in range(3)]

    with ChromaStore(collection, MODEL, sync_seconds=1_000) as store:
        store.add(pages("Rain"))
        near = while_texts_are_indexed(
            lambda: store.add(pages("Snow")), lambda: store.neighbours(["p1"], reach=1)["p1"]
        )
    assert [each.text for each in near] == [f"Snow on page {n}." for n in range(3)]
