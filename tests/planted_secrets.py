"""Secrets that are none, made from a number, so that each planting has its own: as (kind, sentence, secret)."""

from __future__ import annotations

import base64
import hashlib
import string
from collections.abc import Callable
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits


class Planted(NamedTuple):
    kind: str
    sentence: str
    secret: str


def draw(seed: str, length: int, alphabet: str = ALNUM) -> str:
    """Looks random, is the same every time."""
    stream = b"".join(hashlib.sha512(f"{seed}/{block}".encode()).digest() for block in range(length // 64 + 1))
    return "".join(alphabet[byte % len(alphabet)] for byte in stream[:length])


def _card(seed: str) -> str:
    digits = "4" + draw(seed, 14, string.digits)
    doubled = [int(char) * (2 if place % 2 == 0 else 1) for place, char in enumerate(digits)]
    return digits + str(-sum(number - 9 if number > 9 else number for number in doubled) % 10)


def _jwt(seed: str) -> str:
    parts = ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{draw(seed, 8)}"}}')
    heads = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
    return ".".join([*heads, draw(seed, 43)])


def _pem(seed: str) -> str:
    lines = "\n".join(draw(f"{seed}{number}", 64) for number in range(4))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits

_MAKERS: dict[str, tuple[str, Callable[[str], str]]] = {
    "aws-access-key": ("the key id is {}", lambda s: "AKIA" + draw(s, 16, UPPER)),
    "aws-secret-key": ("aws_secret_access_key = {}", lambda s: draw(s, 40)),
    "openai-key": ("use {} for the batch", lambda s: "sk-proj-" + draw(s, 48)),
    "anthropic-key": ("ANTHROPIC_API_KEY={}", lambda s: "sk-ant-api03-" + draw(s, 80)),
    "github-token": ("git clone https://{}@github.com/a/b", lambda s: "ghp_" + draw(s, 36)),
    "gitlab-token": ("GITLAB={}", lambda s: "glpat-" + draw(s, 20)),
    "slack-token": ("the bot has {}", lambda s: f"xoxb-{draw(s, 12, string.digits)}-{draw(s, 24)}"),
    "stripe-key": ("billing runs with {}", lambda s: "sk_live_" + draw(s, 24)),
    "google-api-key": ("maps?key={}", lambda s: "AIza" + draw(s, 35)),
    "huggingface-token": ("login with {}", lambda s: "hf_" + draw(s, 34, string.ascii_letters)),
    "npm-token": ("//registry.npmjs.org/:_authToken={}", lambda s: "npm_" + draw(s, 36)),
    "sendgrid-key": ("mail goes through {}", lambda s: f"SG.{draw(s, 22)}.{draw(s, 43)}"),
    "telegram-bot-token": ("bot {}", lambda s: f"1{draw(s, 8, string.digits)}:AA{draw(s, 33)}"),
    "jwt": ("the session is {}", _jwt),
    "private-key": ("here it is:\n{}\nkeep it safe", _pem),
    "card": ("pay with {} please", _card),
    "password": ("my password is {}", lambda s: draw(s, 10) + "7!x"),
    "password (quoted)": ('{{"password": "{}"}}', lambda s: draw(s, 9) + "4x"),
    "password (Chinese)": ("我的密码是{}，别忘了", lambda s: draw(s, 9) + "8x"),
    "url-password": ("postgres://admin:{}@db.example.com:5432/app", lambda s: draw(s, 14) + "2x"),
    "authorization": ("curl -H 'Authorization: Bearer {}' x", lambda s: draw(s, 40, HEX)),
    "authorization (basic)": (
        "Authorization: Basic {}",
        lambda s: base64.b64encode(f"user:{draw(s, 12)}".encode()).decode(),
    ),
    "cookie": ("Cookie: {}", lambda s: f"sid={draw(s, 32)}"),
    "api-key": ('api_key = "{}"', lambda s: draw(s, 32, HEX)),
    "client secret": ("client_secret: {}", lambda s: draw(s, 30)),
    "azure-key": ("AccountName=x;AccountKey={};", lambda s: draw(s, 86) + "=="),
    "tencent-key": ("secretId {}", lambda s: "AKID" + draw(s, 32)),
    "digitalocean-token": ("DO={}", lambda s: "dop_v1_" + draw(s, 64, HEX)),
    "vault-token": ("vault login {}", lambda s: "hvs." + draw(s, 28)),
    "totp-secret": ("otpauth://totp/a?secret={}&issuer=b", lambda s: draw(s, 32, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
}
KINDS = tuple(_MAKERS)


def plant(kind: str, seed: str) -> Planted:
    sentence, make = _MAKERS[kind]
    secret = make(f"{kind}/{seed}")
    return Planted(kind, sentence.format(secret), secret)
