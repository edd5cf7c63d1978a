"""One turn through the layers: how it came, which jobs and model calls read it, and where it stands in memory now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

from memory_tencentdb_worker.errors import NotFound
from memory_tencentdb_worker.models import Atom, Line, Message, ModelCall, Section
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.turn_record import Step, TurnRecord
from memory_tencentdb_worker.text.ids import text_hash
from memory_tencentdb_worker.text.times import iso_local

PERSONA_TASK = "l3-persona"


def trace_turn(turn_id: str, store: Store, zone: tzinfo, scope: str | None = None) -> dict[str, Any]:
    """`{turn_id, turns}`: sessions may share an id. `scope` None looks in every scope. Raises NotFound."""
    records = store.turn_records(scope, turn_id)
    if not records:
        raise NotFound(f"no turn is known under the id {turn_id!a}")
    return {"turn_id": turn_id, "turns": [_shown(record, store, zone) for record in records]}


def _shown(record: TurnRecord, store: Store, zone: tzinfo) -> dict[str, Any]:
    mine = {message.id for message in record.messages} | {atom.id for atom in record.atoms}
    scenes, names = _scenes(store, record.scope, mine)
    persona = _persona(store, record.scope, mine | names)
    calls = [call for call in record.calls if persona or call.task != PERSONA_TASK]
    return {
        "user_id": record.scope,
        "session_key": record.session_key,
        "session_id": record.session_id,
        "captured_at": iso_local(record.captured_at, zone),
        "recorded_at": iso_local(record.recorded_at, zone),
        "source": record.source,
        "messages": [_message(message, zone) for message in record.messages],
        "jobs": [_step(step, zone) for step in record.steps],
        "calls": [_call(call, zone) for call in calls],
        "atoms": [_atom(atom, zone) for atom in record.atoms],
        "scenes": scenes,
        "persona": persona,
    }


def _scenes(store: Store, scope: str, mine: set[str]) -> tuple[list[dict[str, Any]], set[str]]:
    found = [(scene, _resting_on(scene.sections, mine)) for scene in store.scenes(scope)]
    shown = [
        {"name": scene.name, "revision": scene.revision, "lines": [line.text for line in lines]}
        for scene, lines in found
        if lines
    ]
    return shown, {str(one["name"]) for one in shown}


def _persona(store: Store, scope: str, mine: set[str]) -> dict[str, Any] | None:
    persona = store.persona(scope)
    lines = _resting_on(persona.sections, mine) if persona is not None else []
    if persona is None or not lines:
        return None
    return {"revision": persona.revision, "lines": [line.text for line in lines]}


def _resting_on(sections: Iterable[Section], ids: set[str]) -> list[Line]:
    return [line for section in sections for line in section.lines if ids & set(line.sources)]


def _message(message: Message, zone: tzinfo) -> dict[str, Any]:
    return {
        "id": message.id,
        "role": str(message.role),
        "origin": str(message.origin),
        "at": iso_local(message.sent_at, zone),
        "text": message.text,
        "hash_ok": text_hash(message.text) == message.hash,
    }


def _step(step: Step, zone: tzinfo) -> dict[str, Any]:
    due_at = None if step.due_at is None else iso_local(step.due_at, zone)
    return {
        "layer": str(step.layer), "state": step.state, "due_at": due_at, "attempts": step.attempts,
        "error": step.error or None,
    }  # fmt: skip


def _call(call: ModelCall, zone: tzinfo) -> dict[str, Any]:
    return {
        "at": iso_local(call.at, zone),
        "task": call.task,
        "model": call.model,
        "tokens_in": call.tokens_in,
        "tokens_out": call.tokens_out,
        "cost_usd": call.cost_usd,
        "elapsed_ms": call.elapsed_ms,
        "outcome": call.outcome,
        "error": call.error or None,
    }


def _atom(atom: Atom, zone: tzinfo) -> dict[str, Any]:
    return {
        "id": atom.id,
        "type": str(atom.type),
        "content": atom.content,
        "extractor": atom.extractor,
        "valid_to": None if atom.valid_to is None else iso_local(atom.valid_to, zone),
        "superseded_by": atom.superseded_by,
        "live": atom.live,
    }
