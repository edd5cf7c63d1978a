"""L3: the persona is written anew from the scenes that changed. The old one stays until a better one is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from memory_tencentdb_worker.errors import LLMContent, LLMTerminal, LLMTransient
from memory_tencentdb_worker.layers.bodies import Body, read_body, sources_of, without_lines_of
from memory_tencentdb_worker.layers.calls import Question, ask, what_came
from memory_tencentdb_worker.layers.l2_scenes import replaced_atoms
from memory_tencentdb_worker.layers.outcome import Done, Outcome, Parked, outcome_of
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.layers.schedule import after_persona, persona_trigger
from memory_tencentdb_worker.layers.sections import json_lines, scene_record, section, section_records
from memory_tencentdb_worker.layers.short_ids import ShortIds
from memory_tencentdb_worker.layers.trust import own_scene, words_of_others
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import Lease, Persona, Scene, Section
from memory_tencentdb_worker.offline.assemble import PERSONA_CHARS, assemble_persona, cut_end


@dataclass(frozen=True)
class _Run:
    """One persona run. `holding`: what of the present persona still rests on something that holds."""

    lease: Lease
    changed: Sequence[Scene]  # as far as they rest on the user's own word
    current: Persona | None
    holding: tuple[Section, ...]
    parts: Parts
    now: int


def run(lease: Lease, parts: Parts, now: int) -> Outcome:
    """Writes a persona when scenes have changed since the last one. After Parked the old one is still in force."""
    changed = parts.store.changed_scenes(lease.scope)
    if not changed:
        return _apply(lease, None, parts, now)
    current = parts.store.persona(lease.scope)
    own = _own_scenes(changed, parts)
    if not own:
        return _apply(lease, None, parts, now)
    this = _Run(lease, own, current, _holding(current, parts), parts, now)
    return _by_rules(this) if parts.llm is None else _by_model(this, parts.llm)


def persona_sections(scenes: Sequence[Scene], current: Sequence[Section], zone: tzinfo, ids: ShortIds) -> str:
    persona = json_lines([{"sections": section_records(current, ids)}]) if current else ""
    return "\n\n".join(
        (
            section("scenes", json_lines(scene_record(scene, zone, ids) for scene in scenes)),
            section("persona", persona),
            section("limits", json_lines([{"max_chars": PERSONA_CHARS}])),
        )
    )


def _by_rules(this: _Run) -> Outcome:
    scenes = _own_scenes(this.parts.store.scenes(this.lease.scope), this.parts)
    current = replace(this.current, sections=this.holding) if this.current else None
    persona = assemble_persona(scenes, current, PERSONA_CHARS, this.now, this.lease.scope)
    unchanged = this.current is not None and this.current.sections == persona.sections
    return _apply(this.lease, None if unchanged else persona, this.parts, this.now)


def _by_model(this: _Run, llm: LLM) -> Outcome:
    known = _known_sources(this.changed, this.holding)
    revision = this.current.revision + 1 if this.current else 1
    ids = ShortIds()
    question = Question(
        task="l3-persona",
        scope=this.lease.scope,
        user=persona_sections(this.changed, this.holding, this.parts.zone, ids),
        keys=(),
        ids=ids,
        model=this.parts.config.memory.persona.model,
        about=(revision, revision),
    )
    try:
        body = ask(llm, question, this.parts.config.llm, lambda value: _read_persona(value, known), divisible=False)
    except (LLMTransient, LLMTerminal) as error:
        return outcome_of(error)
    except LLMContent as error:
        this.parts.store.park_job(this.lease, f"{error.code}: {error}", what_came(error), this.now)
        return Parked(error.code)
    sections, cut = cut_end(body.sections, PERSONA_CHARS)
    persona = Persona(
        scope=this.lease.scope,
        revision=revision,
        sections=sections,
        created_at=this.now,
        reason=_reason(this.lease, this.parts),
    )
    return _apply(this.lease, persona, this.parts, this.now, refused=body.refused + cut)


def _read_persona(value: object, known: Mapping[str, str]) -> Body:
    """Raises LLMContent when nothing of the answer may stand in a persona, so that the old one is kept."""
    given = value.get("sections") if isinstance(value, Mapping) else value
    if not isinstance(given, list):
        raise LLMContent("the answer holds no list of sections", code="wrong_shape")
    body = read_body(given, known)
    if not body.sections:
        raise LLMContent("no line of the answer rests on a known source", code="unsupported")
    if not cut_end(body.sections, PERSONA_CHARS)[0]:
        raise LLMContent("the first line of the answer is longer than a whole persona", code="too_long")
    return body


def _holding(current: Persona | None, parts: Parts) -> tuple[Section, ...]:
    """The present persona without lines that rest only on replaced atoms or on what others said."""
    if current is None:
        return ()
    gone = replaced_atoms(sources_of(current.sections), parts.store)
    return without_lines_of(current.sections, gone | words_of_others(current.sections, parts.store))


def _own_scenes(scenes: Sequence[Scene], parts: Parts) -> list[Scene]:
    others = words_of_others([part for scene in scenes for part in scene.sections], parts.store)
    return [own for own in (own_scene(scene, others) for scene in scenes) if own.sections]


def _known_sources(scenes: Sequence[Scene], current: Sequence[Section]) -> dict[str, str]:
    names = {spelling: scene.name for scene in scenes for spelling in (scene.name, f"{scene.name}.md")}
    ids = sources_of(current) | {source for scene in scenes for source in sources_of(scene.sections)}
    return {**names, **{id: id for id in ids}}


def _reason(lease: Lease, parts: Parts) -> str:
    state = parts.store.scope_state(lease.scope)
    return persona_trigger(state, parts.config.memory.persona.trigger_every_n) or "flush"


def _apply(lease: Lease, persona: Persona | None, parts: Parts, now: int, *, refused: int = 0) -> Outcome:
    plan = after_persona(parts.config.memory.persona.trigger_every_n, now)
    parts.store.apply_persona(lease, persona, plan, now)
    return Done(0 if persona is None else 1, refused)
