"""What a provider remembers of the session it serves: whose memory it is, and what the session has been given."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .origins import ASSISTANT, USER, answer_origin, user_origin

GIVEN_LIMIT = 2_000
SILENT_CONTEXTS = frozenset({"cron", "subagent", "flush", "background"})
"""Their turns are not the user's: they are answered from memory but never written into it."""

OWN_HOME_IDENTITIES = frozenset({"", "default", "custom"})


class Session:
    """Safe for any thread: the host recalls, syncs and switches on three of them."""

    def __init__(self, session_id: str, facts: dict[str, Any]) -> None:
        self._lock = threading.Lock()
        self._gateway_key = str(facts.get("gateway_session_key") or "")
        self._given: dict[str, None] = {}
        self._block: str | None = None
        self._visible_since: int | None = None
        self.session_id = session_id
        self.user_id = _scope_of(facts)
        self._user_origin = user_origin(str(facts.get("platform") or ""))
        self.writes = not (
            str(facts.get("agent_context") or "").lower() in SILENT_CONTEXTS
            or str(facts.get("platform") or "").lower() in SILENT_CONTEXTS
        )

    def key_of(self, session_id: str = "") -> str:
        """The session key of a turn. A gateway's key names the chat and outlives its session ids."""
        return self._gateway_key or session_id or self.session_id

    def address(self, session_id: str = "") -> dict[str, Any]:
        """The fields that every request about this session carries."""
        return {
            "session_key": self.key_of(session_id),
            "session_id": session_id or self.session_id,
            "user_id": self.user_id,
        }

    def origins(self, messages: object) -> dict[str, str]:
        """Whose words the last turn holds, where it is not simply the user's and the assistant's."""
        found = {"user_origin": self._user_origin, "assistant_origin": answer_origin(messages)}
        return {name: origin for name, origin in found.items() if origin not in (USER, ASSISTANT)}

    def given(self) -> list[str]:
        """Ids that the model already has before its eyes in this session."""
        with self._lock:
            return list(self._given)

    def mark_given(self, ids: Iterable[str]) -> None:
        with self._lock:
            self._given.update(dict.fromkeys(ids))
            for old in list(self._given)[: max(len(self._given) - GIVEN_LIMIT, 0)]:
                del self._given[old]

    @property
    def visible_since(self) -> int | None:
        """What was said from then on (epoch ms) surely stands in the host's history; None: nothing is sure, as after a
        resume, when the history may have been compressed before."""
        return self._visible_since

    def note_history(self, now: int) -> None:
        """The host has shown that it keeps the turn that is being written."""
        with self._lock:
            if self._visible_since is None:
                self._visible_since = now

    def forget_history(self) -> None:
        """Turns were taken back or summed up."""
        with self._lock:
            self._visible_since = None

    @property
    def block(self) -> str | None:
        """The frozen system prompt block, None until it is made."""
        return self._block

    def freeze(self, block: str) -> str:
        """Keeps the first block that is made; later ones change nothing until `forget_prompt`."""
        with self._lock:
            if self._block is None:
                self._block = block
            return self._block

    def forget_prompt(self) -> None:
        """The host is about to build its prompt anew: what was given before is no longer in it."""
        with self._lock:
            self._block = self._visible_since = None
            self._given.clear()

    def switch_to(self, session_id: str) -> None:
        self.session_id = session_id


def _scope_of(facts: dict[str, Any]) -> str:
    """Whose memory it is: the platform's user, else the default user ("").

    A named agent has a profile directory, and with it a home, of its own; only when it runs in a directory that is not
    its own does its name become the scope, so that two agents in one home are told apart (trap B107).
    """
    user_id = str(facts.get("user_id") or "")
    if user_id:
        return user_id
    identity = str(facts.get("agent_identity") or "")
    if identity in OWN_HOME_IDENTITIES or Path(str(facts.get("hermes_home") or "")).name in {identity, ""}:
        return ""
    return f"agent:{identity}"
