"""Faults amid a team: the items of a map, whose agents write to each other."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.dying import IN_A_CONVERSATION, Deaths
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import leaked_keys
from tests.support.model_server import ModelServer, Reply, Request, calls, says

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

ITEMS = 20
# Each item writes to so many that follow it, the last ones to the first.
LETTERS = 3
GRAPH = """
start: m
settings: {max_concurrency: 20}
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: first, collect_into: found, next: z}
  first: {type: agent, agent: worker, prompt: "FIRST {{item}}.", teammates: true, timeout: 0,
          next: second}
  second: {type: agent, agent: worker, prompt: "SECOND {{item}}.", teammates: true, timeout: 0}
  z: {type: end, output: "{{found}}"}
"""
PLACES = (
    *("before.begin", "before.execute", "after.execute", "before.advance", "after.advance"),
    *("before.send", "after.send", "before.spawn", "after.spawn"),
    *("before.stage_item", "after.stage_item", *IN_A_CONVERSATION),
    *("before.redeliver", "after.redeliver"),
)
# Two functions, as one call after the other is refused if it is always the same.
LOOKS = calls(("agent__check_inbox", {}), ("agent__list", {}))


def read_in(messages: list[dict[str, Any]]) -> list[str]:
    """What a conversation has read from its inbox."""
    found = [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
    return [one["payload"]["content"] for each in found for one in each.get("messages", ())]


class Models:
    """The models of all items; they know what each has read, as no single agent does."""

    def __init__(self) -> None:
        self.first: Counter[int] = Counter()  # what the first agent of an item has read

    def reply(self, request: Request) -> Reply:
        prompt = next(each["content"] for each in request.messages if each["role"] == "user")
        which, item = re.match(r"(\w+) (\d+)\.", prompt).groups()  # type: ignore[union-attr]
        read = read_in(request.messages)
        turn = 1 + sum(each["role"] == "assistant" for each in request.messages)
        if which == "FIRST":
            self.first[int(item)] = len(read)
            return (_writes(int(item), prompt), LOOKS, says("first"))[turn - 1]
        return LOOKS if self.first[int(item)] + len(read) < LETTERS else says("second")


def _writes(item: int, prompt: str) -> Reply:
    ids = {int(n): name for name, n in re.findall(r"- (\S+) \(first\[(\d+)\]\)", prompt)}
    return calls(
        *(
            ("agent__send_message", {"id": ids[to], "message": f"{item} to {to}"})
            for to in ((item + n) % ITEMS for n in range(1, LETTERS + 1))
        )
    )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.when(lambda _: True, Models().reply)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


@pytest.mark.usefixtures("server")
def test_every_message_is_read_once_whoever_dies(engine: Engine, rng: random.Random) -> None:
    engine.configure(max_deliveries=1000, agent_max_stuck_turns=0)
    engine.write_normal("worker", "model: openai:m\n")
    run_id = engine.submit(GRAPH, state={"items": list(range(ITEMS))})
    deaths = Deaths(engine, rng)

    deaths.work_off(lambda: engine.run(run_id).is_final, PLACES, lambda: None)

    assert engine.run(run_id).failure is None
    assert engine.run(run_id).output == json.dumps(["second"] * ITEMS, separators=(",", ":"))
    read = Counter[str]()
    for child in engine.queries.children(run_id):
        turns = engine.state(child.run_id)
        read.update(
            text for key in turns if key.startswith("turn ") for text in read_in(turns[key])
        )
    sent = {f"{n} to {(n + k) % ITEMS}" for n in range(ITEMS) for k in range(1, LETTERS + 1)}
    assert read == Counter(sent)
    assert deaths.at.total() > 0
    assert_consistent(engine.redis, runs=1 + 2 * ITEMS)
    assert leaked_keys(engine.redis) == []
