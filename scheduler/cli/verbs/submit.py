"""`sleipnir submit`: submit a run and print its id."""

from __future__ import annotations

import click

from sleipnir.scheduler.cli.batch.economy import EconomyCommand, economy_options, require_economy
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.submission import Submission, submission_parameters, submit_only


@click.command(cls=EconomyCommand)
@submission_parameters
@economy_options
@common_options(json=True)
def submit(options: Options, submission: Submission) -> ExitCode:
    """Submit a run of AGENT on PROMPT (`-`: standard input) and print its id."""
    require_economy(submission.economy, only=submission.economy_only)
    return submit_only(options, submission)
