"""The `inputs` of agent nodes: seeds of a child run that is a graph agent."""

from __future__ import annotations

from pathlib import Path

from tests.support.engine import Engine

PARENT = """
initial_state: {rows: [1, {n: null}], name: Ada}
start: a
nodes:
  a:
    type: agent
    agent: helper
    prompt: go
    inputs: {list: " {{rows}} ", text: "{{name}}: {{rows[0]}}", limit: "7", colour: blue}
    state_updates: {r: "{{output}}"}
    next: z
  z: {type: end, output: "{{r}}"}
"""
HELPER = """
variables: [{name: colour, description: d, default: red}]
initial_state: {list: [], limit: 3}
reducers: {list: append}
start: s
nodes:
  s:
    type: script
    script: s.sh
    state_updates: {list: "{{text}}"}
    next: z
  z: {type: end, output: "{{list}} {{limit}} {{colour}} {{shown}} {{initial_prompt}}"}
"""
SCRIPT = {"s.sh": 'echo "{\\"shown\\": \\"$LLM_AGENT_VAR_COLOUR\\"}"'}
UNCHECKED = "settings: {validate_before_run: false}\n"


def run_parent(engine: Engine, parent: str = PARENT, helper: str = HELPER) -> str:
    engine.write("helper", helper, SCRIPT)
    run_id = engine.submit(parent)
    engine.drive()
    return run_id


def child_of(engine: Engine, run_id: str) -> str:
    (child,) = engine.queries.children(run_id)
    return child.run_id


def test_they_seed_the_child_s_state_and_no_variable(engine: Engine) -> None:
    """A sole reference keeps its type; reducers add to it; scripts see the variable's own value."""
    run_id = run_parent(engine)

    assert engine.run(run_id).output == '[1,{"n":null},"Ada: 1"] 7 blue red go'


def test_they_are_part_of_the_child_s_record(engine: Engine) -> None:
    seeds = engine.queries.history(child_of(engine, run_parent(engine)))[0].writes

    assert seeds == {
        "colour": "blue",
        "initial_prompt": "go",
        "limit": "7",
        "list": [1, {"n": None}],
        "text": "Ada: 1",
    }


def test_a_fork_of_the_child_keeps_them(engine: Engine) -> None:
    child = child_of(engine, run_parent(engine))

    fork = engine.client.fork(child, step=0)
    engine.drive()

    assert engine.run(fork.run_id).output == engine.run(child).output


def test_a_retry_keeps_them(engine: Engine, tmp_path: Path) -> None:
    helper = HELPER.replace("    next: z\n", "")
    engine.write("helper", helper, {"s.sh": 'test -e ok || exit 1; echo \'{"_next": "z"}\''})
    run_id = engine.submit(PARENT, workdir=str(tmp_path))
    engine.drive()
    (tmp_path / "ok").touch()

    engine.client.retry(run_id)
    engine.drive()

    assert str(engine.run(run_id).output).startswith('[1,{"n":null},"Ada: 1"] 7 blue')
    assert len(engine.queries.children(run_id)) == 1


def test_one_that_names_what_is_missing_starts_no_child(engine: Engine) -> None:
    run_id = run_parent(engine, PARENT.replace("{{name}}: {{rows[0]}}", "{{gone}} {{rows[9]}}"))

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R001", "a")
    assert failure.message == "inputs.text: nothing in the state for 'gone', 'rows[9]'"
    assert engine.queries.children(run_id) == []


def test_the_prompt_is_no_input(engine: Engine) -> None:
    run_id = run_parent(engine, UNCHECKED + PARENT.replace("limit:", "initial_prompt:"))

    failure = engine.failure(run_id)
    assert failure.code == "R015"
    assert failure.message.endswith("'inputs.initial_prompt' is the prompt itself")


def test_a_normal_agent_takes_none(engine: Engine) -> None:
    engine.write_normal("helper", "model: openai:gpt-4o-mini\ninstructions: Help.")
    run_id = engine.submit(UNCHECKED + PARENT)
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R015"
    assert failure.message.endswith("'inputs' needs a graph agent; 'helper' has a config.yaml")


def test_they_are_bounded_like_any_state(engine: Engine) -> None:
    """Each value of the state may be given several times."""
    engine.configure(state_limit_bytes=200)
    entries = ", ".join(f'k{n}: "{{{{rows}}}} {{{{rows}}}}"' for n in range(10))

    run_id = run_parent(engine, PARENT.replace("colour: blue", entries))

    failure = engine.failure(run_id)
    assert failure.code == "R015"
    assert "state_limit_bytes" in failure.message
