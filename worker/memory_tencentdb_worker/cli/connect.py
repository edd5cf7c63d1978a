"""Finds the worker of a home or data directory and asks it, over its Unix socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_tencentdb import paths
from memory_tencentdb.protocol import HEALTH, HELLO, PROTOCOL, VERSION
from memory_tencentdb_worker.cli.exits import (
    CommandError,
    ConfigurationError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    WrongUseError,
)

if TYPE_CHECKING:
    import argparse

    from memory_tencentdb_worker.places import Places

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 30.0
NO_ROUTE = "there is no such route"  # every worker says so in these words: an older one cannot be told others


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class WorkerClient:
    """One request a connection: commands are short."""

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path

    def get(self, path: str, *, timeout_seconds: float = ANSWER_SECONDS) -> Any:
        return self._ask("GET", path, None, timeout_seconds)

    def post(self, path: str, body: dict[str, Any], *, timeout_seconds: float = ANSWER_SECONDS) -> Any:
        return self._ask("POST", path, body, timeout_seconds)

    def delete(self, path: str, *, timeout_seconds: float = ANSWER_SECONDS) -> Any:
        return self._ask("DELETE", path, None, timeout_seconds)

    def hello(self) -> dict[str, Any]:
        """The handshake: who answers, and for which data directory."""
        answer = self.post(HELLO, {"protocol": PROTOCOL, "version": VERSION, "client": "cli"}, timeout_seconds=5)
        return dict(answer)

    def answers(self) -> bool:
        try:
            self.get(HEALTH, timeout_seconds=CONNECT_SECONDS)
        except (UnreachableError, TimedOutError):
            return False
        except CommandError:
            return True
        return True

    def listens(self) -> bool:
        """Whether a process holds the socket, however busy or frozen it is."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(CONNECT_SECONDS)
                probe.connect(str(self.socket_path))
        except OSError:
            return False
        return True

    def peer_pid(self) -> int | None:
        """The process that listens, as the kernel knows it: true also for one that is stopped and answers nothing."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(CONNECT_SECONDS)
                probe.connect(str(self.socket_path))
                if sys.platform == "linux":
                    facts = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                    return int(struct.unpack("3i", facts)[0]) or None
                if sys.platform == "darwin":
                    local_level, local_peer_pid = 0, 2
                    return probe.getsockopt(local_level, local_peer_pid) or None
        except OSError:
            return None
        return None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout_seconds: float) -> Any:
        connection = _UnixConnection(self.socket_path, timeout_seconds)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            with contextlib.suppress(BrokenPipeError):  # a body that is refused while it is sent: the answer says why
                connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            text = response.read()
        except TimeoutError as error:
            raise TimedOutError(f"the worker did not answer within {timeout_seconds:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"no worker answers on {self.socket_path} ({_why(error)})") from error
        finally:
            connection.close()
        return _answer(response.status, text)


@dataclass(frozen=True)
class Found:
    """Where a command's worker is, or would be."""

    home: Path | None
    data_dir: Path
    client: WorkerClient


def find_worker(args: argparse.Namespace) -> Found:
    """The quick way: an explicit data directory, or what a running worker wrote; else by the configuration."""
    explicit = args.data_dir or os.environ.get("TDAI_DATA_DIR")
    if explicit and not args.home:
        data_dir = Path(explicit).expanduser().absolute()
        client = WorkerClient(paths.socket_path(data_dir))
        if client.listens():
            return Found(None, data_dir, client)
    elif not explicit:
        announced = _announced(Path(args.home).expanduser().absolute() if args.home else paths.default_home())
        if announced is not None:
            return announced
    return by_configuration(places_of(args))


def by_configuration(places: Places) -> Found:
    written = _announcement(places.home)
    if written and written.get("data_dir") == str(places.data_dir) and written.get("socket"):
        client = WorkerClient(Path(str(written["socket"])))
        if client.listens():
            return Found(places.home, places.data_dir, client)
    return Found(places.home, places.data_dir, WorkerClient(socket_path_of(places.data_dir)))


def places_of(args: argparse.Namespace) -> Places:
    from memory_tencentdb_worker.places import find_places

    return find_places(args.home, args.data_dir, os.environ)


def socket_path_of(data_dir: Path) -> Path:
    try:
        return paths.socket_path(data_dir)
    except OSError as error:
        raise ConfigurationError(f"no private directory for the socket: {error}") from error


def _announced(home: Path) -> Found | None:
    written = _announcement(home)
    if not written or not written.get("socket") or not written.get("data_dir"):
        return None
    client = WorkerClient(Path(str(written["socket"])))
    return Found(home, Path(str(written["data_dir"])), client) if client.listens() else None


def _announcement(home: Path) -> dict[str, Any] | None:
    try:
        written = json.loads((home / "worker.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return written if isinstance(written, dict) else None


def _answer(status: int, text: bytes) -> Any:
    try:
        document = json.loads(text) if text else {}
    except ValueError as error:
        raise UnreachableError(f"what answers is not a worker of this version (status {status})") from error
    if status < 400:
        return document
    problem = document if isinstance(document, dict) else {}
    message = str(problem.get("error") or f"the worker answered {status}")
    for each in problem.get("fields") or ():
        if str(each.get("problem")) not in message:
            message += f"; {each.get('field')}: {each.get('problem')}"
    if status == 404 and message == NO_ROUTE:
        message = "the worker that runs is older than this command and does not know it: `memory-tencentdb restart`"
    code = str(problem.get("code") or "")
    if status in (400, 422):
        raise WrongUseError(message, code=code)
    raise RefusedError(message, code=code)


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
