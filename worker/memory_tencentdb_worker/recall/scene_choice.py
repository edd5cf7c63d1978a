"""Which lines of scenes are given beside the facts and messages: never one whose facts the session has already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory_tencentdb_worker.models import Persona
from memory_tencentdb_worker.recall.gather import WordFinds
from memory_tencentdb_worker.recall.rank import Candidate, Ranking, folded, is_visible
from memory_tencentdb_worker.recall.scene_lines import SceneLine

MOST_LINES = 3


def choose_lines(
    finds: WordFinds,
    ranking: Ranking,
    *,
    limit: int,
    session_id: str,
    exclude: Iterable[str] = (),
    visible_since: int | None = None,
) -> tuple[Candidate, ...]:
    """Lines take the places that facts and messages have left of `limit`, a few at most. What the ranking has dropped
    does not come back in a scene's words."""
    given = (*ranking.standing, *ranking.chosen)
    known = {*exclude, *(one.id for one in ranking.dropped), *_behind(given), *_in_persona(finds.persona)}
    texts = {folded(one.text) for one in given} | _persona_texts(finds.persona)
    lines: list[Candidate] = []
    room = min(MOST_LINES, limit - len(ranking.chosen))
    for line in finds.scene_lines:
        visible = visible_since is not None and _partly_visible(line, session_id, visible_since)
        if len(lines) >= room:
            break
        if visible or known & line.behind or folded(line.text) in texts:
            continue
        lines.append(Candidate(line.scene, line.share, line=line))
        known |= line.behind
        texts.add(folded(line.text))
    return tuple(lines)


def _behind(given: Sequence[Candidate]) -> Iterable[str]:
    """The given memories and what they were drawn from."""
    for one in given:
        yield one.id
        if one.atom is not None:
            yield from (source.message_id for source in one.atom.sources)


def _in_persona(persona: Persona | None) -> Iterable[str]:
    """The persona stands in the system prompt. Its lines may also name scenes, which are no facts."""
    sections = persona.sections if persona is not None else ()
    return (source for section in sections for line in section.lines for source in line.sources)


def _persona_texts(persona: Persona | None) -> set[str]:
    sections = persona.sections if persona is not None else ()
    return {folded(line.text) for section in sections for line in section.lines}


def _partly_visible(line: SceneLine, session_id: str, since: int) -> bool:
    return any(is_visible(one, session_id, since) for one in line.rests_on)
