"""New atoms against known ones: what is a repetition, what replaces or joins what. Code has the last word.

An exact repetition is settled without a model. A model's decision is carried out only as far as it is safe: targets it
was not shown are dropped, a doubtful decision stores the new atom, and no decision leaves fewer facts than before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.embedding.base import Embedder
from memory_tencentdb_worker.errors import EmbeddingError, LLMContent
from memory_tencentdb_worker.layers.attribution import shared
from memory_tencentdb_worker.layers.calls import Question, ask
from memory_tencentdb_worker.layers.candidates import related_atoms
from memory_tencentdb_worker.layers.extraction import holds_for_user, same_text
from memory_tencentdb_worker.layers.l1_answer import ALWAYS, rank
from memory_tencentdb_worker.layers.l1_decisions import Action, Decision, read_decisions
from memory_tencentdb_worker.layers.order import last_said
from memory_tencentdb_worker.layers.parts import Parts
from memory_tencentdb_worker.layers.same_batch import known_form, relate_to_each_other
from memory_tencentdb_worker.layers.sections import atom_record, json_lines, section
from memory_tencentdb_worker.layers.short_ids import ShortIds
from memory_tencentdb_worker.models import OF_OTHERS, Atom, AtomChanges, AtomType, Filter, NewAtom, Origin, Source
from memory_tencentdb_worker.offline.reconcile import Spoken
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.ids import atom_id
from memory_tencentdb_worker.text.segment import query_terms
from memory_tencentdb_worker.text.times import iso_local, lenient_instant

SAME_FACT_OVERLAP = 0.5
"""Share of terms two texts have in common when a model says, without naming it, that one of them is known already."""

EXACT_LOOKUP = 10


@dataclass
class _Plan:
    """Changes in the making; each known atom is replaced at most once. What this run has added is known from then on
    to the statements that were made after it."""

    add: list[NewAtom] = field(default_factory=list)
    supersede: dict[str, str] = field(default_factory=dict)
    confirm: dict[str, tuple[Source, ...]] = field(default_factory=dict)
    known: dict[str, Atom] = field(default_factory=dict)  # by id: what this run has added or confirmed
    became: dict[str, str] = field(default_factory=dict)  # the id of a new atom -> the id under which it is known

    def stores(self, new: NewAtom, scope: str, said: Spoken) -> None:
        self.add.append(new)
        self.known[new.id] = known_form(new, scope, said)

    def find(self, id: str, related: Mapping[str, Atom], *, follow: bool) -> Atom | None:
        """What is known under an id; with `follow` what has taken its place in this run, otherwise None for an atom
        that has been replaced."""
        id = self.became.get(id, id)
        while id in self.supersede and follow:
            id = self.supersede[id]
        return None if id in self.supersede else self.known.get(id) or related.get(id)

    def confirms(self, known: Atom, sources: Sequence[Source]) -> None:
        self.known[known.id] = known
        self.confirm[known.id] = tuple(dict.fromkeys((*self.confirm.get(known.id, ()), *sources)))

    def replaces(self, new: NewAtom, targets: Sequence[Atom]) -> None:
        """The new atom takes over what has been said again about its targets in this very run."""
        again = tuple(source for target in targets for source in self.confirm.pop(target.id, ()))
        self.add.append(replace(new, sources=tuple(dict.fromkeys((*new.sources, *again)))))
        self.supersede.update({target.id: new.id for target in targets})

    def comes_before(self, new: NewAtom, later: Atom, targets: Sequence[Atom]) -> None:
        """The new atom is an older statement: it replaces what is older still, and has been replaced itself."""
        self.replaces(new, targets)
        self.supersede[new.id] = later.id


@dataclass(frozen=True)
class _Context:
    scope: str
    zone: tzinfo
    said: dict[str, Spoken]  # by atom id: its newest message


def reconcile(
    new: Sequence[NewAtom], scope: str, parts: Parts, passed_over: frozenset[str] = frozenset()
) -> AtomChanges:
    """At most one model call (two with a repair), none without candidates. Known atoms in `passed_over` are none.

    Raises LLMTransient or LLMTerminal. An answer that cannot be used stores every atom: two memories that say the
    same are better than one that is missing.
    """
    plan = _Plan()
    open_atoms = [atom for atom in new if not _settled(atom, scope, parts.store, plan, passed_over)]
    compares = parts.llm is not None and parts.config.memory.extraction.enable_dedup
    related = _related(open_atoms, scope, parts, passed_over) if compares else {}
    offered = [known for atoms in related.values() for known in atoms]
    context = _Context(scope, parts.zone, dict(last_said([*open_atoms, *offered], parts.store)))
    open_atoms.sort(key=lambda atom: context.said[atom.id])
    if compares:
        relate_to_each_other(open_atoms, related, scope, context.said)
    decisions = _decisions(open_atoms, related, context, parts) if related else {}
    for atom in open_atoms:
        _carry_out(decisions.get(atom.id), atom, related.get(atom.id, []), context, plan)
    return AtomChanges(
        add=tuple(plan.add), supersede=tuple(plan.supersede.items()), confirm=tuple(plan.confirm.items())
    )


def reconcile_sections(
    new: Sequence[NewAtom], related: Mapping[str, Sequence[Atom]], zone: tzinfo, ids: ShortIds
) -> str:
    candidates = {atom.id: atom for atoms in related.values() for atom in atoms}
    records = [
        {
            "id": ids.short(atom.id),
            "content": atom.content,
            "type": atom.type.value,
            "priority": atom.priority,
            "scene_name": atom.scene_name,
            "at": iso_local(atom.activity_start, zone) if atom.activity_start is not None else "",
            "related": [ids.short(known.id) for known in related.get(atom.id, [])],
        }
        for atom in new
    ]
    return "\n\n".join(
        (
            section("new", json_lines(records)),
            section("candidates", json_lines(atom_record(atom, zone, ids) for atom in candidates.values())),
        )
    )


def _settled(new: NewAtom, scope: str, store: Store, plan: _Plan, passed_over: frozenset[str]) -> bool:
    """An atom that says the same as a known one only adds its messages to it. What the user now says in person
    replaces the same statement of somebody else."""
    hits = store.search_atoms(new.content, Filter(scope), EXACT_LOOKUP)
    known = (hit.atom for hit in hits if hit.atom.id not in passed_over)
    same = next((atom for atom in known if same_text(atom.content) == same_text(new.content)), None)
    if same is None or same.id in plan.supersede:
        return False
    if new.origin is Origin.USER and same.origin not in (Origin.USER, Origin.BUILTIN_MEMORY, Origin.OWNER_EDIT):
        plan.replaces(replace(new, valid_from=same.valid_from), [same])
    else:
        plan.confirms(same, new.sources)
    return True


def _related(new: Sequence[NewAtom], scope: str, parts: Parts, passed_over: frozenset[str]) -> dict[str, list[Atom]]:
    """Live atoms that may concern the same fact, by keyword and, with an embedder, by meaning."""
    most = parts.config.memory.embedding.conflict_recall_top_k
    vectors = _vectors([atom.content for atom in new], parts.embedder, parts.config)
    related: dict[str, list[Atom]] = {}
    for atom, vector in zip(new, vectors, strict=True):
        found = related_atoms(atom.content, vector, scope, parts.store, most)
        others = [known for id, known in found.items() if id != atom.id and id not in passed_over]
        if others:
            related[atom.id] = others
    return related


def _vectors(contents: list[str], embedder: Embedder | None, config: Config) -> Sequence[Sequence[float] | None]:
    """An embedder in trouble costs candidates, never the job."""
    if embedder is None or not contents:
        return [None] * len(contents)
    settings = config.memory.embedding
    timeout_seconds = (settings.capture_timeout_ms or settings.timeout_ms) / 1000
    try:
        return embedder.embed(contents, kind="passage", timeout_seconds=timeout_seconds)
    except EmbeddingError:
        return [None] * len(contents)


def _decisions(
    new: Sequence[NewAtom], related: Mapping[str, Sequence[Atom]], context: _Context, parts: Parts
) -> Mapping[str, Decision]:
    asked = [atom for atom in new if atom.id in related]
    if parts.llm is None or not asked:
        return {}
    ids = ShortIds()
    newest = [context.said[atom.id][1] for atom in asked]
    question = Question(
        task="l1-reconcile",
        scope=context.scope,
        user=reconcile_sections(asked, related, parts.zone, ids),
        keys=("decisions",),
        ids=ids,
        model=parts.config.memory.extraction.model,
        about=(min(newest), max(newest)),
    )
    try:
        return ask(parts.llm, question, parts.config.llm, read_decisions, divisible=False)
    except LLMContent:
        return {}


def _carry_out(
    decision: Decision | None, new: NewAtom, related: Sequence[Atom], context: _Context, plan: _Plan
) -> None:
    said = context.said
    if decision is None or not related:
        plan.stores(new, context.scope, said[new.id])
        return
    offered = {atom.id: atom for atom in related}
    follow = decision.action is Action.UPDATE
    found = [plan.find(id, offered, follow=follow) for id in decision.target_ids if id in offered]
    targets = list({target.id: target for target in found if target is not None}.values())
    if decision.action is Action.SKIP:
        free = [atom for id in offered if (atom := plan.find(id, offered, follow=False)) is not None]
        _skip(new, targets, free, context, plan)
        return
    if decision.action is Action.STORE:
        targets = []
    targets = [target for target in targets if _may_replace(decision.action, new, target)]
    if not targets:
        plan.stores(new, context.scope, said[new.id])
        return
    merged = _merged(decision, new, targets, context)
    same = next((target for target in targets if same_text(target.content) == same_text(merged.content)), None)
    if same is not None and len(targets) == 1 and same.type is merged.type:
        plan.became[new.id] = same.id
        plan.confirms(same, new.sources)
        return
    later = [target for target in targets if said[target.id] > said[new.id]]
    if not later:
        plan.became[new.id] = merged.id
        said[merged.id] = said[new.id]
        plan.replaces(merged, targets)
        plan.known[merged.id] = known_form(merged, context.scope, said[new.id])
    elif decision.action is Action.MERGE:
        plan.stores(new, context.scope, said[new.id])
    else:
        newest = max(later, key=lambda target: said[target.id])
        plan.comes_before(new, newest, [target for target in targets if target not in later])


def _skip(new: NewAtom, targets: Sequence[Atom], related: Sequence[Atom], context: _Context, plan: _Plan) -> None:
    """The known atom gains the new messages. One that the model did not name must be plain to see, else the new atom
    is stored: its messages may not be left without an atom, nor be put under one they do not speak of."""
    if not targets:
        terms = set(query_terms(new.content))
        targets = sorted(related, key=lambda known: -_overlap(terms, known))[:1]
        if not targets or _overlap(terms, targets[0]) < SAME_FACT_OVERLAP:
            plan.stores(new, context.scope, context.said[new.id])
            return
    plan.became[new.id] = targets[0].id
    plan.confirms(targets[0], new.sources)


def _overlap(terms: set[str], known: Atom) -> float:
    others = set(query_terms(known.content))
    return len(terms & others) / max(1, min(len(terms), len(others)))


def _may_replace(action: Action, new: NewAtom, target: Atom) -> bool:
    """Nobody but the person changes what the person said, and rules of different situations are not merged (B70)."""
    if target.origin is Origin.USER and new.origin is not Origin.USER:
        return False
    if action is Action.MERGE and (new.origin in OF_OTHERS) != (target.origin in OF_OTHERS):
        return False
    rules = AtomType.INSTRUCTION in (new.type, target.type)
    return not (action is Action.MERGE and rules and new.scene_name != target.scene_name)


def _merged(decision: Decision, new: NewAtom, targets: Sequence[Atom], context: _Context) -> NewAtom:
    content = decision.content or new.content
    wanted = decision.type or new.type
    type = wanted if new.type is wanted or holds_for_user(wanted, _in_its_words(content, (new, *targets))) else new.type
    highest = max((new.priority, *(target.priority for target in targets)), key=rank)
    priority = highest if decision.priority is None or rank(decision.priority) > rank(highest) else decision.priority
    if priority == ALWAYS and type is not AtomType.INSTRUCTION:
        priority = 100
    if decision.action is Action.MERGE:
        valid_from: int | None = min(target.valid_from for target in targets)
    else:
        valid_from = lenient_instant(decision.valid_from, context.zone)
    return replace(
        new,
        id=atom_id(context.scope, type, content, [source.message_id for source in new.sources]),
        type=type,
        content=content,
        priority=priority,
        valid_from=valid_from,
        activity_start=new.activity_start if new.activity_start is not None else _first_start(decision, targets),
    )


def _in_its_words(content: str, parts: Sequence[NewAtom | Atom]) -> list[NewAtom | Atom]:
    """Those of which a merged text says most: a type that only a person may give comes from them alone."""
    most = max(shared(content, part.content) for part in parts)
    return [part for part in parts if shared(content, part.content) == most]


def _first_start(decision: Decision, targets: Sequence[Atom]) -> int | None:
    """A merge keeps the known time of what happened; an update tells of something else."""
    if decision.action is not Action.MERGE:
        return None
    starts = [target.activity_start for target in targets if target.activity_start is not None]
    return min(starts, default=None)
