"""What commands print: one JSON document, or text for a person. Stored text never reaches a terminal raw."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from memory_tencentdb_worker.cli.exits import CommandError


def prepare_streams() -> None:
    """UTF-8 whatever the locale says; half a character is shown escaped instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def print_json(document: Any) -> None:
    """One document and nothing else."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        text = json.dumps(document, indent=2)
    print(text)


def print_error(error: CommandError, *, as_json: bool = False) -> None:
    """For a person on stderr; with `as_json` also as the one document on stdout."""
    if as_json:
        print_json({"error": str(error), "code": error.code})
    print(f"memory-tencentdb: {plain(str(error))}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)


def say(message: str) -> None:
    """Progress and remarks: never on stdout, which may be read by a program."""
    print(plain(message), file=sys.stderr)


def plain(text: str, *, keep_lines: bool = True) -> str:
    """Without control and invisible formatting characters, which could rewrite what the terminal shows."""
    kept = []
    for char in str(text):
        if char == "\n" and keep_lines:
            kept.append(char)
        elif char in "\n\r\t":
            kept.append(" ")
        elif unicodedata.category(char) not in ("Cc", "Cf"):
            kept.append(char)
    return "".join(kept)


def indented(text: str, prefix: str) -> str:
    return "\n".join(f"{prefix}{line}" for line in plain(text).splitlines() or [""])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, width_limit: int = 60) -> None:
    """Columns aligned by what the terminal shows: a Chinese character is two cells wide."""
    cells = [[_cut(plain("" if cell is None else str(cell), keep_lines=False), width_limit) for cell in row]
             for row in rows]  # fmt: skip
    widths = [max([cell_width(name), *(cell_width(row[at]) for row in cells)]) for at, name in enumerate(columns)]
    for row in [list(columns), *cells]:
        padded = [cell + " " * (width - cell_width(cell)) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(padded).rstrip())


def cell_width(text: str) -> int:
    width = 0
    for char in text:
        if not unicodedata.combining(char):
            width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width


def _cut(text: str, limit: int) -> str:
    if cell_width(text) <= limit:
        return text
    kept, used = [], 0
    for char in text:
        used += cell_width(char)
        if used > limit - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"
