"""How memories read: lines for recall and search answers, and the stable part of the context (CONTRACT 10.3).

The stable part depends on persona and scenes only. It shows no heat and no times, so that the same memory gives the
same bytes and the host's prompt cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo

from memory_tencentdb.wire import Item
from memory_tencentdb_worker.models import Atom, AtomType, Layer, Message, Origin, Persona, Role, Scene, Section
from memory_tencentdb_worker.offline.assemble import PERSONA_CHARS, cut_end
from memory_tencentdb_worker.recall.rank import Candidate
from memory_tencentdb_worker.recall.scene_lines import SceneLine
from memory_tencentdb_worker.text.recalled import PERSONA_HEADER, TOOL_GUIDE, TOPICS_HEADER
from memory_tencentdb_worker.text.safe import one_line
from memory_tencentdb_worker.text.times import date_local, iso_local
from memory_tencentdb_worker.text.tokens import count_tokens, cut_to_chars, grapheme_start

_TOLD_BY = {
    Origin.ASSISTANT: "told by the assistant: ",
    Origin.TOOL: "told by a tool: ",
    Origin.WEB: "read in a page: ",
}
"""Before what nobody vouches for: whoever reads the line must not take it for the user's own word."""

SUMMARY_LIMIT_CHARS = 200
ITEM_LIMIT_CHARS = 32_000
"""Text of one item of an answer; `why` shows all of it."""

CHARS_PER_TOKEN = 5
MOST_SOURCES_SHOWN = 3
SEARCH_LINE_CHARS = 2_000
SEARCH_LEAD_CHARS = 80


def recall_line(candidate: Candidate, text: str, zone: tzinfo) -> str:
    """`- [YYYY-MM-DD] text (id)` around what `line_text` gave and the caller has cut."""
    lead = _speaker(candidate) + _ended(candidate, zone)
    return f"- [{date_local(said_at(candidate), zone)}] {lead}{text} ({_marks(candidate)})"


def line_text(candidate: Candidate, terms: Sequence[str], limit_tokens: int) -> str:
    """The memory as one harmless line, roughly of this size: a message that is longer begins a little before the first
    of the terms that it holds."""
    most_chars = limit_tokens * CHARS_PER_TOKEN
    text = candidate.text
    if candidate.message is not None and (len(text) > most_chars or count_tokens(text) > limit_tokens):
        text = _from_match(text, terms, limit_tokens // 4)
    return one_line(text[: 2 * most_chars])


def said_at(candidate: Candidate) -> int:
    """When it happened, where that is known; else when it was said."""
    if candidate.atom is not None:
        return _atom_instant(candidate.atom)
    if candidate.line is not None:
        return candidate.line.at
    assert candidate.message is not None
    return candidate.message.sent_at


def item_of(candidate: Candidate, zone: tzinfo, terms: Sequence[str] = ()) -> Item:
    if candidate.atom is not None:
        return atom_item(candidate.atom, candidate.score, zone)
    if candidate.line is not None:
        return line_item(candidate.line, candidate.score, zone)
    assert candidate.message is not None
    return message_item(candidate.message, candidate.score, zone, terms)


def atom_item(atom: Atom, score: float, zone: tzinfo) -> Item:
    return Item(
        id=atom.id,
        layer=Layer.L1,
        text=atom.content,
        score=round(score, 4),
        session_key=atom.session_key,
        at=iso_local(_atom_instant(atom), zone),
        sources=[source.message_id for source in atom.sources],
        type=atom.type,
        scene=atom.scene_name or None,
        valid_from=iso_local(atom.valid_from, zone),
        valid_to=None if atom.valid_to is None else iso_local(atom.valid_to, zone),
        priority=atom.priority,
        origin=atom.origin,
    )


def message_item(message: Message, score: float, zone: tzinfo, terms: Sequence[str]) -> Item:
    """The text is verbatim, but a huge one is shown from where it fits the query."""
    return Item(
        id=message.id,
        layer=Layer.L0,
        text=_cut(message.text, terms, ITEM_LIMIT_CHARS),
        score=round(score, 4),
        session_key=message.session_key,
        at=iso_local(message.sent_at, zone),
        sources=[message.id],
        role=message.role,
        origin=message.origin,
    )


def line_item(line: SceneLine, score: float, zone: tzinfo) -> Item:
    return Item(
        id=line.scene,
        layer=Layer.L2,
        text=line.text,
        score=round(score, 4),
        session_key="",
        at=iso_local(line.at, zone),
        sources=list(line.messages),
        scene=line.scene,
    )


def scene_item(scene: Scene, zone: tzinfo) -> Item:
    sources = dict.fromkeys(source for section in scene.sections for line in section.lines for source in line.sources)
    return Item(
        id=scene.name,
        layer=Layer.L2,
        text=body_text(scene.sections),
        score=1.0,
        session_key="",
        at=iso_local(scene.updated_at, zone),
        sources=list(sources),
        scene=scene.name,
    )


def search_text(items: Sequence[Item], kind: str, terms: Sequence[str] = ()) -> str:
    """The answer of a search as a model reads it; `kind` is "memory" or "message"."""
    if not items:
        return f"No {kind} matches."
    plural = {"memory": "memories", "message": "messages"}[kind]
    head = f"Found 1 {kind}:" if len(items) == 1 else f"Found {len(items)} {plural}:"
    return "\n".join([head, *(_search_line(item, terms) for item in items)])


def stable_part(persona: Persona | None, scenes: Sequence[Scene]) -> str:
    """Persona, index of scenes and how to look things up; "" while there is neither persona nor scene."""
    parts: list[str] = []
    if persona is not None and persona.sections:
        parts.append(f"{PERSONA_HEADER}\n" + safe_body(_within_size(persona.sections)))
    if scenes:
        index = "\n".join(_scene_line(scene) for scene in sorted(scenes, key=lambda scene: scene.name))
        parts.append(f"{TOPICS_HEADER}\n" + index)
    return "\n\n".join([*parts, TOOL_GUIDE]) if parts else ""


def _within_size(sections: Sequence[Section]) -> Sequence[Section]:
    """What a person wrote into the persona may be longer than what a prompt is given of it."""
    fitting, cut = cut_end(sections, PERSONA_CHARS)
    if fitting or not cut:
        return fitting
    first = sections[0]
    return [Section(first.heading, (replace(first.lines[0], text=cut_to_chars(first.lines[0].text, PERSONA_CHARS)),))]


def safe_body(sections: Sequence[Section]) -> str:
    """Sections for a prompt: every line harmless, one a line."""
    rows: list[str] = []
    for section in sections:
        if section.heading:
            rows.append(f"## {one_line(section.heading)}")
        rows.extend(f"- {one_line(line.text)}" for line in section.lines)
    return "\n".join(rows)


def body_text(sections: Sequence[Section]) -> str:
    """Sections as they are, in Markdown."""
    rows: list[str] = []
    for section in sections:
        if section.heading:
            rows.append(f"## {section.heading}")
        rows.extend(f"- {line.text}" for line in section.lines)
    return "\n".join(rows)


def _atom_instant(atom: Atom) -> int:
    return atom.valid_from if atom.activity_start is None else atom.activity_start


def _marks(candidate: Candidate) -> str:
    """The id; for a line of a scene the scene's file name and the ids of what it rests on."""
    if candidate.line is None:
        return candidate.id
    return ", ".join([f"scene {one_line(candidate.line.scene)}", *candidate.line.sources[:MOST_SOURCES_SHOWN]])


def _speaker(candidate: Candidate) -> str:
    if candidate.atom is not None:
        if candidate.atom.origin in _TOLD_BY:
            return _TOLD_BY[candidate.atom.origin]
        standing = candidate.atom.type is AtomType.INSTRUCTION and candidate.atom.priority < 0
        return "standing rule: " if standing else ""
    if candidate.line is not None:
        origins = [one.origin for one in candidate.line.rests_on if isinstance(one, Atom)]
        return next((_TOLD_BY[origin] for origin in origins if origin in _TOLD_BY), "")
    assert candidate.message is not None
    return _said_by(candidate.message.role, candidate.message.origin)


def _said_by(role: str | None, origin: str | None) -> str:
    if role == Role.USER:
        return _TOLD_BY.get(Origin(origin), "the user said: ") if origin else "the user said: "
    return "the assistant said: "


def _ended(candidate: Candidate, zone: tzinfo) -> str:
    atom = candidate.atom
    return "" if atom is None or atom.live or atom.valid_to is None else f"until {date_local(atom.valid_to, zone)}: "


def _from_match(text: str, terms: Sequence[str], lead_chars: int) -> str:
    """The text from a little before the first term on; the whole text when it holds none."""
    folded = text.casefold()
    found = [place for term in terms if (place := folded.find(term)) >= 0]
    start = min(found, default=0) - lead_chars
    if start <= 0:
        return text
    blank = text.find(" ", start, start + lead_chars // 2)
    start = blank + 1 if blank >= 0 else grapheme_start(text, start)
    return "…" + text[start:]


def _search_line(item: Item, terms: Sequence[str]) -> str:
    text = one_line(_cut(item.text, terms, SEARCH_LINE_CHARS))
    marks = [item.id]
    if item.layer == Layer.L0:
        speaker = _said_by(item.role, item.origin)
        marks.append(f"session {one_line(item.session_key)}")
        return f"- [{item.at[:16].replace('T', ' ')}] {speaker}{text} ({', '.join(marks)})"
    told_by = _TOLD_BY.get(Origin(item.origin), "") if item.origin else ""
    if item.valid_to:
        marks.append(f"until {item.valid_to[:10]}")
    if item.type:
        marks.append(item.type)
    if item.priority is not None:
        marks.append("standing rule" if item.priority < 0 else f"priority {item.priority}")
    if item.scene:
        marks.append(f"scene {one_line(item.scene)}")
    return f"- [{item.at[:10]}] {told_by}{text} ({', '.join(marks)})"


def _cut(text: str, terms: Sequence[str], limit_chars: int) -> str:
    return text if len(text) <= limit_chars else cut_to_chars(_from_match(text, terms, SEARCH_LEAD_CHARS), limit_chars)


def _scene_line(scene: Scene) -> str:
    summary = cut_to_chars(one_line(scene.summary), SUMMARY_LIMIT_CHARS)
    return f"- {scene.name}: {summary}" if summary else f"- {scene.name}"
