"""Approval and input nodes: what they ask, and what becomes of the answer."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.errors import AnswerRefused
from sleipnir.scheduler.runs.model import Question, Run
from tests.support.engine import Engine

APPROVAL = """
start: a
nodes:
  a:
    type: approval
    question: "Deploy {{what}}?"
    options: [yes please, no]
    routes: {yes please: y, no: n}
    on_other: o
    state_updates: {said: "{{choice}}"}
  y: {type: end, output: "yes: {{said}}"}
  n: {type: end, output: "no: {{said}}"}
  o: {type: end, output: "other: {{said}}"}
"""
INPUT = """
start: i
nodes:
  i:
    type: input
    question: "Name?"
    state_updates: {name: "{{input}}"}
    next: z
  z: {type: end, output: "[{{name}}]"}
"""


def asked(engine: Engine, graph: str, **request: object) -> tuple[str, Question]:
    """Run an agent up to its question."""
    run = engine.finish(graph, **request)
    assert run.status == "waiting"
    (question,) = engine.queries.questions(run.run_id)
    return run.run_id, question


def answered(engine: Engine, graph: str, answer: str, **request: object) -> Run:
    run_id, _ = asked(engine, graph, **request)
    engine.client.answer(run_id, answer)
    engine.drive()
    return engine.run(run_id)


def with_input(**fields: str) -> str:
    lines = "".join(f"    {name}: {value}\n" for name, value in fields.items())
    return INPUT.replace("    next: z\n", f"{lines}    next: z\n")


def test_an_approval_posts_its_rendered_question(engine: Engine) -> None:
    run_id, question = asked(engine, APPROVAL, state={"what": {"v": 2}})

    assert question.text == 'Deploy {"v":2}?'
    assert (question.kind, question.options) == ("approval", ("yes please", "no"))
    assert (question.run_id, question.root_run_id, question.visit_number) == (run_id, run_id, 1)


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("yes please", "yes: yes please"),
        ("no", "no: no"),
        ("Yes please", "yes: yes please"),
        (" no\n", "no: no"),
        (" nope \r\n", "other: nope"),
        ("1", "other: 1"),
        ("", "other: "),
        ("{{what}}", "other: {{what}}"),
    ],
)
def test_an_answer_picks_the_route_of_the_option_it_is_like(
    engine: Engine, answer: str, output: str
) -> None:
    assert answered(engine, APPROVAL, answer, state={"what": "it"}).output == output


def test_an_answer_given_ahead_is_the_option_it_is_like(engine: Engine) -> None:
    run = engine.finish(APPROVAL, state={"what": "it"}, answers={"a": ["YES PLEASE\n"]})

    assert run.output == "yes: yes please"


def test_a_route_without_an_option_is_still_a_route(engine: Engine) -> None:
    graph = APPROVAL.replace("[yes please, no]", "[no]")

    assert answered(engine, graph, "yes please", state={"what": 1}).output == "yes: yes please"


def test_a_question_that_names_what_is_missing_fails_the_run(engine: Engine) -> None:
    graph = APPROVAL.replace("{{what}}", "{{what}} {{there.0}}")

    run = engine.finish(graph)

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R001", "a")
    assert "'what', 'there.0'" in failure.message


@pytest.mark.parametrize(
    ("graph", "node"), [(APPROVAL, "a"), (INPUT.replace('"Name?"', '"{{what}}?"'), "i")]
)
def test_an_answer_given_ahead_hides_no_mistake_in_the_question(
    engine: Engine, graph: str, node: str
) -> None:
    run = engine.finish(graph, answers={node: ["no"]})

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R001", node)


def test_answers_given_ahead_go_to_the_visits_in_order(engine: Engine) -> None:
    graph = """
        start: i
        reducers: {said: append}
        nodes:
          i: {type: input, question: "?", state_updates: {said: "{{input}}"}, next: s}
          s: {type: script, script: s.sh, next: z}
          z: {type: end}
        """
    script = (
        """case $SLEIPNIR_IDEMPOTENCY_KEY in *:6/s) echo '{}';; *) echo '{"_next":"i"}';; esac"""
    )

    run = engine.finish(graph, {"s.sh": script}, answers={"i": ["one", "two"]})
    engine.client.answer(run.run_id, "three")
    engine.drive()

    assert engine.state(run.run_id)["said"] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("fields", "answer", "output"),
    [
        ({}, "Ada", "[Ada]"),
        ({}, "", "[]"),
        ({"default": "Bo"}, "", "[Bo]"),
        ({"default": "Bo"}, " ", "[ ]"),
        ({"default": '"{{n}}{{n}}"'}, "", "[77]"),
        ({"default": '"{{gone}}"'}, "", "[]"),
        ({"default": "x", "validation": "len(input) > 3"}, "", "[x]"),
        ({"validation": "len(input) == 1"}, "я", "[я]"),
    ],
)
def test_an_empty_answer_takes_the_default_unvalidated(
    engine: Engine, fields: dict[str, str], answer: str, output: str
) -> None:
    assert answered(engine, with_input(**fields), answer, state={"n": 7}).output == output


@pytest.mark.parametrize("default", ["''", '"{{gone}}"'])
def test_an_answer_given_ahead_that_does_not_satisfy_fails_the_run(
    engine: Engine, default: str
) -> None:
    graph = with_input(validation="len(input) > 0", default=default)

    run = engine.finish(graph, answers={"i": [""]})

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R019", "i")


def test_an_answer_that_does_not_satisfy_leaves_the_question_open(engine: Engine) -> None:
    run_id, question = asked(engine, with_input(validation="len(input) > 3"))

    with pytest.raises(AnswerRefused, match="has 3 characters, which does not satisfy len"):
        engine.client.answer(run_id, "Ada")

    assert engine.queries.questions(run_id) == [question]
    engine.client.answer(run_id, "Adam")
    engine.drive()
    assert engine.run(run_id).output == "[Adam]"


def test_a_validation_that_nobody_can_read_lets_any_answer_through(engine: Engine) -> None:
    settings = "settings: {validate_before_run: false}\n"
    graph = settings + with_input(validation="len(input) > many").lstrip("\n")

    run = answered(engine, graph, "Ada")

    assert engine.failure(run.run_id).code == "R019"


@pytest.mark.parametrize(
    ("fields", "default"),
    [({"default": "Bo"}, "Bo"), ({"default": '"{{gone}}"'}, None), ({}, None)],
)
def test_the_question_shows_a_default_that_is_not_empty(
    engine: Engine, fields: dict[str, str], default: str | None
) -> None:
    _, question = asked(engine, with_input(**fields))

    assert (question.kind, question.default) == ("input", default)


def test_an_input_may_fan_out(engine: Engine) -> None:
    graph = """
        start: i
        nodes:
          i: {type: input, question: "?", state_updates: {said: "{{input}}"}, next: [a, b]}
          a: {type: script, script: s.sh, state_updates: {a: "{{said}}"}, next: z}
          b: {type: script, script: s.sh, state_updates: {b: "{{said}}"}, next: z}
          z: {type: end, output: "{{a}}{{b}}"}
        """
    run = engine.finish(graph, {"s.sh": "echo '{}'"})

    engine.client.answer(run.run_id, "x")
    engine.drive()

    assert engine.run(run.run_id).output == "xx"


def test_scoped_names_leave_an_earlier_value_alone(engine: Engine) -> None:
    run = answered(engine, INPUT, "new", state={"input": "old"})

    assert engine.state(run.run_id)["input"] == "old"
    assert run.output == "[new]"


def test_several_open_questions_are_answered_by_node_in_any_order(engine: Engine) -> None:
    graph = """
        start: s
        nodes:
          s: {type: script, script: s.sh, next: [a, b]}
          a: {type: script, script: s.sh, state_updates: {}, next: qa}
          b: {type: script, script: s.sh, state_updates: {}, next: qb}
          qa: {type: input, question: "a?", state_updates: {a: "{{input}}"}, next: z}
          qb: {type: input, question: "b?", state_updates: {b: "{{input}}"}, next: z}
          z: {type: end, output: "{{a}}{{b}}"}
        """
    run_id = engine.finish(graph, {"s.sh": "echo '{}'"}).run_id

    engine.client.answer(run_id, "2", node="qb")
    engine.drive()
    between = engine.run(run_id)
    engine.client.answer(run_id, "1", node="qa")
    engine.drive()

    assert (between.status, between.step) == ("waiting", 3)
    assert engine.run(run_id).output == "12"


def test_a_condition_nobody_checked_before_fails_the_run_clearly(engine: Engine) -> None:
    run = engine.finish(
        """
        settings: {validate_before_run: false}
        start: ask
        nodes:
          ask: {type: input, question: "?", validation: foo, next: done}
          done: {type: end}
        """,
        answers={"ask": ["text"]},
    )

    assert run.failure is not None
    assert run.failure.code == "R019"
    assert "got 'foo'" in run.failure.message
