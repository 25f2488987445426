"""`sleipnir retry`: continue ended runs in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.arguments import (
    PositiveNumber,
    agent_option,
    changes_option,
    complete_runs,
    json_or_text,
    machine_option,
)
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.many import audit
from sleipnir.scheduler.cli.many.filters import (
    batch_option,
    label_option,
    run_filter,
    since_option,
    status_option,
    until_option,
)
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import agreement
    from sleipnir.scheduler.cli.many import retries as many_retries
    from sleipnir.scheduler.client.rerun import agents as agent_choice
    from sleipnir.scheduler.client.rerun import retry as retries

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.rerun.retry import RetryRequest

_FILTERS = ("status", "batch", "label", "since", "until")
_STATUSES = ("failed", "cancelled", "timed_out", "succeeded")


@click.command
@click.argument("run_ids", metavar="[RUN]...", nargs=-1, shell_complete=complete_runs)
@batch_option
@status_option(_STATUSES)
@label_option
@since_option
@until_option
@click.option("--yes", is_flag=True, help="Do not ask before retrying runs that were not named.")
@click.option(
    "--from",
    "from_step",
    type=click.IntRange(min=1),
    metavar="STEP",
    help="Redo this super-step and what follows. Default: continue in the incomplete one.",
)
@changes_option("Change a key of the state first")
@agent_option(" Without RUN also NAME: only runs of this agent. [default: same]", multiple=True)
@click.option(
    "--timeout",
    "timeout_s",
    type=PositiveNumber(),
    metavar="SECONDS",
    help="New time limit. Default: the full limit again.",
)
@click.option(
    "--budget",
    "budget_usd",
    type=PositiveNumber(),
    metavar="USD",
    help="Budget of each run in total, with all its tries and child runs.",
)
@click.option(
    "--shallow", is_flag=True, help="Start new child runs in place of those that did not succeed."
)
@machine_option("Machine whose workers take it, with its child runs, from now on")
@click.option("--wait", is_flag=True, help="Stay attached to the run, as `run` does.")
@common_options(json=True)
def retry(
    options: Options,
    run_ids: Sequence[str],
    wait: bool,
    yes: bool,
    agent: Sequence[str],
    seeds: Sequence[tuple[str, str]],
    **flags: Any,
) -> ExitCode:
    """Continue each RUN that failed, was cancelled or timed out where it stopped.

    Finished work is not repeated: branches, map items, child runs, answers, and model replies to
    nodes that were interrupted. The run keeps its id, and its place in its batch.

    Without RUN, --batch, --status, --agent NAME, --label, --since and --until choose runs. The
    command says how many match and why they ended, and asks. Run it again to continue with those
    that are left.
    """
    call = _Call.of(run_ids, agent, flags)
    if wait and len(run_ids) != 1:
        raise click.UsageError("--wait follows one run; name one, or leave out --wait")
    call.wishes["state"] = {key: json_or_text(text) for key, text in seeds}
    with open_client(options, workers=wait) as client:
        if not run_ids:
            return _retry_chosen(client, options, call, yes=yes)
        found = [client.queries.resolve(prefix) for prefix in run_ids]
        audit.note(client, "retry", found, outcome="begun")
        if wait:
            return _stay(client, options, found[0], call)
        return many_retries.retry_all(client, options, found, call.request)


@dataclass(frozen=True, slots=True)
class _Call:
    """The meaning of a call: which runs to retry, and how."""

    agents: tuple[str, ...]  # names of agents whose runs are selected
    filters: dict[str, Any]  # the other filters, by flag
    wishes: dict[str, Any]  # the arguments of `Client.retry`

    @property
    def request(self) -> RetryRequest:
        return retries.RetryRequest(**self.wishes)

    @classmethod
    def of(cls, run_ids: Sequence[str], agents: Sequence[str], flags: dict[str, Any]) -> _Call:
        """Interpret the arguments of a call.

        Raises:
            click.UsageError: runs are both named and selected, or neither; or agents conflict.
        """
        chosen = {name: flags.pop(name) for name in _FILTERS}
        given = [name for name, value in chosen.items() if value]
        if run_ids and given:
            raise click.UsageError(f"name runs, or choose them with --{given[0]}; not both")
        names = () if run_ids else tuple(text for text in agents if not _is_version(text))
        versions = [text for text in agents if text not in names]
        if len(versions) > 1:
            raise click.UsageError(f"--agent {versions[0]} or --agent {versions[1]}, not both")
        if not (run_ids or names or given):
            raise click.UsageError(
                "name runs, or choose them with --batch, --status, --agent NAME, --label, --since "
                "or --until"
            )
        if "succeeded" in chosen["status"] and flags["from_step"] is None:
            raise click.UsageError("runs that succeeded need --from, the step to start from")
        version = versions[0] if versions else agent_choice.SAME
        return cls(names, chosen, {**flags, "agent": version})


def _is_version(text: str) -> bool:
    return text in (agent_choice.SAME, agent_choice.CURRENT) or "/" in text


def _retry_chosen(client: Client, options: Options, call: _Call, *, yes: bool) -> ExitCode:
    wanted = run_filter({**call.filters, "agent": call.agents}, client.queries.now_ms())
    selection = client.retriable(wanted)
    if not selection.run_ids:
        _require_batch(client, call.filters["batch"])
        options.say("no run matches that can be retried")
        return ExitCode.SUCCEEDED
    many_retries.tell(client, selection, call.request)
    if not yes and not agreement.agree("go on?", "add --yes to retry these runs"):
        options.say("nothing was retried")
        return ExitCode.FAILED
    audit.note(client, "retry", list(selection.run_ids), outcome="begun")
    return many_retries.retry_all(client, options, selection.run_ids, call.request)


def _require_batch(client: Client, batch: str | None) -> None:
    """Check that a batch has runs: a misspelt one has none.

    Raises:
        click.UsageError: it has none.
    """
    if batch is not None and not any(client.queries.batch_pages(batch)):
        raise click.UsageError(f"no batch '{batch}'; `sleipnir batches` lists batches")


def _stay(client: Client, options: Options, run_id: str, call: _Call) -> ExitCode:
    streams = options.streams_replies
    go_on = partial(client.retry, run_id, **call.wishes, streamed=streams)
    return run_result.stay(client, run_id, options, streams=streams, start=go_on)
