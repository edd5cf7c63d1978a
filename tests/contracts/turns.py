"""Short ways to say what a test writes: turns, atoms, scenes, personas, and plans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from memory_tencentdb_worker.models import (
    Atom,
    AtomChanges,
    AtomType,
    Due,
    JobKind,
    L1Batch,
    Lease,
    Line,
    Message,
    NewAtom,
    NewMessage,
    NewTurn,
    Origin,
    Persona,
    Role,
    Scene,
    SceneChange,
    ScopeState,
    Section,
    SessionState,
    Source,
)
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.ids import atom_id

NOW = 1_800_000_000_000
HOUR = 3_600_000
LEASE_MS = 300_000

_numbers = count(1)


def idle_plan(state: SessionState) -> Sequence[Due]:
    """Nothing is ever due by itself."""
    return ()


def no_scope_plan(state: ScopeState) -> Sequence[Due]:
    return ()


def each_turn(now: int = NOW) -> object:
    """L1 is due as soon as a turn is unread, L2 as soon as an atom is."""

    def plan(state: SessionState) -> Sequence[Due]:
        return (
            Due(JobKind.L1, now if state.pending_turns else None),
            Due(JobKind.L2, now if state.pending_atoms else None),
        )

    return plan


def turn(
    user: str = "I moved to Lisbon.",
    assistant: str = "Noted.",
    *,
    turn_id: str = "",
    scope: str = "",
    session: str = "s1",
    session_id: str = "",
    at: int = NOW,
) -> NewTurn:
    messages = []
    if user:
        messages.append(NewMessage(Role.USER, user, at, Origin.USER))
    if assistant:
        messages.append(NewMessage(Role.ASSISTANT, assistant, at, Origin.ASSISTANT))
    name = turn_id or f"t_{next(_numbers)}"
    return NewTurn(scope, name, session, session_id or session, tuple(messages), at, "test")


def add(store: Store, user: str = "I moved to Lisbon.", assistant: str = "Noted.", **rest: object) -> tuple[str, ...]:
    """Writes a turn that nothing follows from; returns its message ids."""
    return store.add_turn(turn(user, assistant, **rest), idle_plan, NOW).message_ids  # type: ignore[arg-type]


def source(message: Message) -> Source:
    return Source(message.id, message.hash)


def atom(
    content: str,
    *messages: Message,
    type: AtomType = AtomType.PERSONA,
    priority: int = 50,
    scene: str = "Home",
    scope: str = "",
    session: str = "s1",
    valid_from: int | None = None,
) -> NewAtom:
    return NewAtom(
        id=atom_id(scope, type, content, [message.id for message in messages]),
        type=type,
        content=content,
        priority=priority,
        scene_name=scene,
        origin=Origin.USER,
        sources=tuple(source(message) for message in messages),
        session_key=session,
        session_id=session,
        valid_from=valid_from,
    )


def remember(
    store: Store, content: str, *, said: str = "", scope: str = "", session: str = "s1", **rest: object
) -> Atom:
    """An atom that rests on a turn of its own."""
    ids = add(store, said or f"By the way: {content}", "", scope=scope, session=session)
    message = store.message(scope, ids[0])
    assert message is not None
    new = atom(content, message, scope=scope, session=session, **rest)  # type: ignore[arg-type]
    return store.add_atoms(scope, AtomChanges(add=(new,), extractor="test"), idle_plan, NOW)[0]


def lease(store: Store, kind: JobKind, now: int = NOW, owner: str = "w1") -> Lease:
    taken = store.lease_job([kind], now, LEASE_MS, owner)
    assert taken is not None
    return taken


def batch(
    store: Store, session: str = "s1", *, scope: str = "", max_messages: int = 20, max_chars: int = 12_000
) -> L1Batch:
    read = store.read_l1_batch(scope, session, max_messages=max_messages, max_chars=max_chars, background=5)
    assert read is not None
    return read


def due(store: Store, kind: JobKind) -> int | None:
    return store.next_due_at([kind])


def scene(
    name: str = "Lisbon",
    *lines: tuple[str, Sequence[str]],
    heat: int = 1,
    scope: str = "",
    summary: str = "Where the user lives",
    op: str = "create",
    absorbed: tuple[str, ...] = (),
) -> SceneChange:
    sections = (Section("Facts", tuple(Line(text, tuple(sources)) for text, sources in lines)),)
    return SceneChange(op, Scene(scope, name, 0, summary, sections, heat, NOW, NOW), absorbed)


def persona(*lines: tuple[str, Sequence[str]], scope: str = "", reason: str = "first", at: int = NOW) -> Persona:
    sections = (Section("Who", tuple(Line(text, tuple(sources)) for text, sources in lines)),)
    return Persona(scope, 0, sections, at, reason)


def run_l2(store: Store, *changes: SceneChange, scope: str = "", session: str = "s1", request: str = "") -> None:
    """One finished scene run over everything that waits in the session."""
    store.make_due(NOW, scope=scope, session_key=session, expedite=False)
    held = lease(store, JobKind.L2)
    atoms = store.read_l2_batch(scope, session, 100)
    store.apply_scenes(held, atoms[-1].seq, changes, request, idle_plan, no_scope_plan, NOW)
