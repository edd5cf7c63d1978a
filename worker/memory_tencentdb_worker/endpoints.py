"""What remote model endpoints mean by their answers, whichever client asked; and what may be shown of them."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from memory_tencentdb.redaction import hide_secrets

Kind = Literal["transient", "terminal", "content"]

LONGEST_WAIT_SECONDS = 3600.0
SHORTEST_SECRET = 6  # a shorter "key" would blank out ordinary words

_MONEY = re.compile(
    r"insufficient[_ ]?(?:quota|balance|credit|fund)|credit balance is too low|billing[_ ]hard[_ ]limit"
    r"|余额不足|欠费|账户.{0,4}不足|Arrearage",
    re.I,
)
_BAD = r"(?:invalid|incorrect|not valid|missing|expired)"
_KEY = re.compile(rf"{_BAD}.{{0,20}}api.?key|api.?key.{{0,20}}{_BAD}", re.I)
_TOO_LONG = re.compile(
    r"context[_ ]length|context window|maximum context|too many tokens|prompt is too long|超过.{0,8}长度", re.I
)
_FILTERED = re.compile(r"content[_ ]?filter|content[_ ]policy|data_inspection_failed|safety system|内容安全|敏感", re.I)


@dataclass(frozen=True)
class Verdict:
    """What a failed call means: try later, will not get better, or this text is the trouble."""

    kind: Kind
    code: str


_BY_STATUS = {
    401: Verdict("terminal", "unauthorised"),
    402: Verdict("terminal", "quota"),
    403: Verdict("terminal", "unauthorised"),
    404: Verdict("terminal", "model_not_found"),
    405: Verdict("terminal", "model_not_found"),
    408: Verdict("transient", "timeout"),
    409: Verdict("transient", "conflict"),
    413: Verdict("content", "context_length"),
    425: Verdict("transient", "conflict"),
    429: Verdict("transient", "rate_limit"),
}
_BY_WORDS = (
    (_KEY, Verdict("terminal", "unauthorised")),  # some endpoints answer 400 to a wrong key
    (_TOO_LONG, Verdict("content", "context_length")),
    (_FILTERED, Verdict("content", "content_filter")),
)


def judge_failure(status: int | None, message: str) -> Verdict:
    """`status` None: no HTTP answer came. `message` is the body or the client's text: endpoints say "no money left"
    with 400, 403 and 429. A bad request of unknown reason is laid to its text, so that it cannot stop all others."""
    if status is None:
        return Verdict("transient", "unreachable")
    if status >= 500 or status < 400:
        return Verdict("transient", "server_error")
    if _MONEY.search(message):
        return Verdict("terminal", "quota")
    by_words = (verdict for words, verdict in _BY_WORDS if words.search(message))
    return _BY_STATUS.get(status) or next(by_words, Verdict("content", "bad_request"))


def retry_after_seconds(headers: Mapping[str, str], now: int) -> float | None:
    """What the endpoint asked for, at most an hour; None when it did not. Seconds and HTTP dates are understood."""
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now / 1000
        except ValueError:
            return None
    return min(max(0.0, seconds), LONGEST_WAIT_SECONDS)


def error_text(body: str) -> str:
    """The readable part of an error body: its message and code, else its beginning on one line."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return " ".join(body.split())[:300]
    if not isinstance(error, dict):
        return str(error)[:300]
    parts = [str(error[name]) for name in ("code", "message") if error.get(name)]
    return ": ".join(parts)[:500]


def scrub(text: str, secret: str) -> str:
    """Without the key, wherever an endpoint or a library repeats it, and without what else looks like a secret."""
    return hide_secrets(text if len(secret) < SHORTEST_SECRET else text.replace(secret, "***"))


def is_loopback(url: str) -> bool:
    """Whether this address is this machine: such a call never goes through a proxy."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shown_address(url: str) -> str:
    """Without user, password, query and fragment: fit for logs and `status`."""
    parts = urlsplit(url)
    if not parts.hostname:
        return url
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"
