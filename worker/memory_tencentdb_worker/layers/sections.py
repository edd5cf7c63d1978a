"""Data for the user message of a model call, in the sections and forms of CONTRACT 9."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo

from memory_tencentdb_worker.layers.short_ids import ShortIds
from memory_tencentdb_worker.models import Atom, Message, Scene, Section
from memory_tencentdb_worker.text.safe import escape_sections, indent_continuations, one_line
from memory_tencentdb_worker.text.times import iso_local

L1_SECTIONS = ("background", "messages", "previous_scene")


def section(name: str, body: str) -> str:
    return f"<{name}>\n{body}\n</{name}>" if body else f"<{name}>\n</{name}>"


def message_lines(messages: Sequence[Message], zone: tzinfo, ids: ShortIds) -> str:
    return "\n".join(_message_line(message, zone, ids) for message in messages)


def one_line_text(text: str) -> str:
    """Free text in a section of L1, such as the name of the previous scene."""
    return escape_sections(one_line(text), L1_SECTIONS)


def json_lines(records: Iterable[Mapping[str, object]]) -> str:
    """One JSON object a line. `<` is written as an escape, which no section can be closed with and which loses
    nothing."""
    return "\n".join(_json(record) for record in records)


def atom_record(atom: Atom, zone: tzinfo, ids: ShortIds) -> dict[str, object]:
    return {
        "id": ids.short(atom.id),
        "content": atom.content,
        "type": atom.type.value,
        "priority": atom.priority,
        "scene_name": atom.scene_name,
        "at": iso_local(atom.activity_start or atom.valid_from, zone),
    }


def scene_record(scene: Scene, zone: tzinfo, ids: ShortIds) -> dict[str, object]:
    return {
        "name": scene.name,
        "heat": scene.heat,
        "updated": iso_local(scene.updated_at, zone),
        "summary": scene.summary,
        "sections": section_records(scene.sections, ids),
    }


def section_records(sections: Sequence[Section], ids: ShortIds) -> list[dict[str, object]]:
    return [
        {
            "heading": part.heading,
            "lines": [
                {"text": line.text, "sources": [ids.short(source) for source in line.sources]} for line in part.lines
            ],
        }
        for part in sections
    ]


def _message_line(message: Message, zone: tzinfo, ids: ShortIds) -> str:
    text = indent_continuations(escape_sections(message.text, L1_SECTIONS))
    return f"[{ids.short(message.id)}] [{message.role.value}] [{iso_local(message.sent_at, zone)}]: {text}"


def _json(record: Mapping[str, object]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
