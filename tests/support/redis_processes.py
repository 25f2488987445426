"""Redis servers of a test that it can kill as crashes would, each on its own port."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from types import TracebackType

from sleipnir.scheduler.embedded.redis_server import find_server
from sleipnir.scheduler.embedded.supervisor import die_with_parent


class RedisProcesses:
    """Processes by port, which end with the context."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for port in self._processes:
            self.kill(port)

    def kill(self, port: int) -> None:
        """Kill a process, and wait for its end."""
        self._processes[port].kill()
        self._processes[port].wait(30)

    def _launch(self, port: int, *arguments: str) -> None:
        with (self._directory / f"{port}.log").open("ab") as log:
            self._processes[port] = subprocess.Popen(
                [find_server().path, *arguments],
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )

    def _launch_server(self, port: int, *options: str) -> None:
        """Start a server that keeps its data in a directory of its own."""
        directory = self._directory / str(port)
        directory.mkdir(exist_ok=True)
        own = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", "")
        own += ("--appendonly", "yes", "--repl-diskless-sync-delay", "0")
        self._launch(port, *own, *options)
