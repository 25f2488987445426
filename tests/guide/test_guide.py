"""Sleipnir by example: read it from top to bottom, one idea per test.

`engine` is the whole engine on a real Redis, in this process and with a clock that tests move.
`finish` writes an agent (a `graph.yaml` and its scripts), submits it as the client does, and acts
as the worker until the run is over or waits for a person. docs/language.md has the rest.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says


def test_a_run_goes_from_its_start_to_an_end(engine: Engine) -> None:
    # A script reads the state, one JSON object, and prints what it wants to change in it.
    greet = """
        import json, os
        state = json.loads(os.environ["GRAPH_STATE"])
        print(json.dumps({"greeting": f"Hello {state['initial_prompt']}!"}))
    """
    graph = """
        start: greet
        nodes:
          greet: {type: script, script: greet.py, next: done}
          done: {type: end, output: "{{greeting}} Nice to meet you."}
    """

    run = engine.finish(graph, {"greet.py": greet}, prompt="Ada")

    assert run.status == "succeeded"
    assert run.output == "Hello Ada! Nice to meet you."


def test_templates_read_the_state_and_a_lone_reference_keeps_its_type(engine: Engine) -> None:
    graph = """
        initial_state: {order: {items: [pen, ink], total: 7}}
        start: done
        nodes:
          done:
            type: end
            state_updates:
              total: "{{order.total}}"
              text: "{{order.total}} for {{order.items[0]}}"
              nothing: "[{{order.discount}}]"
            output: "{{text}}"
    """

    run = engine.finish(graph)

    state = engine.state(run.run_id)
    assert state["total"] == 7
    assert (state["text"], state["nothing"]) == ("7 for pen", "[]")


def test_a_question_or_prompt_with_a_gap_fails_instead_of_going_out(engine: Engine) -> None:
    graph = """
        start: confirm
        nodes:
          confirm: {type: input, question: "Send it to {{customer}}?", next: done}
          done: {type: end}
    """

    run = engine.finish(graph)

    failure = engine.failure(run.run_id)
    assert (run.status, failure.code, failure.node) == ("failed", "R001", "confirm")
    assert "'customer'" in failure.message


def test_a_list_of_targets_runs_side_by_side_and_joins(engine: Engine) -> None:
    # Both branches see the same state; a reducer tells how their writes to one key are merged.
    graph = """
        reducers: {found: extend}
        start: fork
        nodes:
          fork: {type: set, next: [left, right]}
          left: {type: script, script: left.sh, next: join, state_updates: {found: "{{l}}"}}
          right: {type: script, script: right.sh, next: join, state_updates: {found: "{{r}}"}}
          join: {type: end, output: "{{found}}"}
    """
    scripts = {
        "left.sh": """echo '{"l": ["from the left"]}'""",
        "right.sh": """echo '{"r": ["from the right"]}'""",
    }

    run = engine.finish(graph, scripts)

    assert run.output == '["from the left","from the right"]'
    assert run.visits == {"fork": 1, "left": 1, "right": 1, "join": 1}


def test_a_map_runs_one_node_for_every_item_of_a_list(engine: Engine) -> None:
    graph = """
        initial_state: {numbers: [3, 1, 2]}
        start: squares
        nodes:
          squares:
            {type: map, over: "{{numbers}}", as: n, branch: square, collect_into: found, next: done}
          square: {type: set, values: {output: n * n}}
          done: {type: end, output: "{{found}}"}
    """

    run = engine.finish(graph)

    assert run.output == "[9,1,4]"  # in the order of the items, whichever finished first


# The first route whose condition is true is taken; names in conditions are keys of the state.
LOOP = """
    settings: {max_loop_iterations: 5}
    initial_state: {n: 3}
    start: count
    nodes:
      count: {type: set, values: {n: n - 1}, next: [{when: n > 0, to: count}, {to: done}]}
      done: {type: end, output: "{{n}}"}
"""


def test_a_condition_closes_a_loop(engine: Engine) -> None:
    run = engine.finish(LOOP)

    assert (run.output, run.visits) == ("0", {"count": 3, "done": 1})


def test_a_loop_without_end_is_cut_off(engine: Engine) -> None:
    run = engine.finish(LOOP, state={"n": 1_000_000})

    failure = engine.failure(run.run_id)
    assert failure.code == "R004"
    assert failure.message == "Node 'count' visited 6 times (max_loop_iterations=5)"


def test_a_switch_goes_by_a_value(engine: Engine) -> None:
    graph = """
        start: look
        nodes:
          look:
            type: set
            values: {first: "initial_prompt.startsWith('#') ? 'number' : 'name'"}
            next: {switch: first, cases: {number: order}, default: person}
          order: {type: end, output: an order}
          person: {type: end, output: a person}
    """

    assert engine.finish(graph, prompt="#4711").output == "an order"
    assert engine.finish(graph, prompt="Ada").output == "a person"


def test_where_no_condition_can_say_it_a_script_names_the_next_node(engine: Engine) -> None:
    graph = """
        start: choose
        nodes:
          choose: {type: script, script: choose.sh}
          monday: {type: end, output: one}
          sunday: {type: end, output: seven}
    """

    run = engine.finish(graph, {"choose.sh": """echo '{"_next": "sunday"}'"""})

    assert run.output == "seven"


def test_a_run_waits_for_a_person_as_long_as_it_takes(engine: Engine) -> None:
    graph = """
        start: review
        nodes:
          review:
            type: approval
            question: Publish '{{initial_prompt}}'?
            options: [publish, drop]
            routes: {publish: published, drop: dropped}
            on_other: dropped
            state_updates: {answer: "{{choice}}"}
          published: {type: end, output: "published ({{answer}})"}
          dropped: {type: end, output: "dropped ({{answer}})"}
    """
    waiting = engine.finish(graph, prompt="The office is closed on Friday.")
    engine.clock.move(3 * 86_400)

    engine.client.answer(waiting.run_id, "publish")
    engine.drive()

    assert waiting.status == "waiting"
    assert engine.run(waiting.run_id).output == "published (publish)"


def test_an_agent_may_run_another_one(engine: Engine) -> None:
    # The child has a state of its own: it is given only a prompt, and returns only its output.
    translator = """
        start: done
        nodes: {done: {type: end, output: "{{initial_prompt}}, in French"}}
    """
    graph = """
        start: translate
        nodes:
          translate:
            type: agent
            agent: translator
            prompt: "the letter to {{initial_prompt}}"
            state_updates: {letter: "{{output}}"}
            next: done
          done: {type: end, output: "{{letter}}"}
    """
    engine.write("translator", translator)

    run = engine.finish(graph, prompt="Ada")

    assert run.output == "the letter to Ada, in French"
    (child,) = engine.queries.children(run.run_id)
    assert (child.agent, child.status) == ("translator", "succeeded")


def test_a_model_s_answer_can_be_data(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = """
        model: openai:gpt-4o-mini
        start: sort
        nodes:
          sort:
            type: llm
            prompt: "Sort this: {{initial_prompt}}"
            output_schema:
              type: object
              required: [topic, urgent]
              properties: {topic: {type: string}, urgent: {type: boolean}}
            next: done
          done: {type: end, output: "{{topic}}"}
    """
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-one")

    with ModelServer(says('{"topic": "billing", "urgent": true}')) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        run = engine.finish(graph, prompt="I was charged twice!")

    assert engine.state(run.run_id)["urgent"] is True
    assert run.output == "billing"


def test_a_failure_has_somewhere_to_go(engine: Engine) -> None:
    graph = """
        start: fetch
        nodes:
          fetch: {type: script, script: fetch.sh, next: done, fallback: apologise}
          done: {type: end, output: "{{page}}"}
          apologise: {type: end, output: "Sorry. {{error}}"}
    """

    run = engine.finish(graph, {"fetch.sh": "echo 'no such host' >&2; exit 6"})

    assert run.status == "succeeded"
    assert run.output == "Sorry. Script node failed: exit code 6: no such host"


def test_a_run_out_of_time_ends_wherever_it_is(engine: Engine) -> None:
    graph = """
        settings: {timeout: 3600}
        start: ask
        nodes:
          ask: {type: input, question: "Which file?", next: done}
          done: {type: end}
    """
    run = engine.finish(graph)

    engine.clock.move(3601)
    engine.tick()

    assert (run.status, engine.run(run.run_id).status) == ("waiting", "timed_out")
    assert engine.inbox() == []


def test_a_worker_that_dies_takes_nothing_with_it(engine: Engine) -> None:
    graph = """
        start: work
        nodes:
          work: {type: script, script: work.sh, next: done}
          done: {type: end, output: "{{result}}"}
    """
    run_id = engine.submit(graph, {"work.sh": """echo '{"result": "done"}'"""})
    engine.pop()
    engine.begin(run_id, "1/work")  # a worker begins it and vanishes

    engine.clock.move(16)  # its lease lasts 15 s
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "done"


def test_a_batch_runs_an_agent_on_every_line_of_a_file(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("greet", 'start: e\nnodes: {e: {type: end, output: "Hi {{initial_prompt}}"}}')
    (sleipnir.project / "names.txt").write_text("Ada\nGrace\n")

    first = sleipnir("batch", "greet", "names.txt", "-o", "greetings.jsonl", "--ordered")
    again = sleipnir("batch", "greet", "names.txt", "-o", "greetings.jsonl", "--ordered")

    lines = (sleipnir.project / "greetings.jsonl").read_text().splitlines()
    assert (first.returncode, again.returncode) == (0, 0)
    assert [json.loads(line)["output"] for line in lines] == ["Hi Ada", "Hi Grace"]
