"""Tells a model's refusal or clarifying question from a fact.

A refusal is the model speaking of its own task: it cannot help, extract, see the conversation; it asks for input. "I
cannot eat nuts" is a person speaking of life. So every pattern needs the verb of a task together with its object, or
an apology before it, and only the beginning of a text is looked at.
"""

from __future__ import annotations

import re

_TASK_OBJECT = (
    r"(?:(?:this|that|these|those|the|your|any|such|an?|from|with|on|in|to|about)\s+)*"
    r"(?:(?:provided|given|following|kind|type|sort|of|structured|valid|user'?s?|relevant|new|specific|previous|earlier|past|long-term)\s+)*"
    r"(?:requests?|contents?|conversations?|transcripts?|messages?|memor(?:y|ies)|facts?|information|personas?"
    r"|scenes?|summar(?:y|ies)|responses?|texts?|instructions?|tasks?|prompts?|json|inputs?|outputs?)\b"
)
_CANNOT = r"(?:can(?:not|\s*not|[’']?t)|(?:am|[’']m)\s+(?:unable|not\s+able)\s+to|won[’']?t|will\s+not)"
_DO_TASK = (
    r"(?:help|assist|comply|fulfil+|extract|process|provide|generate|create|complete|continue|produce|summari[sz]e"
    r"|analy[sz]e|identify|determine|find|see|access|write|discuss|answer|respond|engage|share)"
)
_SORRY = (
    r"(?:(?:i[’']?\s*a?m\s+(?:very\s+|so\s+|really\s+)?sorry|sorry|unfortunately|apologies"
    r"|i\s+(?:do\s+)?apologi[sz]e)[\s,.!:;—-]*(?:but\s+|however,?\s+|that\s+)?)"
)
_AS_AI = r"(?:as\s+an?\s+(?:ai|artificial\s+intelligence|(?:large\s+)?language\s+model)(?:\s+\w+){0,3},?\s+)"
_INPUT = (
    r"(?:conversations?|transcripts?|messages?|chat\s+(?:logs?|history)|inputs?|(?:more|additional)\s+(?:context"
    r"|information|details)|(?:text|content|data)\s+(?:you|to|that|for))"
)

_ENGLISH = re.compile(
    "|".join(
        (
            rf"{_SORRY}?{_AS_AI}?i\s*{_CANNOT}\s+{_DO_TASK}\s+{_TASK_OBJECT}",
            rf"{_SORRY}?{_AS_AI}?i\s*{_CANNOT}\s+(?:help|assist|comply|do|answer|continue|discuss|fulfil+)"
            r"(?:\s+you)?(?:\s+with)?(?:\s+(?:that|this|it))?\s*(?:[.!,;]|\Z)",
            rf"{_SORRY}{_AS_AI}?i\s*{_CANNOT}\s+{_DO_TASK}\b",
            rf"{_SORRY}?{_AS_AI}i\b",
            rf"{_SORRY}?i\s+(?:do\s+not|don[’']?t)\s+(?:have\s+(?:access\s+to\s+|enough\s+|any\s+)?|see\s+(?:any\s+)?)"
            rf"{_TASK_OBJECT}",
            rf"{_SORRY}?there\s+(?:is|are|was|were)\s+no(?:thing|t\s+enough)?\s+(?:{_TASK_OBJECT}\s*)?"
            r"(?:to\s+(?:extract|remember|summari[sz]e)|provided|in\s+th(?:e|is)\s+(?:conversation|transcript))",
            rf"(?:(?:could|can|would)\s+you\s+(?:please\s+)?|please\s+)(?:provide|paste|share|upload|send|supply)\s+"
            rf"(?:me\s+)?(?:with\s+)?(?:(?:the|your|some|a|an|actual|full)\s+)*{_INPUT}",
            r"(?:the|this|your)\s+(?:content|response|request|output)\s+(?:was|has\s+been|is)\s+"
            r"(?:filtered|blocked|removed|flagged)",
        )
    ),
    re.I,
)
_CHINESE = re.compile(
    "|".join(
        (
            r"(?:非常|很|十分)?(?:抱歉|对不起|不好意思|遗憾)[，,。！!\s]*(?:但是?)?(?:我|目前|暂时|这边|作为[^，,。]{0,14}[，,]?)*"
            r"(?:无法|不能|没办法|没有办法|不可以|不便)",
            r"我?(?:无法|不能|没办法)(?:为您|为你|帮您|帮你|帮助您|帮助你|协助|提供|处理|提取|回答|满足|完成|生成|分析|讨论)"
            r"[^。，,]{0,10}(?:请求|要求|内容|对话|信息|记忆|消息|帮助|服务)",
            r"(?:作为|身为)(?:一个|一名)?(?:AI|ＡＩ|人工智能|语言模型|大模型)[^。]{0,20}我?(?:无法|不能|没有)",
            r"请(?:您|你|先)?(?:提供|粘贴|发送|上传|分享)[^。]{0,10}(?:对话|聊天记录|消息记录|文本|更多(?:信息|内容|细节))",
            r"(?:当前|该|本次|这段)?(?:对话|消息|内容)?[中里]?没有(?:任何)?(?:可以?|值得|需要)?(?:提取|记录)的?(?:信息|记忆|内容|事实)",
            r"(?:该|您的|你的|此)?(?:内容|回复|请求)已?被(?:过滤|屏蔽|拦截)",
        )
    ),
    re.I,
)
_LEADING = " \t\r\n*_>#`\"'“”‘’「」-•"


def looks_like_refusal(text: str) -> bool:
    """True for a refusal, an apology for one, or a request for input, as a whole answer or as one item's text."""
    opening = text.lstrip(_LEADING)[:400]
    if opening[:1] in ("{", "["):
        return False
    return bool(_ENGLISH.match(opening) or _CHINESE.match(opening))
