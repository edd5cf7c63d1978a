"""Which parts of a person's message are somebody else's words: quotations, code, forwarded mail, a pasted page.

A person speaks for himself in the rest only. In doubt a part counts as foreign: it can still be remembered as something
that was read, and never as who the person is or what shall be done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory_tencentdb_worker.text.recalled import PERSONA_HEADER, RECALL_HEADER, TOPICS_HEADER

Span = tuple[int, int]

LONG_WITHOUT_A_PERSON = 1_200
"""A message of so many characters in which nobody says "I" is something that was copied."""

_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)")
_COMMENT = re.compile(r"(?s)<!--.*?(?:-->|\Z)")
_TAGGED = re.compile(r"(?s)<([a-z][\w-]*)\b[^>]{0,400}>.{0,4000}?</\1>", re.IGNORECASE)

_QUOTED_LINES = re.compile(r"(?m)^[ \t]*(?:>|\|)[^\n]*(?:\n|\Z)")
_QUOTATION = re.compile(
    r"“[^“”]{20,}”|「[^「」]{12,}」|『[^『』]{12,}』|«[^«»]{20,}»|(?<![\w])\"[^\"\n]{30,}\"(?!\w)|(?<!\w)'[^'\n]{40,}'(?!\w)"
)
_NOUN = (
    r"(?:web ?)?(?:page|site|website|article|e-?mail|mail|letter|document|doc|readme|file|pdf|log|logs|output|result|"
    r"results|response|text|message|transcript|subtitles|post|tweet|comment|issue|ticket|review|listing|snippet|"
    r"story|poem|lyrics|script|prompt|thread|chat|excerpt|paragraph|description|calendar event|invite|search result)"
)
_TASK = (
    r"summari[sz]e|translate|proofread|rewrite|rephrase|paraphrase|explain|review|analy[sz]e|debug|edit|correct|"
    r"tl;?dr|check|read|shorten|classify|extract|format"
)
_ANNOUNCED = re.compile(
    r"(?i)(?:\b(?:the|this|that|these|those|a|an|following|from|here|pasted?|attached|his|her|their|its|below)\b"
    rf"[^.!?\n:：]{{0,60}}\b{_NOUN}\b[^.!?\n:：]{{0,60}}[:：](?!\d|//)"
    rf"|(?:^|(?<=[\n.!?,]))[ \t]*(?:(?:please|can you|could you|would you|now|and)\s+)*(?:{_TASK})\b[^.!?\n:：]{{0,80}}"
    r"[:：](?!\d|//)"
    r"|(?:^|(?<=\n))[ \t]*\W{0,4}(?:(?:web ?)?page|website|article|tool (?:result|output)|search results?|transcript|"
    r"readme|source|url|excerpt|document|content|title)\b[^.!?\n:：]{0,40}[:：](?=\s)"
    r"|(?:^|(?<=\n))[ \t]*(?:fwd?|fw|re)\s?[:：]\s"
    r"|\bpasted?\b[^.!?\n]{0,60}[:：]"
    r")"
)
_ANNOUNCED_ZH = re.compile(
    r"(?:(?:这|该|此|那|以下|下面|下列|如下|一)[^。！？\n:：]{0,12})?"
    r"(?:网页|网站|页面|文章|邮件|文本|日志|报错|原文|文档|帖子|评论|聊天记录|公告|代码|搜索结果|工具结果|工具输出|新闻|简历|说明书|段落)"
    r"[^。！？\n:：]{0,16}[:：]"
    r"|(?:翻译|总结|概括|润色|改写|校对|解释|分析|看看|看一下|摘要)[^。！？\n:：]{0,20}[:：]"
    r"|(?:以下|下面|如下)(?:是|为)?[^。！？\n:：]{0,16}(?:内容|文字|文本|材料)[:：]"
    r"|(?:转发|转载|引用|粘贴)[^。！？\n:：]{0,10}[:：]"
)
_FORWARDED = re.compile(
    r"(?im)^[ \t>]*(?:-{2,}\s{0,9}(?:original message|forwarded (?:message|by)|begin forwarded)[^\n]*"
    r"|begin forwarded message:?|on [^\n]{6,120} wrote:|-*\s{0,9}(?:原始邮件|转发的邮件|转发邮件)[^\n]*"
    r"|(?:发件人|寄件人)[:：][^\n]*"
    r"|from:[^\n]*\n(?:[ \t]*(?:to|cc|date|sent|subject|reply-to):[^\n]*\n?)+)"
)
_MARKED = re.compile(
    r"(?im)^[ \t]*(?:={2,}|-{3,}|\*{3,}|#{2,}|\[|【)[ \t]*(?:begin|start|web|page|source|content|document|tool|search|"
    r"untrusted|file|quote|开始|网页|来源|正文|工具)[^\n]{0,80}(?:\n|\Z)"
)
_ADDRESS_LINE = re.compile(r"(?m)^[ \t]*https?://\S+[ \t]*\n")
_CONTINUED = re.compile(
    r"(?i)\A\s{0,9}(?:[(\[（【]?\s{0,9}(?:(?:part|page)\s{0,9})?(?:[2-9]|1\d)\s{0,9}(?:/|of)\s{0,9}\d+"
    r"|[(\[（【]?\s{0,9}(?:part|page)\s{0,9}(?:[2-9]|two|three|four)\b|[(\[（【]?\s{0,9}(?:\.{3}|…)?\s{0,9}continu(?:ed|ation|ing)\b"
    r"|the rest of (?:the|it)\b|(?:\.{3}|…)\s{0,9}\w|[（(【\[]?续|第[二三四五]部分|接上文|接着上面)"
)
_TRANSCRIPT = re.compile(
    r"(?im)^[ \t]*(?:system|user|human|assistant|ai|bot|tool|developer|用户|助手|系统|工具)\s{0,9}[:：][^\n]*\n"
    r"(?:[^\n]*\n){0,3}?[ \t]*(?:system|user|human|assistant|ai|bot|tool|developer|用户|助手|系统|工具)\s{0,9}[:：]"
)
_OBJECT = re.compile(r"(?s)(?:^|(?<=\n))[ \t]*(?:\{\s{0,9}\"|\[\s{0,9}\{).{0,4000}?(?:\}|\])[ \t]*(?=\n|\Z)")
_RECALLED = re.compile(  # a part of what recall writes; alone it might also be a person's own list
    rf"(?m)^[ \t>|*_#\"“-]*(?:{re.escape(PERSONA_HEADER)}|{re.escape(TOPICS_HEADER)}|{re.escape(RECALL_HEADER)})"
    r"[^\n]*(?:\n|\Z)"
    r"(?:[ \t>|]*(?:#{1,6} |[-*+•] )[^\n]*(?:\n|\Z))*"
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i’m|i've|my|me|we|our|us)\b|[我咱俺]", re.IGNORECASE)


def foreign_spans(text: str) -> list[Span]:
    """In order, without overlaps."""
    if _is_copied(text) or _CONTINUED.match(text):
        return [(0, len(text))]
    spans = [found.span() for pattern in (_FENCE, _COMMENT, _TAGGED, _QUOTED_LINES, _QUOTATION, _OBJECT, _RECALLED)
             for found in pattern.finditer(text)]  # fmt: skip
    for pattern in (_ANNOUNCED, _ANNOUNCED_ZH):
        announced = pattern.search(text)
        if announced:
            spans.append((announced.end(), len(text)))
    for pattern in (_FORWARDED, _MARKED, _ADDRESS_LINE, _TRANSCRIPT):
        begun = pattern.search(text)
        if begun:
            spans.append((begun.start(), len(text)))
    return merged(span for span in spans if span[0] < span[1])


def own_words(text: str) -> str:
    return without_spans(text, foreign_spans(text), " ")


def foreign_words(text: str) -> str:
    return "\n".join(text[start:end] for start, end in foreign_spans(text))


def merged(spans: Iterable[Span]) -> list[Span]:
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def without_spans(text: str, spans: Iterable[Span], mark: str) -> str:
    """`spans` in order, without overlaps."""
    kept, last = [], 0
    for start, end in spans:
        kept += [text[last:start], mark]
        last = end
    return "".join([*kept, text[last:]])


def _is_copied(text: str) -> bool:
    return len(text) >= LONG_WITHOUT_A_PERSON and _FIRST_PERSON.search(text) is None
