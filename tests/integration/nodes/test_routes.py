"""Conditions in `next`, switches, loops and `set` nodes: what runs do with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.scheduler.runs.events import StepCommitted
from sleipnir.scheduler.runs.history import decisions_of
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.narration import render
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says

LOOP = """
start: init
nodes:
  init: {type: set, values: {score: "0", rounds: "0", seen: []}, next: work}
  work:
    type: set
    values: {rounds: rounds + 1, score: score + 0.25, seen: "seen + [rounds]"}
    state_updates: {note: "Round {{rounds}}"}
    next: gate
  gate:
    type: set
    next:
      - {when: score >= 0.8, to: z}
      - {when: rounds == 2, to: [left, right], max: 5}
      - {to: work}
  left: {type: set, values: {l: visit}, next: work}
  right: {type: set, next: work}
  z: {type: end, output: "{{score}} {{seen}} {{note}} {{l}}"}
"""
SORT = """
start: sort
initial_state: {label: %s}
nodes:
  sort: {type: set, next: {switch: label, cases: {billing: b, "true": t, "1.5": n}%s}}
  b: {type: end, output: billing}
  t: {type: end, output: truth}
  n: {type: end, output: number}
  z: {type: end, output: other}
"""
GATE = """
start: gate
initial_state: {score: 0.5, n: null, text: %s}
nodes:
  gate: {type: set, next: [{when: "has(never)", to: z}, {when: "%s", to: z}%s]}
  z: {type: end, output: passed}
"""
LONG = '"' + "x" * 100 + '"'


def decisions(engine: Engine, run: Run) -> list[tuple[str, int, int, int, str, list[str]]]:
    return [
        (d.node, d.step, d.visit, d.index, d.label, list(d.to))
        for d in decisions_of(engine.queries.checkpoints(run.run_id)).last
    ]


def test_a_loop_goes_on_until_its_condition_holds(engine: Engine) -> None:
    run = engine.finish(LOOP)

    assert (run.status, run.output) == (Status.SUCCEEDED, "1 [1,2,3,4] Round 4 1")
    assert decisions(engine, run) == [
        ("gate", 3, 1, 3, "else", ["work"]),
        ("gate", 5, 2, 2, "rounds == 2", ["left", "right"]),
        ("gate", 8, 3, 3, "else", ["work"]),
        ("gate", 10, 4, 1, "score >= 0.8", ["z"]),
    ]
    lines = [line for e in engine.events(run.run_id, StepCommitted) for line in render(e)]
    assert "▸ gate -> left, right (rounds == 2)" in lines
    assert "▸ gate -> z (score >= 0.8)" in lines
    assert_consistent(engine.redis, runs=1)


def test_a_route_is_closed_after_its_number_of_visits(engine: Engine) -> None:
    graph = """
start: a
nodes:
  a: {type: set, values: {n: visit}, next: [{when: "true", to: a, max: 3}, {to: z}]}
  z: {type: end, output: "{{n}}"}
"""
    run = engine.finish(graph)

    assert run.output == "4"
    assert [each[3] for each in decisions(engine, run)] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("billing", "billing"),
        ("true", "truth"),
        ("'true'", "truth"),
        ("1.5", "number"),
        ("other", "other"),
        ("null", "other"),
        ("'null'", "other"),
    ],
)
def test_a_switch_goes_by_the_text_of_its_value(engine: Engine, value: str, output: str) -> None:
    assert engine.finish(SORT % (value, ", default: z")).output == output


@pytest.mark.parametrize(
    ("graph", "code", "message"),
    [
        (SORT % ("other", ""), "R002", 'no route applies: switch (label) is "other"'),
        (
            SORT.replace("switch: label", f"switch: label{' + label' * 12}") % ("x", ""),
            "R002",
            f'no route applies: switch (label{" + label" * 9} +…) is "{"x" * 13}"',
        ),
        (SORT % ("[1]", ", default: z"), "R024", "next of node 'sort', switch (label): list"),
        (
            SORT.replace("switch: label", "switch: labl") % ("x", ", default: z"),
            "R024",
            "next of node 'sort', switch (labl): 'labl' is not set",
        ),
        (
            GATE % ("a", "score >= 0.8", ""),
            "R002",
            "no route applies: has(never) (never is not set); score >= 0.8 (score = 0.5)",
        ),
        (
            GATE % ("a", "score >= 0.8 && visit < 9", ", {when: score > 0.6, to: z, max: 1}"),
            "R002",
            "no route applies: has(never) (never is not set); "
            "score >= 0.8 && visit < 9 (score = 0.5, visit = 1); score > 0.6 (score = 0.5)",
        ),
        (
            GATE % (LONG, "text == 'b'", ""),
            "R002",
            f"no route applies: has(never) (never is not set); text == 'b' (text = \"{'x' * 58}…)",
        ),
        (
            GATE % ("a", "scor >= 0.8", ", {to: z}"),
            "R024",
            "next of node 'gate', route 2 (scor >= 0.8): 'scor' is not set",
        ),
        (
            GATE % ("a", "text > 0.8", ", {to: z}"),
            "R024",
            "next of node 'gate', route 2 (text > 0.8): >: text and number",
        ),
        (
            GATE % ("a", "score", ", {to: z}"),
            "R024",
            "next of node 'gate', route 2 (score): number",
        ),
        (
            "start: a\nnodes:\n  a: {type: set, values: {b: billing}, next: z}\n  z: {type: end}",
            "R024",
            "values.b of node 'a': 'billing' is not set; "
            "a constant text needs quotes of its own: '\"billing\"'",
        ),
        (
            "start: a\nnodes:\n  a: {type: set, values: {c: '1', b: c + 'x'}, next: z}\n"
            "  z: {type: end}",
            "R024",
            "values.b of node 'a': +: number and text",
        ),
    ],
)
def test_what_cannot_be_decided_fails_the_run_and_says_why(
    engine: Engine, graph: str, code: str, message: str
) -> None:
    run = engine.finish(graph)

    assert run.status == Status.FAILED
    assert run.failure is not None
    assert (run.failure.code, run.failure.message) == (code, message)
    assert_consistent(engine.redis, runs=1)


LARGE = """
start: a
initial_state: {rows: [%s], who: {name: Ada}}
nodes:
  a:
    type: set
    next:
      - when: |
          size(rows) < 2 ||
          who.name == 'Bob'
        to: z
  z: {type: end}
"""


def test_a_large_value_is_told_by_its_beginning(engine: Engine) -> None:
    run = engine.finish(LARGE % ", ".join(["1234567"] * 50))

    assert run.failure is not None
    rows = "[" + "1234567," * 7 + "12…"
    assert run.failure.message == (
        f"no route applies: size(rows) < 2 || who.name == 'Bob' (rows = {rows}, who.name = \"Ada\")"
    )


def test_of_a_secret_not_even_the_beginning_is_told(engine: Engine) -> None:
    run = engine.finish(
        """
start: a
variables: [{name: key, description: A key, secret: true}]
nodes:
  a: {type: script, script: a.sh, next: [{when: text == "", to: z}]}
  z: {type: end}
""",
        {"a.sh": f"""echo "{{\\"text\\": \\"{"x" * 50}$LLM_AGENT_VAR_KEY\\"}}" """},
        variables={"key": "swordfish-" * 5},
    )

    assert run.failure is not None
    assert run.failure.message == f'no route applies: text == "" (text = "{"x" * 50}***")'


def test_a_closed_route_is_named_where_none_applies(engine: Engine) -> None:
    run = engine.finish("""
start: a
nodes:
  a: {type: set, next: [{when: "true", to: a, max: 1}, {when: visit > 9, to: z}]}
  z: {type: end}
""")

    assert run.failure is not None
    assert run.failure.message == ("no route applies: true (closed: max 1); visit > 9 (visit = 2)")


FAILING = """
settings: {max_loop_iterations: 2}
start: work
nodes:
  work: {type: script, script: work.sh%s, next: [{when: failed, to: rescue}, {to: z}]}
  rescue: {type: end, output: "rescued {{error}}"}
  z: {type: end, output: done}
"""


@pytest.mark.parametrize(
    ("script", "fallback", "output"),
    [
        ("echo '{}'", "", "done"),
        ("exit 3", "", "rescued Script node failed: exit code 3: "),
        ("exit 3", ", fallback: z", "done"),
        ('echo \'{"_next": "rescue"}\'', "", "rescued "),
    ],
)
def test_what_a_script_and_a_fallback_say_goes_before_conditions(
    engine: Engine, script: str, fallback: str, output: str
) -> None:
    run = engine.finish(FAILING % fallback, {"work.sh": script})

    assert run.output == output


def test_a_retry_decides_anew_on_the_replies_that_were_given(
    engine: Engine, server: ModelServer
) -> None:
    """They are not paid for again: the request that the first try made is the only one."""
    graph = """
model: openai:m
start: judge
nodes:
  judge:
    type: llm
    prompt: Judge.
    output_schema: {type: object, properties: {score: {type: number}}, required: [score]}
    next: [{when: score >= least, to: z}]
  z: {type: end, output: "{{score}}"}
"""
    server.script.add(says('{"score": 0.7}'))
    run = engine.finish(graph)
    assert run.failure is not None
    assert run.failure.code == "R024"

    engine.client.retry(run.run_id)
    engine.drive()

    assert engine.queries.run(run.run_id).failure == run.failure
    assert len(server.requests) == 1


def test_routes_of_parallel_nodes_are_decided_each_by_itself(engine: Engine) -> None:
    run = engine.finish("""
start: s
initial_state: {n: 1}
nodes:
  s: {type: set, next: [a, b]}
  a: {type: set, values: {x: n + 1}, next: [{when: x == 2, to: j}, {to: z}]}
  b: {type: set, values: {y: n}, next: {switch: y, cases: {"1": [j, k]}}}
  j: {type: set, next: z}
  k: {type: set, next: z}
  z: {type: end, output: "{{x}} {{y}}"}
""")

    assert run.output == "2 1"
    routed = [each for each in decisions(engine, run) if each[0] in "ab"]
    assert [each[4:] for each in routed] == [("x == 2", ["j"]), ("1", ["j", "k"])]


def test_a_set_node_in_a_map_makes_the_result_of_an_item(engine: Engine) -> None:
    run = engine.finish("""
start: m
initial_state: {rows: [1, 2, 3]}
nodes:
  m: {type: map, over: "{{rows}}", as: row, branch: b, collect_into: found, next: z}
  b: {type: set, values: {half: row / 2, output: half + visit}}
  z: {type: end, output: "{{found}}"}
""")

    assert run.output == "[1.5,2,2.5]"


def test_an_item_goes_by_conditions_through_its_branch(engine: Engine) -> None:
    run = engine.finish("""
start: m
initial_state: {rows: [1, 2, 3]}
nodes:
  m: {type: map, over: "{{rows}}", as: row, branch: count, collect_into: found, on_error: collect,
      next: z}
  count:
    type: set
    values: {n: "has(n) ? n + 1 : 1"}
    next: [{when: n < row, to: count, max: 5}, {when: row != 2, to: mark}]
  mark: {type: set, values: {output: n * 10}}
  z: {type: end, output: "{{found}}"}
""")

    assert run.output is not None
    assert run.output.startswith('[10,{"error":"at \'count\': no route applies: ')
    assert run.output.endswith(',"item":2},30]')
    assert_consistent(engine.redis, runs=1)


def test_a_route_of_an_item_is_closed_after_visits_for_that_item(engine: Engine) -> None:
    run = engine.finish("""
start: m
initial_state: {rows: [1, 2]}
nodes:
  m: {type: map, over: "{{rows}}", as: row, branch: a, collect_into: found, next: z}
  a:
    type: set
    values: {output: "has(output) ? output + row : row"}
    next: [{when: "true", to: b, max: 2}, {when: visit == 3, to: c}]
  b: {type: set, next: a}
  c: {type: set}
  z: {type: end, output: "{{found}}"}
""")

    assert run.output == "[3,6]"


JUDGED = """
model: openai:m
start: %s
initial_state: {rows: [1]}
nodes:
  m: {type: map, over: "{{rows}}", as: row, branch: judge, collect_into: found, next: z}
  judge:
    type: llm
    prompt: Judge.
    output_schema: {type: object, properties: {score: {type: number}}, required: [score]}
    next: [{when: score >= least, to: keep}]
  keep: {type: set, values: {output: score}}
  z: {type: end}
"""


def test_an_item_decides_anew_on_the_replies_that_were_given(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says('{"score": 0.7}'))
    run_id = engine.finish(JUDGED % "m").run_id

    engine.client.retry(run_id)
    engine.drive()

    failure = engine.queries.run(run_id).failure
    assert failure is not None
    assert "'least' is not set" in failure.message
    assert len(server.requests) == 1


def after_pauses(engine: Engine) -> None:
    """Go on to the end, past the pause between two attempts."""
    engine.drive()
    engine.clock.move(1.0)
    engine.tick()
    engine.drive()


def test_a_script_without_a_way_on_has_all_its_attempts_again(
    engine: Engine, tmp_path: Path
) -> None:
    graph = """
start: a
nodes:
  a: {type: script, script: a.sh, max_attempts: 2, retry_delay_s: 0.1, fallback: z}
  z: {type: end, output: fallback}
  done: {type: end, output: done}
"""
    # Fails, gives no way on, and so once more; the fourth time it does.
    script = """
n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) > count
case $n in 0|2) exit 1;; 1) echo '{}';; *) echo '{"_next": "done"}';; esac
"""
    run_id = engine.submit(graph, {"a.sh": script}, workdir=str(tmp_path))
    after_pauses(engine)
    failure = engine.queries.run(run_id).failure
    assert failure is not None
    assert failure.code == "R002"

    engine.client.retry(run_id)
    after_pauses(engine)

    assert engine.queries.run(run_id).output == "done"
