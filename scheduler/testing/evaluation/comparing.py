"""Numbers of each version, and how versions differ from the baseline on the rows of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.testing.evaluation.file import COST, CheckFields, Evaluation, GateFields
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow
from sleipnir.scheduler.testing.evaluation.scoring import VersionScores
from sleipnir.scheduler.testing.statistics.means import (
    MeanInterval,
    mean_of_passes,
    mean_of_scores,
)
from sleipnir.scheduler.testing.statistics.pairs import (
    PairedDifference,
    difference_of,
    holm,
    mcnemar,
)

Verdict: TypeAlias = Literal["kept", "lost", "open"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One check of a version beside the baseline's, or its mean cost."""

    name: str  # of the version
    check: str
    difference: PairedDifference
    won: int
    lost: int
    p: float | None  # of scores that are no passes, None
    verdict: Verdict | None  # None: nothing is demanded of it
    rows_needed: int | None  # to decide what is open


def mean_of(check: CheckFields, repeat: int, scores: VersionScores) -> MeanInterval | None:
    """Return a version's mean in a check; None if no row has a score."""
    values = list(scores.scores[check.name].values())
    if not values:
        return None
    if _is_pass(check, repeat, values):
        return mean_of_passes(round(sum(values)), len(values))
    return mean_of_scores(values)


def compare(
    evaluation: Evaluation,
    rows: Sequence[EvaluationRow],
    baseline: VersionScores,
    others: Sequence[VersionScores],
) -> list[Compared]:
    """Return each check of each version beside the baseline, p values corrected for several."""
    clusters = {row.id: row.cluster for row in rows}
    by_cluster = evaluation.given.cluster is not None
    found: list[Compared] = []
    for check in evaluation.checks:
        gate = evaluation.gates.get(check.name)
        pairs = {other.of.name: pairs_of(check.name, baseline, other) for other in others}
        flips = {
            name: _flips(some)
            for name, some in pairs.items()
            if _is_pass(check, evaluation.given.repeat, [v for pair in some.values() for v in pair])
        }
        values = holm({name: mcnemar(*flip) for name, flip in flips.items()})
        for name, some in pairs.items():
            if not some:
                continue
            differences = [new - old for old, new in some.values()]
            of = [clusters[row_id] for row_id in some] if by_cluster else None
            difference = difference_of(differences, of)
            won = sum(value > 0 for value in differences)
            lost = sum(value < 0 for value in differences)
            verdict = _verdict(gate, difference)
            needed = None
            if verdict == "open" and gate is not None and gate.drop is not None:
                needed = difference.rows_to_decide(-gate.drop)
            found.append(
                Compared(name, check.name, difference, won, lost, values.get(name), verdict, needed)
            )
    return found


def is_below_min(gate: GateFields | None, mean: MeanInterval | None) -> bool:
    """Return whether a mean is lost: even the upper end of its interval is below the least."""
    if gate is None or gate.min is None or mean is None:
        return False
    return (mean.mean if mean.high is None else mean.high) < gate.min


def mean_cost(scores: VersionScores) -> float | None:
    """Return the mean cost of a row in USD; None if a price is not known."""
    costs = [run.cost_usd for runs in scores.of.runs.values() for run in runs]
    if not costs or None in costs:
        return None
    return sum(cost or 0.0 for cost in costs) / len(scores.of.runs)


def rises_too_much(
    evaluation: Evaluation, baseline: VersionScores, other: VersionScores
) -> bool | None:
    """Return whether the mean cost is lost; None if nothing is demanded, or a price is unknown."""
    gate = evaluation.gates.get(COST)
    before, after = mean_cost(baseline), mean_cost(other)
    if gate is None or gate.rise is None or before is None or after is None:
        return None
    return after > (1 + gate.rise) * before


def _verdict(gate: GateFields | None, difference: PairedDifference) -> Verdict | None:
    if gate is None or gate.drop is None:
        return None
    if difference.low is None or difference.high is None:
        return "open"
    if difference.low >= -gate.drop:
        return "kept"
    return "lost" if difference.high < -gate.drop else "open"


def pairs_of(
    check: str, baseline: VersionScores, other: VersionScores
) -> Mapping[str, tuple[float, float]]:
    """Return the scores of the rows that both have, the baseline's first."""
    before, after = baseline.scores[check], other.scores[check]
    return {row_id: (before[row_id], after[row_id]) for row_id in before if row_id in after}


def _flips(pairs: Mapping[str, tuple[float, float]]) -> tuple[int, int]:
    won = sum(new > old for old, new in pairs.values())
    return won, sum(new < old for old, new in pairs.values())


def _is_pass(check: CheckFields, repeat: int, values: Sequence[float]) -> bool:
    is_boolean = check.passes is not None or set(values) <= {0.0, 1.0}
    return repeat == 1 and is_boolean and check.score is None


def mean_tokens(scores: VersionScores) -> float:
    """Return the mean tokens of a row."""
    tokens = sum(run.tokens for runs in scores.of.runs.values() for run in runs)
    return tokens / len(scores.of.runs) if scores.of.runs else 0.0


def mean_elapsed_s(scores: VersionScores) -> float:
    """Return the mean time of a run in seconds."""
    times = [run.elapsed_s for runs in scores.of.runs.values() for run in runs]
    return fmean(times) if times else 0.0
