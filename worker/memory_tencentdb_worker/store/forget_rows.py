"""Deleting messages and atoms with every row that hangs on them, and putting right what counted on them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import apsw

from memory_tencentdb_worker.store import tombstones
from memory_tencentdb_worker.store.connection import select
from memory_tencentdb_worker.store.forget_plan import ForgetPlan
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.store.tombstones import Tombstones
from memory_tencentdb_worker.store.vectors import drop_vector, enqueue


def place_stones(connection: apsw.Connection, plan: ForgetPlan, stones: Tombstones, now: int) -> None:
    """Before the rows go: a turn is marked by its id only when all of it goes."""
    rows = select(
        connection,
        "select session_key, turn_id, role, text from messages where seq in (select value from json_each(?))",
        (_listed(plan.messages),),
    )
    marks = [stones.text(session, role, text) for session, _, role, text in rows]
    tombstones.place(connection, plan.scope, tombstones.TEXT, marks, now)
    whole = select(
        connection,
        "select session_key, turn_id from messages where (scope, session_key, turn_id) in (select scope, session_key,"
        "  turn_id from messages where seq in (select value from json_each(:gone)))"
        " group by scope, session_key, turn_id having min(seq in (select value from json_each(:gone))) = 1",
        {"gone": _listed(plan.messages)},
    )
    tombstones.place(connection, plan.scope, tombstones.TURN, [stones.turn(*row) for row in whole], now)
    facts = select(
        connection, "select content from atoms where seq in (select value from json_each(?))", (_listed(plan.atoms),)
    )
    tombstones.place(connection, plan.scope, tombstones.FACT, [stones.fact(row[0]) for row in facts], now)


def delete_rows(connection: apsw.Connection, plan: ForgetPlan, space: int | None) -> None:
    """Everything that is keyed by these rows. What was superseded by a deleted atom alone holds again."""
    atoms, messages = _listed(plan.atoms), _listed(plan.messages)
    _revive(connection, plan, space)
    for layer, seqs in (("L1", plan.atoms), ("L0", plan.messages)):
        for seq in seqs:
            drop_vector(connection, layer, seq)
    connection.execute("delete from atoms_fts where rowid in (select value from json_each(?))", (atoms,))
    connection.execute("delete from messages_fts where rowid in (select value from json_each(?))", (messages,))
    connection.execute("delete from atom_sources where atom in (select value from json_each(?))", (atoms,))
    connection.execute("delete from atom_sources where message in (select value from json_each(?))", (messages,))
    connection.execute("delete from atoms where seq in (select value from json_each(?))", (atoms,))
    connection.execute("delete from message_places where seq in (select value from json_each(?))", (messages,))
    connection.execute("delete from messages where seq in (select value from json_each(?))", (messages,))
    _settle_sessions(connection, plan.scope)
    clear_remarks(connection, plan.scope)
    count_change(connection, plan.scope, "message_changes")
    count_change(connection, plan.scope, "atom_changes")


def revoke_leases(connection: apsw.Connection, scope: str, now: int) -> None:
    """A run that has read what is forgotten now must not write it down again."""
    connection.execute(
        "update jobs set leased_until = null, lease_owner = null, lease_token = lease_token + 1,"
        " due_at = min(coalesce(due_at, :now), :now) where leased_until is not null and scope = :scope",
        {"now": now, "scope": scope},
    )


def texts_of(connection: apsw.Connection, plan: ForgetPlan) -> list[str]:
    """What has to be gone afterwards, word for word."""
    rows = select(
        connection,
        "select text from messages where seq in (select value from json_each(:messages)) union"
        " select content from atoms where seq in (select value from json_each(:atoms))",
        {"messages": _listed(plan.messages), "atoms": _listed(plan.atoms)},
    )
    return [str(row[0]) for row in rows]


def ids_of(connection: apsw.Connection, plan: ForgetPlan) -> set[str]:
    rows = select(
        connection,
        "select id from messages where seq in (select value from json_each(:messages)) union"
        " select id from atoms where seq in (select value from json_each(:atoms))",
        {"messages": _listed(plan.messages), "atoms": _listed(plan.atoms)},
    )
    return {str(row[0]) for row in rows}


def said_elsewhere(connection: apsw.Connection, text: str) -> bool:
    """Whether the text stands in something that was not forgotten."""
    found = select(
        connection,
        "select 1 from messages where instr(text, :text) > 0 union all"
        " select 1 from atoms where instr(content, :text) > 0 or instr(scene_name, :text) > 0 union all"
        " select 1 from scene_revisions where instr(sections, :text) > 0 or instr(summary, :text) > 0 union all"
        " select 1 from persona_revisions where instr(sections, :text) > 0 limit 1",
        {"text": text},
    )
    return bool(found)


def _revive(connection: apsw.Connection, plan: ForgetPlan, space: int | None) -> None:
    atoms = _listed(plan.atoms)
    rows = select(
        connection,
        "update atoms set superseded_at = null, superseded_by = null, valid_to = null, end_said_at = null"
        " where superseded_by in (select id from atoms where seq in (select value from json_each(:atoms)))"
        " and seq not in (select value from json_each(:atoms)) returning seq, scope, session_key",
        {"atoms": atoms},
    )
    for seq, scope, session_key in rows:
        enqueue(connection, space, "L1", seq)
        connection.execute(  # scenes have dropped it: they read it again
            "update sessions set l2_cursor = min(l2_cursor, ? - 1) where scope = ? and session_key = ?",
            (seq, scope, session_key),
        )


def _settle_sessions(connection: apsw.Connection, scope: str) -> None:
    """Cursors and newest rows as if the forgotten ones had never come; sessions without anything go."""
    bound = {"scope": scope}
    connection.execute(
        "delete from turns where scope = :scope and not exists (select 1 from messages m where m.scope = turns.scope"
        " and m.session_key = turns.session_key and m.turn_id = turns.turn_id)",
        bound,
    )
    connection.execute(
        "update turns set last_seq = (select max(m.seq) from messages m where m.scope = turns.scope"
        " and m.session_key = turns.session_key and m.turn_id = turns.turn_id) where scope = :scope",
        bound,
    )
    connection.execute(
        "update sessions set last_scene_name = '', last_seq = coalesce((select max(m.seq) from messages m"
        "  where m.scope = sessions.scope and m.session_key = sessions.session_key), 0),"
        " last_atom_seq = coalesce((select max(a.seq) from atoms a"
        "  where a.scope = sessions.scope and a.session_key = sessions.session_key), 0) where scope = :scope",
        bound,
    )
    connection.execute("delete from sessions where scope = :scope and last_seq = 0 and last_atom_seq = 0", bound)
    gone = "not exists (select 1 from sessions s where s.scope = {0}.scope and s.session_key = {0}.session_key)"
    connection.execute(f"delete from threads where scope = :scope and {gone.format('threads')}", bound)
    connection.execute(
        f"delete from jobs where scope = :scope and kind in ('l1', 'l2') and {gone.format('jobs')}", bound
    )
    for table in ("parked", "rule_read"):
        of_messages = "kind = 'l1' and" if table == "parked" else ""
        connection.execute(
            f"delete from {table} where {of_messages} scope = :scope and not exists (select 1 from messages m"
            f" where m.scope = {table}.scope and m.session_key = {table}.session_key"
            f" and m.seq between {table}.from_seq and {table}.to_seq)",
            bound,
        )


def clear_remarks(connection: apsw.Connection, scope: str) -> None:
    """Raw answers and error texts may quote: their codes say enough."""
    bound = {"scope": scope}
    connection.execute(
        "update parked set detail = '', reason = substr(reason, 1, instr(reason || ':', ':') - 1) where scope = :scope",
        bound,
    )
    connection.execute(
        "update jobs set last_error = 'removed by a forgetting' where last_error is not null and scope in (:scope, '')",
        bound,
    )
    connection.execute("update calls set error = '' where error <> '' and scope in (:scope, '')", bound)
    connection.execute("update embeddings set error = '' where error <> ''")
    connection.execute(
        "delete from forget_wishes where scope = :scope and not exists (select 1 from messages m where m.id = message)",
        bound,
    )


def _listed(seqs: Iterable[int]) -> str:
    return json.dumps(sorted(seqs))
