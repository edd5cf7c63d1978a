"""What a question may call a time, beyond what `dates` reads: seasons, feasts, "a few days ago", "前几天".

Seasons are those of the northern hemisphere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from memory_tencentdb_worker.text.dates import (
    DIGITS_ZH,
    MONTH,
    NUMBERS_EN,
    WEEKDAYS_ZH,
    Days,
    count_of,
    month_number,
    month_of,
    one_day,
    rule,
    week_of,
    weekend_of,
    year_of,
)

_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12, "春": 3, "夏": 6, "秋": 9, "冬": 12}
_FEASTS = {
    "christmas": (12, 24, 12, 26),
    "new year": (12, 31, 1, 1),
    "halloween": (10, 31, 10, 31),
    "valentine": (2, 14, 2, 14),
    "圣诞": (12, 24, 12, 26),
    "元旦": (12, 31, 1, 1),
    "万圣": (10, 31, 10, 31),
    "情人节": (2, 14, 2, 14),
    "儿童节": (6, 1, 6, 1),
    "五一": (5, 1, 5, 5),
    "劳动节": (5, 1, 5, 5),
    "国庆": (10, 1, 10, 7),
    "寒假": (1, 10, 2, 20),
    "暑假": (7, 1, 8, 31),
}
_YEAR_WORDS = {"大前": -3, "前": -2, "去": -1, "今": 0, "上": -1, "这": 0, "last": -1, "past": -1, "this": 0}
_UNIT_DAYS = {"day": 1, "night": 1, "天": 1, "week": 7, "weekend": 7, "周": 7, "星期": 7, "month": 30, "月": 30}
_NUMERALS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_SOME_COUNT = 4


def number_zh(text: str) -> int:
    """十二 and 二〇二三 as numbers."""
    if "十" not in text:
        return int("".join(str(_NUMERALS[char]) for char in text))
    tens, _, ones = text.partition("十")
    return 10 * (number_zh(tens) if tens else 1) + (number_zh(ones) if ones else 0)


# ---------------------------------------------------------------------------------------------------- readers


def _season(match: re.Match[str], today: date) -> Days:
    """The season of the year named; without one the latest that has begun. A winter begins in December."""
    month = _SEASONS[match["season"].lower()]
    year = _year_meant(match, today, month, month + 2)
    still_winter = month == _SEASONS["winter"] and year == today.year and today.month < _SEASONS["autumn"]
    return _since_month(year - still_winter, month, 3)


def _feast(match: re.Match[str], today: date) -> Days:
    first_month, first_day, last_month, last_day = _FEASTS[match["feast"].lower()]
    year = _year_meant(match, today, first_month, first_month)
    return date(year, first_month, first_day), date(year + (last_month < first_month), last_month, last_day)


def _year_meant(match: re.Match[str], today: date, begins: int, ends: int) -> int:
    """`last summer` is this year's once it is over."""
    if match["year"]:
        return int(match["year"])
    which = (match["which"] or "").lower()
    if which in ("last", "past", "上"):
        return today.year - (today.month <= ends)
    if which:
        return today.year + _YEAR_WORDS[which]
    return today.year - (today.month < begins)


def _since_month(year: int, month: int, months: int) -> Days:
    return month_of(year, month)[0], month_of(year, month + months - 1)[1]


def _part_of_month(match: re.Match[str], today: date) -> Days:
    named = match["month"]
    month = int(named) if named.isdigit() else month_number(named)
    year = int(match["year"]) if match["year"] else today.year - (month > today.month)
    return _part(month_of(year, month), match["part"].lower())


def _part_of_period(match: re.Match[str], today: date) -> Days:
    offset = _YEAR_WORDS[match["which"] or "今"]
    whole = month_of(today.year, today.month + offset) if match["period"] == "月" else year_of(today.year + offset)
    return _part(whole, match["part"])


def _part(days: Days, name: str) -> Days:
    """The first, middle or last third."""
    first, last = days
    third = (last - first + timedelta(days=1)) // 3
    if name in ("early", "beginning of", "start of", "初", "上旬"):
        return first, first + third
    if name in ("late", "end of", "底", "末", "下旬"):
        return last - third, last
    return first + third, last - third


def _past(match: re.Match[str], today: date) -> Days:
    """`the last three weeks`, `最近两个月`."""
    return today - timedelta(days=_amount(match) * _unit_days(match)), today


def _some_ago(match: re.Match[str], today: date) -> Days:
    """`a few weeks ago`: between two and six of them."""
    days = _unit_days(match)
    return today - timedelta(days=6 * days), today - timedelta(days=2 * days)


def _half_ago(match: re.Match[str], today: date) -> Days:
    days = _unit_days(match)
    return today - timedelta(days=days * 3 // 4), today - timedelta(days=days // 4)


def _amount(match: re.Match[str]) -> int:
    word = (match["amount"] or "one").lower()
    if word in ("few", "couple of", "several", "几"):
        return _SOME_COUNT
    return DIGITS_ZH[word] if word in DIGITS_ZH else count_of(word)


def _unit_days(match: re.Match[str]) -> int:
    return _UNIT_DAYS.get(match["unit"].lower().removeprefix("个"), 365)


def _weekends_ago(match: re.Match[str], today: date) -> Days:
    return weekend_of(today, -_amount(match))


def _before_last(match: re.Match[str], today: date) -> Days:
    unit = match["unit"].lower()
    if unit == "week":
        return week_of(today, -2)
    if unit == "weekend":
        return weekend_of(today, -2)
    return month_of(today.year, today.month - 2) if unit == "month" else year_of(today.year - 2)


def _quarter(match: re.Match[str], today: date) -> Days:
    ordinal = match["ordinal"].lower()
    number = int(ordinal) if ordinal.isdigit() else ("first", "second", "third", "fourth").index(ordinal) + 1
    return _since_month(int(match["year"] or today.year), 3 * number - 2, 3)


def _decade(match: re.Match[str], today: date) -> Days:
    year = int(match["decade"])
    if year < 100:
        year += 1900 if year > today.year % 100 else 2000
    return date(year, 1, 1), date(year + 9, 12, 31)


def _month_and_year(match: re.Match[str], _: date) -> Days:
    return month_of(int(match["year"]), month_number(match["month"]))


def _year_alone(match: re.Match[str], _: date) -> Days:
    return year_of(int(match["year"]))


def _numeric(match: re.Match[str], _: date) -> Days:
    return one_day(date(int(match["year"]), int(match["m"]), int(match["d"])))


def _month_of_year_word(match: re.Match[str], today: date) -> Days:
    year, month = today.year + _YEAR_WORDS[match["which"]], int(match["month"])
    return one_day(date(year, month, int(match["day"]))) if match["day"] else month_of(year, month)


def _half_year(match: re.Match[str], today: date) -> Days:
    year = int(match["year"]) if match["year"] else today.year + _YEAR_WORDS[match["which"] or "今"]
    return _since_month(year, 1 if match["half"] == "上" else 7, 6)


def _latest_weekday(match: re.Match[str], today: date) -> Days:
    return one_day(today - timedelta(days=(today.weekday() - WEEKDAYS_ZH[match["weekday"]]) % 7))


def _latest_day(match: re.Match[str], today: date) -> Days:
    """`20号`: of this month, or of the one before while it is yet to come."""
    day = int(match["day"])
    return one_day(month_of(today.year, today.month - (day > today.day))[0].replace(day=day))


def _ago(first: int, last: int) -> Callable[[re.Match[str], date], Days]:
    return lambda _, today: (today - timedelta(days=first), today - timedelta(days=last))


# ---------------------------------------------------------------------------------------------------- rules

_YEAR = r"(?P<year>(?:19|20)\d\d)"
_AMOUNT = r"(?P<amount>\d{1,3}|few|couple of|several|" + "|".join(NUMBERS_EN[1:]) + ")"
_AMOUNT_ZH = r"(?P<amount>\d{1,3}|[几" + "".join(DIGITS_ZH) + "])"
_UNIT_ZH = r"(?P<unit>天|周|个?星期|个月|年)"
_YEAR_ZH = rf"(?:(?P<which>大前|前|去|今)年|{_YEAR}年)"
_FEAST_ZH = "(?P<feast>" + "|".join(name for name in _FEASTS if not name.isascii()) + ")"

_ENGLISH = (
    rule(
        rf"\b(?:(?P<which>last|this|past)\s+)?(?<!\ba )(?P<season>spring|summer|autumn|fall|winter)\b"
        rf"(?:,?\s+(?:of\s+|in\s+)?{_YEAR})?",
        _season,
        relative=True,
    ),
    rule(
        r"\b(?:(?P<which>last|this|past)\s+)?(?P<feast>christmas|new year|halloween|valentine)\b"
        rf"(?:['\u2019]?s)?(?:\s+(?:eve|day))?(?:,?\s+(?:of\s+|in\s+)?{_YEAR})?",
        _feast,
        relative=True,
    ),
    rule(
        rf"\b(?P<part>early|mid|late|(?:beginning|start|middle|end) of)[\s-]+{MONTH}(?=\W|$)(?:,?\s+{_YEAR})?",
        _part_of_month,
        relative=False,
    ),
    rule(rf"\b{_YEAR}[/.](?P<m>\d{{1,2}})[/.](?P<d>\d{{1,2}})\b", _numeric, relative=False),
    rule(rf"\bq(?P<ordinal>[1-4])\b(?:\s+(?:of\s+)?{_YEAR})?", _quarter, relative=False),
    rule(rf"\b(?P<ordinal>first|second|third|fourth) quarter\b(?:\s+(?:of\s+)?{_YEAR})?", _quarter, relative=False),
    rule(r"\bthe\s+(?P<decade>(?:19|20)?\d0)['\u2019]?s\b", _decade, relative=False),
    rule(r"\bthe (?P<unit>week|weekend|month|year) before last\b", _before_last, relative=True),
    rule(rf"\b{_AMOUNT} weekends ago\b", _weekends_ago, relative=True),
    rule(r"\b(?:a few|a couple of|several|some) (?P<unit>day|night|week|month|year)s ago\b", _some_ago, relative=True),
    rule(r"\bhalf an? (?P<unit>month|year) ago\b", _half_ago, relative=True),
    rule(rf"\b(?:last|past|previous)\s+{_AMOUNT}\s+(?P<unit>day|night|week|month|year)s?\b", _past, relative=True),
    rule(r"\b(?:the|this) past (?P<amount>)(?P<unit>day|week|weekend|month|year)\b", _past, relative=True),
    rule(r"\bthe other (?:day|night|evening)\b", _ago(10, 1), relative=True),
    rule(r"\b(?:recently|lately|these days)\b", _ago(30, 0), relative=True),
    rule(rf"\b(?:during|of|from|before|after|around|early|late|all|year)\s+{_YEAR}\b", _year_alone, relative=False),
)

_CHINESE = (
    rule(rf"{_YEAR_ZH}的?(?P<season>[春夏秋冬])[天季]", _season, relative=True),
    rule(r"(?P<year>)(?P<which>[上这])个(?P<season>[春夏秋冬])[天季]", _season, relative=True),
    rule(r"(?P<year>)(?P<which>)(?P<season>[春夏秋冬])[天季]", _season, relative=True),
    rule(rf"{_YEAR_ZH}?的?{_FEAST_ZH}", _feast, relative=True),
    rule(rf"{_YEAR_ZH}的?(?P<half>[上下])半年", _half_year, relative=True),
    rule(r"(?P<year>)(?P<which>)(?P<half>[上下])半年", _half_year, relative=True),
    rule(
        rf"(?:{_YEAR}年)?(?<!\d)(?P<month>1[0-2]|0?[1-9])月份?(?P<part>初|中旬?|底|末|上旬|下旬)",
        _part_of_month,
        relative=False,
    ),
    rule(
        r"(?:(?P<which>[上去前今])(?:年|个)?)?(?P<period>[年月])(?P<part>初|中|底|末)", _part_of_period, relative=True
    ),
    rule(
        r"(?P<which>大前|前|去|今)年的?(?P<month>1[0-2]|0?[1-9])月份?(?:(?P<day>\d{1,2})[日号]?)?",
        _month_of_year_word,
        relative=True,
    ),
    rule(r"上上个?(?:周|星期|礼拜)", lambda _, today: week_of(today, -2), relative=True),
    rule(r"上上个?月", lambda _, today: month_of(today.year, today.month - 2), relative=True),
    rule(r"大前年", lambda _, today: year_of(today.year - 3), relative=True),
    rule(rf"[几数]{_UNIT_ZH}(?:之?前|以前)", _some_ago, relative=True),
    rule(r"半(?P<unit>年|个月)(?:之?前|以前)", _half_ago, relative=True),
    rule(rf"(?:最近|过去|近)的?这?{_AMOUNT_ZH}{_UNIT_ZH}", _past, relative=True),
    rule(r"前(?:几|些)天|前阵子|前段时间|前不久|前些日子", _ago(30, 1), relative=True),
    rule(r"这(?:几|些|两)天", _ago(4, 0), relative=True),
    rule(r"最近|近来|近期|这阵子", _ago(30, 0), relative=True),
    rule(r"刚才|刚刚|方才", _ago(0, 0), relative=True),
    rule(r"(?<![上这本下个])(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天])", _latest_weekday, relative=True),
    rule(r"(?<![月\d])(?P<day>[1-3]?\d)号(?![楼线店门码])", _latest_day, relative=True),
)

ASKED_RULES = (*_ENGLISH, *_CHINESE)

LAST_RULES = (rule(rf"\b{MONTH},?\s+(?:of\s+)?{_YEAR}\b", _month_and_year, relative=False),)
"""Tried after those of `dates`, which may find a day before the month."""
