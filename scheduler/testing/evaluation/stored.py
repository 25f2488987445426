"""Evaluations whose runs are stored, scored by the files that their agents have now.

The runs of a version are a batch, and what a judge said of them is another. Commands have run them;
nothing is run here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sleipnir.errors import SleipnirError
from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.document.references import is_path
from sleipnir.graphs.errors import AgentNotFound
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.client.preparation import Preparation
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.queries.batches import BatchRow
from sleipnir.scheduler.testing.evaluation.batches import EvaluationBatch, prefix_of
from sleipnir.scheduler.testing.evaluation.file import (
    Evaluation,
    evaluation_files,
    read_evaluation,
)
from sleipnir.scheduler.testing.evaluation.report import BASELINE, CURRENT, EvaluationReport
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow, digests_of, read_rows
from sleipnir.scheduler.testing.evaluation.running import (
    RowRun,
    by_row,
    ended_rows,
    line_id,
    read_runs,
)
from sleipnir.scheduler.testing.evaluation.scoring import (
    JudgeQuestions,
    VersionRuns,
    VersionScores,
    score_version,
    sum_usd,
)

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

MOST_BATCHES: Final = 100  # of one evaluation
_MOST_VERSIONS: Final = 6  # that are scored beside each other
_MOST_RUNS: Final = 20_000


@dataclass(frozen=True, slots=True)
class StoredEvaluation:
    """The batches of an evaluation, the newest first."""

    versions: Sequence[tuple[EvaluationBatch, BatchRow]]
    judged: Sequence[EvaluationBatch]

    def judged_of(self, rows: EvaluationBatch, check: str) -> EvaluationBatch | None:
        """Return what a judge said last of the rows of a version."""
        wanted = (rows.version, rows.rows, check)
        found = (each for each in self.judged if (each.version, each.rows, each.check) == wanted)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class WrittenEvaluation:
    """An evaluation as its files are now."""

    evaluation: Evaluation
    rows: Sequence[EvaluationRow]
    counts: Mapping[str, int]  # of the first rows, by their digest
    current: str | None  # the version of the agent; None: it cannot be run


@dataclass(frozen=True, slots=True)
class ScoredEvaluation:
    """Versions on the same rows; the baseline first."""

    evaluation: Evaluation
    rows: Sequence[EvaluationRow]
    versions: Sequence[VersionScores]
    report: EvaluationReport


def read_stored(client: Client, agent: str, name: str) -> StoredEvaluation:
    """Return what is stored of an evaluation."""
    page = client.queries.list_batches(MOST_BATCHES, prefix=prefix_of(agent, name))
    batches = [
        (batch, row)
        for row in page.entries
        if (batch := EvaluationBatch.named(row.name)) is not None
    ]
    return StoredEvaluation(
        [(batch, row) for batch, row in batches if batch.check is None],
        [batch for batch, _ in batches if batch.check is not None],
    )


def full_version(client: Client, wanted: EvaluationBatch) -> str:
    """Return the one stored version that begins with the digits of the wanted one.

    If none on these rows does, one on others may; else the digits are returned as they are.

    Raises:
        SubmissionRefused: several do.
    """
    stored = read_stored(client, wanted.agent, wanted.evaluation).versions
    begin_so = [each for each, _ in stored if each.version.startswith(wanted.version)]
    same = {each.version for each in begin_so if each.rows == wanted.rows}
    found = sorted(same or {each.version for each in begin_so})
    if len(found) > 1:
        raise SubmissionRefused(
            f"{wanted.agent}@{wanted.version}: several versions begin so: {listing(found)}"
        )
    return found[0] if found else wanted.version


def runs_on_other_rows(
    client: Client,
    wanted: EvaluationBatch,
    rows: Sequence[EvaluationRow],
    *,
    with_state: bool = False,
) -> dict[str, Sequence[RowRun]]:
    """Return a version's runs of these rows that it was given among others, the newest of each.

    A row that has something else in it now is another one, whatever its id.
    """
    found: dict[str, Sequence[RowRun]] = {}
    for batch, _ in read_stored(client, wanted.agent, wanted.evaluation).versions:
        if batch.version != wanted.version or batch.rows == wanted.rows:
            continue
        runs = read_runs(client, batch.name, with_state=with_state)
        for row in rows:
            run = None if row.id in found else runs.get(row.id)
            if run is not None and run.is_final and _was_given(client, run.run_id, row):
                found[row.id] = [run]
    return found


def _was_given(client: Client, run_id: str, row: EvaluationRow) -> bool:
    run = client.queries.run(run_id)
    seeds = next(iter(client.queries.checkpoints(run_id))).writes
    given = {key: seeds.get(key) for key in run.context.seeds}
    is_live = run.context.replay is None
    variables = run.context.submitted_vars
    return (
        is_live
        and given == dict(row.line.state)
        and (seeds.get(PROMPT_KEY) or "") == row.line.prompt
        and {**variables, **row.line.variables} == dict(variables)
    )


def read_written(client: Client, agent: str, name: str) -> WrittenEvaluation | None:
    """Return an evaluation as it is written; None if there is no such file here.

    Paths are not accepted: remote users must not choose which directories are read.

    Raises:
        SleipnirError: its files cannot be used.
    """
    try:
        directory = None if is_path(agent) else client.search.find(agent)
    except AgentNotFound:
        directory = None
    file = None if directory is None else evaluation_files(directory).get(name)
    if file is None:
        return None
    evaluation, findings = read_evaluation(file)
    if evaluation is None:
        raise SubmissionRefused("\n".join(map(str, findings)))
    rows = read_rows(evaluation)
    counts = {digest: number for number, digest in enumerate(digests_of(rows), 1)}
    return WrittenEvaluation(evaluation, rows, counts, _current_version(client, agent))


def score_stored(
    client: Client,
    stored: StoredEvaluation,
    written: WrittenEvaluation,
    *,
    baseline: str | None = None,
    digest: str | None = None,
) -> ScoredEvaluation | None:
    """Score versions by their runs that have ended; None if there are none of these rows.

    Args:
        baseline: the version to compare with; None: the accepted one, or else the oldest.
        digest: of the rows; None: those that were run last.

    Raises:
        SubmissionRefused: there are too many runs, or a check cannot be evaluated.
    """
    known = [each for each, _ in stored.versions if each.rows in written.counts]
    digest = digest or next((each.rows for each in known), None)
    if digest is None or digest not in (each.rows for each in known):
        return None
    rows = written.rows[: written.counts[digest]]
    same = [(each, row) for each, row in stored.versions if each.rows == digest]
    wanted = baseline or written.evaluation.accepted_version()
    batches = _chosen(same, wanted)
    with_state = written.evaluation.reads_state
    runs = {each: read_runs(client, each.name, with_state=with_state) for each in batches}
    repeat = min(_repeat(rows, found) for found in runs.values())
    given = replace(written.evaluation.given, repeat=repeat)
    evaluation = replace(written.evaluation, given=given)
    has_baseline = len(batches) > 1 or batches[0].version == wanted
    names = [each.version for each in batches]
    if has_baseline:
        names[0] = BASELINE
    names = [CURRENT if name == written.current else name for name in names]
    scoring = _Scoring(client, stored, evaluation, rows)
    versions = [
        scoring.of(each, name, found)
        for name, (each, found) in zip(names, runs.items(), strict=True)
    ]
    report = EvaluationReport(
        batches[0].agent, evaluation, rows, versions, has_baseline=has_baseline
    )
    return ScoredEvaluation(evaluation, rows, versions, report)


def _chosen(
    same: Sequence[tuple[EvaluationBatch, BatchRow]], baseline: str | None
) -> list[EvaluationBatch]:
    """Return the versions to score: the baseline, or else the oldest, and then the newest ones."""
    found = (pair for pair in same if baseline and pair[0].version.startswith(baseline))
    first = next(found, same[-1])
    runs = first[1].runs
    if runs > _MOST_RUNS:
        raise SubmissionRefused(
            f"{runs:,} runs are more than a page scores, {_MOST_RUNS:,}; "
            f"use `sleipnir eval {first[0].agent} {first[0].evaluation}`"
        )
    chosen = [first[0]]
    for batch, row in [pair for pair in same if pair is not first][: _MOST_VERSIONS - 1]:
        runs += row.runs
        if runs > _MOST_RUNS:
            break
        chosen.append(batch)
    return chosen


def _repeat(rows: Sequence[EvaluationRow], runs: Mapping[str, RowRun]) -> int:
    """Return how often rows were run."""
    number = 1
    while any(line_id(row, number + 1) in runs for row in rows):
        number += 1
    return number


@dataclass(frozen=True, slots=True)
class _Scoring:
    client: Client
    stored: StoredEvaluation
    evaluation: Evaluation
    rows: Sequence[EvaluationRow]

    def of(self, batch: EvaluationBatch, name: str, runs: Mapping[str, RowRun]) -> VersionScores:
        """Return the scores of the rows whose runs have all ended."""
        repeat, checks = self.evaluation.given.repeat, self.evaluation.checks
        ended = ended_rows(by_row(self.rows, repeat, runs), repeat)
        judged: dict[tuple[str, str], float | None] = {}
        costs: list[float | None] = []
        for check in checks:
            replies = self.stored.judged_of(batch, check.name)
            if check.judge is not None and replies is not None:
                questions = JudgeQuestions.about(check.name, self.rows, ended)
                given, cost = questions.judgements(read_runs(self.client, replies.name))
                judged.update(given)
                costs.append(cost)
        of = VersionRuns(name, batch.version, ended, sum_usd(costs))
        return score_version(self.rows, checks, of, judged)


def _current_version(client: Client, agent: str) -> str | None:
    bundles: dict[str, bytes] = {}
    preparation = Preparation(client.store.settings, client.search, bundles.__setitem__)
    try:
        ready = preparation.prepare(agent)
    except SleipnirError:  # a submission says why
        return None
    return AgentVersions(bundles).of(ready.digest, ready.agents)
