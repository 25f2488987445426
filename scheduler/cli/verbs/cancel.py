"""`sleipnir cancel`: end runs early."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from sleipnir.scheduler.cli.arguments import complete_runs
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode, report
from sleipnir.scheduler.cli.many import audit
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.errors import ActionRefused


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_runs)
@common_options(json=True)
def cancel(options: Options, run_ids: Sequence[str]) -> ExitCode:
    """Cancel runs with their children; exit 1 if one of them had already ended."""
    code = ExitCode.SUCCEEDED
    with open_client(options, workers=False) as client:
        for run_id in [client.queries.resolve(prefix) for prefix in run_ids]:
            cancelled = client.cancel(run_id)
            status = client.queries.run(run_id).status
            if options.json:
                found = {"run_id": run_id, "cancelled": cancelled, "status": status}
                click.echo(json.dumps(found))
            if cancelled:
                audit.note(client, "cancel", [run_id])
                options.say(f"cancelled run {run_id}")
            else:
                refusal = ActionRefused(f"run {run_id} has already ended ({status})")
                code = report(refusal, json=options.json)
    return code
