"""Tells a secret from what merely stands where one could: placeholders, code, names of hashes, words of a sentence."""

from __future__ import annotations

import math
import re

_PLACEHOLDER = re.compile(
    r"""[<\[({$%*][\w\W]*|.*(?:\$\{|\{\{|%\(|\.\.\.|…|\*\*\*)[\w\W]*|(?:x{3,}|0{4,}|y{3,}|z{3,}|-+|_+|\.+|•+)
    |(?:your|my|the|some|a|an|insert|enter|replace|example|sample|dummy|fake|placeholder)[-_ ].*|.*[-_ ](?:here|goes)
    |change[-_]?me.*|todo|redacted|removed|hidden|masked|secret|token|password|passwd|passphrase|passcode|pass|pwd|pw
    |key|apikey|api[-_]key|user|username|login|email|string|str|bytes|text|int|integer|number|bool|boolean|object|any
    |null|nil|none|true|false|undefined|optional|required|unknown|empty|value|default|foo|bar|baz|foobar|example|test
    |yes|no|on|off|prompt|ask|stdin|env|file|auto|rw""",
    re.IGNORECASE | re.VERBOSE,
)
_PREDICATE_WORDS = """
about above absent accepted after again allowed already alright also always and another anything anyway around
available awful bad because before behind being below best better blank both broken but called case changed clear
complex compromised confidential correct currently different easy either else empty enough ever everything exactly
fake fine from generated given gone good great hard hashed here hidden horrible identical impossible insecure inside
insufficient invalid just kept known leaked least letters like local long longer lost managed manager mandatory masked
maybe mine missing more must needed neither never none normal not nothing obsolete obvious okay old once only optional
other outdated over plain plaintext poor private probably protected public random rather ready really rejected
required right rubbish safe same saved secret secure sensitive sent set short shorter simple somehow something
somewhat somewhere stale still stored strong stuck such sure taken terrible that their them then there these they this
those through too trash trivial true unchanged under unique unknown unsafe unset until valid very visible weak what
when where which while whole with within without wrong your yours
"""
_PREDICATES = frozenset(_PREDICATE_WORDS.split())
_PREDICATE_ENDING = re.compile(r".*(?:ed|ing|ly|able|ible|ary|ful|less|ive|ous|ent|ant|al|ic|'s|n't|ity|tion)\Z", re.I)
_NAME_OF_METHOD = re.compile(
    r"(?:sha|md|utf|base|aes|rsa|bcrypt|scrypt|argon|pbkdf|hmac|ripemd|blake|ed|oauth|http|ipv|win|x)[-_]?\d[\w-]*|"
    r"\d+[-_]?(?:bit|char|character|digit|letter|word|day|hour|minute|byte|year|month|week|time|st|nd|rd|th|x|ms|s|k|m)"
    r"\w*|v?\d+(?:\.\d+)+",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[\w$.]+[(\[{].*|[a-z_][\w$]*(?:(?:\.|->|::)[A-Za-z_][\w$]*)+|[A-Z][A-Z_]+|[a-z]+(?:_[a-z]+)+", re.S
)
_JOINED_WORDS = re.compile(r"[a-z]*(?:_?[A-Z][a-z]{2,}\d{0,2})+")
_SYMBOL = re.compile(r"[!#$%&*+=?@^~|<>{}\[\]();]")
_ENDING = ".,;:!?)]}>\"'`”’。，；！？）】」"


def trimmed(value: str) -> str:
    """Without the punctuation of the sentence around it."""
    return value.rstrip(_ENDING) if not value.endswith(("!!", "??")) else value


def is_placeholder(value: str) -> bool:
    return _PLACEHOLDER.fullmatch(value) is not None or len(set(value)) < 3


def is_varied(value: str) -> bool:
    """Drawn at random rather than made of words or of one character."""
    return len(set(value)) >= 7 and (_has_digit(value) or (value != value.lower() and value != value.upper()))


def is_dense(value: str) -> bool:
    """Varied, with one long piece: `sk-learn-contrib-v2` has none."""
    return is_varied(value) and any(len(piece) >= 16 and _has_digit(piece) for piece in re.split(r"[-_]", value))


def is_random(value: str) -> bool:
    """Letters and digits without a pattern, as tokens are: no identifier, path, address, version or date."""
    if len(value) < 12 or is_placeholder(value) or _CODE.fullmatch(value):
        return False
    digits = sum(char.isdigit() for char in value)
    if digits == len(value) or not (digits >= 2 or is_scrambled(value)):
        return False
    return len(set(value)) >= 8 and entropy_bits(value[:200]) >= 2.8


def is_scrambled(value: str) -> bool:
    """Upper and lower case in no order, which is not how words are joined."""
    return len(value) >= 16 and len(re.findall("[a-z][A-Z]", value)) >= 4 and not _JOINED_WORDS.fullmatch(value)


def is_mixed(value: str) -> bool:
    return len(set(value)) >= 7


def is_written_password(value: str) -> bool:
    """A literal in quotes beside the word password."""
    if is_placeholder(value) or len(value) < 4 or value.isspace():
        return False
    if _has_digit(value) or (" " not in value and _SYMBOL.search(value)):
        return not re.search(r"%[sdr]|\{\w*\}|\\n", value)
    if " " in value or not value.isascii():
        return False
    return len(value) >= 8 and not _is_predicate(value) and not re.search(r"passw|secret|[-_/.]", value, re.IGNORECASE)


def is_bare_password(value: str) -> bool:
    """What follows `password=` or `password:` without quotes: not code, not a word about passwords."""
    value = trimmed(value)
    if len(value) < 4 or is_placeholder(value) or _CODE.fullmatch(value) or _NAME_OF_METHOD.fullmatch(value):
        return False
    if value.isdigit():
        return len(value) <= 32
    if not any(map(str.isalpha, value)):
        return False
    return _has_digit(value) or _SYMBOL.search(value) is not None or _is_word_chain(value)


def is_told_password(value: str) -> bool:
    """What follows "the password is": a sentence, in which most words are not the password."""
    bare = trimmed(value)
    if is_bare_password(value):
        return not re.fullmatch(r"\d{1,3}|[\w/]*'\w+|\w+\(\w*\)?", bare)
    inner = bare[1:]
    return len(bare) >= 6 and bare.isascii() and bare.isalpha() and inner != inner.lower() and inner != inner.upper()


def is_lone_word_password(value: str) -> bool:
    """One lower-case word that ends the sentence "my password is ...": a password, unless it says how it is."""
    bare = trimmed(value)
    return len(bare) >= 6 and bare.isascii() and bare.isalpha() and not _is_predicate(bare) and not is_placeholder(bare)


def is_card(text: str) -> bool:
    """A payment card's number: issuer's range, usual length and grouping, check digit (ISO/IEC 7812)."""
    groups = re.split(r"[ -]", text)
    digits = "".join(groups)
    if len(groups) > 1 and [len(group) for group in groups] not in _GROUPINGS:
        return False
    return len(digits) in _card_lengths(digits) and passes_luhn(digits)


def passes_luhn(digits: str) -> bool:
    total = 0
    for place, char in enumerate(reversed(digits)):
        number = int(char) * (2 if place % 2 else 1)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def entropy_bits(value: str) -> float:
    """Shannon's, for one character."""
    return -sum(share * math.log2(share) for share in (value.count(char) / len(value) for char in set(value)))


_GROUPINGS = ([4, 4, 4, 4], [4, 6, 5], [4, 6, 4], [4, 4, 4, 4, 3], [4, 4, 4, 4, 2], [6, 13])


def _card_lengths(digits: str) -> tuple[int, ...]:
    head = int(digits[:4])
    if digits[0] == "4":
        return (13, 16, 19) if len(digits) != 13 else ()
    if 5100 <= head <= 5599 or 2221 <= head <= 2720 or head // 10 in range(644, 660) or head == 6011:
        return (16,)
    if head // 100 in (34, 37):
        return (15,)
    if 3528 <= head <= 3589:
        return (16,)
    if head // 100 == 62:
        return (16, 17, 18, 19)
    return (14,) if head // 100 in (36, 38, 39) or 3000 <= head <= 3059 else ()


def _is_predicate(word: str) -> bool:
    return word.lower() in _PREDICATES or _PREDICATE_ENDING.fullmatch(word) is not None


def _has_digit(value: str) -> bool:
    return any("0" <= char <= "9" for char in value)


def _is_word_chain(value: str) -> bool:
    """correct-horse-battery-staple"""
    words = value.split("-")
    return len(words) >= 4 and all(len(word) >= 3 and word.isalpha() for word in words)
