"""The fault points themselves, and the checks of the kill matrix: a matrix that cannot fail proves nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from bench.fault_checks import Findings, check_home
from memory_tencentdb import faults
from memory_tencentdb.faults import MARK_VARIABLE, POINTS, VARIABLE, ArmedFaults, Fault, FaultError, parse_faults
from memory_tencentdb.outbox import Outbox
from memory_tencentdb_worker.store.projection_files import drop_litter, write_file
from processes import FAST_PIPELINE, ROOT, WorkerProcess

PASS_TWICE = """
from memory_tencentdb import faults
faults.reach("file.written")
print("once", flush=True)
faults.reach("file.written")
print("twice", flush=True)
"""


def pass_twice(fault: str, mark: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: fault, MARK_VARIABLE: str(mark or "")}
    return subprocess.run([sys.executable, "-c", PASS_TWICE], env=env, capture_output=True, text=True, check=False)


def test_every_point_is_passed_in_exactly_one_place_and_no_place_names_another() -> None:
    folders = (ROOT / "memory_tencentdb", ROOT / "worker")
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")]
    named = [name for source in sources for name in re.findall(r'faults\.reach\("([^"]+)"\)', source)]
    assert sorted(named) == sorted(POINTS)
    assert len(POINTS) >= 22


def test_an_armed_process_dies_at_the_passage_it_was_told() -> None:
    done = pass_twice("file.written:kill:2")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "once\n")


def test_a_process_that_is_not_armed_passes() -> None:
    assert pass_twice("").stdout == "once\ntwice\n"


def test_a_fault_that_has_fired_leaves_later_processes_alone(tmp_path: Path) -> None:
    mark = tmp_path / "fired"
    assert pass_twice("file.written:kill", mark).stdout == ""
    assert mark.read_text().startswith("kill at file.written")
    assert pass_twice("file.written:kill", mark).stdout == "once\ntwice\n"


@pytest.mark.parametrize("text", ["file.writen:kill", "file.written:klil", "file.written", "file.written:kill:x"])
def test_a_mistyped_fault_stops_the_process_at_its_start(text: str) -> None:
    done = pass_twice(text)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ValueError" in done.stderr


def test_errors_and_clock_shifts_fire_in_place() -> None:
    armed = ArmedFaults(list(parse_faults("file.written:error:1,file.renamed:clock:1:-60")), "")
    with pytest.raises(FaultError):
        armed.pass_by("file.written")
    armed.pass_by("file.renamed")
    assert armed.shift_seconds == -60
    assert faults.shifted(5) == 5
    assert Fault("file.renamed", "clock", 1, -60.0) in parse_faults("file.renamed:clock:1:-60")


# ------------------------------------------------------------------------------------------------ the checks


@pytest.fixture(scope="module")
def kept_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with one turn, written by a worker without a model."""
    home = tmp_path_factory.mktemp("k")
    quiet = {"memory": {"timezone": "UTC", "pipeline": FAST_PIPELINE, "embedding": {"provider": "none"}}}
    worker = WorkerProcess(home, quiet, {"MEMORY_TENCENTDB_LOG_DIR": str(home / "logs")})
    worker.start()
    try:
        worker.capture("I live in m1q now.", "Noted m1q.")
        worker.flush()
    finally:
        worker.stop()
    return home / "data"


@pytest.fixture
def data_dir(kept_home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept_home, tmp_path / "data"))


def found(data_dir: Path, acknowledged: list[str], sql: str = "") -> Findings:
    if sql:
        connection = apsw.Connection(str(data_dir / "memory.db"))
        connection.execute(sql)
        connection.close()
    findings = Findings()
    check_home(data_dir, data_dir.parent / "outbox", acknowledged, findings)
    return findings


def test_a_lost_turn_is_found(data_dir: Path) -> None:
    assert not found(data_dir, ["m1q"]).lost
    assert found(data_dir, ["m1q", "m2q"]).lost


def test_a_lost_message_is_found(data_dir: Path) -> None:
    findings = found(data_dir, ["m1q"], "delete from messages where role = 'assistant'")
    assert findings.lost
    assert findings.inconsistent


def test_a_turn_that_is_there_twice_is_found(data_dir: Path) -> None:
    again = "select 'l0_x', scope, turn_id, 5, session_key, session_id, role, origin, text, hash, sent_at, recorded_at"
    columns = "id, scope, turn_id, position, session_key, session_id, role, origin, text, hash, sent_at, recorded_at"
    sql = f"insert into messages({columns}) {again} from messages where role = 'user'"
    assert found(data_dir, ["m1q"], sql).duplicated


def test_a_lost_fact_is_found(data_dir: Path) -> None:
    assert found(data_dir, ["m1q"], "update atoms set superseded_at = 1").lost


def test_a_lease_that_nobody_holds_is_found(data_dir: Path) -> None:
    findings = found(data_dir, ["m1q"], "update jobs set leased_until = 1")
    assert any(text.startswith("leases") for text in findings.inconsistent)


def test_a_file_that_differs_from_the_database_is_found(data_dir: Path) -> None:
    day = next((data_dir / "conversations").iterdir())
    day.write_bytes(day.read_bytes()[:-10])
    assert any("differs" in text for text in found(data_dir, ["m1q"]).inconsistent)


# ------------------------------------------------------------------------------------------------ what it found


def test_a_new_segment_is_not_hidden_by_what_was_delivered_of_an_older_one_of_its_name(tmp_path: Path) -> None:
    """A kill between the two deletions left a done-mark without its segment; lines of the next one were skipped."""
    code = (
        "from pathlib import Path; from memory_tencentdb.outbox import Outbox; import sys;"
        "box = Outbox(Path(sys.argv[1]), nonce='n', created_ms=1);"
        "box.append('t1', '/capture', {'turn_id': 't1'}, 1); box.replay(lambda route, body: None, lambda: True)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: "outbox.unmarked:kill", MARK_VARIABLE: ""}
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, check=False).returncode < 0
    [segment] = tmp_path.glob("*-n.jsonl")
    assert not list(tmp_path.glob("*.done"))
    box = Outbox(tmp_path, nonce="n", created_ms=1)
    assert box.pending() == 1  # delivered again, which its id makes harmless
    taken: list[str] = []
    assert box.replay(lambda _, body: taken.append(str(body["turn_id"])), lambda: True) == 1
    assert taken == ["t1"]
    assert not segment.exists()


def test_a_replay_clears_away_marks_that_a_killed_process_had_not_finished(tmp_path: Path) -> None:
    box = Outbox(tmp_path, nonce="n", created_ms=1)
    box.append("t1", "/capture", {}, 1)
    (tmp_path / "0000000000001-1-n.5.7.tmp").write_text("12")
    assert box.replay(lambda route, body: None, lambda: True) == 1
    assert not list(tmp_path.glob("*.tmp"))


def test_what_a_killed_process_had_begun_to_write_is_cleared_away(tmp_path: Path) -> None:
    write_file(tmp_path / "a.md", b"kept")
    (tmp_path / ".0a6add9d3c457ede.tmp").write_bytes(b"half")
    (tmp_path / ".0a6add9d3c457edf.tmp").mkdir()
    (tmp_path / ".hidden").write_bytes(b"a person's")
    drop_litter(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "a.md"]
