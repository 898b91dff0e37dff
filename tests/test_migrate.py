"""A store in another: to the last bit, each chunk once whatever interrupts it, believed only when read back."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from umi_common.embedders import AbsentEmbedder
from umi_common.errors import (
    ConfigError,
    CopyDiffers,
    EmbedderError,
    InputError,
    InvalidLimit,
    ReindexRequired,
    StoreError,
)
from umi_common.migrate import content_hash, migrate
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

NOW = datetime(2024, 5, 1, tzinfo=timezone.utc)
SIZE = 230
ABSENT = AbsentEmbedder("hash/7", 7)


def chunks(size=SIZE):
    """With all that a chunk can hold; one without a word."""
    return [
        Chunk(
            f"c{number * 37 % 1009:04}-é\0{number}",
            f"boat {number} of {number % 7} 日本" if number != 9 else "!?",
            metadata={"number": number, "float": number / 3, "flag": number % 2 == 0, "tags": ("a", None, number)},
            source=f"s{number % 9}" if number % 4 else None,
            position=number if number % 3 else None,
            event_time=NOW - timedelta(microseconds=number) if number % 5 else None,
        )
        for number in range(size)
    ]


def hybrid(path=None, embedder=ABSENT):
    return HybridStore.open(path, embedder=embedder)


def qdrant(path=None):
    client = pytest.importorskip("qdrant_client").QdrantClient(":memory:")
    from umi_common.stores.qdrant import QdrantStore

    return QdrantStore(client, "notes", ABSENT)


@pytest.fixture(scope="module")
def source():
    """Every tenth chunk has no vector. Of seven dimensions: scaled to length 1 once more, some would change."""
    vectors = np.random.default_rng(0).normal(size=(SIZE, 7))
    vectors[::10] = 0.0
    with hybrid() as store:
        store.add(chunks(), vectors=vectors)
        yield store


class Interposed:
    """A store with another answer to some calls."""

    def __init__(self, store, **calls):
        self._store = store
        self._calls = calls

    def __getattr__(self, name):
        return self._calls.get(name, getattr(self._store, name))

    def __len__(self):
        return len(self._store)

    def __repr__(self):
        return repr(self._store)


def dying(store, after):
    """A store that takes so many pages."""
    taken = []

    def add(batch, **options):
        if len(taken) == after:
            raise KeyboardInterrupt
        taken.append(len(batch))
        store.add(batch, **options)

    return Interposed(store, add=add), taken


def assert_same(one, other):
    ids = [chunk.id for chunk in one.scan(limit=10_000)]
    assert [chunk.id for chunk in other.scan(limit=10_000)] == ids
    assert other.get(ids) == one.get(ids)
    assert list(map(content_hash, other.get(ids))) == list(map(content_hash, one.get(ids)))
    np.testing.assert_array_equal(other.vectors(ids), one.vectors(ids))


@pytest.mark.parametrize("middle", [hybrid, qdrant])
def test_there_and_back_nothing_is_lost_and_nothing_embedded(source, middle):
    with middle() as there, hybrid() as back:
        done = migrate(source, there, page=50)
        assert (done.chunks, done.copied, done.samples) == (SIZE, SIZE, 20)
        assert done.agreement > 0.9
        assert_same(source, there)
        migrate(there, back, page=64)
        assert_same(source, back)
        assert back.verify()


def test_two_equal_stores_answer_alike(source):
    with hybrid() as target:
        assert migrate(source, target).agreement == 1.0


@pytest.mark.parametrize("middle", [hybrid, qdrant])
@pytest.mark.parametrize("pages_taken", [0, 1, 3])
def test_a_run_that_was_killed_goes_on_behind_its_last_page(source, tmp_path, middle, pages_taken):
    checkpoint = tmp_path / "mark.json"
    with middle() as target:
        with pytest.raises(KeyboardInterrupt):
            migrate(source, dying(target, pages_taken)[0], checkpoint=checkpoint, page=60)
        assert len(target) == 60 * pages_taken
        done = migrate(source, target, checkpoint=str(checkpoint), page=60)  # a name as good as a Path
        assert done.copied == SIZE - 60 * pages_taken
        assert_same(source, target)
        assert not list(tmp_path.iterdir())


def test_without_a_checkpoint_a_second_run_starts_over_and_doubles_nothing(source):
    with hybrid() as target:
        with pytest.raises(KeyboardInterrupt):
            migrate(source, dying(target, 2)[0], page=60)
        assert migrate(source, target, page=60).copied == SIZE
        assert_same(source, target)
        assert target.status().dead_rows == 0


def test_a_kill_while_comparing_leaves_only_the_comparison_to_do(source, tmp_path):
    def killed(ids):
        raise KeyboardInterrupt

    checkpoint = tmp_path / "mark.json"
    with hybrid() as target:
        with pytest.raises(KeyboardInterrupt):
            migrate(source, Interposed(target, get=killed), checkpoint=checkpoint)
        assert migrate(source, target, checkpoint=checkpoint).copied == 0


@pytest.mark.parametrize(
    "saved",
    [
        "",
        "[1]",
        '{"of": "',
        json.dumps({"of": "other -> another", "after": "c0000", "chunks": 1}),
        json.dumps({"of": "HybridStore('in memory') -> HybridStore('in memory')", "after": "c5", "chunks": 100}),
    ],
)
def test_a_checkpoint_that_the_target_does_not_bear_out_is_no_use(source, tmp_path, saved):
    checkpoint = tmp_path / "mark.json"
    checkpoint.write_text(saved)
    with hybrid() as target:
        assert migrate(source, target, checkpoint=checkpoint).copied == SIZE
        assert_same(source, target)


@pytest.mark.parametrize(
    "content", ["my only copy", '{"of": "", "after": "", "chunks": 1e999}', '{"notes": "my only copy"}', "[" * 100_000]
)
def test_a_file_of_the_users_own_named_as_checkpoint_by_mistake_stays_as_it_is(source, tmp_path, caplog, content):
    notes = tmp_path / "notes.json"
    notes.write_text(content)
    with hybrid() as target:
        assert migrate(source, target, checkpoint=notes).copied == SIZE
    assert notes.read_text() == content
    assert "notes.json is no checkpoint of a migration; it stays as it is" in caplog.text


def test_a_checkpoint_that_cannot_be_written_is_said_before_the_first_chunk_is_copied(source, tmp_path):
    (tmp_path / "file").write_text("")
    with hybrid() as target:
        for path in (tmp_path, tmp_path / "file" / "mark.json"):
            with pytest.raises(InputError, match="cannot write"):
                migrate(source, target, checkpoint=path)
            assert len(target) == 0


def test_the_folder_of_a_checkpoint_is_created(source, tmp_path):
    with hybrid() as target:
        assert migrate(source, target, checkpoint=tmp_path / "progress" / "mark.json").copied == SIZE


@pytest.mark.parametrize("options", [{"page": 0}, {"samples": -1}, {"samples": 2.5}, {"samples": "all"}])
def test_numbers_out_of_range_are_refused_by_their_names_before_anything_is_copied(source, options):
    with hybrid() as target:
        with pytest.raises(InvalidLimit, match=f"{next(iter(options))} is .*expected a whole number"):
            migrate(source, target, **options)
        assert len(target) == 0


def test_a_second_migration_sends_what_has_changed():
    with hybrid(embedder=HashEmbedder(7)) as source, hybrid() as target:
        source.add(chunks(20))
        migrate(source, target)
        source.add([Chunk(chunks(1)[0].id, "another text"), Chunk("new", "one more")])
        assert migrate(source, target).chunks == 21
        assert_same(source, target)


def test_an_empty_store_is_migrated_at_once():
    with hybrid() as source, hybrid() as target:
        assert migrate(source, target).chunks == 0


def test_names_in_place_of_open_stores_are_refused_with_the_call_that_opens_one(source, tmp_path):
    for stores in ((str(tmp_path), source), (source, str(tmp_path))):
        with pytest.raises(ConfigError, match=r"is no open store; give HybridStore\.open\(path\)"):
            migrate(*stores)


@pytest.mark.parametrize("other", [AbsentEmbedder("another/7", 7), HashEmbedder(8)])
def test_vectors_of_another_model_are_refused(source, other):
    with hybrid(embedder=other) as target:
        with pytest.raises(ReindexRequired, match=r"hash/7.*give an empty target that was opened"):
            migrate(source, target)
        assert len(target) == 0


def test_the_same_name_with_another_dimension_is_refused(source):
    with hybrid(embedder=AbsentEmbedder(ABSENT.name, 5)) as target:
        target.add([chunks(2)[1]], vectors=np.ones((1, 5)))
        with pytest.raises(ReindexRequired, match=r"\(7 dimensions\).*\(5\)"):
            migrate(source, target)


def test_a_target_with_chunks_of_its_own_is_left_as_it_was(source):
    with hybrid() as target:
        target.add([Chunk("mine", "boat")], vectors=np.ones((1, 7)))
        with pytest.raises(StoreError, match=r"'mine'.*give an empty target"):
            migrate(source, target)
        assert len(target) == 1


def _loses_one(store):
    return {"add": lambda batch, vectors: store.add(batch[1:], vectors=vectors[1:])}


def _changes_a_type(store):
    def add(batch, vectors):
        first = batch[0]
        other = {**first.metadata, "number": float(first.metadata["number"])}
        store.add([Chunk(first.id, first.text, metadata=other, source=first.source, position=first.position,
                         event_time=first.event_time), *batch[1:]], vectors=vectors)  # fmt: skip

    return {"add": add}


def _turns_a_vector(store):
    return {"add": lambda batch, vectors: store.add(batch, vectors=np.concatenate([-vectors[:1], vectors[1:]]))}


@pytest.mark.parametrize("fault", [_loses_one, _changes_a_type, _turns_a_vector])
def test_what_comes_back_other_than_it_went_is_named(tmp_path, fault):
    checkpoint = tmp_path / "mark.json"
    with hybrid(embedder=HashEmbedder(7)) as source, hybrid() as target:
        some = chunks(30)[1:10]
        source.add(some)
        with pytest.raises(CopyDiffers, match=r"1 of 9 chunks.*first") as told:
            migrate(source, Interposed(target, **fault(target)), checkpoint=checkpoint)
        assert repr(min(chunk.id for chunk in some)) in str(told.value)
        assert not checkpoint.exists()  # so the next run looks at everything
        assert migrate(source, target, checkpoint=checkpoint).chunks == 9


def test_a_source_that_gives_fewer_chunks_than_it_holds_is_not_taken_for_copied(source):
    """Whatever the store: a page that lacks its last chunk ends the walk early, or leaves a gap."""

    def scan(**options):
        return [chunk for chunk in source.scan(**options) if chunk.metadata["number"] != 5]

    with (
        hybrid() as target,
        pytest.raises(CopyDiffers, match=rf"counts {SIZE} chunks, but {SIZE - 1} were.*umi repair"),
    ):
        migrate(Interposed(source, scan=scan), target, page=SIZE + 1)


def test_a_chunk_that_joins_on_the_way_is_seen(source):
    with hybrid() as target:

        def add(batch, vectors):
            target.add([*batch, Chunk("zz", "from elsewhere")], vectors=np.concatenate([vectors, vectors[:1]]))

        with pytest.raises(CopyDiffers, match=rf"holds {SIZE + 1} chunks"):
            migrate(source, Interposed(target, add=add))


def test_a_target_that_finds_other_chunks_is_refused(source):
    with hybrid() as target, hybrid() as empty, pytest.raises(CopyDiffers, match=r"\d+ of 20 sampled queries"):
        migrate(source, Interposed(target, recall=empty.recall))


def test_the_samples_come_from_the_end_of_the_source_too():
    with hybrid() as source, hybrid() as target, hybrid() as empty:
        source.add([Chunk(f"{number:02}", f"boat {number}") for number in range(39)], vectors=np.eye(39, 7))
        asked = []

        def recall(probes, **options):
            asked.extend(probe.text for probe in probes)
            return target.recall(probes, **options)

        assert migrate(source, Interposed(target, recall=recall), samples=20).samples == 20
        assert "boat 0" in asked and {"boat 37", "boat 38"} & set(asked)
        assert migrate(source, empty, samples=0).samples == 0


def test_the_hash_of_a_chunk_tells_types_apart_and_not_the_order_of_keys():
    def of(**metadata):
        return content_hash(Chunk("x", "text", metadata=metadata))

    assert of(a=1, b=2) == of(b=2, a=1)
    assert len({of(a=1), of(a=1.0), of(a=True), of(a="1"), of(a=(1,)), of(a=None), of()}) == 7
    assert content_hash(Chunk("x", "t", source="1")) != content_hash(Chunk("x", "t", position=1))


def test_a_model_that_is_not_here_says_so():
    with hybrid() as store, pytest.raises(EmbedderError, match="'hash/7' is not loaded; open the store with embedder="):
        store.add([Chunk("x", "text")])
