"""Request bodies: the wire's own dataclasses. A field with a default may also be null, as the original's clients send
it, and counts as absent then."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated

from pydantic import BeforeValidator

from memory_tencentdb import wire


def _null_is_absent(kind: type) -> BeforeValidator:
    optional = {one.name for one in fields(kind) if one.default is not MISSING or one.default_factory is not MISSING}

    def without_nulls(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: one for name, one in value.items() if one is not None or name not in optional}

    return BeforeValidator(without_nulls)


Hello = Annotated[wire.HelloRequest, _null_is_absent(wire.HelloRequest)]
Capture = Annotated[wire.CaptureRequest, _null_is_absent(wire.CaptureRequest)]
Recall = Annotated[wire.RecallRequest, _null_is_absent(wire.RecallRequest)]
MemorySearch = Annotated[wire.MemorySearchRequest, _null_is_absent(wire.MemorySearchRequest)]
ConversationSearch = Annotated[wire.ConversationSearchRequest, _null_is_absent(wire.ConversationSearchRequest)]
SessionEnd = Annotated[wire.SessionEndRequest, _null_is_absent(wire.SessionEndRequest)]
MemoryWrite = Annotated[wire.MemoryWriteRequest, _null_is_absent(wire.MemoryWriteRequest)]
WhyNot = Annotated[wire.WhyNotRequest, _null_is_absent(wire.WhyNotRequest)]
Rollback = Annotated[wire.RollbackRequest, _null_is_absent(wire.RollbackRequest)]
Replay = Annotated[wire.ReplayRequest, _null_is_absent(wire.ReplayRequest)]
Forget = Annotated[wire.ForgetRequest, _null_is_absent(wire.ForgetRequest)]
Rescan = Annotated[wire.RescanRequest, _null_is_absent(wire.RescanRequest)]
Edit = Annotated[wire.EditRequest, _null_is_absent(wire.EditRequest)]
Undo = Annotated[wire.UndoRequest, _null_is_absent(wire.UndoRequest)]
Pause = Annotated[wire.PauseRequest, _null_is_absent(wire.PauseRequest)]
Flush = Annotated[wire.FlushRequest, _null_is_absent(wire.FlushRequest)]
