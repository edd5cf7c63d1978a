"""Finds the worker of one home, or starts it, and makes sure that it is the right one before anything is said to it.

Alive is who answers in time. A worker that does not is given a second, longer chance under the start lock, and is then
ended and replaced; its process is known by the lock that it holds (`holder`), never by a pid alone.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import launch
from .client import Client, listens
from .errors import ProviderError, SpawnFailed, WorkerSilent, WorkerStranger, WorkerUnreachable
from .holder import ENDED, Holder, end_holder, find_holder, read_holder
from .locks import LockFile
from .paths import data_dir_key, default_data_dir, private_dir, socket_path, start_lock_path, user_id
from .protocol import HEALTH, HELLO, PROTOCOL, STOP, VERSION
from .starts import Starts

if TYPE_CHECKING:
    import subprocess

    from .wire import HelloResponse, HostModel

logger = logging.getLogger(__name__)

STUCK_SECONDS = 60.0
"""A worker that answers `/health` but no handshake for so long is caught in a deadlock."""
START_SECONDS = 30.0
STOP_SECONDS = 2.0
POLL_SECONDS = 0.05
EXIT_OCCUPIED = 0


class Patience(NamedTuple):
    """How long a worker may take for what. `/health` waits for nothing inside the worker: one that cannot answer it in
    time, after it has missed two handshakes, is frozen; one that answers is merely busy."""

    hello_seconds: float = 2.0
    second_hello_seconds: float = 0.5
    health_seconds: float = 3.0
    leave_seconds: float = 12.0
    """A worker that was asked to stop ends within 8 seconds; meanwhile it holds its data directory and does not
    listen."""
    term_seconds: float = 2.0
    kill_seconds: float = 5.0


PATIENCE = Patience()


class Supervisor:
    """One per provider instance; instances and processes agree through kernel locks and a record of starts."""

    def __init__(self, home: Path, stopping: threading.Event, patience: Patience = PATIENCE) -> None:
        self.home = home
        self._stopping, self._patience = stopping, patience
        self._client = Client(self.socket)
        self._silent_since: float | None = None

    @property
    def client(self) -> Client:
        return self._client

    def data_dir(self) -> Path:
        """Environment, else where this home's worker says it is, else the default. The handshake has the last word."""
        if os.environ.get("TDAI_DATA_DIR"):
            return default_data_dir(self.home)
        try:
            record = json.loads((self.home / "worker.json").read_text(encoding="utf-8"))
            return Path(record["data_dir"])
        except (OSError, ValueError, KeyError, TypeError):
            return default_data_dir(self.home)

    def socket(self) -> Path:
        return socket_path(self.data_dir())

    def connect(self, host_model: HostModel | None, *, may_start: bool = True) -> HelloResponse:
        """A worker that has said hello. Starts one when none answers, and replaces one that is frozen or outdated.

        Raises WorkerStranger, WorkerSilent (it is there, and busy), SpawnFailed or another ProviderError.
        """
        launch.collect_children()
        try:
            private_dir(self.home)
            hello = self._check_version(self._connect(may_start))
            self._starts().settle(time.time())
            launch.collect_children()  # the one that was replaced, if it was ours
            return self.say_hello(host_model) if host_model else hello  # the key is for a known worker only
        except ProviderError:
            self._client.close()  # no kept connection leads to a worker that was found wanting
            raise
        except OSError as error:
            raise WorkerUnreachable(f"the home {self.home} cannot be used: {error}") from error

    def say_hello(self, host_model: HostModel | None = None, seconds: float | None = None) -> HelloResponse:
        from dataclasses import asdict

        from .wire import HelloRequest, HelloResponse, decode

        request = HelloRequest(PROTOCOL, VERSION, "provider", host_model)
        answer = self._client.post(HELLO, asdict(request), seconds or self._patience.hello_seconds)
        try:
            hello = decode(HelloResponse, answer)
        except TypeError as error:
            raise WorkerStranger(f"what answers on {self.socket()} is not our worker") from error
        if data_dir_key(Path(hello.data_dir)) != data_dir_key(self.data_dir()) or hello.uid != user_id():
            raise WorkerStranger(
                f"what answers on {self.socket()} serves {hello.data_dir} for user {hello.uid}, "
                f"not {self.data_dir()} for user {user_id()}"
            )
        self._silent_since = None
        return hello

    def _connect(self, may_start: bool) -> HelloResponse:
        try:
            hello = self.say_hello()
        except WorkerStranger:
            raise
        except WorkerUnreachable:
            if not may_start:
                raise
            return self._start()
        return self._start() if _is_older(hello) else hello

    def _start(self) -> HelloResponse:
        """Whoever waits for the start lock finds the worker that its holder has started."""
        with LockFile(start_lock_path(self.data_dir())) as start_lock:
            until = time.monotonic() + START_SECONDS
            while not start_lock.acquire():
                self._pause(until, "another process is starting the worker")
            return self._look_again() or self._spawn(time.monotonic() + START_SECONDS)

    # ------------------------------------------------------------------------------------- under the start lock

    def _look_again(self) -> HelloResponse | None:
        """A worker that answers after all; None when nobody holds the data directory (any more)."""
        try:
            hello = self.say_hello(seconds=self._patience.second_hello_seconds)
        except WorkerStranger:
            raise
        except WorkerSilent:
            self._replace_silent()
            return None
        except WorkerUnreachable:
            return self._await_holder()
        if _is_older(hello) and self._may_replace(hello):
            self._stop_worker(hello)
            return self._await_holder()
        return hello

    def _replace_silent(self) -> None:
        """Ends the worker that listens but does not answer. Raises WorkerSilent when it is to be left alone."""
        holder = find_holder(self.data_dir())
        complaint = self._confirm_silence()
        if not complaint:
            return  # it has gone by itself
        if holder is None:
            raise WorkerSilent(f"what listens on {self.socket()} does not answer and is not known as our worker")
        if holder.is_starting:
            raise WorkerSilent("the worker is still starting")
        self._end(holder, complaint)

    def _confirm_silence(self) -> str:
        """What the worker is to be ended for, "" when there is none any more. Raises WorkerSilent when it is busy."""
        try:
            self._client.get(HEALTH, self._patience.health_seconds)
        except WorkerSilent:
            return "the worker answered neither handshakes nor /health"
        except WorkerStranger:
            raise
        except WorkerUnreachable:
            return ""
        except ProviderError:
            pass  # an answer all the same
        self._silent_since = self._silent_since or time.monotonic()
        if time.monotonic() - self._silent_since < STUCK_SECONDS:
            raise WorkerSilent("the worker is busy and does not take requests in time")
        return f"the worker took no request for {STUCK_SECONDS:.0f} s"

    def _await_holder(self) -> HelloResponse | None:
        """Nobody listens. A worker that is just starting or leaving gets its time; one that can never be reached again,
        because its socket is gone, is ended."""
        until = time.monotonic() + self._patience.leave_seconds
        while (holder := find_holder(self.data_dir())) is not None:
            try:
                return self.say_hello()
            except (WorkerSilent, WorkerStranger):
                raise
            except WorkerUnreachable as error:
                if time.monotonic() > until and holder.is_starting:
                    raise WorkerUnreachable("the worker is still starting") from error
            if time.monotonic() > until:
                self._end(holder, f"the worker did not listen on {self.socket()}")
                return None
            self._pause(until + self._patience.kill_seconds, "the data directory is not given free")
        return None

    def _end(self, holder: Holder, complaint: str) -> None:
        logger.warning("memory_tencentdb: %s; ending process %d", complaint, holder.pid)
        self._client.close()
        seconds = (self._patience.term_seconds, self._patience.kill_seconds)
        if not end_holder(self.data_dir(), holder, *seconds, launch.collect_children):
            raise WorkerUnreachable(f"{complaint}, and process {holder.pid} cannot be ended")
        self._starts().note_crash(time.time(), None, complaint, launch.log_lines(self.home))

    def _spawn(self, until: float) -> HelloResponse:
        command = launch.run_command()
        if command is None:
            raise SpawnFailed(f"no worker is installed: {launch.how_to_install()}, or set MEMORY_TENCENTDB_WORKER_CMD")
        starts = self._starts()
        self._note_former_end(starts)
        starts.check(time.time(), launch.settings_changed_at(self.home))
        starts.note_start(time.time())
        mark = launch.output_size(self.home)
        try:
            child = launch.spawn_worker(self.home, command)
        except OSError as error:
            raise SpawnFailed(f"the worker cannot be started with {command[0]}: {error}") from error
        logger.info("memory_tencentdb: started worker %d for %s", child.pid, self.home)
        while True:
            try:
                return self.say_hello()
            except WorkerStranger:
                raise
            except WorkerUnreachable as error:
                self._check_child(child, mark, error)
            self._pause(until, "the worker did not answer in time after its start")

    def _note_former_end(self, starts: Starts) -> None:
        """A worker that leaves as it should says so in its lock's file; one that did not has crashed."""
        former = read_holder(self.data_dir())
        if former is None or former.state == ENDED or former.exists():
            return
        crash = starts.last_crash()
        if crash is None or crash.at < former.since:
            code = launch.exit_code_of(former.pid)
            starts.note_crash(time.time(), code, launch.describe_exit(code), launch.log_lines(self.home))

    def _check_child(self, child: subprocess.Popen[bytes], mark: int, error: ProviderError) -> None:
        """Raises SpawnFailed when the new worker has ended. One that found another in its place leaves that one the
        time that is left."""
        code = child.poll()
        if code is None or (code == EXIT_OCCUPIED and find_holder(self.data_dir()) is not None):
            return
        ended = "the worker's command ended at once, with exit code 0, and no worker runs"
        reason = ended if code == EXIT_OCCUPIED else launch.describe_exit(code)
        lines = launch.last_lines(self.home, mark)
        crash = self._starts().note_crash(time.time(), code, reason, lines)
        raise SpawnFailed(crash.describe(), code) from error

    def _pause(self, until: float, complaint: str) -> None:
        if self._stopping.wait(POLL_SECONDS):
            raise WorkerUnreachable("the provider is shutting down")
        if time.monotonic() > until:
            raise WorkerUnreachable(complaint)

    # -------------------------------------------------------------------------------------------------- versions

    def _may_replace(self, hello: HelloResponse) -> bool:
        pair = f"{hello.protocol}/{hello.version} by {PROTOCOL}/{VERSION}"
        return self._starts().may_replace(pair, time.time())

    def _stop_worker(self, hello: HelloResponse) -> None:
        logger.info(
            "memory_tencentdb: worker %d is version %s, replacing it with %s", hello.pid, hello.version, VERSION
        )
        self._client.post(STOP, {}, STOP_SECONDS)
        self._client.close()
        until = time.monotonic() + self._patience.leave_seconds
        socket = self.socket()
        while listens(socket, POLL_SECONDS):
            self._pause(until, f"the older worker {hello.pid} did not stop")

    def _check_version(self, hello: HelloResponse) -> HelloResponse:
        if hello.protocol != PROTOCOL:
            newer = hello.protocol > PROTOCOL
            advice = "is newer than this plugin: update the plugin" if newer else "is too old: run install.sh"
            raise WorkerStranger(f"the worker ({hello.version}; this plugin is {VERSION}) {advice}")
        return hello

    def _starts(self) -> Starts:
        return Starts(self.data_dir())


def _is_older(hello: HelloResponse) -> bool:
    return (hello.protocol, _version_key(hello.version)) < (PROTOCOL, _version_key(VERSION))


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
