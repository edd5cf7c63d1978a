"""The state is never green while something is dead, and every reason is explained to a person."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.errors import StoreCorrupt, StoreError, StoreFull
from memory_tencentdb_worker.pipeline.loop import Pipeline
from memory_tencentdb_worker.process import DelayedStart
from memory_tencentdb_worker.service.reasons import FAMILIES, KINDS, SEVERITY, kind_of
from memory_tencentdb_worker.service.store_watch import MIB, StoreWatch
from memory_tencentdb_worker.store.mounts import Mount, mount_of
from memory_tencentdb_worker.store.projections import Projector
from memory_tencentdb_worker.store.sqlite import SqliteStore, open_store
from pipeline_parts import wait_for
from processes import WorkerProcess
from service_parts import MARCH_5, Clock, build_service, say
from small_disk import small_disk

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "data", MARCH_5)
    yield opened
    opened.close()


def test_every_reason_is_explained_in_the_troubleshooting_page_and_nothing_else_is() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    explained = set(re.findall(rf"^\| `([a-z_]+\*?)` \| (?:{'|'.join(SEVERITY)}) \|", page, re.MULTILINE))
    assert explained == {*KINDS, *(f"{start}*" for start in FAMILIES)}
    for line in page.splitlines():
        code = re.match(r"\| `([a-z_]+)` \| (\w+) \|", line)
        if code:
            assert code[2] == kind_of(code[1]).state, code[1]


def test_every_reason_has_a_state_and_something_to_do() -> None:
    assert all(kind.state in SEVERITY and kind.action for kind in (*KINDS.values(), *FAMILIES.values()))
    assert kind_of("never heard of").state == "degraded"


class DeadClock(Clock):
    """Ends the thread that asks for the time, without a word: what no code of ours may do, and a library once did."""

    def __call__(self) -> int:
        if threading.current_thread().name == "memory-model":
            raise SystemExit
        return self.now


class OddClock(Clock):
    """Fails every other time: the work, but not the note about it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __call__(self) -> int:
        if threading.current_thread().name == "memory-model":
            self.calls += 1
            if self.calls % 2:
                raise ZeroDivisionError("a defect")
        return self.now


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that thread's end is the point
@pytest.mark.parametrize(
    ("clock", "code"), [(DeadClock(), "pipeline_dead"), (OddClock(), "pipeline_defect")], ids=["dead", "defect"]
)
def test_a_pipeline_thread_that_is_dead_or_fails_is_seen(
    store: SqliteStore, tmp_path: Path, clock: Clock, code: str
) -> None:
    pipeline = Pipeline(store, Config(), UTC, clock)
    built = build_service(store, tmp_path, pipeline=pipeline, clock=clock)
    pipeline.start()
    try:
        wait_for(lambda: code in codes(built.service.status()), code)
        assert built.service.status()["state"] == "degraded"
        assert built.service.health()["status"] == "degraded"
    finally:
        pipeline.stop(2)


def codes(document: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in document["reasons"]]


def test_files_that_cannot_be_written_degrade_the_state_and_lose_nothing(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "data" / "conversations").write_text("in the way")
    projector = Projector(store, tmp_path / "data", UTC, clock=Clock())
    pipeline = Pipeline(store, Config(), UTC, Clock(), projector)
    built = build_service(store, tmp_path, pipeline=pipeline)
    say(store, "My boat is called Halcyon.")
    pipeline.start()
    try:
        wait_for(lambda: codes(built.service.status()) == ["files"], "the reason")
        assert built.service.status()["state"] == "degraded"
        (tmp_path / "data" / "conversations").unlink()
        wait_for(lambda: built.service.status()["state"] == "ok", "recovery")
    finally:
        pipeline.stop(2)
    assert len(list((tmp_path / "data" / "conversations").glob("*.jsonl"))) == 1


def test_a_pipeline_that_cannot_start_yet_is_started_later() -> None:
    tries: list[int] = []
    started = threading.Event()

    def start() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise StoreError("held", code="store_busy")
        started.set()

    begin = DelayedStart(start, 0, again_seconds=0.01)
    begin.arm()
    assert started.wait(5)
    begin.cancel()
    assert len(tries) == 3


def test_a_failure_is_shown_until_a_success_of_its_kind_and_keeps_its_time(store: SqliteStore, tmp_path: Path) -> None:
    watch = StoreWatch(store, tmp_path / "data")
    assert watch.failed("write", StoreFull("full"), MARCH_5)
    assert watch.failed("write", StoreFull("full"), MARCH_5 + 5)
    (reason,) = watch.reasons(MARCH_5 + 9)
    assert (reason.code, reason.state, reason.since) == ("disk_full", "broken", MARCH_5)
    assert str(tmp_path / "data") in reason.message
    assert not watch.succeeded("read")
    assert watch.succeeded("write")
    assert watch.reasons(MARCH_5 + 9) == []


def test_an_error_of_one_request_says_nothing_about_the_store(store: SqliteStore, tmp_path: Path) -> None:
    watch = StoreWatch(store, tmp_path / "data")
    assert not watch.failed("write", StoreError("no such atom", code="unknown_atom"), MARCH_5)
    assert watch.failed("write", StoreCorrupt("damaged"), MARCH_5)
    assert [each.code for each in watch.reasons(MARCH_5)] == ["store_corrupt"]


def test_a_lock_file_that_was_removed_is_seen(store: SqliteStore, tmp_path: Path) -> None:
    lock = tmp_path / "data" / ".worker.lock"
    lock.touch()
    watch = StoreWatch(store, tmp_path / "data", lock)
    assert watch.reasons(MARCH_5) == []
    lock.unlink()
    assert [each.code for each in watch.reasons(MARCH_5)] == ["lock_lost"]


def test_a_disk_that_fills_up_is_named_before_it_is_full_and_a_small_empty_one_is_not(
    store: SqliteStore, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "20m") as disk:
        watch = StoreWatch(store, disk.place)
        assert watch.reasons(MARCH_5) == []
        (disk.place / "ballast").write_bytes(b"x" * (19 * MIB + MIB // 2))
        (reason,) = watch.reasons(MARCH_5)
        assert (reason.code, reason.state) == ("disk_low", "degraded")
        assert str(disk.place) in reason.message


def test_the_innermost_mount_counts_and_network_file_systems_are_known_by_their_names(tmp_path: Path) -> None:
    mounts = [
        Mount(Path("/"), "ext4", "/dev/sda1"),
        Mount(tmp_path, "ext4", "/dev/sdb1"),
        Mount(tmp_path, "nfs4", "server:/export"),
        Mount(tmp_path / "elsewhere", "tmpfs", "tmpfs"),
    ]
    found = mount_of(tmp_path / "home", mounts)
    assert found is not None
    assert (found.kind, found.is_network) == ("nfs4", True)
    assert not mounts[0].is_network
    kinds = ("cifs", "9p", "virtiofs", "fuse.sshfs", "drvfs")
    assert all(Mount(tmp_path, kind, "x").is_network for kind in kinds)
    assert mount_of(tmp_path, []) is None


def keys_of(document: Any) -> Any:
    """The keys with what is nested in them; lists and values do not count."""
    return {key: keys_of(value) for key, value in document.items()} if isinstance(document, dict) else None


def test_status_without_a_worker_holds_every_key_of_the_contract(store: SqliteStore, tmp_path: Path) -> None:
    with_worker = keys_of(build_service(store, tmp_path).service.status())
    command = [sys.executable, "-m", "memory_tencentdb_worker", "status", "--json", "--home", str(tmp_path / "none")]
    environment = WorkerProcess(tmp_path / "none").env
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert shown.returncode == 4
    document = json.loads(shown.stdout)
    assert document["worker"] is None
    assert document["state"] == "broken"
    without = keys_of(document)
    missing = {key for key in with_worker if key not in without}
    assert missing == set()
    for part in ("counts", "jobs", "outbox", "llm", "embedding", "config", "calls", "storage"):
        assert set(with_worker[part]) <= set(without[part]), part
    assert all(set(reason) == {"code", "message", "since", "action"} for reason in document["reasons"])
