"""Lines of scenes that fit a question: what is said there in other words than in a fact, or joined from several."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from memory_tencentdb_worker.models import Atom, Line, Message, Scene
from memory_tencentdb_worker.store.base import Store

MOST_LOOKED_UP = 12
"""So many of the fitting lines are looked up in the store; a few of them find a place."""

LEAST_SHARE = 0.5
"""Of the question's words, in a line: a scene's lines stand one click away anyway, so a weak one is not worth its
tokens in every later request."""

MOST_TERMS = 24
"""A longer question is never half answered by one line."""

LONG_TERM_CHARS, ENDING_CHARS = 4, 2


@dataclass(frozen=True)
class SceneLine:
    """`sources` are the line's own ids, all of them known and true; `behind` are these and the messages of its facts;
    `rests_on` are the facts and messages themselves, never none."""

    scene: str
    text: str
    sources: tuple[str, ...]
    rests_on: tuple[Atom | Message, ...]
    share: float

    @property
    def at(self) -> int:
        """When the newest of what it rests on happened or was said."""
        return max(_instant(one) for one in self.rests_on)

    @property
    def behind(self) -> frozenset[str]:
        return frozenset([*self.sources, *self.messages])

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages at the bottom of it, by id."""
        ids: dict[str, None] = {}
        for one in self.rests_on:
            ids.update(dict.fromkeys([one.id] if isinstance(one, Message) else (src.message_id for src in one.sources)))
        return tuple(ids)


def find_scene_lines(
    store: Store, scope: str, scenes: Sequence[Scene], terms: Sequence[str], *, as_of: bool = False
) -> list[SceneLine]:
    """The best fitting ones first. A line of which one source is gone or no longer true is none: the scene lags behind
    its facts. Scenes `as_of` an instant were put together from what held then, whatever became of it."""
    if not terms or len(terms) > MOST_TERMS:
        return []
    fitting = sorted(_fitting(scenes, terms), key=lambda one: -one[0])[:MOST_LOOKED_UP]
    ids = list(dict.fromkeys(source for _, _, line in fitting for source in line.sources))
    known: dict[str, Atom | Message] = {}
    if ids:
        known.update({atom.id: atom for atom in store.atoms_by_id(ids) if atom.scope == scope and (as_of or atom.live)})
        known.update({said.id: said for said in store.messages_by_id(ids) if said.scope == scope})
    return [
        SceneLine(name, line.text, line.sources, tuple(known[source] for source in line.sources), share)
        for share, name, line in fitting
        if all(source in known for source in line.sources)
    ]


def _fitting(scenes: Iterable[Scene], terms: Sequence[str]) -> Iterator[tuple[float, str, Line]]:
    stems = [term[:-ENDING_CHARS] if len(term) > LONG_TERM_CHARS else term for term in terms]
    for scene in scenes:
        for line in (line for section in scene.sections for line in section.lines):
            share = _share(line.text, stems)
            if share >= LEAST_SHARE and line.sources:
                yield share, scene.name, line


def _share(text: str, stems: Collection[str]) -> float:
    folded = text.casefold()
    return sum(stem in folded for stem in stems) / len(stems)


def _instant(one: Atom | Message) -> int:
    if isinstance(one, Message):
        return one.sent_at
    return one.valid_from if one.activity_start is None else one.activity_start
