"""Answers of people: taken as they are, or refused in one line."""

from __future__ import annotations

import json
from typing import TypeVar

from hypothesis import strategies as st

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import ApprovalNode, BaseNode, InputNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.consent import consent
from sleipnir.worker.executors.approval import run_approval
from sleipnir.worker.executors.input import run_input
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Wrote
from tests.support.fuzzing import EXAMPLES, assert_one_line, fuzz, texts
from tests.support.visits import a_visit

N = TypeVar("N", bound=BaseNode)

VALIDATIONS = [None, "len(input) > 3", "len(input) == 0", "len(input) <= " + "9" * 5_000, "x > 1"]


def answered(node: N, answer: str) -> Visit[N]:
    """A visit as it is resumed: with what was kept as JSON text."""
    return a_visit(node, resumed_with=json.loads(encode({"answer": answer})))


@EXAMPLES
def test_a_text_is_taken_as_it_is_or_refused(examples: int) -> None:
    codes = set()

    def check(example: tuple[str, str | None]) -> None:
        answer, validation = example
        node = InputNode(
            id="q",
            question="well?",
            next="z",
            validation=validation,
            state_updates={"a": "{{input}}", "b": "<{{input}}>"},
        )
        try:
            outcome = run_input(answered(node, answer))
        except NodeFailed as failure:
            codes.add(failure.code)
            assert_one_line(failure.message)
            return
        assert isinstance(outcome, Wrote)
        assert outcome.writes == {"a": answer, "b": f"<{answer}>"}
        encode(outcome.writes).encode()

    fuzz(examples, st.tuples(texts(), st.sampled_from(VALIDATIONS)), check)
    assert codes == {"R019"}


@EXAMPLES
def test_a_choice_takes_a_route(examples: int) -> None:
    def check(answer: str) -> None:
        routes = {"yes": "a", "no": "b"}
        node = ApprovalNode(
            id="q", question="well?", options=["yes", "no"], routes=routes, on_other="c"
        )
        outcome = run_approval(answered(node, answer))

        assert isinstance(outcome, Wrote)
        assert outcome.targets == (routes.get(answer, "c"),)
        assert consent(answer) in ("yes", "no", None)

    fuzz(examples, texts() | st.sampled_from(["yes", "no", " Y ", "0"]), check)
