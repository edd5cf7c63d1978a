"""The days a question asks for, in English and Chinese: "last Tuesday", "in the spring of 2023", "去年夏天".

A question may be vague where a memory may not, so this reads more than `dates` does. A day, month or season without a
year is meant in every year: the other words tell which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo

from memory_tencentdb_worker.text.asked_rules import ASKED_RULES, LAST_RULES, number_zh
from memory_tencentdb_worker.text.dates import RULES, Days, Rule, days_or_none, first_instant, week_of

YEARS_BACK = 10
MOST_SPANS = 30

_NUMERAL_ZH = re.compile(r"[零〇一二两三四五六七八九十]+(?=[年月日号])")
_WEEKS = frozenset({"week", "周", "星期", "个星期"})


def asked_days(text: str, now: int, zone: tzinfo) -> tuple[tuple[int, int], ...]:
    """When what is asked for was said or happened: spans in epoch milliseconds, both ends included; () when the text
    names no time, or only one to come."""
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone).date()
    text = _NUMERAL_ZH.sub(lambda match: str(number_zh(match[0])), text)
    spans = [
        (first_instant(first, zone), first_instant(last + timedelta(days=1), zone) - 1)
        for first, last in _all_days(text, today)
        if first <= today
    ]
    return tuple(dict.fromkeys(spans))[:MOST_SPANS]


def _all_days(text: str, today: date) -> Iterator[Days]:
    """Every time the text names; where two rules read the same words the earlier rule counts."""
    taken: list[tuple[int, int]] = []
    for rule in (*ASKED_RULES, *RULES, *LAST_RULES):
        for match in rule.pattern.finditer(text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            meant = list(_meant(rule, match, today))
            if meant:
                taken.append(match.span())
            yield from meant


def _meant(rule: Rule, match: re.Match[str], today: date) -> Iterator[Days]:
    groups = match.groupdict()
    any_year = "year" in groups and not groups["year"] and not groups.get("which")
    for back in range(YEARS_BACK if any_year else 1):
        days = days_or_none(rule, match, _years_earlier(today, back))
        if days is not None and (days[0] <= today or not any_year):
            yield week_of(days[0], 0) if _counts_in_weeks(groups) and days[0] == days[1] else days


def _counts_in_weeks(groups: dict[str, str]) -> bool:
    """`two weeks ago` is no day."""
    return (groups.get("unit") or "").lower() in _WEEKS


def _years_earlier(today: date, years: int) -> date:
    return today if years == 0 else date(today.year - years, today.month, min(today.day, 28))
