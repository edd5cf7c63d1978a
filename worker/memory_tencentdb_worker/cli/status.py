"""`status`: is the memory well, and if not, why and what to do."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memory_tencentdb.outbox import Outbox
from memory_tencentdb.protocol import STATUS
from memory_tencentdb.starts import Starts
from memory_tencentdb_worker.cli.absence import command_for, why_away
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
    from memory_tencentdb_worker.service.outside import reasons_from_outside
    from memory_tencentdb_worker.service.status import UNREADABLE

    loaded = places.loaded
    settings, vectors = loaded.config.llm, loaded.config.memory.embedding
    action = command_for(places, "restart" if isinstance(error, TimedOutError) else "start")
    why = why_away(places) if isinstance(error, UnreachableError) else ""
    outside = reasons_from_outside(places.data_dir, now)
    if outside:
        action = f"{outside[0].action}; then: {action}" if outside[0].code != "store_corrupt" else outside[0].action
    reasons = [_reason("worker_unreachable", f"{error}: {why}" if why else str(error), now, action)]
    reasons += [_reason("config_refused", text, now, "correct the setting, then start") for text in loaded.fatal]
    reasons += _crash_reasons(places)
    if loaded.broken:
        reasons.append(_reason("config_file", loaded.broken, now, "correct the file"))
    reasons += [_reason(each.code, each.message, now, each.action) for each in outside]
    return {
        "state": "broken",
        "reasons": reasons,
        "mode": None,
        "worker": None,
        "data_dir": str(places.data_dir),
        "data_dir_id": None,
        "counts": UNREADABLE["counts"],
        "jobs": UNREADABLE["jobs"],
        "outbox": {"turns": Outbox(places.home / "outbox").pending()},
        "llm": {
            "configured": bool(settings.model) and not settings.offline,
            "source": "config" if settings.model and not settings.offline else "none",
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
            "broken": loaded.broken,
        },
        "calls": UNREADABLE["calls"],
        "storage": UNREADABLE["storage"],
        "owner": UNREADABLE["owner"],
    }


def _crash_reasons(places: Places) -> list[dict[str, Any]]:
    """Why the last worker ended, as the provider that started it or missed it has noted."""
    try:
        crash = Starts(places.data_dir).last_crash()
    except OSError as error:
        return [_reason("runtime_dir", str(error), int(time.time() * 1000), "correct the directory's owner or mode")]
    if crash is None:
        return []
    times = f" ({crash.streak} times in a row)" if crash.streak > 1 else ""
    message = "\n".join([f"{crash.reason}{times}", *crash.lines])
    action = f"see {places.logs}, then: {command_for(places, 'start')}"
    return [_reason("worker_crashed", message, int(crash.at * 1000), action)]


def _reason(code: str, message: str, since: int, action: str) -> dict[str, Any]:
    at = datetime.fromtimestamp(since / 1000, UTC).astimezone().isoformat(timespec="seconds")
    return {"code": code, "message": message, "since": at, "action": action}


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
        if worker.get("gateway"):
            print(f"gateway    {worker['gateway']}")
    print(f"data       {document['data_dir']}")
    counts, jobs = document["counts"], document["jobs"]
    if worker:
        print(f"knows      {counts['turns']} turns ({counts['messages']} messages), {counts['atoms']} atoms "
              f"({counts['superseded']} superseded), {counts['scenes']} scenes, persona "
              f"{'written' if counts['persona'] else 'not yet'}, {counts['vectors']} vectors")  # fmt: skip
        print(f"jobs       {jobs['due']} due, {jobs['running']} running, {jobs['retrying']} retrying, "
              f"{jobs['parked']} parked")  # fmt: skip
        if jobs.get("turns_to_reread"):
            print(f"reading    again {jobs['turns_to_reread']} turns that only rules have read "
                  "(memory.extraction.rereadRuleMade)")  # fmt: skip
    print(f"outbox     {document['outbox']['turns']} turns waiting")
    llm, vectors = document["llm"], document["embedding"]
    where = f" at {plain(str(llm['endpoint']))}" if llm["endpoint"] else ""
    print(f"model      {plain(str(llm['model']))}{where}" if llm["configured"] else "model      none: offline mode")
    _print_error(llm)
    chosen = vectors["provider"] not in (None, "", "none")
    embedder = " ".join(plain(str(name)) for name in (vectors["provider"], vectors["model"]) if name)
    done = "" if vectors["rows"] is None else f", {vectors['embedded']} of {vectors['rows']} embedded"
    print(f"embedding  {embedder}{done}" if chosen else "embedding  none: keyword search")
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
