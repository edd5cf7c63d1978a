"""The rules of `text/suspicion`: what a sentence says that is meant to take an assistant over. Each is a reason and a
pattern for text in lower case, as `text/lookalikes` gives it. Blanks are bounded when the rules are compiled."""

# ruff: noqa: E501 - a pattern is easier to read on one line

from __future__ import annotations

OVERRIDE, ROLE, FRAME, SECRETS = "override", "role", "frame", "secrets"
PLANT, CONCEAL, COPIES, PROMPT = "plant", "conceal", "copies", "prompt"

_BEGIN = (  # where a command can begin
    r"(?:^|[.!?:;,\n\"'“”‘’()\[\]{}<>*#|=/\\。！？：；，、-]\s*"
    r"|\b(?:please|now|and|then|also|kindly|just|first|assistants?|ai|you (?:must|should|will|shall|have to|are to))\s+)"
)
_RULES = (
    r"(?:instructions?|rules?|guidelines?|directives?|prompts?|restrictions?|constraints?|programming|polic(?:y|ies)|"
    r"safeguards?|filters?|orders)"
)
_GOODS = (
    r"(?:api[ _-]?keys?|keys\b|passwords?|passphrases?|passcodes?|credentials?|secrets?|private keys?|tokens?|cookies?|"
    r"seed phrases?|(?:chat|conversation|browsing|message) (?:history|logs?)|memories|system prompt|"
    r"environment variables|\.env\b|personal data|card numbers?|contact list)"
)
_PLACE = (
    r"(?:https?://|hxxps?|\S+@\S+\.\w|\b[\w-]+\.(?:com|net|org|io|example|test|invalid|ru|cn|xyz|info|dev|site)\b"
    r"|\battacker|\bwebhook|\b(?:this|that|the following|an external) (?:address|url|server|endpoint|site))"
)
_GOODS_ZH = r"(?:密钥|密码|口令|令牌|凭证|凭据|私钥|助记词|聊天记录|对话记录|系统提示词|隐私|api ?key|token|cookie)"
_SEND_ZH = r"(?:发送|发给|发到|发往|转发|上传|提交|抄送|密送|泄露|寄到|寄给|传给|传到)"

EVERYWHERE = (
    (
        OVERRIDE,
        rf"{_BEGIN}(?:ignore|disregard|forget|override|bypass|discard|(?:do not|don't|stop) follow(?:ing)?)\s+"
        r"(?:(?:all|any|every|of|the|your|these|those|previous|prior|earlier|above|preceding|existing|current|other|"
        rf"system|safety|original|initial|preset|stored|saved|default)\s+){{1,6}}{_RULES}\b"
        r"(?!\s+(?:about|for|on|regarding|concerning|i |we |in (?:the|my|our)|that (?:i|we) |from my|of my))",
    ),
    (
        OVERRIDE,
        rf"{_BEGIN}(?:ignore|disregard|forget)\s+(?:everything|all)\s+(?:that\s+)?"
        r"(?:you(?:'ve| have| were| had)?\s*(?:been )?(?:told|taught|instructed|trained)|above|before this|previously)\b",
    ),
    (
        OVERRIDE,
        r"\b(?:new|updated|real|actual) (?:system )?(?:instructions|rules|orders) (?:override|replace|supersede)\b",
    ),
    (
        OVERRIDE,
        r"(?<!让我)(?<!叫我)(?<!要我)(?<!是否)(?<!模型)(?<!如何)(?<!防止)(?<!会)(?<!机器人)"
        r"(?:忽略|无视|忘记|忘掉|不要理会|不要遵守|不再遵守|抛弃|绕过|覆盖)(?:掉)?"
        r"(?:所有|全部|一切|任何|之前|以前|先前|以上|上面|前面|此前|原有|原来|系统|安全|收到|给你|你|的|那些|这些|设定){1,8}"
        r"(?:指令|指示|规则|说明|限制|提示词|提示|设定|约束|命令)",
    ),
    (
        ROLE,
        rf"{_BEGIN}(?:you are now|you're now|from now on,? you are|act as|become|pretend (?:to be|you are)|"
        r"behave (?:as|like)|enter|switch to|activate|enable)\s+(?:now\s+)?(?:an?\s+|the\s+|in(?:to)?\s+)?(?:\w+[ -]){0,2}?"
        r"(?:dan\b|jailbroken|unrestricted|unfiltered|uncensored|god mode|jailbreak mode|dan mode|"
        r"(?:\w+ ){0,3}(?:without|with no|free of)(?: any)? (?:restrictions|limits|filters|rules|guidelines))",
    ),
    (ROLE, rf"{_BEGIN}you (?:are|have) (?:now )?(?:in|entered) (?:developer|debug|sudo|maintenance|admin|god) mode\b"),
    (
        ROLE,
        r"(?:你现在是|你从现在开始是|从现在(?:起|开始)[,，]?你是|请?你?扮演|你(?:现在|已经)?(?:处于|进入|切换到))[^。！？\n]{0,16}"
        r"(?:无限制|不受(?:任何)?限制|没有(?:任何)?限制|越狱|dan\b|上帝模式|开发者模式|调试模式)",
    ),
    (FRAME, r"<\|(?:im_start|im_end|im_sep|system|user|assistant|start_header_id|end_header_id|eot_id|endoftext)\|>"),
    (FRAME, r"\[/?inst\]|<</?sys>>"),
    (
        FRAME,
        r"<\s{0,3}/\s{0,3}(?:memory-context|system|system-reminder|tool_result|function_results|developer)\s{0,3}>",
    ),
    (FRAME, r"<\s{0,3}(?:memory-context|system-reminder|tool_result|function_results)\b[^<>\n]{0,80}>"),
    (
        FRAME,
        r"(?:^|\n|[.!?。！？:]\s+|[>*#\[(-]\s*)(?:system|developer|admin(?:istrator)?)\s+"
        r"(?:message|prompt|override|notice|instruction|update|alert|command)\b[^.!?\n]{0,40}[:\])】>-]",
    ),
    (
        FRAME,
        r"(?:^|\n|[.!?。！？:]\s+)[\[<(【#* ]{0,6}(?:system|developer|系统)[\]>)】* ]{0,4}[:：]?[\]>)】* ]{0,4}\s{0,3}"
        r"(?:you (?:are|must|will|should)|ignore|disregard|always|never|from now on|the user (?:has|wants|prefers)|"
        r"new (?:rule|instruction)|remember|store|你(?:现在|必须|应)|从现在|忽略|始终|永远|用户(?:已|要求|希望))",
    ),
    (FRAME, r"(?:^|\n|[。！？:：]\s*|[\[【(（])系统(?:消息|提示|指令|通知|命令|更新)[\]】)）]?\s*[:：]"),
    (
        FRAME,
        r"\b(?:attention|note|message|notice|instructions?|memo|important)\s*,?\s*(?:to|for)?\s*(?:all |any |the |every )?"
        r"(?:ai|llm|language model|chatbot)(?:s|\b)(?: (?:assistants?|agents?|models?|systems?|crawlers?|readers?))?\s*[:,-]",
    ),
    (
        SECRETS,
        r"(?:"
        + _BEGIN
        + r"|(?<!\bi )(?<!\bwe )(?<!\bthey )(?<!\bhe )(?<!\bshe )\b(?:always|secretly|silently|must|make sure to|"
        r"be sure to|remember to|never fail to)\s+)(?:send|forward|e-?mail|bcc|cc|post|upload|transmit|share|leak|exfiltrate|"
        rf"submit|report|copy|append|include|embed|deliver)\b[^.!?\n]{{0,80}}?\b{_GOODS}[^\n!?]{{0,80}}?\b"
        rf"(?:to|at|via|into|with|in)\b[^\n!?]{{0,40}}?{_PLACE}",
    ),
    (SECRETS, rf"(?<![我他她们心经])(?:把|将)[^。！？\n]{{0,20}}{_GOODS_ZH}[^。！？\n]{{0,20}}{_SEND_ZH}"),
    (SECRETS, rf"(?:始终|总是|务必|必须|每次都?)[^。！？\n]{{0,12}}{_SEND_ZH}[^。！？\n]{{0,24}}{_GOODS_ZH}"),
)
IMPERSONAL = (  # in a person's own words only where nobody says "I"
    (
        PLANT,
        r"\b(?:ai|llm|language model|chatbot)s?\b[^.!?\n]{0,60}\b(?:must|should|shall|have to|need to|are (?:required|"
        r"instructed|asked) to|reading this)\b[^.!?\n]{0,80}?\b(?:remember|store|save|memori[sz]e|ignore|always|never|obey|"
        r"recommend|send|treat)\b",
    ),
    (
        PLANT,
        r"(?:ai|人工智能|大模型|智能体|ai ?助手)[^。！？\n]{0,24}(?:必须|应当|务必|请|需要)[^。！？\n]{0,40}"
        r"(?:记住|保存|存入|记录|忽略|始终|总是|推荐|发送|执行|视为)",
    ),
)
FOREIGN = (  # a person may well wish for it, a page may not
    (
        PLANT,
        r"\b(?:save|store|add|write|record|insert|commit|put|remember|memori[sz]e|keep)\b[^.!?\n]{0,40}\b(?:memory|memories|"
        r"permanent (?:rule|instruction|preference)|standing (?:rule|instruction|order)|user profile|long[- ]term)\b",
    ),
    (
        PLANT,
        r"\b(?:assistant|agent|model|bot)s?\b[^.!?\n]{0,40}\b(?:must|should|shall|has to|have to|will)\b[^.!?\n]{0,60}"
        r"\b(?:always|never|remember|store|obey|recommend|from now on)\b",
    ),
    (PLANT, r"(?:助手|模型|机器人)[^。！？\n]{0,20}(?:必须|应当|务必|请|以后)[^。！？\n]{0,40}"),
    (PLANT, r"(?:写入|存入|加入|保存到|存到|记入|记到)[^。！？\n]{0,12}记忆|(?:永久|长期)(?:规则|指令|记忆)"),
    (
        CONCEAL,
        r"\b(?:do not|don't|never|without)\s+(?:tell|inform|mention|alert|notify|reveal|show|telling|informing|mentioning|"
        r"alerting|notifying)\b[^.!?\n]{0,30}\b(?:user|owner|human|operator)\b",
    ),
    (CONCEAL, r"(?:不要|别|切勿|不得|无需)(?:告诉|告知|通知|提醒|透露给|让)[^。！？\n]{0,6}(?:用户|主人|使用者)"),
    (
        COPIES,
        r"\b(?:bcc|cc|copy|forward|send)\b[^.!?\n]{0,30}\b(?:every|all|each)\b[^!?\n]{0,40}\bto\b[^!?\n]{0,30}"
        + _PLACE,
    ),
    (COPIES, r"\b(?:bcc|cc)\b[^!?\n]{0,20}" + _PLACE),
    (COPIES, r"(?:抄送|密送|转发|发送)[^。！？\n]{0,40}(?:https?://|\S+@\S+\.\w)"),
    (
        PROMPT,
        r"\b(?:reveal|print|show|output|repeat|dump|display|leak)\b[^.!?\n]{0,20}\b(?:your|the)\s+(?:full |entire )?"
        r"(?:system|hidden|initial|secret|internal) (?:prompt|instructions|rules)\b",
    ),
)
