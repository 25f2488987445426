"""One call of `sleipnir test`: selects cases, runs them, reports as pytest does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import click

from sleipnir.records import dataclass
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.run_result import print_json
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.errors import Terminated
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.testing.cases import Case, read_all_cases
from sleipnir.scheduler.testing.running import CaseSession, Result
from sleipnir.scheduler.views.text.terminal_output import printable, style

_RULE_WIDTH = 79


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of cases to run."""

    names: tuple[str, ...] = ()  # of cases or files; none: all
    part: str | None = None  # part of an id, ignoring case

    def of(self, cases: Sequence[Case], agent: str) -> list[Case]:
        """Return the selected cases.

        Raises:
            click.UsageError: a name matches no case, or nothing is selected.
        """
        for name in self.names:
            if not any(_is_named(case, name) for case in cases):
                known = ", ".join(case.id for case in cases)
                raise click.UsageError(f"agent '{agent}' has no case '{name}' (it has: {known})")
        chosen = [
            case
            for case in cases
            if (not self.names or any(_is_named(case, name) for name in self.names))
            and (self.part or "").lower() in case.id.lower()
        ]
        if not chosen:
            raise click.UsageError(f"none of {len(cases)} cases of agent '{agent}' matches")
        return chosen


def _is_named(case: Case, name: str) -> bool:
    return name in (case.id, case.given.name, case.file.stem, case.file.name) or (
        Path(name).name == case.file.name
    )


def run_tests(
    client: Client,
    options: Options,
    agent: str,
    selection: Selection,
    *,
    exitfirst: bool,
    record: bool,
) -> ExitCode:
    """Run the selected cases; return the exit code.

    Raises:
        click.UsageError: there is nothing to run.
    """
    prepared = client.prepare(agent)
    directory = client.search.find(agent)
    cases, findings = read_all_cases(directory)
    if findings:
        click.echo("\n".join(map(str, findings)), err=True)
        return ExitCode.USAGE
    if not cases:
        raise click.UsageError(
            f"agent '{prepared.name}' has no test cases: add some to {directory / 'tests'}/*.yaml"
        )
    chosen = selection.of(cases, prepared.name)
    began_at = monotonic()
    report = _Report(options, chosen)
    session = CaseSession(client, prepared, directory.absolute(), record)
    try:
        with closing(session.results(chosen)) as results:
            for result in results:
                report.add(result)
                if exitfirst and not result.passed:
                    break
    except (KeyboardInterrupt, Terminated):
        options.say(f"\n{report.interruption()}")
        raise
    report.end(prepared.name, monotonic() - began_at)
    return ExitCode.FAILED if report.failed else ExitCode.SUCCEEDED


class _Report:
    """The report of the results, for people or programs."""

    def __init__(self, options: Options, cases: Sequence[Case]) -> None:
        self._options = options
        self._cases = cases
        self._results: list[Result] = []
        self._prose = not options.json

    @property
    def failed(self) -> list[Result]:
        return [result for result in self._in_order() if not result.passed]

    def _in_order(self) -> list[Result]:
        return sorted(self._results, key=lambda result: self._cases.index(result.case))

    def add(self, result: Result) -> None:
        """Report a finished case."""
        self._results.append(result)
        if not self._prose or self._options.quiet:
            return
        color = "green" if result.passed else "red"
        if self._options.verbosity:
            word = style("PASSED" if result.passed else "FAILED", fg=color)
            click.echo(f"{printable(result.case.id)} {word} ({result.elapsed_s:.2f}s)")
        else:
            click.echo(style("." if result.passed else "F", fg=color), nl=False)

    def interruption(self) -> str:
        """Return the message after an interruption."""
        done = f"{len(self._results)} of {len(self._cases)} cases"
        return f"interrupted after {done}, {len(self.failed)} failed; the other runs are cancelled"

    def end(self, agent: str, elapsed_s: float) -> None:
        """Print the final report."""
        if not self._prose:
            print_json(self._document(agent, elapsed_s))
            return
        if not (self._options.quiet or self._options.verbosity):
            click.echo()
        for result in self.failed:
            _explain(result)
        counts = [
            f"{count} {word}"
            for count, word in (
                (len(self.failed), "failed"),
                (len(self._results) - len(self.failed), "passed"),
            )
            if count
        ]
        color = "red" if self.failed else "green"
        click.echo(style(f"{', '.join(counts)} in {elapsed_s:.2f}s", fg=color))

    def _document(self, agent: str, elapsed_s: float) -> dict[str, Any]:
        return {
            "agent": agent,
            "passed": len(self._results) - len(self.failed),
            "failed": len(self.failed),
            "elapsed_s": elapsed_s,
            "usage": sum((result.usage for result in self._results), NO_USAGE).to_json(),
            "cases": [_document(result) for result in self._in_order()],
        }


def _document(result: Result) -> dict[str, Any]:
    return {
        "id": result.case.id,
        "file": str(result.case.file),
        "line": result.case.line,
        "passed": result.passed,
        "problems": list(result.problems),
        "run_id": result.run_id,
        "elapsed_s": result.elapsed_s,
        "usage": result.usage.to_json(),
    }


def _explain(result: Result) -> None:
    case = result.case
    click.echo(style(f" {printable(case.id)} ".center(_RULE_WIDTH, "_"), fg="red"))
    run = f": run {result.run_id}" if result.run_id is not None else ""
    click.echo(f"{case.file}:{case.line}{run}")
    for problem in result.problems:
        first, *more = printable(problem).split("\n")
        click.echo("\n".join((f"E  {first}", *(f"E    {line}" for line in more))))
