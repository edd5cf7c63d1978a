"""`edit` and `undo`: the owner's own word in the place of a fact, and back. Every step is a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from memory_tencentdb.wire import EditRequest, UndoRequest
from memory_tencentdb_worker.errors import InvalidInput, NotFound
from memory_tencentdb_worker.layers.hand_edits import edit_atom
from memory_tencentdb_worker.layers.l1_answer import CONTENT_LIMIT
from memory_tencentdb_worker.models import Atom, Role
from memory_tencentdb_worker.service.history import Rollback, roll_back
from memory_tencentdb_worker.store.audit import Change
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.rows import write_sections
from memory_tencentdb_worker.text.clean import clean_text
from memory_tencentdb_worker.text.ids import text_hash
from memory_tencentdb_worker.text.safe import one_line
from memory_tencentdb_worker.text.times import iso_local

LOOK_BACK = 10_000
OF_DOCUMENTS = ("-scene", "-persona")
OF_FACTS = ("supersede", "close")


@dataclass(frozen=True)
class Owner:
    """With what an owner's change is made."""

    store: Store
    zone: tzinfo
    max_scenes: int
    now: int


def edit(request: EditRequest, owner: Owner) -> dict[str, Any]:
    """Raises NotFound for an atom that does not exist, InvalidInput for one that holds no longer or an empty text."""
    atom = owner.store.atom(request.user_id, request.id)
    if atom is None:
        raise NotFound(f"there is no fact {request.id!a}: scenes and the persona are edited in their files")
    if not atom.live:
        raise InvalidInput(f"fact {atom.id} was replaced by {atom.superseded_by}: edit that one")
    content = _content(request.content)
    if content == atom.content:
        raise InvalidInput("the text is the same: nothing was changed")
    return {
        "id": edit_atom(atom, content, owner.store, owner.now),
        "replaced": atom.id,
        "audit_id": _newest(owner, atom),
    }


def undo(request: UndoRequest, owner: Owner) -> dict[str, Any]:
    """Raises NotFound, and InvalidInput for what cannot be undone."""
    change = _wanted(request, owner)
    if change.action == "forget":
        raise InvalidInput("a forgetting cannot be undone: nothing of it is left", code="not_undoable")
    if change.action in OF_FACTS:
        return {"undone": change.id, "action": change.action, **_undo_fact(change, owner)}
    if change.action.endswith(OF_DOCUMENTS):
        return {"undone": change.id, "action": change.action, **_undo_document(change, owner)}
    raise InvalidInput(f"a change of kind {change.action!a} cannot be undone", code="not_undoable")


def list_changes(limit: int, scope: str | None, store: Store, zone: tzinfo) -> list[dict[str, Any]]:
    """The newest first."""
    return [
        {
            "id": one.id,
            "at": iso_local(one.at, zone),
            "user_id": one.scope,
            "action": one.action,
            "target": one.target,
            "replaced_by": one.after if one.action in OF_FACTS else None,
            "undoable": _can_be_undone(one),
        }
        for one in store.changes_made(limit, scope)
    ]


def _wanted(request: UndoRequest, owner: Owner) -> Change:
    changes = owner.store.changes_made(LOOK_BACK, request.user_id)
    if request.audit_id is None:
        found = _newest_undoable(changes)
    else:
        found = next((one for one in changes if one.id == request.audit_id), None)
    if found is None:
        raise NotFound("there is no such change: `memory-tencentdb audit` lists them")
    return found


def _newest_undoable(changes: Sequence[Change]) -> Change | None:
    """Documents that were changed in one stroke with a fact follow it."""
    newest = next((one for one in changes if _can_be_undone(one)), None)
    if newest is None:
        return None
    together = [one for one in changes if (one.at, one.scope) == (newest.at, newest.scope)]
    return next((one for one in together if one.action in OF_FACTS), newest)


def _can_be_undone(change: Change) -> bool:
    return change.action in OF_FACTS or change.action.endswith(OF_DOCUMENTS)


def _undo_fact(change: Change, owner: Owner) -> dict[str, Any]:
    """What held before holds again, as the owner's word of today."""
    before = owner.store.atom(change.scope, change.target)
    if before is None:
        raise NotFound(f"fact {change.target} was forgotten: there is nothing to go back to")
    if before.live:
        raise InvalidInput(f"fact {before.id} holds already")
    present = _present(before, owner.store)
    if present is not None and present.content == before.content:
        raise InvalidInput(f"fact {present.id} says the same already")
    instead_of = present if present is not None else before
    return {
        "id": edit_atom(instead_of, before.content, owner.store, owner.now, action="undo"),
        "replaced": instead_of.id,
    }


def _present(atom: Atom, store: Store) -> Atom | None:
    """What has taken its place by now; None when it just ended."""
    seen = {atom.id}
    while atom.superseded_by is not None and atom.superseded_by not in seen:
        seen.add(atom.superseded_by)
        following = store.atom(atom.scope, atom.superseded_by)
        if following is None:
            return None
        atom = following
    return atom if atom.live else None


def _undo_document(change: Change, owner: Owner) -> dict[str, Any]:
    persona = change.action.endswith("-persona")
    name = "persona" if persona else change.target
    if change.before is None:
        raise InvalidInput(f"{name} did not exist before this change: delete its file instead", code="not_undoable")
    store = owner.store
    revisions = store.persona_revisions(change.scope) if persona else store.scene_revisions(change.scope, name)
    for one in revisions:
        if text_hash(write_sections(one.sections)) == change.before and one.status == "active":
            wanted = Rollback(name, one.revision, change.scope, False, owner.max_scenes)
            return roll_back(wanted, store, owner.now)
    raise NotFound(f"the text of {name} before this change is not kept any more")


def _newest(owner: Owner, atom: Atom) -> int | None:
    """The line of the audit under which this edit can be undone."""
    changes = owner.store.changes_made(20, atom.scope)
    return next((one.id for one in changes if one.action == "supersede" and one.target == atom.id), None)


def _content(text: str) -> str:
    content = one_line(clean_text(text, Role.USER))[:CONTENT_LIMIT]
    if not content:
        raise InvalidInput("the text is empty: use `forget` to take a fact away")
    return content
