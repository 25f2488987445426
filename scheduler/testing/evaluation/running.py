"""Runs a version of an agent on the rows of an evaluation, as lines of a batch of its own.

What has been run of a version is never run again: the batch has the version and the rows in its
name.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import Line
from sleipnir.scheduler.batch.options import BatchOptions, Progress, submit
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.runs.model import FINAL, Run, Usage
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow
from sleipnir.scheduler.views.documents import ended_document

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.run import EndedRunDocument

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
    """What a run of a row came to: the names that checks read, with what it has inherited."""

    run_id: str
    status: str
    output: str | None
    value: Any
    error: Mapping[str, Any] | None
    failures: Sequence[Mapping[str, Any]]
    usage: Mapping[str, Any]
    elapsed_s: float
    state: Mapping[str, Any] | None = None  # where a check reads it
    inherited: InheritedUse | None = None  # of a fork

    @property
    def succeeded(self) -> bool:
        """Whether there is something to check."""
        return self.status == "succeeded"

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.status in FINAL

    @property
    def is_stopped_by_budget(self) -> bool:
        """Whether a budget did not allow one of its calls."""
        return self.error is not None and self.error["code"] == BUDGET

    @property
    def cost_usd(self) -> float | None:
        """What it cost; None if a price is not known."""
        cost: float | None = self.usage["cost_usd"]
        return cost

    @property
    def tokens(self) -> int:
        """Tokens of its prompts and replies."""
        return int(self.usage["total_tokens"])


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


def read_runs(client: Client, batch: str, *, with_state: bool = False) -> dict[str, RowRun]:
    """Return what each line's newest run came to, by the line's id."""
    found: dict[str, tuple[int, RowRun]] = {}
    for run_ids in client.queries.batch_pages(batch, _AT_ONCE):
        for run in client.queries.runs(run_ids):
            if run is not None and run.item is not None:
                known = found.get(run.item)
                if known is None or known[0] < run.created_at:
                    found[run.item] = run.created_at, _row_run(client, run, with_state)
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


def ended_rows(runs: Mapping[str, Sequence[RowRun]], least: int) -> dict[str, Sequence[RowRun]]:
    """Return the runs of the rows that have so many, all of which have ended."""
    return {
        row_id: some
        for row_id, some in runs.items()
        if len(some) >= least and all(run.is_final for run in some)
    }


def line_id(row: EvaluationRow, number: int) -> str:
    """Return the id of a row's n-th run, from 1."""
    return row.id if number == 1 else f"{row.id}#{number}"


def _row_run(client: Client, run: Run, with_state: bool) -> RowRun:
    failures = client.queries.failures(run)
    ended: EndedRunDocument = ended_document(run, failures, run.ended_at or run.created_at)
    usage, seconds = run.usage, ended["elapsed_s"]
    inherited = None
    if run.inherited is not None:
        before, before_s = run.inherited.usage, run.inherited.ms / 1000
        inherited = InheritedUse(before.cost_usd, _tokens(before), before_s)
        usage, seconds = usage + before, seconds + before_s
    return RowRun(
        run.run_id,
        ended["status"],
        ended["output"],
        ended["value"],
        ended["error"],
        ended["failures"],
        usage.to_json(),
        seconds,
        client.queries.state(run.run_id) if with_state and run.is_final else None,
        inherited,
    )


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.completion_tokens
