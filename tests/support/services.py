"""An engine in parts, as on several machines: Redis, schedulers and workers that tests can kill.

Leases are short, so that visits of a killed worker are soon redelivered.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from sleipnir.scheduler.embedded.supervisor import die_with_parent
from tests.support.command_line import COMMAND, TIME_LIMIT_S, Sleipnir
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until

SHORT_LEASE = {"SLEIPNIR_LEASE_S": "2"}


class Service:
    """A long-running `sleipnir` process with its log."""

    def __init__(
        self,
        sleipnir: Sleipnir,
        arguments: Sequence[str],
        ready: str,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments],
                cwd=sleipnir.project,
                env={**sleipnir.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        self.pid = self._process.pid
        self.log = log
        wait_until(lambda: ready in log.read_text(), f"{arguments[0]} is ready", TIME_LIMIT_S)

    def wait(self) -> None:
        """Wait until it has exited by itself."""
        self._process.wait(TIME_LIMIT_S)

    def kill(self) -> None:
        """Kill it as a crash would; its children die with it."""
        self._process.kill()
        self._process.wait(TIME_LIMIT_S)


class Fleet:
    """Services on a Redis of their own, and the command that uses them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._services: list[Service] = []
        self.schedulers: list[Service] = []
        self.workers: list[Service] = []
        self.sleipnir = Sleipnir(directory)
        self.redis = RedisServer(directory / "redis")
        self.sleipnir.environment |= {**SHORT_LEASE, "SLEIPNIR_REDIS_URL": self.redis.url}

    def start_scheduler(self, **environment: str) -> Service:
        """Start a scheduler, with additional environment variables."""
        self.schedulers.append(self._start(["scheduler"], "scheduler: running", **environment))
        return self.schedulers[-1]

    def start_worker(self, **environment: str) -> Service:
        """Start a supervisor of one worker process, with additional environment variables."""
        self.workers.append(self._start(["worker"], " ready.", **environment))
        return self.workers[-1]

    def _start(self, arguments: Sequence[str], ready: str, **environment: str) -> Service:
        log = self._directory / f"{arguments[0]}-{len(self._services)}.log"
        service = Service(self.sleipnir, arguments, ready, log, environment)
        self._services.append(service)
        return service

    def __enter__(self) -> Fleet:
        self.redis.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for service in self._services:
            service.kill()
        self.redis.__exit__(kind, error, trace)


class Tries:
    """Executions that scripts record in their working directory: one line `WORKER KEY` each."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory

    def _noted(self) -> list[list[str]]:
        file = self.directory / "tries"
        # The last line may not be complete yet.
        lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return [line.split() for line in lines]

    def keys(self) -> list[str]:
        """Return the idempotency keys of all tries, oldest first."""
        return [key for _, key in self._noted()]

    def workers(self) -> list[int]:
        """Return the pids of the workers of all tries, oldest first."""
        return [int(worker) for worker, _ in self._noted()]

    def wait_for(self, count: int = 1) -> None:
        """Wait until that many executions have begun."""
        wait_until(lambda: len(self.keys()) >= count, f"{count} tries", TIME_LIMIT_S)

    def kill_worker(self) -> None:
        """Kill the worker of the latest execution."""
        os.kill(self.workers()[-1], signal.SIGKILL)

    def let_go(self) -> None:
        """Let the scripts that wait for it exit."""
        (self.directory / "go").touch()
