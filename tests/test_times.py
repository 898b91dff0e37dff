"""Times as people and programs write them: read if they can mean one moment only."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.times import read_time


def utc(*numbers: int) -> datetime:
    return datetime(*numbers, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "written",
    [
        *("18.11.2026", "18/11/2026", "11/18/2026", "18-11-2026", "2026/11/18", "2026.11.18", "20261118"),
        *("Nov 18, 2026", "November 18, 2026", "Nov. 18th, 2026", "18 Nov 2026", "18-Nov-2026", "18. November 2026"),
        *("Wednesday, November 18, 2026", "Mittwoch, 18. November 2026", " 2026-11-18 ", "2026-11-18Z", "2026-W47-3"),
        np.datetime64("2026-11-18"),
    ],
)
def test_a_day_that_can_be_only_one_is_read(written):
    assert read_time(written) == utc(2026, 11, 18)


@pytest.mark.parametrize(
    "written",
    [
        *("2026-11-18T09:15:00Z", "2026-11-18 10:15 CET", "2026-11-18 09:15:00 UTC", "20261118T091500Z"),
        *("2026-11-18T10:15:00+01:00[Europe/Berlin]", "2026-11-18 10:15 Europe/Berlin", "2026-11-18T04:15-0500"),
        *("18.11.2026 09:15", "18.11.2026, 09:15 Uhr", "11/18/2026 9:15:00 AM", "November 18, 2026 at 9:15 a.m."),
        *("Wed, 18 Nov 2026 10:15:00 +0100", "Wed, 18 Nov 2026 10:15:00 +0100 (CET)", "Wed Nov 18 09:15:00 2026"),
        *("Wed Nov 18 09:15:00 +0000 2026", "Wed Nov 18 09:15:00 UTC 2026", "20261118091500"),
        *("D:20261118101500+01'00'", "D:20261118091500Z", "D:20261118091500Z00'00'", "20261118091500Z"),
        *("11/18/2026, 9:15:00\u202fAM", "2026-11-18\xa009:15", "Nov 18 2026 0915", "18 November 2026 0915"),
        *("2026-11-18T09:15:00Z[UTC]", "2026-11-18 09:15 GMT (London)", "2026-11-18 09:15:00 +0000 UTC"),
        "Wed Nov 18 2026 10:15:00 GMT+0100 (Central European Standard Time)",
        *(1794993300, 1794993300.0, "1794993300", "1794993300000", Decimal(1794993300000), 1794993300000000),
        *("1794993300.000000", 1794993300 * 10**9, np.int64(1794993300000)),
    ],
)
def test_a_moment_is_read_as_mails_logs_pdfs_and_programs_write_it(written):
    assert read_time(written) == utc(2026, 11, 18, 9, 15)


@pytest.mark.parametrize(
    "written, day",
    [("2026-11", utc(2026, 11, 1)), ("2026-W47", utc(2026, 11, 16)), ("1. März 2026", utc(2026, 3, 1))],
)
def test_a_month_or_a_week_is_its_first_day(written, day):
    assert read_time(written) == day


def test_a_clock_time_of_digits_may_be_before_or_behind_the_year():
    assert read_time("Nov 18 0915 2026") == read_time("Nov 18 2026 0915") == utc(2026, 11, 18, 9, 15)
    assert read_time("Nov 18 091500 UTC 2026") == utc(2026, 11, 18, 9, 15)


def test_noon_and_midnight_on_a_clock_of_twelve_hours():
    assert read_time("11/18/2026 12:05 AM") == utc(2026, 11, 18, 0, 5)
    assert read_time("11/18/2026 12:05 PM") == utc(2026, 11, 18, 12, 5)


def test_a_date_with_equal_day_and_month_is_one_either_way():
    assert read_time("05/05/2026") == utc(2026, 5, 5)


@pytest.mark.parametrize(
    "written",
    [
        *("05/06/2026", "5-6-2026", "31.2.2026", "11.18.2026", "18/18/2026", "2026-13-45", "18.11.26", "2026-W60"),
        *("2026", 2026, "00:01:23", "next week", "version 1.2.2024", "2026-11-18 10:15 CST", "2026-11-18 Mars/Base"),
        *("2026-11-18 ../../etc/passwd", "2026-11-18T25:00", "", " ", "9" * 99, float("nan")),
        *("2026-11-18 +3 days", "2026-11-18 10:15 -5 hours", "18.11.2026 +0100 maybe"),
        *(20261118101500, True, None, [1], float("inf"), 10**400, "2026-11-18 to 2026-11-20", "01/02/03"),
    ],
)
def test_a_value_that_may_be_several_moments_or_none_is_no_time(written):
    assert read_time(written) is None


@given(st.datetimes(datetime(1000, 1, 1), datetime(9998, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_every_iso_text_of_python_is_the_moment_itself(moment, minutes):
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert read_time(aware.isoformat()) == read_time(str(aware)) == aware


@given(st.one_of(st.text(max_size=60), st.from_regex(r"[\d./:, TWZ+-]{1,40}")))
def test_any_text_is_a_time_or_none(text):
    found = read_time(text)
    assert found is None or found.tzinfo is timezone.utc
