"""From any id that is shown anywhere down to the messages it rests on, with a check that they are still the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo

from memory_tencentdb.wire import WhyMessage, WhyResponse
from memory_tencentdb_worker.errors import NotFound
from memory_tencentdb_worker.models import Atom, Layer, Message, Persona, Scene, Section
from memory_tencentdb_worker.recall.render import body_text
from memory_tencentdb_worker.service.scene_view import find_scene
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.ids import text_hash
from memory_tencentdb_worker.text.times import iso_local

PERSONA_NAMES = frozenset({"persona", "persona.md"})


FormerAtom = Callable[[str | None, str], tuple[Atom, str] | None]
"""By scope and id: an atom that only a kept generation knows, and the generation's id."""


def trace(
    item_id: str, store: Store, zone: tzinfo, scope: str | None = None, former: FormerAtom | None = None
) -> WhyResponse:
    """`scope` None looks in every scope: for the owner. A persona without a scope is the default user's. `former` is
    asked for an id that is not in use.

    Raises NotFound for an id that is not (or no longer) there.
    """
    evidence = _Evidence(store)
    message = store.message(scope, item_id)
    if message is not None:
        evidence.add_messages([(message.id, message.hash)])
        return WhyResponse(message.id, Layer.L0, message.text, evidence.shown(zone))
    atom = store.atom(scope, item_id)
    if atom is not None:
        evidence.add_atoms([atom])
        return WhyResponse(atom.id, Layer.L1, atom.content, evidence.shown(zone))
    turn = _messages_of_turn(item_id, store, scope)
    if turn:
        evidence.add_messages((one.id, one.hash) for one in turn)
        return WhyResponse(item_id, Layer.L0, "\n\n".join(one.text for one in turn), evidence.shown(zone))
    scene = _scene_named(item_id, store, scope)
    if scene is not None:
        evidence.add_sections(scene.sections, scene.scope)
        return WhyResponse(scene.name, Layer.L2, body_text(scene.sections), evidence.shown(zone))
    persona = store.persona(scope or "") if item_id in PERSONA_NAMES else None
    if persona is not None:
        return _trace_persona(persona, evidence, zone)
    found = former(scope, item_id) if former is not None else None
    if found is not None:
        evidence.add_atoms([found[0]])
        return WhyResponse(found[0].id, Layer.L1, found[0].content, evidence.shown(zone), generation=found[1])
    raise NotFound(f"nothing is known under the id {item_id!a}")


def _messages_of_turn(turn_id: str, store: Store, scope: str | None) -> list[Message]:
    for user in store.scopes() if scope is None else [scope]:
        messages = store.turn_messages(user, turn_id)
        if messages:
            return messages
    return []


def _trace_persona(persona: Persona, evidence: _Evidence, zone: tzinfo) -> WhyResponse:
    evidence.add_sections(persona.sections, persona.scope)
    return WhyResponse("persona", Layer.L3, body_text(persona.sections), evidence.shown(zone))


def _scene_named(item_id: str, store: Store, scope: str | None) -> Scene | None:
    return find_scene(item_id.removeprefix("scene_blocks/"), store, scope)


class _Evidence:
    """Collects message ids with every hash that was recorded for them, through atoms and scenes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hashes: dict[str, set[str]] = {}
        self._scenes_seen: set[str] = set()

    def add_messages(self, sources: Iterable[tuple[str, str]]) -> None:
        for source, recorded in sources:
            self._hashes.setdefault(source, set()).add(recorded)

    def add_atoms(self, atoms: Iterable[Atom]) -> None:
        for atom in atoms:
            self.add_messages((source.message_id, source.message_hash) for source in atom.sources)

    def add_sections(self, sections: Iterable[Section], scope: str) -> None:
        """A line rests on atoms, on messages (an owner's edit), or, in a persona, on scenes of the same user."""
        ids = list(dict.fromkeys(source for one in sections for line in one.lines for source in line.sources))
        atoms = {atom.id: atom for atom in self._store.atoms_by_id(ids)}
        self.add_atoms(atoms.values())
        rest = [source for source in ids if source not in atoms]
        messages = {message.id: message for message in self._store.messages_by_id(rest)}
        self.add_messages((message.id, message.hash) for message in messages.values())
        for name in rest:
            if name not in messages:
                self._add_scene(name, scope)

    def shown(self, zone: tzinfo) -> list[WhyMessage]:
        """In the order of the conversation; a message that is gone is listed as not verifiable."""
        found = {message.id: message for message in self._store.messages_by_id(list(self._hashes))}
        rows = [
            _shown(message, self._hashes[message.id], zone)
            for message in sorted(found.values(), key=lambda message: message.seq)
        ]
        rows += [WhyMessage(gone, "", "", "", "", False) for gone in self._hashes if gone not in found]
        return rows

    def _add_scene(self, name: str, scope: str) -> None:
        if name in self._scenes_seen:
            return
        self._scenes_seen.add(name)
        scene = _scene_named(name, self._store, scope)
        if scene is not None:
            self.add_sections(scene.sections, scope)


def _shown(message: Message, recorded: set[str], zone: tzinfo) -> WhyMessage:
    actual = text_hash(message.text)
    return WhyMessage(
        id=message.id,
        role=message.role,
        text=message.text,
        at=iso_local(message.sent_at, zone),
        session_key=message.session_key,
        hash_ok=actual == message.hash and recorded <= {actual},
    )
