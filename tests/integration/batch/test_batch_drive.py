"""Batches over a real Redis: what is started, joined, skipped and reported."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.intake import load_input
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.options import BatchOptions, Progress
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.preparation import PreparedAgent
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.submit import Request
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

SHOUT = """
start: shout
nodes:
  shout: {type: script, script: shout.py}
  end: {type: end, output: "{{loud}}"}
"""
SCRIPT = """
import json, os, sys
prompt = json.loads(os.environ["GRAPH_STATE"])["initial_prompt"]
if prompt.startswith("fail"):
    sys.exit(1)
print(json.dumps({"loud": prompt.upper(), "_next": "end"}))
"""
ASK = """
start: ask
nodes:
  ask: {type: approval, question: "ok?", options: [], routes: {}, on_other: end,
        state_updates: {answer: "{{choice}}"}}
  end: {type: end, output: "{{answer}}"}
"""
OPTIONS = BatchOptions(name="words", max_in_flight=10)


@pytest.fixture
def shout(engine: Engine) -> PreparedAgent:
    engine.write("shout", SHOUT, {"shout.py": SCRIPT})
    return engine.client.prepare("shout")


@pytest.fixture
def ask(engine: Engine) -> PreparedAgent:
    engine.write("ask", ASK)
    return engine.client.prepare("ask")


class Started:
    """One start of the batch command, its workers in this process."""

    def __init__(
        self, engine: Engine, agent: PreparedAgent, ledger: Ledger, options: BatchOptions
    ) -> None:
        self.engine = engine
        self.ledger = ledger
        self.widest = 0
        self.batch = Batch(engine.client, agent, ledger, options, on_progress=self._work)
        self.progress = self.batch.progress

    def _work(self, progress: Progress) -> None:
        self.widest = max(self.widest, progress.in_flight)
        self.engine.drive()

    def results(self) -> Iterator[tuple[str, str, str | None]]:
        for item, run, *_ in self.batch.results():
            yield item.item, str(run.status), run.output


Start = Callable[..., Started]


@pytest.fixture
def start(engine: Engine) -> Iterator[Start]:
    """Starts an agent over lines whose prompts are also their ids."""
    with ExitStack() as stack:

        def begin(agent: PreparedAgent, *prompts: str, **options: Any) -> Started:
            ledger = stack.enter_context(Ledger())
            text = "".join(
                json.dumps({"id": prompt, "prompt": prompt}) + "\n" for prompt in prompts
            )
            load_input(ledger, io.StringIO(text), "jsonl", lambda _: None, Request(), 10_000)
            return Started(engine, agent, ledger, replace(OPTIONS, **options))

        yield begin


def test_every_line_becomes_a_run(engine: Engine, start: Start, shout: PreparedAgent) -> None:
    started = start(shout, "one", "two")

    results = sorted(started.results())

    assert results == [("one", "succeeded", "ONE"), ("two", "succeeded", "TWO")]
    assert engine.run(run_id_of("words", "one", 1)).batch == "words"
    assert started.progress.succeeded == 2


def test_no_more_runs_than_wanted_are_under_way(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    started = start(shout, *"abcdefg", max_in_flight=3)

    results = list(started.results())

    assert len(results) == 7
    assert started.widest == 3


def test_results_come_in_input_order_if_wanted(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    names = [f"{number:02}" for number in range(20)]
    started = start(shout, *names, ordered=True, max_in_flight=7)

    assert [item for item, _, _ in started.results()] == names


def test_another_start_reports_without_running_again(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    first = list(start(shout, "one", "fail").results())

    again = start(shout, "one", "fail")

    assert sorted(again.results()) == sorted(first)
    assert (again.progress.earlier, engine.queued()) == (2, [])


def test_another_start_joins_runs_under_way(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    interrupted = start(shout, "one", "two")
    interrupted.batch.submit_all()

    results = sorted(start(shout, "one", "two", "three").results())

    assert [output for _, _, output in results] == ["ONE", "THREE", "TWO"]
    assert len(engine.newest_runs()) == 3
    (row,) = engine.queries.list_batches(5).entries
    assert (row.name, row.agent, row.lines, row.succeeded) == ("words", "shout", 3, 3)


def test_failed_lines_run_again_only_if_wanted(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "one", "fail").results())

    again = start(shout, "one", "fail", retry_failed=True, from_start=True)

    assert len(list(again.results())) == 2
    second = run_id_of("words", "fail", 2)
    assert engine.run(second).status == Status.FAILED
    (members,) = engine.queries.batch_pages("words")
    assert sorted(members) == sorted([run_id_of("words", "one", 1), second])


def test_failed_lines_go_on_with_the_agent_as_it_is_now(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "one", "fail").results())
    list(start(shout, "one", "fail", retry_failed=True).results())  # nothing is mended yet
    engine.write("shout", SHOUT, {"shout.py": SCRIPT.replace("fail", "never")})
    mended = engine.client.prepare("shout")

    again = start(mended, "one", "fail", retry_failed=True)

    assert sorted(again.results()) == [("fail", "succeeded", "FAIL"), ("one", "succeeded", "ONE")]
    assert engine.run(run_id_of("words", "fail", 1)).tries == 3
    assert (again.progress.succeeded, again.progress.failed) == (2, 0)
    assert_consistent(engine.redis, runs=2)


def test_a_line_whose_run_cannot_go_on_is_told_of_and_keeps_no_other_back(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "fail", "fail too").results())
    other = SHOUT.replace("start: shout", "start: call").replace("  shout:", "  call:")
    engine.write("shout", other, {"shout.py": SCRIPT})

    again = start(engine.client.prepare("shout"), "fail", "new", retry_failed=True)

    found = sorted(again.results())
    assert found == [("fail", "failed", None), ("new", "succeeded", "NEW")]
    assert again.progress.refused == ["line 1: agent 'shout' as it is now has no node 'shout'"]


def test_a_failure_in_the_results_file_stays_when_redis_has_forgotten_it(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    started = start(shout, "fail")
    started.ledger.note_reported("fail", run_id_of("words", "fail", 1), failed=True)

    assert list(started.results()) == []
    assert started.progress.failed == 1
    assert engine.newest_runs() == []


def test_a_waiting_run_holds_up_no_other_line(
    engine: Engine, start: Start, ask: PreparedAgent
) -> None:
    started = start(ask, "a", "b", "c", max_in_flight=1)

    assert list(started.results()) == []
    assert (started.progress.waiting, started.progress.left) == (3, 0)


def test_an_answered_run_is_reported_by_the_next_start(
    engine: Engine, start: Start, ask: PreparedAgent
) -> None:
    list(start(ask, "a", "b").results())
    engine.client.answer(run_id_of("words", "b", 1), "fine")

    again = start(ask, "a", "b")

    assert list(again.results()) == [("b", "succeeded", "fine")]
    assert again.progress.waiting == 1


def test_a_spent_budget_starts_no_more_runs(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    started = start(shout, "a", "b", "c", budget_usd=1.0)
    started.progress.known_cost_usd = 1.0  # of an earlier start

    assert list(started.results()) == []
    assert (started.progress.over_budget, started.progress.left) == (True, 3)
    assert engine.queued() == []


def test_a_run_that_redis_lost_is_submitted_anew(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    started = start(shout, "one")
    started.batch.submit_all()
    engine.redis.flushall()
    shout = engine.client.prepare("shout")

    assert [output for _, _, output in started.results()] == ["ONE"]


def test_a_name_serves_one_agent(
    engine: Engine, start: Start, shout: PreparedAgent, ask: PreparedAgent
) -> None:
    list(start(shout, "one").results())

    with pytest.raises(SubmissionRefused, match="has runs of agent 'shout'"):
        list(start(ask, "one").results())
