"""Answers of people: taken as they are, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import ApprovalNode, Graph, InputNode
from sleipnir.graphs.state import Snapshot, encode
from sleipnir.scheduler.runs.consent import consent
from sleipnir.worker.executors.approval import run_approval
from sleipnir.worker.executors.input import run_input
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Wrote
from tests.support.fuzzing import EXAMPLES, assert_one_line, fuzz, texts

VALIDATIONS = [None, "len(input) > 3", "len(input) == 0", "len(input) <= " + "9" * 5_000, "x > 1"]


def a_visit(node: Any, answer: str) -> Visit[Any]:
    """As it is resumed: with what was kept as JSON text."""
    return Visit(
        run_id="r1",
        step=1,
        node_id="q",
        node=node,
        graph=Graph(name="g", start="q", nodes={"q": node}),
        directory=Path(),
        state=Snapshot.of({}),
        idempotency_key="k",
        resumed_with=json.loads(encode({"answer": answer})),
    )


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
            outcome = run_input(a_visit(node, answer))
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
        outcome = run_approval(a_visit(node, answer))

        assert isinstance(outcome, Wrote)
        assert outcome.targets == (routes.get(answer, "c"),)
        assert consent(answer) in ("yes", "no", None)

    fuzz(examples, texts() | st.sampled_from(["yes", "no", " Y ", "0"]), check)
