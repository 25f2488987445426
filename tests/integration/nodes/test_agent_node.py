"""The agent node: a child run, its result, and every way it can end badly."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.graphs.document.references import AgentSearch
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Failure, Lease, Status, Usage
from sleipnir.scheduler.runs.plan import Plan
from sleipnir.scheduler.runs.submit import Request
from tests.support.agents import Agents
from tests.support.engine import Engine

PARENT = """
start: a
nodes:
  a: {type: agent, agent: helper, prompt: "do {{what}}", next: z, state_updates: {r: "{{output}}"}}
  z: {type: end, output: "{{r}}"}
"""
ECHO = """
start: z
nodes: {z: {type: end, output: "did: {{initial_prompt}}"}}
"""
ASKS = """
start: i
nodes:
  i: {type: input, question: "well?", state_updates: {said: "{{input}}"}, next: z}
  z: {type: end, output: "{{said}}"}
"""
FAILS = """
start: s
nodes:
  s: {type: script, script: s.sh}
  z: {type: end}
"""


def submit(engine: Engine, helper: str, parent: str = PARENT) -> str:
    engine.write("helper", helper, {"s.sh": "exit 3"})
    return engine.submit(parent, state={"what": "it"})


def run_both(engine: Engine, helper: str, parent: str = PARENT) -> str:
    run_id = submit(engine, helper, parent)
    engine.drive()
    return run_id


def child_of(engine: Engine, run_id: str) -> str:
    (child,) = engine.queries.children(run_id)
    return child.run_id


def test_the_child_s_result_is_the_node_s_output(engine: Engine) -> None:
    run_id = run_both(engine, ECHO)

    assert engine.run(run_id).output == "did: do it"
    assert set(engine.state(run_id)) == {"initial_prompt", "what", "r"}


def test_an_object_that_fits_the_schema_is_merged(engine: Engine) -> None:
    helper = ECHO.replace('"did: {{initial_prompt}}"', """'{"n": 5, "more": [1]}'""")
    parent = PARENT.replace("next: z,", "next: z, output_schema: {type: object},")

    run_id = run_both(engine, helper, parent)

    state = engine.state(run_id)
    assert (state["n"], state["more"], state["r"]) == (5, [1], {"n": 5, "more": [1]})


def test_what_fits_no_schema_fails_the_run(engine: Engine) -> None:
    parent = PARENT.replace("next: z,", "next: z, output_schema: {type: object},")

    run_id = run_both(engine, ECHO, parent)

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R018", "a")
    assert "no model set" in failure.message


def test_an_invalid_agent_fails_the_node_that_starts_it(engine: Engine) -> None:
    run_id = run_both(engine, "start: nowhere\nnodes: {z: {type: end}}\n")

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R015", "a")
    assert failure.message.startswith("agent 'helper' cannot start: ")
    assert failure.message.endswith("E015 start node 'nowhere' does not exist")


def test_what_a_child_lacks_is_no_matter_until_it_starts(engine: Engine) -> None:
    helper = PARENT.replace("agent: helper", "agent: nobody").replace("{{what}}", "it")

    unreached = submit(engine, helper, PARENT.replace("start: a", "start: z"))
    reached = submit(engine, helper)
    engine.drive()

    assert engine.run(unreached).status == "succeeded"
    assert "E204 [a] node 'a': no agent named 'nobody'" in engine.failure(reached).message


def test_a_prompt_that_names_what_is_missing_starts_no_child(engine: Engine) -> None:
    run_id = run_both(engine, ECHO, PARENT.replace("{{what}}", "{{gone}}"))

    assert engine.failure(run_id).code == "R001"
    assert engine.queries.children(run_id) == []


def test_a_failed_child_fails_its_parent_and_is_quoted(engine: Engine) -> None:
    run_id = run_both(engine, FAILS)

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R015", "a")
    assert f"agent 'helper' failed (run {child_of(engine, run_id)}): R013" in failure.message


def test_a_cancelled_child_fails_its_parent(engine: Engine) -> None:
    run_id = run_both(engine, ASKS)

    engine.client.cancel(child_of(engine, run_id), "not today")
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R015"
    assert failure.message.endswith("not today")


def test_a_child_past_its_own_deadline_fails_its_parent(engine: Engine) -> None:
    run_id = run_both(engine, "settings: {timeout: 60}\n" + ASKS)
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R015"
    assert "R005" in failure.message


def test_zero_is_no_time_limit_for_runs_and_nodes(engine: Engine) -> None:
    no_limit = "settings: {timeout: 0}\n"
    parent = no_limit + PARENT.replace("next: z,", "next: z, timeout: 0,")
    run_id = run_both(engine, no_limit + ASKS, parent)
    engine.clock.move(1_000_000)
    engine.tick()
    engine.drive()
    waiting = engine.run(run_id).status

    engine.client.answer(child_of(engine, run_id), "late")
    engine.drive()

    assert (waiting, engine.run(run_id).output) == (Status.WAITING, "late")


def test_the_node_s_time_limit_counts_waiting_and_cancels_the_child(engine: Engine) -> None:
    run_id = run_both(engine, ASKS, PARENT.replace("next: z,", "next: z, timeout: 20,"))
    engine.clock.move(20)
    engine.tick()
    engine.drive()

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R016", "a")
    assert "longer than 20s" in failure.message
    assert engine.run(child_of(engine, run_id)).status == "cancelled"


def test_children_nest_no_deeper_than_the_limit(engine: Engine) -> None:
    engine.configure(max_agent_depth=2)
    recursive = PARENT.replace("{{what}}", "{{initial_prompt}}").replace("helper", "tested")

    run_id = engine.submit(recursive)
    engine.drive()

    depths = []
    while children := engine.queries.children(run_id):
        run_id = children[0].run_id
        depths.append(children[0].context.depth)
    assert depths == [1, 2]
    assert engine.failure(run_id).code == "R017"


@pytest.mark.parametrize(("own", "setting", "reached"), [(1, 3, 1), (3, 1, 3), (0, 3, 0)])
def test_a_graph_says_itself_how_deep_its_children_nest(
    engine: Engine, own: int, setting: int, reached: int
) -> None:
    engine.configure(max_agent_depth=setting)
    itself = PARENT.replace("agent: helper", "agent: tested").replace("do {{what}}", "again")
    run_id = engine.submit(f"max_agent_depth: {own}\n{itself}")

    engine.drive()

    for _ in range(reached):
        (child,) = engine.queries.children(run_id)
        run_id = child.run_id
    assert engine.queries.children(run_id) == []
    assert engine.failure(run_id).code == "R017"
    assert f"the limit is {own}" in engine.failure(run_id).message


def test_cancelling_the_parent_cancels_the_child(engine: Engine) -> None:
    run_id = run_both(engine, ASKS)

    engine.client.cancel(run_id)
    engine.drive()

    assert engine.run(run_id).status == engine.run(child_of(engine, run_id)).status == "cancelled"
    assert engine.inbox() == []


def test_a_question_of_the_child_names_the_root_run(engine: Engine) -> None:
    run_id = run_both(engine, ASKS)

    (question,) = engine.inbox()

    assert (question.run_id, question.root_run_id) == (child_of(engine, run_id), run_id)
    assert engine.run(run_id).status == "waiting"


def test_an_answer_to_the_child_lets_both_go_on(engine: Engine) -> None:
    run_id = run_both(engine, ASKS)

    engine.client.answer(child_of(engine, run_id), "fine")
    engine.drive()

    assert engine.run(run_id).output == "fine"


def test_the_child_sees_values_given_for_its_root(engine: Engine) -> None:
    helper = """
        variables: [{name: who, description: d}, {name: own, description: d, default: x}]
        start: z
        nodes: {z: {type: end, output: "{{who}} {{own}}"}}
        """
    engine.write("helper", helper)
    parent = "variables: [{name: who, description: d}]\n" + PARENT
    run_id = engine.submit(parent, state={"what": 1}, variables={"who": "Ada"})

    engine.drive()

    assert engine.run(run_id).output == "Ada x"


def test_a_child_without_a_value_for_its_variable_cannot_start(engine: Engine) -> None:
    helper = "variables: [{name: who, description: d}]\n" + ECHO

    run_id = run_both(engine, helper)

    failure = engine.failure(run_id)
    assert failure.code == "R015"
    assert "who" in failure.message


def test_a_map_runs_a_child_per_item(engine: Engine) -> None:
    engine.write("helper", ECHO)
    graph = """
        start: m
        nodes:
          m: {type: map, over: "{{l}}", as: i, branch: a, collect_into: r, next: z}
          a: {type: agent, agent: helper, prompt: "{{i}}"}
          z: {type: end, output: "{{r}}"}
        """

    run = engine.finish(graph, state={"l": [1, 2, 3]})

    assert run.output == '["did: 1","did: 2","did: 3"]'
    assert len(engine.queries.children(run.run_id)) == 3


def test_a_failed_child_in_a_map_is_that_item_s_failure(engine: Engine) -> None:
    engine.write("helper", FAILS, {"s.sh": "exit 3"})
    graph = """
        start: m
        nodes:
          m: {type: map, over: "{{l}}", as: i, branch: a, collect_into: r, on_error: skip, next: z}
          a: {type: agent, agent: helper, prompt: "{{i}}"}
          z: {type: end, output: "{{r}}"}
        """

    assert engine.finish(graph, state={"l": [1, 2]}).output == "[]"


def test_a_child_s_usage_is_its_parent_s_too(engine: Engine) -> None:
    run_id = submit(engine, ECHO)
    engine.work_once()
    child = Lease(child_of(engine, run_id), "1/z", "t1")
    engine.store.visits.begin(child, ())
    end = Plan({}, output="")

    engine.store.visits.advance(child, 1, end, cap=9, window=8, usage=Usage(3, 4, 0.5))
    engine.drive()

    assert engine.run(run_id).usage == Usage(3, 4, 0.5)


def test_what_a_failed_child_used_is_accounted_for_too(engine: Engine) -> None:
    run_id = submit(engine, ECHO)
    engine.work_once()
    child = Lease(child_of(engine, run_id), "1/z", "t1")
    engine.store.visits.begin(child, ())
    failed = Plan({}, failure=Failure("R009", "no", None))

    engine.store.visits.advance(child, 1, failed, cap=9, window=8, usage=Usage(3, 4, None))
    engine.drive()

    assert engine.failure(run_id).code == "R015"
    assert engine.run(run_id).usage == Usage(3, 4, None)


def test_the_parent_keeps_the_version_of_the_child_it_was_submitted_with(engine: Engine) -> None:
    run_id = submit(engine, ECHO)
    engine.write("helper", ECHO.replace("did", "changed"))

    engine.drive()

    assert engine.run(run_id).output == "did: do it"
    later = engine.client.submit(engine.client.prepare("tested"), Request(state={"what": "it"}))
    engine.drive()
    assert engine.run(later).output == "changed: do it"


def test_each_agent_of_a_tree_starts_the_child_beside_it(engine: Engine, tmp_path: Path) -> None:
    """Of two agents of one name, a checkout's runs for its own agents and for nobody else."""
    checkout, library = Agents(engine.store, tmp_path / "checkout"), tmp_path / "library" / "agents"
    search = AgentSearch((library,), here=checkout.agents_directory)
    checkout.client = Client.over(engine.store, search)
    shared = Agents(engine.store, tmp_path / "library")
    for agents, who in ((checkout, "checkout"), (shared, "library")):
        agents.write("helper", f"start: z\nnodes: {{z: {{type: end, output: {who}}}}}")
    shared.write("lead", PARENT.replace(" {{what}}", ""))
    both = PARENT.replace("next: z", "next: b").replace(
        "  z:",
        "  b: {type: agent, agent: lead, prompt: x, next: z, "
        'state_updates: {r: "{{r}} {{output}}"}}\n  z:',
    )

    of_checkout = checkout.submit_agent("boss", both, state={"what": "it"})
    of_library = checkout.client.submit(checkout.client.prepare("lead"), Request())
    engine.drive()

    assert engine.run(of_checkout).output == "checkout library"
    assert engine.run(of_library).output == "library"
