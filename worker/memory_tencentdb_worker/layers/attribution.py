"""Which message a statement rests on when the model did not name one: the one whose words it shares, or none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from memory_tencentdb_worker.models import Message, Origin
from memory_tencentdb_worker.text.segment import query_terms
from memory_tencentdb_worker.text.word_forms import word_forms

SHARED_TERMS = 0.5
"""Share of a statement's telling terms that one message must hold."""

_REPORTS = r"(?:\s+(?:said|says|mentioned|mentions|stated|states|told|reported|reports))?"
_SPEAKER = re.compile(
    rf"\b(?:the )?(?:user|assistant)(?:['’]s)?{_REPORTS}\b|(?:用户|助手)(?:的|提到|表示|说)?", re.IGNORECASE
)
_ENDING = re.compile(r"(?:ing|ed|es|e|s)$")


def attributed(content: str, messages: Sequence[Message]) -> Message | None:
    """The message that shares most terms with the statement, at least half of them; the user's own words before
    those of others, earlier ones before later ones."""
    wanted = _roots(_SPEAKER.sub(" ", content))
    if not wanted:
        return None
    own = [message for message in messages if message.origin is Origin.USER]
    others = [message for message in messages if message.origin is not Origin.USER]
    return _closest(wanted, own) or _closest(wanted, others)


def shared(statement: str, text: str) -> float:
    """The share of the statement's telling terms that the text holds; 0 for a statement without any."""
    wanted = _roots(_SPEAKER.sub(" ", statement))
    return len(wanted & _roots(text)) / len(wanted) if wanted else 0.0


def _closest(wanted: set[str], messages: Iterable[Message]) -> Message | None:
    best, most = None, SHARED_TERMS
    for message in messages:
        share = len(wanted & _roots(message.text)) / len(wanted)
        if share > most or (share == most and best is None):
            best, most = message, share
    return best


def _roots(text: str) -> set[str]:
    """Terms in a form that endings do not change: `lives`, `live` and `living` are one."""
    return {_root(term) for term in query_terms(text)}


def _root(term: str) -> str:
    form = word_forms(term)[0]
    return _ENDING.sub("", form) if len(form) > 3 and form.isascii() else form
