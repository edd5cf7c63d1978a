"""What a question calls a time, asked on Wednesday, 4 March 2026."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memory_tencentdb_worker.text.asked_days import asked_days

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = round(datetime(2026, 3, 4, 3, 0, tzinfo=UTC).timestamp() * 1000)

ASKED = """
what did I say yesterday | 2026-03-03
the day before yesterday | 2026-03-02
what happened today | 2026-03-04
this morning | 2026-03-04
last night | 2026-03-03
last week | 2026-02-23..2026-03-01
this week | 2026-03-02..2026-03-08
last weekend | 2026-02-28..2026-03-01
the weekend before last | 2026-02-21..2026-02-22
the week before last | 2026-02-16..2026-02-22
the month before last | 2026-01-01..2026-01-31
two weekends ago | 2026-02-21..2026-02-22
last month | 2026-02-01..2026-02-28
this month | 2026-03-01..2026-03-31
last year | 2025-01-01..2025-12-31
this year | 2026-01-01..2026-12-31
the year before last | 2024-01-01..2024-12-31
last Tuesday | 2026-03-03
last friday | 2026-02-27
this Monday | 2026-03-02
where did I go on Monday | 2026-03-02
what did we do on Sunday | 2026-03-01
three days ago | 2026-03-01
10 days ago | 2026-02-22
a week ago | 2026-02-23..2026-03-01
two weeks ago | 2026-02-16..2026-02-22
a month ago | 2026-02-01..2026-02-28
six months ago | 2025-09-01..2025-09-30
two years ago | 2024-01-01..2024-12-31
a few days ago | 2026-02-26..2026-03-02
a couple of weeks ago | 2026-01-21..2026-02-18
several months ago | 2025-09-05..2026-01-03
a few years ago | 2020-03-05..2024-03-04
half a year ago | 2025-06-04..2025-12-03
half a month ago | 2026-02-10..2026-02-25
the past week | 2026-02-25..2026-03-04
the last three weeks | 2026-02-11..2026-03-04
in the past two months | 2026-01-03..2026-03-04
over the past year | 2025-03-04..2026-03-04
the last few days | 2026-02-28..2026-03-04
the last couple of weeks | 2026-02-04..2026-03-04
the other day | 2026-02-22..2026-03-03
the other night | 2026-02-22..2026-03-03
recently | 2026-02-02..2026-03-04
lately | 2026-02-02..2026-03-04
these days | 2026-02-02..2026-03-04
on March 2 | 2026-03-02
on March 2nd, 2024 | 2024-03-02
March 2, 2024 | 2024-03-02
2 March 2024 | 2024-03-02
the 2nd of March 2024 | 2024-03-02
on 12 August | 2025-08-12
Aug 12 | 2025-08-12
Dec 24, 2025 | 2025-12-24
in January | 2026-01-01..2026-01-31
in October | 2025-10-01..2025-10-31
in March 2023 | 2023-03-01..2023-03-31
last October | 2025-10-01..2025-10-31
since November | 2025-11-01..2025-11-30
March 2023 | 2023-03-01..2023-03-31
June, 2022 | 2022-06-01..2022-06-30
in Sept 2021 | 2021-09-01..2021-09-30
early March 2024 | 2024-03-01..2024-03-11
mid-June 2023 | 2023-06-11..2023-06-20
late July 2022 | 2022-07-21..2022-07-31
the beginning of May 2025 | 2025-05-01..2025-05-11
end of October 2025 | 2025-10-21..2025-10-31
in 2023 | 2023-01-01..2023-12-31
during 2021 | 2021-01-01..2021-12-31
before 2020 | 2020-01-01..2020-12-31
since 2019 | 2019-01-01..2019-12-31
early 2022 | 2022-01-01..2022-12-31
the spring of 2023 | 2023-03-01..2023-05-31
last summer | 2025-06-01..2025-08-31
this winter | 2025-12-01..2026-02-28
last winter | 2025-12-01..2026-02-28
summer 2022 | 2022-06-01..2022-08-31
in autumn of 2021 | 2021-09-01..2021-11-30
in the fall of 2024 | 2024-09-01..2024-11-30
in summer | 2025-06-01..2025-08-31
last spring | 2025-03-01..2025-05-31
Christmas 2024 | 2024-12-24..2024-12-26
last Christmas | 2025-12-24..2025-12-26
at Christmas | 2025-12-24..2025-12-26
New Year's Eve 2023 | 2023-12-31..2024-01-01
Halloween | 2025-10-31
Valentine's Day 2025 | 2025-02-14
Q1 2024 | 2024-01-01..2024-03-31
Q3 of 2025 | 2025-07-01..2025-09-30
the second quarter of 2025 | 2025-04-01..2025-06-30
the 90s | 1990-01-01..1999-12-31
the 1980s | 1980-01-01..1989-12-31
2026-02-14 | 2026-02-14
2023-05-04 | 2023-05-04
2023/05/04 | 2023-05-04
2024.12.31 | 2024-12-31
昨天我说了什么 | 2026-03-03
前天 | 2026-03-02
大前天 | 2026-03-01
今天 | 2026-03-04
今早 | 2026-03-04
昨晚 | 2026-03-03
前晚 | 2026-03-02
上周 | 2026-02-23..2026-03-01
这周 | 2026-03-02..2026-03-08
本周 | 2026-03-02..2026-03-08
上上周 | 2026-02-16..2026-02-22
上周五 | 2026-02-27
上个星期三 | 2026-02-25
上周末 | 2026-02-28..2026-03-01
上礼拜天 | 2026-03-01
周二 | 2026-03-03
星期天 | 2026-03-01
礼拜一 | 2026-03-02
上个月 | 2026-02-01..2026-02-28
这个月 | 2026-03-01..2026-03-31
上上个月 | 2026-01-01..2026-01-31
本月 | 2026-03-01..2026-03-31
去年 | 2025-01-01..2025-12-31
今年 | 2026-01-01..2026-12-31
前年 | 2024-01-01..2024-12-31
大前年 | 2023-01-01..2023-12-31
三天前 | 2026-03-01
十天前 | 2026-02-22
两周前 | 2026-02-16..2026-02-22
一个月前 | 2026-02-01..2026-02-28
三个月前 | 2025-12-01..2025-12-31
两年前 | 2024-01-01..2024-12-31
几天前 | 2026-02-26..2026-03-02
几个月前 | 2025-09-05..2026-01-03
几年前 | 2020-03-05..2024-03-04
半年前 | 2025-06-04..2025-12-03
半个月前 | 2026-02-10..2026-02-25
前几天 | 2026-02-02..2026-03-03
前些天 | 2026-02-02..2026-03-03
前阵子 | 2026-02-02..2026-03-03
前段时间 | 2026-02-02..2026-03-03
这几天 | 2026-02-28..2026-03-04
这两天 | 2026-02-28..2026-03-04
最近 | 2026-02-02..2026-03-04
近来 | 2026-02-02..2026-03-04
最近三天 | 2026-03-01..2026-03-04
最近一周 | 2026-02-25..2026-03-04
最近两个月 | 2026-01-03..2026-03-04
过去几年 | 2022-03-05..2026-03-04
3月2日 | 2026-03-02
3月2号 | 2026-03-02
三月二号 | 2026-03-02
十二月二十五日 | 2025-12-25
2024年5月20日 | 2024-05-20
二〇二三年八月 | 2023-08-01..2023-08-31
2023年 | 2023-01-01..2023-12-31
2023年5月 | 2023-05-01..2023-05-31
10月 | 2025-10-01..2025-10-31
去年3月 | 2025-03-01..2025-03-31
去年十月 | 2025-10-01..2025-10-31
前年5月1日 | 2024-05-01
今年二月 | 2026-02-01..2026-02-28
去年夏天 | 2025-06-01..2025-08-31
今年冬天 | 2025-12-01..2026-02-28
前年秋天 | 2024-09-01..2024-11-30
2023年春天 | 2023-03-01..2023-05-31
2022年夏季 | 2022-06-01..2022-08-31
上个夏天 | 2025-06-01..2025-08-31
夏天 | 2025-06-01..2025-08-31
去年圣诞节 | 2025-12-24..2025-12-26
2024年国庆 | 2024-10-01..2024-10-07
国庆节 | 2025-10-01..2025-10-07
去年暑假 | 2025-07-01..2025-08-31
寒假 | 2026-01-10..2026-02-20
2025年情人节 | 2025-02-14
五一 | 2025-05-01..2025-05-05
元旦 | 2025-12-31..2026-01-01
月初 | 2026-03-01..2026-03-11
上个月底 | 2026-02-19..2026-02-28
去年年底 | 2025-09-01..2025-12-31
今年年初 | 2026-01-01..2026-05-02
年初 | 2026-01-01..2026-05-02
5月初 | 2025-05-01..2025-05-11
2025年6月中旬 | 2025-06-11..2025-06-20
1月底 | 2026-01-21..2026-01-31
去年上半年 | 2025-01-01..2025-06-30
今年上半年 | 2026-01-01..2026-06-30
去年下半年 | 2025-07-01..2025-12-31
下半年 | 2025-07-01..2025-12-31
20号 | 2026-02-20
3号 | 2026-03-03
刚才 | 2026-03-04
"""


def days(text: str) -> list[str]:
    shown = []
    for span in asked_days(text, NOW, SHANGHAI):
        first, last = (datetime.fromtimestamp(at / 1000, SHANGHAI).date().isoformat() for at in span)
        shown.append(first if first == last else f"{first}..{last}")
    return shown


@pytest.mark.parametrize("row", ASKED.strip().splitlines())
def test_the_days_that_are_asked_for_come_first(row: str) -> None:
    text, expected = row.split(" | ")
    assert days(text)[:1] == [expected]


def test_the_table_holds_150_expressions() -> None:
    assert len(ASKED.strip().splitlines()) >= 150


@pytest.mark.parametrize("text", ["the 4th of May", "5月4日", "in summer", "国庆节"])
def test_a_day_without_a_year_is_meant_in_every_year(text: str) -> None:
    found = days(text)
    assert len(found) >= 9  # of the last ten years; this year's may be yet to come
    assert len({one[:4] for one in found}) == len(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what is my dog called",
        "tomorrow",
        "next Friday",
        "下周五",
        "明年",
        "this weekend",
        "这周末",
        "I may go",
        "a fall from the roof",
        "version 2026",
        "2026-13-45",
        "13月5日",
        "3号线怎么走",
        "500 days",
    ],
)
def test_what_names_no_time_that_has_begun_prefers_nothing(text: str) -> None:
    assert days(text) == []


def test_two_times_are_both_preferred() -> None:
    assert days("between 2023-05-04 and June 2024") == ["2023-05-04", "2024-06-01..2024-06-30"]


def test_words_are_read_once_by_the_rule_that_knows_more_of_them() -> None:
    assert days("去年夏天") == ["2025-06-01..2025-08-31"]
    assert days("the summer of 2023") == ["2023-06-01..2023-08-31"]
