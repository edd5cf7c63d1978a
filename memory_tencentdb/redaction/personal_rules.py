"""Personal data, where the owner asks for it: mail addresses, telephone numbers, national ids, bank accounts."""

from __future__ import annotations

import re

from .rules import Rule

_CN_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"


def _is_chinese_id(text: str) -> bool:
    """GB 11643: month and day that exist, and the check character."""
    if not (1 <= int(text[10:12]) <= 12 and 1 <= int(text[12:14]) <= 31):
        return False
    total = sum(int(digit) * weight for digit, weight in zip(text, _CN_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == text[17].upper()


def _is_iban(text: str) -> bool:
    """ISO 13616: the remainder by 97 is 1."""
    compact = text.replace(" ", "").upper()
    if not 15 <= len(compact) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def _is_dni(text: str) -> bool:
    return _DNI_LETTERS[int(text[:8]) % 23] == text[8].upper()


def _is_phone(text: str) -> bool:
    return 8 <= len(re.sub(r"\D", "", text)) <= 15


PERSONAL_RULES: tuple[Rule, ...] = (
    Rule(
        "email",
        ("@",),
        r"(?<![\w.+-])[\w.+-]{1,64}+@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])",
    ),
    Rule("national-id", (), r"(?<![\dA-Za-z])[1-9]\d{5}(?:19|20)\d{9}[\dXx](?![\dA-Za-z])", _is_chinese_id),
    Rule("national-id", ("-",), r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])"),
    Rule("national-id", (), r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]\b"),
    Rule("national-id", (), r"(?<![\w-])\d{8}[A-Z](?![\w-])", _is_dni),
    Rule("bank-account", (), r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", _is_iban),
    Rule("phone", (), r"(?<![\w+.-])(?:\+86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?![\w-])"),
    Rule("phone", ("+",), r"(?<![\w+])\+[1-9]\d{0,2}(?:[ .-]?\(?\d{1,4}\)?){2,6}(?![\w])", _is_phone),
    Rule("phone", ("-", ".", ")"), r"(?<![\w(.+-])(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}(?![\w.-])"),
)
