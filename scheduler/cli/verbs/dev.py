"""`sleipnir dev`: run an agent again whenever its files are saved."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.submission import Submission, submission_parameters

with lazy_imports():
    from sleipnir.scheduler.cli.dev import session


@click.command
@submission_parameters
@common_options()
def dev(options: Options, submission: Submission) -> None:
    """Run AGENT on PROMPT, and again after each save, from the first node that has changed.

    Without a PROMPT it continues from the agent's last run. Each save is validated. If it is valid,
    the last run is forked before the first node whose text, script or other files have changed, and
    the two runs are compared. Ctrl-C cancels the current run, or exits if there is none.
    """
    submission = submission.with_files(options)
    with open_client(options, workers=True) as client:
        session.DevSession(client, options, submission).stay()
