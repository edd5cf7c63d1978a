"""`install.sh` as a person runs it: a bare environment, an odd path, a host's home that may hold anything."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
KEPT_VARIABLES = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy")
"""How this machine reaches a package registry; everything else is left out, as under `env -i`."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell script")


@dataclass(frozen=True)
class Place:
    """Where one installation goes."""

    root: Path
    hermes: Path

    @property
    def link(self) -> Path:
        return self.hermes / "plugins" / "memory_tencentdb"

    @property
    def config(self) -> Path:
        return self.hermes / "config.yaml"

    @property
    def command(self) -> Path:
        return self.root / "venv" / "bin" / "memory-tencentdb"

    @property
    def shortcut(self) -> Path:
        return self.root.parent / ".local" / "bin" / "memory-tencentdb"

    @property
    def home(self) -> Path:
        return self.hermes / "memory_tencentdb"

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT_VARIABLES)}
        return kept | {
            "HOME": str(self.root.parent), "PATH": "/usr/bin:/bin", "PYTHON": sys.executable,
            "MEMORY_TENCENTDB_ROOT": str(self.root), "HERMES_HOME": str(self.hermes),
        }  # fmt: skip

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        line = [str(CHECKOUT / "install.sh"), *arguments]
        return subprocess.run(
            line, env=self.environment(), cwd="/", capture_output=True, text=True, timeout=600, check=False
        )

    def tell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs the installed command."""
        line = [str(self.command), *words, "--home", str(self.home)]
        return subprocess.run(
            line, env=self.environment(), cwd="/", capture_output=True, text=True, timeout=60, check=False
        )


def new_place(folder: Path) -> Place:
    return Place(folder / "röot of all", folder / "the host's home")


def test_help_needs_nothing(tmp_path: Path) -> None:
    done = new_place(tmp_path).run("--help")
    assert done.returncode == 0
    assert "--uninstall" in done.stdout


@pytest.mark.parametrize("arguments", [["--what"], ["--purge"], ["--extras"]])
def test_wrong_use_is_refused_with_the_reason(tmp_path: Path, arguments: list[str]) -> None:
    done = new_place(tmp_path).run(*arguments)
    assert done.returncode == 1
    assert "install.sh:" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    place.link.mkdir(parents=True)
    (place.link / "plugin.yaml").write_text("name: memory_tencentdb\n", "utf-8")
    done = place.run("--enable")
    assert done.returncode == 1
    assert "move it away" in done.stderr
    assert (place.link / "plugin.yaml").exists()
    assert not place.root.exists()


def test_a_link_to_somewhere_else_is_left_alone(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    place.link.parent.mkdir(parents=True)
    place.link.symlink_to(tmp_path / "my own checkout")
    assert place.run().returncode == 1
    assert place.link.is_symlink()


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    (place.root / "venv").mkdir(parents=True)
    (place.root / "venv" / "diary.txt").write_text("mine", "utf-8")
    done = place.run()
    assert done.returncode == 1
    assert (place.root / "venv" / "diary.txt").read_text("utf-8") == "mine"


def test_check_says_what_is_missing(tmp_path: Path) -> None:
    done = new_place(tmp_path).run("--check")
    assert done.returncode == 6
    assert done.stdout.count("[bad]") == 3


def test_a_key_that_the_wizard_kept_goes_with_purge_and_nothing_else(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    place.hermes.mkdir()
    (place.hermes / ".env").write_text("A=1\nTDAI_LLM_API_KEY=y\nTDAI_LLM_MODEL=m\n", "utf-8")
    place.shortcut.parent.mkdir(parents=True)
    place.shortcut.write_text("somebody's own", "utf-8")
    assert place.run("--uninstall", "--purge").returncode == 0
    assert (place.hermes / ".env").read_text("utf-8") == "A=1\nTDAI_LLM_MODEL=m\n"
    assert place.shortcut.read_text("utf-8") == "somebody's own"
    assert sorted(path.name for path in place.hermes.iterdir()) == [".env"]


@pytest.mark.slow
def test_installation_upgrade_and_removal(tmp_path: Path) -> None:
    """One real installation, so that the minute of pip is paid once; each step is one promise."""
    place = new_place(tmp_path)
    place.hermes.mkdir()
    place.config.write_text("# mine\nmodel: gpt  # chosen\nmemory:\n  provider: ''\n", "utf-8")
    (place.hermes / ".env").write_text("OPENAI_API_KEY=x\nTDAI_LLM_API_KEY=y\n", "utf-8")
    place.shortcut.parent.mkdir(parents=True)

    _install_and_check(place)
    _upgrade_with_a_running_worker(place)
    _uninstall_keeps_the_memories(place)
    _purge_removes_them(place)


def _install_and_check(place: Place) -> None:
    done = place.run("--enable")
    assert done.returncode == 0, done.stderr
    assert place.config.read_text("utf-8") == "# mine\nmodel: gpt  # chosen\nmemory:\n  provider: memory_tencentdb\n"
    assert len(list(place.hermes.glob("config.yaml.bak-*"))) == 1
    assert place.link.is_symlink()
    assert (place.link / "plugin.yaml").read_text("utf-8").splitlines()[1] == "name: memory_tencentdb"
    assert "register_memory_provider" in (place.link / "__init__.py").read_text("utf-8")
    assert list((place.link.resolve().parent / "memory_tencentdb_worker" / "prompts").glob("*.md"))
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o700
    assert os.readlink(place.shortcut) == str(place.command)
    assert "is not on your PATH" in done.stdout
    printed = next(line for line in done.stdout.splitlines() if "command:" in line).split("command:")[1]
    assert shlex.split(printed) == [str(place.command), "status", "--home", str(place.home)]
    checked = place.run("--check")
    assert checked.returncode == 0, checked.stdout


def _upgrade_with_a_running_worker(place: Place) -> None:
    assert place.tell("start").returncode == 0
    assert place.tell("capture", "--session", "s", "--user", "I live in Porto.", "--assistant", "Nice.").returncode == 0
    pid = place.home / "worker.json"
    assert pid.exists()
    done = place.run("--enable")
    assert done.returncode == 0, done.stderr
    assert "stopped the worker" in done.stdout
    assert "nothing to change" in done.stdout
    assert not pid.exists()
    assert len(list(place.hermes.glob("config.yaml.bak-*"))) == 1
    assert place.tell("status").returncode == 4


def _uninstall_keeps_the_memories(place: Place) -> None:
    assert place.tell("start").returncode == 0
    done = place.run("--uninstall")
    assert done.returncode == 0, done.stderr
    assert f"memories are kept in {place.home}" in done.stdout
    assert not place.link.is_symlink()
    assert place.config.read_text("utf-8") == "# mine\nmodel: gpt  # chosen\n"
    assert (place.home / "data" / "memory.db").exists()
    assert place.tell("status").returncode == 4
    assert len(list(place.hermes.glob("config.yaml.bak-*"))) == 2
    assert place.run("--uninstall").returncode == 0


def _purge_removes_them(place: Place) -> None:
    done = place.run("--uninstall", "--purge")
    assert done.returncode == 0, done.stderr
    assert f"removing {place.home}" in done.stdout
    assert not place.home.exists()
    assert not place.root.exists()
    assert not place.shortcut.is_symlink()
    assert (place.hermes / ".env").read_text("utf-8") == "OPENAI_API_KEY=x\n"
    assert len(list(place.hermes.glob("config.yaml.bak-*"))) == 1
    again = place.run("--uninstall", "--purge")
    assert (again.returncode, again.stdout) == (0, "nothing to remove\n")
    shutil.rmtree(place.hermes)
