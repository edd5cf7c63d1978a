"""Keeps the readable files equal to the store, and takes in what a person wrote into them before it writes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from memory_tencentdb_worker.models import (
    Line,
    NewMessage,
    NewTurn,
    Origin,
    Persona,
    Role,
    Scene,
    SceneChange,
    Section,
)
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projections import Edit, Projector
from memory_tencentdb_worker.text.ids import turn_id as new_turn_id

logger = logging.getLogger(__name__)

SESSION_KEY = "owner-edit"


class Documents:
    def __init__(self, store: Store, projector: Projector, clock: Callable[[], int]) -> None:
        self._store, self._projector, self._clock = store, projector, clock

    def sync(self) -> int:
        """Returns how many edits were taken in. Raises StoreError, or OSError when files cannot be written."""
        edits = self._projector.read_edits()
        for edit in edits:
            apply_edit(edit, self._store, self._clock())
            logger.info("a hand edit of %s %s was taken in", edit.kind, edit.name)
        self._projector.refresh()
        return len(edits)


def apply_edit(edit: Edit, store: Store, now: int) -> None:
    """The file's new text becomes a revision that rests on an owner's turn holding what is new in it."""
    known = store.scene(edit.scope, edit.name) if edit.kind == "scene" else None
    if edit.kind == "scene":
        before = known.sections if known else ()
        scenes, persona = [_scene_change(edit, known, now)], None
    else:
        current = store.persona(edit.scope)
        before = current.sections if current else ()
        revision = current.revision + 1 if current else 1
        sections = () if edit.removed else edit.sections
        scenes, persona = [], Persona(edit.scope, revision, sections, now, "edit")
    store.edit_documents(edit.scope, scenes, persona, _evidence(edit, before, now), now)


def _scene_change(edit: Edit, known: Scene | None, now: int) -> SceneChange:
    if known is None:
        known = Scene(edit.scope, edit.name, 0, edit.summary, (), heat=1, created_at=now, updated_at=now)
    if edit.removed:
        return SceneChange("archive", replace(known, status="archived", updated_at=now), reason="the file was deleted")
    scene = replace(
        known,
        sections=edit.sections,
        summary=edit.summary or known.summary,
        status="active",
        merged_into=None,
        updated_at=now,
    )
    return SceneChange("edit", scene, reason="edited by hand")


def _evidence(edit: Edit, before: tuple[Section, ...], now: int) -> NewTurn:
    """What the person added; for an edit that only took away, what they did."""
    old = {line.text for line in _lines(before)}
    added = [line.text for line in _lines(edit.sections) if line.text not in old]
    done = "deleted" if edit.removed else "edited"
    text = "\n".join(added) or f"{done} {edit.kind} {edit.name}"
    return NewTurn(
        scope=edit.scope,
        turn_id=f"owner-edit:{new_turn_id()}",
        session_key=SESSION_KEY,
        session_id="",
        messages=(NewMessage(Role.USER, text, now, Origin.OWNER_EDIT),),
        captured_at=now,
        source="owner-edit",
    )


def _lines(sections: tuple[Section, ...]) -> list[Line]:
    return [line for section in sections for line in section.lines]
