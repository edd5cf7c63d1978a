"""Facts of which a person has one at a time: a new value replaces the old one."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    name: str
    value: str
    ended: bool = False  # "no longer lives in ..."


_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, flags))
    for name, pattern, flags in (
        ("name", r"^The user's (?:full |first |real )?name is (?P<value>.+)\.$", re.IGNORECASE),
        (
            "home",
            r"^The user (?:(?:now|currently|just|recently) )*(?:(?P<ended>no longer) )?(?:lives?|"
            r"is living|is based) in (?P<value>[^,.]+)",
            0,
        ),
        (
            "home",
            r"^The user (?:(?:has|just|recently|"
            r"finally) )*moved (?:from [^,.]+? )?to (?P<value>[A-Z][^,.(\d]*)(?=[ ,.(]|$)",
            0,
        ),
        (
            "employer",
            r"^The user (?:(?:now|currently) )*(?:(?P<ended>no longer) )?(?:works?|is working) (?:at|"
            r"for) (?P<value>[^,.]+)",
            0,
        ),
        (
            "employer",
            r"^The user (?:(?:has|just|recently) )*(?:started working at|started a new job at) (?P<value>[^,.(]+)",
            0,
        ),
        ("role", r"^The user (?:(?:now|currently) )*(?:works|is working) as (?:an? )?(?P<value>[^,.]+)", 0),
        ("called", r"^Call the user (?P<value>.+)\.$", 0),
        (
            "language",
            r"^(?:Always )?(?:answer|reply|respond|write|speak|talk)\b.*? in (?P<value>[\w ]+?)\.$",
            re.IGNORECASE,
        ),
        ("birthday", r"^The user's birthday is (?P<value>.+)\.$", 0),
        (
            "own",
            r"^The user's (?P<thing>favou?rite [\w' -]+?|(?:phone|mobile|cell) number|e-?mail(?: address)?|boss|"
            r"manager|supervisor|landlord|wife|husband|partner|girlfriend|boyfriend|shoe size|blood type|time zone|"
            r"job title) (?:is|are)(?: now)? (?!not\b|no longer\b)(?P<value>.+)\.$",
            re.IGNORECASE,
        ),
        ("name", r"^用户的名字是(?P<value>.+)。$", 0),
        (
            "own",
            r"^用户的?(?:现在|目前)?(?P<thing>最喜欢的[^，。是]+?|手机号码?|电话号码?|邮箱|老板|领导|妻子|老婆|丈夫|老公|女朋友|男朋友)"
            r"(?:现在|目前)?是(?P<value>[^不].*)。$",
            0,
        ),
        (
            "home",
            r"^用户(?:现在|目前|已经|刚|刚刚)*(?:(?P<ended>不再|不)住在|住在|家住|定居在|搬到了?|"
            r"搬去了?)(?P<value>[^，。（了]+)",
            0,
        ),
        ("employer", r"^用户(?:现在|目前)*在(?P<value>[^，。]+?)(?:工作|上班|任职)", 0),
        ("called", r"^称呼用户为(?P<value>.+)。$", 0),
        ("language", r"^(?:一律|始终|都)?用(?P<value>\S{2,6}?)(?:回答|回复|交流|沟通)", 0),
        ("birthday", r"^用户的?生日是(?P<value>.+)。$", 0),
    )
)
_QUERIES = {
    "name": ("name", "名字"),
    "home": ("lives living based moved", "住在 搬到 搬去 定居"),
    "employer": ("works working work started job", "工作 上班 任职"),
    "role": ("works working work", "工作"),
    "called": ("call", "称呼"),
    "language": ("answer reply respond write speak talk", "回答 回复 交流 沟通"),
    "birthday": ("birthday", "生日"),
}
_THING_FORMS = {"favorite": "favourite", "email": "e-mail"}
# "moved to" is also said of tools and plans; these are no homes.
_NOT_A_HOME = re.compile(
    r"(?i)^(?:python|rust|go|java|typescript|kubernetes|aws|gcp|azure|linux|windows|macos|postgres\w*|"
    r"mysql|sqlite|vim|neovim|emacs|git\w*|docker|"
    r"react|vue|slack|notion|team|plan|phase|the |a )"
)


# "moved to Oslo last week" and "lives in Oslo" name one home.
_WHEN = re.compile(
    r"(?i)\s+(?:now|today|yesterday|tomorrow|ago|since|(?:last|this|next|on) \w+|(?:a|an|one|two|three|\d+) \w+ ago|"
    r"in (?:\d{4}|january|february|march|april|may|june|july|august|september|october|november|december))\b.*$"
)


def slot_of(content: str) -> Slot | None:
    """The single-value slot a rule-made content fills, or None. A second job (`also works at`) fills none."""
    for name, pattern in _PATTERNS:
        match = pattern.search(content)
        if match is None:
            continue
        if name == "home" and "moved to" in content and _NOT_A_HOME.match(match["value"]):
            return None
        named = _thing_of(match["thing"]) if name == "own" else name
        return Slot(named, normalised(_WHEN.sub("", match["value"])), bool(match.groupdict().get("ended")))
    return None


def new_home(content: str) -> str:
    """The place, as it was written, of an event by which the user's home changed; "" for everything else."""
    slot = slot_of(content)
    if slot is None or slot.name != "home" or slot.ended:
        return ""
    match = next(match for name, pattern in _PATTERNS if name == "home" and (match := pattern.search(content)))
    return _WHEN.sub("", match["value"]).strip()


def _thing_of(thing: str) -> str:
    return " ".join(_THING_FORMS.get(word, word) for word in normalised(thing).split())


def slot_query(content: str) -> str:
    """Words that find the atoms which may hold the same slot, however differently they are put; "" without a slot."""
    slot = slot_of(content)
    if slot is None:
        return ""
    if slot.name not in _QUERIES:
        return slot.name
    english, chinese = _QUERIES[slot.name]
    return chinese if content.startswith(("用", "称", "一律", "始终", "都")) else english


_DEGREE = re.compile(
    r"(?<=^the user )(?:(?:really|absolutely|totally|truly|definitely|honestly|also|still|strongly|especially|just|so)"
    r" )+"
    r"|(?<=^用户)(?:真的|特别|非常|十分|超级|超|挺|很|一直|也)+"
)
_NO_LONGER = re.compile(r"^the user no longer (?P<rest>\S+ .+)$|^用户(?:现在|已经)?不再(?P<rest_zh>.+?)了?$")
_SOLD = re.compile(
    r"^the user (?:has )?(?:just |finally )?sold (?:their|the|an?) (?P<thing>[^,(]+?)"
    r"(?= (?:last|on|yesterday|today|this|in|to|for)\b|[,(]|$)"
)
_OWNS = re.compile(r"^the user (?:drives|owns|has|rides|keeps) ")


def same_statement(content: str) -> str:
    """The form in which two contents say the same, however strongly they say it."""
    return _DEGREE.sub("", normalised(content))


def ends(later: str, earlier: str) -> bool:
    """Whether the later of two statements (in the form of `same_statement`) makes the earlier one untrue, outside any
    slot: what the user no longer does, and what is sold."""
    over = _NO_LONGER.match(later)
    if over is not None:
        return earlier.startswith(f"the user {over['rest']}" if over["rest"] else f"用户{over['rest_zh']}")
    sold = _SOLD.match(later)
    return sold is not None and _OWNS.match(earlier) is not None and sold["thing"] in earlier


def normalised(text: str) -> str:
    """Two texts that differ in case, width, spacing or final punctuation say the same."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).strip(" .。!！;；,，")
