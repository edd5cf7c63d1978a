"""Secrets stop at the door: every request is redacted before anything else looks at it.

Providers have done so already; the command line, other HTTP clients, imports and an outbox of an older version have
not. Of what names something (sessions, turns) only that is taken which is a secret by its shape, always in the same
way, so that a name stays a name. User ids are kept exactly or refused, never mapped, and are left alone.
"""

from __future__ import annotations

from dataclasses import Field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from memory_tencentdb.redaction import Redactor
from memory_tencentdb_worker.text.clean import without_invisible

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Request = TypeVar("Request", bound=DataclassInstance)
else:
    Request = TypeVar("Request")

TEXTS = frozenset({"user_content", "assistant_content", "messages", "content", "old_text", "query"})
NAMES = frozenset({"session_key", "session_id", "session", "turn_id", "write_id", "source"})
DEEPEST = 16
"""Far deeper than the text of any message lies; what is below is not read by anybody, and is dropped."""


def without_secrets(request: Request, redactor: Redactor) -> Request:
    """The same request with its secrets marked. `ForgetRequest.matching` stays: it looks for what was kept before."""
    changed = {
        field.name: value for field in fields(request) if (value := _redacted(request, field, redactor)) is not None
    }
    return replace(request, **changed) if changed else request


def _redacted(request: Any, field: Field[Any], redactor: Redactor) -> Any:
    """None: there is nothing to look at."""
    value = getattr(request, field.name)
    if field.name in NAMES and isinstance(value, str):
        return redactor.redact_name(value)
    if field.name in TEXTS and value:
        return _deep(value, redactor, DEEPEST)
    return None


def _deep(value: Any, redactor: Redactor, depth: int) -> Any:
    if isinstance(value, str):
        return redactor.redact(without_invisible(value))
    if not depth:
        return None
    if isinstance(value, dict):
        return {key: _deep(one, redactor, depth - 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_deep(one, redactor, depth - 1) for one in value]
    return value
