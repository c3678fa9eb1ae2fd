"""Settings from defaults, a file and the environment."""

from __future__ import annotations

from dataclasses import fields

import pytest

from knowloom import (
    Invalid,
)
from knowloom.config import Settings, load

SETTING_NAMES = sorted(field.name for field in fields(Settings))


def test_settings_have_defaults(tmp_path):
    assert load({}, tmp_path) == Settings()


def test_the_environment_wins_over_the_file(tmp_path):
    (tmp_path / "knowloom.toml").write_text('store = "file.db"\nmax_tokens = 500\ntimeout_s = 5\n')
    loaded = load({"KNOWLOOM_STORE": "environment.db", "OTHER": "x"}, tmp_path)
    assert (loaded.store, loaded.max_tokens, loaded.timeout_s) == ("environment.db", 500, 5.0)


def test_the_settings_file_can_be_set(tmp_path):
    (tmp_path / "other.toml").write_text('format = "yaml"\n')
    assert load({"KNOWLOOM_CONFIG": str(tmp_path / "other.toml")}, tmp_path).format == "yaml"
    with pytest.raises(Invalid, match="must be a file, got"):
        load({"KNOWLOOM_CONFIG": str(tmp_path / "none.toml")}, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "stroe = 'x'",
            f"unknown setting 'stroe'; available: {', '.join(SETTING_NAMES)}",
        ),
        ("max_tokens = 'many'", "max_tokens must be int, got 'many'"),
        ("max_tokens = 2.5", "max_tokens must be int, got 2.5"),
        ("max_tokens = true", "max_tokens must be int, got True"),
        ("timeout_s = 'soon'", "timeout_s must be float, got 'soon'"),
        ("store = 5", "store must be str, got 5"),
        ("store = [", "not TOML"),
    ],
)
def test_an_invalid_setting_is_refused(tmp_path, content, message):
    (tmp_path / "knowloom.toml").write_text(content)
    with pytest.raises(Invalid) as caught:
        load({}, tmp_path)
    assert message in str(caught.value) and "knowloom.toml" in str(caught.value)


def test_a_bad_value_in_the_environment_is_refused():
    with pytest.raises(Invalid, match="environment: max_tokens must be int, got 'many'"):
        load({"KNOWLOOM_MAX_TOKENS": "many"})


def test_an_api_key_is_not_in_the_repr(tmp_path):
    loaded = load({"OPENAI_API_KEY": "sk-secret"}, tmp_path)
    assert loaded.openai_api_key == "sk-secret" and "sk-secret" not in repr(loaded)
    assert (
        load({"OPENAI_API_KEY": "one", "KNOWLOOM_OPENAI_API_KEY": "two"}, tmp_path).openai_api_key
        == "two"
    )
