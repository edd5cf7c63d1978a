"""The rules: one table of what a secret looks like. Those with a shape of their own are here, those that are known by
the words around them in `context_rules`.

Every pattern is linear: it can only fail within a bounded distance of where it began to match, because what it reads
may be hostile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from .values import is_card, is_dense, is_mixed, is_varied

Span = tuple[int, int]
Check = Callable[[str], bool]


class Rule(NamedTuple):
    """`anchors`: without one of them in the text the rule is not tried. The secret is the group `v` of the pattern, or
    all of it. `folded`: anchors and pattern are in lower case and meet the text in lower case, which is much faster
    than ignoring case. `distinct`: told by its shape alone, in names and keys too."""

    kind: str
    anchors: tuple[str, ...]
    pattern: str = ""
    check: Check | None = None
    folded: bool = False
    distinct: bool = True
    finder: Callable[[str, str], Iterable[Span]] | None = None

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """`lowered` is `text` in lower case, character by character."""
        if self.finder is not None:
            yield from self.finder(text, lowered)
            return
        pattern = compiled(self.pattern)
        group: int | str = "v" if "v" in pattern.groupindex else 0
        for found in pattern.finditer(lowered if self.folded else text):
            span = found.span(group)
            if self.check is None or self.check(text[slice(*span)]):
                yield span


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when first needed: all of them together would cost the first turn some 50 ms. ASCII: a number stands
    alone between Chinese characters too."""
    return re.compile(pattern, re.ASCII)


_ALONE = r"(?<![A-Za-z0-9])"
_END = r"(?![A-Za-z0-9])"
_WORD = "[A-Za-z0-9_-]"
_PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_LINES = r"(?:(?:\s|\\[nr]|> ){0,8}+[A-Za-z0-9+/=]{16,}+)++(?:\s[A-Za-z0-9+/=]{1,15}(?!\w))?"
_PEM_LONGEST = 64_000


def _prefixed(kind: str, prefixes: str, body: str, check: Check | None = is_varied) -> Rule:
    """A token that says by its beginning what it is."""
    heads = tuple(prefixes.split())
    return Rule(kind, heads, f"{_ALONE}(?:{'|'.join(map(re.escape, heads))}){body}", check)


def _private_keys(text: str, _lowered: str) -> Iterator[Span]:
    """From BEGIN to END; without an END, as far as the lines look like a key's."""
    begins = list(compiled(_PEM).finditer(text))
    for begin, following in zip(begins, [*(found.start() for found in begins[1:]), len(text)], strict=False):
        limit = min(following, begin.end() + _PEM_LONGEST)
        end = compiled(_PEM_END).search(text, begin.end(), limit)
        if end is None:
            end = compiled(_PEM_LINES).match(text, begin.end(), limit)
        if end is not None and end.end() - begin.end() > 30:
            yield begin.start(), end.end()


TOKEN_RULES: tuple[Rule, ...] = (
    Rule("private-key", ("PRIVATE KEY",), finder=_private_keys),
    Rule("jwt", ("eyJ",), rf"(?<!{_WORD})eyJ{_WORD}{{8,}}+(?:\.{_WORD}{{6,}}+){{2,4}}"),
    _prefixed("aws-access-key", "AKIA ASIA ABIA ACCA", rf"[A-Z0-9]{{16}}{_END}", is_mixed),
    _prefixed("anthropic-key", "sk-ant-", rf"{_WORD}{{20,}}"),
    _prefixed("openrouter-key", "sk-or-v1-", r"[0-9a-f]{32,}"),
    _prefixed("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None- sess-", rf"{_WORD}{{20,}}"),
    _prefixed("langfuse-key", "sk-lf- pk-lf-", r"[0-9a-f-]{30,}"),
    _prefixed("api-key", "sk-", rf"{_WORD}{{16,}}", is_dense),
    _prefixed("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]{30,}"),
    _prefixed("github-token", "github_pat_", "[A-Za-z0-9_]{22,}"),
    _prefixed("gitlab-token", "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent-", rf"{_WORD}{{20,}}"),
    _prefixed("slack-token", "xoxb- xoxa- xoxp- xoxr- xoxs- xoxe- xoxe. xoxc- xoxd- xapp-", r"[A-Za-z0-9.%-]{10,}"),
    Rule(
        "slack-webhook", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<v>[\w/-]{20,})"
    ),
    Rule("discord-webhook", ("/api/webhooks/",), r"/api/webhooks/(?P<v>\d{15,22}/[\w-]{40,})"),
    Rule(
        "discord-token",
        (".",),
        rf"(?<![\w.-])[MNO]{_WORD}{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,45}}(?!{_WORD})",
        is_varied,
    ),
    _prefixed("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", "[A-Za-z0-9]{16,}"),
    _prefixed("webhook-secret", "whsec_", "[A-Za-z0-9+/=]{16,}"),
    _prefixed("google-api-key", "AIza", rf"{_WORD}{{35}}"),
    _prefixed("google-oauth", "ya29. GOCSPX- 1//0", r"[A-Za-z0-9_.-]{20,}"),
    _prefixed("huggingface-token", "hf_ api_org_", r"[A-Za-z0-9]{30,}"),
    _prefixed("npm-token", "npm_", rf"[A-Za-z0-9]{{36}}{_END}"),
    _prefixed("pypi-token", "pypi-AgE", rf"{_WORD}{{50,}}"),
    _prefixed("rubygems-key", "rubygems_", "[0-9a-f]{40,}"),
    _prefixed("docker-token", "dckr_pat_ dckr_oat_", rf"{_WORD}{{20,}}"),
    _prefixed("sendgrid-key", "SG.", rf"{_WORD}{{16,32}}\.{_WORD}{{16,64}}"),
    _prefixed("brevo-key", "xkeysib-", rf"{_WORD}{{40,}}"),
    _prefixed("mailgun-key", "key-", rf"[0-9a-f]{{32}}{_END}"),
    Rule("mailchimp-key", ("-us",), rf"{_ALONE}[0-9a-f]{{32}}-us\d{{1,2}}{_END}"),
    _prefixed("twilio-key", "SK", rf"[0-9a-f]{{32}}{_END}"),
    Rule("telegram-bot-token", (":AA",), rf"(?<!\d)\d{{8,10}}:AA{_WORD}{{33}}(?!{_WORD})"),
    _prefixed("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", "[0-9a-fA-F]{32}"),
    _prefixed("square-token", "sq0atp- sq0csp- EAAA", rf"{_WORD}{{22,}}", is_dense),
    _prefixed("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{64}"),
    _prefixed("databricks-token", "dapi", rf"[0-9a-f]{{32}}(?:-\d)?{_END}"),
    _prefixed("atlassian-token", "ATATT3 ATCTT3 ATBB", r"[A-Za-z0-9_=-]{24,}"),
    _prefixed("linear-key", "lin_api_ lin_oauth_", "[A-Za-z0-9]{32,}"),
    _prefixed("notion-token", "ntn_ secret_", "[A-Za-z0-9]{40,}"),
    _prefixed("figma-token", "figd_ figu_", rf"{_WORD}{{20,}}"),
    _prefixed("vault-token", "hvs. hvb. hvr.", rf"{_WORD}{{24,}}"),
    Rule("terraform-token", (".atlasv1.",), rf"{_ALONE}[A-Za-z0-9]{{14}}\.atlasv1\.{_WORD}{{50,}}"),
    _prefixed("grafana-token", "glsa_ glc_", r"[A-Za-z0-9+/=_]{28,}"),
    _prefixed("newrelic-key", "NRAK- NRII- NRJS-", rf"{_WORD}{{19,}}"),
    _prefixed("dynatrace-token", "dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _prefixed("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9._-]{30,}"),
    _prefixed("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_.-]{30,}"),
    _prefixed("supabase-key", "sbp_ sb_secret_", rf"{_WORD}{{20,}}"),
    _prefixed("sentry-token", "sntrys_ sntryu_", r"[A-Za-z0-9+/=_-]{40,}"),
    _prefixed("postman-key", "PMAK-", rf"{_WORD}{{40,}}"),
    _prefixed("tailscale-key", "tskey-", r"[a-z]{3,10}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{16,}"),
    _prefixed("hubspot-token", "pat-na1- pat-na2- pat-eu1-", r"[0-9a-f-]{30,}"),
    _prefixed("resend-key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    _prefixed(
        "model-key",
        "gsk_ pplx- r8_ xai- tvly- pcsk_ nvapi- lsv2_pt_ lsv2_sk_ tgp_v1_ fc- jina_",
        rf"{_WORD}{{24,}}",
        is_dense,
    ),
    _prefixed("tencent-key", "AKID", rf"[A-Za-z0-9]{{28,40}}{_END}"),
    _prefixed("alibaba-key", "LTAI", rf"[A-Za-z0-9]{{12,26}}{_END}"),
    Rule("azure-secret", ("8Q~",), r"(?<![\w~.-])[\w~.-]{3}8Q~[\w~.-]{31,34}(?![\w~.-])"),
    Rule("azure-key", ("Key=",), r"(?:Account|SharedAccess|Shared|Primary)Key=(?P<v>[A-Za-z0-9+/]{30,}={0,2})"),
    _prefixed("age-key", "AGE-SECRET-KEY-1", "[A-Z0-9]{50,}"),
    _prefixed("wallet-key", "xprv tprv zprv yprv", "[1-9A-HJ-NP-Za-km-z]{100,}"),
    Rule("totp-secret", ("otpauth://",), r"otpauth://[^\s?]{1,200}\?[^\s]{0,200}?secret=(?P<v>[A-Za-z2-7]{16,})"),
    Rule("card", (), r"(?<![\w.,/+:-])[2-6]\d{3}(?:[ -]?\d{2,13}){1,4}(?![\w/]|[.,:-]\d)", is_card, distinct=False),
)
