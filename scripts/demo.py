"""The demonstration behind `scripts/demo`: three short conversations, then three questions in a new session.

Every part is the real one: the provider that Hermes loads, the worker it starts, SQLite, the schedule. Only the host is
played by this script. Ends with 0 when every expected fact was recalled, else with 1 and the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_tencentdb.provider import TencentDBMemoryProvider

CONVERSATIONS = Path(__file__).with_name("demo_conversations.json")
OFFLINE_WAIT_SECONDS, MODEL_WAIT_SECONDS = 60, 600
MEMORY_ID = re.compile(r"\b(?:m|l0)_[0-9a-f]{16}\b")
TIMED_OUT, DEGRADED = 5, 6
"""Exit codes of `memory-tencentdb`."""
BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


class DemoError(Exception):
    """What was promised did not happen."""


@dataclass(frozen=True)
class Stage:
    """Where the demonstration plays: a host's home of its own, so that nothing of yours is touched."""

    hermes_home: Path
    wait_seconds: int

    @property
    def home(self) -> Path:
        return self.hermes_home / "memory_tencentdb"

    def command(self, *words: str, accepted: tuple[int, ...] = (0,)) -> dict[str, Any]:
        """Runs `memory-tencentdb WORDS --json` and returns its document."""
        line = [sys.executable, "-m", "memory_tencentdb_worker", *words, "--home", str(self.home), "--json"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=self.wait_seconds + 30, check=False)  # noqa: S603 - our own command
        if done.returncode not in accepted:
            raise DemoError(f"memory-tencentdb {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def main() -> int:
    options = read_options()
    script = json.loads(CONVERSATIONS.read_text("utf-8"))
    hermes_home = (
        Path(options.keep).expanduser().absolute() if options.keep else Path(tempfile.mkdtemp(prefix="memory-demo-"))
    )
    stage = Stage(hermes_home, MODEL_WAIT_SECONDS if options.llm_model else OFFLINE_WAIT_SECONDS)
    set_the_stage(stage, options)
    try:
        play(stage, script, options)
    except DemoError as failure:
        print(f"\nFAILED: {failure}", file=sys.stderr)
        return 1
    finally:
        stop_worker(stage)
        if options.keep:
            tell_what_works(stage)
        else:
            shutil.rmtree(hermes_home, ignore_errors=True)
            print("The temporary home is removed.")
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo", description="Shows the memory at work. Needs no key.")
    parser.add_argument(
        "--llm-base-url", default="", metavar="URL", help="an OpenAI-compatible endpoint; key in TDAI_LLM_API_KEY"
    )
    parser.add_argument("--llm-model", default="", metavar="NAME", help="the model there, or a litellm model name")
    parser.add_argument("--keep", default="", metavar="DIR", help="play in this directory and keep it")
    options = parser.parse_args()
    if options.llm_base_url and not options.llm_model:
        parser.error("--llm-base-url needs --llm-model")
    return options


def set_the_stage(stage: Stage, options: argparse.Namespace) -> None:
    """Settings that make the schedule hurry, and an environment without the reader's own settings."""
    key = os.environ.get("TDAI_LLM_API_KEY", "")
    for name in [name for name in os.environ if name.startswith(("TDAI_", "MEMORY_TENCENTDB_"))]:
        del os.environ[name]
    if options.llm_model and key:
        os.environ["TDAI_LLM_API_KEY"] = key
    os.environ["HERMES_HOME"] = str(stage.hermes_home)
    os.environ["MEMORY_TENCENTDB_ROOT"] = str(
        stage.hermes_home / "no-installation"
    )  # so this environment's worker is used
    os.environ["MEMORY_TENCENTDB_IDLE_SECONDS"] = "300"  # should this script be killed, its worker leaves by itself
    stage.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings: dict[str, Any] = {
        "memory": {"pipeline": {"l1IdleTimeoutSeconds": 1, "l2DelayAfterL1Seconds": 0, "l2MinIntervalSeconds": 0}}
    }
    if options.llm_model:
        settings["llm"] = {"baseUrl": options.llm_base_url, "model": options.llm_model}
    (stage.home / "config.json").write_text(json.dumps(settings, indent=2), "utf-8")


def play(stage: Stage, script: dict[str, Any], options: argparse.Namespace) -> None:
    title("memory_tencentdb: a demonstration")
    if not options.llm_model:
        print(
            "Offline mode: no model is asked; facts are taken by rules. (--llm-base-url URL --llm-model NAME uses one.)"
        )
    else:
        print(f"Facts are extracted by {options.llm_model}.")
        check_model(stage)
    started = time.monotonic()
    for session in script["sessions"]:
        hold_session(stage, session)
        show_growth(stage)
    show_layers(stage)
    title("A new session, days later: what the agent is given before it answers")
    for question in script["questions"]:
        ask(stage, question, strict=not options.llm_model)
    print(f"\nEvery expected fact was recalled, with its source. ({time.monotonic() - started:.1f} s)")


def check_model(stage: Stage) -> None:
    """A wrong address or key is better told now than after a long wait for facts."""
    stage.command("start")
    answer = stage.command("config", "llm", accepted=(0, DEGRADED))
    if not answer["answers"]:
        raise DemoError(f"the model {answer['model']} at {answer['endpoint']} does not answer: {answer['error']}")


def hold_session(stage: Stage, session: dict[str, Any]) -> None:
    """One session as Hermes holds it."""
    title(f"Session {session['name']}")
    provider = TencentDBMemoryProvider()
    provider.initialize(session_id=session["name"], hermes_home=str(stage.hermes_home), platform="cli")
    try:
        for number, (user, assistant) in enumerate(session["turns"], 1):
            provider.on_turn_start(number, user)
            given = provider.prefetch(user)
            print(f"  you    {user}")
            for line in memory_lines(given):
                print(f"  {DIM}memory {line[2:]}{PLAIN}")
            print(f"  agent  {assistant}")
            provider.sync_turn(user, assistant, session_id=session["name"])
        provider.on_session_end([])
    finally:
        provider.shutdown()


def show_growth(stage: Stage) -> None:
    """Waits until all layers are idle, then says what each holds."""
    wait_for_outbox(stage)
    flushed = stage.command("flush", "--wait", str(stage.wait_seconds), accepted=(0, TIMED_OUT))
    if not flushed["idle"]:
        told = "; ".join(reason["message"] for reason in flushed.get("reasons", ())) or "see the worker's log"
        raise DemoError(f"the layers were not finished after {stage.wait_seconds} s: {told}")
    counts = stage.command("status")["counts"]
    persona = "a persona" if counts["persona"] else "no persona yet"
    replaced = f" ({counts['superseded']} replaced by newer ones)" if counts["superseded"] else ""
    print(
        f"  {BOLD}L0{PLAIN} {counts['messages']} messages  {BOLD}L1{PLAIN} {counts['atoms']} facts{replaced}  "
        f"{BOLD}L2{PLAIN} {counts['scenes']} scenes  {BOLD}L3{PLAIN} {persona}"
        f"  {DIM}after {flushed['waited_seconds']:.1f} s{PLAIN}"
    )


def wait_for_outbox(stage: Stage) -> None:
    """On a slow machine the first turns are spoken while the worker is still starting; they come out of the outbox."""
    deadline = time.monotonic() + stage.wait_seconds
    while stage.command("status", accepted=(0, DEGRADED))["outbox"]["turns"]:
        if time.monotonic() > deadline:
            raise DemoError("the outbox was not taken up by the worker")
        time.sleep(0.3)


def show_layers(stage: Stage) -> None:
    title("L1: facts")
    for atom in stage.command("inspect", "-L", "L1", "--sort", "asc", "-l", "100")["data"]:
        mark = f"  -> replaced by {atom['supersededBy']}" if atom["supersededAt"] else ""
        print(f"  {atom['id']}  {atom['type']:<11} {atom['content']}{mark}")
    title("L2: scenes")
    for scene in stage.command("inspect", "-L", "L2")["data"]:
        lines = sum(len(section["lines"]) for section in scene["sections"])
        print(f"  {scene['filename']}  heat {scene['heat']}, {lines} lines: {scene['summary']}")
    title("L3: persona.md")
    for persona in stage.command("inspect", "-L", "L3")["data"]:
        for line in persona["content"].splitlines():
            print(f"  {line}")


def ask(stage: Stage, question: dict[str, Any], *, strict: bool) -> None:
    """Recalls in a fresh session and follows each line down to the message it came from.

    `strict`: also refuses the words of what was replaced; a model may rightly say "moved from Bergen"."""
    provider = TencentDBMemoryProvider()
    provider.initialize(session_id=f"ask {question['ask']}", hermes_home=str(stage.hermes_home), platform="cli")
    try:
        provider.on_turn_start(1, question["ask"])
        given = provider.prefetch(question["ask"])
    finally:
        provider.shutdown()
    print(f"\n  you    {BOLD}{question['ask']}{PLAIN}")
    for line in memory_lines(given):
        print(f"  memory {line[2:]}")
        for memory_id in MEMORY_ID.findall(line)[-1:]:
            show_source(stage, memory_id)
    missing = [word for word in question["expect"] if word not in given]
    wrong = [word for word in question["never"] if strict and word in given]
    if missing or wrong:
        raise DemoError(f"{question['ask']!r}: not recalled {missing}, recalled though replaced {wrong}")


def show_source(stage: Stage, memory_id: str) -> None:
    answer = stage.command("why", memory_id)
    if not answer["messages"]:
        raise DemoError(f"{memory_id} has no source")
    for message in answer["messages"]:
        proof = "hash ok" if message["hash_ok"] else "HASH DIFFERS"
        origin = (
            f"the {message['role']}, {message['at'][:16].replace('T', ' ')}, session {message['session_key']}, {proof}"
        )
        print(f"         {DIM}from {origin}:{PLAIN}\n           {DIM}{message['text']}{PLAIN}")
        if not message["hash_ok"]:
            raise DemoError(f"the source of {memory_id} has changed")


def memory_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- ")]


def stop_worker(stage: Stage) -> None:
    line = [sys.executable, "-m", "memory_tencentdb_worker", "stop", "--home", str(stage.home)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own command
    print(f"\nStopped: {(done.stdout or done.stderr).strip()}.")


def tell_what_works(stage: Stage) -> None:
    """The worker is stopped, so that it has to be started first."""
    command = str(Path(sys.executable).with_name("memory-tencentdb"))
    print(f"Kept: {stage.home}. To look into it:")
    for words in (["start"], ["inspect", "-L", "L1"], ["search", "memories", "Lisbon"], ["stop"]):
        print(f"  {shlex.join([command, *words, '--home', str(stage.home)])}")


def title(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}")


if __name__ == "__main__":
    sys.exit(main())
