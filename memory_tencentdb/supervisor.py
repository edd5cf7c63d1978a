"""Finds the worker of one home, or starts it, and makes sure that it is the right one before anything is said to it."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import launch
from .client import Client
from .errors import ProviderError, SpawnFailed, WorkerSilent, WorkerStranger, WorkerUnreachable
from .locks import LockFile
from .paths import data_dir_key, default_data_dir, private_dir, runtime_dir, socket_path, user_id
from .protocol import HELLO, PROTOCOL, STOP, VERSION

if TYPE_CHECKING:
    import subprocess

    from .wire import HelloResponse, HostModel

logger = logging.getLogger(__name__)

HELLO_SECONDS = 2.0
START_SECONDS = 30.0
POLL_SECONDS = 0.05
STOP_SECONDS = 10.0
STARTS = 3
STARTS_WINDOW_SECONDS = 60.0
COOL_DOWN_SECONDS = 60.0
REPLACE_AGAIN_SECONDS = 3600.0
"""One upgrade replaces a worker once; when the new start brings up the old version again (only the provider was
upgraded), it is not stopped at every session (trap B10)."""
EXIT_ALREADY_RUNNING = 0
EXIT_CONFIGURATION = 3
HELD_SECONDS = 5.0


class Supervisor:
    """One per provider instance; instances and processes agree through a kernel lock and a small record of starts."""

    def __init__(self, home: Path, stopping: threading.Event) -> None:
        self.home = home
        self._stopping = stopping
        self._client = Client(self.socket)

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
        """A worker that has said hello. Starts one when nobody listens; never beside one that is there but silent.

        Raises WorkerStranger, WorkerSilent, SpawnFailed or another ProviderError.
        """
        launch.collect_children()
        try:
            private_dir(self.home)
            hello = self._check_version(self._connect(may_start))
            return self.say_hello(host_model) if host_model else hello  # the key is for a known worker only
        except ProviderError:
            self._client.close()  # no kept connection leads to a worker that was found wanting
            raise
        except OSError as error:
            raise WorkerUnreachable(f"the home {self.home} cannot be used: {error}") from error

    def say_hello(self, host_model: HostModel | None = None) -> HelloResponse:
        from dataclasses import asdict

        from .wire import HelloRequest, HelloResponse, decode

        request = HelloRequest(PROTOCOL, VERSION, "provider", host_model)
        answer = self._client.post(HELLO, asdict(request), HELLO_SECONDS)
        try:
            hello = decode(HelloResponse, answer)
        except TypeError as error:
            raise WorkerStranger(f"what answers on {self.socket()} is not our worker") from error
        if data_dir_key(Path(hello.data_dir)) != data_dir_key(self.data_dir()) or hello.uid != user_id():
            raise WorkerStranger(
                f"what answers on {self.socket()} serves {hello.data_dir} for user {hello.uid}, "
                f"not {self.data_dir()} for user {user_id()}"
            )
        return hello

    def _connect(self, may_start: bool) -> HelloResponse:
        try:
            hello = self.say_hello()
        except (WorkerSilent, WorkerStranger):
            raise
        except WorkerUnreachable:
            if not may_start:
                raise
            return self._start()
        if _is_older(hello) and self._may_replace(hello):
            self._stop_worker(hello)
            return self._start()
        return hello

    def _start(self) -> HelloResponse:
        """Spawns under the start lock. Whoever waits for the lock finds the worker that its holder has started."""
        with LockFile(runtime_dir() / f"{data_dir_key(self.data_dir())}.start.lock") as start_lock:
            until = time.monotonic() + START_SECONDS
            while not start_lock.acquire():
                self._pause(until, "another process is starting the worker")
            try:
                return self.say_hello()
            except (WorkerSilent, WorkerStranger):
                raise
            except WorkerUnreachable:
                return self._spawn(until)

    def _spawn(self, until: float) -> HelloResponse:
        command = launch.run_command()
        if command is None:
            raise SpawnFailed("no worker is installed: run install.sh, or set MEMORY_TENCENTDB_WORKER_CMD")
        self._spend_start()
        mark = launch.output_size(self.home)
        try:
            child = launch.spawn_worker(self.home, command)
        except OSError as error:
            raise SpawnFailed(f"the worker cannot be started with {command[0]}: {error}") from error
        logger.info("memory_tencentdb: started worker %d for %s", child.pid, self.home)
        held_until = 0.0
        while True:
            try:
                return self.say_hello()
            except WorkerStranger:
                raise
            except WorkerUnreachable as error:
                held_until = self._check_child(child, mark, held_until, error)
            self._pause(until, "the worker did not answer in time after its start")

    def _check_child(self, child: subprocess.Popen[bytes], mark: int, held_until: float, error: ProviderError) -> float:
        """Looks whether the new worker has ended. One that found another worker in place leaves that one some time."""
        code = child.poll()
        if code is None:
            return held_until
        if code == EXIT_ALREADY_RUNNING:
            if held_until and time.monotonic() > held_until:
                raise WorkerUnreachable(f"another worker holds {self.data_dir()} but does not answer") from error
            return held_until or time.monotonic() + HELD_SECONDS
        reason = launch.last_words(self.home, mark)
        raise SpawnFailed(f"the worker ended with exit code {code}: {reason or 'it said nothing'}", code) from error

    def _pause(self, until: float, complaint: str) -> None:
        if self._stopping.wait(POLL_SECONDS):
            raise WorkerUnreachable("the provider is shutting down")
        if time.monotonic() > until:
            raise WorkerUnreachable(complaint)

    def _stop_worker(self, hello: HelloResponse) -> None:
        logger.info(
            "memory_tencentdb: worker %d is version %s, replacing it with %s", hello.pid, hello.version, VERSION
        )
        self._client.post(STOP, {}, HELLO_SECONDS)
        self._client.close()
        until = time.monotonic() + STOP_SECONDS
        socket = self.socket()
        while _listens(socket):
            self._pause(until, f"the older worker {hello.pid} did not stop")

    def _check_version(self, hello: HelloResponse) -> HelloResponse:
        if hello.protocol != PROTOCOL:
            newer = hello.protocol > PROTOCOL
            advice = "is newer than this plugin: update the plugin" if newer else "is too old: run install.sh"
            raise WorkerStranger(f"the worker ({hello.version}; this plugin is {VERSION}) {advice}")
        return hello

    # ------------------------------------------------------------------------------------------ record of starts

    def _spend_start(self) -> None:
        """Counts a start against the budget that all processes share, so that a worker which dies at once is not
        started over and over. Called under the start lock."""
        record = self._read_record()
        now = time.time()
        starts = [at for at in record.get("starts", []) if isinstance(at, (int, float)) and now >= at]
        rested = not starts or now - starts[-1] >= COOL_DOWN_SECONDS
        if len(starts) >= STARTS and starts[-1] - starts[-STARTS] < STARTS_WINDOW_SECONDS and not rested:
            raise SpawnFailed(
                f"the worker was started {STARTS} times within {STARTS_WINDOW_SECONDS:.0f} s and is given a rest of "
                f"{COOL_DOWN_SECONDS:.0f} s; see {self.home / 'logs'}"
            )
        self._write_record(record | {"starts": [*starts, now][-STARTS:]})

    def _may_replace(self, hello: HelloResponse) -> bool:
        record = self._read_record()
        pair = f"{hello.protocol}/{hello.version} by {PROTOCOL}/{VERSION}"
        now = time.time()
        last = record.get("replaced", {})
        if isinstance(last, dict) and last.get("pair") == pair and 0 <= now - last.get("at", 0) < REPLACE_AGAIN_SECONDS:
            return False
        self._write_record(record | {"replaced": {"pair": pair, "at": now}, "starts": []})
        return True

    def _record_path(self) -> Path:
        return runtime_dir() / f"{data_dir_key(self.data_dir())}.starts.json"

    def _read_record(self) -> dict[str, Any]:
        try:
            record = json.loads(self._record_path().read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def _write_record(self, record: dict[str, Any]) -> None:
        path = self._record_path()
        temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(record, file)
        temporary.replace(path)


def _is_older(hello: HelloResponse) -> bool:
    return (hello.protocol, _version_key(hello.version)) < (PROTOCOL, _version_key(VERSION))


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _listens(path: Path) -> bool:
    from .client import open_socket

    try:
        link, _ = open_socket(path, POLL_SECONDS)
    except (OSError, ValueError):
        return False
    link.close()
    return True
