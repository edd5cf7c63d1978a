"""`scene_blocks/`, `persona.md` and the scene index: written from the store, and read back when a person edits them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import Literal

from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import Line, Persona, Scene, Section
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.store.projection_files import (
    disk_errors,
    keep_dir,
    keep_file,
    make_dir,
    read_bytes,
    write_file,
)
from memory_tencentdb_worker.store.projection_formats import (
    flat,
    persona_text,
    pretty_json,
    read_persona,
    read_scene,
    same_document,
    scene_entry,
    scene_heat,
    scene_text,
)
from memory_tencentdb_worker.store.projection_owned import DELETED, OwnedFiles, SaysTheSame
from memory_tencentdb_worker.text.names import check_stored_name
from memory_tencentdb_worker.text.times import stamp_local

PERSONA_FILE = "persona.md"
SCENE_DIR = "scene_blocks"
INDEX_FILE = ".metadata/scene_index.json"


@dataclass(frozen=True)
class Edit:
    """What a person did to one file. `sections` is the whole new body. A line that stands in the store keeps its
    sources; one that they wrote or changed has none, whatever comment stands behind it."""

    scope: str
    kind: Literal["scene", "persona"]
    name: str  # of the scene; "persona"
    sections: tuple[Section, ...]
    summary: str  # "" when the file has none
    removed: bool = False  # the file was deleted


class DocumentFiles:
    """The documents of one scope. Not thread-safe: the Projector holds a lock."""

    def __init__(
        self,
        store: Store,
        scope: str,
        directory: Path,
        *,
        zone: tzinfo,
        clock: Callable[[], int],
        persona_backups: int,
        scene_backups: int,
        redact: Callable[[str], str],
    ) -> None:
        self._store, self._scope, self._zone, self._clock = store, scope, zone, clock
        self._directory = directory
        self._files = OwnedFiles(store, scope, directory, redact)
        self._persona_backups, self._scene_backups = persona_backups, scene_backups

    @property
    def awaits_restoring(self) -> bool:
        """Whether `read_edits` found an emptied file that the next `update` puts back."""
        return self._files.awaits_restoring

    def update(self, *, restore_missing: bool = False) -> int:
        """Writes what is stale. Returns how many documents there are."""
        scenes = self._store.scenes(self._scope)
        persona = self._store.persona(self._scope)
        self._files.load()
        self._update_scenes(scenes, restore_missing)
        self._update_index(scenes)
        if persona is not None:
            self._update_persona(persona, scenes, restore_missing)
        return len(scenes) + 1 + (persona is not None)

    def read_edits(self) -> list[Edit]:
        """What persons changed since we wrote; the same again until the store says what the files say."""
        scenes = {scene.name: scene for scene in self._store.scenes(self._scope)}
        persona = self._store.persona(self._scope)
        self._files.load()
        self._update_index(list(scenes.values()))
        said = _stored_lines([*scenes.values(), *([persona] if persona else [])])
        edits = [self._scene_edit(name, scenes.get(name)) for name in self._names_to_check()]
        edits.append(self._persona_edit(persona))
        return [replace(edit, sections=_keep_sources(edit.sections, said)) for edit in edits if edit is not None]

    def differences(self) -> list[tuple[str, str]]:
        """Files that are not as `update` would leave them, by their path, each with what it is: missing, stale, edited
        (by a person, and not read in yet) or unreadable. Writes nothing."""
        scenes = self._store.scenes(self._scope)
        persona = self._store.persona(self._scope)
        self._files.load()
        shall = {
            _scene_file(scene.name): (_encode(scene_text(scene, self._zone)), _scene_reader(scene)) for scene in scenes
        }
        if persona is not None:
            text = _encode(persona_text(persona, scenes, self._zone))
            shall[PERSONA_FILE] = (text, _persona_reader(persona))
        there = [*self._files.known, *(_scene_file(name) for name in self._names_on_disk(make=False))]
        files = dict.fromkeys([*shall, *there])
        found = [(file, self._files.difference(file, *shall.get(file, (None, _never)))) for file in files]
        index = read_bytes(self._directory / INDEX_FILE)
        if scenes and index != self._index_data(scenes):
            found.append((INDEX_FILE, "stale" if index else "missing"))
        return [(file, kind) for file, kind in found if kind]

    # ---- writing

    def _update_scenes(self, scenes: Sequence[Scene], restore_missing: bool) -> None:
        files = {_scene_file(scene.name): scene for scene in scenes}
        texts = {file: _encode(scene_text(scene, self._zone)) for file, scene in files.items()}
        writable = [
            file
            for file, scene in files.items()
            if self._files.needs_writing(file, texts[file], scene.revision, restore_missing=restore_missing)
            and self._files.may_replace(file, scene.revision, _scene_reader(scene))
        ]
        gone = [file for file in self._files.known if file.startswith(f"{SCENE_DIR}/") and file not in files]
        removable = [file for file in gone if self._files.may_replace(file, 0, _never)]
        self._backup_scenes([*writable, *removable])
        for file in removable:
            self._files.remove(file)
        for file in writable:
            self._files.write(file, texts[file])

    def _update_persona(self, persona: Persona, scenes: Sequence[Scene], restore_missing: bool) -> None:
        data = _encode(persona_text(persona, scenes, self._zone))
        stale = self._files.needs_writing(PERSONA_FILE, data, persona.revision, restore_missing=restore_missing)
        if stale and self._files.may_replace(PERSONA_FILE, persona.revision, _persona_reader(persona)):
            self._backup_persona(persona)
            self._files.write(PERSONA_FILE, data)

    def _update_index(self, scenes: Sequence[Scene]) -> None:
        """The index names exactly the finished files that are there, also those that a person put there."""
        make_dir(self._directory / SCENE_DIR)
        path, data = self._directory / INDEX_FILE, self._index_data(scenes)
        if read_bytes(path) != data:
            write_file(path, data)

    def _index_data(self, scenes: Sequence[Scene]) -> bytes:
        by_name = {scene.name: scene for scene in scenes}
        entries = [
            scene_entry(by_name[name], self._zone) if name in by_name else self._foreign_entry(name)
            for name in self._names_on_disk(make=False)
        ]
        return _encode(pretty_json(entries))

    # ---- edits

    def _names_to_check(self) -> Iterable[str]:
        """Scenes whose file is there, and those whose file should be."""
        recorded = [file.removeprefix(f"{SCENE_DIR}/").removesuffix(".md") for file in self._files.known]
        return dict.fromkeys([*self._names_on_disk(), *(name for name in recorded if name != "persona")])

    def _scene_edit(self, name: str, scene: Scene | None) -> Edit | None:
        text = self._files.edited_text(_scene_file(name), scene.revision if scene else 0, active=scene is not None)
        if text is None or (scene and text != DELETED and _scene_reader(scene)(text)):
            return None
        document = read_scene(text)
        return Edit(self._scope, "scene", name, document.sections, document.summary, removed=text == DELETED)

    def _persona_edit(self, persona: Persona | None) -> Edit | None:
        revision = persona.revision if persona else 0
        text = self._files.edited_text(PERSONA_FILE, revision, active=persona is not None)
        if text is None or (persona and text != DELETED and _persona_reader(persona)(text)):
            return None
        if text == DELETED and persona and not persona.sections:
            self._files.restore(PERSONA_FILE)  # the store knows of this deletion
            return None
        return Edit(self._scope, "persona", "persona", read_persona(text).sections, "", removed=text == DELETED)

    def _names_on_disk(self, *, make: bool = True) -> list[str]:
        directory = self._directory / SCENE_DIR
        if make:
            make_dir(directory)
        elif not directory.is_dir():
            return []
        with disk_errors(directory):
            names = [path.stem for path in directory.iterdir() if path.suffix == ".md" and path.is_file()]
        return sorted(filter(_is_scene_name, names))

    def _foreign_entry(self, name: str) -> dict[str, object]:
        text = (self._files.read(_scene_file(name)) or b"").decode("utf-8", "replace")
        summary, heat = read_scene(text).summary, scene_heat(text)
        return {"filename": f"{name}.md", "summary": summary, "heat": heat, "created": "", "updated": ""}

    # ---- backups

    def _backup_scenes(self, changing: Sequence[str]) -> None:
        present = {name: self._files.read(_scene_file(name)) for name in self._names_on_disk()}
        files = {f"{name}.md": data for name, data in present.items() if data}
        if self._scene_backups and any(Path(file).name in files for file in changing):
            offset = self._store.scope_state(self._scope).scenes_processed
            target = self._directory / ".backup" / SCENE_DIR / f"{SCENE_DIR}_{self._stamp()}_offset{offset}"
            keep_dir(files, target, self._scene_backups)

    def _backup_persona(self, persona: Persona) -> None:
        """Only when the persona itself changes: the navigation can be made again."""
        present = self._files.read(PERSONA_FILE)
        if not present or not present.strip() or not self._persona_backups:
            return
        if not _persona_reader(persona)(present.decode("utf-8", "replace")):
            target = (
                self._directory / ".backup" / "persona" / f"persona_{self._stamp()}_offset{persona.revision - 1}.md"
            )
            keep_file(present, target, self._persona_backups)

    def _stamp(self) -> str:
        return stamp_local(self._clock(), self._zone)


def _scene_file(name: str) -> str:
    return f"{SCENE_DIR}/{check_stored_name(name)}.md"


def _is_scene_name(name: str) -> bool:
    try:
        check_stored_name(name)
    except InvalidInput:
        return False
    return True


def edit_from_text(
    kind: Literal["scene", "persona"], name: str, text: str, summary: str, scope: str, store: Store
) -> Edit:
    """The edit of somebody who writes `text` over a document without touching its file."""
    document = read_scene(text) if kind == "scene" else read_persona(text)
    persona = store.persona(scope)
    said = _stored_lines([*store.scenes(scope), *([persona] if persona else [])])
    return Edit(scope, kind, name, _keep_sources(document.sections, said), summary or document.summary)


def removal_of(scene_name: str, scope: str) -> Edit:
    return Edit(scope, "scene", scene_name, (), "", removed=True)


def _stored_lines(documents: Sequence[Scene | Persona]) -> dict[str, tuple[str, ...]]:
    lines = [line for document in documents for section in document.sections for line in section.lines]
    return {flat(line.text): line.sources for line in lines}


def _keep_sources(sections: Sequence[Section], said: dict[str, tuple[str, ...]]) -> tuple[Section, ...]:
    return tuple(
        Section(section.heading, tuple(Line(line.text, said.get(flat(line.text), ())) for line in section.lines))
        for section in sections
    )


def _scene_reader(scene: Scene) -> SaysTheSame:
    return lambda text: same_document(read_scene(text), scene.sections, scene.summary)


def _persona_reader(persona: Persona) -> SaysTheSame:
    return lambda text: same_document(read_persona(text), persona.sections, "")


def _never(_: str) -> bool:
    return False


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
