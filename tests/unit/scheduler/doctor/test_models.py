"""What `doctor` says of models and of MCP servers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.doctor.check import Check
from sleipnir.scheduler.doctor.mcp_servers import mcp_checks
from sleipnir.scheduler.doctor.models import model_checks
from tests.support.settings import settings_of


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty config directory, and no keys."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path))
    return tmp_path


def checks_of(**settings: Any) -> dict[str, Check]:
    return {check.name: check for check in model_checks(settings_of(settings))}


def test_without_any_key_there_is_a_warning() -> None:
    (check,) = checks_of().values()

    assert (check.name, check.state) == ("model keys", "warning")


def test_keys_count_wherever_they_are(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-1234567890")
    secrets = config / "secrets.yaml"
    secrets.write_text("OPENAI_API_KEY: sk-1234567890\nMINE: sk-0987654321\n")
    secrets.chmod(0o600)

    found = checks_of(models={"providers": {"azure": {"api_key": "MINE"}}})

    assert found["model keys"].text == "found for groq, openai, azure"


def test_a_secrets_file_that_others_can_read_is_an_error(config: Path) -> None:
    (config / "secrets.yaml").write_text("OPENAI_API_KEY: sk-1234567890\n")
    (config / "secrets.yaml").chmod(0o644)

    found = checks_of()

    assert found["secrets file"].state == "error"
    assert "chmod 600" in found["secrets file"].text


@pytest.mark.parametrize(
    ("model", "state", "text", "remedy"),
    [
        ("home:m", "ok", "home:m", None),
        ("any", "ok", "home:m (but openai:m has no key)", None),
        ("openai:m", "warning", "openai:m has no key", "set OPENAI_API_KEY"),
        ("gpt", "warning", "gpt is not known", "write provider:model, or an alias of"),
    ],
)
def test_the_default_model_is_looked_at(
    model: str, state: str, text: str, remedy: str | None
) -> None:
    models = {
        "aliases": {"any": ["openai:m", "home:m"]},
        "providers": {"home": {"api_base": "http://127.0.0.1:1/v1"}},
    }

    check = checks_of(model=model, models=models)["default model"]

    assert (check.state, check.text) == (state, text)
    assert (check.remedy or "").startswith(remedy or "")


def test_every_alias_is_looked_at() -> None:
    aliases = {"one": ["openai:m", "groq:m"], "two": "ollama:m"}

    found = checks_of(models={"aliases": aliases})

    assert found["model one"].text == "openai:m has no key; groq:m has no key"
    assert found["model one"].remedy == "set OPENAI_API_KEY; set GROQ_API_KEY"
    assert found["model two"].state == "ok"


def test_mcp_servers_are_looked_for(config: Path) -> None:
    servers = {
        "here": {"command": "sh"},
        "gone": {"command": "no-such-program"},
        "far": {"type": "http", "url": "https://example.org/mcp"},
        "off": {"command": "no-such-program", "disabled": True},
        "secret": {"command": "sh", "env": {"TOKEN": "{{NO_SUCH_SECRET}}"}},
    }
    (config / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    found = {check.name: check for check in mcp_checks(Settings())}

    assert found["MCP here"].text.startswith("started as /")
    assert found["MCP gone"].text.startswith("there is no program 'no-such-program'")
    assert found["MCP far"].text == "http at https://example.org/mcp"
    assert found["MCP off"].text == "disabled"
    assert "{{NO_SUCH_SECRET}}" in found["MCP secret"].text
    warned = [check.name for check in found.values() if check.state == "warning"]
    assert warned == ["MCP gone", "MCP secret"]


def test_a_mistake_in_mcp_json_is_said_with_its_line(config: Path) -> None:
    (config / "mcp.json").write_text('{"mcpServers": {"x": {"command": 5}}}')

    (check,) = mcp_checks(Settings())

    assert (check.name, check.state) == ("mcp.json", "warning")
    assert f"{config / 'mcp.json'}:1" in check.text
