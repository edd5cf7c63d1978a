"""Our variables from the host's `.env`, which the host reads for itself and a shell does not: a worker started by hand
must have the same model and data directory as one that the host starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

OURS = ("TDAI_", "MEMORY_TENCENTDB_")
HOME_NAME = "memory_tencentdb"

_LINE = re.compile(r"""\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|.*?)\s*""")
_LINE_WITH_COMMENT = re.compile(rf"{_LINE.pattern}(?:(?<=[\s\"'])#.*)?")


def host_variables(home: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Those of `<host's home>/.env` that begin like ours and are not in `env`; {} when `home` is not a host's."""
    if home.name != HOME_NAME:
        return {}
    try:
        text = (home.parent / ".env").read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return {}
    return {name: value for name, value in read_variables(text).items() if name.startswith(OURS) and name not in env}


def read_variables(text: str) -> dict[str, str]:
    """`KEY=VALUE` a line, quoted or not, comments left out; other lines are not ours to understand."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE_WITH_COMMENT.fullmatch(line)
        if match:
            found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    return value
