"""Whether a person asks, in so many words, that something be forgotten. Silence is better than a wrong guess: "don't
forget", "I forgot", "never mind" and talk about forgetting ask for nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LEAD = r"(?:(?:please|ok|okay|hey|actually|no|and|now|oh)[,\s]+|(?:can|could|would|will) you (?:please )?)*"
_TAIL = r"[\s,.!?]*(?:please[.!]*|thanks?[.!]*|thank you[.!]*|again[.!]*)?[\s.!?]*"
_BARE_EN = re.compile(
    rf"{_LEAD}(?:forget|erase|delete|remove)\s+(?:that|this|it|what i (?:just )?(?:said|told you)(?: just now)?"
    r"|what i just (?:said|told you)|my last message|the last (?:thing|message)(?: i (?:said|told you))?"
    rf"|everything i just (?:said|told you))(?:\s+(?:from|in) (?:your )?memory)?{_TAIL}",
    re.IGNORECASE,
)
_DO_NOT_KEEP_EN = re.compile(
    rf"{_LEAD}(?:do not|don['’]t)\s+(?:remember|store|save|keep)\s+(?:that|this|it"
    rf"|what i (?:just )?(?:said|told you)){_TAIL}",
    re.IGNORECASE,
)
_ABOUT_EN = re.compile(
    rf"{_LEAD}(?:forget|erase|delete|remove)\s+(?:(?:from (?:your )?memory\s+)?that|everything (?:about|on)"
    r"|what (?:you know|i (?:said|told you)) about|all you know about)\s+(?P<what>[^\n]{3,200}?)"
    rf"(?:\s+from (?:your )?memory)?{_TAIL}",
    re.IGNORECASE,
)
_LEAD_ZH = r"(?:(?:请|麻烦|好的?|那|现在|帮我|你)[,，\s]*)*"
_BARE_ZH = re.compile(
    rf"{_LEAD_ZH}(?:(?:忘掉|忘了|忘记|删掉|删除|抹掉)(?:这个|那个|这件事|那件事|这条|那条|它|我刚才?说的(?:话)?|刚才?那?句话|刚才的话)"
    r"|把(?:这个|那个|这件事|那件事|这条|那条|我?刚才?说的(?:话)?|刚才?那?句话|刚才的话)(?:给)?(?:忘掉|忘了|忘记|删掉|删除|抹掉)"
    r"|(?:别|不要)(?:记住|记|保存|存)(?:这个|那个|这件事|那件事|这条|那条|我?刚才?说的(?:话)?))(?:吧|了|好吗|谢谢)*[。！!.，,\s]*"
)
_ABOUT_ZH = re.compile(
    rf"{_LEAD_ZH}(?:忘掉|忘记|忘了|删掉|删除)(?:关于|有关)?(?P<what>我[^\n。！!]{{2,80}}?)(?:的事情?|这件事)?(?:吧|了)*[。！!\s]*"
)


@dataclass(frozen=True)
class ForgetCue:
    """`about` is what it names, "" for what was said just before."""

    about: str


def forget_cue(text: str) -> ForgetCue | None:
    """The whole message must be the request: inside a longer one it may be a quotation or a story."""
    said = text.strip()
    if len(said) > 300:
        return None
    for pattern in (_BARE_EN, _DO_NOT_KEEP_EN, _BARE_ZH):
        if pattern.fullmatch(said):
            return ForgetCue("")
    for pattern in (_ABOUT_EN, _ABOUT_ZH):
        found = pattern.fullmatch(said)
        if found:
            return ForgetCue(found["what"].strip(" .!?。！"))
    return None
