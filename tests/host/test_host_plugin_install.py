"""`hermes plugins install <this repository>`: what the host finds in a clone that lies in its plug-in folder."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

ROOT = Path(__file__).resolve().parents[2]
AT_THE_ROOT = ("plugin.yaml", "__init__.py", "cli.py", "config_schema.py", "install.sh", "after-install.md")
LOOK = """
import json
from plugins.memory import load_memory_provider
from plugins.memory.config_schema import get_provider_config_schema
provider = load_memory_provider("memory_tencentdb")
schema = get_provider_config_schema("memory_tencentdb")
print(json.dumps([provider.is_available(), provider.unavailable_reason(), [field.key for field in schema.fields]]))
"""


def make_repository(folder: Path) -> Path:
    """The files the host sees, as they are now, committed or not."""
    folder.mkdir()
    for name in AT_THE_ROOT:
        shutil.copy(ROOT / name, folder)
    shutil.copytree(
        ROOT / "memory_tencentdb", folder / "memory_tencentdb", ignore=shutil.ignore_patterns("__pycache__")
    )
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    return folder


def test_a_clone_in_the_plug_in_folder_has_provider_commands_and_settings(host: Any) -> None:
    repository = make_repository(host.base / "repository")
    clone = host.hermes_home / "plugins" / "memory_tencentdb"
    clone.unlink()
    host.use_model("http://127.0.0.1:9/v1")
    shown = host.hermes("plugins", "install", f"file://{repository}", "--no-enable")
    assert "install.sh --enable" in shown
    assert (clone / "plugin.yaml").is_file()
    assert "available ✓" in host.hermes("memory", "status")
    status = subprocess.run(
        [str(Path(host.python).with_name("hermes")), "memory_tencentdb", "status", "--json"],
        env=host.environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert json.loads(status.stdout)["data_dir"] == str(host.home / "data")
    assert look(host, host.environment()) == [True, "", ["llm", "llm_api_key", "memory"]]
    without_worker = host.environment()
    del without_worker["MEMORY_TENCENTDB_WORKER_CMD"]
    available, reason, _ = look(host, without_worker)
    assert not available
    assert f"run '{clone / 'install.sh'}'" in reason


def look(host: Any, environment: dict[str, str]) -> list[Any]:
    finished = subprocess.run(
        [host.python, "-c", LOOK],
        env=environment,
        cwd=host.base,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return list(json.loads(finished.stdout.splitlines()[-1]))
