"""The outbox on a real disk: order, crashes, bounds, several processes."""

from __future__ import annotations

import json
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest

from memory_tencentdb.errors import OutboxFull, RequestRefused, WorkerSilent, WorkerTrouble
from memory_tencentdb.outbox import Outbox


def outbox_of(home: Path, nonce: str = "a", created_ms: int = 1) -> Outbox:
    return Outbox(home / "outbox", nonce=nonce, created_ms=created_ms)


def add(outbox: Outbox, *texts: str) -> None:
    for text in texts:
        outbox.append(f"t_{text}", "/capture", {"turn_id": f"t_{text}", "text": text}, 5)


def always() -> bool:
    return True


class Receiver:
    """Takes lines; raises `trouble` for a text it is set for."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.trouble: dict[str, Exception] = {}

    def __call__(self, route: str, body: dict[str, Any]) -> None:
        if body["text"] in self.trouble:
            raise self.trouble[body["text"]]
        self.texts.append(body["text"])


def test_lines_are_replayed_in_order_and_the_segment_vanishes(home: Path) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "one", "two", "three")
    assert outbox.pending() == 3
    assert outbox.replay(receiver, always) == 3
    assert receiver.texts == ["one", "two", "three"]
    assert outbox.pending() == 0
    assert [path.name for path in (home / "outbox").iterdir()] == [".replay.lock"]


def test_older_segments_go_first(home: Path) -> None:
    newer, older, receiver = outbox_of(home, "a", 20), outbox_of(home, "b", 3), Receiver()
    add(newer, "late")
    add(older, "early")
    newer.replay(receiver, always)
    assert receiver.texts == ["early", "late"]


def test_a_replay_that_fails_goes_on_where_it_stopped(home: Path) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "one", "two", "three")
    receiver.trouble["two"] = WorkerSilent("no answer")
    with pytest.raises(WorkerSilent):
        outbox.replay(receiver, always)
    assert outbox_of(home, "b", 9).pending() == 2
    receiver.trouble.clear()
    outbox_of(home, "b", 9).replay(receiver, always)
    assert receiver.texts == ["one", "two", "three"]


def test_a_refused_line_is_kept_with_its_reason_and_blocks_nobody(home: Path) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "one", "two", "three")
    receiver.trouble["two"] = RequestRefused(422, "invalid", "at is no instant")
    outbox.replay(receiver, always)
    assert receiver.texts == ["one", "three"]
    kept = json.loads((home / "outbox" / "refused.jsonl").read_text())
    assert "at is no instant" in kept["reason"]
    assert json.loads(kept["line"])["body"]["text"] == "two"
    assert outbox.pending() == 0


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_caller_keeps_its_lines(home: Path, status: int) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "one")
    receiver.trouble["one"] = RequestRefused(status, "auth", "no")
    with pytest.raises(RequestRefused):
        outbox.replay(receiver, always)
    assert outbox.pending() == 1


def test_a_line_that_always_breaks_the_worker_is_set_aside_in_the_end(home: Path) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "poison", "two")
    receiver.trouble["poison"] = WorkerTrouble(500, "error", "boom")
    for _ in range(4):
        with pytest.raises(WorkerTrouble):
            outbox.replay(receiver, always)
    outbox.replay(receiver, always)
    assert receiver.texts == ["two"]
    assert "boom" in (home / "outbox" / "refused.jsonl").read_text()


def test_a_busy_worker_never_costs_a_line(home: Path) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "one")
    receiver.trouble["one"] = WorkerTrouble(503, "store", "disk full")
    for _ in range(8):
        with pytest.raises(WorkerTrouble):
            outbox.replay(receiver, always)
    assert outbox.pending() == 1


def test_a_line_torn_by_a_crash_is_skipped_and_kept(home: Path) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "one")
    (segment,) = (home / "outbox").glob("*-a.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"id":"t_torn","bo')
    outbox_of(home, "b", 9).replay(receiver, always)
    assert receiver.texts == ["one"]
    assert "t_torn" in (home / "outbox" / "refused.jsonl").read_text()
    assert not segment.exists()


def test_a_line_after_a_torn_one_is_delivered(home: Path) -> None:
    outbox, receiver = outbox_of(home), Receiver()
    add(outbox, "one")
    (segment,) = (home / "outbox").glob("*-a.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"id":"t_torn","bo')
    add(outbox, "two")
    outbox.replay(receiver, always)
    assert receiver.texts == ["one", "two"]


def test_a_full_outbox_says_so(home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_OUTBOX_MAX_TURNS", "4")
    outbox = outbox_of(home)
    add(outbox, "one", "two")
    assert not caplog.records
    add(outbox, "three", "four")
    assert len(caplog.records) == 1
    with pytest.raises(OutboxFull, match="4 turns"):
        add(outbox, "five")
    outbox.replay(Receiver(), always)
    add(outbox, "five")
    assert outbox.pending() == 1


def test_the_bound_on_bytes_counts_all_segments(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_TENCENTDB_OUTBOX_MAX_BYTES", "2000")
    add(outbox_of(home), "x" * 400)
    with pytest.raises(OutboxFull):
        add(outbox_of(home, "b", 2), "y" * 400)


def test_a_place_that_cannot_be_written_is_an_error_and_not_a_loss_in_silence(home: Path) -> None:
    (home / "outbox").write_text("a file is in the way")
    with pytest.raises(OutboxFull, match="cannot be written"):
        add(outbox_of(home), "one")


def test_lines_are_private(home: Path) -> None:
    add(outbox_of(home), "one")
    (segment,) = (home / "outbox").glob("*.jsonl")
    assert segment.stat().st_mode & 0o777 == 0o600
    assert (home / "outbox").stat().st_mode & 0o777 == 0o700


def test_appending_while_another_replays_loses_nothing(home: Path) -> None:
    writer, reader, receiver = outbox_of(home), outbox_of(home, "b", 2), Receiver()
    texts = [str(number) for number in range(200)]
    thread = threading.Thread(target=add, args=(writer, *texts))
    thread.start()
    while thread.is_alive() or reader.pending():
        reader.replay(receiver, always)
    thread.join()
    assert receiver.texts == texts


def _write_some(directory: str, nonce: str) -> None:
    outbox = Outbox(Path(directory), nonce=nonce, created_ms=ord(nonce))
    add(outbox, *[f"{nonce}{number}" for number in range(50)])


def _replay_some(directory: str, results: Any) -> None:
    receiver = Receiver()
    outbox = Outbox(Path(directory), nonce="r", created_ms=0)
    while outbox.replay(receiver, always):
        pass
    results.put(receiver.texts)


def test_two_processes_share_an_outbox_without_loss_or_disorder(home: Path) -> None:
    context = multiprocessing.get_context("spawn")
    directory = str(home / "outbox")
    writers = [context.Process(target=_write_some, args=(directory, nonce)) for nonce in "ab"]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert outbox_of(home, "c", 0).pending() == 100
    results = context.SimpleQueue()
    readers = [context.Process(target=_replay_some, args=(directory, results)) for _ in range(2)]
    for process in readers:
        process.start()
    received = [results.get() for _ in readers]
    for process in readers:
        process.join()
    outbox = outbox_of(home, "c", 0)
    assert outbox.pending() == 0
    assert sorted(received[0] + received[1]) == sorted(f"{nonce}{number}" for nonce in "ab" for number in range(50))
