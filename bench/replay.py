"""A replay of many turns: what it takes, what captures feel of it, and whether two kills change what comes out.

Two homes hold the same turns. In one the replay runs undisturbed; in the other the worker is killed twice on the way.
The hashes of both must be equal, and those of the memories in use before and after a rollback as well.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import fake_openai
from bench.report import percentiles, publish
from processes import FAST_PIPELINE, WorkerProcess

TOPICS = ("boats", "bridges", "gardens", "clocks", "radios", "kites", "maps", "violins")
PIPELINE = {**FAST_PIPELINE, "everyNConversations": 20, "enableWarmup": False, "l1IdleTimeoutSeconds": 600}
SESSIONS = 50
BEGINNING_MS = 1_767_225_600_000
"""When the first turn is said: the times of speech are part of what is compared."""

PATIENCE_SECONDS = 1_800.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1_000, metavar="N")
    options = parser.parse_args()
    with fake_openai.running() as endpoint, tempfile.TemporaryDirectory() as folder:
        whole = _Run(Path(folder) / "whole", endpoint, options.turns, kills=0).carried_out()
        killed = _Run(Path(folder) / "killed", endpoint, options.turns, kills=2).carried_out()
    checks = {
        "shadow of the killed one equals the undisturbed one's": whole["made"] == killed["made"],
        "in use after the switch is what was made": all(one["switched"] == one["made"] for one in (whole, killed)),
        "kept is what was in use before": all(one["kept"] == one["before"] for one in (whole, killed)),
        "in use after the rollback is what was before": all(one["back"] == one["before"] for one in (whole, killed)),
    }
    rows: list[tuple[str, object]] = [
        (f"{name}, seconds (undisturbed, killed twice)", (whole[name], killed[name]))
        for name in ("first_reading", "replay", "switch", "rollback")
    ]
    rows += [("facts, same, changed", (whole["facts"], whole["same"], whole["changed"]))]
    rows += [("calls, tokens in, tokens out", tuple(whole[name] for name in ("calls", "tokens_in", "tokens_out")))]
    rows += [("calls of the killed one", killed["calls"])]
    rows += [("capture during the replay, ms", whole["capture_ms"])]
    rows += [(name, "yes" if held else "NO") for name, held in checks.items()]
    publish("replay", rows, {"turns": options.turns, "whole": whole, "killed": killed, "held": all(checks.values())})
    if not all(checks.values()):
        raise SystemExit(1)


class _Run:
    def __init__(self, home: Path, endpoint: fake_openai.FakeEndpoint, turns: int, *, kills: int) -> None:
        self._endpoint, self._turns, self._kills = endpoint, turns, kills
        config = {
            "llm": {"baseUrl": endpoint.url, "apiKey": "none", "model": "first"},
            "memory": {"pipeline": PIPELINE},
        }
        self._worker = WorkerProcess(home, config)

    def carried_out(self) -> dict[str, Any]:
        self._worker.start()
        try:
            return self._measured()
        finally:
            self._worker.stop()

    def _measured(self) -> dict[str, Any]:
        worker, figures = self._worker, dict[str, Any]()
        begun = time.monotonic()
        for turn in range(self._turns):
            worker.capture(
                _said(turn), session=f"s{turn % SESSIONS}", turn_id=f"t{turn}", at=BEGINNING_MS + turn * 60_000
            )
        while not worker.flush(30)["idle"]:
            pass
        figures["first_reading"] = _since(begun)
        begun = time.monotonic()
        worker.post("/v1/replay", {"model": "second"})
        figures["capture_ms"] = self._captures_meanwhile() if not self._kills else None
        for kill in range(self._kills):
            self._wait(lambda part=kill + 1: self._read() >= part / (self._kills + 1), "the next kill")
            worker.kill()
            worker.start()
        self._wait(lambda: self._shadow()["state"] == "ready", "the end of the replay")
        figures["replay"] = _since(begun)
        made, diff = self._shadow(), worker.get("/v1/replay/diff").json()
        figures |= {name: made[name] for name in ("calls", "tokens_in", "tokens_out")}
        figures |= {"made": made["hash"], "before": diff["hash"], "facts": made["atoms"]}
        figures |= {name: diff["counts"][name] for name in ("same", "changed")}
        begun = time.monotonic()
        switched = worker.post("/v1/replay/switch", {}, timeout_seconds=300)
        figures |= {"switch": _since(begun), "switched": switched["hash"], "kept": switched["kept"]["hash"]}
        begun = time.monotonic()
        back = worker.post("/v1/replay/rollback", {}, timeout_seconds=300)
        figures |= {"rollback": _since(begun), "back": back["hash"]}
        return figures

    def _captures_meanwhile(self) -> dict[str, float]:
        """The answer is what a host waits for; what is said is no fact, and so no part of what is compared."""
        times: list[float] = []
        with self._worker.client() as client:
            for number in range(200):
                body = {
                    "user_content": "ok",
                    "assistant_content": "fine",
                    "session_key": "aside",
                    "turn_id": f"a{number}",
                }
                begun = time.perf_counter()
                client.post("/capture", json=body)
                times.append((time.perf_counter() - begun) * 1000)
        return percentiles(times)

    def _shadow(self) -> dict[str, Any]:
        document: dict[str, Any] = self._worker.get("/v1/replay/status").json()["shadow"]
        return document

    def _read(self) -> float:
        shadow = self._shadow()
        return float(shadow["messages_read"] / max(1, shadow["messages"]))

    @staticmethod
    def _wait(condition: Any, what: str) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > until:
                raise SystemExit(f"waited in vain for {what}")
            threading.Event().wait(0.1)


def _said(turn: int) -> str:
    return f"I keep {turn + 2} old {TOPICS[turn % len(TOPICS)]} in house number {turn}."


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 2)


if __name__ == "__main__":
    main()
