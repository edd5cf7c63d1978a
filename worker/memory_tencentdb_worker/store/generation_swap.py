"""The change from one generation to another: the derived rows of a scope replaced in one transaction.

What a person or the host's own memory put in stays, whichever generation it was put into. Nothing comes back that rests
on a message which is gone: its session is read again from there instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import apsw

from memory_tencentdb_worker.models import Line, Section
from memory_tencentdb_worker.store import pending
from memory_tencentdb_worker.store.connection import Row, first_row, first_value, select
from memory_tencentdb_worker.store.generation_rows import (
    HAND_MADE,
    HAND_ONLY_SESSION,
    IN_SCOPE,
    columns,
    insert_rows,
    scoped,
)
from memory_tencentdb_worker.store.generation_shadow import HAND_CHAIN, add_lines, add_terms, read_lines
from memory_tencentdb_worker.store.rows import read_sections, write_sections
from memory_tencentdb_worker.store.sessions import count_change
from memory_tencentdb_worker.store.tombstones import FACT, Tombstones
from memory_tencentdb_worker.store.vectors import drop_vector, enqueue
from memory_tencentdb_worker.text.ids import text_hash
from memory_tencentdb_worker.text.segment import fold

_PLAIN = ("parked", "rule_read")
_CURSORS = ("l1_cursor", "l1_runs", "l2_cursor", "last_scene_name", "last_l2_at")
_END = ("superseded_at", "superseded_by", "valid_to", "end_said_at")
_MARKS = ("scenes_processed", "persona_request", "persona_atom_mark", "persona_scene_mark")


@dataclass(frozen=True)
class _Hand:
    """Hand-made atoms in use and what they replaced, with their sources, by id."""

    atoms: Mapping[str, Row]
    sources: Mapping[str, list[Row]]  # (message, hash)
    makers: frozenset[str]  # the hand-made ones


def replace_derived(
    live: apsw.Connection,
    source: apsw.Connection,
    scope: str | None,
    space: int | None,
    terms: Mapping[str, str],
    stones: Tombstones,
    now: int,
) -> dict[str, list[int]]:
    """Puts the source's derived rows in the place of those in use, inside the caller's transaction. `terms` holds the
    index texts of the source's atoms, by content. Returns the numbers of the atoms that are gone, by scope."""
    hand = _hand_made(live, scope)
    lines = {name: read_lines(live, name) for name in _scopes(live, scope)}
    gone = _clear(live, scope)
    lost = _insert_atoms(live, source, scope, terms, stones)
    _insert_documents(live, source, scope, lost)
    for table in _PLAIN:
        names = ", ".join(name for name in columns(live, table) if name != "id")
        rows = select(source, f"select {names} from {table} where {scoped(table)}", {"scope": scope})
        insert_rows(live, table, names, rows)
    _set_cursors(live, source, scope)
    _keep_hand_made(live, hand)
    _read_again(live, lost)
    for name, written in lines.items():
        _set_marks(live, source, name)
        add_lines(live, name, written)
    _reset_jobs(live, scope)
    for (seq,) in select(live, f"select seq from atoms where superseded_at is null and {IN_SCOPE}", {"scope": scope}):
        enqueue(live, space, "L1", seq)
    pending.request_all(live, now, scope=scope, session_key=None, expedite=False, parked=False, space=space)
    return gone


def _hand_made(live: apsw.Connection, scope: str | None) -> _Hand:
    bound = {"scope": scope}
    rows = select(
        live,
        f"{HAND_CHAIN} select {', '.join(columns(live, 'atoms'))} from atoms where id in (select id from chain)",
        bound,
    )
    place = columns(live, "atoms").index("id")
    sources: dict[str, list[Row]] = {}
    for atom_id, message, digest in select(
        live,
        f"{HAND_CHAIN} select a.id, x.message, x.hash from atoms a join atom_sources x on x.atom = a.seq"
        " where a.id in (select id from chain)",
        bound,
    ):
        sources.setdefault(str(atom_id), []).append((message, digest))
    makers = select(live, f"select a.id from atoms a where {HAND_MADE} and (:scope is null or a.scope = :scope)", bound)
    return _Hand({str(row[place]): row for row in rows}, sources, frozenset(str(row[0]) for row in makers))


def _clear(live: apsw.Connection, scope: str | None) -> dict[str, list[int]]:
    bound = {"scope": scope}
    gone: dict[str, list[int]] = {}
    for owner, seq in select(live, f"select scope, seq from atoms where {IN_SCOPE}", bound):
        gone.setdefault(str(owner), []).append(int(seq))
        drop_vector(live, "L1", seq)
        live.execute("delete from atoms_fts where rowid = ?", (seq,))
    for table in ("atom_sources", "atoms", "scene_revisions", "persona_revisions", *_PLAIN):
        live.execute(f"delete from {table} where {scoped(table)}", bound)
    return gone


def _insert_atoms(
    live: apsw.Connection, source: apsw.Connection, scope: str | None, terms: Mapping[str, str], stones: Tombstones
) -> dict[str, list[int]]:
    """Returns the atoms that are not taken over, because a message of theirs is gone or changed or they were forgotten,
    with the messages that are to be read again."""
    names = ", ".join(columns(live, "atoms"))
    rows = select(source, f"select {names} from atoms where {IN_SCOPE} order by seq", {"scope": scope})
    sources = select(
        source, f"select atom, message, hash from atom_sources where {scoped('atom_sources')}", {"scope": scope}
    )
    known = {row[0]: dict(zip(columns(live, "atoms"), row, strict=True)) for row in rows}
    there = {row: _there(live, row[1], row[2]) for row in sources}
    bad = {int(row[0]) for row, ok in there.items() if not ok}
    told = known if first_value(live, "select 1 from tombstones where kind = ? limit 1", (FACT,)) else {}
    forgotten = {seq for seq, atom in told.items() if _is_forgotten(live, stones, atom, sources)}
    taken = [row for row in rows if row[0] not in bad | forgotten]
    insert_rows(live, "atoms", names, taken)
    add_terms(live, taken, names, terms)
    insert_rows(live, "atom_sources", "atom, message, hash", [row for row in sources if row[0] not in bad | forgotten])
    lost: dict[str, list[int]] = {str(known[seq]["id"]): [] for seq in bad | forgotten}
    for (atom, message, _), ok in there.items():
        if ok and int(atom) in bad - forgotten:
            lost[str(known[int(atom)]["id"])].append(int(message))
    return lost


def _is_forgotten(
    live: apsw.Connection, stones: Tombstones, atom: Mapping[str, object], sources: Sequence[Row]
) -> bool:
    """Said before it was forgotten, and not since."""
    at = first_value(
        live,
        "select at from tombstones where scope = ? and kind = ? and mark = ?",
        (str(atom["scope"]), FACT, stones.fact(str(atom["content"]))),
    )
    if at is None:
        return False
    messages = [message for seq, message, _ in sources if seq == atom["seq"]]
    later = first_value(
        live,
        "select 1 from messages where seq in (select value from json_each(?)) and sent_at > ? limit 1",
        (json.dumps(messages), at),
    )
    return later is None


def _there(live: apsw.Connection, message: int, digest: str) -> bool:
    return bool(first_value(live, "select hash = ? from messages where seq = ?", (digest, message)))


def _insert_documents(live: apsw.Connection, source: apsw.Connection, scope: str | None, lost: Collection[str]) -> None:
    for table in ("scene_revisions", "persona_revisions"):
        names = columns(live, table)
        rows = select(source, f"select {', '.join(names)} from {table} where {IN_SCOPE} order by seq", {"scope": scope})
        if lost:
            rows = [without_lost(dict(zip(names, row, strict=True)), lost) for row in rows]
        insert_rows(live, table, ", ".join(names), rows)


def without_lost(row: dict[str, object], lost: Collection[str]) -> Row:
    """A revision without the lines that rest on atoms that are gone; then its summary is one of the lines that stay."""
    sections = read_sections(str(row["sections"]))
    kept = tuple(
        Section(each.heading, lines)
        for each in sections
        if (lines := tuple(line for line in each.lines if not _rests_on(line, lost)))
    )
    if kept != sections:
        row["sections"] = write_sections(kept)
        if "summary" in row:
            row["summary"] = kept[0].lines[0].text if kept else ""
        row["hash"] = text_hash("\n".join(str(row[name]) for name in ("summary", "sections") if name in row))
    return tuple(row.values())


def _rests_on(line: Line, lost: Collection[str]) -> bool:
    return any(source in lost for source in line.sources)


def _keep_hand_made(live: apsw.Connection, hand: _Hand) -> None:
    """Adds what the source does not know of them, with a new number so that scenes take it in, and ends what a person
    has ended. What says the same as something that a person has replaced is replaced as well."""
    names = columns(live, "atoms")
    rest = ", ".join(name for name in names if name != "seq")
    for atom_id, row in hand.atoms.items():
        values = dict(zip(names, row, strict=True))
        if first_row(live, "select 1 from atoms where id = ?", (atom_id,)) is None:
            _insert_kept(live, values, rest, hand.sources.get(atom_id, []))
        elif values["superseded_at"] is not None and values["superseded_by"] in (None, *hand.makers):
            live.execute(
                f"update atoms set {', '.join(f'{name} = ?' for name in _END)} where id = ?",
                (*(values[name] for name in _END), atom_id),
            )
        if values["superseded_by"] in hand.makers:
            _replace_alike(live, values, hand.makers)


def _insert_kept(live: apsw.Connection, values: dict[str, object], rest: str, sources: Sequence[Row]) -> None:
    marks = ", ".join(f":{name.strip()}" for name in rest.split(","))
    seq = first_value(live, f"insert into atoms({rest}) values ({marks}) returning seq", values)
    live.executemany("insert into atom_sources(atom, message, hash) values (?, ?, ?)", [(seq, *one) for one in sources])
    add_terms(live, [(seq, values["content"])], "seq, content", {})
    live.execute(
        "update sessions set last_atom_seq = max(last_atom_seq, ?) where scope = ? and session_key = ?",
        (seq, values["scope"], values["session_key"]),
    )


def _replace_alike(live: apsw.Connection, replaced: Mapping[str, object], makers: Collection[str]) -> None:
    wanted = fold(str(replaced["content"]))
    for seq, atom_id, content in select(
        live, "select seq, id, content from atoms where scope = ? and superseded_at is null", (replaced["scope"],)
    ):
        if atom_id not in makers and fold(str(content)) == wanted:
            live.execute(
                f"update atoms set {', '.join(f'{name} = ?' for name in _END)} where seq = ?",
                (*(replaced[name] for name in _END), seq),
            )


def _set_cursors(live: apsw.Connection, source: apsw.Connection, scope: str | None) -> None:
    """A session that the source does not know is unread; one that holds only what was put in by hand stays read."""
    bound = {"scope": scope}
    live.execute(
        "update sessions as s set l1_runs = 0, l2_cursor = 0, last_scene_name = '', last_l2_at = null,"
        f" l1_cursor = case when {HAND_ONLY_SESSION} then l1_cursor else 0 end where {IN_SCOPE}",
        bound,
    )
    sets = ", ".join(f"{name} = ?" for name in _CURSORS if name != "l1_cursor")
    for row in select(
        source, f"select scope, session_key, {', '.join(_CURSORS)} from sessions where {IN_SCOPE}", bound
    ):
        owner, session_key, l1_cursor, *values = row
        live.execute(
            f"update sessions set l1_cursor = max(l1_cursor, ?), {sets} where scope = ? and session_key = ?",
            (l1_cursor, *values, owner, session_key),
        )
    live.execute(
        "update sessions as s set last_atom_seq = coalesce((select max(seq) from atoms a where a.scope = s.scope"
        f" and a.session_key = s.session_key), 0) where {IN_SCOPE}",
        bound,
    )


def _read_again(live: apsw.Connection, lost: Mapping[str, list[int]]) -> None:
    """What is left of the messages of an atom that is gone says the rest once more."""
    for messages in lost.values():
        for message in messages:
            live.execute(
                "update sessions as s set l1_cursor = min(l1_cursor, m.seq - 1) from messages m"
                " where m.seq = ? and s.scope = m.scope and s.session_key = m.session_key",
                (message,),
            )


def _set_marks(live: apsw.Connection, source: apsw.Connection, scope: str) -> None:
    values = first_row(source, f"select {', '.join(_MARKS)} from scope_state where scope = ?", (scope,)) or (
        0,
        "",
        0,
        0,
    )
    sets = ", ".join(f"{name} = ?" for name in _MARKS)
    live.execute(f"update scope_state set {sets} where scope = ?", (*values, scope))
    for counter in ("atom_changes", "scene_changes", "persona_changes"):
        count_change(live, scope, counter)


def _reset_jobs(live: apsw.Connection, scope: str | None) -> None:
    """Whoever holds a lease has worked on rows that are gone: it is lost."""
    live.execute(
        "update jobs set leased_until = null, lease_owner = null, lease_token = lease_token + 1, due_at = null,"
        " attempts = 0, last_error = null, expedite = 0, requested = 0, parked_mark = null, atom_mark = 0,"
        f" scene_mark = 0, persona_mark = 0 where kind in ('l1', 'l2', 'l3') and {IN_SCOPE}",
        {"scope": scope},
    )


def _scopes(live: apsw.Connection, scope: str | None) -> list[str]:
    return [str(row[0]) for row in select(live, f"select scope from scope_state where {IN_SCOPE}", {"scope": scope})]
