"""A time phrase in the query lifts chunks that lie in the period or state it; only the caller filters."""

from __future__ import annotations

import timeit
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from umi_common import Chunk, DualRetriever, HybridStore, TimeRange, UmiConfig
from umi_common.errors import ConfigError
from umi_common.query.time.stated import states_date_in
from umi_common.sim import HashEmbedder

NOW = datetime(2024, 6, 12, 12, tzinfo=timezone.utc)


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


MENU = [
    Chunk(f"menu-{i}", f"Lunch menu: soup of the day, {dish}, coffee", event_time=day(f"2023-03-{i + 1:02}"))
    for i, dish in enumerate(["lentils", "fish", "noodles", "pie", "beans", "rice", "stew", "salad", "curry", "pasta"])
]
"""Crawled in March 2023."""


def found(query: str, *chunks: Chunk, limit: int = 10, when: dict | None = None, **options) -> list[str]:
    config = UmiConfig(when=when or {})
    with HybridStore.open() as store, DualRetriever(store, config=config, clock=lambda: NOW) as umi:
        store.add(chunks)
        return umi.search(query, limit=limit, **options).ids


def test_a_letter_that_says_its_date_is_found_and_not_the_menu_that_was_crawled_then():
    letter = Chunk("letter", "Acme, 14 March 2023. Dear Ms Weber, we accept your offer for the steel bolts.")
    assert found("Acme's letter of March 2023", letter, *MENU)[0] == "letter"


def test_a_letter_that_says_its_date_beats_letters_of_other_dates_that_were_crawled_then():
    dates = ["2 June 2021", "2021-07-09", "Jan 5, 2022", "14 March 2023", "9/30/2022", "11.12.2020"]
    letters = [
        Chunk(
            f"letter-{i}",
            f"Letter from Acme to Ms Weber, {date}: we accept your offer.",
            event_time=None if date == "14 March 2023" else day(f"2023-03-{10 + i}"),
        )
        for i, date in enumerate(dates)
    ]
    assert found("Acme's letter of March 2023", *letters, *MENU)[0] == "letter-3"
    assert found("Acme's letter of March 14, 2023", *letters, *MENU)[0] == "letter-3"
    assert found("the letter that Acme sent in spring 2023", *letters, *MENU)[0] == "letter-3"


MAYORS = [
    Chunk(f"{town} {start}", f"{name} was mayor of {town} ({start}{sign}{end}).")
    for town in ("Rochester", "Doncaster", "Stamford")
    for name, start, sign, end in (("Ann", 1974, "-", 1987), ("Bob", 1987, "–", 94), ("Cyd", 1994, " to ", 2003))
]


@pytest.mark.parametrize(("year", "start"), [(1980, 1974), (1992, 1987), (1999, 1994), (2001, 1994)])
def test_a_year_within_a_range_of_years_is_stated(year: int, start: int):
    for town in ("Rochester", "Doncaster", "Stamford"):
        assert found(f"who was mayor of {town} in {year}?", *MAYORS)[0] == f"{town} {start}"


def test_a_day_is_not_stated_by_a_range_of_years():
    april = TimeRange(day("1996-04-01"), day("1996-04-02"))
    assert not states_date_in("mayor 1994-2001", april, NOW)
    year = TimeRange(day("1996-01-01"), day("1997-01-01"))
    assert states_date_in("mayor 1994-2001, then none", year, NOW)
    assert not states_date_in("call 1994-2001-77, part 1994/2001/3, file 7/1994-2001", year, NOW)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Auckland", "America/New_York"])
def test_a_range_of_years_states_a_winter_but_no_january_in_any_time_zone(zone: str):
    new_year, now = datetime(2023, 1, 1, tzinfo=ZoneInfo(zone)), NOW.astimezone(ZoneInfo(zone))
    february, one_o_clock = new_year.replace(month=2), new_year.replace(hour=1)
    assert not states_date_in("the team of 2022/23", TimeRange(new_year, february), now)
    assert not states_date_in("the team of 2022/23", TimeRange(new_year, one_o_clock), now)
    assert states_date_in("the team of 2022/23", TimeRange(new_year.replace(2022, 12), new_year.replace(month=3)), now)


def test_a_month_of_a_year_is_no_range_of_years():
    year = TimeRange(day("2011-01-01"), day("2012-01-01"))
    assert states_date_in("mayor 2009-13, then none", year, NOW)
    assert not states_date_in("minutes of 2010-12, and of 2009/11", year, NOW)


DIARY = [
    Chunk(f"turn-{i}", f"I said that I would {doing}.", event_time=NOW - timedelta(hours=9 * i))
    for i, doing in enumerate(["call the plumber", "paint the kitchen", "read a novel", "sell the bike"] * 300)
]
"""A memory of 1,200 turns, the last of today, and notes that hold more words of the questions."""
NOTES = [Chunk(f"note-{i}", f"What did I say? What did I tell you? Our chats, note {i}.") for i in range(300)]


ONLY_A_PERIOD = [
    "what did I say yesterday",
    "what did I tell you on Tuesday",
    "our chats of 11 June",
    "what was said yesterday?",
    "what happened yesterday",
    "minutes of the meeting of Tuesday, 11 June 2024",
]


@pytest.mark.parametrize("when", [{}, {"boost": 0.0, "dated_boost": 0.0}])
@pytest.mark.parametrize("query", ONLY_A_PERIOD)
def test_a_question_for_nothing_but_a_period_is_answered_from_that_period_first(query, when):
    hits = found(query, *DIARY, *NOTES, when=when)
    assert set(hits[:3]) == {"turn-2", "turn-3", "turn-4"} and len(hits) == 10


PLANS = [
    Chunk("dentist", "Dentist at nine.", event_time=day("2024-07-09")),
    Chunk("flight", "Flight to Rome.", event_time=day("2024-07-20")),
    Chunk("tax", "Tax form to the office.", event_time=day("2024-06-13")),
]


@pytest.mark.parametrize("query", ["what is planned next month", "what's on next month?", "any plans for next month"])
def test_a_question_for_the_plans_of_a_period_is_answered_from_that_period_first(query):
    assert set(found(query, *PLANS, *DIARY, *NOTES)[:2]) == {"dentist", "flight"}


def test_what_is_due_by_a_weekday_is_not_what_was_done_by_the_last_one():
    assert found("what is due by Friday", *PLANS, *DIARY, *NOTES)[0] == "tax"


def test_a_question_for_a_day_of_the_month_finds_the_latest_such_day():
    rent = [Chunk(f"{at}", "Paid the rent.", event_time=day(f"2024-0{at}-05")) for at in (3, 4, 5, 6)]
    assert found("what did we pay on the 5th?", *rent, *DIARY, *NOTES)[0] == "6"


def test_a_text_that_says_the_month_does_not_pass_the_notes_of_the_day_that_is_asked_for():
    notes = [Chunk(text, text, event_time=day("2024-02-20")) for text in ("Rain all day.", "Ole was ill.")]
    undated = Chunk("undated", "In February 2024 the notes were lost.")
    others = [Chunk(f"x{at}", f"The bike is in shed {at}.") for at in range(20)]
    assert found("notes of 20 February 2024", *notes, undated, *others)[:3] == [
        "Ole was ill.",
        "Rain all day.",
        "undated",
    ]


def test_notes_that_have_a_date_only_are_those_of_that_day_at_whatever_moment_one_asks():
    notes = [Chunk(f"2024-05-{n:02}", "Checked the pump.", event_time=day(f"2024-05-{n:02}")) for n in range(1, 32)]
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add(notes)
        for n, note in enumerate(notes):
            now = NOW + timedelta(microseconds=7_919_333 * n)
            assert umi.search(f"pump on {note.id}", now=now).ids[0] == note.id


def test_notes_that_have_a_date_only_are_those_of_that_day_west_of_greenwich_too():
    now = datetime(2024, 6, 12, 12, tzinfo=ZoneInfo("America/New_York"))
    notes = [
        Chunk(f"day-{i}", f"I said that I would {doing}.", event_time=day("2024-06-11") - timedelta(days=i))
        for i, doing in enumerate(["call the plumber", "paint the kitchen", "read a novel", "sell the bike"] * 100)
    ]
    assert found("what did I say yesterday", *notes, *NOTES, now=now)[0] == "day-0"


def test_a_note_that_has_a_date_only_is_found_by_a_day_before_the_clocks_changed():
    now = datetime(2024, 7, 12, 12, tzinfo=ZoneInfo("America/New_York"))
    note = Chunk("note", "Quiet; the pump was serviced.", event_time=day("2024-02-01"))
    fillers = [Chunk(f"f{n}", f"what happened to pump {n}", event_time=day("2023-05-05")) for n in range(400)]
    assert found("what happened on February 1", note, *fillers, now=now)[0] == "note"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_as_a_filter_a_day_holds_the_notes_that_have_its_date_only(zone: str):
    now = datetime(2024, 6, 12, 12, tzinfo=ZoneInfo(zone))
    notes = [Chunk(f"2024-06-{n:02}", "I checked the pump.", event_time=day(f"2024-06-{n:02}")) for n in range(8, 12)]
    assert found("what did I say yesterday about the pump", *notes, when={"mode": "filter"}, now=now) == ["2024-06-11"]


def test_a_text_that_says_the_day_is_found_east_of_greenwich():
    now = datetime(2024, 6, 12, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    note = Chunk("note", "2024-06-11: quiet; the pump was serviced.")
    fillers = [Chunk(f"f{n}", f"yesterday pump {n} was idle") for n in range(400)]
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([note, *fillers])
        assert umi.search("what happened yesterday", now=now).ids[0] == "note"


@pytest.mark.parametrize(
    "fails",
    [lambda options: options["window"] is not None, lambda options: options["strategy"] == "text"],
    ids=["chunks of the period", "chunks that state it"],
)
def test_a_store_that_fails_while_the_period_is_looked_up_answers_without_it_and_says_so(fails):
    with HybridStore.open() as store:
        store.add([*DIARY, *NOTES])

        class Failing:
            def recall(self, probes, **options):
                if fails(options):
                    raise OSError("disk")
                return store.recall(probes, **options)

            def __getattr__(self, name):
                if name == "recall_many":
                    raise AttributeError(name)
                return getattr(store, name)

        result = DualRetriever(Failing(), clock=lambda: NOW).search("what did I say yesterday")
    assert len(result.hits) == 10
    (loss,) = result.degraded
    assert (loss.part, loss.reason) == ("period", "OSError")


def test_a_turn_of_yesterday_is_found_among_a_thousand_on_the_same_matter():
    plumbers = [
        Chunk(f"old-{i}", f"The plumber and I met: plumber, tap {i}.", event_time=NOW - timedelta(days=30 + i))
        for i in range(1_000)
    ]
    call = Chunk("call", "The plumber says that the tap can wait.", event_time=NOW - timedelta(days=1))
    assert found("what did I say about the plumber yesterday", *plumbers, call)[0] == "call"


def test_a_question_for_a_matter_too_puts_other_days_before_other_matters():
    hits = found("what did I say about the plumber yesterday", *DIARY)
    assert "call the plumber" in DIARY[int(hits[0].removeprefix("turn-"))].text


def test_what_was_said_yesterday_comes_before_better_matches_of_other_days():
    """Yesterday's purchase may have been told of today, or be another day's: the best match of all follows at once."""
    ola = Chunk("ola", "Ola rang, she is expecting a baby in December.", event_time=NOW - timedelta(days=1))
    said = ["lives in Hamburg.", "is a nurse.", "has a new car.", "bought a house."]
    bought = [f"I bought {what} at the market." for what in ("bread", "milk", "tea")]
    others = [
        Chunk(text, text, event_time=NOW - timedelta(days=30 * at + 5))
        for at, text in enumerate([*(f"My sister Ola {each}" for each in said), *bought])
    ]
    assert found("What did I say yesterday about my sister Ola?", ola, *others)[0] == "ola"
    assert found("What did my sister Ola buy yesterday?", ola, *others)[:2] == ["ola", "My sister Ola bought a house."]
    assert found("What did I say yesterday about my sister Ola?", ola, *others, when={"boost": 0.0})[0] != "ola"


@pytest.mark.parametrize("query", ["notes on the harbour of last March", "harbour in the first week of March"])
def test_the_last_or_first_of_a_period_does_not_put_the_latest_or_first_text_before_others(query):
    chunks = [Chunk(f"{d}", "Notes on the harbour.", event_time=day(f"2024-03-0{d}")) for d in range(1, 7)]
    with HybridStore.open() as store, DualRetriever(store, clock=lambda: NOW) as umi:
        store.add(chunks)
        assert all("time_order" not in hit.stages for hit in umi.search(query).hits)


@pytest.mark.parametrize(
    ("query", "said", "filler"),
    [
        ("Was habe ich letzte Woche gesagt?", "Mein Knie ist gereizt.", "Was habe ich gesagt, was soll ich kochen?"),
        ("Qu'est-ce que j'ai dit la semaine dernière ?", "Mon genou me fait mal.", "Qu'est-ce que j'ai dit ?"),
        ("¿Qué dije la semana pasada?", "Me duele la rodilla.", "¿Qué dije y qué cocino?"),
        ("我上周说了什么?", "我的膝盖受伤了。", "我说什么好呢?"),
    ],
)
def test_what_was_said_last_week_comes_first_in_other_languages_too(query, said, filler):
    others = [Chunk(f"{at}", filler, event_time=NOW - timedelta(days=40 + at)) for at in range(3)]
    assert found(query, Chunk("said", said, event_time=NOW - timedelta(days=7)), *others)[0] == "said"


@pytest.mark.parametrize(
    ("now", "yesterday"),
    [
        (datetime(2024, 10, 28, 0, 30, tzinfo=ZoneInfo("Europe/Berlin")), "27T20:00:00+01:00"),
        (datetime(2024, 10, 28, 21, 0, tzinfo=ZoneInfo("America/New_York")), "27T09:00:00-04:00"),
        (
            datetime(2024, 10, 28, 21, 0, tzinfo=ZoneInfo("America/New_York")),
            "27T00:00:00+00:00",
        ),  # a date without a time
        (datetime(2024, 10, 28, 9, 0, tzinfo=ZoneInfo("Asia/Tokyo")), "27T00:00:00+00:00"),
        (datetime(2024, 10, 28, 12, 0, tzinfo=timezone.utc), "27T12:00:00+00:00"),
    ],
)
def test_yesterday_is_the_day_before_in_the_time_zone_of_now(now, yesterday):
    notes = [
        Chunk("before", "The roofers came by at noon.", event_time=datetime.fromisoformat("2024-10-26T12:00:00+00:00")),
        Chunk("on the day", "The roofers came by at noon.", event_time=datetime.fromisoformat(f"2024-10-{yesterday}")),
        Chunk("today", "The roofers came by at noon.", event_time=datetime.fromisoformat("2024-10-28T05:00:00+00:00")),
    ]
    assert found("did the roofers come yesterday?", *notes, now=now)[0] == "on the day"


def test_chunks_without_a_time_and_of_other_times_stay_in_the_result():
    notes = [
        Chunk("dated", "Minutes of the harbour meeting", event_time=day("2023-03-08")),
        Chunk("undated", "Minutes of the harbour meeting, as typed by Ann"),
        Chunk("later", "Minutes of the harbour meeting, second copy", event_time=day("2023-04-02")),
    ]
    result = found("minutes from March 2023 about the harbour meeting", *notes)
    assert result[0] == "dated" and sorted(result) == ["dated", "later", "undated"]
    assert found("what did we note last week about the harbour", *notes)


def test_a_filter_by_phrase_is_an_option_and_a_time_range_filters_always():
    notes = [
        Chunk("dated", "Notes of the harbour meeting", event_time=day("2023-03-08")),
        Chunk("undated", "Notes of the harbour meeting, as typed by Ann"),
    ]
    query = "notes from March 2023 about the harbour"
    assert sorted(found(query, *notes)) == ["dated", "undated"]
    assert found(query, *notes, when={"mode": "filter"}) == ["dated"]
    assert found(query, *notes, time_range=(day("2023-03-01"), day("2023-04-01"))) == ["dated"]


def test_the_result_says_how_many_chunks_a_phrase_lifted():
    letter = Chunk("letter", "Acme, 14 March 2023. We accept your offer.")
    with HybridStore.open() as store, DualRetriever(store, clock=lambda: NOW) as umi:
        store.add([letter, *MENU])
        result = umi.search("Acme's letter of March 2023")
    assert result.trace["read dates"].facts["said"] == 1
    assert result.trace["lift period"].facts["lifted"] == 1 + len(MENU)


MARCH = TimeRange(day("2023-03-01"), day("2023-04-01"))


@pytest.mark.parametrize(
    "text",
    [
        "signed in March 2023 by Ann",
        "Mar. 2023",
        "on 3 March 2023",
        "on the 3rd of March, 2023",
        "March 3, 2023",
        "dated 2023-03-31.",
        "2023-03",
        "2023/3/9",
        "3/9/2023",
        "31.03.2023",
        "MARCH 2023",
        "from 1 April 2022 to 2 March 2023",
        "14 Mar 23",
        "14-Mar-2023",
        "14-MAR-23  CARD PAYMENT  12.40",
        "[14/Mar/2023:10:15:00 +0000] GET /",
        "Mar-2023",
        "14 Mar '23",
        "March 14, '23",
        "14/03/23",
        "3/14/23",
        "14.03.23",
        "14. 3. 2023",
        "backup of 20230314.",
        "20230314 BOOTS 12.40",
        "14 Mar 16 Mar 23 BOOTS",
        "14 Mar  BOOTS  12.40",
        "14 Mar 22:15 to 23:00",
        "14 Mar 23.50 DR",
        "Call Ann on March 14th",
        "14MAR23 BOOTS",
        "14Mar BOOTS",
        "03/2023 olive oil 4.20",
        "paid:\n03/14 BOOTS 12.40",
        "14/03: Ken was late",
        "march 14 boots 12.40",
        "14 MARCH BOOTS",
        "signed in March of 2023",
        "Wed, 14 March 2023",
        "Tue 14 Mar BOOTS",
        "Tue, 14.03.23 BOOTS",
        "14.03.23: met the roofers, see section 14.03.23",
        "Backup of 20230314 done. Ticket id 20230314.",
    ],
)
def test_a_text_states_a_date_in_the_period(text):
    assert states_date_in(text, MARCH, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "am 14. März 2023 um 9 Uhr",
        "le 14 mars 2023 pour 367 €",
        "le 1er mars 2023",
        "El 14 de marzo de 2023 compramos naranjas",
        "il 1º marzo 2023",
        "em 14 de março de 2023",
        "op 14 maart",
        "facture de mars 2023",
        "marzo del 2023",
        "会议于2023年3月14日举行",
        "歯医者は3月14日の15時",
        "2023年3月の売上",
    ],
)
def test_a_text_in_another_language_states_a_date_in_the_period(text):
    assert states_date_in(text, MARCH, NOW)


@pytest.mark.parametrize(
    "text", ["le 14 mai 2023", "14 de marzo de 2022", "2023年13月", "2022年3月14日", "23月14日", "il pleut en mars"]
)
def test_a_text_in_another_language_states_no_date_in_the_period(text):
    assert not states_date_in(text, MARCH, NOW)


def test_a_french_question_for_a_day_in_digits_finds_the_text_that_names_its_month():
    repairs = [
        Chunk("boiler", "Nils Delacroix a réparé la chaudière le 11 septembre 2025 pour 88 €."),
        Chunk("shutter", "Dario Rasmussen a réparé le volet roulant le 11 mars 2025 pour 367 €."),
        Chunk("sink", "Edda Gallo a réparé l'évier le 3 novembre 2025 pour 100 €."),
    ]
    assert found("Que s'est-il passé le 11/03/2025 ?", *repairs)[0] == "shutter"


@pytest.mark.parametrize(
    "text",
    [
        "signed in April 2023",
        "signed in 2023",
        "march on, 2023 people came",
        "1 April 2023",
        "2023-04-01",
        "31 February 2023",
        "12023-03-01",
        "13/13/2023",
        "March",
        "03/2023/1",
        "",
        "14 Mar 22",
        "14 Mar 2022",
        "14 April",
        "sort code 14-03-23",
        "version 14.03.23",
        "v14.03.23",
        "host 14.03.23.1",
        "see section 14.03.23",
        "clause 3.14.23",
        "Bump lodash to 3.14.23",
        "chapters 1. 3. 23",
        "14:03:23",
        "phone 20230314",
        "Tel. 20230314",
        "01/14/03/23",
        "+20230314",
        "$20230314",
        "20230314.50",
        "20230314-7",
        "part no. 20230314",
        "PN-20230314",
        "ISBN 20230314",
        "ID 202303141",
        "20231314",
        "scores 14/03/230",
        "it is 3/14 of 23",
        "you may 14 times march 14 miles",
        "Wed 14 Mar BOOTS",
        "we won 03/14 games",
        "03/04 would go again",
        "14/03/20231",
        "3.14.20231",
        "14MAR23X",
        "",
    ],
)
def test_a_text_states_no_date_in_the_period(text):
    assert not states_date_in(text, MARCH, NOW)


def test_a_year_or_a_quarter_holds_its_dates():
    year = TimeRange(day("2023-01-01"), day("2024-01-01"))
    assert all(states_date_in(text, year, NOW) for text in ("in 2023", "Q3 2023", "May 2023", "2023-12-31", "1.1.2023"))
    assert not any(states_date_in(text, year, NOW) for text in ("in 2024", "Q1 2024", "2023.5 kg", "the 2023rd"))
    assert states_date_in("since 2021", TimeRange(day("2020-01-01"), None), NOW)


def test_a_date_without_a_year_does_not_count_for_a_whole_year_or_an_open_period():
    assert not states_date_in("14 March", TimeRange(day("2023-01-01"), day("2024-01-01")), NOW)
    assert not states_date_in("14 March", TimeRange(day("2023-01-01"), None), NOW)


def test_a_date_without_a_year_counts_on_both_sides_of_new_year():
    holidays = TimeRange(day("2022-12-27"), day("2023-01-05"))
    assert all(states_date_in(text, holidays, NOW) for text in ("27 December", "on 4 Jan."))
    assert not any(states_date_in(text, holidays, NOW) for text in ("26 December", "5 Jan."))


@pytest.mark.parametrize("query", ["Boots card on 19 May", "card at Boots on May 19th", "Boots card on 19 May 2021"])
@pytest.mark.parametrize("form", ["%d %b", "%d-%b-%y", "%d/%m/%Y", "%d/%m/%y", "%d.%m.%y", "%Y%m%d", "%d%b%y", "%d%b"])
def test_a_payment_is_found_by_its_day_however_the_statement_writes_it(query, form):
    days = [datetime(2021, month, date) for month in (4, 5, 6) for date in (17, 18, 19, 20, 21)]
    card = {day: "" if (day.month, day.day) == (5, 19) else "CARD 19" for day in days}
    lines = [Chunk(f"line-{day:%j}", f"{day.strftime(form)}  BOOTS  12.40 {card[day]}") for day in days]
    assert found(query, *lines)[0] == "line-139"


@pytest.mark.parametrize("query", ["Boots card on 19 May", "boots card on may 19", "card at Boots on May 19th"])
@pytest.mark.parametrize("form", ["%d %b", "%d/%m/%Y", "%m/%d", "%Y-%m-%d", "%a %d %b", "%d%b%y"])
@pytest.mark.parametrize("case", [str.lower, str.title])
def test_a_payment_in_may_comes_before_payments_of_other_days_that_hold_more_words_of_the_question(query, form, case):
    days = [datetime(2024, month, date) for month in (3, 4, 5) for date in (17, 18, 19, 20, 21)]
    card = {day: "" if (day.month, day.day) == (5, 19) else "CARD 19" for day in days}
    lines = [Chunk(f"line-{day:%m%d}", case(f"{day.strftime(form)}  BOOTS  12.40 {card[day]}")) for day in days]
    assert found(query, *lines)[0] == "line-0519"


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%m/%d"])
def test_a_day_in_digits_is_read_in_the_order_that_the_other_lines_show(form):
    days = [datetime(2024, month, date) for month in range(1, 6) for date in range(1, 29, 2)]
    lines = [Chunk(f"{day:%m%d}", f"{day.strftime(form)} SHELL GARAGE {day:%j}.10") for day in days]
    assert found("Shell Garage on 5 March", *lines)[0] == "0305"
    assert found("Shell Garage on 3 May", *lines)[0] == "0503"


def test_a_price_list_by_month_in_digits_answers_a_question_for_a_month():
    prices = [Chunk(f"{n}", f"{n % 12 + 1:02}/{2022 + n // 12} olive oil 4.{n:02} per litre") for n in range(24)]
    assert found("what did olive oil cost in May 2023?", *prices)[0] == "16"


def test_a_shift_of_another_year_is_told_by_its_weekday():
    years = [datetime(year, 5, 21) for year in (2021, 2022, 2023, 2024)]
    shifts = [Chunk(f"{day:%Y}", f"{day:%a %d %b} early shift: Ken and Iris") for day in years]
    assert found("Ken's shift on 21 May", *shifts)[0] == "2024"
    assert sorted(found("Ken's shift on 21 May", *shifts[:2])) == ["2021", "2022"]


@pytest.mark.parametrize("query", ["Tom Hale calls December", "calls with Tom Hale, december?"])
def test_a_month_that_ends_the_question_needs_no_preposition(query):
    calls = [Chunk(f"{n}", f"2023-{n:02}-17 14:03 call Tom Hale {n} min") for n in range(1, 13)]
    assert found(query, *calls)[0] == "12"


def test_a_title_that_ends_with_a_month_is_found_before_the_notes_of_this_month():
    titles = {
        10: "Red October 1990, submarine film with Connery",
        7: "Purple July 33, a synth album",
        11: "Blue November 7, jazz quartet from Gent",
        9: "Black September 1970, book on Jordan",
        2: "Grey February 2 is a mural in Lodz",
        12: "White December 12 candle with pine",
        1: "Cold January 5, poems by Aron",
    }
    texts = ("paint the fence {}", "bought {} wool", "the {} cat was sick", "{} week at work", "saw a {} bird")
    chunks = [Chunk(title, title) for title in titles.values()]
    for month, title in titles.items():
        notes = (text.format(title.split()[0].lower()) for text in texts)
        chunks += [Chunk(text, text, event_time=day(f"2023-{month:02}-{5 + n:02}")) for n, text in enumerate(notes)]
    for title in titles.values():
        name = " ".join(title.split()[:2])
        assert [found(query, *chunks)[0] for query in (name, f"tell me about {name}")] == [title, title]


def test_the_number_of_an_invoice_is_no_month():
    invoices = [
        Chunk(f"{n}", f"Invoice No. {(n + 4) % 12 + 1:02}/2023 for coffee, paid", event_time=day(f"2023-{n:02}-09"))
        for n in range(1, 13)
    ]
    assert [found(f"invoice for coffee of {month} 2023", *invoices)[0] for month in ("May", "July")] == ["5", "7"]


@pytest.mark.parametrize("fraction", ["05/16 inch bolts, shelf 3", "05/16 of the bolts are short"])
def test_a_fraction_at_the_beginning_of_a_line_is_no_day(fraction):
    bought = Chunk("bought", "bought bolts and paint for the fence", event_time=day("2024-05-16"))
    assert found("what bolts did I buy on 16 May", Chunk("fraction", fraction), bought)[0] == "bought"


def test_a_rating_at_the_beginning_of_a_line_is_no_day():
    visit = Chunk("visit", "we went to the hotel and it rained", event_time=day("2023-10-10"))
    ratings = [Chunk(f"{score}", f"{score}/10 hotel would go again") for score in ("08", "09", "10")]
    assert found("what did we do at the hotel on 10 October", visit, *ratings)[0] == "visit"


@pytest.mark.parametrize("stray", ["lunch Leeds 25/03/2023", "25/03 lunch in Leeds"])
def test_one_date_of_another_list_does_not_tell_the_order_of_day_and_month(stray):
    dates = [(month, day) for month in range(1, 8) for day in range(1, 8) if month != day]
    lines = [Chunk(f"{m}-{d}", f"{m:02}/{d:02}/2023 lunch Denver {m * d}.00") for m, d in dates]
    asked = ((2, 5, "February"), (5, 2, "May"), (4, 1, "April"), (1, 4, "January"))
    for m, d, month in asked:
        other = {f"{m}-{d}", f"{d}-{m}"}
        assert set(found(f"lunch Denver on {month} {d}, 2023", *lines, Chunk("stray", stray))[:2]) == other


def test_a_person_named_as_a_month_is_no_month():
    people = [
        Chunk(f"{name} {fact}", f"{name} {fact}", event_time=day(f"2023-{month:02}-11"))
        for month, name in ((6, "April"), (4, "June"), (5, "August"), (8, "May"))
        for fact in ("has a dog called Rex.", "turns forty on a Sunday.", "works at a bakery.")
    ]
    assert found("the dog of June", *people)[0] == "June has a dog called Rex."
    assert found("the job of April", *people)[0].startswith("April")


def test_a_month_without_a_year_is_that_of_the_statement_if_nothing_is_of_this_year():
    lines = [Chunk(f"month {month}", f"17/{month:02}/2021  NETFLIX  8.99") for month in range(1, 13)]
    assert found("Netflix in May", *lines)[0] == "month 5"


def test_a_day_without_a_year_is_that_of_the_latest_year_of_which_an_old_chat_has_messages():
    chat = [
        Chunk(f"{year}-{n}", f"Dmitri: {said}", event_time=day(f"{year}-03-{n:02}"))
        for year in (2019, 2020)
        for n, said in enumerate(["ok", "haha", "I can take two people", "same as last week", "nice one"] * 5, 1)
    ]
    assert found("Dmitri on 13 March", *chat)[0] == "2020-13"


def test_of_the_fairs_of_several_years_the_latest_is_lifted_if_the_question_names_no_year():
    fairs = [Chunk(f"fair-{year}", f"Fair on 3 March {year} in the town hall") for year in (2021, 2024, 2022)]
    assert found("the fair on 3 March", *fairs)[0] == "fair-2024"


def test_a_log_of_100_000_dated_lines_as_one_chunk_is_read_for_dates_as_fast_as_its_first_pages():
    log = "\n".join(f"2024-05-{i % 28 + 1:02} 10:00:00 INFO request {i} in 2019 ms" for i in range(100_000))
    first_pages = log[:100_000]
    assert states_date_in(first_pages[:-40] + "on 12 March 2023, ", MARCH, NOW)

    def seconds(text):
        return min(timeit.repeat(lambda: states_date_in(text, MARCH, NOW), number=1, repeat=5))

    assert not states_date_in(log, MARCH, NOW)
    assert seconds(log) < 5 * seconds(first_pages)
    births = ", ".join(f"{i % 28 + 1}/{i // 28 % 12 + 1}/{1801 + i // 336}" for i in range(8_000))
    assert not states_date_in(births, MARCH, NOW)
    assert seconds(births) < 5 * seconds(first_pages)


def test_a_moment_in_place_of_a_clock_is_refused_at_once():
    with HybridStore.open() as store, pytest.raises(ConfigError, match="clock is datetime; expected a function"):
        DualRetriever(store, clock=NOW)


def test_a_lost_embedder_is_told_also_where_the_query_names_a_period():
    class Broken(HashEmbedder):
        def embed_queries(self, texts):
            raise OSError("no route to host")

    with HybridStore.open(embedder=Broken()) as store:
        store.add([Chunk("a", "The roof was repaired.", event_time=datetime(2023, 3, 3, tzinfo=timezone.utc))])
        result = DualRetriever(store).search("when was the roof repaired in March 2023?")
    assert (result.mode, result.ids) == ("text", ["a"])
    assert [loss.part for loss in result.degraded] == ["embedder"]


WEEKS = [
    *(Chunk(f"asked {n}", "What should I cook tonight?", event_time=NOW - timedelta(60 + 9 * n)) for n in range(6)),
    *(Chunk(f"old {n}", "I cooked pasta for dinner.", event_time=NOW - timedelta(30 + 11 * n)) for n in range(6)),
    Chunk("day", "Made shakshuka for dinner, the kids loved it.", event_time=NOW - timedelta(days=3, hours=2)),
    Chunk("trams", "The trams were late.", event_time=NOW - timedelta(days=3)),
    *(Chunk(f"noise {n}", f"Bus {n} was late again.", event_time=NOW - timedelta(days=200 + n)) for n in range(30)),
]


@pytest.mark.parametrize("query", ["What did I cook three days ago?", "what did i cook on sunday"])
def test_of_a_few_days_ago_a_message_in_other_words_passes_messages_of_other_days_in_the_words_of_the_question(query):
    assert found(query, *WEEKS)[0] == "day"


def test_a_mistaken_day_hides_no_message():
    right = Chunk("right", "The plumber wants 240 euros for the leak.", event_time=NOW - timedelta(days=4))
    assert "right" in found("How much did the plumber want three days ago?", right, *WEEKS)[:3]


@pytest.mark.parametrize("query", ["Is my dentist appointment on Sunday?", "Do I have to see the dentist on Sunday?"])
def test_a_question_about_a_day_to_come_does_not_put_the_last_such_day_first(query):
    told = Chunk("told", "My dentist appointment is on Sunday at ten.", event_time=NOW - timedelta(days=12))
    assert found(query, told, *WEEKS)[0] == "told"


def test_a_day_in_another_language_that_may_be_to_come_is_not_put_first():
    told = Chunk("told", "Mein Termin beim Zahnarzt ist am Sonntag um zehn.", event_time=NOW - timedelta(days=12))
    assert found("Ist mein Termin beim Zahnarzt am Sonntag?", told, *WEEKS)[0] == "told"
    cooked = Chunk("cooked", "Zum Abendessen gab es Pfannkuchen.", event_time=NOW - timedelta(days=3, hours=1))
    assert found("Was habe ich vor drei Tagen gekocht?", told, cooked, *WEEKS)[0] == "cooked"


@pytest.mark.parametrize("day", ["am 9.5.", "vom 9. Mai", "9. Mai", "le 9 mai"])
def test_a_date_in_another_language_finds_what_was_written_then_as_in_english(day):
    paid = Chunk("paid", "Dauerauftrag Hausverwaltung Kepler", event_time=datetime(NOW.year, 5, 9, tzinfo=timezone.utc))
    assert found(f"Was wurde {day} abgebucht?", paid, *WEEKS)[0] == "paid"


def test_an_appointment_on_a_date_to_come_is_found_by_its_text():
    told = Chunk("told", "Mein Termin beim Zahnarzt ist am 3. Mai um zehn.", event_time=NOW - timedelta(days=12))
    assert found("Ist mein Termin beim Zahnarzt am 3. Mai?", told, *WEEKS)[0] == "told"


QUARTERS = ["Q3 FY2023", "Q3 FY23", "FY23 Q3", "3Q23", "Q3/2023", "Q3-2023", "2023-Q3", "the third quarter of 2023"]


@pytest.mark.parametrize("asked", [*QUARTERS, "third-quarter 2023", "Q3 '23"])
def test_a_quarter_is_found_however_the_report_and_the_question_write_it(asked):
    quarter = TimeRange(day("2023-07-01"), day("2023-10-01"))
    assert all(states_date_in(f"Acme, results for {form}.", quarter, NOW) for form in QUARTERS)
    assert not states_date_in("Acme, results for Q2 FY23, FY24 and 3Q22.", quarter, NOW)
    forms = ["1Q23", "2Q23", "the third quarter of 2023", "3Q22", "Q4-2023", "FY22"]
    reports = [Chunk(form, f"Acme, results for {form}: revenue of 12 million.") for form in forms]
    assert found(f"revenue of Acme in {asked}", *reports)[0] == "the third quarter of 2023"


HALVES = ["H1 2023", "2023-H1", "H1 FY23", "H1/2023", "the first half of 2023"]


@pytest.mark.parametrize(("asked", "forms"), [("H1 2023", HALVES[:4]), ("the first half of 2023", HALVES[4:])])
def test_a_half_year_is_found_although_the_reports_of_its_quarters_lie_in_it(asked, forms):
    half = TimeRange(day("2023-01-01"), day("2023-07-01"))
    assert all(states_date_in(f"Acme, results for {form}.", half, NOW) for form in HALVES)
    others = [f"Sales report {other}: revenue 5.1m, 15 hires." for other in ("Q1 2023", "Q2 2023", "Q1 2022")]
    others += [
        f"Sales half-year review, {other}: turnover of staff 7 %." for other in ("H2 2023", "H2 2022", "H1 2021")
    ]
    for form in forms:
        right = f"Sales half-year review, {form}: turnover of staff 4 %."
        assert found(f"Sales {asked}", *(Chunk(text, text) for text in (right, *others)))[0] == right


@pytest.mark.parametrize("text", ["H1 headings of 2023", "AH1 2023", "the second half of the match in 2023 minutes"])
def test_the_name_of_a_heading_or_half_of_a_match_is_no_half_year(text):
    assert not states_date_in(text, TimeRange(day("2023-01-01"), day("2023-07-02")), NOW)


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("How many orders came at Easter 2023?", "2023-04-09"),
        ("orders on Black Friday 2022", "2022-11-25"),
        ("orders in the week of 6 March 2023", "2023-03-08"),
        ("ordini del 12 maggio 2023", "2023-05-12"),
        ("encomendas de 12 de maio de 2023", "2023-05-12"),
        ("bestellingen van 12 mei 2023", "2023-05-12"),
    ],
)
def test_a_holiday_a_week_or_a_date_in_another_language_finds_the_report_that_states_its_date(query, right):
    dates = ["2023-04-16", "2023-04-09", "2022-11-18", "2022-11-25", "2023-03-01", "2023-03-08", "2023-05-05"]
    dates.append("2023-05-12")
    assert found(query, *(Chunk(date, f"Sales on {date}: 312 orders.") for date in dates))[0] == right


def test_a_year_of_two_digits_states_the_winter_that_begins_in_the_one_before():
    winter = TimeRange(day("2022-12-01"), day("2023-03-01"))
    assert states_date_in("the winter season 2022/23", winter, NOW)
    assert not states_date_in("the winter season 2021/22", winter, NOW)


@pytest.mark.parametrize("text", ["a band of the nineties", "hits of the '90s", "a band of the late 90s", "the 1990s"])
def test_a_text_that_names_the_decade_lies_in_it(text: str):
    decade = TimeRange(day("1990-01-01"), day("2000-01-01"))
    assert states_date_in(text, decade, NOW)
    assert not states_date_in(text, TimeRange(day("1980-01-01"), day("1990-01-01")), NOW)
    assert not states_date_in("she is in her nineties", decade, NOW)
    notes = [Chunk(f"{n}", f"We heard the band number {n} in the {n}0s of the last century.") for n in (5, 6, 7, 8)]
    assert found("which band did we hear in the 1990s?", Chunk("right", f"We heard {text}."), *notes)[0] == "right"


@pytest.mark.parametrize("normalizer", ["zscore", "none", "minmax"])
def test_of_two_copies_the_one_of_the_period_comes_first_whatever_scales_the_scores(normalizer):
    texts = ["The boiler was serviced by Ann.", "The boiler makes noise.", "Ann has a new boiler valve."]
    texts += ["Lunch with Bob.", "The garden needs water.", "Boiler manual in the drawer."]
    old, new = day("2023-08-20"), day("2024-06-06")
    config = UmiConfig(fusion={"adaptive": False, "normalizer": normalizer})
    with HybridStore.open() as store, DualRetriever(store, config=config, clock=lambda: NOW) as umi:
        store.add(Chunk(f"{at} old", text, event_time=old) for at, text in enumerate(texts))
        store.add(Chunk(f"{at} new", text, event_time=new) for at, text in enumerate(texts))
        ids = umi.search("what happened to the boiler last week", limit=12).ids
    for at in range(len(texts)):
        assert ids.index(f"{at} new") < ids.index(f"{at} old")


@pytest.mark.parametrize("strategy", ["text", "vector", "hybrid"])
def test_a_query_of_words_that_no_chunk_holds_and_a_day_is_answered_with_every_strategy(strategy):
    with HybridStore.open() as store, DualRetriever(store, clock=lambda: NOW) as umi:
        store.add([Chunk("met", "We met on 11 June 2024."), Chunk("came", "Bob came.", event_time=day("2024-05-12"))])
        result = umi.search("zeppelin yesterday", strategy=strategy)
    assert set(result.ids) <= {"met", "came"} and not result.degraded


RULINGS = [
    Chunk(
        f"{town} {what}",
        f"{town}: claim for {what}. The claim is dismissed; the tenant bears the costs.",
        event_time=at,
    )
    for town, at in (("Neuss", day("2023-08-06")), ("Kleve", day("2024-01-31")), ("Jena", day("2022-01-14")))
    for what in ("a broken lift", "damage by water", "an unpaid bill", "noise at the holidays", "a late statement")
]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("was the claim for a broken heating in January dismissed?", "a broken heating in January"),
        ("claim of the baker who stayed open at Christmas", "a bakery that was open at Christmas"),
        ("the tenant who left in the summer", "a tenant who left in the summer"),
    ],
)
def test_a_text_that_says_the_month_of_the_question_comes_before_texts_of_that_month(query, says):
    right = Chunk("right", f"Emden: claim for {says}. The claim is dismissed in part.", event_time=day("2023-09-25"))
    others = [*RULINGS, *(Chunk(f"c{n}", f"Notes on case {n}", event_time=day("2023-12-25")) for n in range(3))]
    assert found(query, right, *others)[0] == "right"


def test_a_text_that_says_the_month_of_another_year_is_not_of_the_month_of_the_question():
    other, right = "The boiler in the cellar broke in January 2019.", "The boiler on floor 3 broke in January."
    chunks = [Chunk(text, text, event_time=day("2024-03-01")) for text in (other, right)]
    assert found("what broke in January in the cellar?", *chunks, *MENU)[0] == right


def test_the_last_two_hours_are_two_hours_west_of_greenwich_too():
    """There, whole days begin at midnight UTC, before midnight of the place; "the last two hours" do not."""
    now = datetime(2024, 6, 12, 15, tzinfo=ZoneInfo("America/New_York"))
    early = [
        Chunk(f"e{n}", f"deployed version {n} of the shop", event_time=now - timedelta(hours=3)) for n in range(30)
    ]
    late = Chunk("late", "rolled back, since payments failed", event_time=now - timedelta(hours=1))
    fillers = [
        Chunk(f"f{n}", f"what was deployed on day {n}", event_time=now - timedelta(days=n + 1)) for n in range(400)
    ]
    assert found("what was deployed in the last two hours", *early, late, *fillers, now=now)[0] == "late"


CLOCKS = [
    Chunk(f"{kind}, {year}", f"{kind} clock, {wood}. Made by {maker} in Ghent, {year}. Height {height} cm.")
    for (kind, year, height), wood, maker in zip(
        [
            ("Bracket", 1880, 39),
            ("Longcase", 1860, 60),
            ("Carriage", 1871, 18),
            ("Cuckoo", 1817, 54),
            ("Lantern", 1892, 41),
            ("Water", 1841, 44),
            ("Mantel", 1866, 30),
        ],
        ["oak", "walnut", "brass", "oak", "walnut", "brass", "oak"],
        ["Hale", "Frost", "Meyer", "Singh", "Novak", "Byrne", "Silva"],
        strict=True,
    )
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("which clocks were made between 1840 and 1861?", {"Longcase, 1860", "Water, 1841"}),
        ("clocks of 1840-1860", {"Longcase, 1860", "Water, 1841"}),
        ("clocks from before 1830", {"Cuckoo, 1817"}),
        ("clocks made since 1885", {"Lantern, 1892"}),
        ("clocks of the 1840s", {"Water, 1841"}),
    ],
)
def test_years_of_the_nineteenth_century_are_a_period_too(query: str, first: set[str]):
    assert set(found(query, *CLOCKS)[: len(first)]) == first
