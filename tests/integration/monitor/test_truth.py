"""What commands, API and pages say, beside what is stored and what the models' server has billed.

Random histories of runs, batches, retries, cancellations, children, maps and money are played on
the engine. After every step each list, count, sum and state is compared with a plain reading of the
records, and with the calls that the server has answered, which know nothing of the engine's sums.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import FINAL, Run
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.monitor.formats import money
from tests.support import model_server
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Script, fails, says
from tests.support.redis_server import RedisServer
from tests.support.site import ServedSite

PROMPT_TOKENS, COMPLETION_TOKENS = 10, 5
# USD per million tokens; a call costs 0.002.
PRICES = {"openai:m": {"prompt": 100.0, "completion": 200.0}}
CALL_USD, CALL_TOKENS = 0.002, PROMPT_TOKENS + COMPLETION_TOKENS
# Prompts name the node and, as the first prompt does, the root run.
AGENTS = {
    "writer": """
        start: draft
        nodes:
          draft: {type: llm, model: openai:m, prompt: "draft {{initial_prompt}}", next: polish}
          polish: {type: llm, model: openai:m, prompt: "polish {{initial_prompt}}", next: done}
          done: {type: end}
        """,
    "fragile": """
        start: weak
        settings: {tolerate_failures: false}
        nodes:
          weak: {type: llm, model: openai:m, prompt: "weak {{initial_prompt}}", next: done}
          done: {type: end}
        """,
    "asker": """
        start: ask
        nodes:
          ask: {type: approval, question: Sure?, options: ["yes"], routes: {"yes": draft},
                on_other: done}
          draft: {type: llm, model: openai:m, prompt: "draft {{initial_prompt}}", next: done}
          done: {type: end}
        """,
    "wide": """
        start: each
        initial_state: {items: [1, 2, 3]}
        nodes:
          each: {type: map, over: "{{items}}", as: item, branch: one, collect_into: all, next: done}
          one: {type: llm, model: openai:m, prompt: "one {{initial_prompt}}"}
          done: {type: end}
        """,
    "parent": """
        start: child
        nodes:
          child: {type: agent, agent: asker, prompt: "{{initial_prompt}}", next: draft}
          draft: {type: llm, model: openai:m, prompt: "draft {{initial_prompt}}", next: done}
          done: {type: end}
        """,
}
SHOWN = ("waiting", "succeeded", "failed", "cancelled", "timed_out")
COUNTED = ("succeeded", "failed", "cancelled", "timed_out")


class Bill:
    """What the server has answered, by root run and node."""

    def __init__(self, requests: Iterable[model_server.Request]) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        for request in requests:
            node, root = request.prompt.split()
            if node != "weak" or not root.startswith("broken"):
                self.calls[root, node] += 1

    def of(self, root: str) -> int:
        return sum(count for (name, _), count in self.calls.items() if name == root)

    def by_node(self, root: str) -> dict[str, int]:
        return {node: count for (name, node), count in self.calls.items() if name == root}


class TruthAndViews(RuleBasedStateMachine):
    """A few runs, a person, and somebody who looks at everything after each step."""

    def __init__(
        self, engine: Engine, server: ModelServer, site: ServedSite, redis_url: str
    ) -> None:
        super().__init__()
        engine.redis.flushall()
        server.requests.clear()
        self.engine, self.server, self.site, self.url = engine, server, site, redis_url
        self.names: dict[str, str] = {}  # by root run: its prompt
        self.agents: dict[str, str] = {}  # by prompt: its agent; those of removed runs too
        self.removed: list[tuple[str | None, str]] = []  # their batches and prompts
        self.made = 0

    # ---- what happens

    @precondition(lambda self: len(self.names) < 6)
    @rule(
        agent=st.sampled_from(sorted(AGENTS)),
        batch=st.sampled_from([None, "night", "day: 1"]),
        breaks=st.booleans(),
    )
    def submit(self, agent: str, batch: str | None, breaks: bool) -> None:
        self.made += 1
        name = f"{'broken' if breaks and agent == 'fragile' else 'run'}-{self.made}"
        prepared = self.engine.client.prepare(agent)
        request = Request(prompt=name, batch=batch)
        self.names[self.engine.client.submit(prepared, request)] = name
        self.agents[name] = agent

    @rule(count=st.integers(1, 6))
    def work(self, count: int) -> None:
        for _ in range(count):
            self.engine.work_once()

    @precondition(lambda self: self.engine.inbox())
    @rule(data=st.data(), text=st.sampled_from(["yes", "no"]))
    def answer(self, data: st.DataObject, text: str) -> None:
        question = data.draw(st.sampled_from(self.engine.inbox()))
        self.engine.client.answer_question(question, text)

    @precondition(lambda self: self.engine_open())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.engine.client.cancel(data.draw(st.sampled_from(self.engine_open())))

    @precondition(lambda self: self.failed())
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        self.engine.client.retry(data.draw(st.sampled_from(self.failed())))

    @rule(seconds=st.sampled_from([0.01, 3, 70]))
    def let_time_pass(self, seconds: float) -> None:
        self.engine.clock.move(seconds)
        self.engine.tick()

    @precondition(lambda self: self.ended())
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        run = self.engine.run(data.draw(st.sampled_from(self.ended())))
        children = [child.run_id for child in self.stored().values() if child.parent]
        self.engine.store.runs.purge(run.run_id)
        self.removed.append((run.batch, self.names.pop(run.run_id)))
        self.engine.tick()
        assert not {run.run_id} & set(self.stored()), children

    # ---- what is stored

    def stored(self) -> dict[str, Run]:
        """Every run, read record by record."""
        keys = [key for p in ALL_PARTITIONS for key in self.engine.redis.keys(f"{p}:run:*")]
        return {key.split(":")[2]: self.engine.run(key.split(":")[2]) for key in map(str, keys)}

    def engine_open(self) -> list[str]:
        return sorted(id_ for id_, run in self._roots() if run.status not in FINAL)

    def failed(self) -> list[str]:
        return sorted(id_ for id_, run in self._roots() if run.status in ("failed", "cancelled"))

    def ended(self) -> list[str]:
        return sorted(id_ for id_, run in self._roots() if run.status in FINAL)

    def _roots(self) -> list[tuple[str, Run]]:
        return [(id_, run) for id_, run in self.stored().items() if run.parent is None]

    # ---- what is said

    def ask(self, path: str) -> Any:
        answer = self.site.ask(f"/api/v1/{path}")
        assert answer.status == 200, answer.text
        return answer.json

    def type_in(self, *words: str) -> list[Any]:
        done = CliRunner().invoke(cli, [*words, "--json", "--redis", self.url])
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    @invariant()
    def lists_and_counts_agree(self) -> None:
        runs = self.stored()
        roots = {id_: run for id_, run in runs.items() if run.parent is None}

        every, top = self.ask("runs?children=1&limit=100"), self.ask("runs?limit=100")

        assert statuses(every["runs"]) == {id_: run.status for id_, run in runs.items()}
        assert statuses(top["runs"]) == {id_: run.status for id_, run in roots.items()}
        counts = Counter(str(run.status) for run in roots.values())
        merged = Counter(status if status in SHOWN else "open" for status in counts.elements())
        assert {name: n for name, n in top["counts"].items() if n} == merged
        for status in counts:
            listed = self.ask(f"runs?limit=100&status={status}")["runs"]
            assert {run["run_id"] for run in listed} == {
                id_ for id_, run in roots.items() if run.status == status
            }

    @invariant()
    def batches_agree(self) -> None:
        roots = [run for _, run in self._roots() if run.batch]
        listed = {each["batch"]: each for each in self.ask("batches")["batches"]}
        bill = Bill(self.server.requests)

        assert set(listed) == {run.batch for run in roots}
        for name, batch in listed.items():
            members = [run for run in roots if run.batch == name]
            of_ended = [run for run in members if run.status in FINAL]
            counts = Counter(run.status for run in members)
            assert {status: batch[status] for status in COUNTED} == {
                status: counts[status] for status in COUNTED
            }
            assert batch["waiting"] == counts["waiting"]
            assert batch["open"] == counts["queued"] + counts["running"]
            assert batch["runs"] == len(members)
            removed = [prompt for of, prompt in self.removed if of == name]
            assert batch["removed"] == len(removed)
            billed = [*removed, *(self.names[run.run_id] for run in of_ended)]
            calls = sum(map(bill.of, billed))
            assert batch["usage"]["total_tokens"] == calls * CALL_TOKENS
            assert batch["usage"]["cost_usd"] == pytest.approx(calls * CALL_USD)
            assert self.ask(f"batches/{quoted(name)}")["runs"] == len(members)

    @invariant()
    def questions_agree(self) -> None:
        waiting = {id_ for id_, run in self.stored().items() if run.status == "waiting"}
        asked = self.ask("questions?limit=100")

        assert {question["root_run_id"] for question in asked["questions"]} <= waiting
        assert {question["run_id"] for question in asked["questions"]} == {
            id_ for id_ in waiting if self.engine.run(id_).agent == "asker"
        }
        assert self.ask("now")["fleet"]["questions"] == len(asked["questions"])

    @invariant()
    def money_agrees(self) -> None:
        bill = Bill(self.server.requests)
        total = sum(bill.calls.values())
        by_agent: Counter[str] = Counter()
        for (name, _), count in bill.calls.items():
            by_agent[self.agents[name]] += count

        for run in self.ask("runs?limit=100")["runs"]:
            calls = bill.of(self.names[run["run_id"]])
            assert run["usage"]["total_tokens"] == calls * CALL_TOKENS, run
            assert run["usage"]["cost_usd"] == pytest.approx(calls * CALL_USD)
        assert self.ask("now")["today"]["budget"]["spent_usd"] == pytest.approx(total * CALL_USD)
        agents = self.ask("agents?period=7d")
        assert agents["spent"]["calls"] == total
        assert {each["name"]: each["spent"]["calls"] for each in agents["agents"]} == {
            agent: by_agent[agent] for agent in AGENTS
        }

    @invariant()
    def nodes_agree(self) -> None:
        bill = Bill(self.server.requests)
        for id_, name in self.names.items():
            sums = self.ask(f"runs/{id_}/model")["sums"]
            told = sum(each["calls"] for each in sums if each["model"] is not None)
            assert told == bill.of(name), (sums, bill.by_node(name))

    @invariant()
    def pages_agree(self) -> None:
        page = self.site.ask("/now").text
        total = sum(Bill(self.server.requests).calls.values()) * CALL_USD
        if total:
            assert money(total) in page
        listed = self.site.ask("/runs").text
        for id_ in self.names:
            assert id_[:8] in listed

    def teardown(self) -> None:
        """Commands start slowly, so that they are asked at the end of each history."""
        runs = self.stored()
        assert statuses(self.type_in("ps", "--all", "--limit", "100")) == {
            id_: run.status for id_, run in runs.items()
        }
        batches = {each["batch"]: each for each in self.type_in("batches")}
        listed = {each["batch"]: each for each in self.ask("batches")["batches"]}
        assert {name: each["runs"] for name, each in batches.items()} == {
            name: each["runs"] for name, each in listed.items()
        }
        asked = self.ask("questions?limit=100")["questions"]
        assert {each["run_id"] for each in self.type_in("inbox")} == {
            each["run_id"] for each in asked
        }


def statuses(documents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {each["run_id"]: each["status"] for each in documents}


def quoted(name: str) -> str:
    return re.sub(r"\W", lambda found: f"%{ord(found[0]):02X}", name)


def scripted(server: ModelServer) -> None:
    """Answer every prompt but those of broken runs, as often as they come."""
    fine = says("fine", prompt_tokens=PROMPT_TOKENS, completion_tokens=COMPLETION_TOKENS)
    server.script = Script(otherwise=fine)
    server.when("broken", *[fails(400, "no such thing")] * 1_000)


@pytest.mark.timeout(400)  # a difference takes time to be made short
def test_views_and_records_agree(
    engine: Engine, server: ModelServer, redis_server: RedisServer
) -> None:
    engine.configure(models={"prices": PRICES})
    for name, graph in AGENTS.items():
        engine.write(name, graph)
    scripted(server)
    with ServedSite(engine.client) as site:
        run_state_machine_as_test(
            lambda: TruthAndViews(engine, server, site, redis_server.url),
            settings=settings(
                max_examples=6,
                stateful_step_count=15,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],  # a story is short enough to read as it is
            ),
        )
    engine.redis.flushall()


def test_lists_are_whole_at_every_look(engine: Engine, server: ModelServer) -> None:
    """While runs of two batches end, each list has both, and the counts of each add up."""
    engine.write("writer", AGENTS["writer"])
    scripted(server)
    prepared = engine.client.prepare("writer")
    for number in range(40):
        request = Request(prompt=f"run-{number}", batch=("one", "two")[number % 2])
        engine.client.submit(prepared, request)
    driving = threading.Thread(target=engine.drive)
    looks = 0
    with ServedSite(engine.client) as site:
        driving.start()
        while driving.is_alive() or looks == 0:
            batches = site.ask("/api/v1/batches").json["batches"]
            counted = site.ask("/api/v1/runs?limit=100").json
            looks += 1
            assert sorted(each["batch"] for each in batches) == ["one", "two"]
            for each in batches:
                ended = sum(each[status] for status in COUNTED)
                assert ended + each["open"] + each["waiting"] == each["runs"] == 20
            assert sum(counted["counts"].values()) == len(counted["runs"]) == 40
    driving.join()
