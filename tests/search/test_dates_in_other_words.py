"""A document is found by its date, however the question and the document write it."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.query.time.find import find_time
from umi_common.query.time.stated import written
from umi_common.sim import HashEmbedder

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
DAYS = [date(2012, 1, 1) + timedelta(days=at) for at in range(1_500)]
WAYS = {
    "ISO": "{:%Y-%m-%d}",
    "English": "{0.day} {0:%B} {0.year}",
    "American": "{0:%B} {0.day}, {0.year}",
    "short": "{0:%d %b %Y}",
    "German": "{0.day}.{0.month}.{0.year}",
    "padded": "{:%d.%m.%Y}",
}


@pytest.fixture(scope="module", params=WAYS)
def umi(request):
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as made:
        store.add(
            [Chunk(day.isoformat(), f"Letter of {WAYS[request.param].format(day)} to the council.") for day in DAYS]
        )
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_a_letter_is_found_by_its_date_in_any_form(umi, way: str):
    for day in DAYS[7::211]:
        assert umi.search(f"the letter of {WAYS[way].format(day)}", now=NOW).ids[0] == day.isoformat()


def test_a_letter_of_the_month_is_found_by_its_short_name():
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk(day.isoformat(), f"Letter of {day:%d %b %Y} to the council.") for day in DAYS])
        assert umi.search("letters of March 2014", now=NOW).ids[0].startswith("2014-03")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_question_about_the_first_day_of_the_calendar_is_answered(zone: str):
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk("a", "Rows without a date hold 0001-01-01."), Chunk("b", "The council met on Monday.")])
        assert umi.search("why is created 0001-01-01?", now=NOW.astimezone(ZoneInfo(zone))).ids[0] == "a"


def test_the_words_of_a_day_a_month_and_a_year():
    def words(query: str) -> str:
        return written(find_time(query, NOW).range)

    assert words("on 7 March 2023") == "7 march 2023-03-07 mar märz maerz mars marzo março maart"
    assert words("in March 2023") == "march 2023 03 mar märz maerz mars marzo março maart"
    assert words("in 2023") == ""
    now = NOW.astimezone(ZoneInfo("Asia/Tokyo"))
    assert written(find_time("on 7 March 2023", now).range, now.tzinfo) == words("on 7 March 2023")


def test_the_line_of_a_statement_is_found_by_its_day_alone():
    shops = ("Bakery", "Rail tickets", "Bookshop", "Cinema", "Pharmacy", "Salary")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at in range(60):
            day = f"{1 + 7 * at % 28:02}.{1 + at % 12:02}.2026"
            store.add([Chunk(day, f"{day}  {shops[at % 6]}  -{17 + 3 * at}.40", source=f"2026-{at % 12}", position=at)])
        for day, asked in (
            ("01.01.2026", "1 January 2026"),
            ("22.08.2026", "August 22, 2026"),
            ("08.02.2026", "8. Februar 2026"),
        ):
            assert umi.search(f"what was booked on {asked}?", limit=1).ids == [day]
