"""Failures that a run outlives: how they are counted, bounded and told."""

from __future__ import annotations

import json

import pytest

from sleipnir.scheduler.runs.failures import (
    KEPT_FAILURES,
    MESSAGE_BYTES,
    NodeFailure,
    StepFailures,
    cause_first,
    in_order,
    is_of_budget,
    of_items,
    of_node,
    read_failure,
)
from sleipnir.scheduler.runs.plan import Branch

TRACEBACK = """Traceback (most recent call last):
  File "scripts/sum.py", line 3, in <module>
    total = sum(rows)
            ^^^^^^^^^
  File "scripts/rows.py", line 9, in __add__
    raise ValueError(
ValueError: no 2s
in row 7"""


@pytest.mark.parametrize(
    ("code", "message", "is_so"),
    [
        ("R025", "budget 'day' does not allow this model call", True),
        ("R015", "agent 'a' failed (run 0a1b): R015: agent 'b' failed (run 2c): R025: so", True),
        ("R015", "map 'm' item [1] failed: agent 'a' failed (run 0a1b): R025: budget", True),
        ("R015", "agent 'a' failed (run 0a1b): R013: exit code 3: R025: of line 7", False),
        ("R011", "map 'm' item [1] failed: (run 0a1b): R025: budget", False),
    ],
)
def test_a_budget_s_refusal_is_told_through_children(code: str, message: str, is_so: bool) -> None:
    assert is_of_budget(code, message) == is_so


def test_the_first_of_each_kind_are_kept_and_all_are_counted() -> None:
    items = [(index, "no") for index in range(KEPT_FAILURES + 5)]
    failures = of_items("m", 2, items, 10_000) + of_node("s", 2, "R013", "why", handled=True)

    kinds = json.loads(failures.to_text())

    assert kinds["failed_nodes"]["count"] == 10_000
    assert len(kinds["failed_nodes"]["first"]) == KEPT_FAILURES
    assert kinds["handled_failures"]["count"] == 1


def test_a_failure_is_read_as_it_was_stored() -> None:
    failure = NodeFailure("s", 2, None, "R013", "why", handled=True)

    (text,) = json.loads(StepFailures((failure,), handled=1).to_text())["handled_failures"]["first"]

    assert read_failure(text) == failure


def test_a_long_message_keeps_its_beginning() -> None:
    found = NodeFailure("s", 2, None, "R013", "é" * MESSAGE_BYTES).to_json()["message"]

    assert found == "é" * (MESSAGE_BYTES // 2) + "…"


def test_a_staged_branch_keeps_its_failures() -> None:
    branch = Branch(
        {}, ("z",), tolerated="why", failures=of_node("s", 2, "R013", "why", handled=False)
    )

    assert Branch.from_json(branch.to_json()) == branch
    assert "failures" not in Branch({}, ("z",)).to_json()


def test_failures_are_told_by_step_node_and_index() -> None:
    named = [("b", 1, None), ("a", 2, 0), ("a", 2, 11), ("c", 2, None)]
    failures = [NodeFailure(node, step, index, "R011", "") for node, step, index in named]

    assert in_order(reversed(failures)) == failures


def test_what_was_raised_comes_before_its_traceback() -> None:
    lines = cause_first(TRACEBACK).splitlines()

    assert lines[:2] == ["ValueError: no 2s", "Traceback (most recent call last):"]
    assert lines[-1] == "in row 7"
    assert sorted("\n".join(lines).split()) == sorted(TRACEBACK.split())


def test_of_several_tracebacks_the_last_one_tells_the_cause() -> None:
    text = TRACEBACK + "\n\nDuring handling, another:\n\n" + TRACEBACK.replace("ValueError", "Late")

    assert cause_first(text).startswith("Late: no 2s\n")


def test_without_a_traceback_the_last_line_tells_the_cause() -> None:
    assert cause_first("looking up Hooli\nno price\n  in row 7") == (
        "no price\nlooking up Hooli\n  in row 7"
    )
    assert cause_first("x.ts:3\nError: no price\n    at x.ts:3:7\n\nNode.js v22.1.0").startswith(
        "Error: no price\nx.ts:3"
    )


def test_a_single_line_stays_as_it_is() -> None:
    assert cause_first("exit code 1: no such file") == "exit code 1: no such file"
    assert cause_first('  File "x", line 1') == '  File "x", line 1'
