"""The configuration model as a flat list: every key by its dotted camelCase path, with default and kind."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr, ValidationError
from pydantic.alias_generators import to_camel

from memory_tencentdb.redaction import hide_secrets
from memory_tencentdb_worker.config.document import type_name
from memory_tencentdb_worker.config.model import Config, Section

MASK = "***"

SECURITY_KEYS = frozenset({"server.host", "server.apiKey", "server.corsOrigins"})
"""A mistake in one of these could open the worker to others, so it never falls back to a default."""

NUMBER_LIMIT = 10**12
"""No setting has a sensible value beyond it; larger ones overflow instants."""

_SECRET_TEXT = re.compile(r"(sk|pk|ghp|gho|xox[a-z]|AKIA|Bearer)[-_ ]?[A-Za-z0-9]", re.ASCII)

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)


class ValueRefusedError(ValueError):
    """A value that a setting cannot take; the text says what it expects."""


@dataclass(frozen=True)
class Setting:
    key: str  # dotted camelCase path
    section: type[Section]
    field: str
    secret: bool
    default: Any

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    def read(self, config: Config) -> Any:
        """This setting's value in a configuration."""
        node: Any = config
        for group in self.key.split(".")[:-1]:
            node = getattr(node, field_of(type(node), group))
        return getattr(node, self.field)

    def accept(self, value: object, *, lenient: bool = False) -> Any:
        """The value as the model holds it. `lenient` reads texts (an environment variable) as numbers or yes/no.
        Raises ValueRefusedError."""
        if isinstance(value, float) and not isfinite(value):
            raise ValueRefusedError("must be a finite number")
        if isinstance(value, int | float) and abs(value) > NUMBER_LIMIT:
            raise ValueRefusedError("is far too large")
        if lenient and isinstance(self.default, list) and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        try:
            section = self.section.model_validate({self.field: value}, strict=not lenient, by_name=True)
        except ValidationError as error:
            raise ValueRefusedError(
                _reason(error, value)
            ) from None  # the cause repeats the value, which may be a secret
        accepted = getattr(section, self.field)
        if isinstance(accepted, list) and any(not item.strip() for item in accepted):
            raise ValueRefusedError("holds an empty text")
        return accepted


@cache
def all_settings() -> dict[str, Setting]:
    """By dotted camelCase key, in the model's order."""
    return {setting.key: setting for setting in _walk(Config, "")}


def secret_values(config: Config) -> list[str]:
    """Every secret that is set or not, for what masks texts."""
    values = [setting.read(config) for setting in all_settings().values() if setting.secret]
    return [value.get_secret_value() for value in values]


@cache
def group_keys() -> frozenset[str]:
    """Dotted keys of the groups: `memory`, `memory.recall`, ..."""
    groups = {""}
    for key in all_settings():
        while key := key.rpartition(".")[0]:
            groups.add(key)
    return frozenset(groups - {""})


def camel(name: str) -> str:
    """The manual's spelling of one key, from either spelling."""
    return _spellings().get(name) or (to_camel(name) if "_" in name.strip("_") else name)


def nearest_key(key: str) -> str | None:
    """The known key that was probably meant: near in spelling, or the same name in another group."""
    known = [*all_settings(), *group_keys()]
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    if close:
        return close[0]
    name, parent = key.rpartition(".")[2], key.rpartition(".")[0]
    siblings = {
        known_key.rpartition(".")[2]: known_key for known_key in known if known_key.rpartition(".")[0] == parent
    }
    match = difflib.get_close_matches(name, list(siblings), n=1, cutoff=0.6)
    if match:
        return siblings[match[0]]
    elsewhere = {known_key.rpartition(".")[2]: known_key for known_key in reversed(known)}
    match = difflib.get_close_matches(name, list(elsewhere), n=1, cutoff=0.8)
    return elsewhere[match[0]] if match else None


def shown(key: str, value: object) -> Any:
    """The value as status, logs and `config show` may show it: secrets masked, JSON types only, short."""
    plain = value.get_secret_value() if isinstance(value, SecretStr) else value
    if plain is None or isinstance(plain, bool) or plain in ("", [], {}):
        return plain
    if isinstance(value, SecretStr) or is_secret(key):
        return MASK
    if isinstance(plain, list):
        return [shown(key, item) for item in plain[:20]]
    if isinstance(plain, dict):
        return type_name(plain)
    if isinstance(plain, int | float) and isfinite(plain) and abs(plain) <= NUMBER_LIMIT:
        return plain
    return _shown_text(str(plain))


def is_secret(key: str) -> bool:
    setting = all_settings().get(key)
    if setting is not None:
        return setting.secret
    name = key.rpartition(".")[2]
    near = nearest_key(key)
    return bool(_SECRET_NAME.search(name)) or (near in all_settings() and all_settings()[near].secret)


def field_of(section: type[Section], camel_name: str) -> str:
    """The model's own name of a key or group."""
    for name, info in section.model_fields.items():
        if (info.alias or to_camel(name)) == camel_name:
            return name
    raise KeyError(camel_name)


def default_value(key: str) -> Any:
    return all_settings()[key].default


@cache
def _spellings() -> dict[str, str]:
    known = {setting.field: setting.name for setting in all_settings().values()}
    for group in group_keys():
        known.setdefault(group.rpartition(".")[2], group.rpartition(".")[2])
    known["store_backend"] = "storeBackend"
    return known


def _walk(section: type[Section], prefix: str) -> Iterator[Setting]:
    for name, info in section.model_fields.items():
        key = f"{prefix}{info.alias or to_camel(name)}"
        if isinstance(info.default, Section):
            yield from _walk(type(info.default), f"{key}.")
        else:
            yield Setting(key, section, name, isinstance(info.default, SecretStr), info.default)


def _reason(error: ValidationError, value: object) -> str:
    """What was expected, in a sentence that holds nothing of the value."""
    problem = error.errors(include_url=False, include_context=True, include_input=False)[0]
    context = problem.get("ctx", {})
    match problem["type"]:
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "literal_error":
            return f"must be one of {context['expected']}"
        case "string_pattern_mismatch":
            return "does not have the expected form"
    expected = {
        "int": "a whole number",
        "bool": "true or false",
        "float": "a number",
        "stri": "a text",
        "list": "a list",
    }
    wanted = expected.get(problem["type"][:4].rstrip("_"), "") or expected.get(problem["type"].split("_")[0], "")
    got = type_name(value) if value is not None else "an empty value"
    return f"must be {wanted}, not {got}" if wanted else f"cannot be {got}"


def _shown_text(text: str) -> str:
    if _SECRET_TEXT.match(text) and len(text) > 15:
        return MASK
    return hide_secrets(_without_credentials(text))[:200]


def _without_credentials(text: str) -> str:
    if "@" not in text or "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{MASK}@{host}")) if "@" in parts.netloc else text
