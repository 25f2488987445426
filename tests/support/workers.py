"""Real worker processes, started and stopped by tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded.supervisor import die_with_parent
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.agents import Agents
from tests.support.processes import end_programs_of, state_of
from tests.support.wait import wait_until


class Worker:
    """A worker process with its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def terminate(self) -> None:
        """Tell it to drain and exit."""
        self._process.send_signal(signal.SIGTERM)

    def suspend(self) -> None:
        """Suspend it, as on a stalled machine."""
        self._process.send_signal(signal.SIGSTOP)

    def is_suspended(self) -> bool:
        return state_of(self.pid) == "T"

    def resume(self) -> None:
        """Resume it."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it as a crash would."""
        self._process.kill()
        self._process.wait(timeout=90)
        end_programs_of(self._process.pid)

    def exit_code(self, timeout_s: float = 30) -> int:
        """Wait until it exits."""
        return self._process.wait(timeout_s)


class Workers(Agents):
    """Starts workers on one Redis, and submits runs to them."""

    def __init__(self, url: str, client: redis.Redis, directory: Path) -> None:
        settings = Settings(redis_url=url)
        super().__init__(RunStore(client, settings, DirectDispatcher()), directory)
        self._url = url
        self.directory = directory
        self._started: list[Worker] = []

    def start(self, *arguments: str, url: str | None = None, **settings: Any) -> Worker:
        """Start a worker and wait until it consumes; `settings` become environment variables.

        Args:
            url: another way to reach the same Redis.
        """
        command = ("sleipnir.worker", "--redis", url or self._url, "--verbose", *arguments)
        return self._launch(command, " ready.", settings)

    def start_supervised(
        self, processes: int, *, ready: str = " ready.", **settings: Any
    ) -> Worker:
        """Start worker processes that are restarted when they die.

        Args:
            ready: what their log says once they are as far as the test wants them.
        """
        options = ("--processes", str(processes), *self._redis(settings), "-v")
        return self._launch(("sleipnir", "worker", *options), ready, settings)

    def start_scheduler(self, **settings: Any) -> Worker:
        """Start a scheduler without a worker, and wait until it is running."""
        command = ("sleipnir", "scheduler", *self._redis(settings))
        return self._launch(command, "scheduler: running", settings)

    def _redis(self, settings: dict[str, Any]) -> tuple[str, ...]:
        return () if "redis_url_file" in settings else ("--redis", self._url)

    def _launch(self, command: tuple[str, ...], ready: str, settings: dict[str, Any]) -> Worker:
        number = len(self._started)
        log = self.directory / f"worker-{number}.log"
        variables = {f"SLEIPNIR_{name.upper()}": str(value) for name, value in settings.items()}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                env={
                    **os.environ,
                    **variables,
                    "SLEIPNIR_DATA_DIR": str(self.directory / f"worker-{number}"),
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        worker = Worker(process, log)
        self._started.append(worker)
        wait_until(lambda: ready in log.read_text(), f"worker {number} is ready")
        return worker

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._started:
            worker.kill()
