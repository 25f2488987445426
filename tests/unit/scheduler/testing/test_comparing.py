"""What an evaluation calls lost, kept and open, over many draws of rows."""

from __future__ import annotations

from pathlib import Path
from random import Random

from sleipnir.scheduler.batch.lines import Line
from sleipnir.scheduler.testing.evaluation.comparing import Compared, compare
from sleipnir.scheduler.testing.evaluation.file import (
    CheckFields,
    Evaluation,
    EvaluationFields,
    GateFields,
)
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow
from sleipnir.scheduler.testing.evaluation.scoring import VersionRuns, VersionScores

ROWS = [EvaluationRow(str(n), Line(n), None, str(n // 10)) for n in range(300)]
CHECK = CheckFields(name="label", passes="value == row.expected")


def evaluation(cluster: str | None = None) -> Evaluation:
    given = EvaluationFields(rows="rows.csv", checks=[], cluster=cluster)
    return Evaluation(Path("golden.yaml"), given, (CHECK,), {"label": GateFields(drop=0.02)})


def scores(name: str, passed: list[bool]) -> VersionScores:
    by_row = {row.id: float(each) for row, each in zip(ROWS, passed, strict=True)}
    return VersionScores(VersionRuns(name, name, {}), {"label": by_row}, {"label": 0}, 0, 0)


def compared(lost: float, won: float, random: Random, cluster: str | None = None) -> Compared:
    """Compare versions of which one loses and wins rows of the other at these rates."""
    before, after = [], []
    for _ in ROWS:
        flip = random.random()
        stays = random.random() < 0.8
        before.append(flip < lost or (flip >= lost + won and stays))
        after.append(lost <= flip < lost + won or (flip >= lost + won and stays))
    (found,) = compare(evaluation(cluster), ROWS, scores("a", before), [scores("b", after)])
    return found


def test_a_planted_loss_is_found_and_no_change_is_not_called_one() -> None:
    random = Random(5)

    losses = sum(compared(0.13, 0.03, random).verdict == "lost" for _ in range(100))
    alarms = sum(compared(0.08, 0.08, random).verdict == "lost" for _ in range(100))

    assert losses >= 90
    assert alarms <= 3


def test_what_is_open_says_how_many_rows_would_decide_it() -> None:
    found = compared(0.08, 0.08, Random(1))

    assert found.verdict == "open"
    assert found.rows_needed is not None
    assert found.rows_needed > 300


def test_rows_that_belong_together_count_for_less() -> None:
    passed = [row.cluster in ("1", "2", "3") for row in ROWS]
    versions = scores("a", [True] * 300), scores("b", [not each for each in passed])

    (alone,) = compare(evaluation(), ROWS, versions[0], [versions[1]])
    (clustered,) = compare(evaluation("customer"), ROWS, versions[0], [versions[1]])

    assert alone.difference.mean == clustered.difference.mean == -0.1
    assert alone.difference.error < clustered.difference.error / 2
