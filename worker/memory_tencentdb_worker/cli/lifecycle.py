"""`run`, `start`, `stop`, `restart`: the life of the worker."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import memory_tencentdb
import memory_tencentdb_worker
from memory_tencentdb.holder import end_holder, find_holder
from memory_tencentdb.locks import LockFile
from memory_tencentdb.paths import private_dir, start_lock_path
from memory_tencentdb.protocol import STOP
from memory_tencentdb.redaction import hide_in_file, hide_secrets
from memory_tencentdb_worker.cli.connect import Found, WorkerClient, by_configuration, find_worker, places_of
from memory_tencentdb_worker.cli.exits import (
    CONFIGURATION,
    DONE,
    TIMED_OUT,
    CommandError,
    ConfigurationError,
    TimedOutError,
    UnreachableError,
)
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.log_view import last_lines
from memory_tencentdb_worker.cli.output import print_json, say

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands
    from memory_tencentdb_worker.places import Places

START_SECONDS = 15.0
COMMAND_LINE = "command line"
"""How the configuration names this source."""
STOP_SECONDS = 12.0
"""A worker ends by itself within 8 seconds of being asked; after this it is ended."""
TERM_SECONDS = 9.0
KILL_SECONDS = 5.0
STARTER_SECONDS = 10.0
POLL_SECONDS = 0.05
AGAIN_SECONDS = 1.0
OUTPUT_LIMIT_BYTES = 1024 * 1024


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    run = add_command(
        commands, places, "run", run_run,
        purpose="be the worker, in the foreground", example="run --home ~/.memory-tencentdb/home", json_output=False,
    )  # fmt: skip
    run.add_argument("--await-hello", type=float, default=0.0, metavar="SECONDS",
                     help="start the pipeline after the first handshake, or after SECONDS")  # fmt: skip
    for name, command, purpose in (
        ("start", run_start, "start the worker and return when it answers"),
        ("stop", run_stop, "stop the worker and return when it is gone"),
        ("restart", run_restart, "stop the worker and start it again"),
    ):
        add_command(commands, places, name, command, purpose=purpose, example=name)


def run_run(args: argparse.Namespace) -> int:
    from memory_tencentdb_worker.process import run_worker

    return run_worker(places_of(args), await_hello_seconds=args.await_hello)


def run_start(args: argparse.Namespace) -> int:
    pid, started = _start(places_of(args))
    if args.json:
        print_json({"pid": pid, "started": started})
    else:
        print(f"the worker {'answers' if started else 'was running already'} (pid {pid})")
    return DONE


def run_stop(args: argparse.Namespace) -> int:
    pid = _stop(find_worker(args))
    if args.json:
        print_json({"pid": pid, "stopped": pid is not None})
    else:
        print(f"the worker is gone (pid {pid})" if pid is not None else "no worker was running")
    return DONE


def run_restart(args: argparse.Namespace) -> int:
    _stop(find_worker(args))
    return run_start(args)


def _start(places: Places) -> tuple[int, bool]:
    """The pid of the worker that answers, and whether it was started here."""
    client = by_configuration(places).client
    if client.answers():
        return _pid_of(client), False
    output = _output_file(places.logs)
    process, begin = _spawn(places, output)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if client.answers():
            return _pid_of(client), True
        code = process.poll()
        if code == 0:  # another worker holds the data directory: it will answer, or is about to leave
            time.sleep(AGAIN_SECONDS)
            if not client.listens():
                process, begin = _spawn(places, output)
        elif code is not None:
            raise _start_failed(code, output, begin)
        time.sleep(POLL_SECONDS)
    if process.poll() == 0:
        raise TimedOutError("a worker holds the data directory but does not answer", "end it: memory-tencentdb stop")
    raise TimedOutError(f"the worker did not answer within {START_SECONDS:g} s", f"its output: {output}")


def _spawn(places: Places, output: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The worker's process, and where its output begins."""
    with output.open("ab") as stream:
        begin = stream.tell()
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
            _run_command(places), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=_run_environment(),
            start_new_session=True,
        )  # fmt: skip
    return process, begin


def _run_command(places: Places) -> list[str]:
    command = [sys.executable, "-m", "memory_tencentdb_worker", "run", "--home", str(places.home)]
    if places.loaded.sources["data.baseDir"] == COMMAND_LINE:
        command += ["--data-dir", str(places.data_dir)]
    return command


def _run_environment() -> dict[str, str]:
    """The worker finds the packages where this command found them, and imports nothing from the working directory."""
    places = [Path(package.__file__ or "").parents[1] for package in (memory_tencentdb, memory_tencentdb_worker)]
    roots = [str(place) for place in places if place.name not in ("site-packages", "dist-packages")]
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(dict.fromkeys(filter(None, [*known, *roots])))
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _start_failed(code: int | None, output: Path, begin: int) -> CommandError:
    with output.open("rb") as stream:
        stream.seek(begin)
        said = hide_secrets(stream.read(8192).decode("utf-8", "replace").strip())
    hide_in_file(output)
    lines = "\n  ".join(said.splitlines()[-8:]) or "\n  ".join(last_lines(output.with_name("worker.log"), 3))
    message = f"the worker ended at once (exit code {code})\n  {lines}"
    if code == CONFIGURATION:
        return ConfigurationError(message)
    return UnreachableError(message, f"more: {output}")


def _output_file(logs: Path) -> Path:
    """What a worker prints before its log is open, and a crash: kept apart, one older file."""
    output = private_dir(logs) / "worker.out.log"
    if output.exists() and output.stat().st_size > OUTPUT_LIMIT_BYTES:
        output.replace(output.with_name("worker.out.log.1"))
    os.close(os.open(output, os.O_WRONLY | os.O_CREAT, 0o600))
    return output


def _stop(found: Found) -> int | None:
    """Asks, then terminates, then kills the process that holds the socket, or else the data directory; its pid when it
    is gone, None when there was none."""
    client = found.client
    pid = client.peer_pid()
    if pid is None:
        if not client.answers():
            return _end_unreachable(found.data_dir)
        pid = _pid_of(client)
    with contextlib.suppress(UnreachableError, TimedOutError):  # frozen or leaving already: the signals follow
        client.post(STOP, {}, timeout_seconds=2)
        if _gone(pid, STOP_SECONDS):
            return pid
    for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        if client.peer_pid() not in (pid, None):
            return pid  # it is gone, and another has taken its place
        say(f"the worker (pid {pid}) did not leave; sending {number.name}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # a worker that was stopped (Ctrl-Z) can only end when it goes on
        if _gone(pid, seconds):
            return pid
    raise TimedOutError(f"the worker (pid {pid}) is still there", f"exit code {TIMED_OUT}: look at it with ps {pid}")


def _end_unreachable(data_dir: Path) -> int | None:
    """A worker whose socket was removed is known by the lock that it holds. Its pid, None when there is none."""
    with LockFile(start_lock_path(data_dir)) as start_lock:
        if not start_lock.acquire(STARTER_SECONDS):
            raise TimedOutError("a host is starting the worker just now", "try again in half a minute")
        holder = find_holder(data_dir)
        if holder is None:
            return None
        say(f"the worker (pid {holder.pid}) has lost its socket; sending SIGTERM")
        if not end_holder(data_dir, holder, TERM_SECONDS, KILL_SECONDS, lambda: None):
            raise TimedOutError(f"the worker (pid {holder.pid}) is still there", f"look at it with ps {holder.pid}")
        return holder.pid


def _gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        if not _alive(pid):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)


def _alive(pid: int) -> bool:
    """A zombie answers signals but is gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _pid_of(client: WorkerClient) -> int:
    return int(client.hello()["pid"])
