"""A program of its own: which files hold one of some texts, byte by byte.

The worker must not open its database other than through SQLite (closing any other handle drops its locks), and reading
a whole home keeps a processor busy: both are another process's business.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 4 * 1024 * 1024
LONGEST_SECONDS = 600


@dataclass(frozen=True)
class Scan:
    """`hits`: files that hold a text; `unread`: files that could not be read, which prove nothing."""

    files: int
    size_bytes: int
    hits: tuple[str, ...]
    unread: tuple[str, ...]


def scan_in_child(roots: Sequence[Path], texts: Iterable[str]) -> Scan:
    """Raises OSError when the scan could not be made to its end."""
    request = json.dumps({"roots": [str(root) for root in roots], "texts": list(texts)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "memory_tencentdb_worker.byte_scan"],
            input=request.encode("ascii"),
            capture_output=True,
            check=True,
            timeout=LONGEST_SECONDS,
        )
    except subprocess.SubprocessError as error:
        raise OSError(f"the scan did not end well: {type(error).__name__}") from error
    answer = json.loads(done.stdout)
    return Scan(answer["files"], answer["size_bytes"], tuple(answer["hits"]), tuple(answer["unread"]))


def forms(text: str) -> set[bytes]:
    """How a text may stand in a file: plain, in JSON of either kind, on one line, in UTF-16."""
    one_line = " ".join(text.split())
    spelled = set()
    for each in {text, one_line}:
        for plain in (each, json.dumps(each, ensure_ascii=False)[1:-1], json.dumps(each)[1:-1]):
            spelled.add(plain.encode("utf-8", "replace"))
            spelled.add(plain.replace("<", "\\u003c").encode("utf-8", "replace"))
        spelled.add(each.encode("utf-16-le", "replace"))
    return {form for form in spelled if form.strip()}


def scan(roots: Sequence[Path], texts: Iterable[str]) -> Scan:
    wanted = sorted({form for text in texts for form in forms(text)}, key=len)
    files = {path.resolve() for root in roots for path in _files(root)}
    hits, unread, size_bytes = [], [], 0
    for path in sorted(files):
        try:
            size, found = _read(path, wanted)
        except FileNotFoundError:
            continue
        except OSError:
            unread.append(str(path))
            continue
        size_bytes += size
        if found:
            hits.append(str(path))
    return Scan(len(files), size_bytes, tuple(hits), tuple(unread))


def _files(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    return [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()] if root.is_dir() else []


def _read(path: Path, wanted: Sequence[bytes]) -> tuple[int, bool]:
    longest = max(map(len, wanted), default=1)
    size, rest = 0, b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            window = rest + chunk
            if any(form in window for form in wanted):
                return size, True
            rest = window[-longest:]
    return size, False


def main() -> int:
    request = json.loads(sys.stdin.buffer.read())
    print(json.dumps(vars(scan([Path(root) for root in request["roots"]], request["texts"]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
