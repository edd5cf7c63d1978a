"""Instants (milliseconds since the epoch, UTC) to local time as people and models read it, and back."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memory_tencentdb_worker.errors import InvalidInput

_DAY_MS = 86_400_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Years 1 to 9999, UTC: what `datetime` can hold."""

EARLIEST_MS, LATEST_MS = _FIRST_MS - _DAY_MS, _LAST_MS + _DAY_MS
"""The same years in any zone: every time that ISO 8601 can write."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE | re.ASCII)
_MILLISECONDS = re.compile(r"-?\d{9,16}", re.ASCII)


def resolve_zone(name: str) -> tzinfo:
    """The zone for "system" (or ""), an IANA name, "UTC"/"Z", or an offset such as +08:00.

    Raises InvalidInput for any other name.
    """
    wanted = name.strip()
    if wanted.lower() in {"", "system", "local"}:
        return _system_zone()
    if wanted.upper() in {"Z", "UTC", "GMT"}:
        return UTC
    offset = _OFFSET.fullmatch(wanted)
    if offset:
        return _fixed_zone(name, offset)
    try:
        return ZoneInfo(wanted)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # a folder or a path outside raises the latter two
        raise InvalidInput(f"unknown time zone: {name!r}", code="bad_time_zone") from error


def iso_local(instant_ms: int, zone: tzinfo) -> str:
    """ISO 8601 with seconds and offset, e.g. 2026-05-21T10:00:00+08:00."""
    return _local(instant_ms, zone).isoformat(timespec="seconds")


def date_local(instant_ms: int, zone: tzinfo) -> str:
    """The local day, YYYY-MM-DD."""
    return _local(instant_ms, zone).date().isoformat()


def stamp_local(instant_ms: int, zone: tzinfo) -> str:
    """YYYYMMDD_HHmmss, as the names of backups have it."""
    return _local(instant_ms, zone).strftime("%Y%m%d_%H%M%S")


def day_start(instant_ms: int, zone: tzinfo) -> int:
    """The instant at which the local day of `instant_ms` began."""
    return to_instant(datetime.combine(_local(instant_ms, zone).date(), time.min, zone))


def next_day_start(instant_ms: int, zone: tzinfo) -> int:
    """The instant at which the following local day begins; a day may have 23 or 25 hours."""
    day = _local(instant_ms, zone).date()
    if day == date.max:
        return LATEST_MS
    following = day + timedelta(days=1)
    return to_instant(datetime.combine(following, time.min, zone))


def to_instant(moment: datetime) -> int:
    """Milliseconds since the epoch of an aware datetime."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_instant(value: str | int | float, zone: tzinfo) -> int:
    """Reads ISO 8601 (without an offset it is local time; a date alone is the start of that local day) or epoch
    milliseconds, also as digits in a string. Raises InvalidInput, also for an instant outside of years 1 to 9999."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(f"not a time: {value!r}", code="bad_time")
    if isinstance(value, str):
        text = value.strip()
        return _checked(int(text), value) if _MILLISECONDS.fullmatch(text) else _parse_iso(text, zone)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"not a time: {value!r}", code="bad_time")
    return _checked(int(value), value)


def lenient_instant(value: object, zone: tzinfo) -> int | None:
    """What a model wrote as a time, or None when it is no time that can be read ("yesterday", null, {}) or
    stands for "always" (the first and the last days of the calendar)."""
    if not isinstance(value, str | int | float):
        return None
    try:
        instant = parse_instant(value, zone)
    except InvalidInput:
        return None
    return instant if _FIRST_MS + 2 * _DAY_MS <= instant <= _LAST_MS - 2 * _DAY_MS else None


def _parse_iso(text: str, zone: tzinfo) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return _checked(to_instant(moment), text)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"not a time: {text[:60]!r}", code="bad_time") from error


def _checked(instant_ms: int, value: object) -> int:
    if not EARLIEST_MS <= instant_ms <= LATEST_MS:
        raise InvalidInput(f"time out of range: {str(value)[:60]}", code="bad_time")
    return instant_ms


def _local(instant_ms: int, zone: tzinfo) -> datetime:
    try:
        return _utc(min(max(instant_ms, _FIRST_MS), _LAST_MS)).astimezone(zone)
    except (ValueError, OverflowError):  # the zone shifts it out of the calendar: shown at the border, it never raises
        return _utc(min(max(instant_ms, _FIRST_MS + 2 * _DAY_MS), _LAST_MS - 2 * _DAY_MS)).astimezone(zone)


def _utc(instant_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=instant_ms)


def _fixed_zone(name: str, offset: re.Match[str]) -> tzinfo:
    sign, hours, minutes = offset.groups()
    shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if shift > timedelta(hours=14):
        raise InvalidInput(f"unknown time zone: {name!r}", code="bad_time_zone")
    return timezone(-shift if sign == "-" else shift)


class _SystemZone(tzinfo):
    """The machine's zone with its summer-time rules, read from the C library for each instant."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return _system_offset(moment)

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        local = moment.replace(tzinfo=UTC).astimezone()
        naive = local.replace(tzinfo=None)
        second_time = naive.astimezone().utcoffset() != local.utcoffset()  # the hour that the clock goes back
        return naive.replace(tzinfo=self, fold=int(second_time))


def _system_zone() -> tzinfo:
    return _SystemZone()


def _system_offset(moment: datetime | None) -> timedelta:
    naive = datetime.combine(date(1970, 1, 1), time.min) if moment is None else moment.replace(tzinfo=None)
    return naive.astimezone().utcoffset() or timedelta(0)
