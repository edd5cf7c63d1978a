"""The extraction call of L1: messages in, new atoms out, each resting on messages that were really read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Protocol

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import LLMContent
from memory_tencentdb_worker.layers.attribution import attributed
from memory_tencentdb_worker.layers.calls import Question, ask
from memory_tencentdb_worker.layers.group import named, speakers
from memory_tencentdb_worker.layers.l1_answer import (
    ALWAYS,
    DEFAULT_PRIORITY,
    Memory,
    Segment,
    Segments,
    rank,
    read_segments,
)
from memory_tencentdb_worker.layers.parts import Extraction
from memory_tencentdb_worker.layers.sections import message_lines, one_line_text, section
from memory_tencentdb_worker.layers.short_ids import ShortIds
from memory_tencentdb_worker.layers.trust import speaks_for_user
from memory_tencentdb_worker.llm.base import LLM
from memory_tencentdb_worker.models import AtomType, L1Batch, Message, NewAtom, Origin, Role, Source
from memory_tencentdb_worker.prompts import load
from memory_tencentdb_worker.text.clean import worth_extracting
from memory_tencentdb_worker.text.dates import find_span
from memory_tencentdb_worker.text.ids import atom_id
from memory_tencentdb_worker.text.safe import one_line
from memory_tencentdb_worker.text.segment import fold
from memory_tencentdb_worker.text.times import lenient_instant

SCENE_NAME_LIMIT = 200
TASK = "l1-extraction"
CAPPED_MESSAGES = 10
"""The manual's cap on memories belongs to a run over ten messages; a longer batch may hold more in proportion."""

BACKGROUND_CHARS = 400
"""Of a message that has been read before: enough to see who and what is meant."""

ECHO_CHARS = 20
_TELLING = (Origin.USER, Origin.ASSISTANT, Origin.TOOL, Origin.WEB, Origin.IMPORTED)
"""Not the host's memory tool and not an owner's edit: what those say is an atom or a line already."""


class _Found(Protocol):
    """A message or an atom: something with an origin."""

    @property
    def origin(self) -> Origin: ...


def telling(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages a model should read."""
    return tuple(one for one in messages if one.origin in _TELLING and worth_extracting(one.text, one.role))


def extract(llm: LLM, batch: L1Batch, config: Config, zone: tzinfo, *, divisible: bool) -> Extraction:
    """One model call (two with a repair). Raises LLMTransient, LLMTerminal or LLMContent.

    An answer of which half or more cannot be accepted is asked for once more; then the better one of the two counts,
    unless nothing of either can be accepted.
    """
    ids = ShortIds()
    question = Question(
        task=TASK,
        scope=batch.scope,
        user=extraction_sections(batch, zone, ids),
        keys=("scenes", "memories"),
        ids=ids,
        model=config.memory.extraction.model,
        note=_zone_note(zone),
        about=(batch.messages[0].seq, batch.to_seq),
    )
    most = most_memories(batch, config)
    answers: list[Extraction] = []

    def read(value: object) -> Extraction:
        read = accept(_without_echoes(read_segments(value), batch), batch, most, zone)
        answers.append(read)
        if read.refused and read.refused >= len(read.atoms):
            raise LLMContent(f"{read.refused} memories rest on no message or cannot be read", code="unsupported")
        return read

    try:
        return ask(llm, question, config.llm, read, divisible=divisible)
    except LLMContent:
        best = max(answers, key=lambda answer: len(answer.atoms), default=None)
        if best is None or not best.atoms:
            raise
        return best


def most_memories(batch: L1Batch, config: Config) -> int:
    return config.memory.extraction.max_memories_per_session * -(-len(batch.messages) // CAPPED_MESSAGES)


def extraction_sections(batch: L1Batch, zone: tzinfo, ids: ShortIds) -> str:
    return "\n\n".join(
        (
            section("background", message_lines(_shortened(telling(batch.background)), zone, ids)),
            section("messages", message_lines(telling(batch.messages), zone, ids)),
            section("previous_scene", one_line_text(batch.previous_scene)),
        )
    )


def joined(parts: Sequence[Extraction], scope: str) -> Extraction:
    """What was found in the parts of one batch, the same statement once."""
    atoms: dict[str, NewAtom] = {}
    for atom in (atom for part in parts for atom in part.atoms):
        _put(atom, atoms, scope)
    return Extraction(
        tuple(atoms.values()),
        next((part.scene_name for part in reversed(parts) if part.scene_name), ""),
        sum(part.refused for part in parts),
        sum(part.over_limit for part in parts),
    )


def _shortened(messages: Sequence[Message]) -> list[Message]:
    return [
        message
        if len(message.text) <= BACKGROUND_CHARS
        else replace(message, text=f"{message.text[: BACKGROUND_CHARS - 100]} … {message.text[-100:]}")
        for message in messages
    ]


def _without_echoes(segments: Segments, batch: L1Batch) -> Segments:
    """Small models repeat sentences of their instructions as memories (trap B65); a person may say one, too."""
    instructions = same_text(load(TASK))
    echoed = 0
    kept = []
    for segment in segments.segments:
        own = tuple(memory for memory in segment.memories if not _is_echo(memory.content, instructions, batch))
        echoed += len(segment.memories) - len(own)
        kept.append(replace(segment, memories=own))
    return Segments(tuple(kept), segments.refused + echoed)


def _is_echo(content: str, instructions: str, batch: L1Batch) -> bool:
    said = same_text(content)
    if len(said) < ECHO_CHARS or said not in instructions:
        return False
    return not any(said in same_text(message.text) for message in batch.messages)


def _zone_note(zone: tzinfo) -> str:
    """Offsets alone do not say when clocks change."""
    name = getattr(zone, "key", "")
    return f"All times are local times of {name}." if name else ""


def accept(segments: Segments, batch: L1Batch, most: int, zone: tzinfo) -> Extraction:
    """Turns what the model said into atoms; counts what cannot be accepted. The highest priorities win when there
    are too many."""
    atoms: dict[str, NewAtom] = {}
    refused, people = segments.refused, speakers(batch)
    for segment in segments.segments:
        for memory in segment.memories:
            sources = _sources(memory, batch)
            if sources is None:
                refused += not _said_before(memory, batch)
                continue
            _put(named(_atom(memory, segment, sources, batch, zone), people, batch.scope), atoms, batch.scope)
    kept = most_important(list(atoms.values()), most)
    names = [segment.scene_name for segment in segments.segments if segment.scene_name]
    last_scene = scene_name_of(names[-1]) if names else ""
    return Extraction(tuple(kept), last_scene, refused, over_limit=len(atoms) - len(kept))


def same_text(content: str) -> str:
    """The form in which two atoms say the same."""
    return " ".join(fold(content).split()).rstrip(".。!！ ")


def scene_name_of(name: str) -> str:
    return one_line(name)[:SCENE_NAME_LIMIT].rstrip()


def holds_for_user(type: AtomType, sources: Iterable[_Found]) -> bool:
    """What a person is or wants needs the person's own word (trap B104): no page, tool or assistant may set it."""
    return type is AtomType.EPISODIC or any(source.origin is Origin.USER for source in sources)


def _sources(memory: Memory, batch: L1Batch) -> tuple[Message, ...] | None:
    """The messages it rests on, oldest first; at least one of them must be new, the others may be background. Where
    the model named no new one, the memory's own words must point to one."""
    new = telling(batch.messages)
    known = {message.id: message for message in (*batch.background, *batch.messages)}
    named = set(memory.source_message_ids) & set(known)
    if not named & {message.id for message in new}:
        found = attributed(memory.content, new)
        if found is None:
            return None
        named.add(found.id)
    return tuple(message for id, message in known.items() if id in named)


def _said_before(memory: Memory, batch: L1Batch) -> bool:
    """It only repeats what was read with an earlier batch: nothing to remember, and no mistake."""
    return not {message.id for message in batch.background}.isdisjoint(memory.source_message_ids)


def _atom(memory: Memory, segment: Segment, sources: Sequence[Message], batch: L1Batch, zone: tzinfo) -> NewAtom:
    by_user = [message for message in sources if message.role is Role.USER and message.origin is Origin.USER]
    own = speaks_for_user(memory.content, memory.type, sources, batch)
    type = memory.type if own else AtomType.EPISODIC
    priority = memory.priority
    if priority == ALWAYS and type is not AtomType.INSTRUCTION:
        priority = DEFAULT_PRIORITY
    start, end = _activity(memory, type, sources[0].sent_at, zone)
    return NewAtom(
        id=atom_id(batch.scope, type, memory.content, [message.id for message in sources]),
        type=type,
        content=memory.content,
        priority=priority,
        scene_name=scene_name_of(segment.scene_name) or batch.previous_scene,
        origin=_origin(own, by_user, sources),
        sources=tuple(Source(message.id, message.hash) for message in sources),
        session_key=batch.session_key,
        session_id=sources[-1].session_id,
        activity_start=start,
        activity_end=end,
    )


def _origin(own: bool, by_user: Sequence[Message], sources: Sequence[Message]) -> Origin:
    """Of what a person only passed on, nobody knows the author: it counts as a page's."""
    if own:
        return Origin.USER
    others = [message.origin for message in sources if message not in by_user]
    return others[0] if others else Origin.WEB


def _activity(memory: Memory, type: AtomType, said_at: int, zone: tzinfo) -> tuple[int | None, int | None]:
    """When it happens: what the model says, else the date that an event's text names, against the day it was said."""
    start = lenient_instant(memory.metadata.get("activity_start_time"), zone)
    end = lenient_instant(memory.metadata.get("activity_end_time"), zone)
    if start is not None:
        return start, None if end is not None and end < start else end
    span = find_span(memory.content, said_at, zone) if type is AtomType.EPISODIC else None
    return (None, end) if span is None else (span.start, span.end)


def _put(atom: NewAtom, atoms: dict[str, NewAtom], scope: str) -> None:
    same = atoms.get(same_text(atom.content))
    atoms[same_text(atom.content)] = atom if same is None else _united(same, atom, scope)


def _united(first: NewAtom, second: NewAtom, scope: str) -> NewAtom:
    """The same statement twice in one answer: one atom that rests on the messages of both."""
    stronger = max(first, second, key=lambda atom: (atom.origin is Origin.USER, rank(atom.priority)))
    sources = tuple(dict.fromkeys((*first.sources, *second.sources)))
    return NewAtom(
        id=atom_id(scope, stronger.type, stronger.content, [source.message_id for source in sources]),
        type=stronger.type,
        content=stronger.content,
        priority=stronger.priority,
        scene_name=first.scene_name,
        origin=stronger.origin,
        sources=sources,
        session_key=first.session_key,
        session_id=first.session_id,
        activity_start=stronger.activity_start,
        activity_end=stronger.activity_end,
    )


def most_important(atoms: list[NewAtom], most: int) -> list[NewAtom]:
    """The highest priorities, in their order of mention."""
    if len(atoms) <= most:
        return atoms
    kept = {atom.id for atom in sorted(atoms, key=lambda atom: -rank(atom.priority))[:most]}
    return [atom for atom in atoms if atom.id in kept]
