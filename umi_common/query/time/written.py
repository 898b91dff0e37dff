"""A day or a month in the words of texts, to search for."""

from __future__ import annotations

from datetime import timedelta

from umi_common.query.time.vocabulary import MONTHS
from umi_common.types import TimeRange

GERMAN = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()  # noqa: SIM905
SHORT = [month[:3] for month in MONTHS]
DAY_MAX, MONTH_MAX = timedelta(hours=25), timedelta(days=31, hours=1)
"""Longest day and month; the hour is for clocks that go back."""


def written(period: TimeRange) -> str:
    """Words of texts that state the period, in English and German; "" if it is longer than a month.

    Numeric dates need one form only: the lexical index has the others under the same term; see `stores.lexical`.
    """
    start, end = period.start, period.end
    if start is None or end is None or end - start > MONTH_MAX:
        return ""
    month, short, german = (names[start.month - 1] for names in (MONTHS, SHORT, GERMAN))
    is_day = end - start <= DAY_MAX
    date = f"{start.day} {month} {start:%Y-%m-%d}" if is_day else f"{month} {start:%Y %m}"
    return f"{date} {short} {german}"
