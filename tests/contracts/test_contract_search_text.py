"""`Chunk.search_text` is what both arms search; `Chunk.text` is what a search returns and shows."""

from __future__ import annotations

import numpy as np
from corpus import NOW, by_id, search

from umi_common import DualRetriever, TokenBudget
from umi_common.context.assemble import assemble
from umi_common.migrate import migrate
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.types import Chunk

REPORT = Chunk(
    "report",
    "Sales fell in the third quarter.",
    search_text="Annual report of Hedgehog Ltd\n\nSales fell in the third quarter.",
    source="report.pdf",
    position=0,
)
OTHER = Chunk("other", "The boiler is in the cellar.", source="house.txt", position=0)


def test_a_title_that_stands_only_in_search_text_is_found(store):
    store.add([REPORT, OTHER])
    by_words = search(store, "hedgehog", strategy="text")
    assert {id for id, score in by_id(by_words, by_words.lexical).items() if score > 0} == {"report"}
    by_meaning = search(store, REPORT.search_text, strategy="vector")
    assert by_meaning.dense[0][by_meaning.ids.index("report")] > 0.999


def test_a_word_that_stands_only_in_the_text_is_not_searched(store):
    store.add([Chunk("c", "shown words", search_text="searched words"), OTHER])
    assert not search(store, "shown").lexical.any()
    assert search(store, "searched").lexical.any()


def test_the_hit_shows_the_text_without_the_title(store):
    store.add([REPORT, OTHER])
    (best, *_) = DualRetriever(store=store).search("hedgehog", limit=1, now=NOW)
    assert best.chunk == REPORT and best.chunk.text == "Sales fell in the third quarter."
    result = DualRetriever(store=store).search("hedgehog", limit=1, now=NOW)
    packed = assemble(result, budget=TokenBudget(200))
    assert "third quarter" in packed.text and "Hedgehog" not in packed.text


def test_search_text_comes_back_with_the_chunk(store):
    store.add([REPORT, OTHER])
    assert store.get(["report", "other"]) == [REPORT, OTHER]
    assert [chunk.search_text for chunk in store.scan()] == [None, REPORT.search_text]
    assert store.neighbours(["report"], reach=1) == {"report": [REPORT]}


def test_a_changed_search_text_is_embedded_again_and_an_equal_one_is_not(new_store):
    embedder = CountingEmbedder(HashEmbedder(64))
    store = new_store(embedder)
    store.add([REPORT, OTHER])
    done = len(embedder.texts)
    store.add([REPORT, OTHER])
    assert len(embedder.texts) == done
    changed = Chunk("report", REPORT.text, search_text="Balance of Squirrel Ltd", source="report.pdf", position=0)
    store.add([changed])
    assert embedder.texts[done:] == ["Balance of Squirrel Ltd"]
    assert store.get(["report"]) == [changed]
    assert not search(store, "hedgehog").lexical.any() and search(store, "squirrel").lexical.any()


def test_a_search_text_that_is_taken_away_is_no_longer_searched(store):
    store.add([REPORT, OTHER])
    store.add([Chunk("report", REPORT.text)])
    assert not search(store, "hedgehog").lexical.any()
    assert store.get(["report"])[0].search_text is None


def test_it_scores_as_a_chunk_whose_text_it_is(new_store):
    shown, plain = new_store(), new_store()
    texts = ["annual report of the hedgehog", "the boiler in the cellar", "hedgehog in the garden at night"]
    shown.add([Chunk(f"c{n}", "other words entirely", search_text=text) for n, text in enumerate(texts)])
    plain.add([Chunk(f"c{n}", text) for n, text in enumerate(texts)])
    for query in ("hedgehog", "boiler at night"):
        one, two = search(shown, query), search(plain, query)
        assert one.ids == two.ids
        assert np.array_equal(one.lexical, two.lexical) and np.array_equal(one.dense, two.dense)


def test_a_copy_keeps_it(new_store):
    one, two = new_store(), new_store()
    one.add([REPORT, OTHER])
    migrate(one, two)
    assert two.get(["report"]) == [REPORT]
    assert search(two, "hedgehog").lexical.any()
