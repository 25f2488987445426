"""One call of `sleipnir batch`: reads the input, runs what is left of it, writes results."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path

import click

from sleipnir.graphs.expressions.expression import Expression
from sleipnir.graphs.files import reason
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.economy import announce_economy
from sleipnir.scheduler.batch.edited import FinishedVersions
from sleipnir.scheduler.batch.finished import FinishedLine, UnseenKeys
from sleipnir.scheduler.batch.identity import name_of_file, name_of_stream
from sleipnir.scheduler.batch.intake import Intake
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import Format
from sleipnir.scheduler.batch.options import BatchOptions, Progress
from sleipnir.scheduler.batch.redo import Redo
from sleipnir.scheduler.batch.reported import Outcome
from sleipnir.scheduler.batch.results.conditions import LineExpression
from sleipnir.scheduler.batch.results.csv_table import lines_of, write_table
from sleipnir.scheduler.batch.results.file import ResultsFile
from sleipnir.scheduler.batch.results.lines import ResultLines, result_document, result_line
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.cli.arguments import json_or_text
from sleipnir.scheduler.cli.asking.knowledge import questions_here
from sleipnir.scheduler.cli.batch.agent_change import require_same_agent
from sleipnir.scheduler.cli.batch.budget import require_prices
from sleipnir.scheduler.cli.batch.ending import say_fetched_later, say_interrupted, say_terminated
from sleipnir.scheduler.cli.batch.input import STDIN, InputAgent, InputFile, load
from sleipnir.scheduler.cli.batch.status import read_nodes
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.progress import Display, WorkerWatch, final_lines
from sleipnir.scheduler.cli.recording_flags import (
    GivenRecording,
    given_recording,
    write_recording,
)
from sleipnir.scheduler.cli.run_result import print_json
from sleipnir.scheduler.cli.submission import (
    live_tools,
    trace_of_environment,
    variables_from_environment,
)
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SleipnirError, Terminated
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.runs.labels import require_name
from sleipnir.scheduler.runs.reasons import reasons_of
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.connection import RETRY_OUTAGE
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.views.text.tables.batch_nodes import lines_of as lines_by_node
from sleipnir.scheduler.views.text.terminal_output import printable

# Enough that no worker runs idle; runs waiting in the queue cost nothing.
_IN_FLIGHT_PER_SLOT = 2
_LEAST_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class BatchCall:
    """The parameters of one call as parsed by click."""

    agent: str
    source: str
    target: Path | None
    form: Format | None
    delimiter: str | None
    encoding: str | None
    name: str | None
    ordered: bool
    skip_bad: bool
    attach: Sequence[str]
    columns: Sequence[tuple[str, str]]
    retry_failed: bool
    retry_incomplete: bool
    mixed: bool
    redo: Expression | None
    from_start: bool
    max_in_flight: int | None
    budget: float | None
    economy: float | None  # seconds
    economy_only: bool
    economy_window: int
    detach: bool
    record: Path | None
    seeds: Sequence[tuple[str, str]]
    variables: Sequence[tuple[str, str]]
    answers: Sequence[tuple[str, str]]
    workdir: Path | None
    timeout: float | None
    replay: Path | None
    strict: bool
    queue: str | None
    webhook: str | None
    labels: Sequence[tuple[str, str]]
    tools: str | None
    confirmed: bool
    with_input: bool
    with_state: Sequence[str]

    @property
    def retried(self) -> frozenset[Outcome]:
        """How finished lines ended that are to run on."""
        if self.retry_incomplete:
            return frozenset({"failed", "incomplete"})
        return frozenset({"failed"} if self.retry_failed else ())


def run_batch(client: Client, options: Options, call: BatchCall, processes: int) -> int:
    """Run a batch, or the rest of it; return the exit code.

    Args:
        processes: worker processes of the embedded engine.
    """
    # It may run for hours, so it must survive a restart of Redis.
    client.store.client.set_retry(RETRY_OUTAGE)
    with _room_for_files(), Ledger() as ledger:
        choose = None if call.source == STDIN else questions_here(client.store.settings)
        replayed = given_recording(client, call.agent, call.replay, call.tools)
        made_with = None if replayed is None else replayed.made_with
        prepared = client.prepare(call.agent, call.workdir, choose, made_with)
        try:
            if call.budget is not None and call.replay is None:
                require_prices(prepared, client)
            if call.economy is not None and call.replay is None:
                announce_economy(
                    prepared,
                    client.store,
                    options.say,
                    only=call.economy_only,
                    has_budget=call.budget is not None,
                )
            lines = ResultLines(client, with_input=call.with_input, with_state=call.with_state)
            return _Start(options, call, client, prepared, ledger, processes, lines, replayed)()
        finally:
            client.pending_pointers.write()


@contextmanager
def _room_for_files() -> Iterator[None]:
    """Name the full directory if the ledger cannot be written."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SleipnirError(
            f"cannot write temporary files in {tempfile.gettempdir()} ({error}); a batch uses at "
            "most half of the space there. Free some, or set TMPDIR, and run the same command "
            "again to continue"
        ) from error


@dataclass(frozen=True, slots=True)
class _Start:
    """One start of a batch."""

    options: Options
    call: BatchCall
    client: Client
    agent: PreparedAgent
    ledger: Ledger
    processes: int
    lines: ResultLines
    replayed: GivenRecording | None

    def __call__(self) -> int:
        defaults = self._defaults()
        call = self.call
        file = InputFile(
            call.source,
            call.form,
            call.delimiter,
            call.encoding,
            call.skip_bad,
            call.attach,
            call.columns,
        )
        agent = InputAgent(
            self.agent.name,
            self.agent.graph,
            self.client.search.find(call.agent),
            partial(self.client.check, self.agent),
        )
        intake = load(file, agent, self.ledger, defaults, self.options)
        batch_options = self._batch_options(self._name(intake), defaults)
        if self.call.detach:
            self._check_finished(batch_options.name, None)
            return self._submit_all(batch_options)
        with ExitStack() as stack:
            results = self._results_file(batch_options, stack)
            self._check_finished(batch_options.name, results)
            display = stack.enter_context(Display(self.options, batch_options.name))
            return self._drive(batch_options, results, display)

    # ---- what is to be run

    def _defaults(self) -> Request:
        """Return the defaults for all lines."""
        answers: dict[str, list[str]] = defaultdict(list)
        for node, text in self.call.answers:
            answers[node].append(text)
        traceparent, tracestate = trace_of_environment()
        return Request(
            state={key: json_or_text(text) for key, text in self.call.seeds},
            variables={
                **variables_from_environment(self.agent.name, os.environ),
                **dict(self.call.variables),
            },
            answers=answers,
            workdir=str((self.call.workdir or Path()).absolute()),
            machine=self.client.machine_with_files() if self.call.workdir else None,
            timeout_s=self.call.timeout,
            strict=self.call.strict,
            queue=self.call.queue,
            webhook=self.call.webhook,
            confirmed=self.call.confirmed,
            labels=dict(self.call.labels),
            live_tools=live_tools(self.call.tools, self.call.replay),
            recorded=self.call.record is not None,
            economy_s=self.call.economy,
            economy_only=self.call.economy_only,
            replay=None if self.replayed is None else self.replayed.stored(self.client),
            session=TEMPORARY,
            user=self.client.store.settings.identity,
            traceparent=traceparent,
            tracestate=tracestate,
        )

    def _name(self, intake: Intake) -> str:
        if self.call.name is not None:
            require_name("batch", self.call.name)
            return self.call.name
        if self.call.source == STDIN:
            return name_of_stream(self.agent.name, intake.digest)
        return name_of_file(self.agent.name, Path(self.call.source))

    def _batch_options(self, name: str, defaults: Request) -> BatchOptions:
        return BatchOptions(
            name=name,
            max_in_flight=sys.maxsize if self.call.detach else self._max_in_flight(),
            budget_usd=self.call.budget,
            retried=self.call.retried,
            from_start=self.call.from_start,
            ordered=self.call.ordered,
            defaults=defaults,
            files=self.ledger.files,
        )

    def _max_in_flight(self) -> int:
        if self.call.economy is not None:  # those that wait for a batch cost nothing
            return self.call.economy_window
        return self.call.max_in_flight or max(_LEAST_IN_FLIGHT, _IN_FLIGHT_PER_SLOT * self._slots())

    def _slots(self) -> int:
        """Return how many nodes the workers execute concurrently."""
        settings = settings_of(self.options)
        if settings.redis_url is None:
            return self.processes * settings.concurrency
        found = Machines(self.client.store.client).slots()
        if found == 0:
            self.options.say(
                "no worker is running on this Redis: the runs wait until one is started "
                "(sleipnir worker --redis URL)"
            )
        return found

    # ---- running it

    def _submit_all(self, batch_options: BatchOptions) -> int:
        Batch(self.client, self.agent, self.ledger, batch_options).submit_all()
        if self.options.json:
            print_json({"batch": batch_options.name})
        else:
            click.echo(batch_options.name)
        self.options.say(f"check its progress with: sleipnir batch --status {batch_options.name}")
        if self.call.economy is not None:
            say_fetched_later(self.options)
        return ExitCode.SUCCEEDED

    def _results_file(self, batch_options: BatchOptions, stack: ExitStack) -> ResultsFile | None:
        target = self.call.target
        if target is None:
            return None
        if target.suffix.lower() == ".csv":
            # Runs after the results file is closed, however this ends.
            stack.callback(self._write_table, target)
            target = lines_of(target)
        return stack.enter_context(
            ResultsFile(target, self.ledger, batch_options.name, ordered=batch_options.ordered)
        )

    def _write_table(self, target: Path) -> None:
        if not lines_of(target).exists():
            return  # no results yet
        try:
            write_table(target, with_input=self.call.with_input, state_keys=self.call.with_state)
        except OSError as error:
            raise click.FileError(str(target), reason(error)) from error

    def _drive(
        self, batch_options: BatchOptions, results: ResultsFile | None, display: Display
    ) -> int:
        batch = Batch(
            self.client,
            self.agent,
            self.ledger,
            batch_options,
            on_progress=WorkerWatch(self.client, self.options, display.update),
        )
        unseen = UnseenKeys(self.call.with_state)
        try:
            for finished in map(self.lines.completed, batch.results()):
                self._note_reasons(finished)
                unseen.note(finished)
                _write_result(finished, results, display)
        except KeyboardInterrupt:
            display.close()
            self._say_early_end(say_interrupted, batch_options.name, batch.progress)
            raise
        except Terminated:
            with suppress(OSError):  # the terminal may be gone
                display.close()
                self._say_early_end(say_terminated, batch_options.name, batch.progress)
            raise
        display.close()
        if self.call.record is not None:
            # Including runs of earlier starts.
            runs = set(chain.from_iterable(self.client.queries.batch_pages(batch_options.name)))
            write_recording(self.client, sorted(runs), self.call.record, self.options)
        self._say_nodes(batch_options.name)
        for line in final_lines(batch_options.name, batch.progress, self.ledger.reasons()):
            self.options.say(line)
        self._say_removed()
        if keys := unseen.found():
            them = ", ".join(f"'{printable(key)}'" for key in keys)
            self.options.say(f"no run has {them} in its state; `sleipnir state RUN` shows the keys")
        if self.call.replay is not None and self._report_misses(batch_options.name):
            return ExitCode.FAILED  # even if the runs succeeded
        return _exit_code(batch.progress)

    def _check_finished(self, name: str, results: ResultsFile | None) -> None:
        """Choose the finished lines to run again, or check that the agent is still the same."""
        queries, call = self.client.queries, self.call
        if call.redo is not None:
            redo = Redo(queries, self.lines, name, self.agent.name, results)
            chosen, of = redo.mark(self.ledger, LineExpression("--redo", call.redo))
            self.options.say(f"redo: {chosen:,} of {of:,} finished lines run from the start again")
        elif not (call.mixed or call.retried):
            versions = AgentVersions(self.client.store.bundles)
            finished = FinishedVersions(queries, versions, name, self.agent)
            require_same_agent(finished, self.ledger, self.options)

    def _say_nodes(self, name: str) -> None:
        if not self.options.quiet and len(self.ledger):
            found = read_nodes(self.client, self.options, name)
            for line in (*lines_by_node(found.nodes(), found.routes()), ""):
                self.options.say(line)

    def _say_removed(self) -> None:
        gone, _ = self.ledger.count_results()
        if gone:
            results = "1 result of a line" if gone == 1 else f"{gone:,} results of lines"
            self.options.say(
                f"{results} no longer in the input: removed from {printable(str(self.call.target))}"
            )

    def _report_misses(self, name: str) -> int:
        """Report the number of runs without a recorded reply, and return it."""
        runs = chain.from_iterable(self.client.queries.batch_pages(name))
        missed = [found for run_id in runs if (found := self.client.recordings.misses(run_id))]
        if missed:
            count = "1 run" if len(missed) == 1 else f"{len(missed):,} runs"
            self.options.say(f"no recorded reply in {count}, such as: {printable(missed[0][0])}")
        return len(missed)

    def _note_reasons(self, finished: FinishedLine) -> None:
        item, result = finished.item, result_document(finished)
        self.ledger.note_reasons(item.item, item.number, reasons_of(result))

    def _say_early_end(
        self, say: Callable[[Options, str, Progress], None], name: str, progress: Progress
    ) -> None:
        say(self.options, name, progress)
        if self.call.economy is not None and progress.in_flight:
            say_fetched_later(self.options)


def _write_result(finished: FinishedLine, results: ResultsFile | None, display: Display) -> None:
    if results is not None:
        results.append(finished)
    else:
        display.print_result(result_line(finished))


def _exit_code(progress: Progress) -> ExitCode:
    unfinished = progress.left or progress.in_flight or progress.waiting
    if progress.failed or progress.incomplete or unfinished:
        return ExitCode.FAILED
    return ExitCode.SUCCEEDED
