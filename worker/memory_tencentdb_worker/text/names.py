"""File names of scenes: readable in any language, valid on every file system, the same for the same title."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection

from memory_tencentdb_worker.errors import InvalidInput

NAME_LIMIT_BYTES = 120
"""Without `.md`. Well below the 255 bytes of a file system: temporary names and zip paths need room too."""

STORED_LIMIT_BYTES = 200
FALLBACK_NAME = "scene"

_BLANKS = re.compile(r"[\s\u00a0\u3000_]*[\s\u00a0\u3000][\s\u00a0\u3000_]*")
_UNWANTED = re.compile(
    r"""[()\[\]{}<>'"`,;:!?*|=&%$#@^~+/\\]"""  # ASCII that shells, Markdown links and Windows read in their own way
    r"|[（）【】《》「」『』〈〉［］｛｝“”‘’，；：！？、。·…]"
)
_REPEATS = re.compile(r"([-_.])[-_.]*")
_SEPARATORS = "-_. \u200c\u200d"
_FILE_SUFFIX = re.compile(r"(?:\.md)+$", re.IGNORECASE)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)
_DIGEST_LENGTH = 8


def scene_file_name(name: str, taken: Collection[str]) -> str:
    """A safe name (without `.md`) for a scene title.

    The same title always gives the same name, and a name made here gives itself. A name in `taken` that differs only in
    case or Unicode form is the same file on some systems: that spelling is returned, so that no second copy appears.
    """
    clean = _tidy(name)
    known = {_file_key(other): other for other in taken}
    return known.get(_file_key(clean), clean)


def check_stored_name(name: str) -> str:
    """`name`, when it is one that cannot leave its directory. Raises InvalidInput otherwise."""
    bad = (
        not name
        or len(name.encode("utf-8", "surrogatepass")) > STORED_LIMIT_BYTES
        or name.startswith(".")
        or any(char in "/\\" or ord(char) < 0x20 or 0xD800 <= ord(char) <= 0xDFFF for char in name)
    )
    if bad:
        raise InvalidInput(f"not a scene name: {name[:80]!r}", code="bad_name")
    return name


def _tidy(name: str) -> str:
    text = unicodedata.normalize("NFC", name.encode("utf-8", "ignore").decode("utf-8"))
    text = re.split(r"[/\\]", text)[-1] if re.search(r"\.\.|^[/\\]|^[A-Za-z]:", text) else text
    text = _UNWANTED.sub("-", _BLANKS.sub("-", text))
    text = "".join(char for char in text if unicodedata.category(char)[0] != "C" or char in "\u200c\u200d")
    text = _strip_ends(_REPEATS.sub(r"\1", text))
    text = _shorten(text) or FALLBACK_NAME
    return f"{FALLBACK_NAME}-{text}" if _RESERVED.fullmatch(text) else text


def _strip_ends(text: str) -> str:
    """Without separators around it and without any `.md` behind it."""
    bare = _FILE_SUFFIX.sub("", text.strip(_SEPARATORS))
    return bare if bare == text else _strip_ends(bare)


def _shorten(text: str) -> str:
    """Cuts a long name and adds a digest of the whole, so that two long titles stay two names."""
    data = text.encode("utf-8")
    if len(data) <= NAME_LIMIT_BYTES:
        return text
    digest = hashlib.sha256(data).hexdigest()[:_DIGEST_LENGTH]
    head = data[: NAME_LIMIT_BYTES - _DIGEST_LENGTH - 1].decode("utf-8", "ignore")
    return f"{head.rstrip(_SEPARATORS)}-{digest}"


def _file_key(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
