"""Secrets that are known by the words around them: passwords, headers, connection strings, named keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from .rules import Check, Rule, Span, compiled
from .values import (
    is_bare_password,
    is_lone_word_password,
    is_placeholder,
    is_random,
    is_scrambled,
    is_told_password,
    is_written_password,
)

_LATER = r"(?:\d|_?(?:confirm(?:ation)?|again|new|old))?"
_WORDS = r"(?:password|passwd|passphrase|passcode|passwort|kennwort|contrase[nñ]a|mot de passe|senha)"
_SHORT = r"(?:(?<![a-z])(?:pass|pwd|pw|psw|creds?|credentials?)|(?<=_)(?:pass|pwd|pw))(?![a-z])"
_ANCHORS = ("pass", "pwd", "pw", "psw", "cred", "kennwort", "contrase", "senha")
_BOLD = r"(?:\*\*|__)?"
_ASSIGN = rf"[\"'\]]{{0,2}}{_BOLD}[ \t]{{0,3}}(?::=|=>|==?|[:：])[ \t]{{0,3}}{_BOLD}[ \t]{{0,3}}"
_QUOTE = r"\\?[\"'`“‘]"
_FOR = r"(?: (?:for|of|on|at|to) [^\n.:=\"]{1,50}?)?"
_IS = r"[ \t]{1,3}(?:is|was|=)"
_BECOMES = r"[ \t]{1,3}(?:is|was|has been changed to|changed to|to|=)"
_QUOTED = rf"[rbfu]{{0,2}}(?P<q>{_QUOTE})(?P<v>[^\"'`”’\n\\]{{3,200}})(?:\\?[\"'`”’])"

_ASIAN = r"(?:密码|密碼|口令|暗号|パスワード|비밀번호|암호|пароль)"
_ASIAN_BETWEEN = r"[^\n,，。:：=是为為はは는은]{0,12}"
_ASIAN_IS = r"(?:(?:改成了?|改为|设为|设成|是|为|為|は|는|은)(?:[ \t]{0,3}[:：])?|[:：=—-])"
_ASIAN_ANCHORS = ("密码", "密碼", "口令", "暗号", "パスワード", "비밀번호", "암호", "пароль")

_KEY_WORDS = (
    r"(?:api|access|auth|private|encryption|master|signing|subscription|secret|account|license|deploy|storage|wallet)"
    r"[_ -]?\Z"
)
_KEY_REACH = 14
_TOLD_BEFORE = (
    r"(?:\A|(?<=[\s\"'`“‘]))(?P<v>[^\s\"'`”’]{4,64})[\"'`”’]? (?:is|was|as|for) (?:my|the|our|your|his|her|a)(?: new)?"
    r"(?: [\w-]{1,16}){0,2} \Z"
)
_REACH_BACK = 110

_Tails = tuple[tuple[str, Check], ...]


def _after(
    names: str, tails: _Tails, accept: Callable[[str, int], bool] | None = None
) -> Callable[[str, str], Iterable[Span]]:
    """Behind each name the tails are tried in turn; one scan for the names serves them all."""

    def find(text: str, lowered: str) -> Iterator[Span]:
        for name in compiled(names).finditer(lowered):
            if accept is not None and not accept(lowered, name.start()):
                continue
            for tail, check in tails:
                found = compiled(tail).match(lowered, name.end())
                if found is not None and check(text[slice(*found.span("v"))]):
                    yield found.span("v")
                    break

    return find


def _before_password(text: str, lowered: str) -> Iterator[Span]:
    """`hunter2 is my password`: the secret stands before the word."""
    for name in compiled(_WORDS).finditer(lowered):
        begin = max(name.start() - _REACH_BACK, 0)
        found = compiled(_TOLD_BEFORE).search(lowered, begin, name.start())
        if found is not None and is_told_password(text[slice(*found.span("v"))]):
            yield found.span("v")


def _names_key(lowered: str, start: int) -> bool:
    """`api_key`, `private key`: a key alone may open anything."""
    if not lowered.startswith("key", start):
        return True
    return re.search(_KEY_WORDS, lowered[max(start - _KEY_REACH, 0) : start]) is not None


def _is_header_value(value: str) -> bool:
    return not is_placeholder(value) and (is_random(value) or (len(value) >= 12 and value.endswith("=")))


def _is_cookie(value: str) -> bool:
    parts = re.split(r"[=;]\s*", value)[1:]
    return any(len(part) >= 8 and (any(map(str.isdigit, part)) or is_scrambled(part)) for part in parts)


def _is_url_password(value: str) -> bool:
    return not is_placeholder(value) and not (value.isdigit() and len(value) <= 5)


def _is_ascii_password(value: str) -> bool:
    return len(value) >= 4 and not is_placeholder(value) and not re.fullmatch(r"\d{1,3}|[A-Za-z]+[.,]", value)


def _is_argument(value: str) -> bool:
    return len(value) >= 4 and not is_placeholder(value) and not value.startswith(("-", "/", "~"))


def _is_bare_argument(value: str) -> bool:
    return _is_argument(value) and is_bare_password(value)


def _is_plain_password(value: str) -> bool:
    """Right behind the word, with nothing between: only what is surely no word of the sentence."""
    return is_bare_password(value) and value[0].isalpha() and any(map(str.isdigit, value)) and "/" not in value


def _is_aws_secret(value: str) -> bool:
    kinds = sum(any(map(test, value)) for test in (str.isupper, str.islower, str.isdigit))
    return kinds == 3 and len(set(value)) >= 16


CONTEXT_RULES: tuple[Rule, ...] = (
    Rule(
        "aws-secret-key",
        ("aws", "akia", "asia", "secretaccesskey"),
        r"(?:aws|secret|akia[a-z0-9]{16}|asia[a-z0-9]{16})[\w .,:='\"/-]{0,60}?[^a-z0-9/+\n]"
        r"(?P<v>[a-z0-9/+]{40})(?![a-z0-9/+=])",
        _is_aws_secret,
        folded=True,
        distinct=False,
    ),
    Rule(
        "authorization",
        ("authorization",),
        r"authorization[\"'\]]{0,2}\s{0,3}[:=,]\s{0,3}[\"'`]?"
        r"(?:(?:bearer|basic|token|digest|negotiate|apikey|key)[ =])?\s{0,3}(?P<v>[a-z0-9._~+/=:-]{8,})",
        _is_header_value,
        folded=True,
    ),
    Rule(
        "authorization",
        ("bearer",),
        r"bearer[ \t]{1,3}[\"'`]?(?P<v>[a-z0-9._~+/=-]{16,})",
        is_random,
        folded=True,
    ),
    Rule(
        "cookie",
        ("cookie",),
        r"cookie[\"']?[ \t]{0,3}:[ \t]{0,3}[\"']?(?P<v>[\w.!#$%&*^|~-]{1,80}=[^\n\"'\\]{8,4000})",
        _is_cookie,
        folded=True,
        distinct=False,
    ),
    Rule(
        "url-password",
        ("://",),
        r"://[^\s:/@\"'<>?#]{0,80}:(?P<v>[^\s\"'<>/]{1,200})@(?=[\w.\[$-])",
        _is_url_password,
    ),
    Rule(
        "url-signature",
        ("sig=", "signature=", "token=", "key=", "secret=", "code="),
        r"[?&;](?:x-amz-|x-goog-)?(?:sig|signature|security-token|(?:access_?|auth_?|refresh_?|id_?)?token|api_?key|key"
        r"|(?:client_?)?secret|code)=(?P<v>[a-z0-9%._~+/-]{16,})",
        is_random,
        folded=True,
    ),
    Rule(
        "password",
        ("login",),
        r"login[ \t]{1,4}\S{1,80}\s{1,8}password[ \t]{1,4}(?P<v>\S{3,100})",
        _is_argument,
        folded=True,
        distinct=False,
    ),
    Rule(
        "password",
        ("curl", "http", "wget", "sshpass", "mysql", "psql", "redis-cli", "mongo"),
        r"(?:\s(?:-u|--user)[ =]?[\"']?[^\s:\"'/]{1,60}:|sshpass[ ]{1,3}-p[ ]?[\"']?"
        r"|mysql[a-z]{0,8}[ ][^\n]{0,80}?[ ]-p|redis-cli[ ][^\n]{0,80}?[ ]-a[ ])(?P<v>[^\s\"']{3,100})",
        _is_argument,
        distinct=False,
    ),
    Rule(
        "password",
        ("--",),
        r"--(?:[a-z]{1,16}-){0,2}(?:password|passwd|pass|passphrase|token|secret|api-?key)[ =][\"']?"
        r"(?P<v>[^\s\"'\]]{4,200})",
        _is_bare_argument,
        folded=True,
        distinct=False,
    ),
    Rule(
        "seed-phrase",
        ("seed", "recovery", "mnemonic", "助记词"),
        r"(?:(?:seed|recovery|mnemonic)(?:[ _](?:phrase|words?))?|助记词)[^\n:：=]{0,40}"
        r"(?:[:：=]|is|是)\s{0,4}[\"'“]?"
        r"(?P<v>(?:\d{1,2}[.)][ ]?)?[a-z]{3,8}(?:[ ,\n]{1,3}(?:\d{1,2}[.)][ ]?)?[a-z]{3,8}){11,23})",
        folded=True,
        distinct=False,
    ),
    Rule(
        "card-code",
        ("cvv", "cvc", "security code"),
        r"(?<!\w)(?:cvv2?|cvc2?|security code)\b[\s:=#]{0,4}(?:(?:is|number)\b[\s:=]{0,3})?(?P<v>\d{3,4})(?!\w)",
        folded=True,
        distinct=False,
    ),
    Rule(
        "pin",
        ("PIN", "pin code", "Pin code", "pin number"),
        rf"(?:\bPIN\b(?: (?:code|number))?|\b[Pp]in (?:code|number)){_FOR}\s{{0,3}}(?:is|was|[:=])\s{{0,3}}"
        r"(?P<v>\d{4,8})(?!\w)",
        distinct=False,
    ),
    Rule(
        "api-key",
        ("key", "token", "secret", "密钥", "密鑰", "令牌"),
        folded=True,
        distinct=False,
        finder=_after(
            r"token|secret|key|密钥|密鑰|令牌",
            (
                (
                    r"(?:[ _-]?value)?[\"'\]]{0,2}\s{0,3}(?::=|=>|==?|[:：]|\bis\b|\bwas\b|是|为|→)\s{0,3}"
                    r"(?:\(|[rbfu]{1,2}(?=[\"']))?\\?[\"'`“]?(?P<v>[a-z0-9+/_.~-]{12,}+={0,2})(?![(\[{])",
                    is_random,
                ),
                (rf"{_ASSIGN}[rbfu]{{0,2}}[\"'](?P<v>[^\s\"'(){{}}<>\[\]]{{12,200}})[\"']", is_random),
            ),
            _names_key,
        ),
    ),
    Rule(
        "password",
        _ANCHORS,
        folded=True,
        distinct=False,
        finder=_after(
            rf"(?:{_WORDS}|{_SHORT}){_LATER}",
            (
                (rf"{_ASSIGN}{_QUOTED}", is_written_password),
                (rf"{_ASSIGN}(?P<v>[^\s\"'`;]{{4,200}})", is_bare_password),
                (rf"{_FOR}{_IS}\s{{0,3}}:?\s{{0,3}}{_QUOTED}", is_written_password),
                (
                    rf"{_FOR}{_IS}(?: now| still| just| simply)?(?:\s{{1,3}}:?|:)\s{{0,3}}{_BOLD}"
                    r"(?P<v>[^\s\"'`“‘]{4,100})",
                    is_told_password,
                ),
                (r">(?P<v>[^\s<>\"'`]{4,100})</", is_bare_password),
                (r"(?:'s|[ \t]{1,2}(?:->|→|[–—-]))?[ \t]{1,2}(?P<v>[^\s\"'`“‘]{6,100})", _is_plain_password),
            ),
        ),
    ),
    Rule("password", _ANCHORS, folded=True, distinct=False, finder=_before_password),
    Rule(
        "password",
        _ANCHORS,
        folded=True,
        distinct=False,
        finder=_after(
            _WORDS,
            (
                (rf"{_FOR}{_BECOMES}\s{{1,3}}{_QUOTED}", is_written_password),
                (rf"{_FOR}{_BECOMES}\s{{1,3}}(?P<v>[^\s\"'`“‘]{{4,100}})", is_told_password),
            ),
        ),
    ),
    Rule(
        "password",
        ("PASS", "PWD", "pass", "Pass"),
        r"(?m:^)[ \t]{0,20}(?:[A-Z_]{0,40}(?:PASSWORD|PASSWD|PWD|PASS|PASSPHRASE)="
        r"|(?:[\w.-]{1,40}[_.-])?(?:password|Password|passwd|passphrase|Passphrase):[ \t]{1,4})"
        r"(?P<v>[a-z]{6,40})[ \t]{0,4}(?m:$)",
        is_lone_word_password,
        distinct=False,
    ),
    Rule(
        "password",
        _ANCHORS,
        rf"(?<!\w)(?:my|our|his|her|their|wi-?fi|login|root|admin) [^\n.:=\"]{{0,40}}?{_WORDS}{_FOR}[ \t]{{1,3}}is"
        r"(?: now)? (?P<v>[a-z]{6,40})(?=[.!,;]?(?:\s|\Z)(?![a-z]))",
        is_lone_word_password,
        folded=True,
        distinct=False,
    ),
    Rule(
        "password",
        ("passphrase", "pass phrase"),
        rf"pass ?phrase{_FOR}[ ]{{0,2}}(?::|=| is:)[ ]{{0,3}}(?P<v>[a-z]{{3,12}}(?:[ -][a-z]{{3,12}}){{3,9}})(?m:$)",
        folded=True,
        distinct=False,
    ),
    Rule(
        "password",
        _ASIAN_ANCHORS,
        rf"{_ASIAN}{_ASIAN_BETWEEN}{_ASIAN_IS}[ \t]{{0,3}}{_BOLD}[\"'“「『`]?(?P<v>[!-~]{{4,64}})",
        _is_ascii_password,
        folded=True,
        distinct=False,
    ),
    Rule(
        "password",
        _ASIAN_ANCHORS,
        rf"{_ASIAN}[ \t]{{1,3}}(?P<v>[!-~]{{6,64}})",
        _is_plain_password,
        folded=True,
        distinct=False,
    ),
)
