"""Checks of what callers name: users, sessions, limits. An odd value is refused, never mapped onto another one."""

from __future__ import annotations

from datetime import tzinfo

from memory_tencentdb_worker.errors import InvalidField, InvalidInput
from memory_tencentdb_worker.models import AtomType
from memory_tencentdb_worker.text.times import iso_local, parse_instant

NAME_LIMIT_CHARS = 500
SEARCH_LIMIT = 100
DEFAULT_SEARCH_LIMIT = 5


def scope_of(user_id: str) -> str:
    """The scope of a user id; "" is the default user."""
    return _checked(user_id, "user_id")


def session_of(session_key: str) -> str:
    if not session_key:
        raise InvalidInput("session_key must not be empty")
    return _checked(session_key, "session_key")


def optional_session(session_key: str) -> str | None:
    return _checked(session_key, "session_key") if session_key else None


def search_limit(limit: int | None) -> int:
    if limit is None:
        return DEFAULT_SEARCH_LIMIT
    return min(max(limit, 1), SEARCH_LIMIT)


def atom_type(name: str | None) -> AtomType | None:
    if not name:
        return None
    try:
        return AtomType(name)
    except ValueError as error:
        known = ", ".join(AtomType)
        raise InvalidInput(f"type {name!a} is unknown: use one of {known}") from error


def instant_of(value: str | int | None, field: str, zone: tzinfo) -> int | None:
    """ISO 8601 or epoch milliseconds; None and "" are absent. Raises InvalidField."""
    if value is None or value == "":
        return None
    try:
        return parse_instant(value, zone)
    except InvalidInput as error:
        raise InvalidField(field, f"{error}; use ISO 8601 or epoch milliseconds") from error


def shown(instant: int | None, zone: tzinfo) -> str | None:
    return None if instant is None else iso_local(instant, zone)


def _checked(value: str, field: str) -> str:
    if len(value) > NAME_LIMIT_CHARS:
        raise InvalidInput(f"{field} is longer than {NAME_LIMIT_CHARS} characters")
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise InvalidInput(f"{field} holds a control character or half a character")
    return value
