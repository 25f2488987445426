"""What an agent needs of this machine, and what of it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.scheduler.client.preparation import resources_of
from sleipnir.scheduler.config.agents import agent_search
from sleipnir.scheduler.doctor.agent_needs import needs_of
from tests.support.settings import settings_of

CONFIG = """
model: openai:gpt-5
global_tools: [mail.sh]
mcp_servers: [atlas]
documents: [notes.md]
variables:
  - {name: shop, description: Which shop.}
  - {name: dsn, description: Its database., default: "{{SHOP_DSN}}"}
"""
MAIL = """#!/usr/bin/env bash
# @describe Send a mail.
# @meta require-tools no-such-mailer,bash
# @env MAIL_HOST! The server.
main() { :; }
"""
FUNCTIONS = """
def look() -> str:
    \"\"\"Look.\"\"\"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration directory with a tool and an MCP server, on a machine without any key."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
        monkeypatch.delenv(name)
    directory = tmp_path / "config"
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(directory))
    tools = directory / "functions" / "tools"
    tools.mkdir(parents=True)
    (tools / "mail.sh").write_text(MAIL)
    server = '{"mcpServers": {"atlas": {"url": "https://x.example", "headers": {"A": "{{KEY}}"}}}}'
    (directory / "functions" / "mcp.json").write_text(server)
    return directory


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """An agent that needs one of everything."""
    directory = tmp_path / "needy"
    directory.mkdir()
    (directory / "config.yaml").write_text(CONFIG)
    (directory / "notes.md").write_text("A note.\n")
    (directory / "tools.py").write_text(FUNCTIONS)
    return directory


def needs(directory: Path, **values: str) -> dict[str, str | None]:
    settings = settings_of(dict(values))
    search = agent_search(settings)
    resources = resources_of(settings, search, require_knowledge=True)
    found = needs_of(load_agent(directory), settings, resources)
    return {need.what: need.lacking for need in found}


def test_all_that_is_missing_is_told_with_what_to_do(config: Path, agent: Path) -> None:
    found = needs(agent)

    assert list(found) == [
        "model",
        "MCP server atlas",
        "no-such-mailer",
        "MAIL_HOST",
        "knowledge base",
        "--var shop",
        "variable dsn",
    ]
    lacking = {what: text for what, text in found.items() if text}
    assert lacking.pop("model") == "openai:gpt-5 has no key: set OPENAI_API_KEY"
    assert "KEY" in lacking.pop("MCP server atlas")
    assert lacking.pop("no-such-mailer").startswith("mail.sh needs the program 'no-such-mailer'")
    assert lacking.pop("MAIL_HOST").startswith("mail.sh needs the environment variable 'MAIL_HOST'")
    assert "rag_embedding_model" in lacking.pop("knowledge base")
    assert "SHOP_DSN" in lacking.pop("variable dsn")
    assert lacking == {}, "the value of --var is asked for where somebody can be asked"


def test_what_is_there_is_still_told(
    config: Path, agent: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "no-such-mailer").write_text("#!/bin/sh\n")
    (programs / "no-such-mailer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name in ("OPENAI_API_KEY", "KEY", "MAIL_HOST", "SHOP_DSN"):
        monkeypatch.setenv(name, "value-of-a-test")

    found = needs(agent, rag_embedding_model="none")

    assert set(found.values()) == {None}
    assert {"model", "MCP server atlas", "no-such-mailer", "knowledge base"} <= found.keys()
