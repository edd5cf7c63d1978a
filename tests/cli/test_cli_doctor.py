"""`doctor`, `trace` and `diagnostics` at the command line."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from command_line import CommandLine
from memory_tencentdb.protocol import VERSION
from memory_tencentdb_worker.service.diagnostics import CONTENTS
from memory_tencentdb_worker.service.doctor_kinds import KINDS
from memory_tencentdb_worker.service.doctor_outside import look_at_host
from memory_tencentdb_worker.shipping.hermes_config import enabled_provider
from processes import ROOT

SECRET_WORDS = "The harbour master's parrot is called Zebulon Quist."
KEY = "sk-live-0123456789abcdefghij"


@pytest.fixture(scope="module")
def told(cli: CommandLine) -> CommandLine:
    """A worker that was told something."""
    words = ("capture", "--session", "zebulon-session", "--user", SECRET_WORDS, "--assistant", "A fine name.")
    assert cli.at_home(*words, "--turn-id", "turn-zq").code == 0
    assert cli.at_home("flush", "--wait", "30").code == 0
    return cli


def test_the_doctor_says_in_words_that_all_is_well(told: CommandLine) -> None:
    ran = told.at_home("doctor", "--quick")
    assert ran.code == 0, ran.out + ran.err
    assert "everything is as it should be" in ran.out


def test_the_doctor_of_a_home_without_anything_says_so(empty: CommandLine) -> None:
    ran = empty.at_home("doctor", "--json")
    assert (ran.code, [one["code"] for one in ran.document["findings"]]) == (0, ["worker_away"])
    assert not (empty.home / "data").exists()


def test_a_damaged_database_is_named_with_the_way_back(empty: CommandLine) -> None:
    data = empty.home / "data"
    data.mkdir(parents=True)
    (data / "memory.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    for more in ((), ("--repair",)):
        ran = empty.at_home("doctor", "--json", *more)
        assert ran.code == 6
        found = {one["code"]: one for one in ran.document["findings"]}
        assert "store_corrupt" in found, ran.document
        assert "mv memory.db*" in found["store_corrupt"]["fix"]


def test_a_turn_is_traced_in_words(told: CommandLine) -> None:
    ran = told.at_home("trace", "turn-zq")
    assert ran.code == 0, ran.err
    assert SECRET_WORDS in ran.out
    assert "hash ok" in ran.out
    assert told.at_home("trace", "turn-nobody").code == 2


def test_a_bundle_holds_no_text_no_name_and_no_secret(told: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    ran = told.at_home("diagnostics", "--out", str(folder), "--json", TDAI_LLM_API_KEY=KEY, TDAI_LLM_MODEL="m")
    assert ran.code == 0, ran.err
    assert set(ran.document["files"]) == {*CONTENTS, "README.txt"}
    assert {path.name for path in folder.iterdir()} == set(ran.document["files"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for word in ("Zebulon", "zebulon", "parrot", KEY):
            assert word not in text, path.name
    assert json.loads((folder / "status.json").read_text())["counts"]["turns"] >= 1
    assert json.loads((folder / "doctor.json").read_text())["clean"]
    assert all(name in (folder / "README.txt").read_text() for name in CONTENTS)


def test_a_bundle_is_never_written_over_something_else(told: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    ran = told.at_home("diagnostics", "--out", str(tmp_path))
    assert ran.code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_bundle_is_made_without_a_worker_too(empty: CommandLine, tmp_path: Path) -> None:
    ran = empty.at_home("diagnostics", "--out", str(tmp_path / "bundle"))
    assert ran.code == 0, ran.err
    assert "worker_away" in (tmp_path / "bundle" / "doctor.json").read_text()


def host(folder: Path, config: str, plugin: str | None) -> Path:
    """A host's home with our home in it, and the plug-in folder of that version."""
    (folder / "config.yaml").write_text(config)
    if plugin is not None:
        (folder / "plugins" / "memory_tencentdb").mkdir(parents=True)
        (folder / "plugins" / "memory_tencentdb" / "plugin.yaml").write_text(
            f"name: memory_tencentdb\nversion: {plugin}\n"
        )
    return folder / "memory_tencentdb"


USED = "memory:\n  provider: memory_tencentdb\n"


@pytest.mark.parametrize(
    ("config", "plugin", "found"),
    [
        (USED, VERSION, []),
        ("memory:\n  provider: mem0\n", VERSION, ["host_unset"]),
        ("", VERSION, ["host_unset"]),
        ("memory: [\n", VERSION, ["host_config"]),
        (USED, None, ["plugin_missing"]),
        (USED, "0.0.9", ["plugin_version"]),
    ],
)
def test_the_wiring_into_the_host_is_looked_at(
    tmp_path: Path, config: str, plugin: str | None, found: list[str]
) -> None:
    home = host(tmp_path, config, plugin)
    assert [one["code"] for one in look_at_host(home, enabled_provider)] == found


def test_a_plug_in_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    home = host(tmp_path, USED, None)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "memory_tencentdb").symlink_to(tmp_path / "gone")
    assert [one["code"] for one in look_at_host(home, enabled_provider)] == ["plugin_link"]


def test_every_finding_is_explained_in_the_troubleshooting_page() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    part = page.partition("## What `doctor` finds")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| `")]
    explained = {row[0].strip("| `"): row[-2] for row in rows}
    assert explained == {code: kind.severity for code, kind in KINDS.items()}
