"""A record that another program changes while a reopened store reads it, and changes back, is found by its metadata."""

from __future__ import annotations

import chromadb

from umi_common import DualRetriever
from umi_common.sim import HashEmbedder
from umi_common.stores.chroma import ChromaStore

MODEL = HashEmbedder()
TEXTS = {"roof": "Roof\nThe gutter of the Cellar leaks.", "cellar": "Cellar\nWater comes from the Roof gutter."}


def test_a_record_that_is_changed_during_a_search_and_changed_back_passes_its_own_filter(tmp_path):
    client = chromadb.PersistentClient(str(tmp_path / "chroma"))
    collection = client.get_or_create_collection("notes")

    def write(owner: str) -> None:  # through an object of its own, as another program does
        vectors = MODEL.embed_documents(list(TEXTS.values())).tolist()
        metadatas = [{"owner": owner}] * len(TEXTS)
        client.get_collection("notes").upsert(list(TEXTS), vectors, metadatas, list(TEXTS.values()))

    write("ann")
    ChromaStore(collection, MODEL, tmp_path / "beside").close()
    with ChromaStore(collection, MODEL, tmp_path / "beside", sync_seconds=1_000) as store, DualRetriever(store) as umi:
        recall = store.recall

        def recall_while_bob_has_it(*args, **kwargs):
            write("bob")
            try:
                return recall(*args, **kwargs)
            finally:
                write("ann")

        store.recall = recall_while_bob_has_it
        umi.search("gutter water")
        store.recall = recall
        assert set(umi.search("gutter water", where={"owner": "ann"}).ids) == set(TEXTS)
