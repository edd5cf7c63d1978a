"""`replay` and `calls` from the command line, against a worker without a model: rules read everything again."""

from __future__ import annotations

import time

from command_line import CommandLine

PATIENCE_SECONDS = 20


def wait_until_ready(cli: CommandLine) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while cli.at_home("replay", "status", "--json").document["shadow"]["state"] != "ready":
        assert time.monotonic() < until, "the replay has no end"


def test_replay_is_planned_made_looked_at_used_and_taken_back(cli: CommandLine) -> None:
    assert cli.at_home("capture", "--session", "replay", "--user", "I live in Porto.", "--assistant", "ok").code == 0
    assert cli.at_home("flush", "--wait", "40").code == 0
    plan = cli.at_home("replay", "--dry-run", "--json").document
    assert (plan["model"], plan["calls"], plan["messages"] >= 2) == ("rules", 0, True)
    refused = cli.at_home("replay", "--json")  # nobody said --yes
    assert (refused.code, refused.document["code"]) == (2, "not_confirmed")
    assert cli.at_home("replay", "switch").code == 2
    begun = cli.at_home("replay", "--yes", "--json")
    assert (begun.code, begun.document["state"]) == (0, "building")
    wait_until_ready(cli)
    assert "0 changed, 0 only in use now, 0 only new" in cli.at_home("replay", "diff").out
    assert "for `replay rollback`" in cli.at_home("replay", "switch").out
    assert "kept for rollback" in cli.at_home("replay", "status").out
    assert cli.at_home("replay", "rollback").code == 0


def test_calls_shows_a_table_of_what_models_have_cost(cli: CommandLine) -> None:
    ran = cli.at_home("calls", "--by", "day", "--json")
    assert (ran.code, ran.document["by"], ran.document["total"]["calls"]) == (0, "day", 0)
    assert "tokens in" in cli.at_home("calls").out
    assert cli.at_home("calls", "--since", "soon").code == 1
