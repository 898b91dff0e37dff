"""Batches with blank texts, unusual values and invalid items."""

from __future__ import annotations

import sys
import uuid
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "contracts"))

from stores import KINDS

from umi_common import Chunk, HybridStore
from umi_common.errors import DuplicateId, InputError, InvalidChunk, InvalidVector
from umi_common.sim import CountingEmbedder, HashEmbedder

KINDS = [kind for kind in KINDS if kind.name != "python-lists"]
PAGES = [
    {"id": "p0", "text": "The first page.", "source": "book.pdf", "position": 0},
    {"id": "p1", "text": " \n", "source": "book.pdf", "position": 1},
    {"id": "p2", "text": "The third page.", "metadata": {"price": {"nested": 1}}, "source": "book.pdf"},
    {"id": "p3", "text": "The fourth page.", "metadata": None},
    {"id": "", "text": "No id."},
    {"id": "p5"},
    {"id": "p6", "text": "An unknown field.", "pages": 3},
    {"id": "p0", "text": "The first page once more."},
    Chunk("p8", "A chunk."),
    "p9",
]
REASONS = {1: "text is empty", 2: "'price'", 4: "non-empty", 5: "without 'text'", 6: "'pages'", 7: "twice", 9: "is str"}


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def store(request, tmp_path):
    opened = request.param.make(HashEmbedder(16), tmp_path)
    yield opened
    opened.close()


def test_metadata_whose_keys_come_in_another_order_is_unchanged(store):
    store.add([Chunk("a", "The first page.", metadata={"user": "ann", "year": 2024, "tags": ["x", "y"]})])
    report = store.add([Chunk("a", "The first page.", metadata={"tags": ["x", "y"], "year": 2024, "user": "ann"})])
    assert (report.added, report.unchanged) == (0, 1)
    for tags, year in ((["y", "x"], 2024), (["x", "y"], 2024.0), (["x", "y"], True)):
        changed = Chunk("a", "The first page.", metadata={"tags": tags, "year": year, "user": "ann"})
        assert store.add([changed]).added == 1
        assert repr(store.get(["a"])[0].metadata["year"]) == repr(year)


def test_invalid_items_are_left_out_and_reported_and_the_others_are_stored(store):
    report = store.add(PAGES, on_invalid="skip")
    assert (report.added, report.unchanged) == (3, 0)
    assert sorted(chunk.id for chunk in store.scan()) == ["p0", "p3", "p8"]
    assert {skipped.place for skipped in report.skipped} == REASONS.keys()
    for skipped in report.skipped:
        assert REASONS[skipped.place] in skipped.reason and "\n" not in skipped.reason
    blank, nested = report.skipped[:2]
    assert (blank.id, blank.source) == ("p1", "book.pdf") and "'p1'" in blank.reason
    assert (nested.id, nested.source) == ("p2", "book.pdf")
    assert (report.skipped[-1].id, report.skipped[-1].source) == (None, None)
    assert store.get(["p0"])[0].text == "The first page."


def test_by_default_one_invalid_item_refuses_the_whole_batch(store):
    with pytest.raises(InvalidChunk, match=r"'p1'.*text is empty"):
        store.add(PAGES)
    with pytest.raises(DuplicateId, match="'p0'"):
        store.add([PAGES[0], PAGES[7]], on_invalid="raise")
    assert len(store) == 0


def test_the_report_says_what_was_added_and_what_was_there(store):
    assert store.add([Chunk("a", "one"), Chunk("b", "two")]).added == 2
    report = store.add([Chunk("a", "one"), Chunk("b", "changed"), {"id": "c", "text": "three"}])
    assert (report.added, report.unchanged, report.skipped) == (2, 1, ())


def test_vectors_of_skipped_items_are_left_out_with_them(store):
    vectors = np.eye(4, 16)
    vectors[1, 0] = np.nan
    texts = ["one", "two", " ", "four"]
    items = [{"id": f"c{place}", "text": text} for place, text in enumerate(texts)]
    report = store.add(items, vectors=vectors, on_invalid="skip")
    assert [(skipped.id, skipped.place) for skipped in report.skipped] == [("c1", 1), ("c2", 2)]
    assert "NaN" in report.skipped[0].reason
    np.testing.assert_allclose(store.vectors(["c0", "c3"]), vectors[[0, 3]], atol=1e-6)


def test_vectors_may_be_any_object_that_numpy_reads_as_a_matrix(store):
    class Frame:
        """Yields its column names, as a data frame does."""

        def __iter__(self):
            return iter(range(16))

        def __array__(self, dtype=None, copy=None):
            return np.eye(2, 16, dtype=dtype)

    items = [Chunk("a", "one"), {"id": "b", "text": " "}]
    report = store.add(items, vectors=Frame(), on_invalid="skip")
    assert (report.added, [skipped.id for skipped in report.skipped]) == (1, ["b"])
    np.testing.assert_allclose(store.vectors(["a"]), np.eye(1, 16), atol=1e-6)


@pytest.mark.parametrize("missing", [None, [], [1.0, 2.0], ["no number"] * 16, float("nan")])
def test_a_vector_that_the_model_failed_to_make_leaves_out_its_item_alone(store, missing):
    good = np.eye(1, 16)[0].tolist()
    report = store.add([Chunk("a", "one"), Chunk("b", "two")], vectors=[missing, good], on_invalid="skip")
    assert (report.added, [skipped.id for skipped in report.skipped], store.ids()) == (1, ["a"], ["b"])
    assert "the vector of chunk 'a' is missing" in report.skipped[0].reason


def test_a_model_that_fails_on_most_texts_leaves_out_these_alone_even_if_it_does_not_state_its_dimension():
    items = [Chunk("a", "one"), Chunk("b", "two"), Chunk("c", "three")]
    with HybridStore.open(embedder=lambda texts: np.ones((len(texts), 2))) as store:
        report = store.add(items, vectors=[[], [], [0.0, 1.0]], on_invalid="skip")
        assert (report.added, store.ids()) == (1, ["c"])


@pytest.mark.parametrize("mode", ["raise", "skip"])
def test_chunks_and_vectors_may_be_generated(store, mode):
    vectors = np.eye(2, 16)
    items = (Chunk(id, "one") for id in ("a", "b"))
    assert store.add(items, vectors=(row for row in vectors), on_invalid=mode).added == 2
    np.testing.assert_allclose(store.vectors(["a", "b"]), vectors, atol=1e-6)


@pytest.mark.parametrize("vectors", [np.eye(3, 16), np.eye(2, 15), [["a"], ["b"]], np.ones(2), [None, [1.0]], 7])
def test_vectors_of_another_shape_are_refused_in_either_mode(store, vectors):
    store.add([Chunk("a", "one")])
    for mode in ("raise", "skip"):
        with pytest.raises(InvalidVector):
            store.add([Chunk("b", "two"), Chunk("c", "three")], vectors=vectors, on_invalid=mode)


def test_a_batch_of_which_nothing_is_valid_stores_and_embeds_nothing():
    embedder = CountingEmbedder(HashEmbedder(16))
    with HybridStore.open(embedder=embedder) as store:
        report = store.add([{"id": "a", "text": ""}, None], on_invalid="skip")
        assert (report.added, len(report.skipped), len(store), embedder.texts) == (0, 2, 0, [])
        assert store.add([], on_invalid="skip").skipped == ()
        assert store.add([], vectors=[], on_invalid="skip").skipped == ()


def test_another_way_to_treat_invalid_items_is_refused(store):
    with pytest.raises(InputError, match=r"'ignore'.*'raise' or 'skip'"):
        store.add([], on_invalid="ignore")


class Colour(Enum):
    RED = "red"


NOON = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
CONVERTED = {
    "price": (Decimal("19.99"), 19.99),
    "precise": (Decimal("0.1234567890123456789"), "0.1234567890123456789"),
    "id": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "tags": ({"b", "a"}, ("a", "b")),
    "mixed": (frozenset({2, "b", None, 1.5, "a"}), (None, 1.5, 2, "a", "b")),
    "pair": ((1, "x"), (1, "x")),
    "day": (date(2024, 5, 1), "2024-05-01"),
    "moment": (NOON, "2024-05-01T12:00:00+02:00"),
    "whole": (np.int64(3), 3),
    "real": (np.float32(0.5), 0.5),
    "flag": (np.bool_(True), True),
    "word": (np.str_("x"), "x"),
    "when": (np.datetime64("2024-05-01T12:00", "ns"), "2024-05-01T12:00:00"),
    "path": (PurePosixPath("a/b"), "a/b"),
    "colour": (Colour.RED, "red"),
    "list": ([Decimal("1.5"), float("nan"), np.int8(1)], (1.5, None, 1)),
    "time": (time(14, 30), "14:30:00"),
}
MISSING = {"nan": float("nan"), "decimal": Decimal("NaN"), "numpy": np.float64("nan"), "nat": np.datetime64("NaT")}


def test_values_that_json_lacks_are_converted_and_nan_is_missing(store):
    given = {key: value for key, (value, _) in CONVERTED.items()}
    store.add([Chunk("c", "text", metadata=given | MISSING)])
    (chunk,) = store.get(["c"])
    expected = {key: value for key, (_, value) in CONVERTED.items()}
    assert dict(chunk.metadata) == expected
    assert {key: type(value) for key, value in chunk.metadata.items()} == {k: type(v) for k, v in expected.items()}
    assert (
        store.add([Chunk("c", "text", metadata={key: value for key, (value, _) in CONVERTED.items()})]).unchanged == 1
    )


def test_a_price_that_was_a_decimal_can_be_filtered_by(store):
    store.add([Chunk(f"c{n}", "text", metadata={"price": Decimal(n) / 10}) for n in range(40)])
    found = store.delete(where={"price": {"$gt": 2.55}})
    assert found == 14


@pytest.mark.parametrize("value", [b"bytes", timedelta(1), object(), 1j, float("inf"), Decimal("Infinity"), [[1]], {}])
def test_a_value_that_has_no_safe_form_is_refused_by_name(value):
    with pytest.raises(InvalidChunk, match=r"chunk 'c': metadata\['k'\]"):
        Chunk("c", "text", metadata={"k": value})


def test_a_position_from_numpy_or_pandas_is_a_whole_number():
    chunk = Chunk("c", "text", source="s", position=np.int64(3))
    assert chunk.position == 3 and type(chunk.position) is int


def test_values_of_pandas_are_those_of_python():
    pandas = pytest.importorskip("pandas")
    chunk = Chunk("c", "text", metadata={"when": pandas.Timestamp("2024-05-01"), "gone": pandas.NaT, "na": pandas.NA})
    assert dict(chunk.metadata) == {"when": "2024-05-01T00:00:00"}


def test_a_gap_in_a_column_of_a_data_frame_is_no_value_of_the_chunk():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "id": ["a", "b"],
            "text": ["one", "two"],
            "source": ["s", None],
            "position": [4, None],
            "event_time": pandas.to_datetime(["2024-05-01", None], utc=True),
            "search_text": pandas.array(["first", None], dtype="string"),
        }
    )
    whole, gaps = (Chunk(**row) for row in frame.to_dict("records"))
    assert (whole.source, whole.position, whole.search_text) == ("s", 4, "first") and type(whole.position) is int
    assert gaps == Chunk("b", "two")


@pytest.mark.parametrize("field", ["id", "text"])
def test_a_chunk_without_id_or_text_is_refused_although_the_column_has_a_gap(field):
    with pytest.raises(InvalidChunk, match=field):
        Chunk(**{"id": "c", "text": "text", field: float("nan")})


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**10), max_value=10**10))
def test_a_decimal_of_up_to_15_digits_is_a_float_with_the_same_digits(value: Decimal):
    stored = Chunk("c", "text", metadata={"k": value}).metadata["k"]
    assert isinstance(stored, float) and Decimal(repr(stored)) == value


def test_a_chunk_whose_text_stays_is_written_with_its_stored_vector_and_not_embedded(tmp_path):
    model, note = CountingEmbedder(HashEmbedder(16)), Chunk("a", "The pear tree.", metadata={"price": 1})
    with HybridStore.open(tmp_path, embedder=model) as store:
        store.add([note, Chunk("b", "The fig tree.", search_text="fig")])
        before = store.vectors(["a", "b"])
        model.texts.clear()
        dearer = replace(note, metadata={"price": 2})
        batch = [dearer, Chunk("c", "The plum tree."), Chunk("b", "A fig tree.", search_text="fig")]
        assert store.add(batch).added == 3
        assert model.texts == ["The plum tree."]
        assert store.get(["a", "b", "c"]) == [batch[0], batch[2], batch[1]]
        assert np.array_equal(store.vectors(["a", "b"]), before)
        assert store.verify()
        store.add([Chunk("a", "The apple tree.")])
        assert model.texts == ["The plum tree.", "The apple tree."]
        assert not np.array_equal(store.vectors(["a"])[0], before[0])


def test_a_chunk_whose_text_stays_is_embedded_if_it_has_no_vector_and_takes_a_given_vector():
    model, note = CountingEmbedder(HashEmbedder(4)), Chunk("a", "The pear tree.")
    with HybridStore.open(embedder=model) as store:
        store.add([note], vectors=np.zeros((1, 4)))
        store.add([replace(note, metadata={"seen": True})])
        assert model.texts == ["The pear tree."]
        assert store.vectors(["a"]).any()
        store.add([replace(note, metadata={"seen": False})], vectors=[[0, 0, 0, 2.0]])
        assert store.vectors(["a"]).tolist() == [[0, 0, 0, 1]]
