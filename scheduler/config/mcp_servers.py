"""The MCP servers that this machine's settings offer to agents."""

from __future__ import annotations

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.mcp.config import McpConfig, read_mcp_config
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.config.settings import Settings


def configured_servers(settings: Settings) -> tuple[McpConfig, tuple[Finding, ...]]:
    """Return the servers of the config directory's `mcp.json`, or none with the findings."""
    if not settings.mcp_server_support:
        return McpConfig(), ()
    config, findings = read_mcp_config(config_dir())
    return config.with_aliases(settings.mapping_mcp_servers), findings
