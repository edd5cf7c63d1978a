"""`doctor`: looks whether everything is as it should be, and with `--repair` puts right what can be."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from memory_tencentdb.protocol import DOCTOR, VERSION
from memory_tencentdb_worker.cli.connect import WorkerClient, find_worker, places_of
from memory_tencentdb_worker.cli.exits import DEGRADED, DONE, RefusedError
from memory_tencentdb_worker.cli.family import add_command
from memory_tencentdb_worker.cli.output import plain, print_json

if TYPE_CHECKING:
    from memory_tencentdb_worker.cli.family import Commands
    from memory_tencentdb_worker.places import Places

EXAMINE_SECONDS = 900.0
"""Every text of a large store is read."""

SHOWN_IDS = 5

MARKS = {"error": "ERROR", "warning": "warn ", "note": "note "}


def add_commands(commands: Commands, places: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, places, "doctor", run_doctor,
        purpose="look whether everything is as it should be, and repair what can be", example="doctor --repair",
    )  # fmt: skip
    parser.add_argument("--repair", action="store_true", help="put right what can be; never changes what was said")
    parser.add_argument("--quick", action="store_true", help="without reading every text, and without asking the model")


def run_doctor(args: argparse.Namespace) -> int:
    """Exit 6 when something is wrong (notes are not)."""
    report = examine(args, repair=args.repair, quick=args.quick)
    if args.json:
        print_json(report)
    else:
        _print_report(report, args.repair)
    return DONE if report["clean"] else DEGRADED


def examine(args: argparse.Namespace, *, repair: bool, quick: bool) -> dict[str, Any]:
    """`{clean, findings, repaired, worker, home, data_dir, ...}`, through the worker where one runs."""
    from memory_tencentdb_worker.service.doctor_kinds import is_clean
    from memory_tencentdb_worker.service.doctor_outside import look_outside, repair_outside
    from memory_tencentdb_worker.shipping.hermes_config import enabled_provider

    places = places_of(args)
    client = find_worker(args).client
    running = client.listens()
    outside = look_outside(places, enabled_provider)
    repaired = []
    if repair and any(one["repairable"] for one in outside):
        before = outside
        repair_outside(places)
        outside = look_outside(places, enabled_provider)
        codes = {one["code"] for one in outside}
        repaired = [one for one in before if one["repairable"] and one["code"] not in codes]
    inside = _through_worker(client, repair=repair, quick=quick) if running else _without(places, repair, quick)
    findings = outside + inside["findings"]
    return {
        "clean": is_clean(findings),
        "findings": findings,
        "repaired": [
            {name: one[name] for name in ("code", "what", "where", "count")} for one in repaired + inside["repaired"]
        ],
        "worker": running,
        "version": VERSION,
        "home": str(places.home),
        "data_dir": str(places.data_dir),
        "quick": quick and not repair,
    }


def _through_worker(client: WorkerClient, *, repair: bool, quick: bool) -> dict[str, Any]:
    from memory_tencentdb_worker.service.doctor_kinds import finding

    version = str(client.hello()["version"])
    wanted = urlencode({name: "true" for name, on in (("repair", repair), ("quick", quick)) if on})
    try:
        report: dict[str, Any] = client.post(f"{DOCTOR}?{wanted}", {}, timeout_seconds=EXAMINE_SECONDS)
    except RefusedError:
        if version == VERSION:
            raise
        return {"findings": [finding("worker_older", [client.socket_path], version)], "repaired": []}
    if version != VERSION:
        report["findings"].append(finding("worker_older", [client.socket_path], version))
    return report


def _without(places: Places, repair: bool, quick: bool) -> dict[str, Any]:
    """Opens the store itself. To repair, under the worker's lock, so that none starts meanwhile."""
    from memory_tencentdb_worker.app import offline_doctor
    from memory_tencentdb_worker.errors import AlreadyRunning, SchemaTooNew, StoreCorrupt, StoreError
    from memory_tencentdb_worker.lock import WorkerLock
    from memory_tencentdb_worker.service.doctor_kinds import finding
    from memory_tencentdb_worker.service.outside import damage_reason
    from memory_tencentdb_worker.store.sqlite import open_for_a_look, open_store

    now = int(time.time() * 1000)
    away = finding("worker_away", [places.data_dir])
    if not (places.data_dir / "memory.db").exists() and not (places.data_dir / "conversations").exists():
        return {"findings": [away], "repaired": []}
    try:
        lock = WorkerLock(places.data_dir) if repair else None
    except AlreadyRunning as error:
        raise RefusedError(str(error), "it is starting or does not answer: memory-tencentdb status") from error
    try:
        store = open_store(places.data_dir, now) if repair else open_for_a_look(places.data_dir, now)
        if store is None:
            return {"findings": [finding("schema_older", [places.data_dir / "memory.db"]), away], "repaired": []}
        try:
            report = offline_doctor(places, store, lambda: int(time.time() * 1000)).examine(repair=repair, quick=quick)
        finally:
            store.close()
    except StoreCorrupt as error:
        reason = damage_reason(error, places.data_dir, now)
        report = {
            "findings": [finding("store_corrupt", [places.data_dir], reason.message, reason.action)],
            "repaired": [],
        }
    except (SchemaTooNew, StoreError) as error:
        raise RefusedError(str(error), code=error.code) from error
    finally:
        if lock is not None:
            lock.release()
    report["findings"].append(away)
    return report


def _print_report(report: dict[str, Any], repair: bool) -> None:
    for one in report["repaired"]:
        print(f"repaired   {one['code']} ({one['count']}): {plain(one['what'])}")
    for one in report["findings"]:
        print(f"{MARKS[one['severity']]}      {one['code']} ({one['count']}): {plain(one['what'])}")
        for where in one["where"][:SHOWN_IDS]:
            print(f"             {plain(where, keep_lines=False)}")
        if one["count"] > SHOWN_IDS:
            print(f"             and {one['count'] - SHOWN_IDS} more (--json shows them)")
        print(f"           > {plain(one['fix'])}")
    if report["clean"]:
        print("everything is as it should be")
    elif not repair and any(one["repairable"] for one in report["findings"]):
        print("memory-tencentdb doctor --repair puts right what it can")
