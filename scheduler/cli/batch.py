"""`sleipnir batch`: one run per line of a file."""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from scheduler.cli.arguments import complete_agents, json_or_text
from scheduler.cli.engine import open_client, settings_of
from scheduler.cli.exits import ExitCode
from scheduler.cli.layout import cost, tokens
from scheduler.cli.options import Options, common_options
from scheduler.cli.progress import Display, final_lines
from scheduler.cli.submission import REQUEST_OPTIONS, variables_from_environment

if TYPE_CHECKING:
    from scheduler.batch.drive import Finished, Progress, Terms
    from scheduler.batch.intake import Intake
    from scheduler.batch.ledger import Ledger
    from scheduler.batch.lines import Format
    from scheduler.batch.results import ResultsFile
    from scheduler.client import Client, PreparedAgent
    from scheduler.submit import Request

_STDIN = "-"
# A worker with nothing to fetch is idle; what waits in its queue costs nothing.
_IN_FLIGHT_PER_SLOT = 2
_LEAST_IN_FLIGHT = 64

_PARAMETERS = (
    click.argument("agent", required=False, shell_complete=complete_agents),
    click.argument(
        "source",
        metavar="INPUT",
        required=False,
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    ),
    click.option(
        "-o",
        "target",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Collect results in FILE instead of on stdout.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["jsonl", "csv", "txt"]),
        help="Of INPUT; default: by its extension, stdin is jsonl.",
    ),
    click.option("--name", help="Name of the batch; default: from INPUT's path and AGENT."),
    click.option("--ordered", is_flag=True, help="Results in input order."),
    click.option("--skip-bad", is_flag=True, help="Leave malformed lines out."),
    click.option("--retry-failed", is_flag=True, help="Run lines again whose last run failed."),
    click.option(
        "--max-in-flight",
        type=click.IntRange(min=1),
        metavar="N",
        help="Runs under way at once; default: what keeps the workers busy.",
    ),
    click.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Start no more runs once the batch has cost this much.",
    ),
    click.option("--detach", is_flag=True, help="Submit all, print the batch's name, leave."),
    *REQUEST_OPTIONS,
)


@dataclass(frozen=True, slots=True)
class _Call:
    """The parameters of one call, as click hands them over."""

    agent: str
    source: str
    target: Path | None
    form: Format | None
    name: str | None
    ordered: bool
    skip_bad: bool
    retry_failed: bool
    max_in_flight: int | None
    budget: float | None
    detach: bool
    seeds: Sequence[tuple[str, str]]
    variables: Sequence[tuple[str, str]]
    answers: Sequence[tuple[str, str]]
    workdir: Path
    timeout: float | None


def _parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    for parameter in reversed(_PARAMETERS):
        function = parameter(function)
    return function


@click.command()
@_parameters
@click.option("--status", metavar="BATCH", help="How a batch stands; takes no argument.")
@common_options(json=True)
def batch(options: Options, status: str | None, **parameters: Any) -> int:
    """Run AGENT once per line of INPUT: JSON lines, CSV or plain text, `-` for stdin.

    A JSON line is a prompt, or an object of "id", "prompt", "state", "vars" and "answers", none
    of them required. CSV has a header: id, prompt, other columns go into the state.

    Started again, it goes on: finished lines are skipped, runs under way are joined.
    """
    if status is not None:
        return _show_status(options, status)
    if parameters["agent"] is None or parameters["source"] is None:
        raise click.UsageError("name an AGENT and an INPUT, or --status BATCH")
    call = _Call(**parameters)
    processes = settings_of(options).workers or os.cpu_count() or 1
    # SQLite, and all that reads lines, is loaded when there are lines to read.
    from scheduler.batch.ledger import Ledger  # noqa: PLC0415
    from scheduler.connection import PATIENT  # noqa: PLC0415

    with (
        open_client(options, workers=not call.detach, processes=processes) as client,
        Ledger() as ledger,
    ):
        # A batch may last for hours: it rides out a restart of Redis.
        client.store.client.set_retry(PATIENT)
        return _Command(options, call, client, client.prepare(call.agent), ledger, processes)()


@dataclass(frozen=True, slots=True)
class _Command:
    """One start of a batch."""

    options: Options
    call: _Call
    client: Client
    agent: PreparedAgent
    ledger: Ledger
    processes: int  # of the embedded engine

    def __call__(self) -> int:
        defaults = self._defaults()
        terms = self._terms(self._name(self._take_in(defaults)), defaults)
        if self.call.detach:
            return self._submit_all(terms)
        with ExitStack() as stack:
            results = self._results_file(terms, stack)
            display = stack.enter_context(Display(self.options, terms.name))
            return self._drive(terms, results, display)

    # ---- what is to be run

    def _defaults(self) -> Request:
        """What holds for every line that does not say otherwise."""
        from scheduler.submit import Request  # noqa: PLC0415 - see above

        answers: dict[str, list[str]] = defaultdict(list)
        for node, text in self.call.answers:
            answers[node].append(text)
        return Request(
            state={key: json_or_text(text) for key, text in self.call.seeds},
            variables={
                **variables_from_environment(self.agent.name, os.environ),
                **dict(self.call.variables),
            },
            answers=answers,
            workdir=str(self.call.workdir.absolute()),
            timeout_s=self.call.timeout,
        )

    def _take_in(self, defaults: Request) -> Intake:
        from scheduler.batch.intake import require_good, take_in  # noqa: PLC0415 - see above

        form = self._format()
        with self._input() as stream:
            intake = take_in(
                self.ledger,
                stream,
                form,
                lambda request: self.client.check(self.agent, request),
                defaults,
            )
        source = "stdin" if self.call.source == _STDIN else self.call.source
        if not self.call.skip_bad:
            require_good(intake, source)
        elif intake.bad_count:
            self.options.say(f"left out of {source}:\n{intake.describe_bad()}")
        return intake

    def _format(self) -> Format:
        from scheduler.batch.lines import format_of  # noqa: PLC0415 - see above

        if self.call.form is not None:
            return self.call.form
        form = "jsonl" if self.call.source == _STDIN else format_of(Path(self.call.source))
        if form is None:
            raise click.UsageError(
                f"the name of {self.call.source} does not tell its format; "
                "add --format jsonl, csv or txt"
            )
        return form

    def _input(self) -> TextIO:
        stdin = self.call.source == _STDIN
        binary = sys.stdin.buffer if stdin else Path(self.call.source).open("rb")  # noqa: SIM115 - the wrapper closes it
        return io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="")

    def _name(self, intake: Intake) -> str:
        from scheduler.batch.identity import name_of_file, name_of_stream  # noqa: PLC0415 - see above

        if self.call.name:
            return self.call.name
        if self.call.source == _STDIN:
            return name_of_stream(self.agent.name, intake.digest)
        return name_of_file(self.agent.name, Path(self.call.source))

    def _terms(self, name: str, defaults: Request) -> Terms:
        from scheduler.batch.drive import Terms  # noqa: PLC0415 - see above

        return Terms(
            name=name,
            max_in_flight=sys.maxsize if self.call.detach else self._max_in_flight(),
            budget_usd=self.call.budget,
            retry_failed=self.call.retry_failed,
            ordered=self.call.ordered,
            defaults=defaults,
        )

    def _max_in_flight(self) -> int:
        return self.call.max_in_flight or max(_LEAST_IN_FLIGHT, _IN_FLIGHT_PER_SLOT * self._slots())

    def _slots(self) -> int:
        """How many nodes the workers execute at once."""
        settings = settings_of(self.options)
        if settings.redis_url is None:
            return self.processes * settings.concurrency
        from scheduler.workers import live_workers  # noqa: PLC0415 - celery

        found = live_workers(settings.broker_url or settings.redis_url)
        if not found:
            self.options.say(
                "no worker answers on this Redis: the runs wait until one is started "
                "(sleipnir worker --redis URL)"
            )
        return sum(found.values())

    # ---- running it

    def _submit_all(self, terms: Terms) -> int:
        from scheduler.batch.drive import Batch  # noqa: PLC0415 - see above

        Batch(self.client, self.agent, self.ledger, terms).submit_all()
        click.echo(terms.name)
        self.options.say(f"see how it stands with: sleipnir batch --status {terms.name}")
        return ExitCode.SUCCEEDED

    def _results_file(self, terms: Terms, stack: ExitStack) -> ResultsFile | None:
        if self.call.target is None:
            return None
        from scheduler.batch.results import ResultsFile  # noqa: PLC0415 - see above

        return stack.enter_context(
            ResultsFile(self.call.target, self.ledger, terms.name, ordered=terms.ordered)
        )

    def _drive(self, terms: Terms, results: ResultsFile | None, display: Display) -> int:
        from scheduler.batch.drive import Batch  # noqa: PLC0415 - see above
        from scheduler.run import NO_USAGE  # noqa: PLC0415 - see above

        batch = Batch(
            self.client,
            self.agent,
            self.ledger,
            terms,
            earlier=results.earlier if results else NO_USAGE,
            on_progress=display.update,
        )
        try:
            for finished in batch.results():
                _put_out(finished, results, display)
        except KeyboardInterrupt:
            display.close()
            self.options.say(self._farewell(terms, batch.progress))
            raise
        display.close()
        for line in final_lines(terms.name, batch.progress):
            self.options.say(line)
        return _exit_code(batch.progress)

    def _farewell(self, terms: Terms, progress: Progress) -> str:
        embedded = settings_of(self.options).redis_url is None
        what = "pause with the engine" if embedded else "go on"
        return (
            f"batch {terms.name}: interrupted after {progress.finished} of {progress.total} lines; "
            f"{progress.in_flight} runs under way {what}. "
            "Start the same command again to go on."
        )


def _put_out(finished: Finished, results: ResultsFile | None, display: Display) -> None:
    from scheduler.batch.results import result_line  # noqa: PLC0415 - see above

    if results is not None:
        results.append(*finished)
    else:
        display.print_result(result_line(*finished))


def _exit_code(progress: Progress) -> ExitCode:
    if progress.failed or progress.left or progress.in_flight:
        return ExitCode.FAILED
    return ExitCode.WAITING if progress.waiting else ExitCode.SUCCEEDED


def _show_status(options: Options, name: str) -> int:
    """Print how the runs of a batch stand."""
    from scheduler.run import NO_USAGE  # noqa: PLC0415 - see above

    counts: Counter[str] = Counter()
    usage = NO_USAGE
    with open_client(options, workers=False) as client:
        for page in client.records.batch_pages(name):
            for standing in filter(None, client.records.standings(page)):
                counts[str(standing.status)] += 1
                usage += standing.usage
    if not counts:
        raise click.UsageError(f"no batch '{name}'; `sleipnir ps --json` shows each run's batch")
    if options.json:
        document = {"batch": name, "runs": counts.total(), **counts, "usage": usage.to_json()}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        parts = [f"{count} {status}" for status, count in counts.most_common()]
        spent = f"; {tokens(usage)} tokens, {cost(usage)}" if usage else ""
        click.echo(f"{name}: {counts.total()} runs: {', '.join(parts)}{spent}")
    return ExitCode.SUCCEEDED
