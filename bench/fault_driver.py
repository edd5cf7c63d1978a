"""The host's side of one run of the kill matrix: a process with real providers that captures and recalls at once.

It is told what to do by a JSON file: `folder` of the run, `threads`, `turns` of each, `seed`, `part`
("armed": wait up to `wait_seconds` for everything to be done, but end early when the fault has fired; "after": bring
everything to rest and report). Every turn whose `sync_turn` has returned is written to `acknowledged` at once: from
then on it must never be lost.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from memory_tencentdb.errors import ProviderError
from memory_tencentdb.protocol import FLUSH, STATUS, STOP
from memory_tencentdb.provider import TencentDBMemoryProvider

DIRECT_SECONDS = 3.0
REST_SECONDS = 40.0
FLUSH_STEP_SECONDS = 0.4


class Driver:
    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._folder = Path(plan["folder"])
        self._mark = self._folder / "fired"
        self._acknowledged = os.open(self._folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._done = threading.Event()
        self.providers = [self._provider(number) for number in range(plan["threads"])]

    def run(self) -> None:
        """Captures from every thread, with recalls in between, then to rest."""
        recalls = threading.Thread(target=self._recall, name="recalls", daemon=True)
        captures = [threading.Thread(target=self._capture, args=(number,)) for number in range(len(self.providers))]
        for thread in [*captures, recalls]:
            thread.start()
        for thread in captures:
            thread.join()
        self._done.set()
        recalls.join()
        if self._plan["part"] == "armed":
            self._settle_while_armed()
        else:
            self._settle()
        for provider in self.providers:
            provider.shutdown()

    def _provider(self, number: int) -> TencentDBMemoryProvider:
        provider = TencentDBMemoryProvider()
        session = f"{self._plan['part']}-{number}"
        provider.initialize(session, hermes_home=str(self._folder / "hermes"), platform="cli")
        return provider

    def _capture(self, number: int) -> None:
        provider, dice = self.providers[number], random.Random(f"{self._plan['seed']} {number}")
        for turn in range(self._plan["turns"]):
            self._take_turn(provider, f"{number}x{turn}", dice.randrange(900))
            if turn == 1:
                self._await_worker(provider._link)  # the first turns met a worker that was still starting
            time.sleep(dice.random() * 0.03)

    def _await_worker(self, link: Any) -> None:
        """Until captures go straight to the worker, or the fault keeps them from it."""
        until = time.monotonic() + DIRECT_SECONDS
        while not (link.is_ready and not link.outbox.pending()) and time.monotonic() < until and not self._fired():
            link.wait_ready(0.1)
            time.sleep(0.01)

    def _take_turn(self, provider: TencentDBMemoryProvider, name: str, box: int) -> None:
        marker = f"{self._plan['part'][:2]}{self._plan['seed']}x{name}q"
        provider.on_turn_start(0, "")
        provider.sync_turn(f"My item {marker} is kept in my box {box}.", f"Noted {marker}.")
        os.write(self._acknowledged, f"{marker}\n".encode())

    def _recall(self) -> None:
        dice = random.Random(self._plan["seed"])
        while not self._done.wait(0.01 + dice.random() * 0.03):
            self.providers[0].prefetch(f"where is my item {dice.randrange(100)}?")

    def _settle_while_armed(self) -> None:
        """Lets the whole pipeline run, once more for a late turn, and the worker leave, until the fault fires."""
        until = time.monotonic() + self._plan["wait_seconds"]
        self._rest_while_armed(until)
        if not self._fired():
            self._take_turn(self.providers[0], "late", 0)
            self._rest_while_armed(until)
        if self._fired():
            return
        self._ask(STOP, {}, 1.0)
        socket = self._link._supervisor.socket()
        while socket.exists() and not self._fired() and time.monotonic() < until + 2:
            time.sleep(0.02)

    def _rest_while_armed(self, until: float) -> None:
        while not (self._rested() or self._fired()) and time.monotonic() < until:
            pass

    def _settle(self) -> None:
        until = time.monotonic() + REST_SECONDS
        while not self._rested() and time.monotonic() < until:
            self._link.wake()
        report = {"rested": self._rested(), "waiting": self._link.outbox.pending(), "reason": self._link.reason}
        status = self._ask(STATUS, {}, 5.0, method="GET")
        (self._folder / "report.json").write_text(json.dumps(report | {"status": status}), encoding="utf-8")

    def _rested(self) -> bool:
        """The outbox is empty and nothing is due in any layer."""
        if self._link.outbox.pending():
            self._link.wake()
            time.sleep(0.03)
            return False
        answer = self._ask(FLUSH, {"wait_seconds": FLUSH_STEP_SECONDS, "parked": self._plan["flush_parked"]}, 5.0)
        if not answer:
            time.sleep(0.05)
        return bool(answer.get("idle"))

    def _ask(self, route: str, body: dict[str, Any], seconds: float, *, method: str = "POST") -> dict[str, Any]:
        try:
            return self._link.ask(route, body, seconds, method=method)
        except ProviderError:
            return {}

    def _fired(self) -> bool:
        return self._mark.exists()

    @property
    def _link(self) -> Any:
        return self.providers[0]._link


def main() -> None:
    Driver(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).run()
