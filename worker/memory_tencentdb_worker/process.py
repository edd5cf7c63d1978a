"""The life of the worker process: lock, socket, log, serve, and an end that is bounded in time."""

from __future__ import annotations

import errno
import faulthandler
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

from memory_tencentdb import faults
from memory_tencentdb.paths import private_dir, socket_path
from memory_tencentdb.protocol import VERSION
from memory_tencentdb.redaction import hide_secrets
from memory_tencentdb_worker.config.settings import secret_values
from memory_tencentdb_worker.errors import AlreadyRunning, ConfigError, SchemaTooNew, StoreCorrupt, StoreError
from memory_tencentdb_worker.footing import worker_footing
from memory_tencentdb_worker.gateway import gateway_url, open_gateway
from memory_tencentdb_worker.last_exit import ASKED, IDLE, LastExit, forget_exit, leave_stuck, note_exit, read_exit
from memory_tencentdb_worker.lock import WorkerLock
from memory_tencentdb_worker.logs import WorkerLog, hide_in_tracebacks, trim_output
from memory_tencentdb_worker.modes import narrow
from memory_tencentdb_worker.places import Places
from memory_tencentdb_worker.socket_file import WorkerSocket, announce, withdraw

if TYPE_CHECKING:
    from memory_tencentdb_worker.app import Worker

logger = logging.getLogger(__name__)

DEFAULT_IDLE_SECONDS = 1800.0

DEFAULT_MAX_RSS_MB = 1024.0

STOP_LIMIT_SECONDS = 8.0
"""After this a worker that was asked to stop ends hard. Nothing is lost: what was answered is in the store, and leases
run out."""

START_AGAIN_SECONDS = 5.0

EXIT_CONFIGURATION = 3
EXIT_FAILED = 1


def run_worker(places: Places, *, await_hello_seconds: float = 0) -> int:
    """Serves until a signal, a stop request or the idle limit; returns the exit code. Ends at once, with 0, when
    another worker holds the data directory."""
    os.umask(0o077)
    faulthandler.enable()
    hide_in_tracebacks()
    try:
        _refuse_unsafe(places)
        _prepare_directories(places)
        lock = WorkerLock(places.data_dir)
    except AlreadyRunning as error:
        print(f"{error}; it is left alone", file=sys.stderr)
        return 0
    except (ConfigError, OSError) as error:
        passing = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        return _failed(error, EXIT_FAILED if passing else EXIT_CONFIGURATION)
    with ExitStack() as ending:
        ending.callback(lock.release)
        try:
            return _serve(places, lock, await_hello_seconds, ending)
        except StoreCorrupt as error:
            return _failed(_with_way_out(error, places), EXIT_CONFIGURATION)
        except (ConfigError, SchemaTooNew) as error:
            return _failed(error, EXIT_CONFIGURATION)
        except (StoreError, OSError) as error:
            return _failed(error, EXIT_FAILED)


def _serve(places: Places, lock: WorkerLock, await_hello_seconds: float, ending: ExitStack) -> int:
    """Listens first, so that callers wait in the socket's queue while the rest is being built."""
    faults.reach("worker.locked")
    listening = WorkerSocket(socket_path(places.data_dir))
    faults.reach("worker.listening")
    ending.callback(listening.close)
    log = WorkerLog(places.logs, os.environ.get("MEMORY_TENCENTDB_LOG_LEVEL", "INFO"))
    ending.callback(log.close)
    log.add_secrets(secret_values(places.loaded.config))
    _log_configuration(places)
    gateway, places = open_gateway(places, ending)
    narrow(places.home, places.data_dir)
    stop = StopSwitch()
    stop.take_signals()
    if places.announced:
        ending.callback(withdraw, announce(places.home, places.data_dir, listening.path))
    faults.reach("worker.announced")
    former = read_exit(places.logs)
    forget_exit(places.logs)

    from memory_tencentdb_worker.app import build_worker
    from memory_tencentdb_worker.service.write_path import STUCK_SECONDS, WritePath
    from memory_tencentdb_worker.serving import Activity, IdleWatch, Listener

    worker = build_worker(places, str(listening.path), _now, stop.stop, log.add_secrets, former, gateway_url(gateway))
    ending.callback(worker.close)
    begin = DelayedStart(worker.start, await_hello_seconds)
    activity = Activity(worker.app, begin.now)
    listener = Listener(activity, [listening.socket, gateway], places.loaded.config.server)
    stop.attach(listener.stop)
    limit_seconds = idle_seconds(os.environ, DEFAULT_IDLE_SECONDS if gateway is None else math.inf)

    def leave(exit_code: int, reason: str) -> None:
        stop.reason = reason
        stop.stop(exit_code)

    path = WritePath(
        worker.service.writers, places.data_dir, _positive(os.environ, "MEMORY_TENCENTDB_STUCK_SECONDS", STUCK_SECONDS)
    )

    def look() -> None:
        trim_output()
        if complaint := path.stuck():
            leave_stuck(places.logs, complaint, _now())

    idle = IdleWatch(
        activity,
        worker.working,
        limit_seconds,
        leave,
        most_bytes=most_rss_bytes(os.environ),
        measure_bytes=rss_bytes,
        lost=worker_footing(places.data_dir, lock.path, listening.path).lost,
        look=look,
    )
    ending.callback(idle.stop)
    ending.callback(begin.cancel)
    begin.arm()
    idle.start()
    logger.info("worker %s (pid %d) serves %s on %s", VERSION, os.getpid(), places.data_dir, listening.path)
    if places.announced:  # another data directory than this home's own must not take its turns
        worker.replay.start()
    worker.upkeep.start()
    lock.mark_serving()
    listener.run()
    stop.stop()
    _wind_down(worker, begin)
    _note_exit(places, LastExit(_now(), stop.reason, limit_seconds if stop.reason == IDLE else 0.0))
    return stop.exit_code


def _wind_down(worker: Worker, begin: DelayedStart) -> None:
    begin.cancel()
    worker.close()
    logger.info("worker (pid %d) ends", os.getpid())


def _note_exit(places: Places, left: LastExit) -> None:
    """Whoever finds the worker gone is told; a note that cannot be written costs only that."""
    try:
        note_exit(places.logs, left)
    except OSError as error:
        logger.warning("why the worker leaves could not be noted: %s", error)


class StopSwitch:
    """Turned by whoever comes first: a signal, `/v1/stop`, the idle limit. Sets the clock for a hard end.

    It takes no lock, because a signal may interrupt the very thread that is turning it.
    """

    def __init__(self) -> None:
        self._turned = False
        self.exit_code = 0
        self.reason = ASKED
        self._listener_stop: Callable[[], None] | None = None

    def take_signals(self) -> None:
        """For the main thread. SIGINT and SIGTERM stop; a closed terminal (SIGHUP) does too, except under nohup."""
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def attach(self, listener_stop: Callable[[], None]) -> None:
        self._listener_stop = listener_stop
        if self._turned:
            listener_stop()

    def stop(self, exit_code: int = 0) -> None:
        """The first one decides with which code the worker ends."""
        if not self._turned:
            self._turned, self.exit_code = True, exit_code
            faulthandler.dump_traceback_later(STOP_LIMIT_SECONDS, exit=True)  # says on stderr where it hung
        if self._listener_stop is not None:
            self._listener_stop()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.stop()


class DelayedStart:
    """Starts the pipeline once: at the first handshake, which may bring the host's model, or after some seconds. A
    store that cannot be written then is tried again until it can."""

    def __init__(
        self, start: Callable[[], None], wait_seconds: float, again_seconds: float = START_AGAIN_SECONDS
    ) -> None:
        self._start, self._wait_seconds, self._again_seconds = start, max(wait_seconds, 0.0), again_seconds
        self._go = threading.Event()
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="pipeline-start", daemon=True)

    def arm(self) -> None:
        self._thread.start()

    def now(self) -> None:
        self._go.set()

    def cancel(self) -> None:
        """After this the pipeline is started already or never will be. Safe to call twice."""
        self._cancelled.set()
        self._go.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _wait(self) -> None:
        self._go.wait(self._wait_seconds)
        while not self._cancelled.is_set():
            try:
                self._start()
            except StoreError as error:
                logger.warning("the pipeline cannot start yet: %s", error)
                self._cancelled.wait(self._again_seconds)
            else:
                return


def idle_seconds(env: Mapping[str, str], default: float = DEFAULT_IDLE_SECONDS) -> float:
    """A gateway has clients that come when they like and start nothing: it stays, unless the variable says how long."""
    return _positive(env, "MEMORY_TENCENTDB_IDLE_SECONDS", default)


def most_rss_bytes(env: Mapping[str, str]) -> int:
    return int(_positive(env, "MEMORY_TENCENTDB_MAX_RSS_MB", DEFAULT_MAX_RSS_MB) * 1024 * 1024)


def rss_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _positive(env: Mapping[str, str], name: str, default: float) -> float:
    """A value that is no positive number is named in the log and not used."""
    text = env.get(name, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if 0 < number < float("inf"):
        return number
    logger.warning("%s must be a positive number; using %.0f", name, default)
    return default


def _refuse_unsafe(places: Places) -> None:
    if places.loaded.fatal:
        raise ConfigError("; ".join(places.loaded.fatal))


def _prepare_directories(places: Places) -> None:
    """Raises OSError, or ConfigError naming path and user when the directory cannot be written."""
    for folder in (places.home, places.data_dir):
        try:
            str(folder).encode("utf-8")
            private_dir(folder)
        except UnicodeEncodeError as error:
            raise ConfigError(f"{str(folder)!a} is not valid UTF-8: choose another directory") from error
        except PermissionError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{folder}: {reason} (this is user {_uid()}): choose another directory") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(
                f"{folder} cannot be written by user {_uid()}: change its mode, or that of a file system that is "
                "mounted read-only, or choose another directory"
            )


def _log_configuration(places: Places) -> None:
    logger.info("configuration: %s", places.loaded.file or "no file")
    for problem in places.loaded.errors:
        logger.warning("configuration: %s: %s; used: %s", problem.key, problem.problem, problem.used)


def _with_way_out(error: StoreCorrupt, places: Places) -> StoreCorrupt:
    from memory_tencentdb_worker.service.outside import damage_reason

    found = damage_reason(error, places.data_dir, _now())
    return StoreCorrupt(f"{found.message}. To go on: {found.action}")


def _failed(error: Exception, code: int) -> int:
    reason = hide_secrets(str(error))
    logger.error("the worker cannot start: %s", reason)
    print(f"memory-tencentdb: the worker cannot start: {reason}", file=sys.stderr)
    return code


def _uid() -> int:
    return os.getuid() if sys.platform != "win32" else 0


def _now() -> int:
    return faults.shifted(time.time_ns() // 1_000_000)
