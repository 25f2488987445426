"""What checkpoints tell: the state after a step, and where the time went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.history import (
    decisions_of,
    folded,
    moment_after,
    node_times,
    used_by_steps,
)
from sleipnir.scheduler.runs.model import Checkpoint, Inherited, Usage


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
    found = moment_after(HISTORY, step).state

    assert found == state
    assert list(found) == sorted(found)


@pytest.mark.parametrize("step", [-1, 3])
def test_a_step_that_was_not_committed_is_refused(step: int) -> None:
    with pytest.raises(IndexError, match=f"step {step} does not exist; the last one is 2"):
        moment_after(HISTORY, step)


def test_the_last_decisions_are_kept_and_the_others_counted() -> None:
    def route(visit: int) -> dict[str, Any]:
        return {"route": {"visit": visit, "index": 1, "label": "x < 2", "to": ["a"]}}

    found = decisions_of(checkpoint(step, {}, {"gate": route(step)}) for step in range(1, 1_004))

    assert ([each.visit for each in found.last], found.earlier) == ([*range(4, 1_004)], 3)


def test_times_are_summed_by_node_slowest_first() -> None:
    rows = node_times(
        [
            checkpoint(0, {}),
            checkpoint(1, {}, {"a": {"ms": 10, "wait": 4}, "b": {"ms": 40, "parked": 39}}),
            checkpoint(2, {}, {"a": {"ms": 20, "wait": 2}, "c": {"ms": 30}}),
        ]
    )

    assert [(row.node, row.visits, row.total_ms, row.max_ms, row.avg_ms) for row in rows] == [
        ("b", 1, 40, 40, 40),
        ("a", 2, 30, 20, 15),
        ("c", 1, 30, 30, 30),
    ]
    assert [(row.wait_ms, row.parked_ms) for row in rows] == [(0, 39), (6, 0), (0, 0)]


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


def entry(step: int, **writes: Any) -> str:
    return encode(
        {"at": step, "step": step, "frontier": ["n"], "nodes": {"n": {}}, "writes": writes}
    )


def test_a_long_history_is_folded_between_its_first_and_its_newest_steps() -> None:
    entries = [entry(step, k=f"{step}" + "x" * 100, **{f"k{step % 3}": step}) for step in range(50)]

    count, shorter = folded(entries, 8_000)

    kept = [json.loads(text) for text in [*shorter, *entries[count:]]]
    assert [found["step"] for found in kept] == list(range(50))
    assert [found["nodes"] for found in kept] == 50 * [{"n": {}}]
    away = [found["step"] for found in kept if found.get("folded")]
    assert away == list(range(away[0], count - 1))
    assert shorter[: away[0]] == entries[: away[0]]
    assert (away[0], 50 - count) == (5, 11)
    assert all(kept[step]["writes"] == {} for step in away)
    history = [
        Checkpoint(f["step"], 0, f["writes"], ("n",), f["nodes"], f.get("folded", False))
        for f in kept
    ]
    whole = [checkpoint(f["step"], f["writes"]) for f in map(json.loads, entries)]
    for step in set(range(50)) - set(away):
        assert moment_after(history, step).state == moment_after(whole, step).state
    with pytest.raises(IndexError, match=f"the next stored step is {count - 1}$"):
        moment_after(history, away[0])


def test_folding_again_folds_what_was_folded_too() -> None:
    entries: list[str] = []
    for step in range(300):
        entries.append(entry(step, k="x" * 100, **{f"k{step % 7}": step}))
        if step % 50 == 49:
            count, shorter = folded(entries, 8_000)
            entries[:count] = shorter

    kept = [json.loads(text) for text in entries]
    history = [Checkpoint(f["step"], 0, f["writes"], ("n",), {}, "folded" in f) for f in kept]
    assert moment_after(history, 299).state["k3"] == 297
    assert [f["step"] for f in kept] == list(range(300))
    assert sum(1 for f in kept if len(f["writes"]) > 2) == 1


@pytest.mark.parametrize("sizes", [[1], [9_000, 9_000], [10, 9_000, 10]])
def test_a_history_of_few_steps_stays_as_it_is(sizes: list[int]) -> None:
    entries = [entry(step, k="x" * size) for step, size in enumerate(sizes)]

    assert folded(entries, 8_000) == (0, [])


def test_steps_take_as_long_as_their_slowest_nodes_and_use_what_all_used() -> None:
    taken_over = checkpoint(1, {}, {"a": {}})
    first = checkpoint(2, {}, {"b": {"ms": 5, "wait": 70, "usage": [10, 1, 0.5]}})
    wide = checkpoint(
        3,
        {},
        {"c": {"ms": 30, "wait": 4}, "d": {"ms": 20, "wait": 9, "usage": [20, 2, 0.25]}},
    )

    found = used_by_steps([checkpoint(0, {}), taken_over, first, wide])

    assert found == Inherited(Usage(30, 3, 0.75), 5 + 34)
    assert Inherited.from_text(found.to_text()) == found
    assert used_by_steps([checkpoint(0, {})]) == Inherited()
