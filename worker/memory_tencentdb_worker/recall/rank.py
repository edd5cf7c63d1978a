"""Puts candidates in order: the scores of the lists added up, without what is weak, doubled or given already.

An atom stands for the messages it was drawn from: when both were found, the atom is shown, with the better score;
unless the message holds words of the query that its atoms have left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from memory_tencentdb.wire import DroppedItem
from memory_tencentdb_worker.models import NO_PREFERENCE, Atom, AtomHit, Layer, Message, MessageHit, Preference, Role
from memory_tencentdb_worker.recall.gather import Finds, spoken_in
from memory_tencentdb_worker.recall.scene_lines import SceneLine
from memory_tencentdb_worker.text.script_forms import script_forms

VECTOR_WEIGHT = 1.0
"""Of a vector's score, which has the same meaning in every model, beside the words scaled to 1. On LoCoMo's development
half 0.5 to 2 differ by a point; scaling the vectors to their own best cost two, for a poor best hit counted like a good
one. Adding ranks instead of scores lost five (evaluation.md 3)."""

TIME_FACTOR = 1.5
"""For an atom about the days that the question names."""

LATEST_GAIN = 0.5
"""For the newest atom when the question asks for the latest, less the older they are."""

SHORT_ANSWER_CHARS = 30
"""An answer as short as "Noted." that was found by its neighbours alone says nothing."""

STEM_CHARS = 4

COMPARED_CHARS = 20_000
"""Texts are compared by their beginnings: one message may be a whole pasted file."""

OWN_SESSION_LIMIT = 3
"""Messages of the asking session in one answer: each costs tokens in every later request, most often for nothing."""


WEAK, ALREADY_GIVEN, OVER_LIMIT = "weak", "already given", "limit"
SAID_BY_ATOM, SAME_TEXT, VISIBLE = "said by a fact", "same text", "visible"
"""Why a candidate is not given."""


@dataclass(frozen=True)
class Candidate:
    """One memory that may be given: an atom, a message while no atom speaks for it, or a line of a scene, whose name is
    its id."""

    id: str
    score: float
    atom: Atom | None = None
    message: Message | None = None
    lifted: float | None = None  # see MessageHit
    line: SceneLine | None = None

    @property
    def layer(self) -> Layer:
        if self.line is not None:
            return Layer.L2
        return Layer.L0 if self.atom is None else Layer.L1

    @property
    def gain(self) -> float:
        """What a hit by vector adds to one by words."""
        return VECTOR_WEIGHT * (max(self.score, 0.0) if self.lifted is None else self.lifted)

    @property
    def text(self) -> str:
        if self.atom is not None:
            return self.atom.content
        if self.line is not None:
            return self.line.text
        assert self.message is not None
        return self.message.text


@dataclass(frozen=True)
class Ranking:
    """`standing` rules come first and do not count for the limit. `lines` of scenes come last."""

    standing: tuple[Candidate, ...]
    chosen: tuple[Candidate, ...]
    dropped: tuple[DroppedItem, ...]
    lines: tuple[Candidate, ...] = ()


def rank(
    finds: Finds,
    *,
    terms: Sequence[str],
    session_id: str,
    threshold: float,
    limit: int,
    exclude: Iterable[str] = (),
    prefer: Preference = NO_PREFERENCE,
    visible_since: int | None = None,
) -> Ranking:
    """Atoms and unread messages of other sessions compete for the places. What is left over goes to older messages,
    then to a few of this session's own: the host most likely still has them before it, unless it has compressed. What
    was said in this session from `visible_since` on surely stands before the model and is left out."""
    given = frozenset(exclude)
    dropped: list[DroppedItem] = []
    standing = [Candidate(atom.id, 1.0, atom=atom) for atom in finds.words.instructions]
    ruled = {one.id for one in standing}
    worded = preferred(atom_candidates(finds.words.atoms), prefer)
    atoms = fused(worded, atom_candidates(finds.vectors.atoms), threshold, dropped)
    tail = message_candidates(finds.words.tail)
    spoken = _joined(tail, message_candidates(finds.words.messages))
    messages = fused(spoken, message_candidates(finds.vectors.messages), threshold, dropped)
    dropped.extend(DroppedItem(one.id, WEAK) for one in messages if _says_nothing(one, terms))
    messages = [one for one in messages if not _says_nothing(one, terms)]
    if atoms:
        meant = {hit.message.id for hit in finds.vectors.messages if hit.score >= threshold}
        messages = _without_bystanders(messages, terms, meant, dropped)
    found = messages
    atoms, messages = prefer_atoms([one for one in atoms if one.id not in ruled], messages, standing, terms)
    _note_missing(found, messages, SAID_BY_ATOM, dropped)
    if visible_since is not None:
        atoms = _without_visible(atoms, session_id, visible_since, dropped)
        messages = _without_visible(messages, session_id, visible_since, dropped)
    unread = {one.id for one in tail}
    own = [one for one in messages if one.message and spoken_in(one.message, session_id)]
    others = [one for one in messages if one not in own]
    fresh = [one for one in others if one.id in unread]
    older = [one for one in others if one.id not in unread]
    standing = _without_given(standing, given, dropped)
    ordered = _without_given([*by_score([*atoms, *fresh]), *older], given, dropped)
    own = _without_given(own, given, dropped)
    dropped.extend(DroppedItem(one.id, OVER_LIMIT) for one in own[OWN_SESSION_LIMIT:])
    eligible = [*ordered, *own[:OWN_SESSION_LIMIT]]
    ordered = without_twins(eligible, standing)
    _note_missing(eligible, ordered, SAME_TEXT, dropped)
    dropped.extend(DroppedItem(one.id, OVER_LIMIT) for one in ordered[limit:])
    return Ranking(tuple(standing), tuple(ordered[:limit]), tuple(dropped))


def atom_candidates(hits: Iterable[AtomHit]) -> list[Candidate]:
    return [Candidate(hit.atom.id, hit.score, atom=hit.atom) for hit in hits]


def message_candidates(hits: Iterable[MessageHit]) -> list[Candidate]:
    return [Candidate(hit.message.id, hit.score, message=hit.message, lifted=hit.lifted) for hit in hits]


def fused(
    by_words: Sequence[Candidate],
    by_vector: Sequence[Candidate],
    threshold: float,
    dropped: list[DroppedItem],
    *,
    lifted_threshold: float = math.inf,
) -> list[Candidate]:
    """Both lists as one, best first. The best of the words scores 1.0.

    A candidate found by meaning alone must reach the threshold by itself, or `lifted_threshold` with what speaks for it
    beside; one that shares a word with the query need not.
    """
    worded = {one.id for one in by_words}
    near = [one for one in by_vector if one.score >= threshold or one.gain >= lifted_threshold or one.id in worded]
    _note_missing(by_vector, near, WEAK, dropped)
    best = max((one.score for one in by_words), default=1.0)
    scores = {one.id: one.score / best for one in by_words}
    for one in near:
        scores[one.id] = scores.get(one.id, 0.0) + one.gain
    known = {one.id: one for one in (*by_words, *near)}
    return by_score([replace(one, score=scores[one.id]) for one in known.values()])


def preferred(atoms: Sequence[Candidate], prefer: Preference) -> list[Candidate]:
    """Atoms with what the question prefers moved up, best first."""
    newest_first = sorted((one.atom.seq for one in atoms if one.atom), reverse=True)
    age = {seq: place / len(newest_first) for place, seq in enumerate(newest_first)}
    moved = []
    for one in atoms:
        assert one.atom is not None
        factor = TIME_FACTOR if _falls_into(one.atom, prefer.spans) else 1.0
        if prefer.latest:
            factor *= 1 + LATEST_GAIN * (1 - age[one.atom.seq])
        moved.append(replace(one, score=one.score * factor))
    return by_score(moved)


def by_score(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first; equal ones keep their order."""
    return sorted(candidates, key=lambda one: -one.score)


def prefer_atoms(
    atoms: Sequence[Candidate],
    messages: Sequence[Candidate],
    standing: Sequence[Candidate] = (),
    terms: Sequence[str] = (),
) -> tuple[list[Candidate], list[Candidate]]:
    """Leaves out messages that atoms among the candidates speak for, and hands their score to an atom if it is better.

    Atoms speak for a message they rest on when together they hold every term of the query that the message holds.
    """
    said_by: dict[str, set[str]] = {}
    for one in (*standing, *atoms):
        for source in _sources(one):
            said_by.setdefault(source, set()).update(_held(terms, one.text))
    spoken_for = {
        one.id: one.score for one in messages if one.id in said_by and _held(terms, one.text) <= said_by[one.id]
    }
    raised = [
        replace(one, score=max([one.score, *(spoken_for[source] for source in _sources(one) if source in spoken_for)]))
        for one in atoms
    ]
    return by_score(raised), [one for one in messages if one.id not in spoken_for]


def without_twins(candidates: Iterable[Candidate], shown: Iterable[Candidate] = ()) -> list[Candidate]:
    """Of candidates with the same text (case and blanks apart) the first one."""
    seen = {folded(one.text) for one in shown}
    single: list[Candidate] = []
    for one in candidates:
        text = folded(one.text)
        if text not in seen:
            seen.add(text)
            single.append(one)
    return single


def is_visible(said: Atom | Message | None, session_id: str, since: int) -> bool:
    """Whether the asking session has said it from `since` on. An atom is as old as what it rests on: it may have been
    extracted long after that was said."""
    assert said is not None
    began = min(said.valid_from, said.recorded_from) if isinstance(said, Atom) else said.recorded_at
    return bool(session_id) and said.session_id == session_id and began >= since


def folded(text: str) -> str:
    """As texts are compared: without case and blanks."""
    return " ".join(text[:COMPARED_CHARS].casefold().split())


def _joined(tail: Sequence[Candidate], others: Sequence[Candidate]) -> list[Candidate]:
    """Unread messages first: the store may have cut them off behind many older hits."""
    unread = {one.id for one in tail}
    return [*tail, *(one for one in others if one.id not in unread)]


def _without_given(
    candidates: Sequence[Candidate], given: frozenset[str], dropped: list[DroppedItem]
) -> list[Candidate]:
    dropped.extend(DroppedItem(one.id, ALREADY_GIVEN) for one in candidates if one.id in given)
    return [one for one in candidates if one.id not in given]


def _without_visible(
    candidates: Sequence[Candidate], session_id: str, visible_since: int, dropped: list[DroppedItem]
) -> list[Candidate]:
    kept = [one for one in candidates if not is_visible(one.atom or one.message, session_id, visible_since)]
    _note_missing(candidates, kept, VISIBLE, dropped)
    return kept


def _note_missing(
    before: Iterable[Candidate], after: Iterable[Candidate], reason: str, dropped: list[DroppedItem]
) -> None:
    kept = {one.id for one in after}
    dropped.extend(DroppedItem(one.id, reason) for one in before if one.id not in kept)


def _falls_into(atom: Atom, spans: Iterable[tuple[int, int]]) -> bool:
    begins = atom.valid_from if atom.activity_start is None else atom.activity_start
    ends = begins if atom.activity_end is None else atom.activity_end
    return any(begins <= last and first <= ends for first, last in spans)


def _sources(candidate: Candidate) -> list[str]:
    return [source.message_id for source in candidate.atom.sources] if candidate.atom else []


def _says_nothing(candidate: Candidate, terms: Sequence[str]) -> bool:
    message = candidate.message
    if message is None or message.role is not Role.ASSISTANT or len(message.text) >= SHORT_ANSWER_CHARS:
        return False
    return not _held(terms, message.text)


def _without_bystanders(
    messages: Sequence[Candidate], terms: Sequence[str], meant: Collection[str], dropped: list[DroppedItem]
) -> list[Candidate]:
    """Of messages found by their neighbours' words alone only the user's best one stays: it may be the bare reply to
    what was asked ("Gyokuro."). The others cost tokens in every later request, and an atom was found already."""
    bystanders = [one for one in messages if one.id not in meant and not _shares_word(one.text, terms)]
    replies = [one for one in bystanders if one.message and one.message.role is Role.USER]
    left_out = {one.id for one in bystanders} - {one.id for one in replies[:1]}
    dropped.extend(DroppedItem(one.id, WEAK) for one in messages if one.id in left_out)
    return [one for one in messages if one.id not in left_out]


def _shares_word(text: str, terms: Sequence[str]) -> bool:
    """Inflected forms count: of a longer word the ending may differ."""
    stems = [term[:-2] if len(term) > STEM_CHARS else term for term in terms]
    return bool(_held(stems, text))


def _held(terms: Sequence[str], text: str) -> set[str]:
    folded = text[:COMPARED_CHARS].casefold()
    return {term for term in terms if any(form in folded for form in (term, *script_forms(term)))}
