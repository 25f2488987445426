"""`sleipnir submit`: submit a run and print its id."""

from __future__ import annotations

import click

from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.submission import Submission, submission_parameters, submit_only


@click.command
@submission_parameters
@common_options(json=True)
def submit(options: Options, submission: Submission) -> ExitCode:
    """Submit a run of AGENT on PROMPT (`-`: standard input) and print its id."""
    return submit_only(options, submission)
