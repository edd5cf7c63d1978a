"""Tells what a model says instead of a fact: promises to remember, questions back, words of the answer's own form.

Only a text that is nothing else is meant: "I will remember that" is a promise, "I will remember my mother's birthday
on May 4" is a sentence of a person. So a pattern has to cover the whole text, and its object has to be a mere pronoun
or a word for the memory itself.
"""

from __future__ import annotations

import re

from memory_tencentdb_worker.llm.refusals import looks_like_refusal

_COURTESY = (
    r"(?:(?:ok(?:ay)?|sure(?:\s+thing)?|noted|got\s+it|understood|of\s+course|certainly|absolutely|will\s+do|done|great"
    r"|perfect|you(?:[’']re|\s+are)\s+(?:very\s+)?welcome|no\s+problem|my\s+pleasure|hello|hi|thanks?(?:\s+you)?(?:\s+for\s+(?:telling|letting|sharing|the\s+information)[^.,!;]{0,40})?)[\s,.!;:—-]*)"
)
_WHO = r"(?:i|we|the\s+(?:assistant|ai|model)|this\s+(?:assistant|model))"
_WILL = (
    r"(?:[’']ll|\s+will|\s+shall|[’']ve|\s+have|\s+has|\s+promised\s+to|\s+promises\s+to|[’']m\s+going\s+to)?"
    r"(?:\s+(?:now|also|always|definitely|certainly|gladly|try\s+to|be\s+sure\s+to|make\s+sure\s+to))*"
)
_KEEP = (
    r"\s+(?:remember(?:ed|s)?|keep|keeps|kept|note[ds]?|saved?|stored?|record(?:ed)?|bear|take|taken|took|make|made"
    r"|update[d]?|add(?:ed)?|memori[sz]ed?)"
)
_IT = (
    r"(?:\s+(?:(?:all\s+)?(?:of\s+)?(?:that|this|it|these|those|everything)|(?:a\s+)?(?:mental\s+)?note(?:\s+of\s+(?:that|this|it))?"
    r"|(?:this|that|the|your)\s+(?:preferences?|requests?|information|details?|facts?|notes?|memor(?:y|ies))))?"
)
_WHERE = (
    r"(?:\s+(?:in\s+mind|(?:in|to)\s+(?:my|your|the|long-term|\s)+memor(?:y|ies)|down|into\s+account|for\s+(?:you|later|next\s+time"
    r"|(?:the\s+|our\s+)?(?:future|next)(?:\s+(?:reference|use|chats?|conversations?|sessions?))?)|going\s+forward|from\s+now\s+on))*"
)
_PROMISE = re.compile(
    rf"(?:{_COURTESY})*{_WHO}{_WILL}{_KEEP}{_IT}{_WHERE}[\s.!]*(?:{_COURTESY})*|{_COURTESY}+", re.IGNORECASE
)
_PROMISE_ZH = re.compile(
    r"(?:(?:好的?|嗯|明白|收到|了解|没问题|当然|不客气|不用谢|你好|您好|谢谢[^，,。！!]{0,8})[了啦]?[，,。！!\s]*)*"
    r"(?:(?:我|AI|助手|系统)(?:已经?|会|将|将会|一定会?|都)*(?:帮您|帮你|为您|为你|替您|替你)?"
    r"(?:把?(?:这|此|它|您的|你的)[^，,。！!]{0,6}?)?(?:记住|记下|记录|保存|存储|记在心里|牢记|记着)(?:下来|[了的])*"
    r"(?:这一?[点个些条件]?(?:信息|事情?|偏好)?|您的(?:偏好|信息|要求)|你的(?:偏好|信息|要求))?[了的]?)?[，,。！!\s]*"
)
_ASKS = re.compile(
    r"(?:(?:could|can|would|will)\s+you\s+(?:please\s+)?(?:clarify|specify|elaborate|confirm|tell\s+me|let\s+me\s+know"
    r"|explain|be\s+more\s+specific)\b"
    r"|(?:what|which|how)\b[^.!]{0,60}\b(?:would|do)\s+you\s+(?:like|want)\s+me\s+to\b"
    r"|(?:do|would)\s+you\s+(?:want|like)\s+me\s+to\b|(?:what|which)\b[^.!]{0,40}\bdo\s+you\s+mean\b"
    r"|(?:请问|您|你)[^。！!]{0,30}(?:是指|想要?我|希望我|需要我|具体指|能否说明|可以说明|能说明|能否澄清)"
    r").*[?？]\s*",
    re.IGNORECASE | re.DOTALL,
)
_FORM = re.compile(
    r"[\W_]*(?:string|str|text|content|memory|fact|memory\s+content|persona|episodic|instruction|none|null|n/?a|nothing"
    r"|无|没有|暂无)?[\W_]*",
    re.IGNORECASE,
)
_LONGEST = 300


def says_nothing(text: str) -> bool:
    """True for a refusal, a promise, a question back, or a placeholder: nothing that a memory could hold."""
    if looks_like_refusal(text):
        return True
    bare = text.strip().strip("*_`\"'“”‘’「」")
    if len(bare) > _LONGEST:
        return False
    return any(pattern.fullmatch(bare) for pattern in (_PROMISE, _PROMISE_ZH, _ASKS, _FORM))
