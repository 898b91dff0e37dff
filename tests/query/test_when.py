"""The golden table of time phrases, written by hand: change tests/golden/when.jsonl on purpose or not at all."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stopwatch import processor_seconds

from umi_common.errors import InvalidTimeRange
from umi_common.query.time.find import find_time
from umi_common.query.time.grammar import RULES, Rule
from umi_common.query.time.stated import states_date_in
from umi_common.types import TimeRange

GOLDEN = Path(__file__).parents[1] / "golden" / "when.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
TIMED = [row for row in ROWS if row["kind"] is not None]
TIMELESS = [row for row in ROWS if row["kind"] is None]
NOW = datetime(2023, 6, 14, 15, 0, tzinfo=timezone.utc)  # a Wednesday


def moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def test_the_table_is_large_enough():
    assert len(TIMED) >= 120
    assert len(TIMELESS) >= 60


@pytest.mark.parametrize("row", TIMED, ids=lambda row: row["query"])
def test_a_phrase_means_the_range_in_the_table(row: dict[str, Any]):
    when = find_time(row["query"], datetime.fromisoformat(row["now"]))
    assert when is not None
    assert (when.range.start, when.range.end) == (moment(row["start"]), moment(row["end"]))
    assert when.kind == row["kind"]
    assert row["query"][slice(*when.span)] == when.phrase


@pytest.mark.parametrize("row", TIMELESS, ids=lambda row: row["query"])
def test_a_sentence_without_a_time_has_none(row: dict[str, Any]):
    assert find_time(row["query"], NOW) is None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.example)
def test_a_rule_reads_the_phrase_that_it_names(rule: Rule):
    query = f"due {rule.example}"
    match = rule.pattern.search(query)
    assert match is not None
    assert rule.resolve(match, NOW) is not None
    assert find_time(query, NOW) is not None


def test_a_clock_without_a_zone_is_refused():
    with pytest.raises(InvalidTimeRange, match="no time zone"):
        find_time("yesterday", NOW.replace(tzinfo=None))


@pytest.mark.parametrize(("plain", "odd"), [("s", "ſ"), ("i", "ı"), ("k", "\N{KELVIN SIGN}")])
def test_letters_of_old_prints_and_other_alphabets_that_equal_plain_ones_change_nothing(plain, odd):
    for row in TIMED:
        now = datetime.fromisoformat(row["now"])
        asked = row["query"].replace(plain, odd)
        assert find_time(asked, now) == find_time(row["query"], now), asked


@pytest.mark.parametrize("text", ["12 ſep 2023", "the thırd quarter of 2023", "Q3 2023, oKtober"])
def test_a_text_with_such_letters_ends_no_search_for_a_period(text):
    assert states_date_in(text, TimeRange(NOW.replace(month=1), NOW.replace(month=12)), NOW)


def test_upper_case_changes_nothing():
    for row in TIMED:
        now = datetime.fromisoformat(row["now"])
        upper, plain = find_time(row["query"].title(), now), find_time(row["query"], now)
        if upper is not None and plain is not None:
            assert upper.range == plain.range, row["query"]


def test_a_year_in_the_phrase_makes_it_dated():
    dated, relative = find_time("in March 2023", NOW), find_time("in March", NOW)
    assert dated is not None
    assert dated.dated
    assert relative is not None
    assert not relative.dated


@pytest.mark.parametrize(
    ("query", "yearless"),
    [
        ("Boots on 19 May", True),
        ("in May", True),
        ("from 3 to 5 March", True),
        ("19 May 2023", False),
        ("19 May 23", False),
        ("in May 2023", False),
        ("last May", False),
        ("yesterday", False),
    ],
)
def test_a_date_or_month_without_a_year_is_yearless(query, yearless):
    when = find_time(query, NOW)
    assert when is not None
    assert when.yearless == yearless
    assert when.dated == ("23" in query)


def test_a_day_has_twenty_three_hours_where_clocks_go_forward():
    zoneinfo = pytest.importorskip("zoneinfo")
    try:
        berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    except zoneinfo.ZoneInfoNotFoundError:
        pytest.skip("no time zone database on this machine")
    when = find_time("yesterday", datetime(2023, 3, 27, 9, 0, tzinfo=berlin))
    assert when is not None
    assert when.range.start is not None
    assert when.range.end is not None
    assert when.range.end - when.range.start == timedelta(hours=23)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_text_breaks_it(text: str):
    when = find_time(text, NOW)
    assert when is None or text[slice(*when.span)] == when.phrase


WORDS = sorted({word for row in ROWS for word in row["query"].split()})


@given(st.lists(st.sampled_from(WORDS), max_size=12))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_order_of_time_words_breaks_it(words: list[str]):
    query = " ".join(words)
    when = find_time(query, NOW)
    assert when is None or query[slice(*when.span)] == when.phrase


@given(st.sampled_from(TIMED), st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_anchor_breaks_it(row: dict[str, Any], now: datetime):
    find_time(row["query"], now.replace(tzinfo=timezone.utc))


@pytest.mark.parametrize(
    "piece",
    ["last ", "may ", "1 ", "the ", "2 weeks ago ", "between ", " ", "20", "in the ", "a few ", "May 5 2023 and "],
)
def test_ten_thousand_bytes_of_near_misses_are_read_in_linear_time(piece: str):
    query = (piece * 10_000)[:9_990] + " may 2023"
    assert (
        processor_seconds(lambda: find_time(query, NOW)) < 0.5
    )  # it takes milliseconds; exponential patterns never end


def test_a_query_without_time_words_costs_microseconds():
    query = "What is the name of my cat and where did I buy her food?"
    assert min(processor_seconds(lambda: find_time(query, NOW)) for _ in range(50)) < 50e-6


@pytest.mark.parametrize(
    "text, date",
    [
        ("5/8/2023", (2023, 5, 8)),
        ("25/8/2023", (2023, 8, 25)),
        ("8.5.2023", (2023, 5, 8)),
        ("8.25.2023", (2023, 8, 25)),
        ("05-08-1999", (1999, 5, 8)),
        ("5/8/68", (2068, 5, 8)),
        ("5/8/69", (1969, 5, 8)),
        ("30/2/2023", None),
        ("2/30/12", None),
        ("13/13/2023", None),
    ],
)
def test_a_numeric_date_is_read_month_first_with_slashes_and_day_first_with_dots(text, date):
    when = find_time(f"on {text}", NOW)
    found = None if when is None or when.range.start is None else when.range.start
    assert (None if found is None else (found.year, found.month, found.day)) == date


BERLIN_SPRING = "2024-03-31T01:30:00"  # at 2:00 clocks go to 3:00
BERLIN_AUTUMN = "2024-10-27T03:30:00"  # at 3:00 clocks went back to 2:00


def in_berlin(wall: str) -> datetime:
    zoneinfo = pytest.importorskip("zoneinfo")
    try:
        return datetime.fromisoformat(wall).replace(tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    except zoneinfo.ZoneInfoNotFoundError:
        pytest.skip("no time zone database on this machine")


@pytest.mark.parametrize("phrase, first, last", [("in the next two hours", 0, 120), ("next hour", 30, 90)])
@pytest.mark.parametrize("wall", [BERLIN_SPRING, BERLIN_AUTUMN])
def test_hours_and_minutes_are_those_that_pass_also_where_clocks_change(phrase: str, first: int, last: int, wall: str):
    now = in_berlin(wall)
    when = find_time(f"what happens {phrase}", now)
    assert when is not None
    assert when.range.start is not None
    assert when.range.end is not None
    since = (when.range.start - now.astimezone(timezone.utc), when.range.end - now.astimezone(timezone.utc))
    assert since == (timedelta(minutes=first), timedelta(minutes=last))


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("what happened a day after 10 May 2023?", (2023, 5, 11), (2023, 5, 12)),
        ("two days after 10 May 2023", (2023, 5, 12), (2023, 5, 13)),
        ("a couple of days after 10 May 2023", (2023, 5, 11), (2023, 5, 14)),
        ("during the three days after 10 May 2023", (2023, 5, 11), (2023, 5, 14)),
        ("in the two weeks before Christmas 2022", (2022, 12, 10), (2022, 12, 24)),
        ("from 28 February 2021 to 3 March", (2021, 2, 28), (2021, 3, 4)),
        ("from 28 December 2021 to 3 March", (2021, 12, 28), (2022, 3, 4)),
        ("2 days before 10 May 2023", (2023, 5, 8), (2023, 5, 9)),
        ("two months after May 2022", (2022, 7, 1), (2022, 8, 1)),
        ("two years after 2020", (2022, 1, 1), (2023, 1, 1)),
        ("three days after Christmas 2022", (2022, 12, 29), (2022, 12, 30)),
    ],
)
def test_days_after_a_day_are_counted_from_that_day(query, start, end):
    when = find_time(query, datetime(2023, 5, 18, tzinfo=timezone.utc))
    assert when is not None
    assert (when.range.start, when.range.end) == tuple(datetime(*day, tzinfo=timezone.utc) for day in (start, end))


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("since the Sunday before 10 May 2023", datetime(2023, 5, 7, tzinfo=timezone.utc), None),
        ("until the day after 10 May 2023", None, datetime(2023, 5, 12, tzinfo=timezone.utc)),
    ],
)
def test_since_and_until_also_bound_a_day_beside_another_one(query, start, end):
    when = find_time(query, datetime(2023, 5, 18, tzinfo=timezone.utc))
    assert when is not None
    assert (when.range.start, when.range.end) == (start, end)


def test_three_hours_before_the_clocks_went_back():
    when = find_time("in the last three hours", in_berlin(BERLIN_AUTUMN))
    assert when is not None
    assert when.range.start == datetime(2024, 10, 26, 23, 30, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "now, year", [((2024, 3, 1), 2024), ((2025, 3, 1), 2024), ((2024, 2, 1), 2020), ((1903, 5, 1), 1896)]
)
def test_a_leap_day_without_a_year_is_the_latest_that_there_was(now: tuple[int, int, int], year: int):
    when = find_time("what happened on February 29?", datetime(*now, tzinfo=timezone.utc))
    assert when is not None
    assert when.range.start == datetime(year, 2, 29, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "query, text",
    [
        ("Termin am 2. Oktober", "[24.09.25] Jonas: Heizungsableser kommt am 02.10. um 9:15"),
        ("Zahnarzt am 5. Juli", "Termine:\n- 05.07. Zahnarzt\n- 12.07. Friseur"),
        ("Zahnarzt am 5. Juli", "Friseur Mo., 3.7., Zahnarzt am Mittwoch, 5.7."),
        ("what was repaired on 17 February", "Potholes reported on 3/2, repaired on 17/2."),
        ("dinner on 28 November", "28/11 dinner with Iris"),
        ("delivery on 17 February", "Not on Mon, on 17/2."),  # Mon is another day than 17/2, a Friday
    ],
)
def test_a_text_may_state_a_day_in_digits_without_a_year(query: str, text: str):
    assert states_period_of(query, text)


def states_period_of(query: str, text: str) -> bool:
    when = find_time(query, NOW)
    assert when is not None
    return states_date_in(text, when.range, NOW)


@pytest.mark.parametrize(
    "query, text",
    [
        ("Termin am 2. Oktober", "kommt am 02.10.2019"),  # another year
        ("in March", "4.3. Setup"),  # a section: only a day is read in such digits
        ("on 3 May", "3.5. Setup"),  # the number of a section
        ("on 24 July", "support is open 24/7"),
        ("on 2 October", "Table 2.10, section 2.10.1"),
        ("on 17 February", "lens 17/2.8, 17/20 points"),
        ("on 17 February", "Room 17/2, rated 17/2 by invoice 17/2"),
        ("on 16 September", "a 16/9 screen"),
        ("on 3 November", "We run Python 3.11. It is fast, see section 3.11."),
    ],
)
def test_other_digits_with_points_or_slashes_state_no_day(query: str, text: str):
    assert not states_period_of(query, text)


@pytest.mark.parametrize("query", ["18.10.22 run", "results of 18.10.22", "18.10.22"])
def test_a_day_in_digits_with_points_needs_no_word_before_it(query: str):
    when = find_time(query, NOW)
    assert when is not None
    assert when.range.start == datetime(2022, 10, 18, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "query",
    [
        *("node 18.19.22", "server 10.10.10.12", "python 3.10.12", "release 1.18.10.22"),
        *("version 18.10.22 leak", "what does § 18.10.22 say", "Section 18.10.22"),
    ],
)
def test_versions_addresses_and_sections_are_no_days(query: str):
    assert find_time(query, NOW) is None


JOINS = ["between {} and {}", "from {} to {}", "two decades before {} until {}", "999 years after {}", "since {} by {}"]
ENDS = [
    "0001-01-01",
    "9999-12-31",
    "February 29",
    "the fifth week of February",
    "March 5 2023",
    "last hour",
    "last night",
]


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("zone", [timezone.utc, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])
def test_no_two_periods_break_a_search_that_joins_them(join: str, zone: timezone):
    for first in ENDS:
        for last in ENDS:
            for now in (NOW, datetime(2, 1, 1, tzinfo=timezone.utc), datetime(9998, 12, 31, tzinfo=timezone.utc)):
                find_time(join.format(first, last), now.astimezone(zone))


@pytest.mark.parametrize("query", ["notes from November about the heating", "letters of November to the landlord"])
def test_a_month_after_from_or_of_is_a_period_within_a_query_too(query: str) -> None:
    found = find_time(query, NOW)
    assert found is not None
    assert (found.range.start, found.range.end) == tuple(
        datetime(NOW.year - 1, month, 1, tzinfo=timezone.utc) for month in (11, 12)
    )
