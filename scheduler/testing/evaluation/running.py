"""Runs a version of an agent on the rows of an evaluation, as lines of a batch of its own.

What has been run of a version is never run again: the batch has the version and the rows in its
name.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import Line
from sleipnir.scheduler.batch.options import BatchOptions, Progress, submit
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.runs.model import Run, Usage
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow
from sleipnir.scheduler.views.documents import elapsed_s

_AT_ONCE = 50
BUDGET = "R025"


@dataclass(frozen=True, slots=True)
class InheritedUse:
    """The part of a row's figures that the baseline's run had used up to the fork."""

    cost_usd: float | None
    tokens: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class RowRun:
    """What a run of a row came to, with what it has inherited."""

    run_id: str
    status: str
    code: str | None  # of its failure
    output: str | None
    value: Any
    cost_usd: float | None
    tokens: int
    elapsed_s: float
    inherited: InheritedUse | None = None  # of a fork

    @property
    def succeeded(self) -> bool:
        """Whether there is something to check."""
        return self.status == "succeeded"


def version_of(client: Client, agent: PreparedAgent) -> str:
    """Return the version of an agent: a digest of what makes it act."""
    return AgentVersions(client.store.bundles).of(agent.digest, agent.agents) or agent.digest[:12]


@dataclass(frozen=True, slots=True)
class RowRunner:
    """Runs lines as a batch.

    Args:
        submit: accepts the run of a line. from_start: lines that were forked are run again.
    """

    client: Client
    defaults: Request
    on_progress: Callable[[Progress], None]
    submit: Callable[[Client, PreparedAgent, Request], None] = submit
    from_start: bool = False

    def run(self, agent: PreparedAgent, batch: str, lines: Sequence[Line]) -> None:
        """Run those of the lines that have not been run."""
        with Ledger() as ledger:
            for line in lines:
                ledger.add(line)
            if self.from_start:
                found = read_runs(self.client, batch)
                forked = {line_id for line_id, run in found.items() if run.inherited is not None}
                ledger.mark_redo(line.number for line in lines if line.id in forked)
            options = BatchOptions(
                name=batch,
                max_in_flight=sys.maxsize,
                defaults=self.defaults,
                submit=self.submit,
            )
            running = Batch(self.client, agent, ledger, options, on_progress=self.on_progress)
            for _ in running.results():
                pass


def read_runs(client: Client, batch: str) -> dict[str, RowRun]:
    """Return what each line's newest run came to, by the line's id."""
    found: dict[str, tuple[int, RowRun]] = {}
    for run_ids in client.queries.batch_pages(batch, _AT_ONCE):
        for run in client.queries.runs(run_ids):
            if run is not None and run.item is not None:
                known = found.get(run.item)
                if known is None or known[0] < run.created_at:
                    found[run.item] = run.created_at, _row_run(run)
    return {item: row_run for item, (_, row_run) in found.items()}


def lines_of(rows: Sequence[EvaluationRow], repeat: int) -> list[Line]:
    """Return the lines that rows are run as."""
    return [
        replace(row.line, id=line_id(row, number), number=place * repeat + number)
        for place, row in enumerate(rows)
        for number in range(1, repeat + 1)
    ]


def by_row(
    rows: Sequence[EvaluationRow], repeat: int, runs: Mapping[str, RowRun]
) -> dict[str, list[RowRun]]:
    """Return the runs of each row, by its id."""
    found: dict[str, list[RowRun]] = defaultdict(list)
    for row in rows:
        for number in range(1, repeat + 1):
            if (run := runs.get(line_id(row, number))) is not None:
                found[row.id].append(run)
    return found


def line_id(row: EvaluationRow, number: int) -> str:
    """Return the id of a row's n-th run, from 1."""
    return row.id if number == 1 else f"{row.id}#{number}"


def _row_run(run: Run) -> RowRun:
    usage, seconds = run.usage, elapsed_s(run, run.ended_at or run.created_at)
    inherited = None
    if run.inherited is not None:
        before, before_s = run.inherited.usage, run.inherited.ms / 1000
        inherited = InheritedUse(before.cost_usd, _tokens(before), before_s)
        usage, seconds = usage + before, seconds + before_s
    return RowRun(
        run.run_id,
        str(run.status),
        None if run.failure is None else run.failure.code,
        run.output,
        run.value,
        usage.cost_usd,
        _tokens(usage),
        seconds,
        inherited,
    )


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.completion_tokens
