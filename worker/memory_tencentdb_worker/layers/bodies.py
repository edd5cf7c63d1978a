"""Bodies of scenes and personas: reading them from an answer, and keeping them true and within their size.

A line without a source that was offered is refused; a body never loses most of its lines in silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_tencentdb_worker.layers.l1_answer import ids_of
from memory_tencentdb_worker.llm.empty_talk import says_nothing
from memory_tencentdb_worker.models import Line, Section
from memory_tencentdb_worker.text.safe import one_line

HEADING_LIMIT = 120


@dataclass(frozen=True)
class Body:
    sections: tuple[Section, ...]
    refused: int  # lines without a known source, refusals, things that are no lines


def read_body(value: object, known: Mapping[str, str]) -> Body:
    """Sections of an answer. `known` maps every spelling of an id that may be a source to the id."""
    sections, refused = [], 0
    for item in value if isinstance(value, list) else []:
        if not isinstance(item, Mapping):
            refused += 1
            continue
        lines, bad = _read_lines(item.get("lines"), known)
        refused += bad
        if lines:
            heading = item.get("heading")
            title = one_line(heading).lstrip("# ")[:HEADING_LIMIT] if isinstance(heading, str) else ""
            sections.append(Section(title, lines))
    return Body(join_headings(sections), refused)


def join_headings(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Sections of one heading become one; the same text twice becomes one line with the sources of both."""
    bodies: dict[str, dict[str, Line]] = {}
    for section in sections:
        lines = bodies.setdefault(section.heading, {})
        for line in section.lines:
            same = lines.get(line.text)
            sources = tuple(dict.fromkeys((*same.sources, *line.sources))) if same else line.sources
            lines[line.text] = replace(line, sources=sources)
    return tuple(Section(heading, tuple(lines.values())) for heading, lines in bodies.items() if lines)


def sources_of(sections: Iterable[Section]) -> set[str]:
    return {source for section in sections for line in section.lines for source in line.sources}


def without_lines_of(sections: Sequence[Section], gone: Collection[str]) -> tuple[Section, ...]:
    """Drops the lines that rest on nothing but `gone` sources."""
    kept = (Section(part.heading, tuple(line for line in part.lines if _holds(line, gone))) for part in sections)
    return tuple(section for section in kept if section.lines)


def keeping(new: Sequence[Section], old: Sequence[Section]) -> tuple[Section, ...]:
    """The new body; with the old lines that it lost, when these are more than half of them.

    A line is lost when none of its sources stands in the new body: joining lines is fine, forgetting them is not.
    """
    here = sources_of(new)
    lost = [
        Section(section.heading, tuple(line for line in section.lines if not here & set(line.sources)))
        for section in old
    ]
    lines = sum(len(section.lines) for section in old)
    if 2 * sum(len(section.lines) for section in lost) <= lines:
        return join_headings(new)
    return join_headings([*new, *lost])


def fit(sections: Sequence[Section], max_chars: int, keep: Collection[str] = ()) -> tuple[tuple[Section, ...], int]:
    """The body within its size, and how many lines that cost: the oldest of the longest section go first, those that
    rest on a source in `keep` last. One line always stays."""
    bodies = [(section.heading, list(section.lines)) for section in sections]
    cut = 0
    while size(bodies) > max_chars and sum(len(lines) for _, lines in bodies) > 1:
        _drop_one(bodies, set(keep))
        cut += 1
    return tuple(Section(heading, tuple(lines)) for heading, lines in bodies if lines), cut


def size(bodies: Iterable[tuple[str, Sequence[Line]]]) -> int:
    """Characters of the lines: what `max_chars` limits."""
    return sum(len(line.text) for _, lines in bodies for line in lines)


def _holds(line: Line, gone: Collection[str]) -> bool:
    return not line.sources or any(source not in gone for source in line.sources)


def _drop_one(bodies: list[tuple[str, list[Line]]], keep: set[str]) -> None:
    old = [(lines, line) for _, lines in bodies for line in lines if not keep & set(line.sources)]
    if old:
        lines, line = max(old, key=lambda pair: len(pair[0]))
        lines.remove(line)
    else:
        max((lines for _, lines in bodies), key=len).pop(0)


def _read_lines(value: object, known: Mapping[str, str]) -> tuple[tuple[Line, ...], int]:
    lines: list[Line] = []
    refused = 0
    for item in value if isinstance(value, list) else []:
        line = _read_line(item, known)
        if line is None:
            refused += 1
        else:
            lines.append(line)
    return tuple(lines), refused


def _read_line(item: object, known: Mapping[str, str]) -> Line | None:
    text = item.get("text") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(text, str) or says_nothing(text):
        return None
    sources = tuple(dict.fromkeys(known[id] for id in ids_of(item.get("sources")) if id in known))
    flat = " ".join(text.split()).lstrip("#-*• ")
    return Line(flat, sources) if sources and flat else None
