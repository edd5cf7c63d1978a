"""The manual's file formats (tdai.md 1.3-1.6): domain values to text, and scene and persona files back to values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from urllib.parse import quote, unquote

from memory_tencentdb_worker.models import Atom, Line, Message, Persona, Scene, Section
from memory_tencentdb_worker.text.times import iso_local

META_START = "-----META-START-----"
META_END = "-----META-END-----"
NAVIGATION_TITLE = "## 🗺️ Scene Navigation (Scene Index)"
"""Everything from here on in persona.md is ours, not the persona's."""

_PERSONA_TITLE = "# Persona"
_FIRES = ((1000, 5), (500, 4), (200, 3), (100, 2), (50, 1))
_LINE_BREAKS = re.compile(r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")
_SOURCES = re.compile(r"\s*<!--(?P<ids>[^<>]*)-->\s*$")
_UNSAFE_IN_COMMENT = re.compile(r"[\s%<>]|-(?=-)|^-|-$")
_HEADING = re.compile(r"#{1,6}\s+(?P<text>.*?)(?:\s+#+)?\s*")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?P<text>.*)")
_FIELD = re.compile(r"^(\w+):[ \t]*(.*)$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class Document:
    """What a scene or persona file says; times are not read back, the store knows them."""

    summary: str
    sections: tuple[Section, ...]


def message_row(message: Message) -> str:
    """One line of `conversations/*.jsonl`."""
    return _json_line(
        {
            "sessionKey": message.session_key,
            "sessionId": message.session_id,
            "recordedAt": iso_utc(message.recorded_at),
            "id": message.id,
            "role": str(message.role),
            "content": message.text,
            "timestamp": message.sent_at,
        }
    )


def atom_row(atom: Atom) -> str:
    """One line of `records/*.jsonl`; a superseded atom says when and by which one."""
    activity = {"activity_start_time": atom.activity_start, "activity_end_time": atom.activity_end}
    row: dict[str, object] = {
        "id": atom.id,
        "content": atom.content,
        "type": str(atom.type),
        "priority": atom.priority,
        "scene_name": atom.scene_name,
        "source_message_ids": [source.message_id for source in atom.sources],
        "metadata": {key: iso_utc(value) for key, value in activity.items() if value is not None},
        "timestamps": [iso_utc(atom.recorded_from)],
        "createdAt": iso_utc(atom.recorded_from),
        "updatedAt": iso_utc(atom.recorded_from if atom.superseded_at is None else atom.superseded_at),
        "sessionKey": atom.session_key,
        "sessionId": atom.session_id,
    }
    if atom.superseded_at is not None:
        row |= {"supersededAt": iso_utc(atom.superseded_at), "supersededBy": atom.superseded_by}
    return _json_line(row)


def scene_text(scene: Scene, zone: tzinfo) -> str:
    """A scene file: META, then headings and lines, each line with its sources in an HTML comment."""
    meta = [
        META_START,
        f"created: {iso_local(scene.created_at, zone)}",
        f"updated: {iso_local(scene.updated_at, zone)}",
        f"summary: {_flat_summary(scene.summary)}",
        f"heat: {scene.heat}",
        META_END,
    ]
    return "\n".join([*meta, "", *_body(scene.sections), ""])


def read_scene(text: str) -> Document:
    """The reverse of `scene_text`, lenient: a file without META is all body."""
    start = text.find(META_START)
    end = text.find(META_END, start)
    if start < 0 or end < 0:
        return Document("", _read_sections(text))
    fields = {name: value.strip() for name, value in reversed(_FIELD.findall(text[start:end]))}
    body = text[:start] + text[end + len(META_END) :]
    return Document(fields.get("summary", ""), _read_sections(body))


def scene_heat(text: str) -> int:
    """The heat a file claims; 0 when it claims none."""
    found = re.search(r"^heat:\s*(\d{1,9})", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def persona_text(persona: Persona, scenes: Sequence[Scene], zone: tzinfo) -> str:
    """persona.md: the persona, then the navigation to the scenes (when there are any), hottest first."""
    lines = [_PERSONA_TITLE, "", *_body(persona.sections), ""]
    if scenes:
        lines += navigation(scenes, zone)
    return "\n".join(lines)


def read_persona(text: str) -> Document:
    """The reverse of `persona_text`; the navigation is left out."""
    body = text.split(NAVIGATION_TITLE, 1)[0].rstrip().removesuffix("---")
    sections = _read_sections(body)
    if sections and sections[0] == Section(_PERSONA_TITLE.removeprefix("# "), ()):
        sections = sections[1:]
    return Document("", sections)


def navigation(scenes: Sequence[Scene], zone: tzinfo) -> list[str]:
    """The lines of the navigation, the two marker lines included."""
    lines = ["---", NAVIGATION_TITLE, "*One entry for each scene; open its file for the details.*", ""]
    for scene in sorted(scenes, key=lambda scene: (-scene.heat, scene.name)):
        lines += [
            f"### Path: scene_blocks/{scene.name}.md",
            f"**热度**: {scene.heat}{fire(scene.heat)} | **更新**: {iso_local(scene.updated_at, zone)}",
            f"Summary: {_flat_summary(scene.summary)}",
            "",
        ]
    return [*lines, "📌 A path is relative to this directory. Heat counts how often a scene was written to.", ""]


def fire(heat: int) -> str:
    """A blank and one to five flames from a heat of 50 on; "" below."""
    return next((" " + "🔥" * flames for least, flames in _FIRES if heat >= least), "")


def scene_entry(scene: Scene, zone: tzinfo) -> dict[str, object]:
    """One entry of scene_index.json."""
    return {
        "filename": f"{scene.name}.md",
        "summary": _flat_summary(scene.summary),
        "heat": scene.heat,
        "created": iso_local(scene.created_at, zone),
        "updated": iso_local(scene.updated_at, zone),
    }


def manifest_text(created_at: int) -> str:
    store = {"type": "sqlite", "sqlite": {"path": "memory.db"}}
    return pretty_json({"version": 1, "createdAt": iso_utc(created_at), "store": store, "seed": None})


def pretty_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def same_document(text: Document, sections: Sequence[Section], summary: str) -> bool:
    """Whether a file says the same as the store, apart from sources, layout and a missing summary."""
    return text.summary in {"", _flat_summary(summary)} and _words(text.sections) == _words(sections)


def iso_utc(instant_ms: int) -> str:
    """The manual's form: 2026-05-21T02:00:00.123Z."""
    return f"{iso_local(instant_ms, UTC)[:19]}.{instant_ms % 1000:03d}Z"


def _words(sections: Sequence[Section]) -> list[tuple[str, list[str]]]:
    said = [(flat(section.heading), [flat(line.text) for line in section.lines]) for section in sections]
    return [(heading, [line for line in lines if line]) for heading, lines in said if heading or any(lines)]


def _body(sections: Sequence[Section]) -> list[str]:
    lines: list[str] = []
    for section in sections:
        heading = flat(section.heading)
        lines += ["", f"## {heading}"] if lines and heading else [f"## {heading}"] if heading else []
        lines += [_line_text(line) for line in section.lines if flat(line.text)]
    return lines


def _line_text(line: Line) -> str:
    text = flat(line.text)
    if not line.sources and not text.endswith("-->"):
        return f"- {text}"
    ids = " ".join(_UNSAFE_IN_COMMENT.sub(_percent, source) for source in line.sources)
    return f"- {text} <!-- {ids} -->"


def _percent(found: re.Match[str]) -> str:
    return "%2D" if found.group() == "-" else quote(found.group(), safe="")


def _read_sections(body: str) -> tuple[Section, ...]:
    """Headings and lines; a paragraph is a line, an indented line goes on with the one before it."""
    sections: list[tuple[str, list[Line]]] = [("", [])]
    open_line = False
    for raw in body.splitlines():
        if not raw.strip():
            open_line = False
        elif heading := _HEADING.fullmatch(raw):
            sections.append((heading["text"].strip(), []))
            open_line = False
        elif open_line and raw[0] in " \t" and not _BULLET.fullmatch(raw):
            lines = sections[-1][1]
            more = _read_line(raw.strip())
            lines[-1] = Line(f"{lines[-1].text} {more.text}", lines[-1].sources + more.sources)
        else:
            bullet = _BULLET.fullmatch(raw)
            sections[-1][1].append(_read_line(bullet["text"] if bullet else raw.strip()))
            open_line = True
    return tuple(_section(heading, lines) for heading, lines in sections if heading or lines)


def _section(heading: str, lines: Sequence[Line]) -> Section:
    return Section(heading, tuple(line for line in lines if line.text))


def _read_line(text: str) -> Line:
    found = _SOURCES.search(text)
    if not found:
        return Line(text.strip(), ())
    return Line(text[: found.start()].strip(), tuple(map(unquote, found["ids"].split())))


def flat(text: str) -> str:
    """One line, as it stands in a file."""
    return _LINE_BREAKS.sub(" ", text).strip()


def _flat_summary(summary: str) -> str:
    return flat(summary).replace("-----META", "- META")


def _json_line(row: dict[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"
