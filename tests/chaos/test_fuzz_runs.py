"""Odd content, end to end: each run ends, others are served, and what is stored fits together."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest
import redis
from hypothesis.strategies import SearchStrategy

from graphs.errors import GraphError
from scheduler.errors import SleipnirError
from scheduler.run import FINAL
from scheduler.submit import Request
from tests.fuzz.test_graph_files import files
from tests.fuzz.test_model_replies import OddServer, bodies
from tests.fuzz.test_script_output import printed
from tests.fuzz.test_tool_arguments import BASH, arguments
from tests.support.fuzzing import fuzz, texts, values
from tests.support.invariants import assert_consistent
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

    def all_over() -> bool:
        runs = workers.records.runs([*run_ids, *innocent])
        return all(run is not None and run.status in FINAL for run in runs)

    wait_until(all_over, "all runs are over", LIMIT_S)
    ended = [workers.run(run_id) for run_id in run_ids]
    assert {run.failure.code for run in ended if run.failure} & {"R022", "R023"} == set()
    assert {workers.run(run_id).output for run_id in innocent} == {"fine"}
    assert_consistent(client, runs=len(run_ids) + 5)


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
    run_ids = []
    directory = engine_at_work.write("fuzzed", SOUND, {"s.sh": "echo '{}'"})
    for content in some(files()):
        (directory / "graph.yaml").write_bytes(content)
        try:
            agent = engine_at_work.client.prepare("fuzzed")
            run_ids.append(engine_at_work.client.submit(agent, Request()))
        except (GraphError, SleipnirError) as error:
            logger.info("%s", error)

    def all_rest() -> bool:
        runs = engine_at_work.records.runs(run_ids)
        return all(run is not None and run.status in {*FINAL, "waiting"} for run in runs)

    wait_until(all_rest, "all runs are over or ask a person", LIMIT_S)
    for run_id in run_ids:
        engine_at_work.client.cancel(run_id, "nobody answers")
    check_all(engine_at_work, redis_client, run_ids)


def test_scripts(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    requests = [Request(state={"printed": output.hex()}) for output in some(printed())]

    run_ids = submitted(engine_at_work, ECHOES, requests, s_sh=PRINTS)

    check_all(engine_at_work, redis_client, run_ids)


def test_state_and_prompts(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    requests = [
        Request(prompt=prompt, state={"x": value})
        for prompt, value in zip(some(texts()), some(values()), strict=False)
    ]

    run_ids = submitted(engine_at_work, ECHOES, requests, s_sh="echo '{\"output\": 1}'")

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
    odd_server.bodies = [_calls("demo", given) for given in some(arguments())]

    run_ids = submitted(engine_at_work, ASKS_MODEL, [Request()] * EXAMPLES, tools_sh=TOOLS)

    check_all(engine_at_work, redis_client, run_ids)


def _calls(name: str, given: Any) -> bytes:
    function = {"name": name, "arguments": json.dumps(given)}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    ).encode()


def test_answers(engine_at_work: Workers, redis_client: redis.Redis) -> None:
    answers = some(texts())
    run_ids = submitted(engine_at_work, ASKS_PERSON, [Request()] * len(answers))
    wait_until(lambda: len(engine_at_work.records.inbox()) == len(run_ids), "all runs ask", LIMIT_S)

    for run_id, answer in zip(run_ids, answers, strict=True):
        try:
            engine_at_work.client.answer(run_id, answer)
        except SleipnirError as error:
            logger.info("%s", error)
            engine_at_work.client.answer(run_id, "in plain words")

    check_all(engine_at_work, redis_client, run_ids)
