"""From the command line and the environment to one home and one data directory, the same for every command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memory_tencentdb import paths
from memory_tencentdb_worker.config.load import LoadedConfig, data_dir_of, load_config
from memory_tencentdb_worker.logs import log_dir


@dataclass(frozen=True)
class Places:
    """`announced`: whether `<home>/worker.json` may name this data directory. One that only the environment or a
    lone `--data-dir` chose must not become the home's own in the eyes of those who know the home only."""

    home: Path
    data_dir: Path
    loaded: LoadedConfig
    logs: Path
    announced: bool


def find_places(home: str | None, data_dir: str | None, env: Mapping[str, str]) -> Places:
    """A data directory given alone stands on its own: its configuration and logs lie in it, unless it is the one
    that the default home uses, or the `data` folder of a home."""
    chosen = _home_of(home, data_dir, env)
    overrides = {"data.baseDir": data_dir} if data_dir else {}
    loaded = load_config(chosen, env, overrides)
    directory = data_dir_of(loaded, chosen)
    announced = bool(home and data_dir) or directory == _own_data_dir(chosen, env)
    return Places(chosen, directory, loaded, log_dir(chosen, env), announced)


def _home_of(home: str | None, data_dir: str | None, env: Mapping[str, str]) -> Path:
    if home:
        return Path(home).expanduser().absolute()
    usual = paths.default_home()
    if not data_dir or env.get("MEMORY_TENCENTDB_HOME"):
        return usual
    directory = Path(data_dir).expanduser().absolute()
    if directory == _own_data_dir(usual, env):
        return usual
    return directory.parent if directory.name == "data" else directory


def _own_data_dir(home: Path, env: Mapping[str, str]) -> Path:
    without = {name: value for name, value in env.items() if name != "TDAI_DATA_DIR"}
    return data_dir_of(load_config(home, without), home)
