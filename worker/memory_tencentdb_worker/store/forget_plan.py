"""What a forgetting takes with it: from what a person named to every message and atom that has to go.

A question and its answer go together. An atom goes with a message that it was drawn from; a message that only confirmed
it, or that a predecessor handed on, is taken from under it and the atom stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.models import Role
from memory_tencentdb_worker.store.connection import Row, select

Seqs = frozenset[int]


@dataclass(frozen=True)
class Selection:
    """What a person named: exactly one of the fields. `scope` None looks everywhere, which only an id may."""

    scope: str | None
    ids: tuple[str, ...] = ()
    session: str = ""
    matching: str = ""
    before: int | None = None

    @property
    def kind(self) -> str:
        named = (("id", self.ids), ("session", self.session), ("matching", self.matching))
        return next((name for name, value in named if value), "before")


@dataclass(frozen=True)
class ForgetPlan:
    """Row numbers, by scope one: a forgetting never crosses users."""

    scope: str
    messages: Seqs
    atoms: Seqs

    @property
    def empty(self) -> bool:
        return not self.messages and not self.atoms


def make_plan(connection: apsw.Connection, wanted: Selection) -> ForgetPlan | None:
    """None: nothing is known under that name."""
    scope = wanted.scope if wanted.scope is not None else _scope_of(connection, wanted.ids)
    if scope is None:
        return None
    messages, atoms = _named(connection, scope, wanted)
    messages |= _sources(connection, atoms)
    if wanted.before is None:  # a date draws its line between a question and its answer if it has to
        messages = _exchanges(connection, messages)
    atoms |= _drawn_from(connection, messages, atoms)
    restored = _restored(connection, atoms)
    if restored:
        messages |= _exchanges(connection, _sources(connection, restored))
        atoms |= restored | _drawn_from(connection, messages, atoms | restored)
    plan = ForgetPlan(scope, frozenset(messages), frozenset(atoms))
    return None if plan.empty else plan


def _named(connection: apsw.Connection, scope: str, wanted: Selection) -> tuple[set[int], set[int]]:
    if wanted.ids:
        return _by_id(connection, scope, wanted.ids)
    bound = {"scope": scope, "session": wanted.session, "text": wanted.matching, "before": wanted.before}
    if wanted.session:
        return _seqs(connection, "messages where scope = :scope and session_key = :session", bound), set()
    if wanted.matching:
        found = _seqs(connection, "messages where scope = :scope and instr(text, :text) > 0", bound)
        said = "atoms where scope = :scope and (instr(content, :text) > 0 or instr(scene_name, :text) > 0)"
        return found, _seqs(connection, said, bound)
    return _seqs(connection, "messages where scope = :scope and sent_at < :before", bound), set()


def _by_id(connection: apsw.Connection, scope: str, ids: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """Messages, turns, and atoms with every version before them."""
    bound: dict[str, str | int | None] = {"scope": scope, "ids": json.dumps(ids)}
    these = "(select value from json_each(:ids))"
    messages = _seqs(connection, f"messages where scope = :scope and (id in {these} or turn_id in {these})", bound)
    atoms = _seqs(
        connection,
        "atoms where scope = :scope and id in (with recursive line(id) as (select value from json_each(:ids) union"
        "  select a.id from atoms a join line on a.superseded_by = line.id) select id from line)",
        bound,
    )
    return messages, atoms


def _sources(connection: apsw.Connection, atoms: Iterable[int]) -> set[int]:
    rows = select(
        connection,
        "select distinct message from atom_sources where atom in (select value from json_each(?))",
        (_listed(atoms),),
    )
    return {int(row[0]) for row in rows}


def _exchanges(connection: apsw.Connection, messages: set[int]) -> set[int]:
    """With each message its question and the answers to it, inside one turn."""
    rows = select(
        connection,
        "select m.scope, m.turn_id, m.session_key, m.seq, m.role from messages m where (m.scope, m.turn_id,"
        " m.session_key) in (select scope, turn_id, session_key from messages"
        "  where seq in (select value from json_each(?))) order by m.scope, m.session_key, m.turn_id, m.position",
        (_listed(messages),),
    )
    whole: set[int] = set()
    for exchange in _split(rows):
        if messages.intersection(exchange):
            whole.update(exchange)
    return whole


def _split(rows: Iterable[Row]) -> list[list[int]]:
    exchanges: list[list[int]] = []
    before: tuple[object, ...] = ()
    role = ""
    for scope, turn_id, session_key, seq, now_role in rows:
        turn = (scope, turn_id, session_key)
        if turn != before or (now_role == Role.USER and role != Role.USER):
            exchanges.append([])
        exchanges[-1].append(int(seq))
        before, role = turn, now_role
    return exchanges


def _drawn_from(connection: apsw.Connection, messages: set[int], named: set[int]) -> set[int]:
    """Atoms whose words come from one of these messages, and merged ones that hold an atom that goes."""
    drawn: set[int] = set()
    while True:
        gone = named | drawn
        rows = select(
            connection,
            "select distinct a.seq from atoms a join atom_sources x on x.atom = a.seq"
            " join messages m on m.seq = x.message"
            " where x.message in (select value from json_each(:messages)) and m.recorded_at <= a.recorded_from"
            " and (not exists (select 1 from atoms o join atom_sources y on y.atom = o.seq"
            "   where o.superseded_by = a.id and y.message = x.message)"
            "  or exists (select 1 from atoms o where o.superseded_by = a.id and a.valid_from <= o.valid_from"
            "   and o.seq in (select value from json_each(:gone))))"
            " union select a.seq from atoms a where not exists (select 1 from atom_sources x where x.atom = a.seq"
            "  and x.message not in (select value from json_each(:messages)))"
            "  and exists (select 1 from atom_sources x where x.atom = a.seq"
            "   and x.message in (select value from json_each(:messages)))",
            {"messages": _listed(messages), "gone": _listed(gone)},
        )
        found = {int(row[0]) for row in rows}
        if found <= drawn:
            return drawn
        drawn |= found


def _restored(connection: apsw.Connection, atoms: set[int]) -> set[int]:
    """Later versions of these atoms that say the same words again, as `undo` makes them: an edit lies in between, so
    no source tells that they are the same."""
    rows = select(
        connection,
        "with recursive line(first, id) as (select content, superseded_by from atoms"
        "  where seq in (select value from json_each(:atoms)) and superseded_by is not null"
        "  union select line.first, a.superseded_by from line join atoms a on a.id = line.id"
        "   where a.superseded_by is not null)"
        " select distinct a.seq from line join atoms a on a.id = line.id and a.content = line.first",
        {"atoms": _listed(atoms)},
    )
    return {int(row[0]) for row in rows} - atoms


def _scope_of(connection: apsw.Connection, ids: tuple[str, ...]) -> str | None:
    rows = select(
        connection,
        "select scope from messages where id in (select value from json_each(:ids))"
        " or turn_id in (select value from json_each(:ids))"
        " union select scope from atoms where id in (select value from json_each(:ids)) order by 1 limit 1",
        {"ids": json.dumps(ids)},
    )
    return str(rows[0][0]) if rows else None


def _seqs(connection: apsw.Connection, which: str, bound: dict[str, str | int | None]) -> set[int]:
    return {int(row[0]) for row in select(connection, f"select seq from {which}", bound)}


def _listed(seqs: Iterable[int]) -> str:
    return json.dumps(sorted(seqs))
