"""Several retries in one command: announcement, progress and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli import run_result
from sleipnir.scheduler.cli.connect import hint_missing_process
from sleipnir.scheduler.cli.exit_codes import ErrorReport, ExitCode, judge
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.client.rerun.agents import CURRENT, SAME
from sleipnir.scheduler.views.text.formatting import columns
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.views.again import places

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.rerun.many import Cause, RunSelection
    from sleipnir.scheduler.client.rerun.retry import RetryRequest
    from sleipnir.scheduler.views.types.run import ManyAgainDocument

_MOST_LINES = 20


def tell(client: Client, selection: RunSelection, request: RetryRequest) -> None:
    """Print to stderr how many runs will be retried, why they had ended, and what is repeated."""
    again = places.many_again_document(client, selection.run_ids)
    for line in (*_told(selection, request), *_repeated(again, request.from_step)):
        click.echo(printable(line), err=True)


def retry_all(
    client: Client, options: Options, run_ids: Sequence[str], request: RetryRequest
) -> ExitCode:
    """Retry runs and print the continued ones; a refused one does not stop the others."""
    going_on: list[str] = []
    refused: Counter[ErrorReport] = Counter()
    try:
        for result in client.retry_many(run_ids, request):
            if result.refused is not None:
                refused[judge(result.refused)] += 1
                continue
            going_on.append(result.run_id)
            _print(client, options, result.run_id)
    except KeyboardInterrupt:
        options.say(
            f"{len(going_on):,} of {len(run_ids):,} runs continue; "
            "run the same command again for the others"
        )
        raise
    for line in _refusals(refused, json=options.json):
        click.echo(printable(line), err=True)
    if len(run_ids) > 1:
        options.say(f"{len(going_on):,} of {len(run_ids):,} runs continue")
    if going_on:
        hint_missing_process(client, options, going_on[0])
    return max((report.exit_code for report in refused), default=ExitCode.SUCCEEDED)


def _print(client: Client, options: Options, run_id: str) -> None:
    if options.json:
        run_result.print_json(run_result.document_of(client, client.queries.run(run_id)))
    else:
        click.echo(run_id)


def _told(selection: RunSelection, request: RetryRequest) -> Iterator[str]:
    count = len(selection.run_ids)
    more = "" if selection.is_whole else " (there are more: run the command again for them)"
    yield f"{count:,} {'run' if count == 1 else 'runs'} to retry{more}, {_how(request)}:"
    rows = [_row(cause) for cause in selection.causes[:_MOST_LINES]]
    yield from columns(("RUNS", "STATUS", "AGENT", "SUCH AS", "REASON"), rows)
    if len(selection.causes) > _MOST_LINES:
        yield f"and {len(selection.causes) - _MOST_LINES} more reasons"


def _repeated(again: ManyAgainDocument, from_step: int | None) -> Iterator[str]:
    """Yield what the steps to repeat have cost, as far as they have cost anything."""
    if from_step is None:
        if spent := places.spent_text(again, again["stopped"]):
            yield f"where they stopped they have spent {spent} so far, which may be spent again"
        return
    found = next((each for each in again["steps"] if each["step"] == from_step), None)
    if found is None:
        yield f"none of {again['looked_at']:,} has a step {from_step}"
        return
    line = f"{found['runs']:,} of {again['looked_at']:,} have step {from_step}"
    spent = places.spent_text(again, found["spent"])
    nodes = ", ".join(found["nodes"])
    cost = f" and have spent {spent} from there on, which may be spent again" if spent else ""
    yield f"{line} ({nodes}){cost}"


def _how(request: RetryRequest) -> str:
    where = "where it stopped" if request.from_step is None else f"from step {request.from_step}"
    match request.agent:
        case str() as version if version == SAME:
            return f"each {where}, with the agent it started with (--agent current: as it is now)"
        case str() as version if version != CURRENT:
            return f"each {where}, with {version}"
    return f"each {where}, with the agent as it is now"


def _row(cause: Cause) -> tuple[str, ...]:
    reason = ""
    if cause.reason is not None:
        place = f" at '{cause.reason.node}'" if cause.reason.node else ""
        reason = f"{cause.reason.code}{place}: {cause.reason.message}"
    return f"{cause.runs:,}", str(cause.status), cause.agent, cause.example, reason


def _refusals(refused: Counter[ErrorReport], *, json: bool) -> Iterator[str]:
    for report, count in refused.most_common(_MOST_LINES):
        line = report.line(json=json)
        yield line if count == 1 or json else f"{line} ({count:,} runs)"
    if len(refused) > _MOST_LINES:
        yield f"and {sum(refused.values()) - _MOST_LINES:,} more that do not continue"
