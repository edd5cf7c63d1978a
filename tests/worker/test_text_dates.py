"""Dates as said on Wednesday, 4 March 2026."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memory_tencentdb_worker.text.dates import describe_span, find_span

SHANGHAI = ZoneInfo("Asia/Shanghai")
SAID_AT = round(datetime(2026, 3, 4, 3, 0, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday", "2026-03-03"),
        ("the day after tomorrow", "2026-03-06"),
        ("last week", "2026-02-23..2026-03-01"),
        ("next Friday", "2026-03-13"),
        ("last Friday", "2026-02-27"),
        ("this Friday", "2026-03-06"),
        ("we meet on Monday", "2026-03-09"),
        ("we met on Monday", "2026-03-02"),
        ("three weeks ago", "2026-02-11"),
        ("in 10 days", "2026-03-14"),
        ("on March 5", "2026-03-05"),
        ("on 12 August", "2026-08-12"),
        ("Dec 24", "2025-12-24"),
        ("on March 5th, 2019", "2019-03-05"),
        ("the flood was in October", "2025-10"),
        ("we are going to move in October", "2026-10"),
        ("我打算10月去日本", "2026-10"),
        ("since 2019", "2019"),
        ("next month", "2026-04"),
        ("2026-06-30", "2026-06-30"),
        ("昨天", "2026-03-03"),
        ("大后天", "2026-03-07"),
        ("下周", "2026-03-09..2026-03-15"),
        ("下周五", "2026-03-13"),
        ("上个星期三", "2026-02-25"),
        ("3月5日", "2026-03-05"),
        ("2026年5月20日", "2026-05-20"),
        ("去年", "2025"),
        ("下个月", "2026-04"),
        ("三天前", "2026-03-01"),
        ("两周后", "2026-03-18"),
    ],
)
def test_a_date_is_read_against_the_day_it_was_said_on(text: str, expected: str) -> None:
    span = find_span(text, SAID_AT, SHANGHAI)
    assert span is not None
    assert describe_span(span, SHANGHAI) == expected


@pytest.mark.parametrize(
    "text", ["", "no date at all", "February 30", "I may go", "version 2026", "2026-13-45", "13月5日"]
)
def test_what_is_no_day_of_the_calendar_is_no_date(text: str) -> None:
    assert find_span(text, SAID_AT, SHANGHAI) is None


def test_the_local_day_counts_not_the_day_in_utc() -> None:
    just_after_midnight = round(datetime(2026, 3, 4, 17, 0, tzinfo=UTC).timestamp() * 1000)  # 01:00 on the 5th there
    span = find_span("today", just_after_midnight, SHANGHAI)
    assert span is not None
    assert describe_span(span, SHANGHAI) == "2026-03-05"


def test_a_day_of_a_clock_change_has_23_hours() -> None:
    span = find_span("2026-03-29", SAID_AT, ZoneInfo("Europe/Berlin"))
    assert span is not None
    assert span.end + 1 - span.start == 23 * 3_600_000
