"""Which values in an agent's files nobody may see."""

from __future__ import annotations

import json
from pathlib import Path

from sleipnir.scheduler.config.bundle_secrets import bundle_secrets


def test_keys_in_env_files_and_of_mcp_servers_are_secrets(tmp_path: Path) -> None:
    agent, functions = tmp_path / "agents" / "a", tmp_path / "functions"
    for directory in (agent, functions / "tools"):
        directory.mkdir(parents=True)
    (agent / ".env").write_text("REGION=north\nA_TOKEN=of the agent\n")
    (functions / "tools" / ".env").write_text("B_SECRET=of its tools\npassword=in small letters\n")
    servers = {
        "local": {"command": "serve", "env": {"LANG": "de", "C_API_KEY": "of a program"}},
        "far": {
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer of-a-server", "Accept": "text/plain"},
        },
    }
    (functions / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    found = bundle_secrets(tmp_path, agent)

    assert found == (
        "of the agent",
        "of its tools",
        "in small letters",
        "of a program",
        "Bearer of-a-server",
        "of-a-server",
    )
