"""`sleipnir drain`: have workers finish what they do, and end."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.many import audit
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.process.periodic import pause

with lazy_imports():
    from sleipnir.scheduler.client import draining
    from sleipnir.scheduler.store import machines as fleet

_LOOKS_EVERY_S = 0.5


@click.command
@click.argument("targets", metavar="WORKER|MACHINE...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Return once all of them have ended.")
@click.option("--undo", is_flag=True, help="Have them take nodes again, if they have not ended.")
@common_options(json=True)
def drain(options: Options, targets: Sequence[str], wait: bool, undo: bool) -> None:
    """Ask workers to take no more nodes, finish those that are running, and end.

    As SIGTERM does, without access to their machine: nodes that still run after `drain_s` are
    requeued. A `sleipnir worker` ends once all its processes have; a machine means all its workers.
    """
    if wait and undo:
        raise click.UsageError("--wait and --undo exclude each other")
    with open_client(options, workers=False) as client:
        redis = client.store.client
        asked = draining.ask_to_drain(redis, targets, undo=undo)
        audit.note(client, "undrain" if undo else "drain", asked)
        if options.json:
            click.echo(json.dumps({"workers": asked, "draining": not undo}))
        for name in asked:
            options.say(f"worker {name} {'takes nodes again' if undo else 'drains'}")
        while wait and any(each.name in asked for each in fleet.Machines(redis).workers()):
            pause(_LOOKS_EVERY_S)
