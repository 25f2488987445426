"""`sleipnir monitor`: serve the web UI."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.processes import environment_of, flags_of
from sleipnir.scheduler.cli.serving import serving_options
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.embedded.attach import attach
from sleipnir.scheduler.embedded.supervisor import die_with_parent

with lazy_imports():
    import secrets

    from sleipnir.scheduler.config import monitor_key, monitor_users


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
    "--users",
    "users_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Users with their roles; they must log in, and there is no link.",
)
@click.option(
    "--auth",
    metavar="PATTERN",
    help="Who may sign in with --auth-provider: e-mail addresses separated by '|', or "
    "'.*@example.org'.",
)
@click.option(
    "--auth-provider",
    type=click.Choice(["google", "github", "gitlab", "okta"]),
    help="OAuth provider to sign in with; its key, secret and redirect URI are in "
    "FLOWER_OAUTH2_KEY, FLOWER_OAUTH2_SECRET, FLOWER_OAUTH2_REDIRECT_URI.",
)
@click.option(
    "--new-user",
    nargs=2,
    metavar="NAME ROLE",
    help="Print a line for the --users file, and exit. ROLE: read, answer or operate.",
)
@click.option(
    "--url-prefix",
    metavar="PATH",
    default="",
    help="Path that its URLs start with, behind a proxy that forwards them unchanged.",
)
@click.option(
    "--celery-events",
    is_flag=True,
    help="Have workers report their tasks to Flower's pages all the time, which slows them down.",
)
@click.option("--open", "opens", is_flag=True, help="Open the pages in a browser.")
@click.option(
    "--link", "prints", is_flag=True, help="Print the link that opens the pages, and exit."
)
@serving_options
@common_options()
def monitor(
    options: Options,
    port: int,
    address: str,
    basic_auth: str | None,
    users_file: Path | None,
    auth: str | None,
    auth_provider: str | None,
    new_user: tuple[str, str] | None,
    url_prefix: str,
    celery_events: bool,
    opens: bool,
    prints: bool,
    served: dict[str, str | None],
) -> int:
    """Serve the web UI: runs with their progress, and Flower's pages of workers.

    Without --basic-auth and --users, the pages of runs open with the link that is printed at
    startup. Stops on Ctrl-C or SIGTERM.
    """
    if new_user is not None:
        _print_user(options, *new_user)
        return 0
    prefix = monitor_key.checked_prefix(url_prefix)
    if prints:
        key = monitor_key.monitor_key(data_dir())
        click.echo(monitor_key.link(address, port, key, prefix=prefix))
        return 0
    # -P: don't import from a user's directory that happens to be called `worker`.
    command = [sys.executable, "-P", "-m", "sleipnir.worker.monitor.server"]
    command += ["--address", address, "--port", str(port), "--prefix", prefix]
    command += ["--open"] if opens else []
    command += flags_of(options.agents_dir)
    if bool(auth) != bool(auth_provider):
        raise click.UsageError("--auth and --auth-provider must be given together")
    if auth and auth_provider:
        command += ["--auth", auth, "--auth-provider", auth_provider]
    if users_file is not None:
        command += ["--users", str(users_file.absolute())]
    command += ["--celery-events"] if celery_events else []
    command += ["--quiet"] if options.quiet else []
    # Not an argument: command lines are public.
    own = {"SLEIPNIR_MONITOR_AUTH": basic_auth} if basic_auth else {}
    settings = settings_of(options, **served)
    if settings.redis_url is not None:
        _become(command, {**environment_of(settings), **own})
    with attach(data_dir(), settings, workers=False) as engine:
        found = replace(settings, redis_url=engine.redis_url)
        return _run(command, {**environment_of(found), **own})


def _print_user(options: Options, name: str, role: str) -> None:
    """Print a user's line for the file; a program's secret is generated, and shown only once."""
    monitor_users.require_user(name, role)
    if name.startswith(monitor_users.API_PREFIX):
        password = secrets.token_urlsafe(32)
        options.say(f"its token: {name}.{password}")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    click.echo(monitor_users.new_line(name, role, password))


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Become the monitor process, so that signals and exit codes are its own."""
    sys.stdout.flush()
    os.execve(command[0], command, environment)


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run the monitor as a child, because the embedded engine must be held meanwhile."""
    process = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent(signal.SIGTERM))
    try:
        return process.wait()
    except KeyboardInterrupt:  # the monitor got the signal, too
        return process.wait()
