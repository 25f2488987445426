"""`sleipnir plan`: what runs of an agent will do and cost, without running them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.state import PROMPT_KEY, decode
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.arguments import (
    PositiveNumber,
    agent_argument,
    changes_option,
    json_or_text,
    pairs,
)
from sleipnir.scheduler.cli.batch.input_options import INPUT_OPTIONS, SOURCE
from sleipnir.scheduler.cli.connect import search_of, settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.views.text.formatting import usd
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.graphs.document import finding as finding_lists
    from sleipnir.graphs.document import loader
    from sleipnir.scheduler.batch import ledger as ledgers
    from sleipnir.scheduler.batch import lines as batch_lines
    from sleipnir.scheduler.cli import sarif as sarif_file
    from sleipnir.scheduler.cli import submission
    from sleipnir.scheduler.cli.batch import input as batch_input
    from sleipnir.scheduler.client import preparation
    from sleipnir.scheduler.runs import submit
    from sleipnir.worker.plan import advice, document, rows, table

if TYPE_CHECKING:
    from sleipnir.graphs.document.finding import Finding
    from sleipnir.scheduler.batch.lines import Format
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.runs.submit import Request
    from sleipnir.worker.plan.document import InputPlan


@dataclass(frozen=True, slots=True)
class _Input:
    """The lines to plan for, as named on the command line; `source` None: one run."""

    source: str | None
    form: Format | None
    delimiter: str | None
    encoding: str | None
    skip_bad: bool
    seeds: Sequence[tuple[str, str]]
    variables: Sequence[tuple[str, str]]


def _parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    for parameter in reversed((SOURCE, *INPUT_OPTIONS)):
        function = parameter(function)
    return function


@click.command
@agent_argument
@_parameters
@changes_option("Set a key of the initial state")
@click.option(
    "--var",
    "variables",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="Agent variable.",
)
@click.option(
    "--budget",
    type=PositiveNumber(),
    metavar="USD",
    help="Exit with 1 if it may not be enough, or if a price is not known.",
)
@click.option(
    "--sarif",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write errors and warnings to FILE, as SARIF 2.1.0.",
)
@common_options(json=True)
def plan(
    options: Options, agent: str, budget: float | None, sarif: Path | None, **source: Any
) -> ExitCode:
    """Say what a run of AGENT, or one for each line of INPUT, will do at least and at most.

    Calls no model and starts no run. Bounds are for runs that succeed without a failed node. Exits
    with 3 if the agent has errors.
    """
    given = _Input(**source)
    settings, search = settings_of(options), search_of(options)
    try:
        prepared = preparation.Preparation(settings, search, _store_nothing).prepare(agent)
    except InvalidAgent as error:
        return _invalid(error.findings, sarif, options)
    loaded = loader.load_agent(search.find(agent), os.environ)
    planner = rows.Planner(settings, search)
    found = document.plan_of(
        planner.rows_of(loaded.directory, prepared.graph),
        _states(prepared, loaded.directory, given, options),
    )
    asked = advice.Advice(loaded, prepared.graph, settings, planner.models)
    findings = finding_lists.in_order((*prepared.warnings, *asked.of(found)))
    if sarif is not None:
        sarif_file.write(sarif, findings)
    if options.json:
        whole = {"agent": prepared.name, "version": prepared.digest[:12], **found.to_json()}
        more = {"time_s": None, "sample": None, "findings": [each.to_json() for each in findings]}
        click.echo(json.dumps(whole | more, ensure_ascii=False))
    else:
        _show(found, findings, planner.models.unpriced, options)
    return _verdict(found, budget, options)


def _store_nothing(_digest: str, _data: bytes) -> None:
    """Take a bundle: nothing is run."""


def _invalid(findings: Sequence[Finding], sarif: Path | None, options: Options) -> ExitCode:
    if sarif is not None:
        sarif_file.write(sarif, findings)
    if options.json:
        errors = [finding.to_json() for finding in findings]
        click.echo(json.dumps({"findings": errors}, ensure_ascii=False))
    else:
        for finding in finding_lists.folded(findings):
            click.echo(str(finding), err=True)
    return ExitCode.INVALID


def _states(
    agent: PreparedAgent, directory: Path, given: _Input, options: Options
) -> Iterator[Mapping[str, Any]]:
    """Yield the first state of each run, as far as it is known; there is at least one."""
    defaults = submit.Request(
        state={key: json_or_text(text) for key, text in given.seeds},
        variables={
            **submission.variables_from_environment(agent.name, os.environ),
            **dict(given.variables),
        },
    )

    def seeded(request: Request) -> Mapping[str, Any]:
        run = submit.new_run(
            agent.graph, agent.digest, request, agent=agent.name, agents=agent.agents
        )
        return {key: decode(text) for key, text in run.state.items()}

    if given.source is None:
        state = seeded(defaults)
        yield {key: value for key, value in state.items() if key != PROMPT_KEY}
        return
    file = batch_input.InputFile(
        given.source, given.form, given.delimiter, given.encoding, given.skip_bad
    )
    with ledgers.Ledger() as ledger:
        target = batch_input.InputAgent(agent.name, agent.graph, directory, seeded)
        batch_input.load(file, target, ledger, defaults, options)
        if not len(ledger):
            raise SubmissionRefused(f"{printable(file.name)} has no lines, so there is no plan")
        last = 0
        while page := ledger.following(last):
            for item in page:
                yield seeded(batch_lines.request_of(item.content, defaults))
            last = page[-1].number


def _show(
    found: InputPlan, findings: Sequence[Finding], unpriced: Sequence[str], options: Options
) -> None:
    for line in table.lines_of(found):
        click.echo(line)
    for finding in finding_lists.folded(findings):
        options.say(str(finding))
    for model in unpriced:
        options.say(
            f"the price of {printable(model)} is not known; add it to config.yaml:\n"
            f'  models: {{prices: {{"{printable(model)}": {{prompt: USD, completion: USD}}}}}}'
        )


def _verdict(found: InputPlan, budget: float | None, options: Options) -> ExitCode:
    if budget is None:
        return ExitCode.SUCCEEDED
    if not found.total.is_priced:
        options.say("whether the budget is enough is not known, as a price is not")
        return ExitCode.FAILED
    if budget < found.total.usd.least:
        options.say(f"the budget is below what this costs at least, {usd(found.total.usd.least)}")
        return ExitCode.FAILED
    return ExitCode.SUCCEEDED
