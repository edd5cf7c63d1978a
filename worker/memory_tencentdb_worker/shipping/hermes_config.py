"""Turns the provider on and off in a host's `config.yaml` without touching anything else in it.

The file is edited as text, so comments, order, quoting and line ends stay. The result is then read back as YAML and
must differ from the original in `memory.provider` only; where that cannot be reached, nothing is written.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from memory_tencentdb_worker.errors import ConfigError

PROVIDER = "memory_tencentdb"

_MEMORY = re.compile(r"""^(?P<head>(?:memory|"memory"|'memory')[ ]*:)(?P<rest>.*)$""")
_CHILD = re.compile(r"""^(?P<head>(?P<indent>[ ]+)(?:provider|"provider"|'provider')[ ]*:)(?P<rest>.*)$""")
_VALUE = re.compile(r"""^\s*(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^#]*?)(?P<comment>\s+#.*|\s*)$""")
_FLOW_PROVIDER = re.compile(r"""(?P<head>(?<![\w"'])["']?provider["']?\s*:\s*)(?:"[^"]*"|'[^']*'|[^,}]*?)(?=\s*[,}])""")


def enabled_provider(text: str) -> str:
    """The configured `memory.provider`, "" when there is none. Raises ConfigError when the file is no YAML mapping."""
    memory = _parse(text).get("memory")
    return str(memory.get("provider") or "") if isinstance(memory, dict) else ""


def enable_provider(text: str, name: str = PROVIDER) -> str:
    """The text with `memory.provider: name`; unchanged when it says so already.

    Raises ConfigError when it is no YAML mapping, or written in a way in which no safe edit is known.
    """
    before = _parse(text)
    memory = before.get("memory")
    if memory is not None and not isinstance(memory, dict):
        raise ConfigError("`memory` is not a mapping there; set memory.provider by hand")
    if memory and memory.get("provider") == name:
        return text
    edited = _edited(text, name)
    _check(edited, {**before, "memory": {**(memory or {}), "provider": name}})
    return edited


def disable_provider(text: str, name: str = PROVIDER) -> str:
    """The text without `memory.provider` where it is `name`; another provider is left alone."""
    before = _parse(text)
    memory = before.get("memory")
    if not isinstance(memory, dict) or memory.get("provider") != name:
        return text
    others = {key: value for key, value in memory.items() if key != "provider"}
    edited = _without_provider(text, keep_block=bool(others))
    expected = {key: value for key, value in before.items() if key != "memory"}
    _check(edited, {**expected, "memory": others} if others else expected)
    return edited


def change_file(path: Path, *, enable: bool, name: str = PROVIDER) -> Path | None:
    """Edits the file in place, atomically, mode kept (0600 for a new one). Returns the backup, None when none was
    needed: the file is new, or says already what it shall say."""
    target = Path(os.path.realpath(path))
    existed = target.exists()
    text = _read(target) if existed else ""
    edited = enable_provider(text, name) if enable else disable_provider(text, name)
    if edited == text:
        return None
    mode = target.stat().st_mode & 0o777 if existed else 0o600
    backup = _write_backup(target, text, mode) if existed else None
    _write(target, edited, mode)
    return backup


# ------------------------------------------------------------------------------------------------------- text


def _edited(text: str, name: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    at = _memory_line(lines)
    if at is None:
        return _with_new_block(text, name, newline)
    match = _MEMORY.match(lines[at].removeprefix("\ufeff"))
    assert match is not None
    value = _VALUE.match(match["rest"])
    inline = value["value"] if value else match["rest"]
    if inline.startswith("{") and inline.strip("{} "):
        lines[at] = _with_flow_value(lines[at], name)
        return newline.join(lines)
    if inline in ("null", "~", "{}", "Null", "NULL"):
        lines[at] = (
            lines[at].replace(inline, "", 1).rstrip()
            if not (value and value["comment"].strip())
            else (lines[at].replace(f" {inline}", "", 1))
        )
    child = _provider_line(lines, at)
    if child is None:
        lines.insert(at + 1, f"{_child_indent(lines, at)}provider: {name}")
    else:
        lines[child] = _with_value(lines[child], name)
    return newline.join(lines)


def _without_provider(text: str, *, keep_block: bool) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    at = _memory_line(lines)
    if at is None:
        raise ConfigError("`memory` is written in a way that cannot be edited safely; remove memory.provider by hand")
    child = _provider_line(lines, at)
    if child is None:
        lines[at] = re.sub(
            rf",\s*{_FLOW_PROVIDER.pattern}|{_FLOW_PROVIDER.pattern.replace('?P<head>', '?:')}\s*,?\s*", "", lines[at]
        )
        if not keep_block:
            del lines[at]
        return newline.join(lines)
    del lines[child]
    if not keep_block:
        del lines[at]
    return newline.join(lines)


def _memory_line(lines: Sequence[str]) -> int | None:
    """The last one, as YAML readers take it."""
    found = [index for index, line in enumerate(lines) if _MEMORY.match(line.removeprefix("\ufeff"))]
    return found[-1] if found else None


def _block(lines: Sequence[str], at: int) -> list[int]:
    """The lines below `at` that belong to it: indented ones, blanks and comments between them."""
    inside = []
    for index in range(at + 1, len(lines)):
        line = lines[index]
        if line.strip() and not line.startswith((" ", "#")):
            break
        if line.startswith(" ") and line.strip() and not line.lstrip().startswith("#"):
            inside.append(index)
    return inside


def _child_indent(lines: Sequence[str], at: int) -> str:
    block = _block(lines, at)
    first = lines[block[0]] if block else "  "
    return first[: len(first) - len(first.lstrip(" "))] or "  "


def _provider_line(lines: Sequence[str], at: int) -> int | None:
    indent = _child_indent(lines, at)
    for index in _block(lines, at):
        match = _CHILD.match(lines[index])
        if match and match["indent"] == indent:
            return index
    return None


def _with_value(line: str, name: str) -> str:
    match = _CHILD.match(line)
    assert match is not None
    value = _VALUE.match(match["rest"])
    comment = value["comment"].rstrip() if value else ""
    return f"{match['head']} {name}{comment}"


def _with_flow_value(line: str, name: str) -> str:
    if _FLOW_PROVIDER.search(line):
        return _FLOW_PROVIDER.sub(lambda match: match["head"] + name, line, count=1)
    return line.replace("{", f"{{provider: {name}, ", 1)


def _with_new_block(text: str, name: str, newline: str) -> str:
    block = f"memory:{newline}  provider: {name}{newline}"
    bare = text.removeprefix("\ufeff")
    if bare.strip() == "{}":
        return text[: len(text) - len(bare)] + block
    end = re.search(r"(?m)^\.\.\.[ ]*\r?$", text)
    body, tail = (text[: end.start()], text[end.start() :]) if end else (text, "")
    if body.removeprefix("\ufeff") and not body.endswith(newline):
        body += newline
    return body + block + tail


# ------------------------------------------------------------------------------------------------------- files


def _parse(text: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text.removeprefix("\ufeff"))
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML, so it is left as it is: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError("not a YAML mapping, so it is left as it is")
    return document


def _check(edited: str, expected: dict[str, Any]) -> None:
    try:
        reached = _parse(edited) == expected
    except ConfigError:
        reached = False
    if not reached:
        raise ConfigError("`memory` is written in a way that cannot be edited safely; change memory.provider by hand")


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}") from error


def _write_backup(path: Path, text: str, mode: int) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    backup = path.with_name(f"{path.name}.bak-{stamp}")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.bak-{stamp}-{number}")
    _write(backup, text, mode)
    return backup


def _write(path: Path, text: str, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise ConfigError(f"cannot be written: {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """`enable FILE`, `disable FILE`, `show FILE`. Exit 3 when the file cannot be changed safely."""
    parser = argparse.ArgumentParser(prog="hermes_config", description="Turns the provider on or off in a config.yaml.")
    parser.add_argument("action", choices=("enable", "disable", "show"))
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    path: Path = options.file
    try:
        before = enabled_provider(_read(path)) if path.exists() else ""
        if options.action == "show":
            print(before)
            return 0
        backup = change_file(path, enable=options.action == "enable")
        after = enabled_provider(_read(path)) if path.exists() else ""
    except ConfigError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 3
    print(_report(path, before, after, backup))
    return 0


def _report(path: Path, before: str, after: str, backup: Path | None) -> str:
    if before == after:
        return f"{path}: memory.provider is {after or 'not set'}, nothing to change"
    kept = f" (before: {backup})" if backup else ""
    return f"{path}: memory.provider was {before or 'not set'}, is now {after or 'not set'}{kept}"


if __name__ == "__main__":
    sys.exit(main())
