"""Chat logs, diaries and program logs: where an entry begins, its time, and whether it names a speaker."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest

from umi_common.files.readers.chunks import chunks_of


def entries(file, log):
    """[(text, speaker, time as "06-11 19:15" in UTC, "" without a time)] of a log."""
    return [
        (
            chunk.text,
            chunk.metadata.get("speaker"),
            chunk.event_time.strftime("%m-%d %H:%M") if chunk.event_time else "",
        )
        for chunk in chunks_of(file("log.txt", log))
    ]


@pytest.mark.parametrize("sign", ["\f", "\x0b", "\x1c", "\x85", "\u2028"])
def test_a_line_that_begins_with_a_page_break_begins_no_message(file, sign):
    ((text, speaker, _),) = entries(file, f"{sign}[2024-06-11 19:15] Mira: hi there\n")
    assert "Mira: hi there" in text and speaker is None
    talk = f"Ann: I adopted a cat.{sign}Ben: so she said\nBen: Its name?\nAnn: Luna.\nBen: Nice.\n"
    assert [speaker for _, speaker, _ in entries(file, talk)] == ["Ann", "Ben", "Ann", "Ben"]


@pytest.mark.parametrize(
    ("zone", "clock"),
    [
        ("+0200", "17:15"),  # git log --date=iso
        ("-0730", "02:45"),
        ("CEST", "17:15"),
        ("UTC", "19:15"),
        ("GMT+2", "17:15"),
    ],
)
def test_a_zone_behind_a_blank_is_a_part_of_the_time(file, zone, clock):
    (first, *_) = entries(file, f"2024-06-11 19:15:02 {zone} start\n2024-06-11 19:16:02 {zone} stop\n")
    day = "06-12" if zone == "-0730" else "06-11"
    assert first == ("start", None, f"{day} {clock}")


@pytest.mark.parametrize("zone", ["IST", "CST", "JST", "AEST", "MSK"])
def test_before_a_zone_that_is_not_read_the_time_is_left_out(file, zone):
    log = f"2024-06-11 19:15:02 {zone} start\n2024-06-11 19:16:02 {zone} stop\n"
    assert entries(file, log) == [(line, None, "") for line in log.splitlines()]


@pytest.mark.parametrize(
    "text", ["- 1200 euros paid", "-20:30 dinner", "-1234 paid", "POST /login", "LAST call", "OK", "Z left"]
)
def test_a_word_or_number_behind_the_time_is_no_zone(file, text):
    log = f"2024-06-11 19:15 {text}\n2024-06-11 19:16 {text}\n"
    assert {(entry.removeprefix("- "), time[-5:]) for entry, _, time in entries(file, log)} == {
        (text.removeprefix("- "), "19:15"),
        (text.removeprefix("- "), "19:16"),
    }


def test_am_is_a_word_in_a_log_of_24_hours(file):
    assert entries(file, "2024-06-11 08:00 am Bahnhof gewartet\n2024-06-11 19:15 am Bahnhof angekommen\n") == [
        ("am Bahnhof gewartet", None, "06-11 08:00"),
        ("am Bahnhof angekommen", None, "06-11 19:15"),
    ]


def test_am_is_a_word_if_most_entries_lack_it(file):
    assert entries(file, "2024-06-11 08:00 Am I late?\n2024-06-11 09:15 Not at all.\n")[0][0] == "Am I late?"
    assert entries(file, "2024-06-11 08:00 am Start: yes\n2024-06-11 09:15 Gut.\n")[0] == (
        "am Start: yes",
        None,
        "06-11 08:00",
    )


def test_am_and_pm_are_read_if_all_entries_have_them_or_before_a_bracket(file):
    log = "2024-06-11 7:15 p.m. Mira: hi\n2024-06-11 12:15 a.m. Bob: hi\n"
    assert entries(file, log) == [("Mira: hi", "Mira", "06-11 19:15"), ("Bob: hi", "Bob", "06-11 00:15")]
    log = "[2024-06-11 7:15 PM] Mira: hi\n[2024-06-11 19:16] Bob: hi\n[2024-06-11 19:17 pm] Bob: yes\n"
    assert [(speaker, time[-5:]) for _, speaker, time in entries(file, log)] == [
        ("Mira", "19:15"),
        ("Bob", "19:16"),
        ("Bob", "19:17"),
    ]


@pytest.mark.parametrize(
    "log",
    [
        "2024-06-11 19:15:02,500 INFO server: started\n2024-06-11 19:16:02,500 ERROR db: failed\n",
        "2024-06-11 19:15:02 INFO server: started\n2024-06-11 19:16:02 INFO server: stopped\n",
        "2024-06-11 19:15:02,500 - root - INFO - pump: dry\n2024-06-11 19:15:03,500 - root - INFO - pump: wet\n",
        "2024-06-11 19:15:02 [main] WARN com.acme.Pump: dry\n2024-06-11 19:15:03 [main] WARN com.acme.Pump: wet\n",
        "2024/06/11 19:15:02 [error] 12#0: no file\n2024/06/11 19:15:03 [error] 12#0: no file\n",
        "2024-06-11T19:15:02Z host sshd[123]: Accepted\n2024-06-11T19:15:03Z host sshd[123]: Closed\n",
        "2024-06-11 19:15 One thing today: the roof.\n2024-06-12 19:16 Slept well.\n",
        "2024-06-11 19:15 Note: the roof.\n2024-06-12 19:16 Slept well.\n2024-06-13 19:15 Note: it leaks.\n"
        "2024-06-14 19:15 Rain.\n",
    ],
)
def test_a_diary_and_a_programs_log_name_no_speaker(file, log):
    found = entries(file, log)
    assert {speaker for _, speaker, _ in found} == {None}
    assert len(found) == log.count("\n") and all(time for *_, time in found)


def test_entries_of_a_log_keep_their_times_below_long_stack_traces(file):
    trace = '  File "pump.py", line 3\n' * 20
    failed = f"ERROR pump 3\nTraceback (most recent call last):\n{trace}ValueError: dry\n"
    log = "".join(f"2024-06-11 19:{minute} INFO pump 3\n2024-06-11 20:{minute} {failed}" for minute in range(10, 20))
    found = entries(file, log)
    assert [time for _, _, time in found][:3] == ["06-11 19:10", "06-11 20:10", "06-11 19:11"]
    assert found[1][0].startswith("ERROR pump 3\nTraceback") and len(found) == 20


@pytest.mark.parametrize(
    "told", ['Mira changed the group name to "Roof: money"', "Mira created group “Roof: money”", "Mira: „Dach: Geld“"]
)
def test_a_colon_inside_a_group_name_makes_no_speaker(file, told):
    log = f"11/06/24, 19:15 - {told}\n13/06/24, 19:15 - Bob: yes\n"
    speakers = [speaker for _, speaker, _ in entries(file, log)]
    assert speakers == ["Mira" if told.startswith("Mira:") else None, "Bob"]


@pytest.mark.parametrize("stamp", ["[2024-06-11 19:15] ", "2024-06-11 19:15 - ", "2024-06-11 19:15 "])
def test_a_person_with_one_message_is_a_speaker(file, stamp):
    names = ["Mira", "Jonas", "Mira", "Anna van der Berg", "+49 170 123 45 67"]
    found = entries(file, "".join(f"{stamp}{name}: hi\n" for name in names))
    assert [speaker for _, speaker, _ in found] == names


@pytest.mark.parametrize("first", ["05/14/24, 7:15 PM", "14/05/24, 19:15"])
def test_a_day_above_twelve_tells_the_order_of_day_and_month_of_a_chat(file, first):
    assert [time for *_, time in entries(file, f"{first} - Mira: hi\n{first} - Bob: yes\n")] == ["05-14 19:15"] * 2


def test_dates_that_may_begin_with_the_year_or_the_day_leave_a_chat_undated(file):
    assert [time for *_, time in entries(file, "13/05/24, 19:15 - Mira: hi\n13/06/25, 19:15 - Bob: yes\n")] == ["", ""]


def test_a_chat_of_many_days_and_one_number_in_front_begins_with_the_year(file):
    log = "".join(f"24/06/{day}, 19:15 - Mira: hi\n" for day in range(11, 15))
    chunks = chunks_of(file("chat.txt", log))
    assert [chunk.event_time for chunk in chunks] == [
        datetime(2024, 6, day, 19, 15, tzinfo=timezone.utc) for day in range(11, 15)
    ]


def test_a_time_alone_in_its_line_does_not_take_the_next_line_for_a_message(file):
    log = (
        "2024-06-11 19:15 \nNote: hello\n2024-06-11 19:16 Bob: yes\n2024-06-11 19:17\n- Bob: item\n2024-06-11 19:18 x\n"
    )
    assert entries(file, log) == [
        ("Note: hello", None, "06-11 19:15"),
        ("Bob: yes", None, "06-11 19:16"),
        ("- Bob: item", None, "06-11 19:17"),
        ("x", None, "06-11 19:18"),
    ]


def test_a_list_of_times_without_texts_is_kept(file):
    assert "".join(text for text, *_ in entries(file, "2024-06-11 19:15 \n2024-06-12 19:16 \n"))


def test_a_long_line_without_a_blank_does_not_delay_the_reading_of_a_chat(file):
    path = file("talk.txt", "Name: a\nPicture: b\nName: c\nPicture: " + "x" * 19_000)
    begun = time.process_time()
    assert chunks_of(path)
    assert time.process_time() - begun < 1.0
