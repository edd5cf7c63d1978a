"""The host's config file, in every spelling that people's files have."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
import yaml

from memory_tencentdb_worker.errors import ConfigError
from memory_tencentdb_worker.shipping.hermes_config import (
    change_file,
    disable_provider,
    enable_provider,
    enabled_provider,
    main,
)

SPELLINGS = {
    "nothing": "",
    "an empty mapping": "{}\n",
    "comments only": "# my config\n",
    "no memory block": "model: gpt\n\nterminal:\n  backend: local\n",
    "no line end at the end": "model: gpt",
    "empty memory block": "memory:\nmodel: gpt\n",
    "null memory": "memory: null\nmodel: gpt\n",
    "tilde memory with a comment": "memory: ~  # none yet\nmodel: gpt\n",
    "empty flow memory": "memory: {}\nmodel: gpt\n",
    "flow memory": "memory: {memory_enabled: true}\nmodel: gpt\n",
    "flow memory with a provider": "memory: {provider: honcho, memory_enabled: true}\n",
    "single quotes": "memory:\n  provider: ''\n",
    "double quotes": 'memory:\n  provider: ""\n  memory_enabled: true\n',
    "null provider": "memory:\n  provider: null\n",
    "bare provider key": "memory:\n  provider:\n  user_profile_enabled: true\n",
    "another provider with a comment": "memory:\n  # who\n  provider: honcho  # was mem0\n  memory_char_limit: 2200\n",
    "four spaces": "memory:\n    memory_enabled: true\n    provider: mem0\n",
    "quoted keys": "\"memory\":\n  'provider': mem0\n",
    "provider elsewhere": "model:\n  provider: openrouter\nmemory:\n  nested:\n    provider: deep\n",
    "windows line ends": "model: gpt\r\nmemory:\r\n  provider: ''\r\nterminal: x\r\n",
    "byte order mark": "\ufeffmemory:\n  provider: mem0\n",
    "document marks": "---\nmodel: gpt\n...\n",
    "block scalar above": "prompt: |\n  memory:\n    provider: not this\nmodel: gpt\n",
    "hash in a value": "memory:\n  provider: 'a#b' # note\n",
    "Chinese": '# 记忆\nmemory:\n  provider: ""  # 提供者\n名字: 李雷\n',
}


def comments(text: str) -> list[str]:
    return re.findall(r"(?m)(?:^|[ ])#.*?(?=\r?$)", text)


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_enabling_changes_the_provider_and_nothing_else(text: str) -> None:
    edited = enable_provider(text)
    before, after = yaml.safe_load(text.lstrip("\ufeff")) or {}, yaml.safe_load(edited.lstrip("\ufeff"))
    assert after == {**before, "memory": {**(before.get("memory") or {}), "provider": "memory_tencentdb"}}
    assert comments(edited) == comments(text)
    assert ("\r\n" in text) == ("\r\n" in edited)
    assert edited.startswith("\ufeff") == text.startswith("\ufeff")
    if "\r\n" in text:
        assert "\n" not in edited.replace("\r\n", "")


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_enabling_twice_is_enabling_once(text: str) -> None:
    once = enable_provider(text)
    assert enable_provider(once) == once


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_disabling_removes_what_enabling_set(text: str) -> None:
    off = disable_provider(enable_provider(text))
    before, after = yaml.safe_load(text.lstrip("\ufeff")) or {}, yaml.safe_load(off.lstrip("\ufeff")) or {}
    rest = {key: value for key, value in (before.get("memory") or {}).items() if key != "provider"}
    assert enabled_provider(off) == ""
    assert (after.get("memory") or {}) == rest
    assert {**after, "memory": 0} == {**before, "memory": 0}


def test_another_provider_is_not_disabled() -> None:
    assert disable_provider("memory:\n  provider: honcho\n") == "memory:\n  provider: honcho\n"


@pytest.mark.parametrize(
    "text", ["a: [1\n", "memory:\n\tprovider: x\n", "- a\n- b\n", "memory: yes please\n", "{model: gpt, x: 1}\n"]
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        enable_provider(text)


def test_a_changed_file_has_a_backup_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("memory:\n  provider: honcho # mine\n", "utf-8")
    path.chmod(0o640)
    backup = change_file(path, enable=True)
    assert backup is not None
    assert backup.read_text("utf-8") == "memory:\n  provider: honcho # mine\n"
    assert path.read_text("utf-8") == "memory:\n  provider: memory_tencentdb # mine\n"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(backup.stat().st_mode) == 0o640
    assert change_file(path, enable=True) is None
    assert sorted(tmp_path.iterdir()) == sorted([path, backup])


def test_a_missing_file_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.yaml"
    assert change_file(path, enable=True) is None
    assert path.read_text("utf-8") == "memory:\n  provider: memory_tencentdb\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_linked_file_is_edited_where_it_is(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.yaml", tmp_path / "config.yaml"
    real.write_text("model: gpt\n", "utf-8")
    link.symlink_to(real)
    change_file(link, enable=True)
    assert link.is_symlink()
    assert enabled_provider(real.read_text("utf-8")) == "memory_tencentdb"


def test_a_broken_file_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: [1\n", "utf-8")
    assert main(["enable", str(path)]) == 3
    assert path.read_text("utf-8") == "a: [1\n"
    assert "not valid YAML" in capsys.readouterr().err
