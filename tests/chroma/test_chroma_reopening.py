"""A ChromaStore with a directory is closed and opened again: the ranking is the same, and few records are read."""

from __future__ import annotations

from datetime import datetime, timezone

import chromadb
import numpy as np
import pytest

from umi_common import DualRetriever
from umi_common.errors import ReindexRequired
from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.chroma.side_index import READ_AHEAD

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
MODEL = HashEmbedder(32)
RECORDS = 1_500
SUBJECTS = ("roof", "boiler", "cat", "garden", "tax", "train")
QUERY = "what did the roofer say on day 7"


class Watched:
    """A collection that counts the vectors and records read from it."""

    def __init__(self, collection):
        self.inner = collection
        self.vectors = self.records = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def get(self, **arguments):
        got = self.inner.get(**arguments)
        self.vectors += len(got["ids"]) * ("embeddings" in arguments["include"])
        self.records += len(got["ids"]) * ("documents" in arguments["include"])
        return got


def talk(number):
    return f"day {number % 90}: {SUBJECTS[number // 20 % 6]} {number % 7}, the {SUBJECTS[number % 5]}er said {number}"


@pytest.fixture
def collection(tmp_path):
    """A collection of conversations of twenty texts each."""
    made = chromadb.PersistentClient(str(tmp_path / "chroma")).create_collection("talks")
    write(made, range(RECORDS))
    return made


def write(collection, numbers):
    texts = [talk(number) for number in numbers]
    collection.upsert(
        ids=[f"t{number}" for number in numbers],
        documents=texts,
        embeddings=MODEL.embed_documents(texts),
        metadatas=[{"source": f"talk {number // 20}", "position": number % 20} for number in numbers],
    )


def ranking(store):
    with DualRetriever(store) as umi:
        return [(hit.chunk.id, hit.score) for hit in umi.search(QUERY, now=NOW).hits]


def statistics(store):
    pool = store.recall([Probe(QUERY)], depth=20, now=NOW)
    return pool.background.mean.tolist(), pool.background.deviation.tolist(), dict(pool.calibration)


def test_after_reopening_the_ranking_is_the_same_and_few_vectors_are_read(collection, tmp_path):
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        before = ranking(store)
    watched = Watched(collection)
    with ChromaStore(watched, MODEL, tmp_path / "beside") as store:
        assert ranking(store) == before
    assert watched.vectors < 600 + READ_AHEAD and watched.records <= 50


def test_a_process_that_never_closed_its_store_leaves_what_the_next_one_needs(collection, tmp_path):
    left = ChromaStore(collection, MODEL, tmp_path / "beside")
    watched = Watched(collection)
    with ChromaStore(watched, MODEL, tmp_path / "beside") as store:
        assert ranking(store) == ranking(left)
    assert watched.vectors < 600 + READ_AHEAD


def test_after_writes_between_the_last_search_and_closing_reopening_ranks_as_a_new_store_does(collection, tmp_path):
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        ranking(store)
        store.delete([f"t{number}" for number in range(0, RECORDS, 3)])
        collection.update(ids=["t100", "t200"], documents=["The cat.", "The roof."], embeddings=np.eye(2, 32))
    write(collection, range(RECORDS, RECORDS + 50))
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store, ChromaStore(collection, MODEL) as new:
        mean, deviation, numbers = statistics(store)
        expected_mean, expected_deviation, expected = statistics(new)
        assert mean == pytest.approx(expected_mean) and deviation == pytest.approx(expected_deviation)
        assert numbers == pytest.approx(expected)
        assert [id for id, _ in ranking(store)] == [id for id, _ in ranking(new)]


@pytest.mark.parametrize("server", ["answers", "is gone"])
def test_a_text_replaced_after_the_last_search_is_found_when_the_store_is_opened_again(collection, tmp_path, server):
    class Shaky(Watched):
        gone = False

        def get(self, **arguments):
            if self.gone:
                raise ConnectionError("gone")
            return super().get(**arguments)

    watched = Shaky(collection)
    with ChromaStore(watched, MODEL, tmp_path / "beside") as store:
        ranking(store)
        watched.update(ids=["t100"], documents=["The plumber."], embeddings=MODEL.embed_documents(["The plumber."]))
        watched.gone = server == "is gone"
    with ChromaStore(collection, MODEL, tmp_path / "beside", sync_seconds=1_000) as store, DualRetriever(store) as umi:
        assert umi.search("plumber", now=NOW).ids[0] == "t100"


@pytest.mark.parametrize("where", [0.0, 0.3, 0.999])
def test_a_directory_with_a_flipped_bit_is_made_anew(collection, tmp_path, where):
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        before = ranking(store)
    for file in (path for path in (tmp_path / "beside").rglob("*") if path.is_file()):
        content = bytearray(file.read_bytes())
        content[int(where * len(content))] ^= 8
        file.write_bytes(content)
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        assert ranking(store) == before


def test_a_model_of_the_same_name_and_another_dimension_is_refused_when_the_store_is_opened_again(collection, tmp_path):
    class Shorter(HashEmbedder):
        name = MODEL.name

    ChromaStore(collection, MODEL, tmp_path / "beside").close()
    with pytest.raises(ReindexRequired, match="32 dimensions"):
        ChromaStore(collection, Shorter(16), tmp_path / "beside")


def test_an_empty_collection_is_opened_again_and_found_in_when_it_has_records(collection, tmp_path):
    collection.delete([f"t{number}" for number in range(RECORDS)])
    ChromaStore(collection, MODEL, tmp_path / "beside").close()
    write(collection, range(40))
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        assert len(ranking(store)) == 10


def test_a_few_questions_after_reopening_all_vectors_are_in_memory(collection, tmp_path):
    with ChromaStore(collection, MODEL, tmp_path / "beside") as store:
        ranking(store)
    watched = Watched(collection)
    with ChromaStore(watched, MODEL, tmp_path / "beside") as store, DualRetriever(store) as umi:
        few = RECORDS // READ_AHEAD + 1
        for number in range(few):
            umi.search(f"day {number}", now=NOW)
        read = watched.vectors
        assert read >= RECORDS
        for number in range(few, 90):
            umi.search(f"day {number}", now=NOW)
        assert watched.vectors == read


def test_a_question_finds_the_passage_that_it_names_and_does_after_reopening_too(tmp_path):
    texts = [f"The author {number} of this firm is a citizen of country {number}." for number in range(50)]
    texts.append("Brand (play). A verse tragedy in five acts, printed in 1865 and performed in Stockholm.")
    collection = chromadb.PersistentClient(str(tmp_path / "chroma")).create_collection("plays")
    ids = [str(number) for number in range(len(texts))]
    collection.add(ids=ids, documents=texts, embeddings=MODEL.embed_documents(texts))
    question = "What country was the author of Brand a citizen of?"
    for _ in ("first read", "opened again"):
        with ChromaStore(collection, MODEL, tmp_path / "beside") as store, DualRetriever(store) as umi:
            best = umi.search(question, now=NOW).hits[0]
            assert best.chunk.id == ids[-1] and "references" in best.stages
            assert ids[-1] not in umi.search(question, now=NOW, where={"public": True}).ids


@pytest.fixture
def plays(tmp_path):
    """Forty notes, then a text that names the last one."""
    texts = [f"Note {number}: writers, towns, boats and harbours of the north." for number in range(40)]
    texts.append("Brand. The play Brand has an author, Zorbian Quell, who wrote it in spring.")
    texts.append("Zorbian Quell. Born in Skien, he left home at fifteen.")
    made = chromadb.PersistentClient(str(tmp_path / "chroma")).create_collection("plays")
    ids = [str(number) for number in range(len(texts))]
    made.add(ids=ids, documents=texts, embeddings=MODEL.embed_documents(texts))
    return made


def test_a_passage_leads_to_the_one_that_it_names_and_does_after_reopening_too(plays, tmp_path):
    for _ in ("first read", "opened again"):
        with ChromaStore(plays, MODEL, tmp_path / "beside") as store, DualRetriever(store) as umi:
            found = umi.search("Where was the author of the play Brand born?", now=NOW, limit=2)
            assert set(found.ids) == {"40", "41"} and not found.degraded
            assert (
                store.recall([Probe("author of the play Brand born", references=True)], depth=20, now=NOW).links
                is not None
            )


@pytest.mark.parametrize("part", ["named_by", "links_of"])
def test_a_search_goes_on_without_references_if_looking_for_them_fails(plays, monkeypatch, part):
    def broken(*_, **__):
        raise KeyError("Brand")

    monkeypatch.setattr(f"umi_common.stores.references.References.{part}", broken)
    with ChromaStore(plays, MODEL) as store, DualRetriever(store) as umi:
        found = umi.search("Where was the author of the play Brand born?", now=NOW, limit=2)
    assert "40" in found.ids
    assert [(loss.part, loss.reason) for loss in found.degraded] == [("references", "KeyError")]
