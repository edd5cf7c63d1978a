"""`hermes memory setup memory_tencentdb`: which model reads the conversations, then a check that the worker starts."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from .errors import ProviderError
from .paths import home_under_hermes, private_dir
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
_SETTING_OF = {"llm_base_url": "baseUrl", "llm_model": "model"}

INTRODUCTION = """
  memory_tencentdb keeps what is said on this machine, and finds it again.

  To turn conversations into memories it needs a language model:
    1  the model this Hermes uses (nothing to set up)
    2  a model of its own: any OpenAI-compatible endpoint
    3  none for now: the offline mode keeps every word, and finds facts with rules
       (choose 3 and the host's model is still used when there is one)
"""


def run_wizard(hermes_home: str, config: dict[str, Any]) -> None:
    """Asks only when a person is there to answer; activates the provider in the host's configuration either way."""
    home = home_under_hermes(hermes_home)
    print(INTRODUCTION)
    if sys.stdin.isatty() and _ask("Which one?", "1") == "2":
        _set_up_model(home, Path(hermes_home))
    _activate(config)
    _check_worker(home)


def save_values(values: dict[str, Any], home: Path) -> None:
    """Merges the picker's values into `config.json` of the home. Raises ProviderError when the settings are in YAML,
    which is left to the person who wrote it."""
    settings = {_SETTING_OF[key]: str(value) for key, value in values.items() if key in _SETTING_OF and value}
    if not settings:
        return
    for name in ("config.yaml", "config.yml"):
        if (home / name).exists():
            raise ProviderError(f"{home / name} exists: set llm: {json.dumps(settings)} there")
    path = private_dir(home) / "config.json"
    stored = _read_json(path)
    section = stored.get("llm")
    stored["llm"] = (section if isinstance(section, dict) else {}) | settings
    _write_private(path, json.dumps(stored, ensure_ascii=False, indent=2) + "\n")


def _set_up_model(home: Path, hermes_home: Path) -> None:
    values = {"llm_base_url": _ask("Base URL", "https://api.openai.com/v1"), "llm_model": _ask("Model", "gpt-4o-mini")}
    try:
        save_values(values, home)
    except ProviderError as error:
        print(f"  {error}")
    key = _ask_secret("API key (empty: none)")
    if key:
        _write_env(hermes_home, key)


def _write_env(hermes_home: Path, key: str) -> None:
    """The key goes where the host keeps its secrets."""
    try:
        from hermes_cli.config import save_env_value
    except ImportError:
        print(f"  Put this line into {hermes_home / '.env'} yourself: TDAI_LLM_API_KEY=...")
        return
    save_env_value("TDAI_LLM_API_KEY", key)


def _activate(config: dict[str, Any]) -> None:
    if not isinstance(config.get("memory"), dict):
        config["memory"] = {}
    config["memory"]["provider"] = "memory_tencentdb"
    try:
        from hermes_cli.config import save_config
    except ImportError:
        print("  Set memory.provider to memory_tencentdb in the host's config.yaml.")
        return
    save_config(config)
    print("  memory.provider is now memory_tencentdb.")


def _check_worker(home: Path) -> None:
    supervisor = Supervisor(home, threading.Event())
    try:
        hello = supervisor.connect(None)
    except ProviderError as error:
        print(f"  The worker does not start yet: {error}")
        print(f"  Details are in {home / 'logs'}; turns are kept in the meantime.\n")
    else:
        print(f"  The worker runs (version {hello.version}, data in {hello.data_dir}). Start a new session.\n")
    finally:
        supervisor.client.close()


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


def _read_json(path: Path) -> dict[str, Any]:
    """The stored settings. Raises ProviderError rather than overwrite a file that cannot be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ProviderError(f"{path} cannot be read and is left as it is: {error}") from error
    if not isinstance(stored, dict):
        raise ProviderError(f"{path} does not hold a JSON object and is left as it is")
    return stored


def _write_private(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
