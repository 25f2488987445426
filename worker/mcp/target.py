"""Which server exactly: what two callers have to agree in to share one connection."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A server with all secrets put in, and where its program runs."""

    server: McpServer
    cwd: Path | None = None  # stdio only
    environment_names: tuple[str, ...] = ()  # more of the worker's variables it may see

    @classmethod
    def of(
        cls, server: McpServer, workdir: Path, environment_names: tuple[str, ...] = ()
    ) -> Target:
        """The server as a run in `workdir` uses it."""
        if server.type != "stdio":
            return cls(server)
        cwd = workdir / Path(server.cwd).expanduser() if server.cwd else workdir
        return cls(server, cwd, environment_names)

    @property
    def key(self) -> str:
        """Equal for targets that may share a connection."""
        return json.dumps([asdict(self.server), str(self.cwd)], sort_keys=True)
