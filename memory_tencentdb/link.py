"""The provider's line to its worker: one thread connects and replays, everybody else only waits within a deadline."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .breaker import Breaker
from .errors import (
    OutboxFull,
    ProviderError,
    RequestRefused,
    SpawnFailed,
    WorkerSilent,
    WorkerTrouble,
    WorkerUnreachable,
)
from .outbox import NOT_ACCEPTED, Outbox
from .starts import EXIT_CONFIGURATION
from .supervisor import Supervisor

if TYPE_CHECKING:
    from .wire import HostModel

logger = logging.getLogger(__name__)

WATCH_SECONDS = 10.0
IDLE_SECONDS = 60.0
"""Nobody tells a provider of the API server that it is no longer needed: its thread ends by itself
when it was not used for so long, whatever still waits in the outbox; the next call starts it again, and the worker
takes over what nobody delivers."""
QUIET_SECONDS = 5.0
"""After a failed attempt to connect nobody waits for another one during this time."""
DELIVER_SECONDS = 0.1
"""A capture takes milliseconds. One that takes longer goes to the outbox too, which the turn id makes harmless; the
thread finds out whether the worker is slow or frozen, and nobody waits for that (trap B111)."""
LAST_RESORT_SECONDS = 2.0
REPLAY_SECONDS = 2.0
RETRY_LEAVES_SECONDS = 0.05

UNKNOWN, CONNECTING, READY, AWAY = "unknown", "connecting", "ready", "away"


class Link:
    """States: unknown (nothing tried yet, or the worker has left) -> connecting -> ready or away (with a reason)."""

    def __init__(
        self,
        supervisor: Supervisor,
        outbox: Outbox,
        stopping: threading.Event,
        find_model: Callable[[], HostModel | None],
        breaker: Breaker | None = None,
        *,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.outbox = outbox
        self.breaker = breaker or Breaker()
        self._supervisor, self._stopping, self._find_model = supervisor, stopping, find_model
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._state, self._reason = UNKNOWN, ""
        self._failed_at: float | None = None
        self._suspected = False  # of being frozen: looked into at once, whatever the pause between two attempts
        self._looked_at = -QUIET_SECONDS
        self._misconfigured = False  # the worker has refused to start: only a person can help, who then starts it

    @property
    def reason(self) -> str:
        """Why the worker is away, "" when it is not or nothing is known yet."""
        with self._changed:
            return self._reason if self._state == AWAY else ""

    @property
    def is_ready(self) -> bool:
        with self._changed:
            return self._state == READY

    def wake(self) -> None:
        """Lets the thread look after the line now; starts it when it has ended."""
        with self._changed:
            if self._stopping.is_set():
                return
            self._woken.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-tencentdb-link", daemon=True)
                self._thread.start()

    def stop(self, seconds: float) -> None:
        """Ends the thread. The worker goes on: it serves other hosts and leaves by its own idle limit."""
        with self._changed:
            self._stopping.set()
            self._woken.set()
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
        self._supervisor.client.close()

    def wait_ready(self, seconds: float) -> bool:
        """Whether the worker can be asked, waiting while it is being connected; not, when that has just failed."""
        until = time.monotonic() + seconds
        with self._changed:
            if self._state == READY:
                return True
            if self._stopping.is_set() or self._is_quiet():
                return False
            if self._state != CONNECTING:
                self._state = CONNECTING  # what was found before is out of date from here on
            self.wake()
            self._changed.wait_for(self._is_settled, max(until - time.monotonic(), 0))
            return self._state == READY

    def ask(self, route: str, body: dict[str, Any], seconds: float, *, method: str = "POST") -> dict[str, Any]:
        """One request within `seconds`, waiting for the worker included. Raises a ProviderError, at once while the
        breaker is open. A worker that has left meanwhile is started again and asked once more."""
        until = time.monotonic() + seconds
        if not self.breaker.allow():
            raise WorkerUnreachable("the worker has failed several times in a row and is left alone for a while")
        try:
            answer = self._ask(method, route, body, until)
        except (WorkerUnreachable, WorkerTrouble):
            self.breaker.fail()
            raise
        except RequestRefused:
            self.breaker.succeed()
            raise
        self.breaker.succeed()
        return answer

    def deliver(self, route: str, body: dict[str, Any], line_id: str, now: int) -> None:
        """Durable when it returns: with the worker, or in the outbox. Never overtakes what waits in the outbox.

        Raises OutboxFull when neither takes it.
        """
        may_go = self.is_ready and not self.breaker.is_open and not self.outbox.pending()
        if may_go and self._deliver_now(route, body, line_id, DELIVER_SECONDS):
            return
        try:
            self.outbox.append(line_id, route, body, now)
        except OutboxFull:
            if not self._deliver_now(route, body, line_id, LAST_RESORT_SECONDS):
                raise
        finally:
            self.wake()

    def drain(self, seconds: float) -> None:
        """Tries to empty the outbox before the provider leaves; what stays is replayed by the next provider."""
        until = time.monotonic() + seconds
        if not self.outbox.pending() or not self.wait_ready(seconds):
            return
        self._replay(lambda: time.monotonic() < until)

    def _deliver_now(self, route: str, body: dict[str, Any], line_id: str, seconds: float) -> bool:
        """True when the worker has it, or has refused it for good and it was set aside."""
        try:
            self._supervisor.client.post(route, body, seconds)
        except RequestRefused as error:
            if error.status in NOT_ACCEPTED:
                return False
            self.outbox.set_aside(line_id, route, body, str(error))
        except WorkerSilent:
            return False
        except (WorkerUnreachable, WorkerTrouble) as error:
            self.breaker.fail()
            self._lose(error)
            return False
        self.breaker.succeed()
        return True

    def _ask(self, method: str, route: str, body: dict[str, Any], until: float) -> dict[str, Any]:
        try:
            return self._ask_once(method, route, body, until)
        except WorkerUnreachable as error:
            if not self._lose(error) or until - time.monotonic() < RETRY_LEAVES_SECONDS:
                raise
        return self._ask_once(method, route, body, until)

    def _ask_once(self, method: str, route: str, body: dict[str, Any], until: float) -> dict[str, Any]:
        left = until - time.monotonic()
        if left <= 0 or not self.wait_ready(left):
            raise WorkerUnreachable(self.reason or "the worker is not ready yet")
        left = max(until - time.monotonic(), 0.001)
        client = self._supervisor.client
        return client.get(route, left) if method == "GET" else client.post(route, body, left)

    def _lose(self, error: ProviderError) -> bool:
        """A request has failed: what is known of the worker may no longer hold. True when the worker has left and may
        be started again; not when it is silent, in trouble (it is there), or was away before."""
        with self._changed:
            if isinstance(error, WorkerSilent):
                self._set(AWAY, str(error))
                self._suspected = time.monotonic() - self._looked_at > QUIET_SECONDS
                if threading.current_thread() is not self._thread:
                    self.wake()
            elif isinstance(error, WorkerUnreachable) and self._state == READY:
                self._set(UNKNOWN, "")
                return True
            return False

    def _set(self, state: str, reason: str) -> None:
        with self._changed:
            self._state, self._reason = state, reason
            self._failed_at = time.monotonic() if state == AWAY else None
            self._suspected &= state != READY  # a request that gave up while the worker was being replaced is old news
            self._changed.notify_all()

    def _is_settled(self) -> bool:
        return self._state != CONNECTING or self._stopping.is_set()

    def _is_quiet(self) -> bool:
        failed_at = self._failed_at if self._state == AWAY else None
        return failed_at is not None and time.monotonic() - failed_at < QUIET_SECONDS

    # ------------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        used_at = time.monotonic()
        while not self._stopping.is_set():
            if self._woken.is_set():
                used_at = time.monotonic()
            self._woken.clear()
            try:
                self._tend()
            except Exception:  # top of a thread: it must go on, and say what happened
                logger.exception("memory_tencentdb: the connection to the worker failed unexpectedly")
                self._set(AWAY, "internal error, see the log")
            if time.monotonic() - used_at > self._idle_seconds and self._end_thread():
                return
            if not self._suspected:
                self._woken.wait(min(WATCH_SECONDS, self._idle_seconds))

    def _end_thread(self) -> bool:
        with self._changed:
            if self._woken.is_set():
                return False
            self._thread = None
        self._supervisor.client.close()  # a provider that nobody uses keeps no descriptor open
        return True

    def _tend(self) -> None:
        """Connects and replays; in good times it provides for bad ones."""
        if not self.is_ready and (self._suspected or not self._is_quiet()):
            self._connect()
        if self.is_ready and self.outbox.pending():
            self._replay(lambda: not self._stopping.is_set())
        elif self.is_ready:
            self._hold_reserve()

    def _hold_reserve(self) -> None:
        try:
            self.outbox.hold_reserve()
        except OSError as error:
            logger.debug("memory_tencentdb: no space can be reserved for waiting turns: %s", error)

    def _connect(self) -> None:
        """While a silent worker is looked into, nobody waits: that takes seconds."""
        with self._changed:
            suspected, self._suspected = self._suspected, False
            if not suspected:
                self._set(CONNECTING, "")
        try:
            self._supervisor.connect(self._find_model(), may_start=not self._misconfigured)
        except ProviderError as error:
            self._misconfigured |= isinstance(error, SpawnFailed) and error.exit_code == EXIT_CONFIGURATION
            if not self._stopping.is_set():
                logger.warning("memory_tencentdb: no worker: %s", error)
            self._set(AWAY, str(error))
        else:
            self._misconfigured = False
            self.breaker.succeed()
            self._set(READY, "")
        if suspected:
            self._looked_at = time.monotonic()

    def _replay(self, go_on: Callable[[], bool]) -> None:
        try:
            delivered = self.outbox.replay(self._send, go_on)
        except ProviderError as error:
            logger.warning("memory_tencentdb: the outbox waits: %s", error)
            self._lose(error)
        except OSError as error:
            logger.warning("memory_tencentdb: the outbox cannot be read: %s", error)
        else:
            if delivered:
                logger.info("memory_tencentdb: %d kept turns delivered", delivered)

    def _send(self, route: str, body: dict[str, Any]) -> None:
        self._supervisor.client.post(route, body, REPLAY_SECONDS)
