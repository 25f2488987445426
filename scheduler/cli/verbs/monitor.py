"""`sleipnir monitor`: web pages on workers and nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import NoReturn

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.processes import environment_of
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.embedded.attach import attach
from sleipnir.scheduler.embedded.supervisor import die_with_parent

with lazy_imports():
    from sleipnir.scheduler.config import monitor_key


@click.command
@click.option("--port", type=click.IntRange(0, 65535), default=5555, show_default=True)
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--basic-auth",
    metavar="USER:PASSWORD",
    envvar="SLEIPNIR_MONITOR_AUTH",
    help="Required login; mandatory on an address that other machines can reach.",
)
@click.option(
    "--link", "prints", is_flag=True, help="Only print the link that opens the pages, and exit."
)
@common_options()
def monitor(options: Options, port: int, address: str, basic_auth: str | None, prints: bool) -> int:
    """Serve web pages: runs, how far each is in its graph, and Flower's of workers.

    Without --basic-auth the pages of runs open with the link that is printed at the start.
    Stops on Ctrl-C or SIGTERM.
    """
    if prints:
        click.echo(monitor_key.link(address, port, monitor_key.monitor_key(data_dir())))
        return 0
    # -P: a directory of the user's that happens to be called `worker` is not ours.
    command = [sys.executable, "-P", "-m", "sleipnir.worker.monitor.server"]
    command += ["--address", address, "--port", str(port)]
    if options.quiet:
        command.append("--quiet")
    # Not an argument: everybody can read command lines.
    secret = {"SLEIPNIR_MONITOR_AUTH": basic_auth} if basic_auth else {}
    settings = settings_of(options)
    if settings.redis_url is not None:
        _become(command, {**environment_of(settings), **secret})
    with attach(data_dir(), settings, workers=False) as engine:
        found = replace(settings, redis_url=engine.redis_url)
        return _run(command, {**environment_of(found), **secret})


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Signals and exit codes then are those of the monitor."""
    sys.stdout.flush()
    os.execve(command[0], command, environment)


def _run(command: list[str], environment: dict[str, str]) -> int:
    """The engine has to be held while it runs: be its parent."""
    process = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent(signal.SIGTERM))
    try:
        return process.wait()
    except KeyboardInterrupt:  # it got one as well
        return process.wait()
