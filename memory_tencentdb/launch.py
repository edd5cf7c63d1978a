"""How the worker is started: which command, which environment, where its output goes, what it said when it died."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import SpawnFailed
from .paths import private_dir, root_dir
from .starts import EXIT_STUCK

if TYPE_CHECKING:
    import subprocess

WORKER_MODULE = "memory_tencentdb_worker"
OUTPUT_LOG = "worker.out.log"
OUTPUT_LOG_BYTES = 1024 * 1024
WORKER_LOG = "worker.log"
TAIL_BYTES = 4096
TAIL_LINES = 5
LINE_CHARS = 500
AWAIT_HELLO_SECONDS = 60
REAP_SECONDS = 0.5
ARENAS = "2"
"""glibc gives every few threads a heap of their own, and keeps what each has once used: a dozen threads that are mostly
idle held some ten MiB of holes. (Other C libraries do not know the variable.)"""

DROPPED_VARIABLES = ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV")
"""They describe the host's interpreter and would mislead the worker's own."""

_children: list[subprocess.Popen[bytes]] = []
_exit_codes: dict[int, int] = {}
# Children belong to the process, whichever provider instance started them: they are collected here when they end, so
# that none stays behind as a zombie.


def run_command() -> list[str] | None:
    """The command that runs a worker in the foreground, without its options; None when no worker is installed.

    Raises SpawnFailed when the command that was set cannot be read."""
    words = _own_command()
    if words:
        bare = words[-2:] == ["-m", WORKER_MODULE] or Path(words[-1]).stem == "memory-tencentdb"
        return [*words, "run"] if bare else words
    command = command_line()
    return [*command, "run"] if command else None


def command_line() -> list[str] | None:
    """The worker's command line, to which a command name is added; None when no worker is installed.

    Raises SpawnFailed as `run_command`."""
    words = _own_command()
    if words:
        return words[:-1] if words[-1] == "run" and len(words) > 1 else words
    interpreter = find_interpreter()
    return [interpreter, "-m", WORKER_MODULE] if interpreter else None


def _own_command() -> list[str]:
    import shlex

    try:
        return shlex.split(os.environ.get("MEMORY_TENCENTDB_WORKER_CMD", ""), posix=os.name == "posix")
    except ValueError as error:
        raise SpawnFailed(f"MEMORY_TENCENTDB_WORKER_CMD is not a command line: {error}") from error


def find_interpreter() -> str | None:
    """The worker's own environment, else this interpreter if the worker is installed in it."""
    venv = root_dir() / "venv"
    own = venv / "Scripts" / "python.exe" if sys.platform == "win32" else venv / "bin" / "python"
    if own.is_file():
        return str(own)
    import importlib.util

    found = sys.executable and importlib.util.find_spec(WORKER_MODULE)
    return str(Path(sys.executable).absolute()) if found else None


def how_to_install() -> str:
    """What a person without a worker has to do."""
    installer = Path(__file__).resolve().parents[1] / "install.sh"
    return f"run '{installer}'" if installer.is_file() else "run install.sh of its repository"


def log_dir(home: Path) -> Path:
    explicit = os.environ.get("MEMORY_TENCENTDB_LOG_DIR")
    return private_dir(Path(explicit).expanduser().absolute() if explicit else home / "logs")


def worker_environment() -> dict[str, str]:
    """The host's environment without what is about the host's interpreter. PYTHONSAFEPATH keeps the files of whatever
    directory the host was started in from being imported."""
    kept = {key: value for key, value in os.environ.items() if key not in DROPPED_VARIABLES}
    return {"MALLOC_ARENA_MAX": ARENAS} | kept | {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}


def spawn_worker(home: Path, command: list[str]) -> subprocess.Popen[bytes]:
    """Starts the worker in a session of its own, so that it outlives this host and its signals. Raises OSError.

    Its output goes to a file, which cannot fill up as a pipe can (trap B15)."""
    import subprocess

    from .redaction import hide_in_file

    log = log_dir(home) / OUTPUT_LOG
    hide_in_file(log)
    _rotate(log)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(  # noqa: S603 - the command is ours or the user's own setting, and no shell is involved
            [*command, "--home", str(home), "--await-hello", str(AWAIT_HELLO_SECONDS)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env=worker_environment(),
            start_new_session=True,
        )
    finally:
        os.close(output)
    _children.append(child)
    return child


def collect_children() -> None:
    """Takes leave of ended children of this process."""
    _exit_codes.update((child.pid, child.returncode) for child in _children if child.poll() is not None)
    _children[:] = [child for child in _children if child.returncode is None]


def exit_code_of(pid: int) -> int | None:
    """How a worker ended that this process had started; None when that is not known. Negative: by this signal."""
    import subprocess

    for child in [one for one in _children if one.pid == pid]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(REAP_SECONDS)  # its end is seen a moment before it can be collected
    collect_children()
    return _exit_codes.get(pid)


def describe_exit(exit_code: int | None) -> str:
    import signal

    if exit_code is None:
        return "the worker ended without leave: it was killed, or it crashed"
    if exit_code == EXIT_STUCK:
        return "the worker ended itself because a write stood still"
    if exit_code >= 0:
        return f"the worker ended with exit code {exit_code}"
    return f"the worker was ended by {signal.Signals(-exit_code).name}"


def output_size(home: Path) -> int:
    """Where new output will begin."""
    try:
        return (log_dir(home) / OUTPUT_LOG).stat().st_size
    except FileNotFoundError:
        return 0


def last_lines(home: Path, since: int) -> list[str]:
    """What a worker said after `since`, its last lines: usually why it ended. Of one that said nothing, what its log
    holds; [] when there is nothing."""
    from .redaction import hide_in_file

    said = _tail(log_dir(home) / OUTPUT_LOG, since)
    hide_in_file(log_dir(home) / OUTPUT_LOG)
    return said or log_lines(home)


def log_lines(home: Path) -> list[str]:
    """The last lines of the worker's log, [] when there is none."""
    return _tail(log_dir(home) / WORKER_LOG, 0)


def settings_changed_at(home: Path) -> float:
    """When a configuration file of this home was last written, 0 when there is none."""
    explicit = os.environ.get("TDAI_GATEWAY_CONFIG")
    files = [Path(explicit).expanduser()] if explicit else []
    files += [path for pattern in ("config.*", "tdai-gateway.*") for path in home.glob(pattern)]
    return max((path.stat().st_mtime for path in files if path.is_file()), default=0.0)


def _tail(path: Path, since: int) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(min(since, size), size - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    from .redaction import hide_secrets

    return [line.strip()[:LINE_CHARS] for line in hide_secrets(text).splitlines() if line.strip()][-TAIL_LINES:]


def _rotate(log: Path) -> None:
    """Two files of bounded size: rotation happens where the file is opened, at the start of a worker."""
    try:
        if log.stat().st_size > OUTPUT_LOG_BYTES:
            log.replace(log.with_name(log.name + ".1"))
    except FileNotFoundError:
        pass
