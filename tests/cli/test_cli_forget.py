"""`forget`, `edit`, `undo`, `pause` from the command line: what they print and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from command_line import CommandLine


def document(home: CommandLine, *words: str) -> tuple[int, dict[str, Any]]:
    ran = home.at_home(*words, "--json")
    return ran.code, ran.document


@pytest.fixture
def told(cli: CommandLine) -> CommandLine:
    said = ("--user", "I keep bees in Aveiro.", "--assistant", "Nice.")
    assert cli.at_home("capture", "--session", "cf", *said, "--user-id", "cf").code == 0
    return cli


def test_forget_shows_a_plan_first_and_ends_with_2_when_nothing_matches(told: CommandLine) -> None:
    code, plan = document(told, "forget", "--matching", "Aveiro", "--user-id", "cf")
    assert (code, plan["dry_run"], plan["plan"]["messages"]) == (0, True, 2)
    assert "--yes" in told.at_home("forget", "--matching", "Aveiro", "--user-id", "cf").err
    code, done = document(told, "forget", "--matching", "Aveiro", "--user-id", "cf", "--yes")
    assert (code, done["dry_run"], done["proof"]["hits"]) == (0, False, 0)
    code, problem = document(told, "forget", "--matching", "Aveiro", "--user-id", "cf", "--yes")
    assert (code, problem["code"]) == (2, "not_found")
    assert told.at_home("forget", "--yes").code == 1
    assert document(told, "undo", "--user-id", "cf")[0] == 2
    assert document(told, "audit", "--user-id", "cf")[1]["changes"][0]["action"] == "forget"


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_blank_session_is_refused_and_does_not_mean_all(told: CommandLine, command: str) -> None:
    result = told.at_home(command, "--session", "")
    assert result.code == 1
    assert "--session" in result.err
    assert document(told, "status")[1]["owner"]["pauses"] == []


def test_a_pause_shows_in_status_until_it_ends(told: CommandLine) -> None:
    assert "until `resume`" in told.at_home("pause").out
    assert document(told, "status")[1]["owner"]["pauses"][0]["until"] is None
    assert document(told, "capture", "--session", "cf", "--user", "x y z", "--assistant", "a")[1]["l0_recorded"] == 0
    assert told.at_home("resume").code == 0
    assert document(told, "status")[1]["owner"]["pauses"] == []


def test_a_fact_that_undo_restored_goes_with_the_one_it_repeats(cli: CommandLine) -> None:
    said = ("--user", "My cat is called Zorbula.", "--assistant", "Nice.", "--user-id", "cu")
    assert cli.at_home("capture", "--session", "cu", *said).code == 0
    assert cli.at_home("flush", "--wait", "20").code == 0
    first = document(cli, "search", "memories", "Zorbula", "--user-id", "cu")[1]["items"][0]["id"]
    assert cli.at_home("edit", first, "--content", "The user's cat is called Mumbo.", "--user-id", "cu").code == 0
    assert cli.at_home("undo", "--user-id", "cu").code == 0
    code, done = document(cli, "forget", "--id", first, "--user-id", "cu", "--yes")
    assert (code, done["proof"]["hits"]) == (0, 0)
    assert document(cli, "search", "memories", "Zorbula", "--user-id", "cu")[1]["items"] == []
