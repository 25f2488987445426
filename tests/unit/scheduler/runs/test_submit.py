"""What a new run is made of: seeds, variables, limits, and the agents it may spawn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.graphs.schema import MAX_SECONDS, Graph
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, new_run_id, partition_of
from sleipnir.scheduler.runs.model import NewRun, RunContext
from sleipnir.scheduler.runs.submit import NestedTooDeep, Request, child_digest, child_run, new_run
from sleipnir.scheduler.store.keys import run_key
from tests.support.graphs import make_graph


def graph(**fields: Any) -> Graph:
    nodes = {
        "i": {"type": "input", "question": "?", "next": "z"},
        "a": {"type": "agent", "agent": "helper", "prompt": "x", "next": "z"},
        "z": {"type": "end"},
    }
    return make_graph({"name": "g", "start": "i", "nodes": nodes, **fields})


def submitted(of: Graph | None = None, **request: Any) -> NewRun:
    return new_run(of or graph(), "d1", Request(**request), agent="g", agents={"helper": "d2"})


def seeds(run: NewRun) -> dict[str, Any]:
    return {key: json.loads(text) for key, text in run.state.items()}


def test_a_run_starts_at_the_graph_s_start_in_its_own_name() -> None:
    run = submitted(prompt="hello", run_id="ab" * 8)

    assert (run.run_id, run.agent, run.digest, run.start, run.start_type) == (
        "ab" * 8,
        "g",
        "d1",
        "i",
        "input",
    )
    assert run.context == RunContext(root="ab" * 8, agents={"helper": "d2"})
    assert seeds(run) == {"initial_prompt": "hello"}


def test_labels_are_those_of_the_request_and_child_runs_have_none() -> None:
    labels = {"Customer.id_1-a": 'größte & "beste" = x', "empty": ""}

    run = submitted(labels=labels)

    assert run.labels == labels
    assert submitted().labels == {}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({f"l{n}": "x" for n in range(17)}, "17 labels; a run may have 16"),
        ({"a b": "x"}, "'a b' is not a valid name of a label"),
        ({"": "x"}, "'' is not a valid name of a label"),
        ({"é": "x"}, "is not a valid name of a label"),
        ({"k" * 64: "x"}, "is not a valid name of a label"),
        ({"k": "x" * 256}, "the value of label 'k' must be a text of at most 255 characters"),
        ({"k": "a\nb"}, "without line ends"),
        ({"k": "a\x7fb"}, "without line ends"),
        ({"k": "\ud800"}, "without line ends"),
        ({"k": 1}, "must be a text"),
    ],
)
def test_labels_that_are_not_valid_are_refused(labels: dict[str, Any], expected: str) -> None:
    with pytest.raises(SubmissionRefused, match=expected):
        submitted(labels=labels)


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[31m", "\ud800", "x" * 513])
def test_names_that_sums_could_not_be_counted_by_are_refused(name: str) -> None:
    with pytest.raises(SubmissionRefused, match="not a valid name of the batch"):
        submitted(batch=name)
    with pytest.raises(SubmissionRefused, match="not a valid name of the agent"):
        new_run(graph(), "d1", Request(), agent=name, agents={})


def test_later_seeds_win_and_the_prompt_always_does() -> None:
    variables = [{"name": name, "description": "d", "default": "variable"} for name in "abcd"]
    of = graph(
        variables=variables,
        initial_state={"b": "file", "c": "file", "d": None, "initial_prompt": "file"},
    )

    run = submitted(of, state={"c": "set"})

    assert seeds(run) == {
        "a": "variable",
        "b": "file",
        "c": "set",
        "d": None,
        "initial_prompt": "",
    }


@pytest.mark.parametrize(
    ("given", "prompt"), [("hi", "hi"), (7, "7"), ({"a": [1]}, '{"a":[1]}'), (None, ""), ("", "")]
)
def test_a_seed_by_the_name_of_the_prompt_is_the_prompt(given: Any, prompt: str) -> None:
    assert seeds(submitted(state={"initial_prompt": given, "a": 1})) == {
        "initial_prompt": prompt,
        "a": 1,
    }


def test_a_prompt_is_given_once() -> None:
    with pytest.raises(SubmissionRefused, match="leave out 'initial_prompt'"):
        submitted(prompt="one", state={"initial_prompt": "two"})


def test_a_secret_is_no_seed() -> None:
    of = graph(variables=[{"name": "key", "description": "d", "secret": True}])

    run = submitted(of, variables={"key": "s3cret"})

    assert seeds(run) == {"initial_prompt": ""}
    assert run.context.variables == run.context.submitted_vars == {"key": "s3cret"}
    assert run.context.secrets == ("key",)


def test_a_variable_without_a_value_is_refused() -> None:
    of = graph(variables=[{"name": "one", "description": "d"}, {"name": "two", "description": "d"}])

    with pytest.raises(SubmissionRefused, match="'one' has no value") as raised:
        submitted(of)

    assert "'two' has no value" in str(raised.value)


def test_a_value_for_no_variable_is_refused() -> None:
    of = graph(variables=[{"name": "one", "description": "d", "default": 1}])

    with pytest.raises(SubmissionRefused, match=r"no variable 'won' \(it has: one\)"):
        submitted(of, variables={"won": "x"})


@pytest.mark.parametrize(
    ("node", "message"), [("gone", "which does not exist"), ("a", "which does not ask a question")]
)
def test_an_answer_for_a_node_that_does_not_ask_is_refused(node: str, message: str) -> None:
    with pytest.raises(SubmissionRefused, match=message):
        submitted(answers={node: ["yes"]})


@pytest.mark.parametrize("value", [float("nan"), {"deep": [float("inf")]}, {1, 2}, b"x"])
def test_a_value_that_is_not_json_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(SubmissionRefused, match=r"^the value of 'a\\nb' cannot be stored: "):
        submitted(state={"a\nb": value})


@pytest.mark.parametrize(
    ("of_graph", "wanted", "limit"),
    [
        (None, None, None),
        (60, None, 60),
        (None, 30, 30),
        (60, 30, 30),
        (60, 90, 60),
        (None, 1e300, MAX_SECONDS),
    ],
)
def test_a_submission_may_lower_the_time_limit_only(
    of_graph: float | None, wanted: float | None, limit: float | None
) -> None:
    run = submitted(graph(settings={"timeout": of_graph}), timeout_s=wanted)

    assert run.timeout_s == limit


# ---- children


PARENT = RunContext(
    depth=1,
    root="ab" * 8,
    workdir="/w",
    submitted_vars={"who": "Ada"},
    agents={"helper": "d2"},
    agent_path="/w/g",
)


def child(of: Graph) -> NewRun:
    return child_run(
        of,
        "d2",
        parent=PARENT,
        parent_run="cd" * 8,
        parent_visit="3/a",
        agent="helper",
        prompt="do it",
    )


def test_a_child_shares_partition_root_workdir_and_agents() -> None:
    run = child(graph(settings={"timeout": 5}))

    assert partition_of(run.run_id) == partition_of("cd" * 8)
    assert (run.parent, run.timeout_s, seeds(run)) == (
        f"{'cd' * 8} 3/a",
        5,
        {"initial_prompt": "do it"},
    )
    assert (run.context.depth, run.context.root, run.context.workdir) == (2, "ab" * 8, "/w")
    assert run.context.agents == PARENT.agents
    assert run.context.agent_path is None


def test_a_child_sees_given_values_only_of_variables_it_declares() -> None:
    run = child(graph(variables=[{"name": "who", "description": "d"}]))

    assert run.context.variables == {"who": "Ada"}
    assert child(graph()).context.variables == {}
    assert child(graph()).context.submitted_vars == {"who": "Ada"}


def test_a_child_may_lie_as_deep_as_the_limit() -> None:
    assert child_digest(PARENT, "d1", "helper", max_depth=2) == "d2"
    with pytest.raises(NestedTooDeep, match="nested 2 deep; the limit is 1"):
        child_digest(PARENT, "d1", "helper", max_depth=1)


def test_an_agent_that_did_not_travel_with_the_run_cannot_be_started() -> None:
    with pytest.raises(SubmissionRefused, match="not found when the run was submitted"):
        child_digest(PARENT, "d1", "stranger", max_depth=3)


# ---- records and keys


def test_a_context_survives_being_stored() -> None:
    context = RunContext(
        depth=2,
        root="r",
        workdir="/w",
        variables={"a": "1"},
        secrets=("a",),
        submitted_vars={"a": "1"},
        answers={"i": ["x", ""]},
        agents={"helper": "d"},
    )

    assert RunContext.from_json(context.to_json()) == context
    assert RunContext.from_json(RunContext().to_json()) == RunContext()


def test_run_ids_spread_over_all_partitions() -> None:
    used = {partition_of(new_run_id()) for _ in range(2_000)}

    assert used == set(ALL_PARTITIONS)
    assert run_key("run", "41" + "0" * 14) == "{p01}:run:4100000000000000"
