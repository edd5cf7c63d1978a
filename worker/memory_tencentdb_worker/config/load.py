"""From defaults, file, environment and command line to one `Config`: value by value, later sources win.

A bad value costs only its own key: the key keeps its default and the problem is listed. Only a mistake in a security
key is fatal. Secrets never appear in a problem.
"""

from __future__ import annotations

from collections.abc import Mapping as EnvMapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memory_tencentdb_worker.config import checks
from memory_tencentdb_worker.config.document import Document, DocumentError, Mapping, read_document, type_name
from memory_tencentdb_worker.config.environment import FILE_VARIABLE, VARIABLES, candidate_files, placeholder
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.config.problems import ConfigProblem
from memory_tencentdb_worker.config.settings import (
    SECURITY_KEYS,
    ValueRefusedError,
    all_settings,
    camel,
    default_value,
    field_of,
    group_keys,
    nearest_key,
    shown,
)

DEFAULT_SOURCE = "default"
COMMAND_LINE = "command line"


@dataclass(frozen=True)
class LoadedConfig:
    """`broken` says file, line and reason when the file could not be parsed (its settings are then all absent);
    `fatal` holds what forbids the worker to start."""

    config: Config
    file: Path | None = None
    errors: tuple[ConfigProblem, ...] = ()
    fatal: tuple[str, ...] = ()
    broken: str = ""
    sources: dict[str, str] = field(default_factory=dict)


def load_config(
    home: Path, env: EnvMapping[str, str], overrides: EnvMapping[str, object] | None = None
) -> LoadedConfig:
    """`overrides` come from the command line, by dotted camelCase key. Never raises for what a file holds."""
    reading = _Reading(env)
    document, broken = _find_document(home, env, reading)
    if document is not None:
        reading.read_file(document)
    reading.read_environment()
    for key, value in (overrides or {}).items():
        reading.take(key, key, value, COMMAND_LINE, lenient=True)
    checks.check_values(reading.values, reading.problems, reading.fatal)
    return LoadedConfig(
        config=_build(reading.values),
        file=document.path if document is not None else None,
        errors=tuple(reading.problems),
        fatal=tuple(reading.fatal),
        broken=broken,
        sources={key: reading.sources.get(key, DEFAULT_SOURCE) for key in all_settings()},
    )


def effective_document(loaded: LoadedConfig) -> dict[str, Any]:
    """The nested document of `config show`: every leaf `{value, source}`, secrets masked."""
    document: dict[str, Any] = {}
    for key, setting in all_settings().items():
        target = document
        for group in key.split(".")[:-1]:
            target = target.setdefault(group, {})
        target[setting.name] = {"value": shown(key, setting.read(loaded.config)), "source": loaded.sources[key]}
    return document


def data_dir_of(loaded: LoadedConfig, home: Path) -> Path:
    """The data directory: what the configuration (or TDAI_DATA_DIR, or the command line) says, else `<home>/data`.

    A relative path in a file counts from the home, any other from the working directory."""
    base_dir = loaded.config.data.base_dir
    if not base_dir:
        return (home / "data").absolute()
    path = Path(base_dir).expanduser()
    from_file = loaded.sources["data.baseDir"].startswith("file:")
    return (home / path if from_file else path).absolute()


class _Reading:
    """The values as they come in, with where they came from and what was wrong."""

    def __init__(self, env: EnvMapping[str, str]) -> None:
        self.env = env
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.problems: list[ConfigProblem] = []
        self.fatal: list[str] = []

    def read_file(self, document: Document) -> None:
        self._read_group(document.values, "", f"file:{document.path.name}")

    def read_environment(self) -> None:
        for name, key in VARIABLES.items():
            if self.env.get(name):
                self.take(key, key, self.env[name], f"env:{name}", lenient=True)

    def take(self, key: str, written: str, value: object, source: str, *, lenient: bool) -> None:
        """Accepts one value for `key`, which the source spells `written`."""
        setting = all_settings()[key]
        name = placeholder(value) if not lenient else None
        if name is not None:
            value, lenient = self.env.get(name), True
            if value is None:
                self._reject(key, written, f"${{{name}}}", f"the environment variable {name} is not set")
                return
        try:
            self.values[key] = setting.accept(value, lenient=lenient)
        except ValueRefusedError as error:
            self._reject(key, written, value, f"{error}{'' if source.startswith('file:') else f' ({source})'}")
        else:
            self.sources[key] = source

    def add(self, key: str, value: object, problem: str, used: object = None) -> None:
        self.problems.append(ConfigProblem(key, shown(key, value), problem, used))

    def _reject(self, key: str, written: str, value: object, problem: str) -> None:
        used = self.values.get(key, default_value(key))
        self.problems.append(ConfigProblem(written, shown(key, value), problem, shown(key, used)))
        if key in SECURITY_KEYS:
            self.fatal.append(f"{written} {problem}; a security setting has no fallback")

    def _read_group(self, group: Mapping, prefix: str, source: str) -> None:
        seen: dict[str, str] = {}
        for name, value in group.items():
            written = f"{prefix}{name}"
            spelled = f"{'.'.join(camel(part) for part in prefix.split('.'))}{camel(name)}"
            key = _alias(spelled)
            if key != spelled and key in self.sources:
                continue  # the top-level group goes before its alias
            if key in seen:
                self.add(written, value, f"the same setting as {seen[key]}; the last one counts", shown(key, value))
            seen[key] = written
            if key in group_keys():
                self._read_subgroup(value, written, source)
            elif key in all_settings():
                self.take(key, written, value, source, lenient=False)
            else:
                self._unknown(written, value)
            if name in group.twice:
                used = shown(key, self.values.get(key)) if key in all_settings() else None
                self.add(written, None if isinstance(value, dict) else value, group.twice[name], used)

    def _read_subgroup(self, value: object, written: str, source: str) -> None:
        if isinstance(value, Mapping):
            if written in ("memory.llm", "llm") and value.get("enabled") is False:
                return
            self._read_group(value, f"{written}.", source)
        elif value is not None:
            self.add(written, "***", f"must be a group of settings, not {type_name(value)}")
            if written == "server":
                self.fatal.append("server must be a group of settings; a security setting has no fallback")

    def _unknown(self, written: str, value: object) -> None:
        if written in ("memory.llm.enabled", "llm.enabled") and isinstance(value, bool):
            return  # the manual's switch: a group that is filled in is on
        near = nearest_key(".".join(camel(part) for part in written.split(".")))
        hint = f"; did you mean {near}?" if near else ""
        self.add(written, value, f"unknown setting{hint}")
        if near in SECURITY_KEYS and written.startswith("server."):
            self.fatal.append(f"{written} is unknown{hint} A security setting has no fallback")


def _find_document(home: Path, env: EnvMapping[str, str], reading: _Reading) -> tuple[Document | None, str]:
    found: list[Path] = []
    if env.get(FILE_VARIABLE):
        explicit = Path(env[FILE_VARIABLE]).expanduser()
        if explicit.is_file():
            found.append(explicit.absolute())
        else:
            reading.add(FILE_VARIABLE, str(explicit), "there is no such file; the usual places are used")
    found += [path for path in candidate_files(home, env) if path.is_file()]
    if not found:
        return None, ""
    path = found[0]
    for other in found[1:]:
        if other.parent == path.parent == home and other != path:
            reading.add(other.name, str(other), f"not read, because {path.name} stands beside it")
    try:
        return read_document(path), ""
    except DocumentError as error:
        reading.add(path.name, str(path), f"{error}; none of its settings apply")
        return Document(path), str(error)


def _alias(key: str) -> str:
    """`memory.llm` is another place for `llm` (the manual's plug-in form)."""
    return key.removeprefix("memory.") if key == "memory.llm" or key.startswith("memory.llm.") else key


def _build(values: dict[str, Any]) -> Config:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *groups, _name = key.split(".")
        target, section = nested, Config
        for group in groups:
            field_name = field_of(section, group)
            target = target.setdefault(field_name, {})
            section = type(section.model_fields[field_name].default)
        target[all_settings()[key].field] = value
    return Config.model_validate(nested, by_name=True)


def with_problem(loaded: LoadedConfig, key: str, problem: str, used: object = None) -> LoadedConfig:
    """Adds what only the composition root can find out, such as an embedder that cannot be built."""
    return replace(loaded, errors=(*loaded.errors, ConfigProblem(key, None, problem, used)))
