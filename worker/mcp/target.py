"""What two callers must have in common to share a connection."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A server with all secrets resolved, and the directory its program runs in."""

    server: McpServer
    cwd: Path | None = None  # for stdio only
    environment_names: tuple[str, ...] = ()  # additional variables of the worker's that it may see

    @classmethod
    def of(
        cls, server: McpServer, workdir: Path, environment_names: tuple[str, ...] = ()
    ) -> Target:
        """Return the server as a run in `workdir` uses it."""
        if server.type != "stdio":
            return cls(server)
        cwd = workdir / Path(server.cwd).expanduser() if server.cwd else workdir
        return cls(server, cwd, environment_names)

    @property
    def key(self) -> str:
        """Return a key that is equal for targets that may share a connection."""
        return json.dumps([asdict(self.server), str(self.cwd)], sort_keys=True)
