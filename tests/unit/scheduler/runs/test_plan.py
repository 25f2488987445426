"""What follows from a finished step, decided without any service."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from sleipnir.graphs.limits import MAX_BRANCHES
from sleipnir.graphs.schema import Graph
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.runs.plan import Branch, Plan, plan_step
from tests.support.graphs import make_graph

NODES = {
    **{name: {"type": "script", "script": f"{name}.sh"} for name in ("a", "b", "c", "B")},
    "l": {"type": "llm", "prompt": "x"},
    "y": {"type": "end"},
    "z": {"type": "end"},
}


def graph(**reducers: str) -> Graph:
    return make_graph({"name": "g", "start": "a", "nodes": NODES, "reducers": reducers})


def wrote(*targets: str, tolerated: str | None = None, **values: Any) -> Branch:
    return Branch(
        {key: encode(value) for key, value in values.items()}, targets, tolerated=tolerated
    )


def ended(output: str = "", **values: Any) -> Branch:
    return Branch({k: encode(v) for k, v in values.items()}, ended=True, output=output)


def plan(
    of: Graph | None = None, current: dict[str, Any] | None = None, **branches: Branch
) -> Plan:
    texts = {key: encode(value) for key, value in (current or {}).items()}
    return plan_step(of or graph(), branches, texts)


def failure(found: Plan) -> Failure:
    assert found.failure is not None
    assert (found.status, found.writes, found.frontier) == ("failed", {}, ())
    return found.failure


def test_the_frontier_is_the_set_of_all_targets_in_id_order() -> None:
    found = plan(a=wrote("c", "b"), b=wrote("b", "B"))

    assert (found.status, found.frontier) == ("", ("B", "b", "c"))


def test_writes_of_all_branches_are_merged() -> None:
    assert plan(a=wrote("z", x=1), b=wrote("z", y=[2])).writes == {"x": "1", "y": "[2]"}


def test_the_plan_does_not_depend_on_who_finished_first() -> None:
    branches = {"a": wrote("z", k="a"), "b": wrote("z", k="b"), "B": wrote("z", k="B")}

    plans = [
        plan_step(graph(k="append"), dict(order), {"k": "[]"})
        for order in permutations(branches.items())
    ]

    assert plans[0].writes == {"k": '["B","a","b"]'}
    assert all(found == plans[0] for found in plans)


def test_a_reducer_starts_from_the_current_value_even_for_one_writer() -> None:
    found = plan(graph(k="sum", j="append"), {"k": 40}, a=wrote("z", k=2, j=None))

    assert found.writes == {"k": "42", "j": "[null]"}


def test_two_writers_without_a_reducer_are_refused_even_if_they_agree() -> None:
    found = failure(plan(b=wrote("z", k=1), a=wrote("z", k=1)))

    assert (found.code, found.node) == ("R008", None)
    assert found.message == (
        "nodes a, b wrote 'k' in the same super-step; declare a reducer for it or rename"
    )


def test_a_value_its_reducer_cannot_take_is_refused() -> None:
    assert failure(plan(graph(k="merge"), a=wrote("z", k=1))).code == "R009"


def test_a_sum_that_is_too_long_to_be_stored_is_refused() -> None:
    longest = 10**4_300 - 1

    found = failure(plan(graph(k="sum"), {"k": longest}, a=wrote("z", k=longest)))

    assert (found.code, found.message) == (
        "R009",
        "reducer 'sum' on key 'k': the result has too many digits",
    )


def test_errors_of_failed_scripts_are_joined_in_id_order() -> None:
    found = plan(
        b=wrote("z", tolerated="2", error="second"), a=wrote("z", tolerated="1", error="first")
    )

    assert json.loads(found.writes["error"]) == "first\nsecond"


@pytest.mark.parametrize(
    "other", [wrote("z", error="said so"), wrote("z", tolerated="1", error={"no": "text"})]
)
def test_any_other_error_beside_a_failed_script_is_refused(other: Branch) -> None:
    found = plan(a=wrote("z", tolerated="1", error="first"), l=other)

    assert failure(found).code == "R008"


def test_a_reducer_for_error_takes_each_by_itself() -> None:
    found = plan(
        graph(error="append"),
        a=wrote("z", tolerated="1", error="first"),
        b=wrote("z", tolerated="2", error="second"),
    )

    assert found.writes["error"] == '["first","second"]'


def test_an_end_ends_the_run_and_drops_the_other_routes() -> None:
    found = plan(a=wrote("b", "c", x=1), z=ended("done", x2=2))

    assert (found.status, found.output, found.frontier) == ("succeeded", "done", ())
    assert found.dropped == ("a -> b", "a -> c")
    assert found.writes == {"x": "1", "x2": "2"}


def test_an_empty_output_is_an_output() -> None:
    assert plan(z=ended("")).status == "succeeded"


def test_an_end_s_writes_come_last() -> None:
    found = plan(
        graph(k="append"), {"k": []}, l=wrote("z", k="l"), B=ended(k="end"), c=wrote("z", k="c")
    )

    assert found.writes["k"] == '["c","l","end"]'


def test_several_ends_are_refused() -> None:
    found = failure(plan(z=ended(), y=ended(), a=wrote("gone")))

    assert found.code == "R007"
    assert "y, z" in found.message


def test_a_route_to_nowhere_is_blamed_on_its_node() -> None:
    found = failure(plan(a=wrote("b"), b=wrote("gone", k=1)))

    assert (found.code, found.node) == ("R003", "b")


def test_a_route_to_nowhere_counts_even_beside_an_end() -> None:
    assert failure(plan(a=wrote("gone"), z=ended())).code == "R003"


def test_no_target_at_all_is_an_empty_frontier() -> None:
    assert failure(plan(a=wrote(k=1))).code == "R006"


def test_the_failure_of_the_smallest_id_is_reported() -> None:
    first, second = Failure("R013", "first", "b"), Failure("R011", "second", "c")

    found = plan(
        c=Branch({}, failure=second),
        b=Branch({}, failure=first),
        a=wrote("gone", k=1),
        l=Branch({}, discarded=True),
    )

    assert failure(found) == first


def test_a_step_has_no_more_nodes_than_validation_allows_one_next() -> None:
    names = [f"n{i}" for i in range(MAX_BRANCHES + 1)]
    wide = make_graph(
        {"name": "g", "start": "a", "nodes": {**NODES, **dict.fromkeys(names, NODES["z"])}}
    )

    assert plan(wide, a=wrote(*names[1:])).frontier == tuple(sorted(names[1:]))
    assert failure(plan(wide, a=wrote(*names[1:]), b=wrote(names[0]))).code == "R021"
    narrow = plan_step(wide, {"a": wrote(*names[:3])}, {}, 2)
    assert failure(narrow).message == (
        "the next step would have 3 nodes; the limit is 2 (max_branches)"
    )


def test_a_discarded_branch_without_a_failure_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="'a' was discarded"):
        plan(a=Branch({}, discarded=True))


def test_a_branch_survives_being_staged() -> None:
    branch = Branch(
        {"k": '{"я":[1.0]}'},
        ("a", "b"),
        failure=Failure("R011", "no", "m"),
        tolerated="why",
        timing={"ms": 3, "usage": [1, 2, None]},
    )

    assert Branch.from_json(branch.to_json()) == branch
    assert Branch.from_json(ended("done").to_json()) == ended("done")


def test_a_long_message_of_a_failure_is_cut() -> None:
    kept = Failure("R013", "x" * 100_000, "a").to_json()["message"]

    assert kept == "x" * 8_000 + "…"
