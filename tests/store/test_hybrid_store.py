"""The promises of HybridStore, on five chunks that can be checked by hand."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from pytest import approx
from small_store import NOW, chunks, search

from umi_common.config import UmiConfig
from umi_common.errors import ReindexRequired, SearchUnavailable, StoreClosed
from umi_common.pool import NO_POSITION, NO_SOURCE, Pool
from umi_common.protocols import Probe, Store
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder
from umi_common.stores import failpoints
from umi_common.stores.embedded import core as core_module
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.types import Chunk


@pytest.fixture
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as opened:
        opened.add(chunks())
        yield opened


def test_a_store_is_a_store(store):
    checked: Store = store
    assert len(checked) == 5


def test_lists_none_and_numbers_survive_the_ledger(tmp_path):
    odd = {"list": ("a", 1, None, True), "none": None, "float": 0.1, "big": 2**62, "true": True, "ключ": "значение\0x"}
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        store.add([Chunk("x", "text\0with nul and 日本", metadata=odd)])
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        (chunk,) = store.get(["x"])
    assert dict(chunk.metadata) == odd
    assert chunk.metadata["true"] is True
    assert chunk.text == "text\0with nul and 日本"


def test_the_pool_is_sorted_by_id_and_scored_by_both_arms(store):
    pool = search(store, "red boat")
    assert pool.ids == tuple(sorted(pool.ids))
    row = pool.ids.index("t0")
    assert pool.lexical_rank[0, row] == 1
    assert pool.dense_rank[0, row] == 1
    # "the red boat" and "red boat" share two of three words: cosine 2 / (sqrt(3) * sqrt(2)).
    assert pool.dense[0, row] == approx(2 / 6**0.5, abs=1e-6)
    assert pool.mode == "hybrid"
    assert not pool.degraded


def test_places_in_a_source_have_no_gaps_even_after_a_delete(store):
    store.delete(ids=["t1"])
    pool = search(store, "red boat night", around=1)
    places = dict(zip(pool.ids, pool.position.tolist(), strict=True))
    assert places == {"t0": 0, "t2": 1, "t3": 2, "t4": 3}


def test_chunks_without_a_source_stand_alone(store):
    store.add([Chunk("alone", "a red boat alone")])
    pool = search(store, "red boat")
    row = pool.ids.index("alone")
    assert pool.source[row] == NO_SOURCE
    assert pool.position[row] == NO_POSITION
    assert np.isnan(pool.age_hours[row])


def test_neighbours_join_the_pool(store):
    assert set(search(store, "train coast", depth=10, where=None).ids) >= {"t4"}
    only = HybridStore.open(embedder=HashEmbedder(512))
    only.add([Chunk(f"c{i}", f"word{i}", source="s", position=i) for i in range(100)])
    pool = search(only, "word50", depth=10, around=1)
    assert {"c49", "c50", "c51"} <= set(pool.ids)
    only.close()


def test_neighbours_come_in_order(store):
    around = store.neighbours(["t1", "t4", "nobody"], reach=1)
    assert [chunk.id for chunk in around["t1"]] == ["t0", "t1", "t2"]
    assert [chunk.id for chunk in around["t4"]] == ["t3", "t4"]
    assert "nobody" not in around


def test_a_replaced_chunk_is_found_by_its_new_words_only(store):
    store.add([Chunk("t0", "green tractor")])
    assert len(store) == 5
    assert store.get(["t0"])[0].text == "green tractor"
    pool = search(store, "tractor")
    assert pool.lexical[0, pool.ids.index("t0")] > 0
    pool = search(store, "red")
    assert pool.lexical_rank[0].max() == 1


def test_a_chunk_that_is_stored_already_costs_no_embedding():
    embedder = CountingEmbedder(HashEmbedder())
    with HybridStore.open(embedder=embedder) as store:
        store.add(chunks())
        store.add([*chunks(), Chunk("new", "a new one")])
        assert embedder.texts[5:] == ["a new one"]
        assert store.status().dead_rows == 0


def test_own_vectors_are_taken_as_they_are():
    embedder = CountingEmbedder(HashEmbedder(2))
    with HybridStore.open(embedder=embedder) as store:
        store.add([Chunk("x", "one"), Chunk("y", "two")], vectors=[[3.0, 4.0], [0.0, 2.0]])
        pool = store.recall([Probe("one", np.array([0.0, 1.0], dtype=np.float32))], depth=10, now=NOW)
        assert not embedder.texts
    assert pool.vectors[0].tolist() == approx([0.6, 0.8])
    assert pool.dense[0].tolist() == approx([0.8, 1.0])


@pytest.fixture
def without_embedder():
    """A store whose embedder fails at a query with a word that no chunk has."""
    with HybridStore.open(embedder=FaultyEmbedder(HashEmbedder(64), fail_on="boat!")) as opened:
        opened.add(chunks())
        yield opened


def test_without_the_embedder_words_answer(without_embedder):
    pool = search(without_embedder, "red boat!")
    assert pool.mode == "text"
    assert [loss.part for loss in pool.degraded] == ["embedder"]
    assert "boat" not in pool.degraded[0].reason
    assert not pool.dense.any()
    assert pool.query_vectors.shape == (1, 0)


@pytest.fixture
def broken_words(monkeypatch):
    """Makes every search of the lexical index raise."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken for the test")

    monkeypatch.setattr(LexicalIndex, "search", broken)


def test_without_the_lexical_index_vectors_answer(store, broken_words):
    pool = search(store, "red boat")
    assert pool.mode == "vector"
    assert [loss.part for loss in pool.degraded] == ["lexical"]
    assert not pool.lexical.any()


def test_without_both_there_is_an_error(without_embedder, broken_words):
    with pytest.raises(SearchUnavailable, match="embedder"):
        search(without_embedder, "red boat!")


def test_a_store_lasts(tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        store.add(chunks())
        before = search(store, "red boat", around=1)
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        after = search(store, "red boat", around=1)
        assert store.status().chunks == 5
    assert_same(before, after)


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize(
    ("point", "stored"), [("ledger.insert", False), ("ledger.commit", False), ("ledger.committed", True)]
)
def test_an_interrupted_write_is_there_or_not_and_the_next_call_knows(point, stored, on_disk, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    with HybridStore.open(tmp_path / "s" if on_disk else None, embedder=HashEmbedder()) as store:
        store.add(chunks())
        with failpoints.armed(point, interrupt), pytest.raises(KeyboardInterrupt):
            store.add([Chunk("new", "purple submarine"), Chunk("t0", "changed")])
        assert (store.get(["new"])[0] is not None) == stored
        assert store.get(["t0"])[0].text == ("changed" if stored else "the red boat")
        assert len(store) == 5 + stored
        assert (search(store, "purple").lexical.max(initial=0) > 0) == stored
        store.add([Chunk("after", "all is well")])
        assert len(store) == 6 + stored
        assert store.verify()


def test_rows_are_numbered_afresh_when_most_are_dead(monkeypatch):
    monkeypatch.setattr(core_module, "DEAD_ROWS_MAX", 10)
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add(chunks())
        for turn in range(30):
            store.add([Chunk("t0", f"the red boat {turn}")])
        assert store.status().dead_rows <= 11
        assert store.get(["t0"])[0].text == "the red boat 29"
        assert search(store, "boat 29").lexical_rank.max() > 0


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_write_that_drops_the_rows_of_replaced_chunks_indexes_only_its_own_texts(tmp_path, monkeypatch, on_disk):
    texts = {f"n{n}": f"Jarrowby {n % 5}. Die Mühle und the mill of {n % 7} stones stand near {n}." for n in range(40)}
    with HybridStore.open(tmp_path / "s" if on_disk else None, embedder=HashEmbedder()) as store:
        store.add([Chunk(id, text, source=f"s{len(text) % 3}", position=len(id)) for id, text in texts.items()])
        store.delete(["n7"])
        some = list(texts)[10:]
        store.add([Chunk(id, f"{texts[id]} Again.", metadata={"again": id}) for id in some])
        monkeypatch.setattr(core_module, "DEAD_ROWS_MAX", 10)
        indexed, update = [], LexicalIndex.update
        with monkeypatch.context() as patch:
            patch.setattr(
                LexicalIndex, "update", lambda *each, **options: indexed.append(each) or update(*each, **options)
            )
            for turn in range(12):
                store.add([Chunk("n0", f"The red boat {turn}.")])
        assert len(store.listing().ids) < 60 and len(indexed) == 12
        assert store.verify(full=True)
        with HybridStore.open(embedder=HashEmbedder()) as new:
            new.add(store.get(store.ids()))
            for query in ("mill near 12", "Jarrowby 3", "Mühle", "red boat", "again"):
                one, other = search(store, query), search(new, query)
                assert list(one.ids) == list(other.ids)
                for name in ("lexical", "lexical_bound", "coverage", "dense", "source_lexical", "position"):
                    assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    for call in (
        lambda: store.get(["t0"]),
        lambda: search(store, "x"),
        lambda: store.add([]),
        lambda: len(store),
        lambda: store.reconfigure(UmiConfig()),
    ):
        with pytest.raises(StoreClosed):
            call()


def test_settings_change_live_except_the_analyzer(store):
    store.reconfigure(store.config.replaced(lexical={"k1": 2.0}))
    assert store.config.lexical.k1 == 2.0
    with pytest.raises(ReindexRequired, match="reindex"):
        store.reconfigure(UmiConfig(analyzer={"language": "german"}))


def test_new_settings_without_an_analyzer_keep_the_stores():
    with HybridStore.open(config=UmiConfig(analyzer={"language": "german"}), embedder=HashEmbedder()) as store:
        store.reconfigure(UmiConfig(lexical={"k1": 2.0}))
        assert (store.config.analyzer.language, store.config.lexical.k1) == ("german", 2.0)


def test_an_open_store_that_is_told_to_cache_no_vectors_of_documents_caches_none(tmp_path):
    model = CountingEmbedder(HashEmbedder())
    model.in_place = False
    with HybridStore.open(tmp_path / "s", embedder=model) as store:
        store.reconfigure(store.config.replaced(embedder={"cached_documents": 0}))
        store.add([Chunk(f"c{at}", f"text {at}") for at in range(20)])
    assert not (tmp_path / "s" / "embeddings.db").exists()


def test_histories_do_not_matter(tmp_path):
    straight = HybridStore.open(embedder=HashEmbedder())
    straight.add(chunks())
    winding = HybridStore.open(tmp_path / "s", embedder=HashEmbedder())
    for chunk in reversed(chunks()):
        winding.add([Chunk(chunk.id, "something else", source="another"), Chunk("gone", "red boat", source="chat")])
        winding.add([chunk])
    winding.delete(ids=["gone"])
    winding.close()
    winding = HybridStore.open(tmp_path / "s", embedder=HashEmbedder())
    for query in ("red boat", "night", "the coast of nothing"):
        assert_same(search(straight, query, around=1), search(winding, query, around=1))
    straight.close()
    winding.close()


ARRAYS = [
    field.name
    for field in fields(Pool)
    if field.type in ("Floats", "Ints", "Vectors") and field.name != "version"  # a number of the history by design
]


def assert_same(one, other):
    """Assert that two pools are equal to the last bit."""
    assert one.ids == other.ids
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_a_tilde_in_the_path_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with HybridStore.open("~/memory", embedder=HashEmbedder()) as store:
        store.add([Chunk("a", "Luna is a grey cat.")])
    assert (tmp_path / "home" / "memory" / "umi.db").exists() and not (tmp_path / "~").exists()


def test_a_store_holds_its_own_writes_and_those_of_no_other_store():
    with HybridStore.open(embedder=HashEmbedder(8)) as store, HybridStore.open(embedder=HashEmbedder(8)) as other:
        store.add([Chunk("a", "red boat")])
        first = store.last_write
        store.delete(["a"])
        store.compact()
        assert store.holds_write(first) and store.holds_write(store.last_write)
        other.add([Chunk("a", "red boat")])
        assert not other.holds_write(store.last_write)
        assert not any(map(store.holds_write, ("", "nonsense", '["a", "b", "c", "d", "e"]', "[1, 2, 3, 4, 5, 6]")))
        assert not any(map(store.holds_write, (f'[{10**23}, 1, {10**23}, 1, ""]', "[" * 100_000)))
