"""What was forgotten stays forgotten: hashes with a private key, so that they tell nobody what it was.

Three kinds: a whole turn by its id, a text in its session, and the content of a fact. The key lies in a file of its own
beside the database: without it the hashes cannot be tried against guesses, and it never travels in a backup.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import apsw

from memory_tencentdb_worker.errors import StoreError
from memory_tencentdb_worker.models import AtomChanges, NewAtom, NewMessage, NewTurn, Role
from memory_tencentdb_worker.store.connection import first_value
from memory_tencentdb_worker.text.segment import fold

KEY_FILE = ".tombstone-key"
KEY_BYTES = 32
TELLING_CHARS = 8
"""A shorter text ("ok", "thanks") says nothing: said again after the forgetting, it is another one."""

TURN, TEXT, FACT = "turn", "text", "fact"


class Tombstones:
    """Marks are the same for the same words under one key, which is read, or made, with the first mark: where nothing
    was ever forgotten there is none. Marking raises StoreError when the key cannot be had."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / KEY_FILE
        self._key = b""

    def turn(self, session_key: str, turn_id: str) -> str:
        return self._mark(TURN, session_key, turn_id)

    def text(self, session_key: str, role: str, text: str) -> str:
        return self._mark(TEXT, session_key, role, text)

    def fact(self, content: str) -> str:
        return self._mark(FACT, " ".join(fold(content).split()).rstrip(".。!！ "))

    def _mark(self, *parts: str) -> str:
        self._key = self._key or _read_key(self._path)
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(f"{len(data)}:".encode("ascii") + data)
        return digest.hexdigest()[:32]


def place(connection: apsw.Connection, scope: str, kind: str, marks: Iterable[str], now: int) -> None:
    connection.executemany(
        "insert into tombstones(scope, kind, mark, at) values (?, ?, ?, ?)"
        " on conflict do update set at = max(at, excluded.at)",
        [(scope, kind, mark, now) for mark in marks],
    )


def let_through(connection: apsw.Connection, stones: Tombstones, turn: NewTurn) -> NewTurn:
    """The turn without what was forgotten: the same turn, or the same text in the same session. The answer to a
    forgotten question is forgotten with it."""
    if not _any(connection, turn.scope):
        return turn
    if _at(connection, turn.scope, TURN, stones.turn(turn.session_key, turn.turn_id)) is not None:
        return replace(turn, messages=())
    kept: list[NewMessage] = []
    question_gone = False
    last_question = max((at for at, one in enumerate(turn.messages) if one.role is Role.USER), default=0)
    for number, message in enumerate(turn.messages):
        mark = stones.text(turn.session_key, message.role, message.text)
        gone = _is_gone(_at(connection, turn.scope, TEXT, mark), message, again=number < last_question)
        if message.role is Role.USER:
            question_gone = gone
        if not gone and not (question_gone and message.role is Role.ASSISTANT):
            kept.append(message)
    return turn if len(kept) == len(turn.messages) else replace(turn, messages=tuple(kept))


def without_forgotten_facts(
    connection: apsw.Connection, stones: Tombstones, scope: str, changes: AtomChanges
) -> AtomChanges:
    """A forgotten fact is not drawn again from what was said before it was forgotten. What replaces or ends it stays
    as it is; a fact that it would have replaced keeps holding."""
    if not changes.add or not _any(connection, scope):
        return changes
    gone = {new.id for new in changes.add if _fact_is_gone(connection, stones, scope, new)}
    if not gone:
        return changes
    return replace(
        changes,
        add=tuple(new for new in changes.add if new.id not in gone),
        supersede=tuple(pair for pair in changes.supersede if gone.isdisjoint(pair)),
    )


def withhold(connection: apsw.Connection, stones: Tombstones, turn: NewTurn) -> None:
    """What was said while memory paused is not taken in later either, when a host sends the conversation so far."""
    marks = [stones.text(turn.session_key, message.role, message.text) for message in turn.messages]
    place(connection, turn.scope, TEXT, marks, turn.captured_at)


def _is_gone(forgotten_at: int | None, message: NewMessage, *, again: bool) -> bool:
    """`again`: it came as part of the conversation so far. Only a person's own text is recognised after the time it
    was forgotten: assistants say the same to many questions."""
    if forgotten_at is None:
        return False
    if again or message.sent_at <= forgotten_at:
        return True
    return message.role is Role.USER and len(message.text) >= TELLING_CHARS


def _fact_is_gone(connection: apsw.Connection, stones: Tombstones, scope: str, new: NewAtom) -> bool:
    forgotten_at = _at(connection, scope, FACT, stones.fact(new.content))
    if forgotten_at is None:
        return False
    return all(_sent_at(connection, source.message_id) <= forgotten_at for source in new.sources)


def _sent_at(connection: apsw.Connection, message_id: str) -> int:
    return int(first_value(connection, "select sent_at from messages where id = ?", (message_id,)) or 0)


def _any(connection: apsw.Connection, scope: str) -> bool:
    return first_value(connection, "select 1 from tombstones where scope = ? limit 1", (scope,)) is not None


def _at(connection: apsw.Connection, scope: str, kind: str, mark: str) -> int | None:
    value = first_value(
        connection, "select at from tombstones where scope = ? and kind = ? and mark = ?", (scope, kind, mark)
    )
    return None if value is None else int(value)


def _read_key(path: Path) -> bytes:
    try:
        if not path.exists():
            _write_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error.strerror or error}", code="data_dir") from error
    if len(key) != KEY_BYTES:
        raise StoreError(f"{path} is damaged: put a copy of it back, or remove it", code="data_dir")
    return key


def _write_key(path: Path) -> None:
    """Whole or not at all, and never over another process's key."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
    finally:
        temporary.unlink(missing_ok=True)
