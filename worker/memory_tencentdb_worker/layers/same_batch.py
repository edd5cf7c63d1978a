"""Statements of one batch that may concern the same fact: a later one meets the earlier ones as if they were known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory_tencentdb_worker.models import Atom, NewAtom
from memory_tencentdb_worker.offline.reconcile import Spoken
from memory_tencentdb_worker.text.segment import query_terms

SHARED_TERMS = 0.5
"""Of the shorter statement's telling terms. Statements of one batch are often on one subject; a lower share would ask
the model about all of them."""

_SUBJECT = frozenset({"user", "users", "用户"})


def relate_to_each_other(
    new: Sequence[NewAtom], related: dict[str, list[Atom]], scope: str, said: Mapping[str, Spoken]
) -> None:
    """Adds to `related` what was stated before in the same batch. `new` is in the order of speech."""
    terms = {atom.id: frozenset(query_terms(atom.content)) - _SUBJECT for atom in new}
    for place, atom in enumerate(new):
        alike = [one for one in new[:place] if _overlap(terms[one.id], terms[atom.id]) >= SHARED_TERMS]
        if alike:
            related.setdefault(atom.id, []).extend(known_form(one, scope, said[one.id]) for one in alike)


def known_form(new: NewAtom, scope: str, said: Spoken) -> Atom:
    """The atom as it will be known when this run is stored."""
    return Atom(
        seq=0,
        id=new.id,
        scope=scope,
        type=new.type,
        content=new.content,
        priority=new.priority,
        scene_name=new.scene_name,
        origin=new.origin,
        extractor="",
        session_key=new.session_key,
        session_id=new.session_id,
        activity_start=new.activity_start,
        activity_end=new.activity_end,
        valid_from=said[0] if new.valid_from is None else new.valid_from,
        valid_to=None,
        recorded_from=said[0],
        superseded_at=None,
        superseded_by=None,
        sources=new.sources,
    )


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))
