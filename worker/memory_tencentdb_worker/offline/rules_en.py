"""English: which of a user's sentences state a lasting fact, a dated event or a standing rule, and what they say.

A sentence passes the refusals first (question, request, hypothesis, joke, report of others, secrets), then its clauses
meet the patterns. Patterns only decide; the content is the whole clause in the third person, so that no name, number
or rare word is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import tzinfo

from memory_tencentdb_worker.models import AtomType
from memory_tencentdb_worker.offline import facts
from memory_tencentdb_worker.offline.facts import Fact
from memory_tencentdb_worker.offline.patterns_en import (
    ANAPHORA,
    APPOSITION,
    BY_HEART,
    CALL_ME,
    COUPLE,
    DATED_EVENT,
    DECISION,
    HAS_RELATION,
    HAVE_GOT,
    INFINITIVE,
    INTERJECTION,
    INTRODUCED,
    LANGUAGE_RULE,
    LIKING,
    NAME,
    NOUN_EVENT,
    ONE_OFF,
    ONE_OFF_ASK,
    PLAN,
    POINTING,
    RELATION,
    RELATION_VERB,
    REMEMBER,
    REPORT,
    REQUEST,
    RULE,
    RULE_CLAUSE,
    SECRET,
    SHARED_SUBJECT,
    SPLIT,
    STRONG_EVENT,
    SUBJECT_VERB,
    TAIL,
    TAIL_QUESTION,
    TROUBLE,
    UNREAL,
)
from memory_tencentdb_worker.offline.person_en import as_sentence, to_third_person
from memory_tencentdb_worker.offline.persona_en import PERSONA
from memory_tencentdb_worker.offline.sentences import holds_quotation
from memory_tencentdb_worker.offline.topics import rules_topic, topic_of
from memory_tencentdb_worker.offline.words_en import NOT_NAMES
from memory_tencentdb_worker.text.dates import Span, describe_span, find_span


def read_sentence_en(sentence: str, said_at: int, zone: tzinfo) -> Iterator[Fact]:
    """The facts of one sentence, in the order of its clauses."""
    sentence = _statement(INTERJECTION.sub("", sentence.replace("’", "'")))
    if not sentence or holds_quotation(sentence):
        return
    rule = _standing_rule(sentence)
    if SECRET.search(sentence) and (rule is None or any(mark in sentence for mark in [" is ", " are ", "=", ":"])):
        return
    remembered = REMEMBER.match(sentence)
    if remembered:
        yield from _remembered(as_sentence(remembered["rest"]), said_at, zone)
        return
    if rule is not None:
        yield rule
        return
    if REQUEST.match(sentence) or UNREAL.search(sentence) or REPORT.search(sentence):
        return
    yield from _facts_of_statement(sentence, said_at, zone)


def _statement(sentence: str) -> str:
    """The sentence without a question or request hung on its end; "" when it is one as a whole."""
    if sentence.endswith("?"):
        head = TAIL_QUESTION.sub("", sentence)
        return head if head != sentence and len(head) > 5 else ""
    cut = re.sub(
        r"(?i),\s*(?:so\s+|and\s+)?(?:please|can you|could you|help me|suggest|recommend|tell me|"
        r"give me|show me)\b.*$|"
        r",\s*so\s+(?:avoid|use|don't|do not|keep|make|answer|skip|never|always)\b.*$",
        "",
        sentence,
    )
    return cut.strip()


def _remembered(statement: str, said_at: int, zone: tzinfo) -> Iterator[Fact]:
    known = [] if UNREAL.search(statement) else list(_facts_of_statement(statement, said_at, zone))
    if known:
        yield from known
        return
    if _standing_rule(statement) is not None:
        yield _rule_fact(statement, facts.CORE_RULE)
        return
    span = find_span(statement, said_at, zone)
    about_user = re.search(r"\b(?:I|I'm|my|me)\b", statement, re.IGNORECASE) is not None
    kind = AtomType.EPISODIC if span and not about_user else AtomType.PERSONA
    yield _fact(kind, statement, facts.CORE, span, zone)


def _facts_of_statement(statement: str, said_at: int, zone: tzinfo) -> Iterator[Fact]:
    statement = APPOSITION.sub(r"\1 and I'm \2", TAIL.sub("", statement.rstrip(".! ")))
    couple = COUPLE.match(statement)
    if couple is not None:
        yield from _fact_of_two(couple["both"], statement[couple.end() :], said_at, zone)
        return
    for clause in SPLIT.split(_with_subjects(statement)):
        fact = _clause_fact(clause.strip(" ,"), said_at, zone)
        if fact is not None:
            yield fact


def _fact_of_two(both: str, rest: str, said_at: int, zone: tzinfo) -> Iterator[Fact]:
    """`My partner and I have been together for ten years`: read like a sentence about us, told of both."""
    clause = SPLIT.split(rest)[0].strip(" ,")
    span = find_span(clause, said_at, zone)
    kind = _kind(f"We {clause}", span)
    if kind is None and re.match(r"(?:are|have|live|run|own|share|met|work)\b", clause):
        kind = (AtomType.PERSONA, facts.RELATION)
    if kind is not None and "you" not in clause.split():
        yield _fact(
            kind[0],
            f"{both} and the user {clause}",
            facts.RELATION,
            find_span(f"{both} and the user {clause}", said_at, zone),
            zone,
        )


def _with_subjects(statement: str) -> str:
    """`I live in Lisbon and am allergic to nuts` with its subject before each verb that shares it."""
    shared = SHARED_SUBJECT.search(statement)
    first = SUBJECT_VERB.match(statement)
    if shared is None or first is None or " " not in statement[first.end() : shared.start()]:
        return statement  # `I live and work in Bonn` is one clause
    if INFINITIVE.search(statement, 0, shared.start()):
        return statement
    return SHARED_SUBJECT.sub(" and I ", statement)


def _standing_rule(sentence: str) -> Fact | None:
    named = CALL_ME.match(sentence)
    is_rule = named or RULE.match(sentence) or RULE_CLAUSE.match(sentence) or LANGUAGE_RULE.match(sentence)
    if ONE_OFF.search(sentence):
        asks = (
            is_rule
            or (REQUEST.match(sentence) and ONE_OFF_ASK.search(sentence))
            or (re.match(r"(?i)(?:for|just|only|in) (?:this|the|now)", sentence) and ONE_OFF_ASK.search(sentence))
        )
        return _one_off(sentence) if asks else None
    if not is_rule or re.search(r"(?i)\bif I (?:were|had|was)\b|\bkidding\b|\bjoking\b", sentence):
        return None
    if named:
        return Fact(
            AtomType.INSTRUCTION,
            f"Call the user {named['name'].rstrip('.')}.",
            facts.CORE_RULE,
            rules_topic(chinese=False),
        )
    return _rule_fact(sentence, facts.CORE_RULE if LANGUAGE_RULE.match(sentence) else facts.ALWAYS)


def _rule_fact(sentence: str, priority: int) -> Fact:
    content = re.sub(r"(?i)^(?:please|and|also)[,\s]+", "", sentence)
    return Fact(AtomType.INSTRUCTION, to_third_person(content), priority, rules_topic(chinese=False))


def _one_off(sentence: str) -> Fact:
    content = as_sentence(f"For one occasion the user asked: {to_third_person(sentence)}")
    return Fact(AtomType.EPISODIC, content, facts.ONE_OFF, rules_topic(chinese=False))


def _clause_fact(clause: str, said_at: int, zone: tzinfo) -> Fact | None:
    span = find_span(clause, said_at, zone)
    body = HAVE_GOT.sub("I have", _after_leading_date(clause, span))
    name = _name(body)
    if name is not None:
        return Fact(AtomType.PERSONA, f"The user's name is {name}.", facts.CORE, topic_of("home", chinese=False))
    # A sentence about "you" is about this conversation, not about the user's life.
    if not re.search(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur|[Tt]he)\b", body) or re.search(r"(?i)\byou(?:r|rs|rself)?\b", body):
        return None
    kind = _kind(body, span)
    return _fact(kind[0], clause, kind[1], span, zone) if kind else None


def _kind(body: str, span: Span | None) -> tuple[AtomType, int] | None:
    """Type and priority, or None when no pattern takes the clause."""
    if DECISION.match(body):
        return AtomType.EPISODIC, facts.DECISION
    if STRONG_EVENT.match(body) or PLAN.match(body):
        return AtomType.EPISODIC, facts.EVENT
    if span is not None and NOUN_EVENT.match(body) and not re.search(r"(?i)\b(?:birthday|anniversary)\b", body):
        return AtomType.EPISODIC, facts.EVENT
    priority = None if TROUBLE.search(body) or POINTING.search(body) else _persona_priority(body)
    happened = priority == facts.RELATION and span is not None and span.relative
    if priority is not None and not happened:
        return AtomType.PERSONA, priority
    return (AtomType.EPISODIC, facts.EVENT) if happened or (span is not None and DATED_EVENT.match(body)) else None


def _name(body: str) -> str | None:
    named = NAME.match(body) or INTRODUCED.match(body)
    if named is None:
        return None
    name = named["name"].strip().rstrip(".")
    return None if name.split()[0].lower() in NOT_NAMES or not name[:1].isalpha() else name


def _persona_priority(body: str) -> int | None:
    liking = LIKING.match(body)
    if liking:
        return None if ANAPHORA.match(liking["object"]) else facts.ORDINARY
    for pattern, priority in PERSONA:
        if pattern.match(body):
            return priority
    attribute = BY_HEART.match(body)
    if attribute and not ANAPHORA.match(attribute["value"]):
        return facts.CORE if attribute["noun"].lower() in ("birthday", "hometown", "blood type") else facts.ORDINARY
    is_relation = HAS_RELATION.match(body) or (RELATION.match(body) and RELATION_VERB.search(body))
    return facts.RELATION if is_relation else None


def _after_leading_date(clause: str, span: Span | None) -> str:
    """The clause from its subject on: `On March 5 I fly to Oslo` has a date before it."""
    if span is None or span.text_start > 4:
        return clause
    rest = re.sub(r"^[\s,]+", "", clause[span.text_end :])
    rest = re.sub(r"(?i)^(?:morning|afternoon|evening|night|at \d{1,2}(?::\d\d)?\s*(?:am|pm)?)[\s,]+", "", rest)
    return rest if re.match(r"(?:I|I'm|I've|I'll|[Mm]y|[Ww]e|[Oo]ur|the)\b", rest) else clause


def _fact(kind: AtomType, clause: str, priority: int, span: Span | None, zone: tzinfo) -> Fact:
    dated = clause
    if span is not None and span.relative:
        dated = f"{clause[: span.text_end]} ({describe_span(span, zone)}){clause[span.text_end :]}"
    content = to_third_person(dated)
    happens = span if kind is AtomType.EPISODIC else None
    topic = topic_of("family" if priority == facts.RELATION else content, chinese=False)
    return Fact(kind, content, priority, topic, happens.start if happens else None, happens.end if happens else None)
