"""What a program submits: a run whose parts can be stored, or a refusal in one line."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.graphs.schema import EndNode, Graph, InputNode, Variable
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.runs.submit import Request, new_run
from tests.support.fuzzing import EXAMPLES, assert_one_line, fuzz, texts, values

GRAPH = Graph(
    name="g",
    start="s",
    variables=[Variable(name="who", default="me", description="d")],
    nodes={
        "s": InputNode(id="s", question="well?", next="z"),
        "z": EndNode(id="z", output="{{x}}"),
    },
)


def requested() -> SearchStrategy[Request]:
    return st.builds(
        Request,
        prompt=texts(),
        state=st.dictionaries(st.just("x") | texts(), values(), max_size=2),
        variables=st.just({}) | st.dictionaries(st.just("who") | texts(), texts(), max_size=1),
        answers=st.just({})
        | st.dictionaries(st.just("s") | texts(), st.lists(texts(), max_size=2), max_size=1),
    )


@EXAMPLES
def test_a_request_is_a_run_or_is_refused(examples: int) -> None:
    def check(request: Request) -> None:
        try:
            run = new_run(GRAPH, "d", request, agent="g", agents={})
        except SubmissionRefused as error:
            assert_one_line(str(error))
            return
        for text in run.state.values():
            text.encode()
        seeds = {key: json.loads(text) for key, text in run.state.items()}
        assert seeds == {"who": seeds["who"], **request.state, "initial_prompt": request.prompt}
        assert RunContext.from_json(run.context.to_json()) == run.context

    fuzz(examples, requested(), check)
