"""The checks of MCP servers: every mistake in `mcp.json`, and the servers beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sleipnir.scheduler.doctor.mcp_servers import mcp_checks
from tests.support.settings import settings_of


def test_every_server_that_is_described_wrongly_is_named_and_the_others_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path))
    servers = {
        "good": {"command": sys.executable},
        "one": {"comand": "x"},
        "two": {"url": 5, "allowedTools": "read"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=1))

    checks = list(mcp_checks(settings_of({})))

    found = [(check.name, check.state, check.text.removeprefix(f"{tmp_path}/")) for check in checks]
    assert found == [
        ("mcp.json", "warning", "mcp.json:7: server 'one': unknown field 'comand'"),
        (
            *("mcp.json", "warning"),
            "mcp.json:10: server 'two': url: expected an address that begins with http:// or "
            "https://",
        ),
        (
            *("mcp.json", "warning"),
            "mcp.json:11: server 'two': allowedTools: expected a list of at most 100 patterns "
            "of up to 128 characters",
        ),
        ("MCP good", "ok", f"started as {sys.executable}"),
    ]
