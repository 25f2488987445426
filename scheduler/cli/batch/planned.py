"""`batch --plan`: the plan first, and then the question whether to start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sleipnir.scheduler.cli.batch.input import STDIN
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.terminal import is_terminal, read_line, show

# Parameters that both verbs have.
_SHARED = (
    *("agent", "source", "form", "delimiter", "encoding", "attach", "columns", "skip_bad"),
    *("seeds", "variables", "name", "economy"),
)


def may_start(options: Options, parameters: Mapping[str, Any]) -> bool:
    """Print the plan, and ask whether to start; without a terminal only `--yes` says so.

    Raises:
        click.exceptions.Exit: with the exit code of `plan`, if there is no plan.
    """
    if parameters["source"] == STDIN:
        raise click.UsageError("--plan reads the input before the batch does; write it to a file")
    context = click.get_current_context()
    root = context.find_root().command
    verb = root.get_command(context, "plan") if isinstance(root, click.Group) else None
    assert verb is not None, "it is one of the verbs"
    shared = {name: parameters[name] for name in _SHARED}
    # Results go to stdout.
    common = {"redis": options.redis, "agents_dir": options.agents_dir, "quiet": options.quiet}
    try:
        # Of no further line than those that have finished.
        context.invoke(verb, sample=0, aside=True, **shared, **common, verbosity=options.verbosity)
    except click.exceptions.Exit as ended:
        if ended.exit_code:
            raise
    if parameters["confirmed"]:
        return True
    if not is_terminal():
        options.say("nothing was started; add --yes to start after the plan")
        return False
    show("Start? [y/N] ")
    return read_line().strip().lower() in ("y", "yes")
