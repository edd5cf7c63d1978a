"""Reads a configuration file into plain values, and remembers what a plain dictionary would forget: double keys."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIZE_LIMIT_BYTES = 1024 * 1024


class DocumentError(Exception):
    """The file cannot be read or parsed. The text says where and why, and holds nothing of the file's content."""


class Mapping(dict[str, Any]):
    """A mapping of a document. `twice` names keys that stand in it more than once; the last one counts."""

    def __init__(self) -> None:
        super().__init__()
        self.twice: dict[str, str] = {}


@dataclass(frozen=True)
class Document:
    path: Path
    values: Mapping = field(default_factory=Mapping)


def read_document(path: Path) -> Document:
    """UTF-8 with or without BOM, YAML or JSON by the file's name; an empty file is an empty document.

    Raises DocumentError.
    """
    return parse_document(_read_text(path), path)


def parse_document(text: str, path: Path) -> Document:
    """The document in a text; `path` names it in errors and its ending says the format. Raises DocumentError."""
    parse = _parse_json if path.suffix == ".json" else _parse_yaml
    try:
        values = parse(text, path)
    except RecursionError as error:
        raise DocumentError(f"{path}: nested too deeply") from error
    if values is None:
        return Document(path)
    if not isinstance(values, Mapping):
        raise DocumentError(f"{path}:1: the file must hold named settings, not {type_name(values)}")
    return Document(path, values)


def type_name(value: object) -> str:
    """What a value is, in words for a person."""
    for kind, name in (
        (bool, "a yes/no value"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "a text"),
        (list, "a list"),
        (dict, "a group of settings"),
    ):
        if isinstance(value, kind):
            return name
    return "nothing" if value is None else f"a {type(value).__name__}"


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > SIZE_LIMIT_BYTES:
        raise DocumentError(f"{path}: larger than {SIZE_LIMIT_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"{path}:{line}: not UTF-8 text") from error


def _parse_json(text: str, path: Path) -> object:
    if not text.strip():
        return None
    try:
        return json.loads(text, object_pairs_hook=_from_pairs)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        reason = getattr(error, "msg", "not valid JSON")
        raise DocumentError(f"{path}:{line}: {reason}") from error


def _from_pairs(pairs: list[tuple[str, Any]]) -> Mapping:
    mapping = Mapping()
    for key, value in pairs:
        if key in mapping:
            mapping.twice[key] = "given twice"
        mapping[key] = value
    return mapping


def _parse_yaml(text: str, path: Path) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """Keeps double keys, and every key as text (YAML 1.1 reads `on` and `no` as yes/no values)."""

    def construct_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> Mapping:
        loader.flatten_mapping(node)
        mapping = Mapping()
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else str(key_node.tag)
            line = key_node.start_mark.line + 1
            if key in mapping:
                mapping.twice[key] = f"given twice, in lines {lines[key]} and {line}"
            lines[key] = line
            mapping[key] = loader.construct_object(value_node, deep=True)
        return mapping

    Loader.add_constructor("tag:yaml.org,2002:map", construct_mapping)
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - Loader is a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        reason = getattr(error, "problem", None) or "not valid YAML"
        raise DocumentError(f"{path}:{line}: {reason}") from error
    except (ValueError, OverflowError) as error:  # a date such as 2026-13-45
        raise DocumentError(f"{path}: a value is not valid YAML: {error}") from error
