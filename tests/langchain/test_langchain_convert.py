"""Documents to chunks and back."""

from __future__ import annotations

import copy
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from pathlib import PurePosixPath
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_text_splitters import CharacterTextSplitter

from umi_common.errors import InvalidChunk
from umi_common.frameworks.records import PlaceKeys
from umi_common.types import Chunk
from umi_langchain import UmiRetriever
from umi_langchain._convert import to_chunks, to_document

KEYS = PlaceKeys()


def one(text: str = "text", id: str | None = None, keys: PlaceKeys = KEYS, **metadata) -> Chunk:
    return to_chunks([Document(id=id, page_content=text, metadata=metadata)], keys, Counter())[1][0]


def test_a_document_keeps_its_id():
    assert one(id="d7").id == "d7"


def test_metadata_that_holds_itself_or_is_very_deep_is_refused_and_can_be_left_out():
    cycle: list = []
    cycle.append(cycle)
    deep: dict = {}
    for _ in range(5_000):
        deep = {"a": deep}
    for value in (cycle, deep):
        with pytest.raises(InvalidChunk, match="document 0: metadata holds itself, or is nested too deeply"):
            one(tree=value)
        both = [Document(page_content="tree", metadata={"tree": value}), Document(id="ok", page_content="a plain tree")]
        with UmiRetriever.from_documents(both, on_invalid="skip") as retriever:
            assert [document.id for document in retriever.invoke("tree")] == ["ok"] and len(retriever.skipped) == 1


def test_the_same_document_without_id_gets_the_same_id_in_every_run():
    assert one("text", n=1).id == one("text", n=1).id == "56a486874b4550ce0f99082e9961d94c"
    assert len({one("text", n=1).id, one("text", n=2).id, one("other", n=1).id}) == 3


def test_documents_without_id_that_say_the_same_are_one_chunk():
    same = [Document(page_content="page left blank", metadata={"source": "a"})] * 2
    ids, chunks = to_chunks(same, KEYS, Counter())
    assert len(ids) == 2 and [chunk.id for chunk in chunks] == ids[:1]


def test_two_documents_with_one_id_are_left_for_the_store_to_refuse():
    _, chunks = to_chunks([Document(id="x", page_content="a"), Document(id="x", page_content="b")], KEYS)
    assert [chunk.text for chunk in chunks] == ["a", "b"]


def test_source_position_and_time_come_from_the_metadata_and_stay_in_it():
    chunk = one(source="file.md", position=4, timestamp="2024-05-01T10:00:00+02:00")
    assert (chunk.source, chunk.position) == ("file.md", 4)
    assert chunk.event_time == datetime(2024, 5, 1, 8, tzinfo=timezone.utc)
    assert chunk.metadata["position"] == 4


def test_other_keys_can_hold_them():
    chunk = one(keys=PlaceKeys("file", "n", "when"), file="f", n=2, when=1_714_550_400, source="ignored")
    assert (chunk.source, chunk.position, chunk.event_time) == ("f", 2, datetime(2024, 5, 1, 8, tzinfo=timezone.utc))


def test_the_order_of_the_list_is_the_order_in_each_source():
    documents = [Document(page_content=str(n), metadata={"source": "ab"[n % 2]}) for n in range(4)]
    assert [(c.source, c.position) for c in to_chunks(documents, KEYS, Counter())[1]] == [
        ("a", 0), ("b", 0), ("a", 1), ("b", 1),
    ]  # fmt: skip


def test_a_splitters_start_index_orders_within_its_page():
    places = [(1, 0), (0, 800), (0, 0)]
    documents = [
        Document(page_content=f"{place}", metadata={"source": "a.pdf", "page": place[0], "start_index": place[1]})
        for place in places
    ]
    chunks = to_chunks(documents, KEYS, Counter())[1]
    assert [chunk.text for chunk in sorted(chunks, key=lambda chunk: chunk.position)] == [
        "(0, 0)",
        "(0, 800)",
        "(1, 0)",
    ]


def test_sections_split_once_more_keep_their_reading_order():
    sections = [Document(page_content=f"{n} one. {n} two.", metadata={"source": "a.md", "H": n}) for n in "ABC"]
    splitter = CharacterTextSplitter(separator=" ", chunk_size=6, chunk_overlap=0, add_start_index=True)
    documents = splitter.split_documents(sections)
    assert [document.metadata["start_index"] for document in documents] == [0, 7, 0, 7, 0, 7]
    for following in (Counter(), None):
        chunks = to_chunks(documents, KEYS, following)[1]
        in_order = [chunk.text for chunk in sorted(chunks, key=lambda chunk: chunk.position)]
        assert in_order == [document.page_content for document in documents]


def test_sections_of_several_pages_keep_their_reading_order():
    for places in ([(0, 0), (0, 50), (0, 0), (1, 20), (1, 20), (2, 40)], [("i", 0), ("i", 50), ("ii", 0), ("ii", 60)]):
        documents = [
            Document(page_content=f"{n}", metadata={"source": "a.pdf", "page": page, "start_index": start})
            for n, (page, start) in enumerate(places)
        ]
        positions = [chunk.position for chunk in to_chunks(documents, KEYS, Counter())[1]]
        assert positions == sorted(set(positions))


def test_a_document_that_is_given_twice_changes_no_position():
    document = Document(page_content="a", metadata={"source": "a", "start_index": 9})
    before = Document(page_content="b", metadata={"source": "a", "start_index": 0})
    assert [chunk.position for chunk in to_chunks([document, before, document], KEYS, Counter())[1]] == [9, 0]


def test_documents_that_a_splitter_did_not_find_in_their_text_keep_the_order_of_the_list():
    text = "\n\n\n\n".join(f"Clause {n} of the contract binds both parties." for n in range(6))
    splitter = CharacterTextSplitter(separator="\n\n", chunk_size=100, chunk_overlap=0, add_start_index=True)
    documents = splitter.create_documents([text], [{"source": "contract"}])
    assert {document.metadata["start_index"] for document in documents} == {-1}
    positions = [chunk.position for chunk in to_chunks(documents, KEYS, Counter())[1]]
    assert positions == list(range(len(documents)))
    assert {chunk.position for chunk in to_chunks(documents, KEYS)[1]} == {None}


def test_a_document_without_a_start_index_stands_behind_the_one_before_it():
    documents = [
        Document(page_content=f"text {start}", metadata={"source": "a", "start_index": start})
        for start in (0, 400, -1, 800)
    ]
    assert [chunk.position for chunk in to_chunks(documents, KEYS, Counter())[1]] == [0, 400, 401, 800]


def test_a_number_too_large_for_a_position_is_metadata_only():
    assert one(source="a", position=2**62).position is None
    assert one(source="a", start_index=2**62, page=1).position is None


def test_a_position_that_is_no_whole_number_is_metadata_only():
    assert [one(source="a", position=given).position for given in (3.0, 1.5, True)] == [3, 0, 0]


def test_without_a_source_there_is_no_position():
    assert one(position=3).position is None


@pytest.mark.parametrize(
    "value",
    [
        "00:01:23",
        "next week",
        83.5,
        True,
        [1],
        "2024-13-45",
        "2024-05-01T08:00+99:00",
        "0001-01-01T00:00+05:00",
        20_261_118_101_500,
        10.0**20,
    ],
)
def test_what_does_not_read_as_a_time_is_metadata_only(value):
    chunk = one(timestamp=value)
    assert chunk.event_time is None and "timestamp" in chunk.metadata


@pytest.mark.parametrize(
    "value, expected",
    [
        (datetime(2024, 5, 1, 10, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 5, 1, 8)),
        (date(2024, 5, 1), datetime(2024, 5, 1)),
        ("2024-05-01", datetime(2024, 5, 1)),
        ("2024-05-01T08:00:00", datetime(2024, 5, 1, 8)),
        ("2024-05-01 08:00:00Z", datetime(2024, 5, 1, 8)),
        ("2024-05-01T08:00:00.5Z", datetime(2024, 5, 1, 8, 0, 0, 500_000)),  # these four: also on Python 3.10
        ("2024-05-01 10:00:00.123456789+0200", datetime(2024, 5, 1, 8, 0, 0, 123_456)),
        ("2024-05-01T10:00+02", datetime(2024, 5, 1, 8)),
        ("2024-05-01T02:30:00,25-05:30", datetime(2024, 5, 1, 8, 0, 0, 250_000)),
        (np.float64(1_714_550_400.5), datetime(2024, 5, 1, 8, 0, 0, 500_000)),
    ],
)
def test_what_reads_as_a_time_is_utc(value, expected):
    assert one(timestamp=value).event_time == expected.replace(tzinfo=timezone.utc)


def test_a_missing_time_of_a_table_is_no_time_and_an_array_is_metadata_only():
    pandas = pytest.importorskip("pandas")
    for missing in (pandas.NaT, float("nan"), np.datetime64("NaT", "s"), np.array([1.5, 2.5])):
        assert one(timestamp=missing).event_time is None
    assert one(timestamp=np.array([1.5, 2.5])).metadata["timestamp"] == (1.5, 2.5)


def test_a_datetime_without_a_zone_is_refused_by_name():
    with pytest.raises(InvalidChunk, match=r"document 0: metadata\['timestamp'\] 2024-05-01T00:00:00 has no time zone"):
        one(timestamp=datetime(2024, 5, 1))


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value, back",
    [
        (datetime(2024, 5, 1), "2024-05-01T00:00:00"),
        (np.int64(3), 3),
        (np.array([[1.5, 2.0]]), [[1.5, 2.0]]),
        (np.array(3), 3),
        (np.array(["2024-05-01"], "datetime64[ns]"), ["2024-05-01T00:00:00"]),
        (np.array(["2024-05-01"], "datetime64[D]"), ["2024-05-01"]),
        (np.ma.masked_array([1, 2], [False, True]), [1, None]),
        (Colour.RED, "red"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (PurePosixPath("a/b"), "a/b"),
        ((1, "two"), [1, "two"]),
        ({"loc": {"lines": [1, 9]}}, {"loc": {"lines": [1, 9]}}),
        (None, None),
        ([], []),
    ],
)
def test_metadata_comes_back_as_what_it_stands_for(value, back):
    assert to_document(one(key=value, other=1), KEYS).metadata == {"key": back, "other": 1}


@pytest.mark.parametrize("value", [object(), b"bytes", {1: "a"}, float("inf"), 2**70, {"a": [object()]}])
def test_what_cannot_be_stored_is_refused_with_document_and_key(value):
    with pytest.raises(InvalidChunk, match=r"^document 1: .*metadata\['key'\]"):
        to_chunks([Document(page_content="fine"), Document(page_content="x", metadata={"key": value})], KEYS)


@pytest.mark.parametrize("metadata", [{1: "a"}, {1: "a", "b": "c"}])
def test_a_key_that_is_no_string_is_refused(metadata):
    with pytest.raises(InvalidChunk, match=r"^document 0: .*key .*int.*; expected str"):
        to_chunks([Document(page_content="text", metadata=metadata)], KEYS)


def test_a_position_of_a_table_with_gaps_is_a_position():
    assert one(source="a", position=3.0).position == 3
    assert one(source="a", position=0.5).position == 0, "the first of its source"


def test_a_blank_document_is_refused_by_its_place():
    with pytest.raises(InvalidChunk, match=r"^document 1: .*text is empty"):
        to_chunks([Document(page_content="fine"), Document(page_content="  ")], KEYS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "source", "position", "timestamp", "page", "_umi_json"]), json_values, max_size=4
    )
)
def test_whatever_json_can_say_comes_back_equal_and_the_document_is_untouched(metadata):
    document = Document(id="d", page_content="text", metadata=metadata)
    before = copy.deepcopy(document)
    back = to_document(to_chunks([document], KEYS, Counter())[1][0], KEYS)
    assert document == before == back


def test_a_chunk_from_elsewhere_shows_its_source_and_time():
    chunk = Chunk("c", "text", source="chat", position=2, event_time=datetime(2024, 5, 1, tzinfo=timezone.utc))
    assert to_document(chunk, KEYS).metadata == {"source": "chat", "timestamp": "2024-05-01T00:00:00+00:00"}


@pytest.mark.parametrize("value", ["no JSON", "3", "[1]", 7])
def test_a_chunk_with_another_value_under_the_key_of_nested_metadata_shows_it(value):
    chunk = Chunk("c", "text", metadata={"_umi_json": value})
    assert to_document(chunk, KEYS).metadata == {"_umi_json": value}


def test_an_empty_document_does_not_abort_the_copy_of_a_vector_store_and_is_named(embeddings, caplog, tmp_path):
    chroma = Chroma("with_a_blank_page", embeddings, persist_directory=str(tmp_path / "chroma"))
    chroma.add_documents([Document(id=id, page_content=text) for id, text in (("a", "One."), ("blank", " "))])
    retriever = UmiRetriever.from_vectorstore(chroma, copy=True)
    assert [document.id for document in retriever.invoke("one")] == ["a"]
    (record,) = [record for record in caplog.records if record.name == "umi"]
    assert record.getMessage() == "1 rows of the collection without text are left out: blank"
    retriever.close()
    chroma.delete_collection()


def test_a_german_or_american_date_is_a_time_that_periods_find():
    for written in ("18.11.2026", "11/18/2026", "2026/11/18", "Nov 18, 2026"):
        assert one(timestamp=written).event_time == datetime(2026, 11, 18, tzinfo=timezone.utc)


def test_a_date_that_may_be_may_or_june_is_said_once_and_not_dropped_in_silence(caplog):
    keys = PlaceKeys(time="written on")
    documents = [Document(page_content=f"text {i}", metadata={"written on": "05/06/2026"}) for i in range(3)]
    chunks = to_chunks(documents, keys)[1]
    assert [chunk.event_time for chunk in chunks] == [None] * 3
    (said,) = caplog.records
    assert said.levelname == "WARNING" and said.name == "umi"
    assert "metadata['written on'] is '05/06/2026'" in said.getMessage() and "ISO 8601" in said.getMessage()


def test_the_place_in_a_recording_is_no_time_and_not_worth_a_warning(caplog):
    documents = [Document(page_content="text", metadata={"at": 83.5})]
    assert to_chunks(documents, PlaceKeys(time="at"))[1][0].event_time is None
    assert not caplog.records
