"""Forgetting from plan to proof: one operation that survives the death of the worker at any point.

Before anything is deleted, what is to go is written to a private file; it is taken away when all is done. A worker that
finds one at its start goes on with it. Every step may run twice.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any

from memory_tencentdb.outbox import Outbox
from memory_tencentdb.wire import ForgetRequest, RescanRequest
from memory_tencentdb_worker.byte_scan import Scan, forms
from memory_tencentdb_worker.errors import Busy, InvalidInput, NotFound, StoreError
from memory_tencentdb_worker.service.arguments import scope_of
from memory_tencentdb_worker.service.rescan import SecretScan
from memory_tencentdb_worker.store.forget_files import blank_logs, drop_copies, prove, telling_pieces
from memory_tencentdb_worker.store.forget_plan import ForgetPlan, Selection
from memory_tencentdb_worker.store.forgetting import Forgetting, Forgotten
from memory_tencentdb_worker.store.generations import files as generation_files
from memory_tencentdb_worker.store.redacting import Unredacted
from memory_tencentdb_worker.store.wishes import Wish
from memory_tencentdb_worker.text.times import parse_instant

log = logging.getLogger(__name__)

INTENT_FILE = ".forgetting.json"
SHOWN_ITEMS = 200
KEEP, DELETE = "keep", "delete"
REDACT = "redact"
"""A kind of operation: rows are rewritten instead of deleted, and nothing that waits is dropped."""


@dataclass(frozen=True)
class ForgetPlaces:
    home: Path
    data_dir: Path
    logs: Path


@dataclass(frozen=True)
class ForgetTools:
    """What other parts of the worker do in a forgetting."""

    read_edits: Callable[[], object]  # takes in what a person wrote into files, which is looked at too then
    rebuild_files: Callable[[], object]
    drop_generations: Callable[[], int]
    back_up: Callable[[int], str]
    settle_wish: Callable[[int, int], None]
    wishes: Callable[[], list[Wish]]
    wake: Callable[[], None]
    secrets: SecretScan


@dataclass
class Intent:
    """What is under way. `texts` spell it out: nothing but this file does, and only until the end."""

    operation: str
    kind: str
    phrase: str
    backups: str
    scope: str
    messages: list[int]
    atoms: list[int]
    texts: list[str]
    ids: list[str]


class ForgetDesk:
    """Thread-safe; one operation at a time."""

    def __init__(
        self, forgetting: Forgetting, places: ForgetPlaces, tools: ForgetTools, zone: tzinfo, clock: Callable[[], int]
    ) -> None:
        self._forgetting, self._places, self._tools = forgetting, places, tools
        self._zone, self._clock = zone, clock
        self._lock = threading.Lock()
        self._outbox = Outbox(places.home / "outbox")
        self.trouble = ""
        """Why a forgetting that was begun is not finished."""

    def forget(self, request: ForgetRequest) -> dict[str, Any]:
        """A plan, or with `yes` the deed. Raises InvalidInput, NotFound, Busy, StoreError."""
        dry_run = not request.yes if request.dry_run is None else request.dry_run
        if request.backups not in (KEEP, DELETE):
            raise InvalidInput(f"backups must be {DELETE} or {KEEP}")
        if not self._lock.acquire(blocking=False):
            raise Busy("another forgetting is under way: try again when it has ended")
        try:
            self._finish_pending()
            self._tools.read_edits()
            wishes = self._tools.wishes() if request.pending else []
            wanted = self._selections(request, wishes)
            named = [(one, found) for one in wanted if (found := self._forgetting.look(one)) is not None]
            looks = [found for _, found in named]
            if not looks:
                raise NotFound("nothing is known that could be forgotten: nothing was changed")
            if dry_run:
                return {"dry_run": True, "operation": None, **_shown(looks, request)}
            results = [self._run(self._intent(found, one, request)) for one, found in named]
            for wish in wishes:
                self._tools.settle_wish(wish.id, self._clock())
            return {"dry_run": False, **_shown(looks, request), **_joined(results)}
        finally:
            self._lock.release()

    def rescan(self, request: RescanRequest) -> dict[str, Any]:
        """A plan, or with `yes` the secrets of older versions are redacted everywhere. Raises Busy, InvalidInput,
        StoreError."""
        if not self._lock.acquire(blocking=False):
            raise Busy("a forgetting is under way: try again when it has ended")
        try:
            self._finish_pending()
            self._tools.read_edits()
            looks = self._tools.secrets.find()
            plan = {"plan": self._tools.secrets.plan(looks)}
            if request.dry_run or not request.yes or not looks:
                return {"dry_run": not (request.yes and not request.dry_run), "operation": None, **plan}
            results = [self._run(self._redaction(one)) for one in looks]
            return {"dry_run": False, **plan, **_joined(results)}
        finally:
            self._lock.release()

    def finish_pending(self) -> None:
        """What was begun and has not ended, by a former worker too. Raises StoreError."""
        with self._lock:
            self._finish_pending()

    # ---- inside
    def _selections(self, request: ForgetRequest, wishes: list[Wish]) -> list[Selection]:
        kinds = (request.id, request.ids, request.session, request.matching, request.before, request.pending)
        named = [bool(one) for one in kinds]
        if sum(named) != 1:
            raise InvalidInput("say what: exactly one of id, ids, session, matching, before and pending")
        if request.pending:
            return [Selection(wish.scope, ids=wish.targets) for wish in wishes]
        scope = scope_of(request.user_id or "")
        if request.id:
            return [Selection(None if request.user_id is None else scope, ids=(request.id,))]
        if request.ids:
            return [Selection(scope, ids=tuple(request.ids))]
        if request.session:
            return [Selection(scope, session=request.session)]
        if request.matching:
            if not request.matching.strip():
                raise InvalidInput("the text to look for is blank")
            return [Selection(scope, matching=request.matching)]
        return [Selection(scope, before=parse_instant(request.before, self._zone))]

    def _intent(self, found: Forgotten, wanted: Selection, request: ForgetRequest) -> Intent:
        return Intent(
            operation=f"f_{secrets.token_hex(8)}",
            kind=wanted.kind,
            phrase=wanted.matching,
            backups=request.backups,
            scope=found.plan.scope,
            messages=sorted(found.plan.messages),
            atoms=sorted(found.plan.atoms),
            texts=list(found.texts),
            ids=sorted(found.ids),
        )

    def _redaction(self, found: Unredacted) -> Intent:
        return Intent(
            operation=f"r_{secrets.token_hex(8)}",
            kind=REDACT,
            phrase="",
            backups=DELETE,
            scope=found.scope,
            messages=[],
            atoms=[],
            texts=self._tools.secrets.secrets_in(found),
            ids=list(found.ids),
        )

    def _finish_pending(self) -> None:
        intent = self._read_intent()
        if intent is not None:
            log.warning("the forgetting %s, which was interrupted, goes on", intent.operation)
            self._carry_out(intent)

    def _run(self, intent: Intent) -> dict[str, Any]:
        self._write_intent(intent)
        return self._carry_out(intent)

    def _carry_out(self, intent: Intent) -> dict[str, Any]:
        try:
            result = self._steps(intent)
        except (StoreError, OSError) as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        log.info("the forgetting %s is done", intent.operation)
        return result

    def _steps(self, intent: Intent) -> dict[str, Any]:
        redacts = intent.kind == REDACT
        lines = self._redact_rows(intent) if redacts else self._delete_rows(intent)
        self._tools.wake()
        self._tools.rebuild_files()
        pieces = self._forgetting.left_over(telling_pieces(intent.texts, intent.phrase))
        wanted = {form for piece in pieces for form in forms(piece)}
        waiting = 0 if redacts else self._outbox.blank(lambda line: any(form in line for form in wanted))
        in_logs = blank_logs(self._places.logs, pieces)
        generations = self._tools.drop_generations() if generation_files(self._places.data_dir) else 0
        copies = [] if intent.backups == KEEP else drop_copies(self._places.data_dir, intent.ids, pieces)
        self._forgetting.scrub()
        backup = self._tools.back_up(self._clock())
        proof = prove([self._places.home, self._places.data_dir, self._places.logs], pieces)
        self._end_intent()
        return {
            "operation": intent.operation,
            "lines": lines,
            "outbox_lines": waiting,
            "log_places": in_logs,
            "generations": generations,
            "copies_deleted": copies,
            "backup": backup,
            "proof": self._proof(proof, len(pieces)),
        }

    def _delete_rows(self, intent: Intent) -> int:
        plan = ForgetPlan(intent.scope, frozenset(intent.messages), frozenset(intent.atoms))
        what = Forgotten(plan, 0, 0, (), 0, 0, tuple(intent.texts), frozenset(intent.ids), ())
        return self._forgetting.delete(what, intent.phrase, intent.operation, self._clock())

    def _redact_rows(self, intent: Intent) -> int:
        self._tools.secrets.rewrite(intent.scope, intent.operation, self._clock())
        return 0

    def _proof(self, scan: Scan, pieces: int) -> dict[str, Any]:
        """The intent is the one file that had to hold it to the end."""
        intent = str((self._places.data_dir / INTENT_FILE).resolve())
        where = [hit for hit in scan.hits if hit != intent]
        return {
            "texts": pieces,
            "files": scan.files,
            "bytes": scan.size_bytes,
            "hits": len(where),
            "where": where,
            "unread": list(scan.unread),
        }

    # ---- the intent
    @property
    def _intent_path(self) -> Path:
        return self._places.data_dir / INTENT_FILE

    def _write_intent(self, intent: Intent) -> None:
        path = self._intent_path
        temporary = path.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            json.dump(vars(intent), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def _read_intent(self) -> Intent | None:
        self._intent_path.with_suffix(".tmp").unlink(missing_ok=True)
        try:
            return Intent(**json.loads(self._intent_path.read_text(encoding="ascii")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(f"{self._intent_path} cannot be read: {error}", code="files") from error

    def _end_intent(self) -> None:
        with suppress(FileNotFoundError):
            self._intent_path.unlink()


def _shown(looks: list[Forgotten], request: ForgetRequest) -> dict[str, Any]:
    items = [{"id": id, "layer": layer, "text": text} for one in looks for id, layer, text in one.shown]
    return {
        "plan": {
            "messages": sum(one.messages for one in looks),
            "turns": sum(one.turns for one in looks),
            "sessions": len({session for one in looks for session in one.sessions}),
            "atoms": sum(one.atoms for one in looks),
            "superseded": sum(one.superseded for one in looks),
            "items": items[:SHOWN_ITEMS],
            "more": max(0, len(items) - SHOWN_ITEMS),
        },
        "backups": request.backups,
    }


def _joined(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Several wishes at once: what was proved last was proved after all of them, for its own texts."""
    if len(results) == 1:
        return results[0]
    return {**results[-1], "parts": results}
