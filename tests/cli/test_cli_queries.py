"""Every command that asks a running worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from command_line import CommandLine


@pytest.fixture(scope="module")
def known(cli: CommandLine) -> dict[str, str]:
    """One turn, extracted."""
    ran = cli.at_home(
        "capture", "--session", "trip", "--user", "I live in Lisbon and I am allergic to peanuts. 我喜欢喝乌龙茶。",
        "--assistant", "Noted.", "--turn-id", "t-cli-1", "--at", "2026-03-05T10:00:00Z", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.document == {"turn_id": "t-cli-1", "duplicate": False, "l0_recorded": 2}
    ran = cli.at_home("flush", "--wait", "40", "--json")
    assert ran.code == 0, ran.out + ran.err
    assert set(ran.document) == {"idle", "jobs_done", "jobs_parked", "waited_seconds"}
    assert ran.document["idle"] is True
    hits = cli.at_home("search", "conversations", "Lisbon", "--json").document
    return {"message": hits["items"][0]["id"]}


def test_status_of_a_well_worker_exits_0(cli: CommandLine, known: dict[str, str]) -> None:
    ran = cli.at_home("status", "--json")
    assert ran.code == 0, ran.out
    assert ran.document["state"] == "ok"
    assert ran.document["counts"]["turns"] >= 1
    assert len(os.fsencode(ran.document["worker"]["socket"])) < 100
    assert "state      ok" in cli.at_home("status").out


def test_the_worker_is_found_by_its_data_directory_alone(cli: CommandLine, known: dict[str, str]) -> None:
    data_dir = str(cli.home / "data")
    assert cli("status", "--data-dir", data_dir).code == 0
    assert cli("--data-dir", data_dir, "status").code == 0
    assert cli("status", TDAI_DATA_DIR=data_dir).code == 0


def test_a_turn_id_given_twice_is_stored_once(cli: CommandLine, known: dict[str, str]) -> None:
    words = ["capture", "--session", "trip", "--user", "twice", "--assistant", "yes", "--turn-id", "t-cli-2", "--json"]
    assert cli.at_home(*words).document["l0_recorded"] == 2
    assert cli.at_home(*words).document == {"turn_id": "t-cli-2", "duplicate": True, "l0_recorded": 0}


def test_a_time_that_is_none_is_wrong_use(cli: CommandLine, known: dict[str, str]) -> None:
    ran = cli.at_home("capture", "--session", "s", "--user", "a", "--assistant", "b", "--at", "yesterday-ish")
    assert ran.code == 1
    assert "yesterday-ish" in ran.err


def test_recall_prints_the_context_and_its_receipt(cli: CommandLine, known: dict[str, str]) -> None:
    ran = cli.at_home("recall", "where do I live? Lisbon", "--session", "other")
    assert ran.code == 0
    assert "Lisbon" in ran.out
    document = cli.at_home("recall", "Lisbon", "--session", "other", "--max-tokens", "200", "--json").document
    assert document["receipt"]["budget_tokens"] == 200
    assert document["items"]


def test_both_searches_answer_in_both_forms(cli: CommandLine, known: dict[str, str]) -> None:
    document = cli.at_home("search", "memories", "peanuts", "--limit", "3", "--json").document
    assert document["items"], "the offline rules find an allergy"
    assert document["items"][0]["id"] in cli.at_home("search", "memories", "peanuts").out
    assert cli.at_home("search", "memories", "peanuts", "--type", "instruction", "--json").document["items"] == []
    assert "Lisbon" in cli.at_home("search", "conversations", "Lisbon", "--session", "trip").out
    assert cli.at_home("search", "conversations", "?!", "--json").document["items"] == []


def test_why_goes_down_to_the_message_with_its_proof(cli: CommandLine, known: dict[str, str]) -> None:
    atom = cli.at_home("search", "memories", "peanuts", "--json").document["items"][0]["id"]
    for item in (known["message"], atom):
        document = cli.at_home("why", item, "--json").document
        assert set(document) == {"id", "layer", "text", "messages"}
        assert document["messages"][0]["text"].startswith("I live in Lisbon")
        assert document["messages"][0]["hash_ok"] is True
    shown = cli.at_home("why", atom).out
    assert known["message"] in shown
    assert "hash ok" in shown


def test_why_not_names_the_gate(cli: CommandLine, known: dict[str, str]) -> None:
    document = cli.at_home("why-not", known["message"], "peanuts", "--json").document
    assert set(document) == {"id", "layer", "query", "given", "gate", "message"}
    assert (document["layer"], document["gate"]) == ("L0", "said_by_fact")
    assert "not_found: it shares no telling word" in cli.at_home("why-not", known["message"], "glacier").out
    assert cli.at_home("why-not", "m_0000000000000000", "peanuts").code == 2


def test_an_unknown_id_exits_2(cli: CommandLine, known: dict[str, str]) -> None:
    for item in ("m_0000000000000000", "a/b?c d", "../../etc"):
        ran = cli.at_home("why", item, "--json")
        assert (ran.code, ran.document["code"]) == (2, "not_found"), item


def test_inspect_lists_each_layer_in_each_form(cli: CommandLine, known: dict[str, str]) -> None:
    document = cli.at_home(
        "inspect", "-L", "L0", "--format", "json", "-f", "role=user", "--since", "2020-01-01"
    ).document
    assert document["level"] == "L0"
    assert all(row["role"] == "user" for row in document["data"])
    lines = cli.at_home("inspect", "-L", "L1", "--format", "jsonl").out.splitlines()
    assert all(json.loads(line)["id"].startswith("m_") for line in lines)
    assert "乌龙茶" in cli.at_home("inspect", "-L", "L1").out
    for words in ([], ["-L", "L2"], ["-L", "L3"]):
        assert cli.at_home("inspect", *words).code == 0
    assert len(cli.at_home("inspect", "-L", "L0", "-l", "1", "--sort", "asc", "--json").document["data"]) == 1


def test_an_unknown_filter_is_wrong_use(cli: CommandLine, known: dict[str, str]) -> None:
    assert cli.at_home("inspect", "-L", "L0", "-f", "drop table=1").code == 1


def test_a_scene_is_shown_by_its_name(cli: CommandLine, known: dict[str, str]) -> None:
    scenes = cli.at_home("inspect", "-L", "L2", "--json").document["data"]
    assert scenes
    name = scenes[0]["filename"].removesuffix(".md")
    assert cli.at_home("scene", name).out.strip()
    assert cli.at_home("scene", "no-such-scene").code == 2


def test_rebuild_writes_the_files_again(cli: CommandLine, known: dict[str, str]) -> None:
    assert cli.at_home("rebuild", "--json").document["files"] >= 1
    assert list((cli.home / "data" / "conversations").glob("*.jsonl"))


def test_a_second_worker_ends_at_once_without_disturbing_the_first(cli: CommandLine, known: dict[str, str]) -> None:
    pid = cli.at_home("status", "--json").document["worker"]["pid"]
    ran = cli.at_home("run", timeout=20)
    assert ran.code == 0
    assert ran.err.count("\n") == 1
    assert cli.at_home("status", "--json").document["worker"]["pid"] == pid


def test_the_log_is_shown_and_holds_no_text_of_a_conversation(cli: CommandLine, known: dict[str, str]) -> None:
    ran = cli.at_home("logs", "-n", "500")
    assert ran.code == 0
    assert "serves" in ran.out
    assert "peanuts" not in ran.out


def test_a_reader_that_leaves_early_is_no_error(cli: CommandLine, known: dict[str, str]) -> None:
    command = [sys.executable, "-m", "memory_tencentdb_worker", "inspect", "-L", "L0", "--home", str(cli.home)]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command, check=False, env=cli.environment(), stdout=writer, stderr=subprocess.PIPE, timeout=30
        )
    finally:
        os.close(writer)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
