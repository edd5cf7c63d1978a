"""The provider the host talks to: each hook in the host's terms, none of which ever raises or waits long.

The host calls from several threads, may never call `shutdown`, and may keep several providers in one process
(`docs/architecture.md`, the host); everything that takes time is the link's.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import launch, turns
from .boundary import boundary
from .errors import OutboxFull, ProviderError
from .host_model import find_host_model
from .link import IDLE_SECONDS, Link
from .outbox import Outbox
from .paths import default_data_dir, hermes_home, home_under_hermes
from .protocol import BAD_STATES, CAPTURE, MEMORY_WRITE, RECALL, SESSION_END, STATUS
from .session import Session
from .supervisor import Supervisor
from .tools import SCHEMAS, Tools

if TYPE_CHECKING:
    from .redaction import Redactor
    from .redaction.settings import HomeRedactor

try:
    from agent.memory_provider import MemoryProvider
except ImportError:  # without the host: tests and tools

    class MemoryProvider:  # type: ignore[no-redef]
        pass


logger = logging.getLogger(__name__)

NAME = "memory_tencentdb"
RECALL_SECONDS = 1.9
"""CONTRACT 7 gives prefetch 2,000 ms; the rest is for the host's thread to get its turn."""
BLOCK_SECONDS = 1.9
COMPRESS_SECONDS = 1.0
COMPRESS_CHARS = 1_500
HINT_SECONDS = 0.5
STOP_SECONDS = 2.0
DRAIN_SECONDS = 1.0
DEADLINE_MARGIN_MS = 100
WRITE_ACTIONS = frozenset({"add", "replace", "remove"})
SEALING_REASONS = frozenset({"", "new_session", "reset", "resume", "branch", "compression"})


class TencentDBMemoryProvider(MemoryProvider):  # type: ignore[misc] # the host is not there when types are checked
    """One instance per agent of the host. Before `initialize` it only knows its name, tools and settings."""

    recall_seconds = RECALL_SECONDS
    idle_seconds = IDLE_SECONDS
    """After so long without use the provider's thread ends; the next call starts it again."""

    def __init__(self) -> None:
        self._nonce = os.urandom(6).hex()
        self._session = Session("", {})
        self._turns = turns.TurnNumbers(self._nonce)
        self._tools = Tools()
        self._link: Link | None = None
        self._home = home_under_hermes()
        self._redaction: HomeRedactor | None = None
        self._stopping = threading.Event()
        self._warn: Callable[[str], Any] | None = None
        self._warned = False
        self._writes = 0
        self._last_recall = 0

    @property
    def name(self) -> str:
        return NAME

    # ------------------------------------------------------------------------------------------------ life cycle

    @boundary(False)
    def is_available(self) -> bool:
        """Whether a worker can be started or found. Looks at files only."""
        return not self.unavailable_reason()

    @boundary("")
    def unavailable_reason(self) -> str:
        try:
            if launch.run_command() is not None:
                return ""
        except ProviderError as error:
            return str(error)
        return f"the memory worker is not installed: {launch.how_to_install()}, or set MEMORY_TENCENTDB_WORKER_CMD"

    @boundary(None)
    def initialize(self, session_id: str = "", **kwargs: Any) -> None:
        """Returns at once; the worker is looked for in a thread. Called again, it begins anew."""
        self._leave()
        home = home_under_hermes(kwargs.get("hermes_home"))
        callback = kwargs.get("warning_callback")
        self._warn, self._warned = callback if callable(callback) else None, False
        self._session = Session(str(session_id or ""), kwargs)
        self._stopping = threading.Event()
        self._home, self._redaction = home, None
        outbox = Outbox(home / "outbox", nonce=self._nonce, created_ms=_now())
        supervisor = Supervisor(home, self._stopping)
        self._link = Link(supervisor, outbox, self._stopping, find_host_model, idle_seconds=self.idle_seconds)
        self._link.wake()

    @boundary(None)
    def shutdown(self, **_: Any) -> None:
        """Leaves within a few seconds. Turns that still wait stay in the outbox; the worker is not stopped."""
        self._leave()

    def _leave(self) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        try:
            link.drain(DRAIN_SECONDS)
        finally:
            link.stop(STOP_SECONDS)

    @boundary(None)
    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        reason: str = "",
        **_: Any,
    ) -> None:
        """`/undo` keeps everything: the messages taken back stay in memory, as a person's words do."""
        if rewound:
            self._session.forget_history()
            return
        if reset and new_session_id != self._session.session_id:
            self._end_session()
        self._session.switch_to(str(new_session_id or self._session.session_id))
        if reset or reason in SEALING_REASONS:
            self._session.forget_prompt()

    @boundary(None)
    def on_session_end(self, messages: Any = None, **_: Any) -> None:
        """Only a hint that the session's pending work may be done now: it may come twice, early, or never."""
        self._end_session()

    # ------------------------------------------------------------------------------------------------ reading

    @boundary("")
    def system_prompt_block(self, **_: Any) -> str:
        """The stable part: the same bytes from the session's start until the host builds its prompt anew."""
        if self._session.block is not None:
            return self._session.block
        if self._link is None:
            return ""
        return self._session.freeze(self._make_block(self._link))

    @boundary("")
    def prefetch(self, query: str = "", *, session_id: str = "", **_: Any) -> str:
        """What memory holds on `query`, "" when nothing or not in time."""
        self._last_recall = 0
        if self._link is None or turns.is_trivial(turns.flatten(query)):
            return ""
        answer = self._recall(self._link, turns.flatten(query), self.recall_seconds, session_id, self._session.given())
        given = [str(entry.get("id")) for entry in (answer.get("receipt") or {}).get("given") or []]
        self._session.mark_given(given)
        self._last_recall = len(given)
        return str(answer.get("prepend_context") or "")

    def queue_prefetch(self, query: str = "", *, session_id: str = "", **_: Any) -> None:
        """Nothing: recall for the next turn waits for the next turn's question (trap B45)."""

    @boundary("")
    def on_pre_compress(self, messages: Any = None, **_: Any) -> str:
        """What the summary should not lose: the memories that bear on the last question. The host builds its prompt
        anew after this, so that the frozen block is given up here."""
        self._session.forget_prompt()
        query = turns.last_user_text(messages)
        if self._link is None or turns.is_trivial(query):
            return ""
        text = str(self._recall(self._link, query, COMPRESS_SECONDS, "", []).get("prepend_context") or "")
        return text if len(text) <= COMPRESS_CHARS else text[:COMPRESS_CHARS].rpartition("\n")[0]

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Asked for before `initialize` too, and then kept by the host for good (trap B14)."""
        import copy

        return copy.deepcopy(list(SCHEMAS))

    @boundary('{"error": "The memory search failed unexpectedly.", "retry": false}')
    def handle_tool_call(self, tool_name: str, args: Any = None, **_: Any) -> str:
        return self._tools.call(tool_name, args, self._session.user_id, self._ask)

    def recall_status(self, **_: Any) -> dict[str, Any]:
        """For hosts that show a line about the last recall."""
        return {"provider_label": "memory", "count": self._last_recall, "glyph": "◇"}

    # ------------------------------------------------------------------------------------------------ writing

    @boundary(None)
    def on_turn_start(self, turn_number: int = 0, message: Any = "", **_: Any) -> None:
        self._turns.start()
        self._tools.start_turn()

    @boundary(None)
    def sync_turn(
        self,
        user_content: Any = "",
        assistant_content: Any = "",
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
        **_: Any,
    ) -> None:
        """The turn is durable when this returns, with the worker or in the outbox."""
        if not self._session.writes:
            return
        now = _now()
        user, assistant = self._text(user_content), self._text(assistant_content)
        if not user.strip() and not assistant.strip():
            return
        if messages:
            self._session.note_history(now)
        address = self._address(session_id)
        turn_id = self._turns.turn_id(address["session_key"], user, assistant, messages)
        whose = self._session.origins(messages)
        for number, (user_piece, assistant_piece) in enumerate(turns.split_turn(user, assistant)):
            piece_id = f"{turn_id}.{number}" if number else turn_id
            texts = {"user_content": user_piece, "assistant_content": assistant_piece} | whose
            self._deliver(
                CAPTURE, address | texts | {"turn_id": piece_id, "at": now, "source": "hermes"}, piece_id, now
            )

    @boundary(None)
    def on_memory_write(
        self, action: str, target: str = "", content: Any = "", metadata: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Mirrors what the host's own memory tool has committed."""
        if not self._session.writes or action not in WRITE_ACTIONS:
            return
        import hashlib

        now, facts = _now(), metadata if isinstance(metadata, dict) else {}
        self._writes += 1
        seed = f"{self._nonce}\n{self._writes}\n{action}\n{content}"
        write_id = "w_" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        body = self._address() | {
            "target": str(target),
            "old_text": self._text(facts.get("old_text"))[: turns.PIECE_CHARS],
            "at": now,
        }
        for number, (step, piece) in enumerate(turns.split_write(action, self._text(content))):
            piece_id = f"{write_id}.{number}" if number else write_id
            request = body | {"action": step, "content": piece, "write_id": piece_id}
            self._deliver(MEMORY_WRITE, request, piece_id, now)

    def on_delegation(self, task: str = "", result: str = "", *, child_session_id: str = "", **_: Any) -> None:
        """Nothing: a subagent's work reaches memory as part of the parent's turn, in the words the user saw."""

    # ------------------------------------------------------------------------------------------------ settings

    def get_config_schema(self) -> list[dict[str, Any]]:
        from .wizard import FIELDS

        return [dict(field) for field in FIELDS]

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Raises ProviderError when the settings are in a YAML file: the host shows the message."""
        from .wizard import save_values

        save_values(values, home_under_hermes(hermes_home))

    def post_setup(self, hermes_home: str, config: dict[str, Any]) -> None:
        from .wizard import run_wizard

        run_wizard(hermes_home, config)

    @boundary({})  # type: ignore[arg-type]
    def get_status_config(self, config: Any = None) -> dict[str, Any]:
        home = home_under_hermes()
        shown = {"home": str(home), "data": str(Supervisor(home, self._stopping).data_dir())}
        shown["worker"] = self.unavailable_reason() or " ".join(launch.run_command() or [])
        waiting = Outbox(home / "outbox").pending()
        return (dict(config) if isinstance(config, dict) else {}) | shown | {"turns in the outbox": waiting}

    @boundary([])  # type: ignore[arg-type]
    def backup_paths(self, **_: Any) -> list[str]:
        """The host backs up everything under its home itself; only a data directory elsewhere is named."""
        data_dir = default_data_dir(home_under_hermes())
        outside = not data_dir.resolve().is_relative_to(hermes_home().resolve())
        return [str(data_dir)] if outside and data_dir.is_dir() and _is_under(data_dir, Path.home()) else []

    # ------------------------------------------------------------------------------------------------ inside

    def _text(self, content: Any) -> str:
        """What of a host's content may leave this process: no secrets."""
        return self._redactor().redact(turns.flatten(content))

    def _address(self, session_id: str = "") -> dict[str, Any]:
        redactor, address = self._redactor(), self._session.address(session_id)
        return address | {key: redactor.redact_name(address[key]) for key in ("session_key", "session_id")}

    def _redactor(self) -> Redactor:
        if self._redaction is None:
            from .redaction.settings import HomeRedactor

            self._redaction = HomeRedactor(self._home)
        return self._redaction.get()

    def _ask(self, route: str, body: dict[str, Any], seconds: float, *, method: str = "POST") -> dict[str, Any]:
        if self._link is None:
            raise ProviderError("the provider is not initialised")
        return self._link.ask(route, body, seconds, method=method)

    def _recall(
        self, link: Link, query: str, seconds: float, session_id: str, exclude_ids: list[str]
    ) -> dict[str, Any]:
        """The answer to a recall, {} when the worker cannot give one in time."""
        question = turns.shorten_query(query)
        body = self._address(session_id) | {"query": question, "exclude_ids": exclude_ids}
        if self._session.visible_since is not None:
            body["visible_since"] = self._session.visible_since
        body["deadline_ms"] = max(int(seconds * 1000) - DEADLINE_MARGIN_MS, DEADLINE_MARGIN_MS)
        try:
            return link.ask(RECALL, body, seconds)
        except ProviderError as error:
            logger.debug("memory_tencentdb: no recall: %s", error)
            self._warn_once(link.reason)
            return {}

    def _make_block(self, link: Link) -> str:
        answer = self._recall(link, "", BLOCK_SECONDS, "", [])
        stable = str(answer.get("append_system_context") or "")
        reason = self._trouble(link, answer)
        return "\n\n".join(part for part in (stable, reason) if part)

    def _trouble(self, link: Link, answer: dict[str, Any]) -> str:
        """One line when memory does not work as it should, so that neither the model nor the user is left to guess."""
        if not answer:
            reason = link.reason or "its worker has not answered yet"
        elif answer.get("state") in BAD_STATES:
            reason = self._first_reason(str(answer["state"]))
            self._warn_once(reason)
        else:
            return ""
        return f"Long-term memory is degraded: {' '.join(reason.split())[:300]}. New turns are kept."

    def _first_reason(self, state: str) -> str:
        try:
            reasons = self._ask(STATUS, {}, HINT_SECONDS, method="GET").get("reasons") or []
            return str(reasons[0]["message"])
        except (ProviderError, LookupError, TypeError):
            return f"its state is {state}"

    def _deliver(self, route: str, body: dict[str, Any], line_id: str, now: int) -> None:
        if self._link is None:
            logger.error("memory_tencentdb: a turn came before initialize or after shutdown and was not kept")
            return
        try:
            self._link.deliver(route, body, line_id, now)
        except OutboxFull as error:
            logger.error("memory_tencentdb: A TURN WAS LOST: %s", error)  # noqa: TRY400 - the message says it all
            self._warned = False
            self._warn_once(f"a turn could not be kept: {error}")
        else:
            self._warn_once(self._link.reason)

    def _end_session(self) -> None:
        if self._link is None or not self._session.writes or not self._link.is_ready:
            return
        address = self._address()
        try:
            self._ask(SESSION_END, {key: address[key] for key in ("session_key", "user_id")}, HINT_SECONDS)
        except ProviderError as error:
            logger.debug("memory_tencentdb: the session's end was not taken: %s", error)

    def _warn_once(self, reason: str) -> None:
        """Tells the user through the host, once per provider, that memory is not working (trap B12)."""
        if not reason or self._warned or self._warn is None:
            return
        self._warned = True
        self._warn(f"memory_tencentdb: memory is degraded: {reason}")


def _now() -> int:
    return int(time.time() * 1000)


def _is_under(path: Path, parent: Path) -> bool:
    return path.resolve().is_relative_to(parent.resolve())
