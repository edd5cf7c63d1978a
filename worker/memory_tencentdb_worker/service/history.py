"""Every version of a scene or the persona: listed, compared, and put back. Putting back makes a new version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from difflib import unified_diff
from typing import Any

from memory_tencentdb_worker.errors import InvalidInput, NotFound
from memory_tencentdb_worker.layers.bodies import without_lines_of
from memory_tencentdb_worker.layers.hand_edits import SESSION_KEY
from memory_tencentdb_worker.models import (
    NewMessage,
    NewTurn,
    Origin,
    Persona,
    Revision,
    Role,
    Scene,
    SceneChange,
    Section,
)
from memory_tencentdb_worker.recall.render import body_text
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.ids import turn_id as new_turn_id
from memory_tencentdb_worker.text.times import iso_local

PERSONA_NAMES = frozenset({"persona", "persona.md"})


@dataclass(frozen=True)
class Rollback:
    """`revision` is put back; with `dry_run` it is only said what that would change."""

    name: str
    revision: int
    scope: str
    dry_run: bool
    max_scenes: int


def list_revisions(name: str, scope: str, store: Store, zone: tzinfo) -> dict[str, Any]:
    """The newest first. Raises NotFound."""
    revisions = _revisions(name, scope, store)
    return {
        "name": _shown_name(name),
        "revisions": [
            {
                "revision": one.revision,
                "at": iso_local(one.at, zone),
                "op": one.op,
                "reason": one.reason,
                "status": one.status,
                "heat": one.heat,
                "lines": sum(len(section.lines) for section in one.sections),
                "summary": one.summary,
            }
            for one in revisions
        ],
    }


def compare_revisions(name: str, scope: str, before: int | None, after: int | None, store: Store) -> dict[str, Any]:
    """By default the newest with the one before it. Raises NotFound."""
    revisions = _revisions(name, scope, store)
    newer = revisions[0] if after is None else _pick(revisions, after)
    if before is None and newer.revision <= revisions[-1].revision:
        older = replace(newer, revision=0, summary="", sections=())
    else:
        older = _pick(revisions, newer.revision - 1 if before is None else before)
    return _difference(name, older, newer)


def roll_back(wanted: Rollback, store: Store, now: int) -> dict[str, Any]:
    """Lines whose facts hold no longer are not put back: they are named in `left_out`. Raises NotFound,
    InvalidInput."""
    revisions = _revisions(wanted.name, wanted.scope, store)
    target, newest = _pick(revisions, wanted.revision), revisions[0]
    sections, left_out = _still_true(target.sections, store)
    _check(wanted, target, newest, sections, store)
    put_back = replace(target, revision=newest.revision + 1, sections=sections)
    plan = {
        **_difference(wanted.name, newest, put_back),
        "puts_back": target.revision,
        "left_out": left_out,
        "dry_run": wanted.dry_run,
    }
    if wanted.dry_run:
        return plan
    evidence = _evidence(wanted, now)
    if wanted.name in PERSONA_NAMES:
        persona = Persona(wanted.scope, 0, sections, now, _reason(wanted))
        store.edit_documents(wanted.scope, [], persona, evidence, now, action="rollback")
    else:
        change = _scene_change(wanted, put_back, newest, now)
        store.edit_documents(wanted.scope, [change], None, evidence, now, action="rollback")
    return plan


def _revisions(name: str, scope: str, store: Store) -> list[Revision]:
    if name in PERSONA_NAMES:
        found = store.persona_revisions(scope)
    else:
        found = store.scene_revisions(scope, name) or store.scene_revisions(scope, name.removesuffix(".md"))
    if not found:
        raise NotFound(f"there is no scene {name!a}, and persona is the other name that has a history")
    return found


def _pick(revisions: Sequence[Revision], number: int) -> Revision:
    for one in revisions:
        if one.revision == number:
            return one
    raise NotFound(f"there is no revision {number}: the newest is {revisions[0].revision}")


def _still_true(sections: Sequence[Section], store: Store) -> tuple[tuple[Section, ...], list[str]]:
    sources = sorted({source for section in sections for line in section.lines for source in line.sources})
    gone = {atom.id for atom in store.atoms_by_id(sources) if not atom.live}
    kept = without_lines_of(sections, gone)
    standing = {line for section in kept for line in section.lines}
    lost = [line.text for section in sections for line in section.lines if line not in standing]
    return kept, lost


def _check(wanted: Rollback, target: Revision, newest: Revision, sections: Sequence[Section], store: Store) -> None:
    if target.status != "active":
        raise InvalidInput(f"revision {target.revision} is the one in which the scene was {target.status}")
    if not sections:
        raise InvalidInput(f"nothing of revision {target.revision} holds any longer: there is nothing to put back")
    revives = wanted.name not in PERSONA_NAMES and newest.status != "active"
    if revives and len(store.scenes(wanted.scope)) >= wanted.max_scenes:
        raise InvalidInput(f"there are {wanted.max_scenes} scenes already: no room to bring this one back")


def _scene_change(wanted: Rollback, put_back: Revision, newest: Revision, now: int) -> SceneChange:
    """Heat is what it is now: putting a text back is no use of the scene."""
    scene = Scene(
        scope=wanted.scope,
        name=put_back.name,
        revision=put_back.revision,
        summary=put_back.summary,
        sections=put_back.sections,
        heat=newest.heat,
        created_at=put_back.created_at,
        updated_at=now,
    )
    return SceneChange("rollback", scene, reason=_reason(wanted))


def _evidence(wanted: Rollback, now: int) -> NewTurn:
    message = NewMessage(Role.USER, f"{_reason(wanted)}: {_shown_name(wanted.name)}", now, Origin.OWNER_EDIT)
    return NewTurn(wanted.scope, f"rollback:{new_turn_id()}", SESSION_KEY, "", (message,), now, "rollback")


def _reason(wanted: Rollback) -> str:
    return f"put back revision {wanted.revision}"


def _shown_name(name: str) -> str:
    return "persona" if name in PERSONA_NAMES else name.removesuffix(".md")


def _difference(name: str, older: Revision, newer: Revision) -> dict[str, Any]:
    old, new = _text(older), _text(newer)
    lines = unified_diff(old, new, f"revision {older.revision}", f"revision {newer.revision}", lineterm="")
    return {
        "name": _shown_name(name),
        "from": older.revision,
        "to": newer.revision,
        "removed": [line for line in old if line not in new],
        "added": [line for line in new if line not in old],
        "diff": "\n".join(lines),
    }


def _text(revision: Revision) -> list[str]:
    lead = [f"summary: {revision.summary}"] if revision.summary else []
    return [*lead, *body_text(revision.sections).splitlines()]
