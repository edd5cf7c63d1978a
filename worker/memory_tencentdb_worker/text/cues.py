"""What a question gives away about the memory it asks for: when it was said, by whom, and whether it still holds."""

from __future__ import annotations

import re
from datetime import tzinfo

from memory_tencentdb_worker.models import Preference, Role
from memory_tencentdb_worker.text.asked_days import asked_days

CUE_CHARS = 2_000
"""Of a longer text only the end is read as a question: it may be a pasted page."""

_TOLD_BY_ASSISTANT = re.compile(
    r"(?i)\byou(?:'ve| have| had)?\s+(?:\w+\s+){0,2}?(?:recommend|suggest|advi[sc]e|t[oe]ll|told|sa(?:y|id)|explain|"
    r"g[ia]ve|propose|mention|teach|taught|show|describe|writ|wrote|answer|list)"
    r"|\byour (?:advice|suggestion|recommendation|answer|explanation|opinion|idea|tip)"
    r"|你.{0,12}(?:推荐|建议|告诉|分享给|教|说过|给过|给了|提到|解释|回答|介绍)"
)
_TOLD_TO_ASSISTANT = re.compile(
    r"(?i)\bI(?:'ve| have| had)?\s+(?:\w+\s+){0,2}?(?:told|tell|sa(?:y|id)|mention|share|ask|recommend|suggest|g[ia]ve)"
    r"|我.{0,6}(?:给|向|和|跟|对|告诉)你|我.{0,8}(?:说过|提到|提过|讲过|分享)"
)
_OWN = re.compile(r"(?i)\b(?:I|me|my|mine|I'm|I've)\b|我|俺|咱")
_LATEST = re.compile(
    r"(?i)\b(?:latest|newest|most recent(?:ly)?|last time|current(?:ly)?|right now|nowadays|at the moment|as of now)\b"
    r"|最新|最近一次|最后一次|上一次|上次|目前|现在|如今|眼下"
)
_PAST = re.compile(
    r"(?i)\b(?:used to|previous(?:ly)?|former(?:ly)?|originally|in the past|back then|at first|no longer|"
    r"before (?:that|now|I|we)|before(?=\s*(?:[,.?!]|$))|earlier|changed?|"
    r"old (?:job|address|home|house|number|name|employer|phone))\b"
    r"|以前|之前|曾经|从前|原来|原先|当初|最初|起初|过去|那时|旧的|改过|变过"
)


def read_preference(query: str, now: int, zone: tzinfo) -> Preference:
    """What is preferred because of the question's words."""
    asked = query[-CUE_CHARS:]
    return Preference(spans=asked_days(asked, now, zone), role=_asked_role(asked), latest=bool(_LATEST.search(asked)))


def asks_for_past(query: str) -> bool:
    """Whether what is no longer true may be the answer."""
    return bool(_PAST.search(query[-CUE_CHARS:]))


def _asked_role(asked: str) -> Role | None:
    """Whose words are wanted. A user speaks of themselves: what they ask about their own life, they said."""
    if _TOLD_TO_ASSISTANT.search(asked):
        return Role.USER
    if _TOLD_BY_ASSISTANT.search(asked):
        return Role.ASSISTANT
    return Role.USER if _OWN.search(asked) else None
