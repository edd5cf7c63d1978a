"""`hermes memory setup memory_tencentdb`: which model reads the conversations, then proof that it does.

Settings are changed by the worker's own `config set`, the host's configuration by the installer's editor: one way each,
so that comments, form and backups are kept whoever changes something.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from . import launch
from .errors import ProviderError
from .host_model import find_host_model
from .paths import home_under_hermes
from .protocol import CHECK
from .supervisor import Supervisor

FIELDS: tuple[dict[str, Any], ...] = (
    {"key": "llm_base_url", "description": "Base URL of the extraction model (empty: the host's own model)"},
    {"key": "llm_model", "description": "Name of the extraction model (empty: the host's own model)"},
    {
        "key": "llm_api_key",
        "description": "API key of the extraction model (empty: none needed)",
        "secret": True,
        "env_var": "TDAI_LLM_API_KEY",
    },
)
_SETTING_OF = {"llm_base_url": "llm.baseUrl", "llm_model": "llm.model"}
_KEY_VARIABLE = "TDAI_LLM_API_KEY"

COMMAND_SECONDS = 60
CHECK_SECONDS = 120.0
"""The first question to a model also loads the lane."""

INTRODUCTION = """
  memory_tencentdb keeps what is said on this machine, and finds it again.

  Who turns conversations into memories?
    1  the model this Hermes uses (nothing to set up)
    2  another model: any OpenAI-compatible endpoint
    3  no model at all, not this Hermes' either: every word is kept, facts are found with rules
"""


def run_wizard(hermes_home: str, config: dict[str, Any]) -> None:
    """Asks only when a person is there to answer; activates the provider in the host's configuration either way."""
    home = home_under_hermes(hermes_home)
    print(INTRODUCTION)
    changed = False
    if sys.stdin.isatty():
        try:
            changed = _choose_model(_ask("Which one?", "1"), home, Path(hermes_home))
        except ProviderError as error:
            print(f"  {error}")
    _activate(config, Path(hermes_home))
    if changed:  # a running worker has read the former settings
        _run_quietly(home, "stop")
    _check_worker(home)


def save_values(values: dict[str, Any], home: Path) -> None:
    """Writes the picker's values into the configuration file of the home. Raises ProviderError when they are refused,
    or the file cannot be read: it is then left as it is."""
    _set(home, {_SETTING_OF[key]: str(value) for key, value in values.items() if key in _SETTING_OF and value})


def _choose_model(choice: str, home: Path, hermes_home: Path) -> bool:
    """Whether something was changed. Raises ProviderError."""
    if choice == "3":
        return _set(home, {"llm.offline": "true"})
    if choice != "2":
        return _set(home, {"llm.offline": "false", "llm.model": "", "llm.baseUrl": ""})
    base_url, model = _ask("Base URL", "https://api.openai.com/v1"), _ask("Model", "gpt-4o-mini")
    key = _ask_secret("API key (empty: none, or the one that is set already)")
    if key:
        _write_env(hermes_home, key)
    return _set(home, {"llm.offline": "false", "llm.model": model, "llm.baseUrl": base_url}) or bool(key)


def _set(home: Path, wanted: dict[str, str]) -> bool:
    """Writes what differs from what is in force; whether there was any. Raises ProviderError."""
    if not wanted:
        return False
    known = json.loads(_run(home, "config", "show", "--json"))
    differing = {key: value for key, value in wanted.items() if _in_force(known, key) != value}
    for key, value in differing.items():
        _run(home, "config", "set", key, value)
        print(f"  {key} is now {value or 'empty'}.")
    return bool(differing)


def _in_force(known: dict[str, Any], key: str) -> str:
    node: Any = known
    for part in key.split("."):
        node = node[part]
    return json.dumps(node["value"]) if isinstance(node["value"], bool) else str(node["value"])


def _run(home: Path, *words: str) -> str:
    """What the worker's command prints. Raises ProviderError with its complaint."""
    command = launch.command_line()
    if command is None:
        raise ProviderError(f"no worker is installed: {launch.how_to_install()}")
    return _output([*command, *words, "--home", str(home)])


def _run_quietly(home: Path, *words: str) -> None:
    try:
        _run(home, *words)
    except ProviderError as error:
        print(f"  {error}")


def _output(line: list[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - our own command, no shell
            line, env=launch.worker_environment(), capture_output=True, encoding="utf-8", errors="replace",
            timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProviderError(f"the worker's command cannot be run: {error}") from error
    if done.returncode:
        raise ProviderError(done.stderr.strip() or f"the worker's command ended with {done.returncode}")
    return done.stdout


def _write_env(hermes_home: Path, key: str) -> None:
    """The key goes where the host keeps its secrets, and to the worker that is about to be started."""
    os.environ[_KEY_VARIABLE] = key
    try:
        from hermes_cli.config import save_env_value
    except ImportError:
        print(f"  Put this line into {hermes_home / '.env'} yourself: {_KEY_VARIABLE}=...")
        return
    save_env_value(_KEY_VARIABLE, key)
    print(f"  The key is kept in {hermes_home / '.env'}.")


def _activate(config: dict[str, Any], hermes_home: Path) -> None:
    memory = config.get("memory")
    config["memory"] = {**(memory if isinstance(memory, dict) else {}), "provider": "memory_tencentdb"}
    interpreter = launch.find_interpreter()
    if interpreter is None:
        print(f"  No worker is installed: {launch.how_to_install()} --enable")
        return
    editor = [interpreter, "-m", "memory_tencentdb_worker.shipping.hermes_config", "enable"]
    try:
        print(f"  {_output([*editor, str(hermes_home / 'config.yaml')]).strip()}")
    except ProviderError as error:
        print(f"  {error}\n  Set memory.provider to memory_tencentdb there yourself.")


def _check_worker(home: Path) -> None:
    supervisor = Supervisor(home, threading.Event())
    try:
        hello = supervisor.connect(find_host_model())
        print(f"  The worker runs (version {hello.version}, data in {hello.data_dir}).")
        for part in ("llm", "embedding"):
            print(f"  {_answer_of(supervisor, part)}")
        print("  Start a new session.\n")
    except ProviderError as error:
        print(f"  The worker does not do its work yet: {error}")
        print(f"  Details are in {home / 'logs'}; turns are kept in the meantime.\n")
    finally:
        supervisor.client.close()


def _answer_of(supervisor: Supervisor, part: str) -> str:
    """Asked once, so that a wrong key or address is seen now and not in a day. Raises ProviderError."""
    answer = supervisor.client.post(CHECK.format(part=part), {}, CHECK_SECONDS)
    if not answer.get("asked"):
        return "No model is used: facts are found with rules." if part == "llm" else "Search is by words (no embedder)."
    name = f"{'Model' if part == 'llm' else 'Embedder'} {answer.get('model')}"
    where = f" at {answer['endpoint']}" if answer.get("endpoint") else ""
    return f"{name}{where} answers." if answer.get("answers") else f"{name}{where} does NOT answer: {answer['error']}"


def _ask(question: str, default: str) -> str:
    try:
        return input(f"  {question} [{default}]: ").strip() or default
    except EOFError:
        return default


def _ask_secret(question: str) -> str:
    import getpass

    try:
        return getpass.getpass(f"  {question}: ").strip()
    except EOFError:
        return ""
