"""The ledger of model calls: what each one was for, what it took, how it ended."""

from __future__ import annotations

import apsw

from memory_tencentdb_worker.models import CallTotals, ModelCall
from memory_tencentdb_worker.store.connection import first_row, first_value

ERROR_LIMIT_CHARS = 500


def write_call(connection: apsw.Connection, call: ModelCall) -> None:
    connection.execute(
        "insert into calls(at, task, scope, model, tokens_in, tokens_out, cost_usd, elapsed_ms, outcome, error)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        ),
    )


def total_calls(connection: apsw.Connection, since: int) -> CallTotals:
    row = first_row(
        connection,
        "select count(*), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(cost_usd), 0.0)"
        " from calls where at >= ?",
        (since,),
    )
    assert row is not None
    return CallTotals(calls=row[0], tokens_in=row[1], tokens_out=row[2], cost_usd=float(row[3]))


def host_model_used(connection: apsw.Connection) -> bool:
    return bool(first_value(connection, "select value from meta where key = 'host_model_used'"))


def set_host_model_used(connection: apsw.Connection, used: bool) -> None:
    connection.execute("insert or replace into meta(key, value) values ('host_model_used', ?)", (int(used),))
