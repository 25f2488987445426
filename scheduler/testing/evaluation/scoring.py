"""Scores the rows of a version by the checks of an evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Self

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.operators import type_name
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.lines import Line
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.testing.evaluation.file import CheckFields
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow
from sleipnir.scheduler.testing.evaluation.running import InheritedUse, RowRun

# Of a judge's run, or None: it gave no value.
Judged = Mapping[tuple[str, str], float | None]


@dataclass(frozen=True, slots=True)
class VersionRuns:
    """A version with its runs of each row, by the row's id."""

    name: str  # in reports
    version: str
    runs: Mapping[str, Sequence[RowRun]]
    judge_usd: float | None = 0.0  # None: a price is not known
    not_started: int = 0  # rows, as a budget was used up
    written: Judged | None = None  # what judges gave, if it was read from files

    def inherited(self) -> list[InheritedUse]:
        """Return what each forked row has inherited."""
        runs = (run for some in self.runs.values() for run in some)
        return [run.inherited for run in runs if run.inherited is not None]


@dataclass(frozen=True, slots=True)
class VersionScores:
    """What a version reached in each check, by row; without rows that a budget stopped."""

    of: VersionRuns
    scores: Mapping[str, Mapping[str, float]]  # check → row → score from 0 to 1
    unjudged: Mapping[str, int]  # by check
    failed: int  # rows of which no run succeeded
    stopped: int  # rows that a budget stopped


def score_version(
    rows: Sequence[EvaluationRow],
    checks: Sequence[CheckFields],
    of: VersionRuns,
    judged: Judged,
) -> VersionScores:
    """Score all rows with runs; one whose run did not succeed has 0 in each check.

    Args:
        judged: what judges gave, by run and check.

    Raises:
        SubmissionRefused: a check fails for a row, or has another value than it should.
    """
    scores: dict[str, dict[str, float]] = {check.name: {} for check in checks}
    unjudged = dict.fromkeys(scores, 0)
    failed, stopped = 0, of.not_started
    for row in rows:
        runs = of.runs.get(row.id, ())
        if not runs:
            continue
        if any(run.is_stopped_by_budget for run in runs):
            stopped += 1
            continue
        failed += not any(run.succeeded for run in runs)
        for check in checks:
            found = [_score(check, row, run, judged) for run in runs]
            known = [score for score in found if score is not None]
            unjudged[check.name] += len(known) < len(found)
            if known:
                scores[check.name][row.id] = fmean(known)
    return VersionScores(of, scores, unjudged, failed, stopped)


def _score(check: CheckFields, row: EvaluationRow, run: RowRun, judged: Judged) -> float | None:
    """Return a score from 0 to 1; None if a judge gave none."""
    if not run.succeeded:
        return 0.0
    if check.judge is not None:
        return judged.get((run.run_id, check.name))
    text = check.passes if check.passes is not None else check.score or ""
    names = {
        "row": row.names(),
        "output": run.output,
        "value": run.value,
        "status": run.status,
        "error": run.error,
        "failures": run.failures,
        "usage": run.usage,
        "elapsed_s": run.elapsed_s,
    }
    if run.state is not None:
        names["state"] = run.state
    try:
        value = parse(text).evaluate(names)
    except ExpressionFailed as error:
        raise _refused(check, row, str(error)) from error
    if check.passes is not None:
        if not isinstance(value, bool):
            raise _refused(check, row, f"{type_name(value)}, not true or false")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _refused(check, row, f"{_shown(value)}, not a number from 0 to 1")
    return float(value)


@dataclass(frozen=True, slots=True)
class JudgeQuestions:
    """What a judge is asked about the runs of a version that succeeded, by run id."""

    check: str
    asked: Mapping[str, Line]

    @classmethod
    def about(
        cls, check: str, rows: Sequence[EvaluationRow], runs: Mapping[str, Sequence[RowRun]]
    ) -> Self:
        """Return the questions of a check."""
        of_rows = ((row, run) for row in rows for run in runs.get(row.id, ()) if run.succeeded)
        numbered = enumerate(of_rows, 1)
        asked = {run.run_id: _question(n, check, row, run) for n, (row, run) in numbered}
        return cls(check, asked)

    def judgements(self, replies: Mapping[str, RowRun]) -> tuple[Judged, float | None]:
        """Return what the judge gave, and what its runs cost in USD, if that is known.

        Args:
            replies: its runs, by the id of the question.
        """
        pairs = ((run_id, replies.get(line.id or "")) for run_id, line in self.asked.items())
        known = {run_id: reply for run_id, reply in pairs if reply is not None}
        given = {
            (run_id, self.check): judgement_of(reply.value) if reply.succeeded else None
            for run_id, reply in known.items()
        }
        return given, sum_usd(reply.cost_usd for reply in known.values())


def _question(number: int, check: str, row: EvaluationRow, run: RowRun) -> Line:
    """Return the line by which a judge is asked; another question about a run has another id."""
    given = {"row": row.names(), "output": run.output, "value": run.value, "check": check}
    prompt = encode(given)
    digest = hashlib.sha256(prompt.encode()).hexdigest()[:8]
    return Line(number, id=f"{run.run_id}-{digest}", prompt=prompt)


def sum_usd(costs: Iterable[float | None]) -> float | None:
    """Return the sum; None if a price is not known."""
    known = list(costs)
    return None if None in known else sum(cost or 0.0 for cost in known)


def judgement_of(value: Any) -> float | None:
    """Return the score in a judge's result: true, false, or an object with a `score`."""
    if isinstance(value, dict):
        value = value.get("score")
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    return None


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else type_name(value)


def _refused(check: CheckFields, row: EvaluationRow, why: str) -> SubmissionRefused:
    return SubmissionRefused(
        f"check '{check.name}' of row '{printable(row.id)}': {why}, so nothing was scored"
    )
