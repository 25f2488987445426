"""The lines that a plan is for, and the first state of each one's run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.identity import name_of_file
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import Format, request_of
from sleipnir.scheduler.cli.arguments import json_or_text
from sleipnir.scheduler.cli.batch.input import STDIN, InputAgent, InputFile, load
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.submission import variables_from_environment
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.views.text.terminal_output import printable
from sleipnir.worker.plan.making import first_state, state_of_any_run


@dataclass(frozen=True, slots=True)
class PlanCall:
    """The parameters of one call as parsed by click."""

    agent: str
    source: str | None  # None: one run
    form: Format | None
    delimiter: str | None
    encoding: str | None
    skip_bad: bool
    attach: Sequence[str]
    columns: Sequence[tuple[str, str]]
    seeds: Sequence[tuple[str, str]]
    variables: Sequence[tuple[str, str]]
    sample: int | None
    seed: int
    name: str | None
    budget: float | None
    sarif: Path | None
    economy: float | None = None  # seconds
    aside: bool = False  # print to stderr


@dataclass(frozen=True, slots=True)
class PlannedLines:
    """The lines of the input, or one run without."""

    options: Options
    call: PlanCall
    agent: PreparedAgent
    directory: Path
    ledger: Ledger

    def defaults(self) -> Request:
        """Return what holds for all lines."""
        return Request(
            state={key: json_or_text(text) for key, text in self.call.seeds},
            variables={
                **variables_from_environment(self.agent.name, os.environ),
                **dict(self.call.variables),
            },
            workdir=str(Path().absolute()),
            session=TEMPORARY,
            economy_s=self.call.economy,
            user=settings_of(self.options).identity,
        )

    def default_name(self) -> str:
        """Return the name that `batch` would give."""
        if self.call.source == STDIN:
            raise click.UsageError("--sample of standard input needs the batch's --name")
        return name_of_file(self.agent.name, Path(self.call.source or ""))

    def states(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield number and first state of each line, as far as it is known; at least one."""
        call, defaults = self.call, self.defaults()
        if call.source is None:
            yield 1, state_of_any_run(self.agent, defaults)
            return
        file = InputFile(
            call.source,
            call.form,
            call.delimiter,
            call.encoding,
            call.skip_bad,
            call.attach,
            call.columns,
        )
        seeded = partial(first_state, self.agent)
        target = InputAgent(self.agent.name, self.agent.graph, self.directory, seeded)
        load(file, target, self.ledger, defaults, self.options)
        if not len(self.ledger):
            raise SubmissionRefused(f"{printable(file.name)} has no lines, so there is no plan")
        last = 0
        while page := self.ledger.following(last):
            for item in page:
                request = request_of(item.content, defaults)
                yield item.number, first_state(self.agent, request)
            last = page[-1].number
