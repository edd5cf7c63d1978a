"""L0: from what the host hands over to a stored turn. What a person said is never dropped, at most stored twice."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from fnmatch import fnmatchcase

from memory_tencentdb.origins import answer_origin
from memory_tencentdb.wire import CaptureRequest, CaptureResponse
from memory_tencentdb_worker.config.model import Capture, Config
from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.layers.conversation import Said, not_grown, not_stored, split_turn
from memory_tencentdb_worker.layers.schedule import after_turn
from memory_tencentdb_worker.layers.screening import suspicion_of
from memory_tencentdb_worker.models import NewMessage, NewTurn, Origin, Role
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.clean import clean_text, flatten_content
from memory_tencentdb_worker.text.ids import turn_id as new_turn_id
from memory_tencentdb_worker.text.times import lenient_instant, parse_instant

TURN_ID_LIMIT = 200
KEY_LIMIT = 500
_MILLISECONDS_FROM = 100_000_000_000
_LESS_TRUSTED = (Origin.TOOL, Origin.WEB, Origin.IMPORTED)
_ORIGINS = {Role.USER: Origin.USER, Role.ASSISTANT: Origin.ASSISTANT}


def capture_turn(request: CaptureRequest, store: Store, config: Config, zone: tzinfo, now: int) -> CaptureResponse:
    """Stores one turn; the return means durable. Raises InvalidInput for ids or times that cannot be kept as given.

    The same turn id in the same session again stores only what is new. `messages` is the conversation so far: of what
    came before this turn, only what the session does not hold yet is stored; the turn itself always is, unless it is
    the session's last turn that has grown by further answers. An excluded session, or a turn of which nothing is worth
    storing, is answered with `l0_recorded` 0.
    """
    _check_ids(request)
    at = now if request.at is None else parse_instant(request.at, zone)
    turn_id = request.turn_id or new_turn_id()
    if is_excluded(config.memory.capture, request.session_key):
        return CaptureResponse(0, False, turn_id, False, reason="excluded")
    said = _with_origins(_said_in(request, store, zone), request)
    if not said:
        return CaptureResponse(0, False, turn_id, False)
    turn = NewTurn(
        scope=request.user_id,
        turn_id=turn_id,
        session_key=request.session_key,
        session_id=request.session_id,
        messages=tuple(_message(one, at) for one in said),
        captured_at=at,
        source=request.source or "http",
    )
    receipt = store.add_turn(turn, after_turn(config.memory.pipeline, now), now)
    return CaptureResponse(
        receipt.recorded,
        bool(receipt.recorded) or not receipt.withheld,
        receipt.turn_id,
        receipt.duplicate,
        list(receipt.message_ids),
        receipt.withheld,
    )


def is_excluded(capture: Capture, session_key: str) -> bool:
    """Whether this session is neither captured nor recalled. Patterns match the whole key."""
    return not capture.enabled or any(fnmatchcase(session_key, pattern) for pattern in capture.exclude_agents)


def check_key(name: str, value: object, *, longest: int, required: bool = False) -> None:
    """Ids are kept exactly as they are or refused, never mapped onto others. Raises InvalidInput."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a text", code="bad_id")
    if required and not value:
        raise InvalidInput(f"{name} must not be empty", code="bad_id")
    if len(value) > longest:
        raise InvalidInput(f"{name} is longer than {longest} characters", code="bad_id")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in value):
        raise InvalidInput(f"{name} holds control characters", code="bad_id")


def _check_ids(request: CaptureRequest) -> None:
    check_key("session_key", request.session_key, longest=KEY_LIMIT, required=True)
    check_key("session_id", request.session_id, longest=KEY_LIMIT)
    check_key("user_id", request.user_id, longest=KEY_LIMIT)
    check_key("turn_id", request.turn_id, longest=TURN_ID_LIMIT)


def _message(said: Said, at: int) -> NewMessage:
    origin = said.origin or _ORIGINS[said.role]
    return NewMessage(said.role, said.text, at if said.at is None else said.at, origin, suspicion_of(said.text, origin))


def _said_in(request: CaptureRequest, store: Store, zone: tzinfo) -> list[Said]:
    question = _cleaned(Role.USER, request.user_content)
    answer = _cleaned(Role.ASSISTANT, request.assistant_content)
    if not request.messages:
        return [*question, *answer]
    conversation = _conversation(request.messages, zone)
    tail = store.session_tail(request.user_id, request.session_key, 2 * len(conversation) + 20)
    stored = [(message.role, message.text) for message in tail]
    history, turn = split_turn(conversation, question, answer)
    return [*not_stored(history, stored), *not_grown(turn, stored)]


def _with_origins(said: list[Said], request: CaptureRequest) -> list[Said]:
    """Who wrote the turn's messages, as the client says or the list of messages shows. What a client may not say: that
    a message is more trustworthy than its role."""
    answer = request.assistant_origin or answer_origin(request.messages)
    named = {Role.USER: _named(request.user_origin, Role.USER), Role.ASSISTANT: _named(answer, Role.ASSISTANT)}
    last = max((place for place, one in enumerate(said) if one.role is Role.USER), default=0)
    return [*said[:last], *(replace(one, origin=one.origin or named[one.role]) for one in said[last:])]


def _named(origin: str, role: Role) -> Origin | None:
    if origin in ("", _ORIGINS[role]):
        return None
    if origin not in _LESS_TRUSTED:
        known = ", ".join((_ORIGINS[role], *_LESS_TRUSTED))
        raise InvalidInput(f"{role}_origin must be one of {known}", code="bad_origin")
    return Origin(origin)


def _cleaned(role: Role, content: object, at: int | None = None) -> list[Said]:
    text = clean_text(flatten_content(content), role)
    return [Said(role, text, at)] if text else []


def _conversation(messages: Sequence[object], zone: tzinfo) -> list[Said]:
    """User and assistant messages only. `api_content`, what the host sent to its model, is never looked at."""
    said: list[Said] = []
    for message in messages:
        fields = message.get("message", message) if isinstance(message, Mapping) else None
        if not isinstance(fields, Mapping) or fields.get("role") not in tuple(Role):
            continue
        at = _said_at(fields.get("timestamp", fields.get("at")), zone)
        role = Role(fields["role"])
        origin = _named(str(fields.get("origin") or ""), role)
        said += [replace(one, origin=origin) for one in _cleaned(role, fields.get("content"), at)]
    return said


def _said_at(value: object, zone: tzinfo) -> int | None:
    """A host's own time of a message. Hosts count in seconds or milliseconds; a number below 1973 in milliseconds can
    only be seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MILLISECONDS_FROM:
        value = round(value * 1000)
    return lenient_instant(value, zone)
