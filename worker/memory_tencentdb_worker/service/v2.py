"""What the original's v2 routes do, in terms of this memory. All of it is the default user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from memory_tencentdb.redaction import Redactor
from memory_tencentdb.wire import (
    CaptureRequest,
    ConversationSearchRequest,
    EditRequest,
    ForgetRequest,
    Item,
    MemorySearchRequest,
)
from memory_tencentdb_worker.errors import NotFound
from memory_tencentdb_worker.layers.hand_edits import apply_edits
from memory_tencentdb_worker.models import Atom, Layer, Message, Page, Role, Scene
from memory_tencentdb_worker.recall.render import body_text
from memory_tencentdb_worker.service.arguments import SEARCH_LIMIT, instant_of, session_of
from memory_tencentdb_worker.service.facade import MemoryService
from memory_tencentdb_worker.service.owner import OwnerDesk
from memory_tencentdb_worker.service.scene_view import find_scene
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projection_documents import edit_from_text, removal_of
from memory_tencentdb_worker.text.times import iso_local, parse_instant

SCOPE = ""
LAYERS = ("l1", "l2", "l3")
MILLISECONDS_FROM = 100_000_000_000


@dataclass(frozen=True)
class Span:
    """Of time, both ends included; None is open."""

    start: str | int | None = None
    end: str | int | None = None


class V2Desk:
    def __init__(
        self,
        service: MemoryService,
        owner: OwnerDesk,
        store: Store,
        zone: tzinfo,
        clock: Callable[[], int],
        *,
        wake: Callable[[], None],
        redactor: Redactor,
    ) -> None:
        self._service, self._owner, self._store = service, owner, store
        self._zone, self._clock, self._wake, self._redactor = zone, clock, wake, redactor

    # ---- L0
    def add_messages(self, session_id: str, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Each user message begins a turn. A message of the system, or one of which nothing is worth storing, has no
        id in the answer."""
        at = [self._said_at(one["timestamp"], place) for place, one in enumerate(messages)]
        accepted: list[str] = []
        for turn in _turns([{**one, "timestamp": when} for one, when in zip(messages, at, strict=True)]):
            said = {one["role"]: one["content"] for one in turn}
            request = CaptureRequest(
                said.get(Role.USER, ""),
                said.get(Role.ASSISTANT, ""),
                session_of(session_id),
                session_id,
                messages=turn,
                at=next((one["timestamp"] for one in turn if one["timestamp"] is not None), None),
            )
            accepted += self._service.capture(request).message_ids
        return {"accepted_ids": accepted, "total_count": len(accepted)}

    def list_messages(self, session_id: str | None, span: Span, limit: int, offset: int) -> dict[str, Any]:
        """The newest first."""
        page = self._page(span, limit, offset)
        rows = self._store.list_rows(Layer.L0, page, scope=SCOPE, session_key=session_id)
        return {"messages": [self._message(one) for one in rows.rows if isinstance(one, Message)], "total": rows.total}

    def search_messages(self, query: str, session_id: str, span: Span, limit: int) -> dict[str, Any]:
        found = self._service.search_conversations(
            ConversationSearchRequest(query, self._reach(span, limit), session_id)
        )
        kept = self._within(found.items, span)[:limit]
        return {
            "messages": [
                {"id": one.id, "role": one.role, "content": one.text, "timestamp": one.at, "score": one.score}
                for one in kept
            ]
        }

    def delete_session(self, session_id: str) -> dict[str, Any]:
        return self._forget("messages", ForgetRequest(session=session_id, user_id=SCOPE, yes=True))

    def delete_messages(self, ids: Sequence[str]) -> dict[str, Any]:
        """Question and answer go together, and with them every fact that rests on them: as in `forget`."""
        known = [id for id in ids if self._store.message(SCOPE, id) is not None]
        return self._forget("messages", ForgetRequest(ids=known, user_id=SCOPE, yes=True)) if known else _nothing()

    # ---- L1
    def update_atom(self, id: str, content: str) -> dict[str, Any]:
        """The owner's word takes the place of the fact, under an id of its own. Raises NotFound, InvalidInput."""
        atom = self._store.atom(SCOPE, id)
        if atom is None or atom.content != content or not atom.live:
            id = str(self._owner.edit(EditRequest(id, content, SCOPE))["id"])
        return {"id": id, "updated_at": self._shown(self._clock())}

    def list_atoms(self, type: str | None, span: Span, limit: int, offset: int) -> dict[str, Any]:
        """Live ones, the newest first."""
        rows = self._store.list_rows(Layer.L1, self._page(span, limit, offset), scope=SCOPE, type=type)
        return {"items": [self._atom(one) for one in rows.rows if isinstance(one, Atom)], "total": rows.total}

    def search_atoms(self, query: str, type: str | None, span: Span, limit: int) -> dict[str, Any]:
        found = self._service.search_memories(MemorySearchRequest(query, self._reach(span, limit), type))
        kept = self._within(found.items, span)[:limit]
        atoms = {one.id: one for one in self._store.atoms_by_id([item.id for item in kept])}
        return {"items": [{**self._atom(atoms[one.id]), "score": one.score} for one in kept if one.id in atoms]}

    def delete_atoms(self, ids: Sequence[str]) -> dict[str, Any]:
        """As in `forget`: former versions and the messages they rest on go too."""
        known = [id for id in ids if self._store.atom(SCOPE, id) is not None]
        return self._forget("atoms", ForgetRequest(ids=known, user_id=SCOPE, yes=True)) if known else _nothing()

    # ---- L2 and L3
    def list_scenes(self, prefix: str) -> dict[str, Any]:
        scenes = [one for one in self._store.scenes(SCOPE) if f"{one.name}.md".startswith(prefix)]
        entries = [{"path": f"{one.name}.md", "summary": one.summary, **self._times(one)} for one in scenes]
        return {"entries": entries, "total": len(entries)}

    def read_scene(self, path: str) -> dict[str, Any]:
        scene = self._scene(path)
        if scene is None:
            return {"path": path, "content": None, "created_at": None, "updated_at": None}
        return {"path": path, "content": body_text(scene.sections), **self._times(scene)}

    def write_scene(self, path: str, content: str, summary: str) -> dict[str, Any]:
        """What a person would do in the file: a line that stays as it was keeps its sources. Raises NotFound."""
        scene = self._known_scene(path)
        text = self._redactor.redact(content)
        edit = edit_from_text("scene", scene.name, text, self._redactor.redact(summary), SCOPE, self._store)
        return {"path": path, "updated_at": self._apply(edit)}

    def remove_scene(self, path: str) -> dict[str, Any]:
        """The scene is put away; the facts it told stay. Raises NotFound."""
        self._apply(removal_of(self._known_scene(path).name, SCOPE))
        return {"path": path}

    def read_persona(self) -> dict[str, Any]:
        persona = self._store.persona(SCOPE)
        if persona is None or not persona.sections:
            return {"content": None, "created_at": None, "updated_at": None}
        first = self._store.persona_revisions(SCOPE)
        created = min((one.at for one in first), default=persona.created_at)
        return {
            "content": body_text(persona.sections),
            "created_at": self._shown(created),
            "updated_at": self._shown(persona.created_at),
        }

    def write_persona(self, content: str) -> dict[str, Any]:
        edit = edit_from_text("persona", "persona", self._redactor.redact(content), "", SCOPE, self._store)
        return {"updated_at": self._apply(edit)}

    def pipeline_status(self) -> dict[str, Any]:
        """A session has one job a layer, so that jobs and sessions are counted alike."""
        loads = self._store.job_loads(self._clock())
        return {layer: _load(*loads.get(layer, (0, 0))) for layer in LAYERS}

    # ---- inside
    def _said_at(self, value: str | float | None, place: int) -> int | None:
        """Looked at before anything is stored. Numbers count milliseconds, or seconds where those would lie before
        1973. Raises InvalidField."""
        if isinstance(value, int | float) and 0 < value < MILLISECONDS_FROM:
            value *= 1000
        return instant_of(
            value if isinstance(value, str | None) else int(value), f"messages.{place}.timestamp", self._zone
        )

    def _forget(self, what: str, request: ForgetRequest) -> dict[str, Any]:
        try:
            done = self._owner.forget(request)
        except NotFound:
            return _nothing()
        return {"deleted_count": int(done["plan"][what])}

    def _apply(self, edit: Any) -> str:
        now = self._clock()
        apply_edits([edit], self._store, now)
        self._wake()
        return self._shown(now)

    def _scene(self, path: str) -> Scene | None:
        scene = find_scene(path, self._store, SCOPE)
        return scene if scene is not None and scene.status == "active" else None

    def _known_scene(self, path: str) -> Scene:
        scene = self._scene(path)
        if scene is None:
            raise NotFound(f"there is no scene {path!a}")
        return scene

    def _page(self, span: Span, limit: int, offset: int) -> Page:
        start, end = self._bounds(span)
        return Page(limit, offset, since=start, until=None if end is None else end + 1)

    def _bounds(self, span: Span) -> tuple[int | None, int | None]:
        """Raises InvalidField."""
        start = instant_of(span.start, "time_start", self._zone)
        return start, instant_of(span.end, "time_end", self._zone)

    def _reach(self, span: Span, limit: int) -> int:
        """A span is applied to what was found, so more is looked for."""
        return limit if span == Span() else SEARCH_LIMIT

    def _within(self, items: Sequence[Item], span: Span) -> list[Item]:
        start, end = self._bounds(span)
        if start is None and end is None:
            return list(items)
        told = [(one, parse_instant(one.at, self._zone)) for one in items]
        return [one for one, at in told if (start is None or at >= start // 1000 * 1000) and (end is None or at <= end)]

    def _message(self, message: Message) -> dict[str, Any]:
        return {
            "id": message.id,
            "role": str(message.role),
            "content": message.text,
            "timestamp": self._shown(message.sent_at),
        }

    def _atom(self, atom: Atom) -> dict[str, Any]:
        return {
            "id": atom.id,
            "type": str(atom.type),
            "background": atom.scene_name,
            "content": atom.content,
            "created_at": self._shown(atom.recorded_from),
            "updated_at": self._shown(atom.superseded_at or atom.recorded_from),
        }

    def _times(self, scene: Scene) -> dict[str, str]:
        return {"created_at": self._shown(scene.created_at), "updated_at": self._shown(scene.updated_at)}

    def _shown(self, instant: int) -> str:
        return iso_local(instant, self._zone)


def _turns(messages: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """A user's message with the answer that follows it; whatever stands alone is a turn too."""
    turns: list[list[dict[str, Any]]] = []
    for one in messages:
        if one["role"] not in tuple(Role):
            continue
        answers = one["role"] == Role.ASSISTANT and turns and turns[-1][-1]["role"] == Role.USER
        if answers:
            turns[-1].append(one)
        else:
            turns.append([one])
    return turns


def _load(queued: int, running: int) -> dict[str, Any]:
    return {
        "queued": queued,
        "running": running,
        "queued_sessions": queued,
        "running_sessions": running,
        "idle": queued + running == 0,
    }


def _nothing() -> dict[str, Any]:
    return {"deleted_count": 0}
