"""L1 without a model: every sentence of the user's own messages meets the rules of its language."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from memory_tencentdb_worker.models import L1Batch, Message, NewAtom, Origin, Role, Source
from memory_tencentdb_worker.offline.facts import Fact
from memory_tencentdb_worker.offline.rules_en import read_sentence_en
from memory_tencentdb_worker.offline.rules_zh import read_sentence_zh
from memory_tencentdb_worker.offline.sentences import is_chinese, own_sentences
from memory_tencentdb_worker.text.ids import atom_id
from memory_tencentdb_worker.text.speakers import group_speaker


def extract_atoms(batch: L1Batch, zone: tzinfo) -> list[NewAtom]:
    """The facts of the batch in the order in which they were said; one said twice has both messages as sources.

    Deterministic. Only what a person wrote is read: never the assistant, tools, pages or the host's own notes.
    """
    atoms: dict[str, NewAtom] = {}
    for message in batch.messages:
        if message.role is not Role.USER or message.origin is not Origin.USER:
            continue
        for fact in _facts(message, zone):
            known = atoms.get(fact.content)
            sources = (known.sources if known else ()) + (Source(message.id, message.hash),)
            atoms[fact.content] = _atom(fact, message, tuple(dict.fromkeys(sources)))
    return list(atoms.values())


def _facts(message: Message, zone: tzinfo) -> Iterator[Fact]:
    for sentence in own_sentences(group_speaker(message.text)[1]):
        read = read_sentence_zh if is_chinese(sentence) else read_sentence_en
        yield from read(sentence, message.sent_at, zone)


def _atom(fact: Fact, message: Message, sources: tuple[Source, ...]) -> NewAtom:
    return NewAtom(
        id=atom_id(message.scope, fact.type, fact.content, [source.message_id for source in sources]),
        type=fact.type,
        content=fact.content,
        priority=fact.priority,
        scene_name=fact.topic,
        origin=message.origin,
        sources=sources,
        session_key=message.session_key,
        session_id=message.session_id,
        activity_start=fact.activity_start,
        activity_end=fact.activity_end,
    )
