"""`sleipnir submit`: accept a run and print its id."""

from __future__ import annotations

import click

from sleipnir.scheduler.cli.connect import open_client, say_who_goes_on
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.submission import Submission, submission_parameters
from sleipnir.scheduler.store.keys import new_run_id


@click.command
@submission_parameters
@common_options(json=True)
def submit(options: Options, submission: Submission) -> ExitCode:
    """Submit a run of AGENT on PROMPT (`-`: standard input) and print its id."""
    return submit_only(options, submission)


def submit_only(options: Options, submission: Submission) -> ExitCode:
    """Submit, print the run's id, and say what it takes for it to go on."""
    with open_client(options, workers=False) as client:
        run_id = new_run_id()
        submission.submit(client, run_id, attached=False)
        if options.json:
            from sleipnir.scheduler.cli.run_result import document_of, print_json  # noqa: PLC0415

            print_json(document_of(client, client.records.run(run_id), ()))
        else:
            click.echo(run_id)
        say_who_goes_on(client, options, run_id)
    return ExitCode.SUCCEEDED
