"""Each node of the agents of tests/acceptance/coyote_machine fails: what becomes of the run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from sleipnir.scheduler.runs.submit import Request
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, fails, says

MACHINE = Path(__file__).parents[2] / "acceptance" / "coyote_machine"
NO = fails(400, "no")


class Fault(NamedTuple):
    """A fault of one node, and how the run of the agent ends."""

    agent: str
    node: str  # the one that fails
    prompt: str
    replies: Mapping[str, Reply]  # of models, by a part of their prompts
    output: str = ""  # how it begins; or …
    code: str = ""  # … the error that ends the run, at that node
    item_of: str = ""  # the map whose only item, or its last one, fails at the node
    tolerated: bool = False  # the node goes on to its `next`
    unsearchable: str = ""  # a query that the embedding model refuses
    answers: Mapping[str, Sequence[str]] = {}


def as_json(value: object) -> Reply:
    return says(json.dumps(value))


def steps(*titles: str) -> Reply:
    return as_json({"steps": [{"title": title, "minutes": 20} for title in titles]})


def questions(*texts: str) -> dict[str, Reply]:
    return {"Split": as_json({"questions": texts}), "Write up": says("Boats wait.")}


TRUE = {"Is it true": as_json({"holds": True})}
HUNG = {"approve": ["yes"]}
SURVEY, FLOATS, SAYS = "harbour-survey", says("It floats."), {"Speak": says("Aye.")}
FAULTS = (
    Fault("step-runner", "list_steps", "sail", {"Which steps": NO}, code="R014"),
    Fault("step-runner", "pick", "sail", {"Which": as_json({"steps": [{}]})}, code="R013"),
    Fault(
        *("step-runner", "run_step", "sail", {"Which steps": steps("row"), "Do step 1": NO}),
        output='stopped at step 1: ["Agent node failed: ',
    ),
    Fault("smuggler", "learn", "Land.", {"Land.": NO}, output="caught: LLM node failed"),
    Fault(
        *("smuggler", "tie_up", "Land.", {"Tie up": NO, "Land.": says("Landed.")}),
        output="caught: LLM node failed",
    ),
    Fault(SURVEY, "plan", "quay", {"Split": NO}, output="there was no plan"),
    Fault(
        *(SURVEY, "sharpen", "quay"),
        {**questions("who"), "Look into it": says("The owner?"), "without a doubt": NO},
        output="Boats wait.",
        tolerated=True,
        answers=HUNG,
    ),
    Fault(
        *(SURVEY, "keep", "quay", {**questions("when"), "Look into it": says("At ebb.")}),
        output="Boats wait.",
        item_of="look_into_all",
        answers=HUNG,
    ),
    Fault(
        *(SURVEY, "shrug", "quay", {**questions("which wreck"), "Look into it": NO}),
        output="Boats wait.",
        item_of="look_into_all",
        answers=HUNG,
    ),
    Fault(SURVEY, "gather", "quay", questions(), output="Agent node failed: ", tolerated=True),
    Fault(
        *(SURVEY, "report", "quay"),
        {"Write up": NO, "Look into it": says("Slow."), "Split": questions("why")["Split"]},
        output="Agent node failed: ",
    ),
    Fault(
        *(SURVEY, "approve", "quay", {**questions("why"), "Look into it": says("Slow.")}),
        output="nothing was hung up",
        answers={"approve": ["perhaps"]},
    ),
    Fault("claim-check", "split", "it floats;", {}, code="R013"),
    Fault("claim-check", "read", "rumour", {"Is it": NO}, output="nothing holds"),
    Fault("claim-check", "judge", "ha" * 40, TRUE, output="nothing holds", item_of="read_all"),
    Fault("claim-check", "doubt", "rumour", {"Is": NO}, "nothing holds", item_of="read_all"),
    Fault("claim-check", "tally", "a; b; c; d", TRUE, code="R013"),
    Fault("hull-review", "review", "Gull", {"Review": NO}, output="no review: LLM node failed"),
    Fault(
        *("hull-review", "sum_up", "Gull", {"Sum up": NO, "Review": says("All is well.")}),
        output="no review: All is well.",
    ),
    Fault("gauntlet", "open", "mutiny", {}, code="R013"),
    Fault(
        *("gauntlet", "attack", "row"),
        {"Attack": NO, "Defend": FLOATS, **SAYS, "Judge row": as_json({"passes": False})},
        output='failed: ["Agent node failed: ',
    ),
    Fault(
        *("gauntlet", "judge", "row"),
        {"Attack": FLOATS, "Defend": FLOATS, **SAYS, "Judge row": NO},
        output="nobody judged",
    ),
    Fault(
        *("gauntlet", "route", "row"),
        {"Attack": FLOATS, "Defend": FLOATS, "Speak": NO, "Judge row": as_json({"passes": True})},
        code="R013",
    ),
    Fault("pilot-book", "split", "which light;", {}, code="R013"),
    Fault(
        *("pilot-book", "look_up", "zzz; qqq", {"Answer": says("4 metres.")}),
        unsearchable="qqq",
        output='["4 metres.",{"error":"at \'look_up\': ',
        item_of="answer_all",
    ),
    Fault(
        *("pilot-book", "answer", "zzz", {"Answer": NO}),
        output='["ask the pilot"] ["./book/bar.md"]',
    ),
    Fault(
        *("pilot-book", "ask_pilot", "zzz fog", {"Answer": NO}),
        output='[{"error":"at \'ask_pilot\': exit code 3',
        item_of="answer_all",
    ),
    Fault(
        *("pilot-book", "read_all", "zzz; qqq", {"Answer": says("Yes.")}),
        unsearchable="zzz; qqq",
        code="R020",
    ),
)


@pytest.fixture
def brought(
    engine: Engine, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """An engine that has the agents of the machine, and its client."""
    shutil.copytree(MACHINE / "agents", engine.agents_directory)
    shutil.copytree(MACHINE / "functions", tmp_path / "config" / "functions")
    shutil.copytree(MACHINE / "skills", tmp_path / "config" / "skills")
    harbour = {"api_base": server.base_url, "api_key": "sk-of-the-harbour-office"}
    monkeypatch.setenv("PATH", f"{MACHINE / 'bin'}{os.pathsep}{os.environ['PATH']}")
    engine.configure(
        model="harbour:clerk",
        models={"providers": {"harbour": harbour}},
        mapping_mcp_servers={"papers": "registry"},
    )
    yield engine
    engine.services.tools.mcp.close()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.agent}-{fault.node}")
def test_a_node_that_fails_has_the_way_on_that_the_graph_says(
    brought: Engine, server: ModelServer, fault: Fault
) -> None:
    for text, reply in fault.replies.items():
        server.when(text, *[reply] * 50)
    server.when(lambda request: request.body.get("input") == [fault.unsearchable], NO)
    server.when(lambda request: request.path.endswith("/embeddings"), says(""))
    prepared = brought.client.prepare(fault.agent)
    request = Request(prompt=fault.prompt, answers=fault.answers)

    run_id = brought.client.submit(prepared, request)
    brought.drive()

    run = brought.run(run_id)
    if fault.code:
        failure = brought.failure(run_id)
        assert (failure.code, failure.node) == (fault.code, fault.node)
    else:
        assert run.output is not None, run.failure
        assert run.output.startswith(fault.output)
    if fault.item_of:
        item = brought.queries.map_items(run, fault.item_of)[-1]
        assert (item.state, item.node) == ("failed", fault.node)
    if fault.tolerated:
        assert brought.queries.failures(run)[0].node == fault.node
    assert_consistent(brought.redis, runs=1)
