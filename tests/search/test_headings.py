"""A heading that a splitter has left alone in a chunk brings the text below it."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.pool import NO_POSITION, NO_SOURCE, Pool
from umi_common.search.reorder.phrases import titles_held
from umi_common.search.reorder.sources import is_heading, rows_below

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
FIRST_DAY = datetime(2023, 6, 19, tzinfo=timezone.utc)
LODGINGS = ("a room above a bakery", "a houseboat", "a barn with hay", "the attic of a teacher", "a hut at the weir")
TOWNS = ("Norhampton", "Langrove", "Marlsford", "Penbury", "Hexley")
RIDE = (
    "We rode {km} kilometres to {town}, most of it along the river. The wind came from the front, and at a kiosk an "
    "old man told us about the flood. For the night we found {lodging}, and the window looked out on the water."
)
PLACE = {"town": "Hexley", "lodging": "a hut at the weir"}


def diary(*, dated: bool = False) -> list[Chunk]:
    """A day's heading and its paragraph, each a chunk."""
    chunks = []
    for at, (town, lodging) in enumerate(zip(TOWNS, LODGINGS, strict=True)):
        day = FIRST_DAY + timedelta(days=at)
        texts = (f"Day {at + 1}, {day:%A} {day.day} June", RIDE.format(km=61 + 7 * at, town=town, lodging=lodging))
        for below, text in enumerate(texts):
            time = day if dated else None
            name = f"day {at + 1}" + " text" * below
            chunks.append(Chunk(name, text, source="diary.md", position=2 * at + below, event_time=time))
    return chunks


@pytest.mark.parametrize("question", ["where did we sleep on day {}?", "km on day {}", "what went wrong on Day {}"])
def test_the_text_below_a_heading_comes_directly_behind_it(question):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(diary())
        for day in range(1, 6):
            assert umi.search(question.format(day), now=NOW).ids[:2] == [f"day {day}", f"day {day} text"]


def test_the_text_of_a_date_comes_behind_its_heading():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(diary(dated=True))
        found = umi.search("where did we stay on 21 June 2023?", now=NOW)
        assert found.ids[:2] == ["day 3", "day 3 text"]
        assert found[1].score <= found[0].score


def test_the_text_of_day_234_comes_behind_its_heading_although_400_headings_match_better():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(
            [
                Chunk(f"day {1 + at // 2}" + " text" * (at % 2), text, source="diary.md", position=at)
                for at, text in enumerate(
                    text for day in range(1, 401) for text in (f"Day {day}, Tuesday", RIDE.format(km=day, **PLACE))
                )
            ]
        )
        assert umi.search("where did we sleep on day 234?", now=NOW).ids[:2] == ["day 234", "day 234 text"]


def test_all_chunks_of_a_section_come_behind_its_heading_the_better_ones_first():
    section = (RIDE.format(km=61, **PLACE), f"We slept badly. {RIDE.format(km=9, **PLACE)[:-1]}")  # without its stop
    other = ("Day 5, Sunday", "A day of rest.")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        texts = ("Day 4, Saturday", *section, *other)
        store.add([Chunk(f"{at}", text, source="diary.md", position=at) for at, text in enumerate(texts)])
        assert umi.search("where have we slept on day 4?", now=NOW).ids[:3] == ["0", "2", "1"]


def test_a_short_entry_comes_behind_a_heading_with_a_number_and_a_colon():
    entries = [(f"Room {at}:", f"Two beds, a sink, key number {at * 7} with the porter.") for at in range(1, 30)]
    texts = [text for entry in entries for text in entry]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"{at}", text, source="rooms", position=at) for at, text in enumerate(texts)])
        assert umi.search("who has the key of room 12?", now=NOW).ids[:2] == ["22", "23"]


def test_the_chunk_below_has_at_least_the_relevance_of_its_heading_and_scores_fall():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(diary())
        hits = umi.search("where did we sleep on day 3?", now=NOW).hits
    assert hits[1].chunk.id == "day 3 text"
    assert hits[1].relevance == pytest.approx(hits[0].relevance)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize(
    ("message", "minutes", "raised"),
    [
        ("Day 9 at Mira's", 0, True),
        ("Day 9 at Mira's", 1, False),
        ("we sleep at Mira's on day 9", 0, False),
        ("Mira sleeps there on day 9.", 0, False),
        ("Mira: We sleep at the mill on day 9", 0, False),
    ],
)
def test_a_message_raises_no_other_message(message, minutes, raised):
    """It has its own time, begins with a small letter, ends with a full stop, or has a speaker."""
    reply = RIDE.format(km=70, town="Hexley", lodging="a hut")
    others = [Chunk(f"other {at}", f"Where did we sleep {at}?", source="notes", position=at) for at in range(3)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at, text in enumerate((message, reply)):
            time = FIRST_DAY + timedelta(minutes=minutes * at)
            store.add([Chunk(f"{at}", text, source="chat", position=at, event_time=time)])
        store.add(others)
        hits = umi.search("where did we sleep on day 9?", now=NOW).hits
    assert ("headings" in hits[0].stages) == raised


def test_no_text_is_read_if_no_candidate_has_a_longer_one_of_its_time_below_it():
    def pool(**fields: list[float]) -> Pool:
        given = {"source": [0, 0], "position": [0, 1], "length": [3, 40], "age_hours": [math.nan, math.nan], **fields}
        arrays = {
            name: np.array(values, dtype=np.float64 if name == "age_hours" else np.int64)
            for name, values in given.items()
        }
        return Pool.of(["a", "b"], lexical=np.array([[2.0, 1.0]]), **arrays)

    order = np.array([0, 1])
    assert rows_below(pool(), order) == {0: [1]}
    for fields in ({"position": [0, 2]}, {"source": [0, 1]}, {"length": [16, 40]}, {"length": [3, 5]}):
        assert rows_below(pool(**fields), order) == {}
    assert rows_below(pool(position=[NO_POSITION, 0]), order) == {}
    assert rows_below(pool(source=[NO_SOURCE, NO_SOURCE]), order) == {}
    for ages in ([5.0, 4.0], [5.0, math.nan], [math.nan, 5.0]):
        assert rows_below(pool(age_hours=ages), order) == {}
    assert rows_below(pool(age_hours=[5.0, 5.0]), order) == {0: [1]}


@pytest.mark.parametrize("text", ["Day 9, Tuesday", "# Care", "4.2 Liability", "  Öffnungszeiten:\n", "第3章"])
def test_a_line_with_a_number_a_sign_or_a_colon_is_the_heading_of_a_text_of_any_length(text):
    assert is_heading(Chunk("a", text), 2, 4)


def test_another_line_is_a_heading_only_before_a_paragraph():
    assert is_heading(Chunk("a", "Lemon tart"), 2, 30)
    assert not is_heading(Chunk("a", "Lemon tart"), 2, 29)
    assert not is_heading(Chunk("a", "Lemon tart with almonds and a crust of spelt flour"), 10, 39)
    assert not is_heading(Chunk("a", "Lemon tart", metadata={"speaker": "Mira"}), 2, 30)


@pytest.mark.parametrize("text", ["see you at nine", "It lasts two years.", "Who is there?", "Care\nWipe it", "好的。"])
def test_messages_and_sentences_are_no_headings(text):
    assert not is_heading(Chunk("a", text), 4, 60)


MANUAL = {
    "Encryption": "13 Encryption\n*************\n\nFor ethical or security reasons some data should not be readable.",
    "Fields": "13.1 Confidential fields\n\nThe format asks for no encryption algorithm. The encryption is by password, "
    "and encryption, once set, needs the encryption key.",
    "Frames": "## 6.3 Data frames\n\nA list of vectors of equal length. There are restrictions on the lists.",
    "Making": "## 6.3.1 Making data frames\n\nThe function makes data frames. Other data frames bind to data frames.",
    "Repeats": "1.4 Repeats\n===========\n\nRepetition is a central concept in music.",
    "Marks": "Manual repeat marks\n...................\n\nThe end repeat is drawn by hand; an end repeat needs a bar.",
    "Sieve": "C.3.4 Sieve programming\n\nA program for the mail server. Programming is done in a text file.",
}


@pytest.mark.parametrize(
    ("query", "section"),
    [
        ("encryption", "Encryption"),
        ("what is encryption?", "Encryption"),
        ("data frames", "Frames"),
        ("frames of data", "Frames"),
        ("6.3 Data frames", "Frames"),
        ("end repeat", "Marks"),
        ("repeats", "Repeats"),
        ("Sieve programming", "Sieve"),
    ],
)
def test_the_section_whose_heading_is_the_query_comes_first(query, section):
    with HybridStore.open() as store:
        store.add([Chunk(name, text, source=name, position=0) for name, text in MANUAL.items()])
        assert DualRetriever(store).search(query).ids[0] == section


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("programming", "C Programming\n\nA language for systems."),  # "C" is no number of a heading
        ("notes", "Notes"),  # nothing below it
        ("notes", "Notes of May\n\nWe met."),
        ("end repeat", "Repeat\n\nHow to write it."),
        ("when is the barbecue?", "Barbecue\n\nBring salad."),
        ("wann ist das Grillfest?", "Grillfest\n\nBitte Salat mitbringen."),
    ],
)
def test_no_other_line_is_the_heading_of_the_query(query, text):
    assert not titles_held([Chunk("a", text)], query, lambda text: text.lower().split()).any()


@pytest.mark.parametrize(
    ("search_text", "held"),
    [
        ("Guide\nEncryption\nIt hides.", True),
        ("Encryption\nFields\nIt hides.", False),
        ("Encryption >\nIt hides.", False),
    ],
)
def test_a_heading_that_is_searched_before_the_text_is_its_title(search_text, held):
    chunk = Chunk("a", "It hides.", search_text=search_text)
    assert titles_held([chunk], "encryption", str.split).any() == held


def test_a_title_that_lacks_the_period_of_the_query_does_not_come_first():
    template = "Sales report\n\nA sales report of the month begins with the sales, and then reports the reasons."
    months = ("March", "April", "May")
    texts = {f"{month} 2024": f"Sales report for {month} 2024\n\nRevenue rose in the north." for month in months}
    with HybridStore.open() as store:
        store.add([Chunk(name, text) for name, text in {**texts, "template": template}.items()])
        store.add([Chunk(f"lamp {n}", f"Lamp {n} is sold in the shop of town {n}.") for n in range(30)])
        assert [DualRetriever(store).search(f"sales report {month}").ids[0] for month in texts] == list(texts)
