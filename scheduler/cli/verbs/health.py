"""`sleipnir health`: ask a worker, scheduler or monitor whether it is well."""

from __future__ import annotations

import os
import socket

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.process.health.address import parse

with lazy_imports():
    import json

_VARIABLE = "SLEIPNIR_HEALTH_ADDRESS"
_TIME_LIMIT_S = 5.0
_ALL = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@click.command
@click.option("--ready", is_flag=True, help="Ask whether it takes work, not only whether it lives.")
@click.option("--address", metavar="HOST:PORT", help="Default: the setting `health_address`.")
@common_options(json=True)
def health(options: Options, ready: bool, address: str | None) -> int:
    """Ask the process that answers health checks at an address; exit with 1 if it is not well.

    For containers, whose health is checked by a command.
    """
    # Asked every few seconds: reading all settings would take most of the time.
    address = address or os.environ.get(_VARIABLE) or settings_of(options).health_address
    if address is None:
        raise click.UsageError(f"where to ask? give --address HOST:PORT, or set {_VARIABLE}")
    try:
        where = parse(address)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    body = _ask(where, "/readyz" if ready else "/livez")
    if options.json:
        click.echo(body, nl=False)
    found = json.loads(body)
    for reason in found["reasons"]:
        options.say(reason)
    return 0 if found["ok"] else 1


def _ask(address: tuple[str, int], path: str) -> str:
    """Return the answer; one of our own if there is none."""
    host, port = address
    try:
        with socket.create_connection((_ALL.get(host, host), port), _TIME_LIMIT_S) as server:
            server.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: server.recv(65536), b"")).decode()
        body = answer.partition("\r\n\r\n")[2]
        json.loads(body)["ok"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"nothing answers health checks at {host}:{port}: {error}"
        return json.dumps({"ok": False, "reasons": [reason]}) + "\n"
    return body
