"""What checkpoints tell: the state after a step, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.history import node_times, state_after
from scheduler.run import Checkpoint, Usage


def checkpoint(
    step: int, writes: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]] | None = None
) -> Checkpoint:
    return Checkpoint(step, 1_000 * step, writes, ("n",), nodes or {})


HISTORY = [
    checkpoint(0, {"b": 1, "a": [1]}),
    checkpoint(1, {"c": None}),
    checkpoint(2, {"a": [], "b": 1.0}),
]


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (0, {"a": [1], "b": 1}),
        (1, {"a": [1], "b": 1, "c": None}),
        (2, {"a": [], "b": 1.0, "c": None}),
    ],
)
def test_the_state_after_a_step_is_the_sum_of_all_writes(step: int, state: dict[str, Any]) -> None:
    found = state_after(HISTORY, step)

    assert found == state
    assert list(found) == sorted(found)


@pytest.mark.parametrize("step", [-1, 3])
def test_a_step_that_was_not_committed_is_refused(step: int) -> None:
    with pytest.raises(IndexError, match=f"step {step} was not committed; the last one is 2"):
        state_after(HISTORY, step)


def test_times_are_summed_by_node_slowest_first() -> None:
    rows = node_times(
        [
            checkpoint(0, {}),
            checkpoint(1, {}, {"a": {"ms": 10}, "b": {"ms": 40}}),
            checkpoint(2, {}, {"a": {"ms": 20}, "c": {"ms": 30}}),
        ]
    )

    assert [(row.node, row.visits, row.total_ms, row.max_ms, row.avg_ms) for row in rows] == [
        ("b", 1, 40, 40, 40),
        ("a", 2, 30, 20, 15),
        ("c", 1, 30, 30, 30),
    ]


def test_invocations_of_a_map_stand_under_their_branch() -> None:
    branch = {"id": "b", "visits": 3, "ms": 60, "max_ms": 50, "usage": [3, 6, 0.5]}

    rows = node_times([checkpoint(1, {}, {"m": {"ms": 55, "branch": branch}})])

    assert [(row.node, row.visits, row.total_ms, row.max_ms) for row in rows] == [
        ("b", 3, 60, 50),
        ("m", 1, 55, 55),
    ]
    assert rows[0].usage == Usage(3, 6, 0.5)


def test_usage_is_summed_and_an_unknown_price_stays_unknown() -> None:
    rows = node_times(
        [
            checkpoint(1, {}, {"a": {"ms": 1, "usage": [1, 2, 0.25]}}),
            checkpoint(2, {}, {"a": {"ms": 1, "usage": [10, 20, None]}}),
        ]
    )

    assert rows[0].usage == Usage(11, 22, None)


def test_a_history_of_seeds_only_has_no_times() -> None:
    assert node_times([checkpoint(0, {"k": 1})]) == []
