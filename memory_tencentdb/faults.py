"""Named points in the code at which a test or benchmark kills, freezes, delays or fails the process that passes.

Nothing happens unless MEMORY_TENCENTDB_FAULT is set when the process starts. It holds faults, separated by commas, each
`point:action[:passage[:amount]]`: at the given passage of the point (1: the first)

    kill     SIGKILL to the own process; with an amount, this many milliseconds later while the code goes on
    freeze   SIGSTOP to the own process
    error    FaultError is raised
    delay    sleeps `amount` milliseconds
    clock    from now on `shifted` adds `amount` seconds

MEMORY_TENCENTDB_FAULT_MARK names a file that is made when a fault fires. While it is there no fault fires: what is
started again after a kill, by whomever, runs undisturbed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

VARIABLE = "MEMORY_TENCENTDB_FAULT"
MARK_VARIABLE = "MEMORY_TENCENTDB_FAULT_MARK"

Point = Literal[
    # provider
    "outbox.before_append",  # the worker is away, the turn is in memory only
    "outbox.before_sync",  # the line is written, not yet fsynced
    "outbox.after_append",  # the line is durable, sync_turn has not returned
    "outbox.delivered",  # the worker has taken a kept turn, the done-mark does not say so yet
    "outbox.emptied",  # all of a segment is delivered, nothing is deleted yet
    "outbox.unmarked",  # its done-mark is deleted, the segment is not
    "client.sent",  # a request is on its way, the reply is not read
    # worker, start
    "worker.locked",  # the data directory is held, nobody listens yet
    "worker.listening",  # the socket is bound, worker.json does not say so yet
    "worker.announced",  # worker.json is written, the store is not open yet
    "migration.before_commit",  # the statements of one step are done, inside its transaction
    "migration.after_commit",  # between two steps, or after the last one
    # worker, requests
    "request.received",  # the body of any request is read
    "turn.before_commit",  # the turn is written, inside its transaction
    "turn.after_commit",  # the turn is durable, nobody knows it
    "capture.before_reply",  # the pipeline knows it, the caller does not
    # worker, pipeline
    "job.leased",  # a job is taken
    "model.before_call",  # before the lane is called
    "lane.called",  # in the lane's process: the call has come
    "lane.answered",  # in the lane's process: the endpoint has answered, the worker does not know
    "model.answered",  # the answer is paid for, not yet parsed
    "atoms.before_commit",  # L1 is applied, inside its transaction
    "atoms.after_commit",
    "scenes.before_commit",  # L2
    "scenes.after_commit",
    "persona.before_commit",  # L3
    "persona.after_commit",
    "vectors.got",  # the embedder has answered, nothing is stored
    "vectors.before_commit",
    "vectors.after_commit",  # vectors are stored, their job is not finished
    # worker, files
    "file.announced",  # the store knows the hash of a document that is about to be written
    "file.written",  # the temporary file is complete, not yet renamed
    "file.renamed",  # the file is in place, the store does not know it yet
    "lines.before_append",
    "lines.after_append",
    # worker, end
    "worker.stopping",  # the pipeline has stopped, the store is open
    "checkpoint.before",  # the write-ahead log is about to be copied into the database
    "checkpoint.after",
]
POINTS: tuple[Point, ...] = get_args(Point)

ACTIONS = ("kill", "freeze", "error", "delay", "clock")


class FaultError(ConnectionError):
    """What a point raises when it is told to."""


class Fault(NamedTuple):
    point: str
    action: str
    passage: int
    amount: float


class ArmedFaults:
    """Faults of one process that wait for their passage. Any thread may pass."""

    def __init__(self, faults: list[Fault], mark: str) -> None:
        self._faults, self._mark = faults, mark
        self._passages: dict[str, int] = {}
        self._lock = threading.Lock()
        self.shift_seconds = 0.0

    def pass_by(self, point: str) -> None:
        with self._lock:
            passage = self._passages[point] = self._passages.get(point, 0) + 1
        for fault in self._faults:
            if (fault.point, fault.passage) == (point, passage) and self._claim(f"{fault.action} at {point}"):
                self._fire(fault)

    def _claim(self, what: str) -> bool:
        if not self._mark:
            return True
        try:
            descriptor = os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        os.write(descriptor, f"{what}, pid {os.getpid()}\n".encode())
        os.close(descriptor)
        return True

    def _fire(self, fault: Fault) -> None:
        match fault.action:
            case "kill" if fault.amount:
                timer = threading.Timer(fault.amount / 1000, os.kill, (os.getpid(), signal.SIGKILL))
                timer.daemon = True
                timer.start()
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "error":
                raise FaultError(f"planned at {fault.point}")
            case "delay":
                time.sleep(fault.amount / 1000)
            case "clock":
                self.shift_seconds += fault.amount


def parse_faults(text: str) -> Iterator[Fault]:
    """Raises ValueError for an unknown point or action, so that a mistyped one does not pass for a survived one."""
    for word in filter(None, text.split(",")):
        point, _, rest = word.partition(":")
        action, passage, amount, *_ = [*rest.split(":"), "", ""]
        if point not in POINTS or action not in ACTIONS:
            raise ValueError(f"{VARIABLE}: {word!r} names no known point and action")
        yield Fault(point, action, int(passage or 1), float(amount or 0))


def _arm() -> ArmedFaults | None:
    text = os.environ.get(VARIABLE)
    return ArmedFaults(list(parse_faults(text)), os.environ.get(MARK_VARIABLE, "")) if text else None


_armed = _arm()


def reach(point: Point) -> None:
    """The process passes `point`."""
    if _armed is not None:
        _armed.pass_by(point)


def shifted(now_ms: int) -> int:
    """`now_ms`, or what a clock that was set by a fault would show."""
    return now_ms if _armed is None else now_ms + round(_armed.shift_seconds * 1000)
