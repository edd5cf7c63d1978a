"""The ledger of model calls: what each one was for, what it took, how it ended."""

from __future__ import annotations

import apsw

from memory_tencentdb_worker.models import EMBEDDING_TASK, CallSum, CallTotals, ModelCall, TextVolume
from memory_tencentdb_worker.store.connection import first_row, first_value, select

ERROR_LIMIT_CHARS = 500


def write_call(connection: apsw.Connection, call: ModelCall) -> None:
    connection.execute(
        "insert into calls(at, task, scope, model, tokens_in, tokens_out, cost_usd, elapsed_ms, outcome, error, texts,"
        " estimated, generation, about_from, about_to) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            call.at,
            call.task,
            call.scope,
            call.model,
            call.tokens_in,
            call.tokens_out,
            float(call.cost_usd),
            call.elapsed_ms,
            call.outcome,
            call.error[:ERROR_LIMIT_CHARS],
            call.texts,
            int(call.estimated),
            call.generation,
            *(call.about or (None, None)),
        ),
    )


def total_calls(
    connection: apsw.Connection, since: int, *, with_embedding: bool = True, generation: str | None = None
) -> CallTotals:
    row = first_row(
        connection,
        "select count(*), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(cost_usd), 0.0)"
        " from calls where at >= :since and (:embedding or task <> :task)"
        " and (:generation is null or generation = :generation)",
        {"since": since, "embedding": int(with_embedding), "task": EMBEDDING_TASK, "generation": generation},
    )
    assert row is not None
    return CallTotals(calls=row[0], tokens_in=row[1], tokens_out=row[2], cost_usd=float(row[3]))


def call_sums(connection: apsw.Connection, since: int, until: int) -> list[CallSum]:
    """Of [since, until), by task and model."""
    rows = select(
        connection,
        "select task, model, count(*), count(*) filter (where outcome <> 'ok'), sum(texts), sum(tokens_in),"
        " sum(tokens_out), sum(cost_usd), sum(elapsed_ms), sum(estimated) from calls where at >= ? and at < ?"
        " group by task, model order by task, model",
        (since, until),
    )
    return [CallSum(*row) for row in rows]


def first_call_at(connection: apsw.Connection) -> int | None:
    value = first_value(connection, "select min(at) from calls")
    return None if value is None else int(value)


def text_volumes(connection: apsw.Connection, scope: str | None) -> list[TextVolume]:
    """By session: what an extraction from the beginning would read."""
    rows = select(
        connection,
        "select session_key, scope, count(*), sum(length(text)), sum(octet_length(text)) from messages"
        " where :scope is null or scope = :scope group by scope, session_key order by scope, session_key",
        {"scope": scope},
    )
    return [TextVolume(*row) for row in rows]


def host_model_used(connection: apsw.Connection) -> bool:
    return bool(first_value(connection, "select value from meta where key = 'host_model_used'"))


def set_host_model_used(connection: apsw.Connection, used: bool) -> None:
    connection.execute("insert or replace into meta(key, value) values ('host_model_used', ?)", (int(used),))
