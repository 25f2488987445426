"""The processes that `sleipnir worker` and `sleipnir up` keep running."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.embedded.supervisor import ChildProcess

if TYPE_CHECKING:
    from sleipnir.scheduler.config.settings import Settings

# -P: a directory of the user's that happens to be called `sleipnir` is not ours.
_PYTHON = (sys.executable, "-P", "-m")


def worker_children(
    settings: Settings,
    processes: int,
    *,
    with_scheduler: bool,
    verbosity: int = 0,
    quiet: bool = False,
) -> list[ChildProcess]:
    """Worker processes on the configured Redis; the first one runs the scheduler, if asked.

    Args:
        quiet: whether they leave out what only tells that Celery is at work.
    """
    command = [*_PYTHON, "sleipnir.worker", "--concurrency", str(settings.concurrency)]
    command += ["--verbose"] * verbosity + ["--quiet"] * quiet
    environment = environment_of(settings)
    return [
        ChildProcess(
            f"worker {number}",
            [*command, "--scheduler"] if with_scheduler and number == 1 else command,
            env=environment,
        )
        for number in range(1, processes + 1)
    ]


@dataclass(frozen=True, slots=True)
class MonitorFlags:
    """How the web pages are served."""

    port: int  # 0: any that is free
    prefix: str = ""  # where their addresses begin
    opens: bool = False  # in a browser


def monitor_child(settings: Settings, flags: MonitorFlags) -> ChildProcess:
    """Return the web pages; they tell their own address if they are to find a port."""
    command = [*_PYTHON, "sleipnir", "monitor", "--port", str(flags.port)]
    command += ["--url-prefix", flags.prefix] if flags.prefix else []
    command += ["--open"] if flags.opens else []
    command += ["--quiet"] if flags.port else []
    # A taken port, say, is a mistake in how it is called.
    return ChildProcess(
        "monitor", command, env=environment_of(settings), gives_up_with=int(ExitCode.USAGE)
    )


def environment_of(settings: Settings) -> dict[str, str]:
    """Ours, with the settings that flags may have changed.

    Not as arguments: a URL may hold a password, and everybody can read command lines.
    """
    assert settings.redis_url is not None
    return {
        **os.environ,
        "SLEIPNIR_REDIS_URL": settings.redis_url,
        "SLEIPNIR_AGENTS_DIR": ":".join(settings.agents_dir),
    }
