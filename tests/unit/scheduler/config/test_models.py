"""The section `models` of config.yaml: what it takes, and what a wrong entry says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sleipnir.scheduler.config.checking import as_json
from sleipnir.scheduler.config.model_keys import ModelKeys
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.settings import FIELDS, load_settings
from sleipnir.scheduler.errors import SettingInvalid


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file that does not exist yet; no setting from outside."""
    for name in FIELDS:
        monkeypatch.delenv(f"SLEIPNIR_{name.upper()}", raising=False)
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path))
    return tmp_path / "config.yaml"


WHOLE = """
models:
  aliases:
    fast: openai:gpt-4o-mini
    careful: [claude:claude-sonnet-4-5, home:llama3]
  providers:
    claude: {requests_per_minute: 500, tokens_per_minute: 200000, concurrency: 50}
    home: {api_base: "http://127.0.0.1:8000/v1", api_key: HOME_KEY}
  limits:
    "claude:claude-sonnet-4-5": {concurrency: 5}
  prices:
    "home:llama3": {prompt: 1.0, completion: 2.0, cached: 0.1}
  budgets:
    run: {usd: 0.5, on_excess: pause}
    day: {tokens: 1000000, on_excess: stop}
  max_output_tokens: 1000
  max_wait_s: 5
"""


def test_models_are_known_by_one_name_each(config: Path) -> None:
    config.write_text(WHOLE)

    models = load_settings().values.models

    assert models.chain("careful") == ("anthropic:claude-sonnet-4-5", "home:llama3")
    assert models.chain("claude:opus") == ("anthropic:opus",)
    assert models.providers["anthropic"].requests_per_minute == 500
    assert models.limits["anthropic:claude-sonnet-4-5"].concurrency == 5
    assert models.own_providers == {"home"}


def test_nothing_is_limited_unless_it_is_said() -> None:
    models = ModelSettings()

    assert (models.budgets.run.usd, models.budgets.day.tokens) == (None, None)
    assert (models.max_wait_s, models.batch_max_wait_s) == (0, 3600)


def test_the_environment_overrides_the_section_as_json(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(WHOLE)
    monkeypatch.setenv("SLEIPNIR_MODELS", json.dumps({"aliases": {"fast": "groq:llama"}}))

    models = load_settings().values.models

    assert models == ModelSettings(aliases={"fast": ("groq:llama",)})


@pytest.mark.parametrize(
    ("section", "place", "message"),
    [
        ({"alias": {}}, "models.alias", "unknown setting"),
        ({"aliases": {"a": "gpt"}}, "models", "aliases.a: unknown model 'gpt'"),
        ({"aliases": {"a": []}}, "models.aliases.a", "at least 1 item"),
        ({"aliases": {"a:b": "openai:x"}}, "models.aliases.a:b", "must not contain a colon"),
        ({"providers": {"nobody": {}}}, "models", "providers.nobody: unknown provider"),
        ({"providers": {"openai": {"api_base": "host"}}}, "models.providers.openai.api_base", ""),
        ({"providers": {"claude": {}, "anthropic": {}}}, "models.providers", "given twice"),
        ({"limits": {"openai:x": {"concurrency": 0}}}, "models.limits.openai:x.concurrency", "1"),
        ({"prices": {"openai:x": {"prompt": 1}}}, "models.prices.openai:x.completion", "required"),
        ({"budgets": {"run": {"on_excess": "stop"}}}, "models.budgets.run.on_excess", "'fail'"),
        ({"budgets": {"day": {"usd": 1e300}}}, "models.budgets.day.usd", "at most 1,000,000,000"),
        ({"max_wait_s": -1}, "models.max_wait_s", "got -1"),
    ],
)
def test_a_wrong_entry_is_named_with_its_file(
    config: Path, section: object, place: str, message: str
) -> None:
    config.write_text(json.dumps({"models": section}))

    with pytest.raises(SettingInvalid) as raised:
        load_settings()

    assert str(raised.value).startswith(f"{place} (from {config}): ")
    assert message in str(raised.value)


def test_a_key_is_not_shown(config: Path) -> None:
    config.write_text("models: {providers: {openai: {api_key: sk-very-secret}}}")

    values = load_settings().values

    assert "sk-very" not in str(as_json(values))


def test_a_key_without_a_value_concerns_its_provider_alone(config: Path) -> None:
    config.write_text(
        "models: {providers: {openai: {api_key: '{{TEAM_KEY}}'}, groq: {api_key: '{{OTHER}}'}}}"
    )
    secrets = config.parent / "secrets.yaml"
    secrets.write_text("OTHER: gsk-123456\n")
    secrets.chmod(0o600)

    values = load_settings().values
    keys = ModelKeys(values.models, values.secrets, {})

    assert (keys.find("openai"), keys.missing("openai")) == (None, ("TEAM_KEY",))
    assert (keys.find("groq"), keys.missing("groq")) == ("gsk-123456", ())
