"""Questions about the past, and the versions of scenes and persona, from the command line."""

from __future__ import annotations

import json
from datetime import UTC

import pytest

from command_line import CommandLine
from memory_tencentdb_worker.text.times import parse_instant
from processes import WorkerProcess

WHO = ("--user-id", "past")
HOMES = (("Oslo", "2025-03-01"), ("Rome", "2025-06-01"), ("Lima", "2025-09-01"))
SPRING, SUMMER = "2025-04-01", "2025-07-01T00:00:00+00:00"


@pytest.fixture(scope="module")
def moved(cli: CommandLine) -> CommandLine:
    """Somebody who moved twice, told in three conversations with a flush after each."""
    for number, (city, day) in enumerate(HOMES):
        words = ["capture", "--session", "moves", "--user", f"I live in {city}.", "--assistant", "Noted."]
        assert cli.at_home(*words, "--at", f"{day}T12:00:00Z", "--turn-id", f"past-{number}", *WHO).code == 0
        assert cli.at_home("flush", "--wait", "40").code == 0
    return cli


@pytest.mark.parametrize(("as_of", "city"), [(SPRING, "Oslo"), (SUMMER, "Rome"), ("2026-01-01", "Lima")])
def test_recall_search_and_inspect_answer_as_of_a_day(moved: CommandLine, as_of: str, city: str) -> None:
    recalled = moved.at_home("recall", "where do I live?", "--session", "now", "--as-of", as_of, "--json", *WHO)
    found = moved.at_home("search", "memories", "live", "--as-of", as_of, "--json", *WHO)
    told = moved.at_home("inspect", "-L", "L3", "--as-of", as_of, "--json", *WHO)
    listed = moved.at_home("inspect", "-L", "L1", "--as-of", as_of, "--json", *WHO)
    scenes = moved.at_home("inspect", "-L", "L2", "--as-of", as_of, "--json", *WHO)
    for ran in (recalled, found, told, listed, scenes):
        assert ran.code == 0, ran.err
        assert [name for name, _ in HOMES if name in ran.out] == [city]
    assert recalled.document["assembled"] is True
    assert (told.document["assembled"], listed.document["assembled"]) == (True, False)


def test_conversations_end_at_the_day_asked_for(moved: CommandLine) -> None:
    ran = moved.at_home("search", "conversations", "live", "--as-of", SUMMER, "--json", *WHO)
    assert [name for name, _ in HOMES if name in ran.out] == ["Oslo", "Rome"]


@pytest.mark.parametrize("words", [("recall", "q", "--session", "s"), ("search", "memories", "q")])
def test_an_instant_that_is_none_is_wrong_use_and_names_the_field(moved: CommandLine, words: tuple[str, ...]) -> None:
    ran = moved.at_home(*words, "--as-of", "last spring")
    assert ran.code == 1
    assert "as_of" in ran.err
    assert "last spring" in ran.err


def test_the_route_names_the_field_that_it_cannot_use(moved: CommandLine) -> None:
    worker = WorkerProcess(moved.home)
    with worker.client() as client:
        for route in ("/recall", "/search/memories", "/search/conversations"):
            answer = client.post(route, json={"query": "q", "session_key": "s", "as_of": "soon"})
            assert answer.status_code == 422
            assert answer.json()["fields"][0]["field"] == "as_of"
        instant = parse_instant(SUMMER, UTC)
        body = {"query": "live", "user_id": "past", "as_of": instant}
        assert "Rome" in client.post("/search/memories", json=body).json()["results"]


def test_versions_are_listed_compared_and_put_back(moved: CommandLine) -> None:
    name = json.loads(moved.at_home("inspect", "-L", "L2", "--json", *WHO).out)["data"][0]["id"]
    versions = moved.at_home("history", name, "--json", *WHO).document["revisions"]
    assert [one["revision"] for one in versions] == [3, 2, 1]
    assert moved.at_home("diff", name, "--from", "1", "--to", "3", "--json", *WHO).document["added"] == [
        "summary: The user lives in Lima.",
        "- The user lives in Lima.",
    ]
    refused = moved.at_home("rollback", name, "--to", "1", "--yes", *WHO)
    assert (refused.code, "holds any longer" in refused.err) == (1, True)
    assert moved.at_home("rollback", name, "--to", "9", *WHO).code == 2
    assert moved.at_home("history", "no-such-scene", *WHO).code == 2


def test_putting_back_is_a_dry_run_without_yes_and_leaves_out_what_holds_no_longer(moved: CommandLine) -> None:
    who = ("--user-id", "rollback")
    for number, text in enumerate(("I live in Oslo. I have a dog called Rex.", "I live in Rome.")):
        words = ["capture", "--session", "r", "--user", text, "--assistant", "Noted.", "--turn-id", f"rb-{number}"]
        assert moved.at_home(*words, *who).code == 0
        assert moved.at_home("flush", "--wait", "40").code == 0
    shown = moved.at_home("history", "persona", *who)
    assert (shown.code, "revision" in shown.out) == (0, True)
    plan = moved.at_home("rollback", "persona", "--to", "1", "--json", *who).document
    assert (plan["dry_run"], plan["left_out"]) == (True, ["The user lives in Oslo."])
    assert plan["removed"] == ["- The user lives in Rome."]
    before = moved.at_home("history", "persona", "--json", *who).document
    done = moved.at_home("rollback", "persona", "--to", "1", "--yes", "--json", *who).document
    after = moved.at_home("history", "persona", "--json", *who).document
    assert len(after["revisions"]) == len(before["revisions"]) + 1
    assert after["revisions"][0]["revision"] == done["to"]
    assert after["revisions"][0]["reason"] == "put back revision 1"
    persona = moved.at_home("inspect", "-L", "L3", "--json", *who).out
    assert "Rex" in persona
    assert "Rome" not in persona
