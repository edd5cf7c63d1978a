"""Text as an eye reads it, for rules that must not be dodged by spelling: full-width and foreign letters that look like
Latin ones, invisible characters, accents, digits for letters, letters with blanks between them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_TWINS = dict(
    zip(
        "аеорсухіјѕһԁԛԝьвнкмтАВЕКМНОРСТХІЈЅαειικορτυνχΑΒΕΗΙΚΜΝΟΡΤΥΧΖℓıɡɑ",
        "aeopcyxijshdqwbbhkmtABEKMHOPCTXIJSaeiikoptuvxABEHIKMNOPTYXZligа".replace("а", "a"),
        strict=True,
    )
)
_DIGITS = str.maketrans({"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s"})
_DIGIT_IN_WORD = re.compile(r"[a-z][013457@$]+[a-z]|\b[1073459@$]+[a-z]{2}")
_SPACED = re.compile(r"\b(?:[a-z][ ._*-]){2,}[a-z]\b")
_GAP = re.compile(r"[ ._*-]")
_HIDDEN_CATEGORIES = ("Cf", "Mn", "Me", "Co", "Cs")


@dataclass(frozen=True)
class Plain:
    """`places` says where each character stood in the original; None: at the same place."""

    text: str
    places: tuple[int, ...] | None

    def original(self, index: int) -> int:
        return index if self.places is None else self.places[index]


def plain_forms(text: str) -> Iterator[Plain]:
    """The readings of a text, nearly always one. Lower case, ASCII where it looks like ASCII."""
    plain = Plain(text.lower(), None) if text.isascii() else _seen(text)
    yield plain
    if _DIGIT_IN_WORD.search(plain.text):
        yield Plain(plain.text.translate(_DIGITS), plain.places)
    if _SPACED.search(plain.text):
        yield _closed_up(plain)


def _seen(text: str) -> Plain:
    letters: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        for one in _as_seen(char):
            letters.append(one)
            places.append(place)
    return Plain("".join(letters), tuple(places))


def _as_seen(char: str) -> str:
    if char.isascii():
        return char.lower()
    if "\u2e80" <= char <= "\u9fff":
        return char
    if unicodedata.category(char) in _HIDDEN_CATEGORIES:
        return ""
    if char in "\u2028\u2029\x85":
        return "\n"
    spread = unicodedata.normalize("NFKD", _TWINS.get(char, char))
    return "".join(_TWINS.get(one, one) for one in spread if not unicodedata.combining(one)).lower()


def _closed_up(plain: Plain) -> Plain:
    """`i g n o r e  a l l` as `ignore all`: single gaps between single letters go, longer ones stay."""
    dropped: set[int] = set()
    for run in _SPACED.finditer(plain.text):
        dropped.update(run.start() + gap.start() for gap in _GAP.finditer(run[0]))
    kept = [index for index in range(len(plain.text)) if index not in dropped]
    return Plain("".join(plain.text[index] for index in kept), tuple(plain.original(index) for index in kept))
