"""Asks before lines of a batch are run with another version of its agent than finished ones."""

from __future__ import annotations

from sleipnir.scheduler.batch.edited import FinishedVersions
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.cli.many.agreement import agree
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.terminal import is_terminal
from sleipnir.scheduler.errors import SubmissionRefused

_CHOICES = (
    "--mixed runs only the unfinished lines, with the new version; --redo EXPR also the finished "
    "lines that fulfil it, --redo all every line; --name NEW runs all lines, in a new batch"
)


def require_same_agent(versions: FinishedVersions, ledger: Ledger, options: Options) -> None:
    """Check that no finished line was run with another version of the agent.

    Raises:
        SubmissionRefused: one was, and nobody agrees to go on.
    """
    found = versions.count(ledger)
    if found.unknown:
        options.say(
            f"warning: {found.unknown:,} finished lines do not say which version of the agent they "
            "were run with"
        )
    if not found.others:
        return
    said = f"{found.describe(len(ledger))}: {_CHOICES}"
    if not is_terminal():
        raise SubmissionRefused(said)
    options.say(said)
    if not agree("run the unfinished lines with the new version?", "add --mixed"):
        raise SubmissionRefused("nothing was submitted")
