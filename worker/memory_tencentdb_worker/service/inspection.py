"""`inspect`: one page of a layer, or an overview, in the shape of the manual's read-local-memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from memory_tencentdb_worker.errors import InvalidInput
from memory_tencentdb_worker.models import Atom, AtomType, Layer, Message, Page, Persona, Role, Scene
from memory_tencentdb_worker.recall.past import read_past
from memory_tencentdb_worker.recall.render import body_text
from memory_tencentdb_worker.service.predicates import Predicate, parse_filter
from memory_tencentdb_worker.service.scene_view import scene_document, scene_row
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.times import iso_local, parse_instant

LONGEST_PAGE = 10_000
READ_AT_ONCE = 500
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_AGO = re.compile(r"(\d{1,6})([dhms])", re.ASCII)


@dataclass(frozen=True)
class Inspection:
    """What to look at. `level` "" is the overview; `scope` None is everybody."""

    level: str = ""
    since: str = ""
    until: str = ""
    limit: int = 50
    offset: int = 0
    sort: str = "desc"
    filter: str = ""
    file: str = ""
    scope: str | None = None
    as_of: str = ""  # what was known then


def inspect_rows(wanted: Inspection, store: Store, zone: tzinfo, now: int, max_scenes: int) -> dict[str, Any]:
    """With `as_of`, scenes and the persona are put together from what was known then (`max_scenes` at most).

    Raises InvalidInput for a level, time, filter or sort that does not exist, NotFound for a file.
    """
    as_of = _instant(wanted.as_of, zone, now)
    if not wanted.level:
        if as_of is not None:
            raise InvalidInput("as_of goes with a level (-L): L0, L1, L2 or L3")
        return {"level": None, "data": _overview(store, wanted.scope)}
    layer = _layer(wanted.level)
    if wanted.file:
        if layer is not Layer.L2:
            raise InvalidInput("file names a scene: it goes with level L2")
        if as_of is not None:
            raise InvalidInput("as_of shows all scenes: it does not go with file")
        return {"level": layer, "file": wanted.file, "data": scene_document(wanted.file, store, zone, wanted.scope)}
    page = _page(wanted, zone, now)
    predicates = parse_filter(wanted.filter, layer)
    if layer is Layer.L0 and as_of is not None:
        page = replace(page, until=as_of + 1 if page.until is None else min(page.until, as_of + 1))
    if as_of is not None and layer in (Layer.L2, Layer.L3):
        rows, total = _read_past(layer, page, predicates, wanted.scope, store, zone=zone, as_of=as_of, most=max_scenes)
    else:
        rows, total = _read(layer, page, predicates, wanted.scope, store, zone=zone, as_of=as_of)
    return {
        "level": layer,
        "total": total,
        "offset": page.offset,
        "limit": page.limit,
        "sort": "asc" if page.ascending else "desc",
        "filter": wanted.filter or None,
        **({} if as_of is None else {"asOf": iso_local(as_of, zone), "assembled": layer in (Layer.L2, Layer.L3)}),
        "data": rows,
    }


def _layer(level: str) -> Layer:
    try:
        return Layer(level.upper())
    except ValueError as error:
        raise InvalidInput(f"level {level!a} does not exist: use L0, L1, L2 or L3") from error


def _page(wanted: Inspection, zone: tzinfo, now: int) -> Page:
    if wanted.sort not in ("asc", "desc"):
        raise InvalidInput(f"sort is asc or desc, not {wanted.sort!a}")
    if not 1 <= wanted.limit <= LONGEST_PAGE or wanted.offset < 0:
        raise InvalidInput(f"limit must be between 1 and {LONGEST_PAGE}, offset not negative")
    return Page(
        limit=wanted.limit,
        offset=wanted.offset,
        ascending=wanted.sort == "asc",
        since=_instant(wanted.since, zone, now),
        until=_instant(wanted.until, zone, now),
    )


def _instant(text: str, zone: tzinfo, now: int) -> int | None:
    if not text:
        return None
    ago = _AGO.fullmatch(text.strip())
    return now - int(ago[1]) * _UNIT_MS[ago[2]] if ago else parse_instant(text, zone)


def _read(
    layer: Layer,
    page: Page,
    predicates: list[Predicate],
    scope: str | None,
    store: Store,
    *,
    zone: tzinfo,
    as_of: int | None = None,
) -> tuple[list[dict[str, Any]], int]:
    if not predicates:
        found = store.list_rows(layer, page, scope=scope, as_of=as_of)
        return [_row(one, zone) for one in found.rows], found.total
    rows = _all_rows(layer, page, scope, store, zone, as_of)
    return _page_of(rows, predicates, page)


def _page_of(
    rows: Iterable[dict[str, Any]], predicates: list[Predicate], page: Page
) -> tuple[list[dict[str, Any]], int]:
    matching = [row for row in rows if all(one.holds(row) for one in predicates)]
    return matching[page.offset : page.offset + page.limit], len(matching)


def _read_past(
    layer: Layer,
    page: Page,
    predicates: list[Predicate],
    scope: str | None,
    store: Store,
    *,
    zone: tzinfo,
    as_of: int,
    most: int,
) -> tuple[list[dict[str, Any]], int]:
    rows = []
    for user in store.scopes() if scope is None else [scope]:
        past = read_past(store, user, as_of, most)
        documents = past.scenes if layer is Layer.L2 else [past.persona] if past.persona else []
        rows += [_row(one, zone) for one in documents]
    return _page_of(rows, predicates, page)


def _all_rows(
    layer: Layer, page: Page, scope: str | None, store: Store, zone: tzinfo, as_of: int | None
) -> Iterator[dict[str, Any]]:
    """Predicates may name any column, so they are applied here, over the whole span of time."""
    offset = 0
    while True:
        part = Page(READ_AT_ONCE, offset, page.ascending, page.since, page.until)
        found = store.list_rows(layer, part, scope=scope, as_of=as_of)
        for one in found.rows:
            yield _row(one, zone)
        offset += READ_AT_ONCE
        if offset >= found.total or not found.rows:
            return


def _row(one: Message | Atom | Scene | Persona, zone: tzinfo) -> dict[str, Any]:
    if isinstance(one, Message):
        return _message_row(one, zone)
    if isinstance(one, Atom):
        return _atom_row(one, zone)
    if isinstance(one, Scene):
        return scene_row(one, zone)
    return _persona_row(one, zone)


def _message_row(message: Message, zone: tzinfo) -> dict[str, Any]:
    return {
        "id": message.id,
        "sessionKey": message.session_key,
        "sessionId": message.session_id,
        "role": message.role,
        "content": message.text,
        "recordedAt": iso_local(message.recorded_at, zone),
        "timestamp": message.sent_at,
        "turnId": message.turn_id,
        "userId": message.scope,
        "origin": message.origin,
    }


def _atom_row(atom: Atom, zone: tzinfo) -> dict[str, Any]:
    start, end = _iso_or_empty(atom.activity_start, zone), _iso_or_empty(atom.activity_end, zone)
    return {
        "id": atom.id,
        "content": atom.content,
        "type": atom.type,
        "priority": atom.priority,
        "sceneName": atom.scene_name,
        "sessionKey": atom.session_key,
        "sessionId": atom.session_id,
        "timestampStr": start or iso_local(atom.valid_from, zone),
        "timestampStart": start,
        "timestampEnd": end,
        "createdTime": iso_local(atom.recorded_from, zone),
        "updatedTime": iso_local(atom.superseded_at or atom.recorded_from, zone),
        "metadata": {"activity_start_time": start, "activity_end_time": end} if start or end else {},
        "validFrom": iso_local(atom.valid_from, zone),
        "validTo": _iso_or_empty(atom.valid_to, zone),
        "supersededAt": _iso_or_empty(atom.superseded_at, zone),
        "supersededBy": atom.superseded_by or "",
        "extractor": atom.extractor,
        "origin": atom.origin,
        "userId": atom.scope,
        "sourceMessageIds": [source.message_id for source in atom.sources],
    }


def _persona_row(persona: Persona, zone: tzinfo) -> dict[str, Any]:
    return {
        "id": "persona",
        "content": body_text(persona.sections),
        "revision": persona.revision,
        "created": iso_local(persona.created_at, zone),
        "reason": persona.reason,
        "userId": persona.scope,
    }


def _iso_or_empty(instant: int | None, zone: tzinfo) -> str:
    return "" if instant is None else iso_local(instant, zone)


def _overview(store: Store, scope: str | None) -> dict[str, Any]:
    counts = store.counts(scope)
    one = Page(limit=1)
    roles = {role: store.list_rows(Layer.L0, one, scope=scope, role=role).total for role in Role}
    types = {kind: store.list_rows(Layer.L1, one, scope=scope, type=kind).total for kind in AtomType}
    scenes = [row for user in store.scopes() if scope in (None, user) for row in store.scenes(user)]
    personas = [found for user in store.scopes() if scope in (None, user) and (found := store.persona(user))]
    return {
        "L0": {"messages": counts.messages, "turns": counts.turns, "roles": {str(k): v for k, v in roles.items()}},
        "L1": {
            "atoms": counts.atoms,
            "superseded": counts.superseded,
            "types": {str(k): v for k, v in types.items()},
        },
        "L2": {"scenes": len(scenes), "heat": {scene.name: scene.heat for scene in scenes}},
        "L3": {"personas": len(personas), "characters": sum(len(body_text(one.sections)) for one in personas)},
    }
