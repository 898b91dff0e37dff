"""Opening a collection: settings that are refused, and indexes that are created."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest
from qdrant_client import AsyncQdrantClient, models
from qdrant_toys import Counting, local, qdrant

from umi_common import DualRetriever, UmiConfig
from umi_common.errors import ConfigError, MissingExtra, NotAStore, ReindexRequired, StoreUnavailable
from umi_common.sim import HashEmbedder
from umi_common.stores.qdrant import QdrantStore
from umi_common.stores.qdrant.points import SETTINGS
from umi_common.types import Chunk

GERMAN = UmiConfig().replaced(analyzer={"language": "german"})


def test_without_the_package_the_pip_line_is_told(monkeypatch):
    client = local()
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(MissingExtra, match=r"pip install 'umi-retrieval\[qdrant\]'"):
        qdrant(client)


def test_the_module_loads_without_the_package():
    code = "import sys; sys.modules['qdrant_client'] = None; import umi_common.stores.qdrant"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_umi_does_not_load_the_package_by_itself():
    code = "import sys, umi_common; assert not {'qdrant_client', 'umi_common.stores.qdrant'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_asynchronous_client_is_refused():
    with pytest.raises(ConfigError, match="asynchronous"):
        qdrant(AsyncQdrantClient(":memory:"))


def test_an_address_in_place_of_a_client_and_a_missing_name_are_refused():
    for client in ("http://localhost:6333", None):
        with pytest.raises(ConfigError, match="expected a QdrantClient"):
            QdrantStore(client, "c", HashEmbedder())
    for name in ("", None):
        with pytest.raises(ConfigError, match="expected the name of a collection"):
            QdrantStore(local(), name, HashEmbedder())


@pytest.mark.parametrize(
    "wrong", [{"tenants": "user"}, {"tenants": [1]}, {"ordered": "year"}, {"config": {"fusion": {}}}]
)
def test_an_option_of_another_type_is_refused_and_no_collection_is_made(wrong):
    client = local()
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} is .*; expected"):
        QdrantStore(client, "c", HashEmbedder(), **wrong)
    assert not client.collection_exists("c")


@pytest.mark.parametrize("version, fine", [("1.9.2", False), ("1.10.0", True), ("2.0.1-dev", True)])
def test_a_server_too_old_for_sparse_idf_is_refused(version, fine):
    client = Counting(local())
    client.info = lambda: SimpleNamespace(version=version)
    if fine:
        qdrant(client)
    else:
        with pytest.raises(StoreUnavailable, match=r"1\.10"):
            qdrant(client)


def test_a_server_that_is_not_there_is_a_typed_error():
    class Nobody:
        def info(self):
            raise ConnectionError("refused")

    with pytest.raises(StoreUnavailable) as caught:
        qdrant(Nobody())
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_collection_of_somebody_else_is_refused():
    client = local()
    client.create_collection("toys", vectors_config=models.VectorParams(size=64, distance=models.Distance.COSINE))
    with pytest.raises(NotAStore, match="toys"):
        qdrant(client)
    client.delete_collection("toys")
    qdrant(client)


def test_a_collection_without_the_idf_modifier_is_refused():
    client = local()
    client.create_collection(
        "toys",
        vectors_config={"dense": models.VectorParams(size=64, distance=models.Distance.DOT)},
        sparse_vectors_config={"lexical": models.SparseVectorParams()},
    )
    with pytest.raises(NotAStore):
        qdrant(client)


def test_a_maker_that_died_before_the_settings_is_followed_up():
    client = local()
    client.create_collection(
        "toys",
        vectors_config={"dense": models.VectorParams(size=64, distance=models.Distance.DOT)},
        sparse_vectors_config={"lexical": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    assert len(qdrant(client)) == 0


def test_a_collection_that_another_process_fills_while_it_is_opened_is_opened(monkeypatch):
    client = local()
    qdrant(client)
    client.delete("toys", [SETTINGS])
    count = client.count

    def counted_late(*args, **options):
        monkeypatch.setattr(client, "count", count)
        qdrant(client).add([Chunk("a", "a grey cat")])
        return count(*args, **options)

    monkeypatch.setattr(client, "count", counted_late)
    assert qdrant(client).ids() == ["a"]


def test_a_newer_format_is_named_also_if_its_settings_have_other_names():
    client = local()
    qdrant(client)
    client.overwrite_payload("toys", {"format": 2, "embedder": "x", "analysis": "{}"}, [SETTINGS])
    with pytest.raises(NotAStore, match="has format 2 and this version of umi reads format 1"):
        qdrant(client)
    client.overwrite_payload("toys", {"embedder": "x"}, [SETTINGS])
    with pytest.raises(NotAStore, match="unreadable settings"):
        qdrant(client)


def test_a_collection_made_again_with_another_analyzer_does_not_blame_the_embedder():
    client = local()
    store = qdrant(client)
    client.delete_collection("toys")
    qdrant(client, config=GERMAN)
    with pytest.raises(ReindexRequired, match="made again, with another analyzer"):
        store.add([Chunk("a", "a grey cat")])


def test_another_embedder_or_dimension_is_refused():
    client = local()
    qdrant(client)
    with pytest.raises(ReindexRequired, match="embedder"):
        QdrantStore(client, "toys", HashEmbedder(32))
    with pytest.raises(ReindexRequired, match="embedder"):
        QdrantStore(client, "toys")


def test_a_collection_whose_terms_another_version_of_umi_made_is_refused_and_says_so():
    client = local()
    qdrant(client)
    client.set_payload("toys", {"terms": "0"}, points=[SETTINGS])
    with pytest.raises(ReindexRequired, match="another version of umi"):
        qdrant(client)


def test_the_collection_keeps_its_analyzer():
    client = local()
    QdrantStore(client, "toys", HashEmbedder(), config=GERMAN)
    assert qdrant(client).config.analyzer.language == "german"
    assert qdrant(client, config=UmiConfig()).config.analyzer.language == "german"
    with pytest.raises(ReindexRequired, match="analyzer"):
        qdrant(client, config=UmiConfig(analyzer={"language": "english"}))
    with pytest.raises(ReindexRequired):
        qdrant(client).reconfigure(UmiConfig(analyzer={"language": "english"}))


def test_a_tenants_key_must_be_a_path():
    with pytest.raises(ConfigError, match=r"a\.b"):
        qdrant(tenants=["a.b"])


def test_a_server_gets_payload_indexes_once_and_the_tenants_theirs():
    made = {}

    class Server(Counting):
        """A client in local mode that claims to be a server, and records the payload indexes."""

        init_options: ClassVar = {"url": "http://there"}

        def create_payload_index(self, collection_name, field_name, field_schema, wait):
            made[field_name] = field_schema

        def get_collection(self, collection_name):
            info = self._client.get_collection(collection_name)
            return info.model_copy(update={"payload_schema": dict(made)})

    client = Server(local())
    qdrant(client, tenants=["user"], ordered=["year"])
    assert made["metadata.user"].is_tenant is True
    assert {"source", "position", "time", "draw", "source_draw", "facts"} < set(made)
    assert sum(name.startswith(("numbers.", "texts.")) for name in made) == 2
    before = dict(made)
    qdrant(client, tenants=["user"], ordered=["year"])
    assert made == before


def test_options_of_the_collection_are_passed_on():
    seen = {}

    class Noting(Counting):
        def create_collection(self, **arguments):
            seen.update(arguments)
            options = {name: arguments.pop(name) for name in ("shard_number", "replication_factor")}
            assert options == {"shard_number": 6, "replication_factor": 2}
            return self._client.create_collection(**arguments)

    qdrant(Noting(local()), options={"shard_number": 6, "replication_factor": 2})
    assert seen["vectors_config"]["dense"].distance == models.Distance.DOT


def test_consistency_and_ordering_go_with_every_call():
    class Noting(Counting):
        def __getattr__(self, name):
            found = getattr(self._client, name)

            def call(**named):
                if name in ("upsert", "delete"):
                    assert named.pop("ordering") == "strong"
                if name in ("retrieve", "scroll", "query_batch_points"):
                    assert named.pop("consistency") == "majority"
                return found(**named)

            return call if callable(found) else found

    store = qdrant(Noting(local()), consistency="majority", ordering="strong")
    store.add([Chunk("x", "boat")])
    assert store.scan() and store.get(["x"]) and store.delete(["x"]) == 1


class OtherModel(HashEmbedder):
    """Another model of the same dimension."""

    def __init__(self):
        super().__init__()
        self.name = "other"


def test_a_collection_made_again_with_another_model_says_so_to_a_store_that_was_open():
    client = local()
    store = qdrant(client)
    store.add([Chunk("a", "the roofers want nine thousand")])
    client.delete_collection("toys")
    other = QdrantStore(client, "toys", OtherModel())
    other.add([Chunk("b", "a grey cat")])
    with DualRetriever(store) as umi:
        for call in (lambda: umi.search("cat"), lambda: store.add([Chunk("a", "the roofers want nine thousand")])):
            with pytest.raises(ReindexRequired, match="made again, with embedder 'other'"):
                call()
    assert other.ids() == ["b"]


def test_a_collection_made_again_by_another_program_is_not_written_to():
    client = local()
    store = qdrant(client)
    client.delete_collection("toys")
    QdrantStore(client, "toys", HashEmbedder())
    store.add([Chunk("a", "the roofers want nine thousand")])  # made again just so: it goes on
    client.delete(collection_name="toys", points_selector=models.Filter())
    with pytest.raises(NotAStore, match="lost its settings"):
        store.add([Chunk("b", "a grey cat")])
    assert client.count("toys").count == 0


def test_vectors_of_a_collection_made_again_with_another_dimension_are_refused():
    client = local()
    store = qdrant(client)
    store.add([Chunk("a", "a grey cat")])
    client.delete_collection("toys")
    QdrantStore(client, "toys", HashEmbedder(8)).add([Chunk("a", "a grey cat")])
    with pytest.raises(ReindexRequired, match=r"made again.*8 dimensions"):
        store.vectors(["a"])


@pytest.mark.parametrize("call", ["status", "verify"])
def test_the_state_of_a_collection_made_again_with_another_model_names_that_model(call):
    client = local()
    store = qdrant(client)
    assert store.status().embedder == "hash/64"
    client.delete_collection("toys")
    with pytest.raises(StoreUnavailable):
        getattr(store, call)()
    QdrantStore(client, "toys", HashEmbedder(8)).add([Chunk("a", "the roofers want nine thousand")])
    with pytest.raises(ReindexRequired, match=r"made again, with embedder 'hash/8' \(8 dimensions\)"):
        getattr(store, call)()
