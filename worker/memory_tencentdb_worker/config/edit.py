"""Changes one setting in the configuration file: checked first, written atomically, comments kept."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping as EnvMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_tencentdb.paths import private_dir
from memory_tencentdb_worker.config.document import Document, DocumentError, Mapping, parse_document, read_document
from memory_tencentdb_worker.config.load import LoadedConfig, load_config
from memory_tencentdb_worker.config.settings import ValueRefusedError, all_settings, camel, nearest_key
from memory_tencentdb_worker.errors import ConfigError


@dataclass(frozen=True)
class Edit:
    file: Path
    key: str
    backup: Path | None  # set when the file had to be rewritten and lost its comments


def set_value(home: Path, key: str, value: object, env: EnvMapping[str, str] | None = None) -> Edit:
    """Sets one dotted key in `<home>/config.yaml` (or the `.json` that is there); makes the file when there is none.

    A text is read as the setting's type. Raises ConfigError when the key is unknown, the value is refused, or the
    file as it stands cannot be parsed; the file is then left alone.
    """
    name = ".".join(camel(part) for part in key.split("."))
    setting = all_settings().get(name)
    if setting is None:
        near = nearest_key(name)
        raise ConfigError(f"{key} is not a setting" + (f"; did you mean {near}?" if near else ""))
    try:
        accepted = setting.accept(value, lenient=True)
    except ValueRefusedError as error:
        raise ConfigError(f"{name} {error}") from None
    plain = accepted.get_secret_value() if setting.secret else accepted
    path = _file_of(home)
    before = path.read_bytes() if path.exists() else None
    _refuse_bad_outcome(home, env or {}, name, accepted)
    document = _read(path)
    return _write(path, document, before, name, plain)


def _file_of(home: Path) -> Path:
    """The file that `load_config` reads first, or would read if it were there."""
    yaml_file, json_file = home / "config.yaml", home / "config.json"
    return json_file if json_file.exists() and not yaml_file.exists() else yaml_file


def _read(path: Path) -> Document:
    if not path.exists():
        return Document(path)
    try:
        return read_document(path)
    except DocumentError as error:
        raise ConfigError(f"{error}; correct it before changing a setting") from error


def _refuse_bad_outcome(home: Path, env: EnvMapping[str, str], key: str, accepted: Any) -> None:
    """Some values are wrong only beside others: the whole configuration is read as if the value were set."""
    value = accepted.get_secret_value() if hasattr(accepted, "get_secret_value") else accepted
    outcome: LoadedConfig = load_config(home, env, {key: value})
    before: LoadedConfig = load_config(home, env)
    for problem in outcome.errors:
        if problem.key == key and problem not in before.errors and not key.endswith("embedding.provider"):
            raise ConfigError(f"{key} {problem.problem}")
    new_fatal = [reason for reason in outcome.fatal if reason not in before.fatal]
    if new_fatal:
        raise ConfigError(new_fatal[0])


def _write(path: Path, document: Document, before: bytes | None, key: str, value: Any) -> Edit:
    private_dir(path.parent)
    parts = _spelled(document.values, key.split("."))
    if path.suffix == ".json":
        _put(document.values, parts, value)
        _replace(path, json.dumps(document.values, ensure_ascii=False, indent=2) + "\n")
        return Edit(path, key, None)
    text = (before or b"").decode("utf-8-sig")
    changed = _edit_yaml(text, parts, value)
    if changed is not None and _holds(changed, document, parts, value, path):
        _replace(path, changed)
        return Edit(path, key, None)
    backup = path.with_name(f"{path.name}.bak")
    _replace(backup, text)
    _put(document.values, parts, value)
    _replace(path, _dump_yaml(_plain(document.values)))
    return Edit(path, key, backup)


def _spelled(values: Mapping, parts: list[str]) -> list[str]:
    """The path in the file's own spelling, where the file has it already (snake_case or camelCase)."""
    spelled: list[str] = []
    node: Any = values
    for part in parts:
        names = [name for name in node if camel(name) == part] if isinstance(node, dict) else []
        name = names[-1] if names else part
        spelled.append(name)
        node = node.get(name) if isinstance(node, dict) else None
    return spelled


def _put(values: dict[str, Any], parts: list[str], value: Any) -> None:
    node = values
    for part in parts[:-1]:
        below = node.get(part)
        if not isinstance(below, dict):
            below = node[part] = {}
        node = below
    node[parts[-1]] = value


def _plain(values: Any) -> Any:
    return {name: _plain(value) for name, value in values.items()} if isinstance(values, dict) else values


def _dump_yaml(values: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(values, allow_unicode=True, sort_keys=False))


def _edit_yaml(text: str, parts: list[str], value: Any) -> str | None:
    """The text with one line changed or added; None when the file's form (flow style, anchors) does not allow it."""
    lines = text.splitlines()
    written = json.dumps(value, ensure_ascii=False)
    start, end, indent = 0, len(lines), ""
    for depth, part in enumerate(parts):
        found = _find_line(lines, start, end, indent, part)
        if found is None:
            at = end
            while at > start and not lines[at - 1].strip():
                at -= 1
            new = [f"{indent}{'  ' * step}{name}:" for step, name in enumerate(parts[depth:])]
            new[-1] += f" {written}"
            return "\n".join([*lines[:at], *new, *lines[at:]]) + "\n"
        rest = lines[found].split(":", 1)[1]
        if depth == len(parts) - 1:
            return _replace_line(lines, found, written)
        if rest.split("#")[0].strip():
            return None
        start, end = found + 1, _end_of_block(lines, found + 1, end, len(indent))
        indent = _indent_of_block(lines, start, end, len(indent))
    return None


def _find_line(lines: list[str], start: int, end: int, indent: str, part: str) -> int | None:
    pattern = re.compile(rf"{re.escape(indent)}[\"']?{re.escape(part)}[\"']?\s*:(\s|$)")
    found = [number for number in range(start, end) if pattern.match(lines[number])]
    return found[-1] if found else None


def _replace_line(lines: list[str], number: int, written: str) -> str:
    """Keeps a comment that stands behind the value."""
    head, rest = lines[number].split(":", 1)
    comment = re.search(r"\s#.*$", rest) if not re.search(r"[\"'|>]", rest) else None
    lines[number] = f"{head}: {written}{comment.group(0) if comment else ''}"
    return "\n".join(lines) + "\n"


def _end_of_block(lines: list[str], start: int, end: int, indent: int) -> int:
    for number in range(start, end):
        line = lines[number]
        if line.strip() and not line.lstrip().startswith("#") and len(line) - len(line.lstrip()) <= indent:
            return number
    return end


def _indent_of_block(lines: list[str], start: int, end: int, indent: int) -> str:
    for line in lines[start:end]:
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip())]
    return " " * (indent + 2)


def _holds(text: str, document: Document, parts: list[str], value: Any, path: Path) -> bool:
    """The edited text says exactly what the old document says plus this value: the proof that the edit was safe."""
    wanted = _plain(document.values)
    _put(wanted, parts, value)
    try:
        return bool(_plain(parse_document(text, path).values) == wanted)
    except DocumentError:
        return False


def _replace(path: Path, text: str) -> None:
    """Atomic and durable; 0600, because a configuration may hold keys. A link is followed, not replaced."""
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
