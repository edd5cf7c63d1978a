"""English from the first person to the third: `I live with my sister` becomes `The user lives with the user's sister`.

Only words that point at the speaker, and the verb behind `I`, change; everything else stays as it was said.
"""

from __future__ import annotations

import re

from memory_tencentdb_worker.offline.words_en import words

_BE_HAVE_DO = {
    "am": "is",
    "'m": "is",
    "have": "has",
    "'ve": "has",
    "do": "does",
    "don't": "doesn't",
    "haven't": "hasn't",
    "ain't": "isn't",
}
_UNCHANGED = words(
    "was wasn't had hadn't did didn't can can't cannot could couldn't will won't would wouldn't "
    "shall should shouldn't must mustn't "
    "may might 'll 'd bought went got met took made saw started began left quit said found broke "
    "lost won told ran wrote read put cut "
    "set hurt grew came became chose flew drove ate drank slept spent sold sent built taught thought "
    "felt kept gave knew paid caught hit "
    "let held heard brought swam sang rode fell led lent bred dealt dug hung shot stuck tore wore"
)
_ADVERBS = words(
    "really also just currently now usually never always often still absolutely totally truly "
    "generally normally mostly sometimes rarely "
    "recently finally already strongly definitely honestly personally actually mainly only simply "
    "deeply genuinely hardly especially "
    "particularly much greatly kind sort both then even no longer probably literally officially"
)
_BASE_VERBS = words(
    "work live love like prefer hate play drive study teach own run speak use have enjoy dislike "
    "collect keep train eat drink cook lead "
    "manage take go come want need plan know write read sing dance travel swim ride grow build sell "
    "make do am avoid adore"
)
_SUBJECT = re.compile(r"(?<![\w.])I(?P<glued>['’](?:m|ve|ll|d))?(?=\W|$)(?P<rest>(?:\s+[\w'’-]+){0,4})")
_WORDS = (
    (re.compile(r"(?i)\bmyself\b"), "themselves"),
    (re.compile(r"(?i)\bmine\b"), "the user's"),
    (re.compile(r"(?i)\bmy\b"), "the user's"),
    (re.compile(r"\b(?:me|Me)\b"), "the user"),
    (re.compile(r"(?i)\bwe['’]re\b"), "the user and others are"),
    (re.compile(r"(?i)\bwe['’]ve\b"), "the user and others have"),
    (re.compile(r"(?i)\bwe['’]ll\b"), "the user and others will"),
    (re.compile(r"(?i)\bwe\b"), "the user and others"),
    (re.compile(r"(?i)\bour\b"), "the user's"),
    (re.compile(r"\b(?:us|Us)\b"), "the user and others"),
)
_NEXT_CLAUSE = re.compile(r"[,;]|\b(?:but|because|when|while|that|who|which|if|so)\b")
_IRREGULAR_S = {"go": "goes", "do": "does", "have": "has", "be": "is"}


def to_third_person(text: str) -> str:
    """A sentence about the user with its first letter large and a full stop at its end."""
    text = _SUBJECT.sub(_retell, text.replace("’", "'"))
    text = _with_own(text)
    for pattern, replacement in _WORDS:
        text = pattern.sub(replacement, text)
    text = re.sub(r"\band (also )?the user ", r"and \1", text).strip(" ,;:-–—")
    return as_sentence(text)


def _with_own(text: str) -> str:
    """In the clause of which the user is the subject, `their` can be nobody else's."""
    head, subject, rest = text.partition("the user ")
    following = _NEXT_CLAUSE.search(rest)
    end = following.start() if following else len(rest)
    return head + subject + re.sub(r"\bmy\b", "their", rest[:end]) + rest[end:]


def as_sentence(text: str) -> str:
    text = " ".join(text.split()).rstrip(".!;, ")
    return text[:1].upper() + text[1:] + "."


def _retell(match: re.Match[str]) -> str:
    words = match["rest"].split()
    if match["glued"]:
        verb = {"'m": "is", "'ve": "has", "'ll": "will", "'d": "would"}[match["glued"].lower()]
        return f"the user {verb}{match['rest']}"
    position = next((index for index, word in enumerate(words) if word.lower() not in _ADVERBS), None)
    if position is not None:
        words[position] = _conjugate(words[position])
        _conjugate_second(words, position + 1)
    return " ".join(["the user", *words])


def _conjugate(verb: str) -> str:
    lower = verb.lower()
    if lower in _BE_HAVE_DO:
        return _BE_HAVE_DO[lower]
    if lower in _UNCHANGED or (lower.endswith("ed") and lower not in ("need", "feed", "speed", "breed", "bleed")):
        return verb
    if lower in _IRREGULAR_S:
        return _IRREGULAR_S[lower]
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return verb + "es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def _conjugate_second(words: list[str], start: int) -> None:
    """`I live and work in Bonn`: a verb right behind `and` has the same subject."""
    for index in range(start, len(words) - 1):
        if words[index] == "and" and words[index + 1].lower() in _BASE_VERBS:
            words[index + 1] = _conjugate(words[index + 1])
