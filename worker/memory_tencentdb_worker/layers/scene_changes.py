"""Operations of an L2 answer carried out in memory: the scenes as they shall be, one change for each.

Names never multiply, limits hold whatever the answer says, and an atom that the answer left out is placed by code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.layers.bodies import fit, join_headings, keeping, read_body, sources_of
from memory_tencentdb_worker.layers.trust import SUMMARY_LIMIT, own_summary
from memory_tencentdb_worker.models import Atom, Scene, SceneChange, Section
from memory_tencentdb_worker.offline.assemble import assemble_scenes
from memory_tencentdb_worker.text.names import scene_file_name
from memory_tencentdb_worker.text.safe import one_line
from memory_tencentdb_worker.text.segment import query_terms

REQUEST_LIMIT = 200
_FILE_ENDING = ".md"


@dataclass(frozen=True)
class Answer:
    operations: tuple[Mapping[object, object], ...]
    persona_request: str


@dataclass(frozen=True)
class Limits:
    max_scenes: int
    max_chars: int


@dataclass
class Workbench:
    """The scenes while operations are applied to them."""

    scope: str
    limits: Limits
    known: Mapping[str, str]  # ids that a line may rest on
    fresh: frozenset[str]  # ids of the atoms of this run
    others: frozenset[str]  # ids of atoms that do not go back to the user
    now: int
    scenes: dict[str, Scene] = field(default_factory=dict)
    changes: dict[str, SceneChange] = field(default_factory=dict)
    refused: int = 0

    def find(self, title: object) -> Scene | None:
        """An active scene by its name, with or without `.md`, or by a title that makes the same file name."""
        if not isinstance(title, str) or not title.strip():
            return None
        name = title.strip()
        bare = name[: -len(_FILE_ENDING)] if name.lower().endswith(_FILE_ENDING) else name
        return self.scenes.get(bare) or self.scenes.get(scene_file_name(bare, self.scenes))

    def put(self, op: str, scene: Scene, *, heat: int, absorbed: tuple[str, ...] = (), reason: str = "") -> None:
        """`heat` counts once a run, however often a scene is touched in it."""
        before = self.changes.get(scene.name)
        if before is not None:
            heat = heat if absorbed else scene.heat
            absorbed = (*before.absorbed, *absorbed)
            op = "merge" if absorbed else before.op
        put = replace(scene, heat=heat, updated_at=self.now, summary=own_summary(scene, self.others))
        self.changes[scene.name] = SceneChange(op, put, absorbed, reason)
        self.scenes[scene.name] = put

    def body(self, sections: Sequence[Section]) -> tuple[Section, ...]:
        fitted, cut = fit(join_headings(sections), self.limits.max_chars, self.fresh)
        self.refused += cut
        return fitted


def read_answer(value: object) -> Answer:
    """Raises LLMContent for anything but an object with operations, or the bare list of them."""
    fields = value if isinstance(value, Mapping) else {"operations": value}
    operations = fields.get("operations")
    if not isinstance(operations, list):
        raise LLMContent("the answer holds no list of operations", code="wrong_shape")
    reason = fields.get("persona_update_reason")
    request = one_line(reason)[:REQUEST_LIMIT] if isinstance(reason, str) else ""
    return Answer(tuple(item for item in operations if isinstance(item, Mapping)), request)


def apply_operations(answer: Answer, bench: Workbench) -> None:
    """Creates come last, so that the room that merges make is there."""
    for operation in sorted(answer.operations, key=lambda item: item.get("op") == "create"):
        op = str(operation.get("op", "")).strip().lower()
        scene = bench.find(operation.get("scene"))
        if op == "archive":
            _archive(scene, bench)
        elif op == "merge" and scene is not None:
            _merge(scene, operation, bench)
        elif op in ("create", "update", "merge"):
            _write(scene, operation, bench)
        else:
            bench.refused += 1


def place_left_out(atoms: Sequence[Atom], bench: Workbench) -> None:
    """Every atom stands in some scene afterwards, unless its scene is full."""
    covered = {source for scene in bench.scenes.values() for source in sources_of(scene.sections)}
    left_out = [atom for atom in atoms if atom.id not in covered]
    if not left_out:
        return
    limits = bench.limits
    scenes = list(bench.scenes.values())
    for change in assemble_scenes(left_out, scenes, limits.max_scenes, limits.max_chars, bench.now):
        if change.op == "archive":
            _archive(bench.scenes.get(change.scene.name), bench)
            continue
        known = bench.scenes.get(change.scene.name)
        scene = change.scene
        if known is not None:
            scene = replace(scene, summary=known.summary or scene.summary, status=known.status)
        bench.put(change.op, scene, heat=change.scene.heat, reason="placed by code")


def _archive(scene: Scene | None, bench: Workbench) -> None:
    if scene is None:
        bench.refused += 1
        return
    bench.scenes.pop(scene.name)
    before = bench.changes.pop(scene.name, None)
    if before is None or before.op != "create":
        bench.changes[scene.name] = SceneChange("archive", replace(scene, status="archived", updated_at=bench.now))


def _merge(cold: Scene, operation: Mapping[object, object], bench: Workbench) -> None:
    """The body given is the whole new body of `into`; the heat of both adds up."""
    into = bench.find(operation.get("into"))
    if into is None or into.name == cold.name:
        _write(cold, operation, bench)
        return
    given = read_body(operation.get("sections"), bench.known)
    bench.refused += given.refused
    old = [*into.sections, *cold.sections]
    sections = bench.body(keeping(given.sections, old) if given.sections else old)
    bench.scenes.pop(cold.name)
    before = bench.changes.pop(cold.name, None)
    absorbed = before.absorbed if before else ()
    if before is None or before.op != "create":
        absorbed = (*absorbed, cold.name)
    summary = _summary(operation) or into.summary
    scene = replace(into, summary=summary, sections=sections)
    bench.put("merge" if absorbed else "update", scene, heat=into.heat + cold.heat + 1, absorbed=absorbed)


def _write(scene: Scene | None, operation: Mapping[object, object], bench: Workbench) -> None:
    """Create or update, whichever the name means; a scene too many goes into the closest one instead."""
    given = read_body(operation.get("sections"), bench.known)
    bench.refused += given.refused
    if not given.sections:
        return
    if scene is None and len(bench.scenes) >= bench.limits.max_scenes and bench.scenes:
        closest = _closest(given.sections, bench)
        sections = bench.body([*closest.sections, *given.sections])
        bench.put(
            "update", replace(closest, sections=sections), heat=closest.heat + 1, reason="no room for a new scene"
        )
        return
    if scene is None:
        _create(operation, given.sections, bench)
        return
    sections = bench.body(keeping(given.sections, scene.sections))
    changed = replace(scene, summary=_summary(operation) or scene.summary, sections=sections)
    bench.put("update", changed, heat=scene.heat + 1)


def _create(operation: Mapping[object, object], sections: Sequence[Section], bench: Workbench) -> None:
    title = operation.get("scene")
    name = scene_file_name(title if isinstance(title, str) else "", bench.scenes)
    body = bench.body(sections)
    scene = Scene(
        scope=bench.scope,
        name=name,
        revision=1,
        summary=_summary(operation) or _first_text(body),
        sections=body,
        heat=1,
        created_at=bench.now,
        updated_at=bench.now,
    )
    bench.put("create", scene, heat=1)


def _closest(sections: Sequence[Section], bench: Workbench) -> Scene:
    """The scene that shares most terms, among equals the hottest."""
    terms = _terms(sections)
    return max(bench.scenes.values(), key=lambda scene: (len(terms & _terms(scene.sections)), scene.heat))


def _terms(sections: Sequence[Section]) -> set[str]:
    return set(query_terms(" ".join(line.text for section in sections for line in section.lines)))


def _summary(operation: Mapping[object, object]) -> str:
    summary = operation.get("summary")
    return one_line(summary)[:SUMMARY_LIMIT].rstrip() if isinstance(summary, str) else ""


def _first_text(sections: Sequence[Section]) -> str:
    return next((line.text[:SUMMARY_LIMIT] for section in sections for line in section.lines), "")
