"""L2: new atoms are worked into the scenes. The model answers with operations; code applies and bounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import LLMContent, LLMTerminal, LLMTransient
from memory_tencentdb_worker.layers.bodies import sources_of, without_lines_of
from memory_tencentdb_worker.layers.calls import TOO_LONG, Question, ask, what_came
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Parked, outcome_of
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.layers.scene_changes import (
    Limits,
    Workbench,
    apply_operations,
    place_left_out,
    read_answer,
)
from memory_tencentdb_worker.layers.schedule import after_l2, after_scenes
from memory_tencentdb_worker.layers.sections import atom_record, json_lines, scene_record, section
from memory_tencentdb_worker.layers.short_ids import ShortIds
from memory_tencentdb_worker.layers.shown_scenes import shown_scenes, without_blind_archiving
from memory_tencentdb_worker.layers.trust import own_summary, words_of_others
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import OF_OTHERS, Atom, Lease, Scene, SceneChange
from memory_tencentdb_worker.offline.assemble import SCENE_CHARS
from memory_tencentdb_worker.store.base import Store

BATCH_ATOMS = 40


@dataclass(frozen=True)
class _Scenes:
    """The active scenes without lines that rest on replaced atoms only; `outdated` names those that had some."""

    scenes: tuple[Scene, ...]
    outdated: frozenset[str]


@dataclass(frozen=True)
class _Run:
    """One scene run: what is worked in, into what, and with what."""

    lease: Lease
    atoms: Sequence[Atom]
    present: _Scenes
    parts: Parts
    now: int


def run(lease: Lease, parts: Parts, now: int) -> Outcome:
    """Works in up to 40 atoms of the session. What cannot be digested is parked with cursor and scenes untouched."""
    atoms = parts.store.read_l2_batch(lease.scope, lease.session_key, BATCH_ATOMS)
    if not atoms:
        parts.store.finish_job(lease, [], now)
        return Done()
    this = _Run(lease, atoms, _present_scenes(lease.scope, parts.store), parts, now)
    return _by_rules(this) if parts.llm is None else _by_model(this, parts.llm)


def scene_sections(atoms: Sequence[Atom], scenes: Sequence[Scene], limits: Limits, zone: tzinfo, ids: ShortIds) -> str:
    bounds = {"max_scenes": limits.max_scenes, "count": len(scenes), "max_chars": limits.max_chars}
    return "\n\n".join(
        (
            section("atoms", json_lines(atom_record(atom, zone, ids) for atom in atoms)),
            section("scenes", json_lines(scene_record(scene, zone, ids) for scene in scenes)),
            section("limits", json_lines([bounds])),
        )
    )


def replaced_atoms(ids: set[str], store: Store) -> set[str]:
    """Which of these ids are atoms that hold no longer."""
    return {atom.id for atom in store.atoms_by_id(sorted(ids)) if not atom.live}


def _by_model(this: _Run, llm: LLM) -> Outcome:
    config, atoms = this.parts.config, this.atoms
    ids = ShortIds()
    shown = shown_scenes(this.present.scenes, atoms)
    question = Question(
        task="l2-scenes",
        scope=this.lease.scope,
        user=scene_sections(atoms, shown, _limits(config), this.parts.zone, ids),
        keys=(),
        ids=ids,
        model=config.memory.persona.model,
        about=(atoms[0].seq, atoms[-1].seq),
    )
    try:
        answer = ask(llm, question, config.llm, read_answer, divisible=len(atoms) > 1)
    except (LLMTransient, LLMTerminal) as error:
        return outcome_of(error)
    except LLMContent as error:
        if len(atoms) > 1 and error.code in TOO_LONG:
            return _by_model(replace(this, atoms=atoms[: len(atoms) // 2]), llm)
        this.parts.store.park_job(this.lease, f"{error.code}: {error}", what_came(error), this.now)
        return Parked(error.code)
    bench = _workbench(this)
    apply_operations(without_blind_archiving(answer, bench, shown), bench)
    place_left_out(atoms, bench)
    return _apply(this, bench, answer.persona_request)


def _by_rules(this: _Run) -> Outcome:
    bench = _workbench(this)
    place_left_out(this.atoms, bench)
    return _apply(this, bench, "scenes changed")  # a persona by rules costs nothing, so that it never lags behind


def _present_scenes(scope: str, store: Store) -> _Scenes:
    scenes = store.scenes(scope)
    gone = replaced_atoms({source for scene in scenes for source in sources_of(scene.sections)}, store)
    kept = tuple(
        replace(scene, sections=without_lines_of(scene.sections, gone), summary=own_summary(scene, gone))
        for scene in scenes
    )
    outdated = frozenset(now.name for before, now in zip(scenes, kept, strict=True) if before != now)
    return _Scenes(kept, outdated)


def _workbench(this: _Run) -> Workbench:
    return Workbench(
        scope=this.lease.scope,
        limits=_limits(this.parts.config),
        known=_known_sources(this.atoms, this.present.scenes),
        fresh=frozenset(atom.id for atom in this.atoms),
        others=_words_of_others(this),
        now=this.now,
        scenes={scene.name: scene for scene in this.present.scenes},
    )


def _words_of_others(this: _Run) -> frozenset[str]:
    standing = words_of_others([part for scene in this.present.scenes for part in scene.sections], this.parts.store)
    return standing | {atom.id for atom in this.atoms if atom.origin in OF_OTHERS}


def _known_sources(atoms: Sequence[Atom], scenes: Sequence[Scene]) -> Mapping[str, str]:
    ids = {atom.id for atom in atoms} | {source for scene in scenes for source in sources_of(scene.sections)}
    return {id: id for id in ids}


def _apply(this: _Run, bench: Workbench, persona_request: str) -> Outcome:
    settings = this.parts.config.memory
    changes = [*bench.changes.values(), *_tidied(this.present, bench)]
    this.parts.store.apply_scenes(
        this.lease,
        this.atoms[-1].seq,
        changes,
        persona_request,
        after_l2(settings.pipeline, this.now),
        after_scenes(settings.persona.trigger_every_n, this.now),
        this.now,
    )
    return Done(len(changes), bench.refused)


def _tidied(present: _Scenes, bench: Workbench) -> list[SceneChange]:
    """Scenes that no operation touched but that lose lines whose facts have been replaced."""
    absorbed = {name for change in bench.changes.values() for name in change.absorbed}
    tidied = []
    for scene in present.scenes:
        if scene.name in bench.changes or scene.name in absorbed or scene.name not in present.outdated:
            continue
        op, status = ("update", scene.status) if scene.sections else ("archive", "archived")
        tidied.append(SceneChange(op, replace(scene, status=status, updated_at=bench.now), reason="facts replaced"))
    return tidied


def _limits(config: Config) -> Limits:
    return Limits(config.memory.persona.max_scenes, SCENE_CHARS)
