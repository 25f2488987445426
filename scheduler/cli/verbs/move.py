"""`sleipnir move`: take runs to another machine."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_runs, machine_option
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.many import audit
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.client import steer as steering


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_runs)
@machine_option("Machine whose workers take them from now on", required=True)
@common_options(json=True)
def move(options: Options, run_ids: Sequence[str], machine: str) -> None:
    """Take runs, open or ended, with their child runs to another machine.

    A run started with files of one machine waits for a worker there. Its working directory must
    be on the other machine too, else its programs start in an empty one. Nodes that are being
    executed end where they are.
    """
    target = None if machine == steering.ANY_MACHINE else machine
    with open_client(options, workers=False) as client:
        for run_id in [client.queries.resolve(prefix) for prefix in run_ids]:
            client.move(run_id, target)
            audit.note(client, "move", [run_id], detail=machine)
            if options.json:
                click.echo(json.dumps({"run_id": run_id, "machine": target}))
            else:
                options.say(f"moved run {run_id} to {machine if target else 'any machine'}")
