"""Odd content, end to end: each run ends, others are served, and what is stored fits together."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.graphs.errors import GraphError
from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.intake import load_input
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import Format
from sleipnir.scheduler.batch.options import BatchOptions
from sleipnir.scheduler.batch.results.file import result_line
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SleipnirError, SubmissionRefused
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.runs.submit import Request
from tests.fuzz import test_mcp_replies as mcp
from tests.fuzz.test_batch_lines import as_stream, inputs
from tests.fuzz.test_graph_files import files
from tests.fuzz.test_model_replies import OddServer, bodies
from tests.fuzz.test_requests import requested
from tests.fuzz.test_script_output import printed
from tests.fuzz.test_tool_arguments import BASH, arguments
from tests.support.fuzzing import fuzz, texts
from tests.support.invariants import assert_consistent
from tests.support.mcp import odd_mcp_server
from tests.support.wait import wait_until
from tests.support.workers import Workers

logger = logging.getLogger(__name__)

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_200)]

T = TypeVar("T")

EXAMPLES = 300
LIMIT_S = 900

ECHOES = """
settings: {timeout: 300}
start: s
nodes:
  s: {type: script, script: s.sh, next: z, state_updates: {seen: "{{x}} {{output}}"}}
  z: {type: end, output: "{{seen}}"}
"""
# What it prints came with the run, as hexadecimal digits.
PRINTS = r"""
hex=$(sed -n 's/.*"printed":"\([0-9a-f]*\)".*/\1/p' <<< "$GRAPH_STATE")
printf "$(sed 's/../\\x&/g' <<< "$hex")"
"""

# The same function, of an agent of its own.
TOOLS = BASH.replace("# @describe", "# @cmd").replace("main()", "demo()")

ASKS_MODEL = """
model: openai:m
settings: {timeout: 300}
start: s
nodes:
  s: {type: llm, prompt: "{{initial_prompt}}", max_attempts: 1, tools: [demo], max_iterations: 2,
      next: z}
  z: {type: end, output: "{{output}}"}
"""

ASKS_PERSON = """
settings: {timeout: 300}
start: s
nodes:
  s: {type: input, question: "well?", state_updates: {a: "{{input}}"}, next: z}
  z: {type: end, output: "{{a}}"}
"""

# One server whose answers are odd, and one, offered both ways, whose list of tools is.
ASKS_SERVERS = """
model: openai:m
mcp_servers: [odd, listed, direct]
settings: {timeout: 300}
start: s
nodes:
  s: {type: llm, prompt: x, max_attempts: 1, tools: [odd__echo, "mcp:listed", "mcp:direct"],
      max_iterations: 2, next: z}
  z: {type: end, output: "{{output}}"}
"""

TAKES_LINES = """
settings: {timeout: 300}
variables: [{name: who, default: me, description: d}]
start: s
nodes:
  s: {type: input, question: "well, {{who}}?", state_updates: {a: "{{input}} {{x}}"}, next: z}
  z: {type: end, output: "{{a}} {{initial_prompt}}"}
"""

SOUND = "start: z\nnodes: {z: {type: end, output: fine}}"


@pytest.fixture
def odd_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OddServer]:
    with OddServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


@pytest.fixture
def engine_at_work(odd_server: OddServer, workers: Workers) -> Workers:
    """A scheduler and two worker processes, and a model server that says anything."""
    workers.start_scheduler()
    workers.start_supervised(2)
    return workers


def some(strategy: SearchStrategy[T], count: int = EXAMPLES) -> list[T]:
    """That many examples, always the same."""
    found: list[T] = []
    fuzz(count, strategy, found.append)
    return found


def check_all(workers: Workers, client: redis.Redis, run_ids: Sequence[str]) -> None:
    """The runs end, so do others that came after them, and nothing contradicts itself."""
    assert run_ids
    innocent = [workers.submit(SOUND) for _ in range(5)]
    wait_for(workers, [*run_ids, *innocent], FINAL, "all runs are over")
    ended = [workers.run(run_id) for run_id in run_ids]
    assert {run.failure.code for run in ended if run.failure} & {"R022", "R023"} == set()
    assert {workers.run(run_id).output for run_id in innocent} == {"fine"}
    assert_consistent(client, runs=len(run_ids) + 5)


def cancel_waiting(workers: Workers, run_ids: Sequence[str]) -> None:
    """Wait until the runs are over or ask a person, and end those that ask."""
    wait_for(workers, run_ids, {*FINAL, "waiting"}, "all runs are over or ask a person")
    for run_id in run_ids:
        workers.client.cancel(run_id, "nobody answers")


def wait_for(
    workers: Workers, run_ids: Sequence[str], wanted: Collection[str], description: str
) -> None:
    left = list(run_ids)

    def none_left() -> bool:
        # Looking must not take the cores from the workers.
        Event().wait(0.2)
        runs = workers.queries.runs(left)
        left[:] = [
            run_id
            for run_id, run in zip(left, runs, strict=True)
            if run is None or run.status not in wanted
        ]
        return not left

    wait_until(none_left, description, LIMIT_S)


def submitted(workers: Workers, graph: str, requests: Sequence[Any], **files: str) -> list[str]:
    """A run for each request that is accepted; others are refused in our own words."""
    workers.write("odd", graph, {name.replace("_sh", ".sh"): text for name, text in files.items()})
    agent = workers.client.prepare("odd")
    run_ids = []
    for request in requests:
        try:
            run_ids.append(workers.client.submit(agent, request))
        except SleipnirError as error:
            logger.info("%s", error)
    return run_ids


def test_graph_files(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    run_ids: list[str] = []
    directory = engine_at_work.write("fuzzed", SOUND, {"s.sh": "echo '{\"output\": 1}'"})
    # One in fifteen or so is a graph.
    for content in some(files(), 10 * EXAMPLES):
        if len(run_ids) == EXAMPLES:
            break
        (directory / "graph.yaml").write_bytes(content)
        try:
            agent = engine_at_work.client.prepare("fuzzed")
            run_ids.append(engine_at_work.client.submit(agent, Request()))
        except (GraphError, SleipnirError) as error:
            logger.info("%s", error)

    cancel_waiting(engine_at_work, run_ids)
    check_all(engine_at_work, redis_client, run_ids)


def test_scripts(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    printing = [Request(state={"printed": output.hex()}) for output in some(printed())]

    run_ids = submitted(engine_at_work, ECHOES, printing, s_sh=PRINTS)

    check_all(engine_at_work, redis_client, run_ids)


def test_requests(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    answered = [
        replace(request, answers={"s": ["fine"], **request.answers})
        for request in some(requested())
    ]

    run_ids = submitted(engine_at_work, TAKES_LINES, answered)

    cancel_waiting(engine_at_work, run_ids)
    check_all(engine_at_work, redis_client, run_ids)


def test_model_replies(
    engine_at_work: Workers, odd_server: OddServer, redis_client: redis.Redis
) -> None:
    odd_server.bodies = some(bodies())

    run_ids = submitted(engine_at_work, ASKS_MODEL, [Request()] * EXAMPLES, tools_sh=TOOLS)

    check_all(engine_at_work, redis_client, run_ids)


def test_tool_arguments(
    engine_at_work: Workers, odd_server: OddServer, redis_client: redis.Redis
) -> None:
    odd_server.bodies = [_calls(("demo", given)) for given in some(arguments())]

    run_ids = submitted(engine_at_work, ASKS_MODEL, [Request()] * EXAMPLES, tools_sh=TOOLS)

    check_all(engine_at_work, redis_client, run_ids)


def test_mcp_replies(
    engine_at_work: Workers, odd_server: OddServer, redis_client: redis.Redis, tmp_path: Path
) -> None:
    configure_servers(tmp_path)
    examples = some(st.tuples(mcp.answers(), mcp.lists_of_tools(), mcp.questions()))
    asking = []
    for number, (answer, listed, asked) in enumerate(examples):
        workdir = tmp_path / f"workdir-{number}"
        workdir.mkdir()
        (workdir / "listed.json").write_text(json.dumps(listed))
        asking.append(Request(workdir=str(workdir)))
        odd_server.bodies.append(
            _calls(
                ("odd__echo", {"hex": answer.hex()}),
                *((f"mcp_{verb}_listed", asked) for verb in ("search", "describe", "invoke")),
            )
        )

    run_ids = submitted(engine_at_work, ASKS_SERVERS, asking)

    check_all(engine_at_work, redis_client, run_ids)


def configure_servers(directory: Path) -> None:
    """The user's servers: `odd` with its list of tools, the others with that of a directory."""
    sound = directory / "sound.json"
    sound.write_text(json.dumps(mcp.SOUND))
    odd = odd_mcp_server(sound)
    program = {"command": odd.command, "args": odd.args}
    of_directory = {**program, "env": {"LISTED": "listed.json"}}
    servers = {
        "odd": {**program, "env": odd.env, "cwd": str(directory)},
        "listed": of_directory,
        "direct": {**of_directory, "expose": "direct"},
    }
    functions = directory / "config" / "functions"
    functions.mkdir(parents=True)
    (functions / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def _calls(*calls: tuple[str, Any]) -> bytes:
    parts = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for number, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": parts}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    ).encode()


def test_batch_lines(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    engine_at_work.write("odd", TAKES_LINES)
    agent = engine_at_work.client.prepare("odd")
    with ExitStack() as stack:
        made = [
            a_batch(engine_at_work, agent, f"b{number}", stack.enter_context(Ledger()), example)
            for number, example in enumerate(some(inputs()))
        ]
        batches = [batch for batch in made if batch is not None]
        for batch in batches:
            batch.submit_all()

        pages = [engine_at_work.queries.batch_pages(f"b{number}") for number in range(len(made))]
        run_ids = [run_id for page in chain(*pages) for run_id in page]
        cancel_waiting(engine_at_work, run_ids)
        check_all(engine_at_work, redis_client, run_ids)
        results = [result_line(finished) for batch in batches for finished in batch.results()]

    assert sorted(json.loads(result)["run_id"] for result in results) == sorted(run_ids)


def a_batch(
    workers: Workers, agent: PreparedAgent, name: str, ledger: Ledger, example: tuple[str, Format]
) -> Batch | None:
    """The lines of an input that can be used, as `batch --skip-bad` takes them; None: none can."""
    content, form = example
    defaults = Request(answers={"s": ["fine"]})

    def check(request: Request) -> None:
        workers.client.check(agent, request)

    try:
        intake = load_input(ledger, as_stream(content), form, check, defaults, 10_000)
    except SubmissionRefused as error:
        logger.info("%s", error)
        return None
    intake.describe_bad().encode()
    return Batch(workers.client, agent, ledger, BatchOptions(name, sys.maxsize, defaults=defaults))


def test_answers(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    answers = some(texts())
    run_ids = submitted(engine_at_work, ASKS_PERSON, [Request()] * len(answers))
    wait_until(lambda: len(engine_at_work.inbox()) == len(run_ids), "all runs ask", LIMIT_S)

    for run_id, answer in zip(run_ids, answers, strict=True):
        try:
            engine_at_work.client.answer(run_id, answer)
        except SleipnirError as error:
            logger.info("%s", error)
            engine_at_work.client.answer(run_id, "in plain words")

    check_all(engine_at_work, redis_client, run_ids)
