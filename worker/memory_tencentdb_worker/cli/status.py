"""`status`: is the memory well, and if not, why and what to do."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_tencentdb.protocol import STATUS
from memory_tencentdb_worker.cli.connect import find_worker, places_of
from memory_tencentdb_worker.cli.exits import DEGRADED, DONE, UNREACHABLE, RefusedError, TimedOutError, UnreachableError
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands
    from memory_tencentdb_worker.places import Places

ANSWER_SECONDS = 10.0


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    add_command(
        commands, places, "status", run_status,
        purpose="say whether the memory is well, and if not, why and what to do", example="status --json",
    )  # fmt: skip


def run_status(args: argparse.Namespace) -> int:
    try:
        found = find_worker(args)
        document: dict[str, Any] = found.client.get(STATUS, timeout_seconds=ANSWER_SECONDS)
    except (UnreachableError, TimedOutError, RefusedError) as error:
        document = unreachable_document(places_of(args), error, now=int(time.time() * 1000))
    if args.json:
        print_json(document)
    else:
        _print_document(document)
    if document["worker"] is None:
        return UNREACHABLE
    return DONE if document["state"] == "ok" else DEGRADED


def unreachable_document(places: Places, error: Exception, now: int) -> dict[str, Any]:
    """The whole document as far as it can be known without a worker; what only a worker knows is null."""
    loaded = places.loaded
    settings, vectors = loaded.config.llm, loaded.config.memory.embedding
    action = "memory-tencentdb restart" if isinstance(error, TimedOutError) else "memory-tencentdb start"
    reasons = [_reason("worker_unreachable", str(error), now, action)]
    reasons += [_reason("config_refused", text, now, "correct the setting, then start") for text in loaded.fatal]
    if loaded.broken:
        reasons.append(_reason("config_broken", loaded.broken, now, "correct the file"))
    return {
        "state": "broken",
        "reasons": reasons,
        "worker": None,
        "data_dir": str(places.data_dir),
        "counts": dict.fromkeys(("turns", "messages", "atoms", "scenes", "persona", "vectors", "superseded")),
        "jobs": dict.fromkeys(("due", "running", "retrying", "parked", "oldest_due_seconds")),
        "outbox": {"turns": waiting_turns(places.home / "outbox")},
        "llm": {
            "configured": bool(settings.model),
            "source": "config" if settings.model else "none",
            "model": settings.model,
            "endpoint": settings.base_url.rpartition("@")[2] if "@" in settings.base_url else settings.base_url,
            "breaker": None,
            "last_ok_at": None,
            "last_error": None,
        },
        "embedding": {
            "provider": vectors.provider,
            "model": vectors.model,
            "dimensions": vectors.dimensions,
            "rows": None,
            "embedded": None,
            "breaker": None,
            "last_error": None,
        },
        "config": {
            "file": str(loaded.file) if loaded.file else None,
            "errors": [vars(problem) for problem in loaded.errors],
        },
        "calls": dict.fromkeys(("today", "tokens_in", "tokens_out", "cost_usd")),
    }


def waiting_turns(outbox: Path) -> int:
    """Lines of the outbox's segments: turns that a host keeps until a worker answers again."""
    count = 0
    for segment in outbox.glob("*.jsonl"):
        if segment.name == "refused.jsonl":
            continue
        try:
            count += segment.read_bytes().count(b"\n")
        except FileNotFoundError:  # replayed and removed meanwhile
            continue
    return count


def _reason(code: str, message: str, since: int, action: str) -> dict[str, Any]:
    return {"code": code, "message": message, "since": since, "action": action}


def _print_document(document: dict[str, Any]) -> None:
    worker = document["worker"]
    print(f"state      {document['state']}")
    for reason in document["reasons"]:
        print(f"  - {plain(str(reason['message']))}")
        if reason.get("action"):
            print(f"    {plain(str(reason['action']))}")
    if worker:
        memory = f"{(worker.get('rss_bytes') or 0) / 2**20:.0f} MiB"
        uptime = _duration(worker.get("uptime_seconds") or 0)
        print(f"worker     pid {worker['pid']}, version {worker['version']}, up {uptime}, {memory}")
        print(f"socket     {worker['socket']}")
    print(f"data       {document['data_dir']}")
    counts, jobs = document["counts"], document["jobs"]
    if worker:
        print(f"knows      {counts['turns']} turns ({counts['messages']} messages), {counts['atoms']} atoms "
              f"({counts['superseded']} superseded), {counts['scenes']} scenes, persona "
              f"{'written' if counts['persona'] else 'not yet'}, {counts['vectors']} vectors")  # fmt: skip
        print(f"jobs       {jobs['due']} due, {jobs['running']} running, {jobs['retrying']} retrying, "
              f"{jobs['parked']} parked")  # fmt: skip
    print(f"outbox     {document['outbox']['turns']} turns waiting")
    llm, vectors = document["llm"], document["embedding"]
    where = f" at {plain(str(llm['endpoint']))}" if llm["endpoint"] else ""
    print(f"model      {plain(str(llm['model']))}{where}" if llm["configured"] else "model      none: offline mode")
    _print_error(llm)
    chosen = vectors["provider"] not in (None, "", "none")
    print(f"embedding  {vectors['provider']} {vectors['model']}, {vectors['embedded']} of {vectors['rows']} embedded"
          if chosen else "embedding  none: keyword search")  # fmt: skip
    _print_error(vectors)
    print(f"config     {document['config']['file'] or 'no file'}")
    for problem in document["config"]["errors"]:
        print(f"  - {plain(str(problem['key']))}: {plain(str(problem['problem']))}; used: {problem['used']}")


def _print_error(part: dict[str, Any]) -> None:
    if part.get("last_error"):
        print(f"  - last error: {plain(str(part['last_error']), keep_lines=False)}")


def _duration(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} s"
