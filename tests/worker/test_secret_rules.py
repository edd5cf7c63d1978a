"""What is a secret, what only looks like one, and what a mark is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_tencentdb.redaction import MARK, SECRET_RULES, Redactor, hide_secrets
from planted_secrets import KINDS, plant

REDACTOR = Redactor(b"k" * 32)

MORE_SECRETS = (
    ("My AWS secret key is wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY, keep it", "wJalrXUtnFEMI"),
    ("My WiFi password is swordfish.", "swordfish"),
    ("the password for the router is Tr0ub4dor&3", "Tr0ub4dor"),
    ("password: correct-horse-battery-staple", "correct"),
    ("passphrase: correct horse battery staple", "horse"),
    ("PASSWORD=abcdefgh", "abcdefgh"),
    ('DB_PASSWORD="p@ss w0rd"', "w0rd"),
    ("I changed the password to N3wPass!", "N3wPass"),
    ("username/password: admin/Passw0rd!", "Passw0rd"),
    ("Server=db;User Id=sa;Password=Str0ng!Pass;", "Str0ng"),
    ("curl -u admin:Passw0rd! https://x", "Passw0rd"),
    ("sshpass -p 'S3cret!' ssh root@h", "S3cret"),
    ("machine github.com login me password hunter2", "hunter2"),
    ("hunter22 is my password", "hunter22"),
    ("use Tr0ub4dor&3 as the root password", "Tr0ub4dor"),
    ("log in with password hunter22 please", "hunter22"),
    ("the password's hunter22", "hunter22"),
    ("password -> hunter22", "hunter22"),
    ("SECRET_KEY = 'django-insecure-4k#2l@9z!q7w$e8r'", "insecure"),
    ("路由器密码 abc12345", "abc12345"),
    ("口令：Xy9#kkk", "Xy9"),
    ("my PIN is 4821", "4821"),
    ("cvv 123", "123"),
    ("卡号4111111111111111，下周到期", "4111111111111111"),
    ("card 5555 5555 5555 4444", "5555"),
    ("amex 3782 822463 10005", "822463"),
    ("token: 123e4567-e89b-12d3-a456-426614174000", "426614174000"),
    ("https://hooks.slack.com/services/T00000001/B00000002/aB3dE5fG7hI9jK1lM3nO5pQ7", "aB3dE5"),
    ("redis://:hunter2@localhost:6379/0", "hunter2"),
    ("seed phrase: abandon ability able about above absent absorb abstract absurd abuse access accident", "absurd"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nAAABlwAA", "b3Blbn"),
)

PLAIN = """\
my password manager is Bitwarden
The password is wrong.
the password is too short, it must be at least 12 characters
I forgot my password again
the login form checks the password with sha256 and utf-8
he asked for password 2fa and a password-reset
it is not the password, it was the username
My password is stored in a vault.
I set the password to something only I know
密码是什么？
忘记密码了
password: str = None
password=password
password = get_password()
self.password = os.environ["DB_PASSWORD"]
def login(user, password=None):
"password": "<your password>"
commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad
uuid 123e4567-e89b-12d3-a456-426614174000
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
my cat is called Sk-8
sk-learn-contrib-something-v2
the token is expired
secret = secrets.token_hex(16)
token = self._tokens[name2]
postgres://user:password@localhost/db
https://example.com:8080/path@v2
The secret is consistency
the api key is in the vault
api_key = "your-api-key-goes-here-12345"
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
phone 555-123-4567, order 4111111111111112
1764558245123456789
Authorization: Bearer <token>
cookies are small: chocolate=best
the seed phrase is safe
write to ada@example.com or call +49 30 1234567
""".splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_redacted_once_and_for_all(kind: str) -> None:
    planted = plant(kind, "rules")
    redacted = REDACTOR.redact(planted.sentence)
    assert planted.secret not in redacted
    assert MARK.search(redacted)
    assert REDACTOR.redact(redacted) == redacted
    assert planted.secret not in hide_secrets(planted.sentence)


def test_at_least_twenty_five_kinds_have_a_name() -> None:
    assert len({rule.kind for rule in SECRET_RULES}) >= 25


@pytest.mark.parametrize(("text", "secret"), MORE_SECRETS)
def test_words_around_it_give_a_secret_away(text: str, secret: str) -> None:
    redacted = REDACTOR.redact(text)
    assert secret not in redacted
    assert REDACTOR.redact(redacted) == redacted


@pytest.mark.parametrize("text", PLAIN)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert REDACTOR.redact(text) == text


def test_the_same_secret_has_the_same_fingerprint_whatever_stands_around_it() -> None:
    marks = MARK.findall(REDACTOR.redact("my password is hunter2\nredis://:hunter2@localhost/0"))
    assert {mark.split(":")[2] for mark in marks} == {REDACTOR.fingerprint("hunter2") + "]"}
    assert len(marks) == 2


def test_another_key_makes_another_fingerprint() -> None:
    assert Redactor(b"x" * 32).fingerprint("hunter2") != REDACTOR.fingerprint("hunter2")


def test_two_secrets_in_one_value_both_go() -> None:
    token = plant("github-token", "two").secret
    assert token not in (redacted := REDACTOR.redact(f"password=abc123,token={token}"))
    assert "abc123" not in redacted


def test_what_is_allowed_stays() -> None:
    allowing = Redactor(b"k" * 32, allow=["hunter2", "/AKIA0000.*/", "/(unfinished/"])
    assert allowing.redact("my password is hunter2") == "my password is hunter2"
    assert allowing.redact("AKIA0000567890ABCDEF") == "AKIA0000567890ABCDEF"
    assert "hunter3" not in allowing.redact("my password is hunter3")


def test_switched_off_it_leaves_texts_alone_but_never_logs() -> None:
    assert Redactor(b"k" * 32, enabled=False).redact("my password is hunter2") == "my password is hunter2"
    assert "hunter2" not in hide_secrets("my password is hunter2")


@pytest.mark.parametrize(
    "text",
    [
        "write to ada@example.com",
        "call +49 30 1234567",
        "call (415) 555-2671 now",
        "手机号13812345678",
        "身份证11010519491231002X",
        "my SSN is 536-90-4399",
        "IBAN DE89 3704 0044 0532 0130 00",
        "NINO AB 12 34 56 C",
    ],
)
def test_personal_data_go_where_the_owner_wants_it(text: str) -> None:
    assert MARK.search(Redactor(b"k" * 32, personal=True).redact(text))
    assert REDACTOR.redact(text) == text


def test_a_name_is_redacted_by_shape_only() -> None:
    token = plant("github-token", "name").secret
    assert token not in REDACTOR.redact_name(f"agent:main:{token}")
    for name in ("agent:main:telegram:group:-1004111111111111", "4111111111111111", "password: hunter2"):
        assert REDACTOR.redact_name(name) == name


HOSTILE = [
    "token=", "secret=a1B2", "password is ", "password: a1B2", "my password is aaaaaa ", "密码是a1B2", "curl -u a:",
    "-----BEGIN PRIVATE KEY-----\n", "eyJaaaaaaaaa.", "eyJ" + "a" * 50, "://a:", "cookie: a=", "AKIAABCDEFGH23456789 ",
    "seed phrase: abandon ", "4111 1111 ", "a@a.", "authorization: ", "[redacted:", "passphrase: word word ", "aws ",
    "PIN for a ", "mysql a ", "login a password ", "İpassword=", "> AAAAAAAAAAAAAAAAAAAAAAAA\n", "Bearer ", "-us",
]  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_a_hostile_text_costs_no_more_than_its_length(part: str) -> None:
    """Of four times the length; a quadratic rule would need sixteen times as long."""
    redactor = Redactor(b"k" * 32, personal=True)
    redactor.redact(part * 10)
    seconds = []
    for length in (25_000, 100_000):
        text = (part * (length // len(part) + 1))[:length]
        begun = time.process_time()
        redactor.redact(text)
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 0.1 or seconds[1] < 10 * seconds[0]


PIECES = st.sampled_from(
    [plant(kind, "mix").sentence for kind in KINDS]
    + ["password=", " is ", "\n", '"', "token: ", "[redacted:", ":", "a1"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=6).map("".join))
def test_marking_twice_is_marking_once(text: str) -> None:
    once = REDACTOR.redact(text)
    assert REDACTOR.redact(once) == once
