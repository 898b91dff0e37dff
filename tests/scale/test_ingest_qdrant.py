"""Bulk ingestion into a Qdrant collection: it follows the files as a HybridStore does, to the same content."""

from __future__ import annotations

import pytest
from ingest_toys import DIM, PART, content, opened, write_records

from umi_common.errors import ConfigError
from umi_common.ingest import ingest
from umi_common.sim import HashEmbedder

qdrant_client = pytest.importorskip("qdrant_client", reason="pip install 'umi-retrieval[qdrant]'")


def test_a_collection_follows_the_files_as_a_directory_does(tmp_path):
    from umi_common.stores.qdrant import QdrantStore

    docs = tmp_path / "docs"
    docs.mkdir()
    write_records(docs / "a.jsonl", range(60))
    (docs / "b.md").write_text("# Boiler\n\nThe boiler leaks.")
    client = qdrant_client.QdrantClient(":memory:")
    store = QdrantStore(client, "corpus", HashEmbedder(DIM))
    with pytest.raises(ConfigError, match="name a file"):
        ingest(store, [docs])
    with opened(tmp_path / "s") as other:
        for change in (None, lambda: write_records(docs / "a.jsonl", range(20, 70)), (docs / "b.md").unlink):
            if change is not None:
                change()
            reports = [
                ingest(each, [docs], checkpoint=tmp_path / name, relative_to=docs, part_bytes=PART)
                for each, name in ((store, "c1"), (other, "c2"))
            ]
            assert reports[0] == reports[1]
            assert content(store) == content(other)
    client.close()
