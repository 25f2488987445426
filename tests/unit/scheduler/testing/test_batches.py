"""The batches of evaluations, by their names."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.testing.evaluation.batches import EvaluationBatch

ROWS = EvaluationBatch("sorter", "a:b", "0123456789ab", "01234567")


@pytest.mark.parametrize(
    "batch",
    [ROWS, EvaluationBatch("sorter", "golden", "0" * 12, "0" * 8, "is:kind", "f" * 12)],
)
def test_a_batch_is_known_by_its_name(batch: EvaluationBatch) -> None:
    assert EvaluationBatch.named(batch.name) == batch


@pytest.mark.parametrize(
    "name",
    ["mine", ROWS.name[1:], f"{ROWS.name}0", f"{ROWS.name}:kind", ROWS.name.replace("sorter", "")],
)
def test_other_batches_are_of_no_evaluation(name: str) -> None:
    assert EvaluationBatch.named(name) is None
