"""Dates in a sentence, absolute and relative to the day it was said, in English and Chinese.

A week begins on Monday. "next Friday" and "下周五" are the Friday of the next calendar week; "last Friday" is the
latest one before the day of speech. A date without a year is the nearest one. Days are calendar days of the given
zone, so a day of a clock change has 23 or 25 hours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NUMBERS_EN = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
DIGITS_ZH = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10}
WEEKDAYS_ZH = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}

Days = tuple[date, date]
"""First and last day, both included."""

MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
WEEKDAY = r"(?P<weekday>" + "|".join(WEEKDAYS) + r")"
COUNT = r"(?P<count>\d{1,3}|a|an|" + "|".join(NUMBERS_EN[1:]) + r")"
_UNIT = r"(?P<unit>day|week|month|year)s?"
_PAST = re.compile(r"(?i)\b(?:was|were|went|had|did|met|took|bought|saw|got|came|left|made|ran|flew|\w{3,}ed)\b|[了过]")
_FUTURE = re.compile(r"(?i)\b(?:will|going to|plan\w*|due|deadline|next)\b|'ll\b|打算|计划|准备|将|要|会")
COUNT_ZH = r"(?P<count>\d{1,3}|[一二两三四五六七八九十])"
_UNIT_ZH = r"(?P<unit>天|周|个?星期|个月|年)"


@dataclass(frozen=True)
class Span:
    """When something happens: both ends in epoch ms, the end included, and where the text says so."""

    start: int
    end: int
    text_start: int
    text_end: int
    relative: bool  # the words mean nothing without the day they were said on


@dataclass(frozen=True)
class Rule:
    pattern: re.Pattern[str]
    days: Callable[[re.Match[str], date], Days | None]
    relative: bool


_EARLIEST_SAID, _LATEST_SAID = -62_000_000_000_000, 253_000_000_000_000
"""Within the years 5 and 9987."""


def find_span(text: str, said_at: int, zone: tzinfo) -> Span | None:
    """The first date of the text, by its place; at one place the rule that stands first in the list wins.

    None at the ends of the calendar, where "next year" or a zone's shift would leave it.
    """
    if not _EARLIEST_SAID <= said_at <= _LATEST_SAID:
        return None
    today = datetime.fromtimestamp(said_at / 1000, UTC).astimezone(zone).date()
    best: Span | None = None
    for rule in RULES:
        for match in rule.pattern.finditer(text):
            if best is not None and match.start() >= best.text_start:
                break
            days = days_or_none(rule, match, today)
            if days is not None:
                best = Span(
                    first_instant(days[0], zone),
                    first_instant(days[1] + timedelta(days=1), zone) - 1,
                    match.start(),
                    match.end(),
                    rule.relative,
                )
                break
    return best


def describe_span(span: Span, zone: tzinfo) -> str:
    """`2026-03-05` for a day, `2026-03` for a month, `2026` for a year, else `2026-03-02..2026-03-08`."""
    first, last = (datetime.fromtimestamp(at / 1000, UTC).astimezone(zone).date() for at in (span.start, span.end))
    if (first, last) == year_of(first.year):
        return str(first.year)
    if (first, last) == month_of(first.year, first.month):
        return first.isoformat()[:7]
    return first.isoformat() if first == last else f"{first.isoformat()}..{last.isoformat()}"


def days_or_none(rule: Rule, match: re.Match[str], today: date) -> Days | None:
    try:
        return rule.days(match, today)
    except (ValueError, OverflowError):  # "February 30", "in 999 years": not a day of the calendar
        return None


def first_instant(day: date, zone: tzinfo) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


# ---------------------------------------------------------------------------------------------------- calendar


def one_day(day: date) -> Days:
    return day, day


def week_of(today: date, offset: int) -> Days:
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=offset)
    return monday, monday + timedelta(days=6)


def weekend_of(today: date, offset: int) -> Days:
    sunday = week_of(today, offset)[1]
    return sunday - timedelta(days=1), sunday


def _weekday(today: date, weekday: int, offset: int) -> Days:
    return one_day(week_of(today, offset)[0] + timedelta(days=weekday))


def month_of(year: int, month: int) -> Days:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    following = date(year + month // 12, month % 12 + 1, 1)
    return date(year, month, 1), following - timedelta(days=1)


def year_of(year: int) -> Days:
    return date(year, 1, 1), date(year, 12, 31)


def _nearest(month: int, day: int, today: date, text: str) -> date:
    """The year in which this day lies closest to today, on the side of which the text speaks, if it does."""
    candidates = []
    for year in range(today.year - 4, today.year + 5):  # nine years hold a 29 February on either side
        try:
            candidates.append(date(year, month, day))
        except ValueError:  # 29 February of a common year
            continue
    if _FUTURE.search(text):
        candidates = [candidate for candidate in candidates if candidate >= today]
    elif _PAST.search(text):
        candidates = [candidate for candidate in candidates if candidate <= today]
    return min(candidates, key=lambda candidate: abs((candidate - today).days))


def shifted(today: date, count: int, unit: str) -> Days:
    if unit in ("day", "天"):
        return one_day(today + timedelta(days=count))
    if unit in ("week", "周", "星期", "个星期"):
        return one_day(today + timedelta(weeks=count))
    if unit in ("month", "个月"):
        return month_of(today.year, today.month + count)
    return year_of(today.year + count)


# ---------------------------------------------------------------------------------------------------- English


def month_number(name: str) -> int:
    return next(number for number, full in enumerate(MONTHS, 1) if full.startswith(name.lower()[:3]))


def count_of(word: str) -> int:
    word = word.lower()
    return int(word) if word.isdigit() else 1 if word in ("a", "an") else NUMBERS_EN.index(word)


def _month_day(match: re.Match[str], today: date) -> Days:
    month, day, year = month_number(match["month"]), int(match["day"]), match["year"]
    return one_day(date(int(year), month, day) if year else _nearest(month, day, today, match.string))


def _month_only(match: re.Match[str], today: date) -> Days:
    month, year = month_number(match["month"]), match["year"]
    return month_of(int(year) if year else _nearest(month, 15, today, match.string).year, month)


def _last_next_weekday(match: re.Match[str], today: date) -> Days:
    weekday = WEEKDAYS.index(match["weekday"].lower())
    which = match["which"].lower()
    if which == "last":
        return one_day(today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1))
    return _weekday(today, weekday, 1 if which == "next" else 0)


def _bare_weekday(match: re.Match[str], today: date) -> Days:
    """`on Friday`: the last one when the sentence speaks of the past, else the next one."""
    ahead = (WEEKDAYS.index(match["weekday"].lower()) - today.weekday()) % 7 or 7
    return one_day(today + timedelta(days=ahead - 7 if _PAST.search(match.string) else ahead))


def _last_next_unit(match: re.Match[str], today: date) -> Days:
    offset = {"last": -1, "this": 0, "next": 1}[match["which"].lower()]
    unit = match["unit"].lower()
    if unit == "week":
        return week_of(today, offset)
    if unit == "weekend":
        return weekend_of(today, offset)
    return month_of(today.year, today.month + offset) if unit == "month" else year_of(today.year + offset)


def _near_day_en(match: re.Match[str], today: date) -> Days:
    words = " ".join(match[0].lower().split())
    days = {
        "the day before yesterday": -2,
        "the day after tomorrow": 2,
        "yesterday": -1,
        "last night": -1,
        "tomorrow": 1,
    }
    return one_day(today + timedelta(days=days.get(words.removesuffix(" morning"), 0)))


# ---------------------------------------------------------------------------------------------------- Chinese


def count_zh(text: str) -> int:
    return int(text) if text.isdigit() else DIGITS_ZH[text]


def _month_day_zh(match: re.Match[str], today: date) -> Days:
    month, day, year = int(match["month"]), int(match["day"]), match["year"]
    return one_day(date(int(year), month, day) if year else _nearest(month, day, today, match.string))


def _month_zh(match: re.Match[str], today: date) -> Days:
    month, year = int(match["month"]), match["year"]
    return month_of(int(year) if year else _nearest(month, 15, today, match.string).year, month)


def _week_zh(match: re.Match[str], today: date) -> Days:
    offset = {"上": -1, "这": 0, "本": 0, "下": 1}[match["which"]]
    weekday = match["weekday"]
    if weekday == "末":
        return weekend_of(today, offset)
    return _weekday(today, WEEKDAYS_ZH[weekday], offset) if weekday else week_of(today, offset)


def _near_day_zh(match: re.Match[str], today: date) -> Days:
    days = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "大后": 3}
    return one_day(today + timedelta(days=days[match["which"]]))


def _near_year_zh(match: re.Match[str], today: date) -> Days:
    return year_of(today.year + {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2}[match[0]])


def rule(pattern: str, days: Callable[[re.Match[str], date], Days | None], *, relative: bool) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), days, relative)


_YEAR_EN = r"(?:,?\s+(?P<year>(?:19|20)\d\d))?"
RULES = (
    rule(
        r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?!\d)",
        lambda match, _: one_day(date(int(match["y"]), int(match["m"]), int(match["d"]))),
        relative=False,
    ),
    rule(rf"\b{MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:){_YEAR_EN}", _month_day, relative=False),
    rule(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{MONTH}\b{_YEAR_EN}", _month_day, relative=False),
    rule(rf"\b(?:in|since|by|until|of|last|next|this)\s+{MONTH}(?=\W|$){_YEAR_EN}", _month_only, relative=False),
    rule(
        r"\b(?:in|since|by|until)\s+(?P<year>(?:19|20)\d\d)\b",
        lambda match, _: year_of(int(match["year"])),
        relative=False,
    ),
    rule(
        r"\bthe day before yesterday\b|\bthe day after tomorrow\b|\byesterday\b|\blast night\b|"
        r"\btomorrow\b|\btonight\b|"
        r"\btoday\b|\bthis (?:morning|afternoon|evening)\b",
        _near_day_en,
        relative=True,
    ),
    rule(rf"\b(?:(?:on|by)\s+)?(?P<which>last|this|next)\s+{WEEKDAY}\b", _last_next_weekday, relative=True),
    rule(rf"\bon\s+{WEEKDAY}\b", _bare_weekday, relative=True),
    rule(r"\b(?P<which>last|this|next)\s+(?P<unit>week|weekend|month|year)\b", _last_next_unit, relative=True),
    rule(
        rf"\b{COUNT}\s+{_UNIT}\s+ago\b",
        lambda match, today: shifted(today, -count_of(match["count"]), match["unit"].lower()),
        relative=True,
    ),
    rule(
        rf"\bin\s+{COUNT}\s+{_UNIT}(?:'|’)?(?:\s+time)?\b",
        lambda match, today: shifted(today, count_of(match["count"]), match["unit"].lower()),
        relative=True,
    ),
    rule(
        r"(?:(?P<year>(?:19|20)\d\d)年)?(?<!\d)(?P<month>1[0-2]|0?[1-9])月(?P<day>\d{1,2})[日号]?",
        _month_day_zh,
        relative=False,
    ),
    rule(r"(?:(?P<year>(?:19|20)\d\d)年)?(?<!\d)(?P<month>1[0-2]|0?[1-9])月(?!\d)", _month_zh, relative=False),
    rule(r"(?P<year>(?:19|20)\d\d)年", lambda match, _: year_of(int(match["year"])), relative=False),
    rule(r"(?P<which>大前|大后|前|昨|今|明|后)(?:天|晚|早)", _near_day_zh, relative=True),
    rule(r"(?P<which>[上这本下])个?(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天末])?", _week_zh, relative=True),
    rule(r"上个?月", lambda _, today: month_of(today.year, today.month - 1), relative=True),
    rule(r"[这本]个?月", lambda _, today: month_of(today.year, today.month), relative=True),
    rule(r"下个?月", lambda _, today: month_of(today.year, today.month + 1), relative=True),
    rule(r"前年|去年|今年|明年|后年", _near_year_zh, relative=True),
    rule(
        rf"{COUNT_ZH}{_UNIT_ZH}(?:之?前|以前)",
        lambda match, today: shifted(today, -count_zh(match["count"]), match["unit"]),
        relative=True,
    ),
    rule(
        rf"{COUNT_ZH}{_UNIT_ZH}(?:之?后|以后)",
        lambda match, today: shifted(today, count_zh(match["count"]), match["unit"]),
        relative=True,
    ),
)
