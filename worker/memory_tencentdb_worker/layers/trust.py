"""What may stand in the part of a prompt that is always there: lines that rest on the user's own word (trap B104).

A page, a tool or the assistant may be remembered as having said something, found by recall with its date; it never
becomes a part of the persona, of what the persona is written from, or of the line that describes a scene.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from memory_tencentdb_worker.layers.attribution import SHARED_TERMS, shared
from memory_tencentdb_worker.layers.bodies import sources_of, without_lines_of
from memory_tencentdb_worker.models import (
    OF_OTHERS,
    AtomType,
    L1Batch,
    Line,
    Message,
    Origin,
    Role,
    Scene,
    Section,
)
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.foreign import foreign_words, own_words
from memory_tencentdb_worker.text.safe import one_line

SUMMARY_LIMIT = 300
CLEARLY_MORE = 0.4
"""So much more of a statement's terms must stand in the words of others than in the person's, where both hold many."""

_OUTSIDE = (Origin.TOOL, Origin.WEB)
_CONSENT = re.compile(
    r"\s*(?:yes|yep|yeah|yup|right|exactly|correct|true|indeed|that(?:['’]s| is) (?:right|correct|true|it)|sure|agreed|"
    r"(?:please )?do (?:that|so)|是的?|对的?|没错|正确|嗯|确实|好的?)(?!\w)",
    re.IGNORECASE,
)


def speaks_for_user(content: str, type: AtomType, sources: Iterable[Message], batch: L1Batch) -> bool:
    """Whether a statement may count as the person's own: it rests on a message of theirs, and is not rather what a
    page, a tool, something pasted, or an assistant without a "yes" to it said (trap B104)."""
    own_messages = [one for one in sources if one.role is Role.USER and one.origin is Origin.USER]
    own = "\n".join(own_words(one.text) for one in own_messages)
    if not any(char.isalnum() for char in own):
        return False
    read = (*batch.background, *batch.messages)
    support = shared(content, own)
    if _outweighs(_most_shared(content, _foreign_texts(read)), support):
        return False
    if not support and type is AtomType.INSTRUCTION and any(_foreign_texts(read)):
        return False  # it may stand in a page in another language
    assistant = [one for one in read if one.origin is Origin.ASSISTANT]
    if not _outweighs(_most_shared(content, [one.text for one in assistant]), support):
        return True
    return any(_consents(message, read) for message in own_messages)


def _foreign_texts(messages: Iterable[Message]) -> list[str]:
    texts = [one.text if one.origin in _OUTSIDE else foreign_words(one.text)
             for one in messages if one.role is Role.USER or one.origin in _OUTSIDE]  # fmt: skip
    return [text for text in texts if text]


def _most_shared(content: str, texts: Iterable[str]) -> float:
    return max((shared(content, text) for text in texts), default=0.0)


def _outweighs(foreign: float, own: float) -> bool:
    """Little shared is no sign; much shared by both is the person's."""
    return foreign >= SHARED_TERMS and (own < SHARED_TERMS < foreign + own or foreign - own >= CLEARLY_MORE)


def _consents(message: Message, read: Sequence[Message]) -> bool:
    """A plain "yes" to what the assistant had just said by itself."""
    before = [one for one in read if one.seq < message.seq]
    return bool(before) and before[-1].origin is Origin.ASSISTANT and _CONSENT.match(message.text) is not None


def words_of_others(sections: Iterable[Section], store: Store) -> frozenset[str]:
    """Which sources of these sections are atoms that do not go back to the user, an owner's edit or the host's own
    memory."""
    return frozenset(atom.id for atom in store.atoms_by_id(sorted(sources_of(sections))) if atom.origin in OF_OTHERS)


def own_scene(scene: Scene, others: Collection[str]) -> Scene:
    """The scene without lines that rest on nothing but the words of others."""
    return replace(scene, sections=without_lines_of(scene.sections, others), summary=own_summary(scene, others))


def own_summary(scene: Scene, others: Collection[str]) -> str:
    """The scene's summary, or the first line of the user's own where it repeats what only others said."""
    lines = [line for section in scene.sections for line in section.lines]
    own = [line for line in lines if _is_own(line, others)]
    foreign = [line for line in lines if not _is_own(line, others)]
    if foreign and not own:
        return ""
    if any(_tells(scene.summary, line) for line in foreign) and not any(_tells(scene.summary, line) for line in own):
        return one_line(own[0].text)[:SUMMARY_LIMIT]
    return scene.summary


def _is_own(line: Line, others: Collection[str]) -> bool:
    return not line.sources or any(source not in others for source in line.sources)


def _tells(summary: str, line: Line) -> bool:
    return shared(line.text, summary) >= SHARED_TERMS
