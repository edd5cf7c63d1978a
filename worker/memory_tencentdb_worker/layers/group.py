"""Several people in one session: what one of them said of himself is told of him by name, never of "the user"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from memory_tencentdb_worker.models import L1Batch, NewAtom, Role
from memory_tencentdb_worker.text.ids import atom_id
from memory_tencentdb_worker.text.speakers import group_speaker

_USER = re.compile(r"\b(?:the )?users?\b(?=\W|$)|用户", re.IGNORECASE)


def speakers(batch: L1Batch) -> dict[str, str]:
    """Who said which message; {} where fewer than two people speak: then a name in brackets may be anything."""
    found = {
        message.id: group_speaker(message.text)[0]
        for message in (*batch.background, *batch.messages)
        if message.role is Role.USER
    }
    names = {id: name for id, name in found.items() if name}
    return names if len(set(names.values())) > 1 else {}


def named(atom: NewAtom, people: Mapping[str, str], scope: str) -> NewAtom:
    """An atom that rests on the words of one of them, with the name in it."""
    names = {people[source.message_id] for source in atom.sources if source.message_id in people}
    if len(names) != 1:
        return atom
    (name,) = names
    content = _USER.sub(lambda _: name, atom.content)
    if name.casefold() not in content.casefold():
        content = f"{name}: {content}"
    if content == atom.content:
        return atom
    ids = [source.message_id for source in atom.sources]
    return replace(atom, id=atom_id(scope, atom.type, content, ids), content=content)
