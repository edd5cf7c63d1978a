"""Configuration: every source, every kind of mistake, and what a mistake may cost."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from memory_tencentdb_worker.config.edit import set_value
from memory_tencentdb_worker.config.load import LoadedConfig, data_dir_of, effective_document, load_config
from memory_tencentdb_worker.config.model import Config
from memory_tencentdb_worker.config.settings import all_settings
from memory_tencentdb_worker.errors import ConfigError


def written(home: Path, text: str, name: str = "config.yaml") -> LoadedConfig:
    (home / name).write_text(text, encoding="utf-8")
    return load_config(home, {})


def bad_keys(loaded: LoadedConfig) -> list[str]:
    return [problem.key for problem in loaded.errors]


def test_no_file_gives_the_defaults(tmp_path: Path) -> None:
    loaded = load_config(tmp_path, {})
    assert loaded.config == Config()
    assert (loaded.file, loaded.errors, loaded.fatal, loaded.broken) == (None, (), (), "")
    assert set(loaded.sources.values()) == {"default"}


def test_later_sources_win_and_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("llm: {model: file, maxTokens: 1000, timeoutMs: 5000}\n")
    loaded = load_config(
        tmp_path, {"TDAI_LLM_MAX_TOKENS": "2000", "TDAI_LLM_TIMEOUT_MS": "6000"}, {"llm.timeoutMs": 7000}
    )
    llm = loaded.config.llm
    assert (llm.model, llm.max_tokens, llm.timeout_ms) == ("file", 2000, 7000)
    assert loaded.sources["llm.model"] == "file:config.yaml"
    assert loaded.sources["llm.maxTokens"] == "env:TDAI_LLM_MAX_TOKENS"
    assert loaded.sources["llm.timeoutMs"] == "command line"


def test_an_empty_variable_is_no_value(tmp_path: Path) -> None:
    loaded = load_config(tmp_path, {"TDAI_LLM_MODEL": "", "TDAI_GATEWAY_PORT": ""})
    assert loaded.errors == ()
    assert loaded.sources["llm.model"] == "default"


def test_both_spellings_are_read(tmp_path: Path) -> None:
    loaded = written(tmp_path, "memory: {recall: {max_results: 7, maxTokens: 900}, store_backend: sqlite}\n")
    assert (loaded.config.memory.recall.max_results, loaded.config.memory.recall.max_tokens) == (7, 900)
    assert loaded.errors == ()


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("text", "abc"), ("empty", ""), ("negative", "-3"), ("huge", "99999999999999999999"),
        ("quoted list", '"[1, 2]"'), ("quoted bool", '"true"'), ("float", "2.5"), ("date-like", "2026-01-01"),
        ("yes/no", "no"), ("time-like", "12:30:45:61"), ("nan", ".nan"), ("quoted number", '"5"'),
    ],
)  # fmt: skip
def test_a_bad_value_costs_only_its_own_key(tmp_path: Path, line: str, value: str) -> None:
    loaded = written(tmp_path, f"memory:\n  recall:\n    maxResults: {value}\n    maxTokens: 700\n  timezone: UTC\n")
    assert bad_keys(loaded) == ["memory.recall.maxResults"], line
    assert loaded.config.memory.recall.max_results == 5
    assert loaded.errors[0].used == 5
    assert (loaded.config.memory.recall.max_tokens, loaded.config.memory.timezone) == (700, "UTC")


@pytest.mark.parametrize("key", sorted(all_settings()))
def test_every_key_refuses_a_group_and_nothing_else_changes(tmp_path: Path, key: str) -> None:
    nested: dict[str, object] = {"a": {"b": 1}}
    for part in reversed(key.split(".")):
        nested = {part: nested}
    loaded = written(tmp_path, json.dumps(nested), "config.json")
    assert bad_keys(loaded) == [key]
    assert loaded.config == Config()
    assert bool(loaded.fatal) == (key in {"server.host", "server.apiKey", "server.corsOrigins"})


def test_a_key_given_twice_is_reported_and_the_last_counts(tmp_path: Path) -> None:
    loaded = written(tmp_path, "memory:\n  recall:\n    maxResults: 3\n    maxResults: 4\n")
    assert bad_keys(loaded) == ["memory.recall.maxResults"]
    assert loaded.errors[0].used == 4
    assert loaded.config.memory.recall.max_results == 4
    (tmp_path / "config.yaml").unlink()
    loaded = written(tmp_path, '{"llm": {"model": "a", "model": "b"}}', "config.json")
    assert (bad_keys(loaded), loaded.config.llm.model) == (["llm.model"], "b")


def test_an_unknown_key_is_listed_with_its_neighbour(tmp_path: Path) -> None:
    loaded = written(tmp_path, "memory: {recal: {maxResults: 3}}\nrecall: {enabled: false}\nenforcement_mdoe: x\n")
    problems = {problem.key: problem.problem for problem in loaded.errors}
    assert "memory.recall" in problems["memory.recal"]
    assert "memory.recall" in problems["recall"]
    assert problems["enforcement_mdoe"].startswith("unknown")
    assert loaded.config == Config()


def test_a_placeholder_takes_the_variable_and_a_missing_one_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text('llm: {apiKey: "${MY_KEY}", maxTokens: "${MY_MAX}", model: "${NOT_THERE}"}\n')
    loaded = load_config(tmp_path, {"MY_KEY": "sk-secret-value", "MY_MAX": "512"})
    assert loaded.config.llm.api_key.get_secret_value() == "sk-secret-value"
    assert loaded.config.llm.max_tokens == 512
    assert bad_keys(loaded) == ["llm.model"]
    assert "NOT_THERE" in loaded.errors[0].problem


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_utf8_is_read_with_or_without_a_byte_order_mark(tmp_path: Path, mark: str) -> None:
    loaded = written(tmp_path, f"{mark}# 😀\nllm: {{model: 模型}}\n")
    assert (loaded.config.llm.model, loaded.errors) == ("模型", ())


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("config.yaml", "llm:\n\tmodel: x\n", ":2:"), ("config.json", '{"llm":\n {"model": }}', ":2:"),
     ("config.yaml", "- a\n- b\n", ":1:"), ("config.yaml", "a: !!python/object:os.system x\n", ":1:")],
)  # fmt: skip
def test_a_broken_file_says_where_and_leaves_the_environment_in_force(
    tmp_path: Path, name: str, text: str, line: str
) -> None:
    (tmp_path / name).write_text(text)
    loaded = load_config(tmp_path, {"TDAI_LLM_MODEL": "from-env"})
    assert f"{tmp_path / name}{line}" in loaded.broken
    assert bad_keys(loaded) == [name]
    assert loaded.config.llm.model == "from-env"


def test_bytes_that_are_no_text_make_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"llm:\n  model: \xff\xfe\n")
    assert ":2: not UTF-8" in load_config(tmp_path, {}).broken


def test_nesting_without_end_makes_a_broken_file(tmp_path: Path) -> None:
    assert written(tmp_path, "[" * 20_000, "config.json").broken


def test_security_settings_fail_closed(tmp_path: Path) -> None:
    assert load_config(tmp_path, {"TDAI_GATEWAY_HOST": "0.0.0.0"}).fatal
    assert not load_config(tmp_path, {"TDAI_GATEWAY_HOST": "0.0.0.0", "TDAI_GATEWAY_API_KEY": "k" * 20}).fatal
    assert not load_config(tmp_path, {"TDAI_GATEWAY_HOST": "[::1]"}).fatal
    assert written(tmp_path, "server: {apiKey: 5}\n").fatal
    assert written(tmp_path, 'server: {apiKey: "${NOT_THERE}"}\n').fatal
    assert written(tmp_path, "server: {apikey: abc}\n").fatal
    assert written(tmp_path, 'server: {corsOrigins: ["javascript:x"]}\n').fatal
    assert written(tmp_path, "server: all\n").fatal


def test_secrets_are_masked_wherever_they_turn_up(tmp_path: Path) -> None:
    secret = "sk-0123456789abcdefsecret"
    loaded = written(
        tmp_path,
        f"llm: {{apiKey: {secret}, apiKee: {secret}, baseUrl: 'https://user:{secret}@host/v1'}}\n"
        f"memory: {{embedding: {{apiKey: [{secret}]}}, tcvdb: {secret}}}\nmy_password: {secret}\nnote: {secret}\n",
    )
    assert loaded.config.llm.api_key.get_secret_value() == secret
    shown = json.dumps([vars(problem) for problem in loaded.errors]) + json.dumps(effective_document(loaded))
    assert secret not in shown + repr(loaded.config.llm.api_key)
    assert effective_document(loaded)["llm"]["apiKey"] == {"value": "***", "source": "file:config.yaml"}


def test_an_incomplete_embedder_means_no_vectors_and_says_what_is_missing(tmp_path: Path) -> None:
    loaded = written(tmp_path, "memory: {embedding: {provider: openai, baseUrl: 'http://e/v1', model: m}}\n")
    assert loaded.config.memory.embedding.provider == "none"
    assert "apiKey" in loaded.errors[0].problem
    assert "dimensions" in loaded.errors[0].problem


def test_an_address_without_a_model_is_no_silent_offline_mode(tmp_path: Path) -> None:
    assert bad_keys(load_config(tmp_path, {"TDAI_LLM_BASE_URL": "http://127.0.0.1:1/v1"})) == ["llm.model"]
    assert load_config(tmp_path, {"TDAI_LLM_BASE_URL": "http://e/v1", "TDAI_LLM_MODEL": "m"}).errors == ()


def test_zone_strategy_and_retention_are_checked_beyond_their_type(tmp_path: Path) -> None:
    loaded = written(
        tmp_path,
        "memory: {timezone: Mars/Base, capture: {l0l1RetentionDays: 2}, offload: {disableThinking: hard}}\n"
        "llm: {disableThinking: DeepSeek}\n",
    )
    assert sorted(bad_keys(loaded)) == [
        "memory.capture.l0l1RetentionDays", "memory.offload.disableThinking", "memory.timezone",
    ]  # fmt: skip
    assert loaded.config.memory.timezone == "system"
    assert loaded.config.llm.disable_thinking == "deepseek"
    assert load_config(tmp_path, {"TDAI_LLM_DISABLE_THINKING": "1"}).config.llm.disable_thinking is True


def test_the_models_group_may_stand_under_memory(tmp_path: Path) -> None:
    assert written(tmp_path, "memory: {llm: {enabled: true, model: m}}\n").config.llm.model == "m"
    assert written(tmp_path, "llm: {model: top}\nmemory: {llm: {model: below}}\n").config.llm.model == "top"
    assert written(tmp_path, "memory: {llm: {model: below}}\nllm: {model: top}\n").config.llm.model == "top"
    assert written(tmp_path, "memory: {llm: {enabled: false, model: m}}\n").config.llm.model == ""


def test_the_first_file_of_the_order_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, cwd = tmp_path / "home", tmp_path / "cwd"
    (home / "data").mkdir(parents=True)
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    explicit = tmp_path / "mine.json"
    places = [home / "data/tdai-gateway.json", home / "tdai-gateway.yaml", cwd / "tdai-gateway.json",
              home / "config.json", home / "config.yaml", explicit]  # fmt: skip
    for path in places:
        path.write_text(json.dumps({"llm": {"model": str(path)}}))
        env = {"TDAI_GATEWAY_CONFIG": str(explicit)} if path == explicit else {}
        loaded = load_config(home, env)
        assert (loaded.config.llm.model, loaded.file) == (str(path), path)
    assert bad_keys(load_config(home, {})) == ["config.json", "tdai-gateway.yaml"]
    assert bad_keys(load_config(home, {"TDAI_GATEWAY_CONFIG": str(tmp_path / "gone")}))[0] == "TDAI_GATEWAY_CONFIG"


def test_the_data_directory_follows_its_order(tmp_path: Path) -> None:
    assert data_dir_of(load_config(tmp_path, {}), tmp_path) == tmp_path / "data"
    loaded = written(tmp_path, "data: {baseDir: elsewhere}\n")
    assert data_dir_of(loaded, tmp_path) == tmp_path / "elsewhere"
    loaded = load_config(tmp_path, {"TDAI_DATA_DIR": "/tmp/x"})
    assert data_dir_of(loaded, tmp_path) == Path("/tmp/x")
    loaded = load_config(tmp_path, {"TDAI_DATA_DIR": "/tmp/x"}, {"data.baseDir": "/tmp/y"})
    assert data_dir_of(loaded, tmp_path) == Path("/tmp/y")


def test_setting_a_value_keeps_comments_and_everything_else(tmp_path: Path) -> None:
    text = "# mine\nllm:\n  # which\n  model: old  # keep\nmemory:\n    recall:\n        max_results: 3\n"
    written(tmp_path, text)
    for key, value in (("llm.model", "new: one"), ("memory.recall.maxResults", "8"), ("memory.persona.maxScenes", "4")):
        assert set_value(tmp_path, key, value).backup is None
    after = (tmp_path / "config.yaml").read_text()
    for comment in ("# mine", "# which", "# keep"):
        assert comment in after
    loaded = load_config(tmp_path, {})
    assert loaded.errors == ()
    assert loaded.config.llm.model == "new: one"
    assert loaded.config.memory.recall.max_results == 8
    assert loaded.config.memory.persona.max_scenes == 4
    assert stat.S_IMODE((tmp_path / "config.yaml").stat().st_mode) == 0o600


def test_setting_a_value_in_flow_style_rewrites_with_a_backup(tmp_path: Path) -> None:
    written(tmp_path, "memory: {recall: {maxResults: 3}}  # note\n")
    edit = set_value(tmp_path, "memory.recall.maxTokens", "900")
    assert edit.backup is not None
    assert "# note" in edit.backup.read_text()
    recall = load_config(tmp_path, {}).config.memory.recall
    assert (recall.max_results, recall.max_tokens) == (3, 900)


def test_setting_a_value_makes_the_file_or_uses_the_json_one(tmp_path: Path) -> None:
    assert set_value(tmp_path, "llm.model", "m").file == tmp_path / "config.yaml"
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.json").write_text('{"llm": {"model": "a"}, "x": 1}')
    assert set_value(tmp_path, "llm.model", "b").file == tmp_path / "config.json"
    assert json.loads((tmp_path / "config.json").read_text()) == {"llm": {"model": "b"}, "x": 1}


@pytest.mark.parametrize(
    ("key", "value"),
    [("llm.modle", "x"), ("memory.recall.maxResults", "-1"), ("memory.timezone", "Mars"), ("server.host", "0.0.0.0"),
     ("memory.recall.strategy", "magic"), ("memory", "x")],
)  # fmt: skip
def test_a_refused_value_leaves_the_file_alone(tmp_path: Path, key: str, value: str) -> None:
    written(tmp_path, "llm: {model: m}\n")
    with pytest.raises(ConfigError):
        set_value(tmp_path, key, value)
    assert (tmp_path / "config.yaml").read_text() == "llm: {model: m}\n"
