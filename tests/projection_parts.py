"""A real store with a projector beside it, and short ways to put memories into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

from memory_tencentdb_worker.models import (
    AtomChanges,
    AtomType,
    Line,
    NewAtom,
    NewMessage,
    NewTurn,
    Origin,
    Persona,
    Role,
    Scene,
    SceneChange,
    Section,
    SessionState,
    Source,
)
from memory_tencentdb_worker.store.projections import Projector
from memory_tencentdb_worker.store.sqlite import open_store
from memory_tencentdb_worker.text.ids import atom_id

NOW = 1_779_328_800_000  # 2026-05-21T10:00:00+08:00
ZONE = ZoneInfo("Asia/Shanghai")


def no_plan(_: SessionState) -> tuple[()]:
    return ()


def section(heading: str, *lines: tuple[str, ...]) -> Section:
    """Each line is a text followed by its sources."""
    return Section(heading, tuple(Line(text, sources) for text, *rest in lines for sources in [tuple(rest)]))


class Memory:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True, mode=0o700)
        self.dir, self.clock = directory, NOW
        self.store = open_store(directory, NOW)
        self.turns = 0
        self.restart()

    def restart(self) -> None:
        """A new process: nothing in memory of what was written before."""
        self.projector = Projector(self.store, self.dir, ZONE, scene_backups=4, clock=lambda: self.clock)

    def refresh(self) -> None:
        self.projector.refresh()

    def say(self, user: str, assistant: str, *, now: int = NOW, scope: str = "") -> tuple[str, ...]:
        messages = (
            NewMessage(Role.USER, user, now, Origin.USER),
            NewMessage(Role.ASSISTANT, assistant, now, Origin.ASSISTANT),
        )
        return self.store.add_turn(self._turn(scope, messages, now), no_plan, now).message_ids

    def learn(self, content: str, sources: Sequence[str], *, supersedes: str = "", now: int = NOW) -> str:
        said = tuple(Source(message.id, message.hash) for message in self.store.messages_by_id(sources))
        new = NewAtom(
            atom_id("", AtomType.PERSONA, content, sources),
            AtomType.PERSONA,
            content,
            60,
            "scene",
            Origin.USER,
            said,
            "s",
            "s",
        )
        pairs = ((supersedes, new.id),) if supersedes else ()
        self.store.add_atoms("", AtomChanges(add=(new,), supersede=pairs, extractor="rules"), no_plan, now)
        return new.id

    def fact(self, content: str) -> str:
        return self.learn(content, self.say(content, "ok")[:1])

    def write_scene(
        self,
        name: str,
        *sections: Section,
        summary: str = "s",
        heat: int = 1,
        absorbed: tuple[str, ...] = (),
        op: str = "create",
    ) -> None:
        self._edit(SceneChange(op, Scene("", name, 0, summary, sections, heat, NOW, NOW), absorbed))

    def archive_scene(self, name: str) -> None:
        scene = self.store.scene("", name)
        assert scene is not None
        self._edit(SceneChange("archive", scene))

    def write_persona(self, *sections: Section) -> None:
        self._edit(persona=Persona("", 0, sections, NOW, "test"))

    def _edit(self, *changes: SceneChange, persona: Persona | None = None) -> None:
        evidence = self._turn("", (NewMessage(Role.USER, "I edited", NOW, Origin.OWNER_EDIT),), NOW)
        self.store.edit_documents("", changes, persona, evidence, NOW)

    def _turn(self, scope: str, messages: tuple[NewMessage, ...], now: int) -> NewTurn:
        self.turns += 1
        return NewTurn(scope, f"t_{self.turns}", "s", "s", messages, now, "test")
