"""The wire's constants: versions, limits, routes. The bodies of requests and answers are in `wire`.

JSON over HTTP/1.1 on the data directory's Unix socket.
"""

from __future__ import annotations

VERSION = "0.2.0"
"""Version of the distribution."""

PROTOCOL = 1
"""Version of this file's meaning; a newer client replaces an older worker (issue 3)."""

BODY_LIMIT_BYTES = 1024 * 1024
"""Largest request body the worker reads; more is answered with 413."""

HEALTH = "/health"
HELLO = "/v1/hello"
RECALL = "/recall"
CAPTURE = "/capture"
SEARCH_MEMORIES = "/search/memories"
SEARCH_CONVERSATIONS = "/search/conversations"
SESSION_END = "/session/end"
MEMORY_WRITE = "/v1/memory-write"
STATUS = "/v1/status"
FLUSH = "/v1/flush"
WHY = "/v1/why/{id}"
WHY_NOT = "/v1/why-not"
TRACE = "/v1/trace/{id}"
INSPECT = "/v1/inspect"
SCENE = "/v1/scene/{name}"
HISTORY = "/v1/history/{name}"
DIFF = "/v1/diff/{name}"
ROLLBACK = "/v1/rollback"
REBUILD = "/v1/rebuild"
FORGET = "/v1/forget"
RESCAN = "/v1/rescan"
FORGET_PENDING = "/v1/forget/pending"
EDIT = "/v1/edit"
UNDO = "/v1/undo"
AUDIT = "/v1/audit"
PAUSE = "/v1/pause"
RESUME = "/v1/resume"
QUARANTINE = "/v1/quarantine"
SUSPECT = "/v1/quarantine/{id}"
STOP = "/v1/stop"
PARKED = "/v1/parked"
CHECK = "/v1/check/{part}"
CALLS = "/v1/calls"
ACTIVITY = "/v1/activity"
DOCTOR = "/v1/doctor"
REPLAY = "/v1/replay"
REPLAY_STEP = "/v1/replay/{step}"
"""status and diff are read; switch, rollback and abandon are done."""

BAD_STATES = frozenset({"degraded", "paused", "broken"})
"""States of the worker that a host and its model are told of; a worker that lags catches up by itself."""
