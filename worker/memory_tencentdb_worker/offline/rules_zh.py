"""Chinese: which of a user's sentences state a lasting fact, a dated event or a standing rule, and what they say.

A Chinese sentence runs on through commas and names its subject once. So it is read comma part by comma part: a part
without a subject that meets a pattern inherits the user, one that meets none is carried by the fact before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

from memory_tencentdb_worker.models import AtomType
from memory_tencentdb_worker.offline import facts
from memory_tencentdb_worker.offline.facts import Fact
from memory_tencentdb_worker.offline.patterns_zh import (
    ANAPHORA,
    ATTRIBUTE,
    CALL_ME,
    DATED,
    DECISION,
    HAS_KIN,
    INTEREST,
    INTERJECTION,
    KIN_FACT,
    LANGUAGE_RULE,
    LIKING,
    NAME,
    NOUN_EVENT,
    ONE_OFF,
    OWN_SUBJECT,
    PERSON,
    PERSONA,
    PLAN,
    QUESTION,
    REMEMBER,
    REPORT,
    REQUEST,
    RULE,
    SECRET,
    STRONG_EVENT,
    TROUBLE,
    UNREAL,
)
from memory_tencentdb_worker.offline.sentences import holds_quotation
from memory_tencentdb_worker.offline.topics import rules_topic, topic_of
from memory_tencentdb_worker.text.dates import Span, describe_span, find_span


@dataclass(frozen=True)
class _Part:
    type: AtomType
    text: str
    priority: int


def read_sentence_zh(sentence: str, said_at: int, zone: tzinfo) -> Iterator[Fact]:
    """The facts of one sentence, in the order of its comma parts."""
    asked = QUESTION.search(sentence) is not None
    sentence = INTERJECTION.sub("", sentence.strip()).rstrip("。！!；;.？?~～ ")
    if not sentence or holds_quotation(sentence) or REPORT.search(sentence):
        return
    rule = None if asked else _standing_rule(sentence)
    if SECRET.search(sentence) and (rule is None or re.search(r"[是为：:=]", sentence)):
        return
    remembered = REMEMBER.match(sentence)
    if remembered and not asked:
        yield from _remembered(remembered["rest"], said_at, zone)
        return
    if rule is not None:
        yield rule
        return
    if UNREAL.search(sentence):
        return
    if asked:  # what is asked stands at the end; a fact may stand before it
        sentence = re.split(r"[，,；;](?=[^，,；;]*$)", sentence)[0] if re.search(r"[，,；;]", sentence) else ""
    yield from _statement_facts(sentence, said_at, zone)


def _remembered(statement: str, said_at: int, zone: tzinfo) -> Iterator[Fact]:
    rule = _standing_rule(statement)
    if rule is not None:
        yield rule
        return
    if REQUEST.match(statement):
        return
    known = list(_statement_facts(statement, said_at, zone))
    if known:
        yield from known
        return
    span = find_span(statement, said_at, zone)
    kind = AtomType.EPISODIC if span and "我" not in statement else AtomType.PERSONA
    yield _fact(_Part(kind, statement, facts.CORE), said_at, zone)


def _standing_rule(sentence: str) -> Fact | None:
    named = CALL_ME.match(sentence)
    is_rule = named or RULE.match(sentence) or LANGUAGE_RULE.match(sentence)
    topic = rules_topic(chinese=True)
    if ONE_OFF.search(sentence):
        asks = is_rule or re.search(r"(?:只|先|请|不要|别|用).{0,8}(?:回复|回答|说|写|用|输出|叫)", sentence)
        return (
            Fact(AtomType.EPISODIC, f"用户的一次性要求：{_third_person(sentence)}。", facts.ONE_OFF, topic)
            if asks
            else None
        )
    if (
        not is_rule
        or UNREAL.search(sentence)
        or TROUBLE.search(sentence)
        or re.match(r"^(?:以后|今后|往后)(?:我|咱)", sentence)
    ):
        return None
    if named:
        return Fact(AtomType.INSTRUCTION, f"称呼用户为{named['name']}。", facts.CORE_RULE, topic)
    content = re.sub(r"^(?:请|麻烦|另外|而且|你)+", "", sentence)
    priority = facts.CORE_RULE if LANGUAGE_RULE.match(sentence) else facts.ALWAYS
    return Fact(AtomType.INSTRUCTION, f"{_third_person(content)}。", priority, topic)


def _statement_facts(sentence: str, said_at: int, zone: tzinfo) -> Iterator[Fact]:
    part: _Part | None = None
    subject_known = False  # whether a part without a subject speaks of the user; after "my daughter" it does not
    for text in re.split(r"\s*[，,；;]\s*", sentence):
        if QUESTION.search(text) or REQUEST.match(text):
            break
        following = _read_part(text, find_span(text, said_at, zone), inherits=subject_known)
        if following is not None:
            if part is not None:
                yield _fact(part, said_at, zone)
            part = following
        elif part is not None and "我" not in text and not re.match(r"^(?:所以|但|不过|他|她|你)", text):
            part = _Part(part.type, f"{part.text}，{text}", part.priority)
        if "我" in text:
            subject_known = OWN_SUBJECT.search(text) is not None and HAS_KIN.match(text) is None
    if part is not None:
        yield _fact(part, said_at, zone)


def _read_part(text: str, span: Span | None, *, inherits: bool) -> _Part | None:
    """`text` with its subject written out, when a pattern takes it."""
    if re.search(r"[你您]", text):
        return None
    body = text
    if span is not None and span.text_start <= 2:
        body = text[span.text_end :].lstrip("，, 早上晚下午日时候我们") if not text.startswith("我") else text
        body = (
            ("我们" if "我们" in text[span.text_end : span.text_end + 4] else "我") + body
            if body and not body.startswith("我") and "我" in text
            else body
        )
    if span is not None and text.startswith("我"):
        body = re.sub(r"\s+", "", text[: span.text_start] + text[span.text_end :])
    named = NAME.match(body)
    if named:
        return _Part(AtomType.PERSONA, f"我的名字是{named['name']}", facts.CORE)
    if not inherits and "我" not in body and not (span and NOUN_EVENT.search(text)):
        return None
    kind = _kind(body if "我" in body or not inherits else f"我{body}", text, span)
    if kind is None:
        return None
    subject = "" if "我" in text or (span and NOUN_EVENT.search(text)) else "我"
    return _Part(kind[0], subject + text, kind[1])


def _kind(body: str, text: str, span: Span | None) -> tuple[AtomType, int] | None:
    if DECISION.match(body):
        return AtomType.EPISODIC, facts.DECISION
    if STRONG_EVENT.match(body) or PLAN.match(body):
        return AtomType.EPISODIC, facts.EVENT
    persona = _persona_priority(body) or _persona_priority(text)
    if persona is not None:
        return AtomType.PERSONA, persona
    if span is not None and (DATED.search(body) or NOUN_EVENT.search(body)):
        return AtomType.EPISODIC, facts.EVENT
    return None


def _persona_priority(body: str) -> int | None:
    if TROUBLE.search(body):
        return None
    liking = LIKING.match(body)
    if liking:
        named = liking["object"].strip("的了吧啊呀哦 ")
        return None if not named or ANAPHORA.match(named) else facts.ORDINARY
    for pattern, priority in PERSONA:
        if pattern.match(body):
            return priority
    if INTEREST.match(body):
        return facts.ORDINARY
    if KIN_FACT.match(body) or HAS_KIN.match(body):
        return facts.RELATION
    attribute = ATTRIBUTE.match(body)
    return facts.ORDINARY if attribute and not ANAPHORA.match(attribute["value"]) else None


def _third_person(text: str) -> str:
    text = re.sub(r"自我", "\0", text)
    for pattern, replacement in PERSON:
        text = pattern.sub(replacement, text)
    return text.replace("\0", "自我").strip("，,：: ")


def _fact(part: _Part, said_at: int, zone: tzinfo) -> Fact:
    text, span = part.text, find_span(part.text, said_at, zone)
    if span is not None and span.relative:
        text = f"{text[: span.text_end]}（{describe_span(span, zone)}）{text[span.text_end :]}"
    content = f"{_third_person(text)}。"
    happens = span if part.type is AtomType.EPISODIC else None
    topic = topic_of("家人" if part.priority == facts.RELATION else content, chinese=True)
    return Fact(
        part.type, content, part.priority, topic, happens.start if happens else None, happens.end if happens else None
    )
