"""The MCP servers that this machine's settings offer to agents."""

from __future__ import annotations

from dataclasses import replace

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.mcp.config import McpConfig
from sleipnir.graphs.mcp.reading import read_mcp_config
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.config.settings import Settings


def configured_servers(settings: Settings) -> tuple[McpConfig, tuple[Finding, ...]]:
    """Return the servers of the config directory's `mcp.json`, or none with the findings."""
    if not settings.mcp_server_support:
        return with_settings(McpConfig(), settings), ()
    config, findings = read_mcp_config(config_dir())
    return with_settings(config, settings), findings


def with_settings(config: McpConfig, settings: Settings) -> McpConfig:
    """Add the aliases and the filter that the settings define."""
    filtered = replace(config, filter=settings.mcp_tools)
    return filtered.with_aliases(settings.mapping_mcp_servers)
