"""Instants are shown in local time with their offset, and read back without guessing."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.text.times import (
    EARLIEST_MS,
    LATEST_MS,
    date_local,
    day_start,
    iso_local,
    lenient_instant,
    next_day_start,
    parse_instant,
    resolve_zone,
    stamp_local,
)

SHANGHAI = ZoneInfo("Asia/Shanghai")
KATHMANDU = ZoneInfo("Asia/Kathmandu")
NEW_YORK = ZoneInfo("America/New_York")
INSTANT = 1_779_294_600_123  # 2026-05-20T16:30:00.123Z


def test_local_times_carry_their_offset() -> None:
    assert iso_local(INSTANT, SHANGHAI) == "2026-05-21T00:30:00+08:00"
    assert iso_local(INSTANT, KATHMANDU) == "2026-05-20T22:15:00+05:45"
    assert date_local(INSTANT, SHANGHAI) == "2026-05-21"
    assert stamp_local(INSTANT, SHANGHAI) == "20260521_003000"


def test_a_day_with_a_clock_change_has_its_own_length() -> None:
    noon = parse_instant("2026-11-01T12:00:00", NEW_YORK)
    assert next_day_start(noon, NEW_YORK) - day_start(noon, NEW_YORK) == 25 * 3_600_000
    assert iso_local(day_start(noon, NEW_YORK), NEW_YORK) == "2026-11-01T00:00:00-04:00"


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("2026-05-21T10:00", "2026-05-21T10:00:00+08:00"),
        ("2026-05-21 10:00:05", "2026-05-21T10:00:05+08:00"),
        ("2026-05-21T10:00Z", "2026-05-21T18:00:00+08:00"),
        ("2026-05-21T10:00:00.123-05:00", "2026-05-21T23:00:00+08:00"),
        ("2026-05-21", "2026-05-21T00:00:00+08:00"),
        (INSTANT, "2026-05-21T00:30:00+08:00"),
        (float(INSTANT), "2026-05-21T00:30:00+08:00"),
        (str(INSTANT), "2026-05-21T00:30:00+08:00"),
    ],
)
def test_times_are_read_in_every_form(value: str | int | float, iso: str) -> None:
    assert iso_local(parse_instant(value, SHANGHAI), SHANGHAI) == iso


@pytest.mark.parametrize(
    "value", ["昨天", "", "soon", "2026-13-01", float("nan"), float("inf"), 10**18, True, "10000-01-01"]
)
def test_what_is_no_time_is_refused(value: str | float) -> None:
    with pytest.raises(InvalidInput):
        parse_instant(value, SHANGHAI)
    assert lenient_instant(value, SHANGHAI) is None


@pytest.mark.parametrize(
    "value",
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-14:00",
     "1969-12-31T23:59:59Z"],
)  # fmt: skip
def test_every_time_that_iso_can_write_is_kept_as_given(value: str) -> None:
    instant = parse_instant(value, SHANGHAI)
    assert instant == (datetime.fromisoformat(value) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    for zone in ("system", "UTC", "+14:00", "-14:00", "Asia/Shanghai"):
        shown = resolve_zone(zone)
        assert iso_local(instant, shown)
        assert day_start(instant, shown) <= next_day_start(instant, shown)


def test_a_model_may_write_anything_as_a_time() -> None:
    odd: tuple[object, ...] = (None, {}, [], "9999-12-31T23:59:59Z")
    assert [lenient_instant(value, SHANGHAI) for value in odd] == [None] * 4
    assert lenient_instant("2026-05-21", SHANGHAI) is not None


@pytest.mark.parametrize("instant", [EARLIEST_MS, LATEST_MS, -(10**18), 10**18])
@pytest.mark.parametrize("zone", ["system", "UTC", "+14:00", "-14:00", "Asia/Kathmandu"])
def test_odd_instants_are_shown_without_error(instant: int, zone: str) -> None:
    assert iso_local(instant, resolve_zone(zone))


@pytest.mark.parametrize(
    ("name", "iso"), [("+08:00", "+08:00"), ("-0530", "-05:30"), ("UTC+8", "+08:00"), ("utc", "+00:00")]
)
def test_offsets_are_zones(name: str, iso: str) -> None:
    assert iso_local(INSTANT, resolve_zone(name)).endswith(iso)


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "/etc/localtime", "+25:00", "Asia", "x\x00y"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        resolve_zone(name)


def test_the_system_zone_follows_its_clock_changes() -> None:
    script = (
        "from memory_tencentdb_worker.text.times import *; z = resolve_zone('system');"
        "print([iso_local(1793509200000 + h * 3600000, z) for h in range(3)],"
        " day_start(1793550000000, z), next_day_start(1793550000000, z),"
        " [parse_instant(iso_local(1793509200000 + h * 3600000, z), z) for h in range(3)])"
    )
    env = os.environ | {"TZ": "America/New_York", "PYTHONPATH": ":".join(sys.path)}
    out = subprocess.run([sys.executable, "-c", script], check=True, env=env, capture_output=True, text=True).stdout
    assert "'2026-11-01T01:00:00-04:00', '2026-11-01T01:00:00-05:00', '2026-11-01T02:00:00-05:00'" in out
    assert "1793505600000 1793595600000 [1793509200000, 1793512800000, 1793516400000]" in out
