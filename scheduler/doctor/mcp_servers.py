"""Checks whether the MCP servers of `mcp.json` could be started here, without starting any."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.scheduler.config.mcp_servers import configured_servers
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.doctor.check import Check
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable


def mcp_checks(settings: Settings) -> Iterator[Check]:
    """Yield a check for each configured server."""
    config, findings = configured_servers(settings)
    for finding in (*findings, *(each for found in config.wrong.values() for each in found)):
        where = f"{finding.file}:{finding.line}" if finding.line else str(finding.file)
        yield Check("mcp.json", "warning", f"{where}: {finding.message}", finding.hint)
    for server in config.servers.values():
        try:
            settings.secrets.resolve(config.entries[server.name])
        except (SecretsMissing, SecretsUnusable) as error:
            yield Check(f"MCP {server.name}", "warning", str(error))
        else:
            yield _server(server)


def _server(server: McpServer) -> Check:
    name = f"MCP {server.name}"
    if server.disabled:
        return Check(name, "ok", "disabled")
    if server.type != "stdio":
        return Check(name, "ok", f"{server.type} at {server.url}")
    program = shutil.which(server.command)
    if program is None:
        return Check(
            name,
            "warning",
            f"there is no program '{server.command}'; agents that use the server fail here",
            "install it, or write its path in mcp.json",
        )
    return Check(name, "ok", f"started as {program}")
