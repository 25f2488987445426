"""The processes that `sleipnir worker` and `sleipnir up` supervise."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.embedded.supervisor import DRAINED, ChildProcess

if TYPE_CHECKING:
    from sleipnir.scheduler.config.settings import Settings

# -P: don't import from a user's directory that happens to be called `sleipnir`.
_PYTHON = (sys.executable, "-P", "-m")
# One of these says where Redis is.
_REDIS = ("SLEIPNIR_REDIS_URL", "SLEIPNIR_REDIS_URL_FILE")


def worker_children(
    settings: Settings,
    processes: int,
    *,
    with_scheduler: bool,
    verbosity: int = 0,
    quiet: bool = False,
) -> list[ChildProcess]:
    """Return worker processes for the configured Redis; the first can also run the scheduler.

    Args:
        quiet: whether they suppress Celery's routine messages.
    """
    command = [*_PYTHON, "sleipnir.worker", "--concurrency", str(settings.concurrency)]
    command += ["--verbose"] * verbosity + ["--quiet"] * quiet
    environment = environment_of(settings)
    return [
        ChildProcess(
            f"worker {number}",
            [*command, "--scheduler"] if with_scheduler and number == 1 else command,
            env=environment,
            ends_all_with=int(ExitCode.UNREACHABLE),
            is_over_with=DRAINED,
        )
        for number in range(1, processes + 1)
    ]


@dataclass(frozen=True, slots=True)
class MonitorFlags:
    """How to serve the web UI."""

    port: int  # 0: any free port
    prefix: str = ""  # the path prefix of its URLs
    opens: bool = False  # open it in a browser
    agents_dir: tuple[str, ...] = ()  # directories of agents, as `--agents-dir`


def monitor_child(settings: Settings, flags: MonitorFlags) -> ChildProcess:
    """Return the monitor process; it prints its own address if it has to choose a port."""
    command = [*_PYTHON, "sleipnir", "monitor", "--port", str(flags.port)]
    command += ["--url-prefix", flags.prefix] if flags.prefix else []
    command += ["--open"] if flags.opens else []
    command += ["--quiet"] if flags.port else []
    command += flags_of(flags.agents_dir)
    # Usage errors, such as a port in use, would recur after a restart.
    return ChildProcess(
        "monitor", command, env=environment_of(settings), gives_up_with=int(ExitCode.USAGE)
    )


def flags_of(agents_dir: tuple[str, ...]) -> list[str]:
    """Return the flags for directories of agents, which take precedence over configured ones."""
    return [word for directory in agents_dir for word in ("--agents-dir", directory)]


def environment_of(settings: Settings) -> dict[str, str]:
    """Return our environment, with settings changed by flags.

    Not as arguments: URLs may contain passwords, and command lines are public.
    """
    assert settings.redis_url is not None
    others = {name: value for name, value in os.environ.items() if name not in _REDIS}
    return {
        **others,
        **(
            {"SLEIPNIR_REDIS_URL_FILE": settings.redis_url_file}
            if settings.redis_url_file
            else {"SLEIPNIR_REDIS_URL": settings.redis_url}
        ),
        "SLEIPNIR_AGENTS_DIR": ":".join(settings.agents_dir),
        "SLEIPNIR_QUEUES": ",".join(settings.queues),
        "SLEIPNIR_LOG_FORMAT": settings.log_format,
        "SLEIPNIR_MAX_VISITS": str(settings.max_visits),
        "SLEIPNIR_MAX_MEMORY_MB": str(settings.max_memory_mb),
        **({"SLEIPNIR_HEALTH_ADDRESS": settings.health_address} if settings.health_address else {}),
    }
