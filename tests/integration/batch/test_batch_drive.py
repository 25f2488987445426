"""Batches over a real Redis: what is started, joined, skipped and reported."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.expressions.parser import parse
from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.edited import FinishedVersions
from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.intake import load_input
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.models import unpriced_models
from sleipnir.scheduler.batch.options import BatchOptions, Progress
from sleipnir.scheduler.batch.redo import Redo
from sleipnir.scheduler.batch.reported import Reported
from sleipnir.scheduler.batch.results.conditions import LineExpression
from sleipnir.scheduler.batch.results.file import ResultsFile
from sleipnir.scheduler.batch.results.lines import ResultLines
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import NO_USAGE, Status
from sleipnir.scheduler.runs.submit import Request
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says

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
FAILED, INCOMPLETE = frozenset({"failed"}), frozenset({"failed", "incomplete"})


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

    again = start(shout, "one", "fail", retried=FAILED, from_start=True)

    assert len(list(again.results())) == 2
    second = run_id_of("words", "fail", 2)
    assert engine.run(second).status == Status.FAILED
    (members,) = engine.queries.batch_pages("words")
    assert sorted(members) == sorted([run_id_of("words", "one", 1), second])


def test_failed_lines_go_on_with_the_agent_as_it_is_now(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "one", "fail").results())
    list(start(shout, "one", "fail", retried=FAILED).results())  # nothing is mended yet
    engine.write("shout", SHOUT, {"shout.py": SCRIPT.replace("fail", "never")})
    mended = engine.client.prepare("shout")

    again = start(mended, "one", "fail", retried=FAILED)

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

    again = start(engine.client.prepare("shout"), "fail", "new", retried=FAILED)

    found = sorted(again.results())
    assert found == [("fail", "failed", None), ("new", "succeeded", "NEW")]
    assert again.progress.refused == ["line 1: agent 'shout' as it is now has no node 'shout'"]


def test_a_failure_in_the_results_file_stays_when_redis_has_forgotten_it(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    started = start(shout, "fail")
    failure = Reported(run_id_of("words", "fail", 1), 1, "failed", NO_USAGE)
    started.ledger.note_reported("fail", failure)

    assert list(started.results()) == []
    assert started.progress.failed == 1
    assert engine.newest_runs() == []


def test_results_follow_runs_that_others_have_retried(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "one", "fail").results())
    engine.write("shout", SHOUT, {"shout.py": SCRIPT.replace("fail", "never")})
    mended = engine.client.prepare("shout")
    first = run_id_of("words", "fail", 1)
    engine.client.retry(first, agent=mended)
    engine.drive()

    again = start(mended, "one", "fail")
    again.ledger.note_reported("fail", Reported(first, 1, "failed", NO_USAGE))
    again.ledger.note_reported("one", Reported(run_id_of("words", "one", 1), 1, "good", NO_USAGE))

    assert list(again.results()) == [("fail", "succeeded", "FAIL")]
    assert (again.progress.good, again.progress.failed) == (2, 0)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_run_that_is_retried_while_the_batch_runs_is_reported_again(
    engine: Engine, start: Start, shout: PreparedAgent, ordered: bool
) -> None:
    started = start(shout, "fail", "one", max_in_flight=1, ordered=ordered)
    engine.write("shout", SHOUT, {"shout.py": SCRIPT.replace("fail", "never")})
    mended = engine.client.prepare("shout")

    found = []
    for item, status, _ in started.results():
        found.append((item, status))
        if status == "failed":
            engine.client.retry(run_id_of("words", "fail", 1), agent=mended)

    assert found[0] == ("fail", "failed")
    assert sorted(found[1:]) == [("fail", "succeeded"), ("one", "succeeded")]
    assert (started.progress.good, started.progress.failed) == (2, 0)


TOLERANT = """
start: paid
nodes:
  paid: {type: script, script: paid.py, next: shout}
  shout: {type: script, script: shout.py, next: end}
  end: {type: end, output: "{{loud}}"}
"""
PAID = "print('{\"paid\": 1}')"


def test_a_line_with_a_failed_node_is_not_good_and_goes_on_there(
    engine: Engine, start: Start
) -> None:
    files = {"paid.py": PAID, "shout.py": SCRIPT}
    engine.write("tolerant", TOLERANT, files)
    first = start(engine.client.prepare("tolerant"), "one", "fail")
    list(first.results())
    list(start(engine.client.prepare("tolerant"), "one", "fail", retried=FAILED).results())
    mended = {"paid.py": "raise SystemExit(1)", "shout.py": SCRIPT.replace("fail", "never")}
    engine.write("tolerant", TOLERANT, mended)

    again = start(engine.client.prepare("tolerant"), "one", "fail", retried=INCOMPLETE)

    assert (first.progress.good, first.progress.incomplete) == (1, 1)
    assert sorted(again.results()) == [("fail", "succeeded", "FAIL"), ("one", "succeeded", "ONE")]
    assert (again.progress.good, again.progress.incomplete) == (2, 0)
    run = engine.run(run_id_of("words", "fail", 1))
    assert (run.tries, run.failed_nodes) == (2, 0)


def redo(
    started: Started, condition: str, *, results: ResultsFile | None = None, **more: Any
) -> tuple[int, int]:
    engine = started.engine
    lines = ResultLines(engine.client, **more)
    chosen = Redo(engine.queries, lines, "words", "shout", results)
    return chosen.mark(started.ledger, LineExpression("--redo", parse(condition)))


def test_lines_whose_results_fulfil_a_condition_run_again(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "one", "longer", "fail").results())
    again = start(shout, "one", "longer", "fail", "new")

    chosen = redo(again, 'status == "failed" || size(state.loud) > 3', with_state=["loud"])
    results = sorted(again.results())

    lines = ResultLines(engine.client).of_batch("words")
    assert chosen == (2, 3)
    assert [status for _, status, _ in results] == ["failed", "succeeded", "succeeded", "succeeded"]
    assert {line["id"]: (line["line"], line["redone"]) for _, line in lines} == {
        "one": (1, 0),
        "longer": (2, 1),
        "fail": (3, 1),
        "new": (4, 0),
    }
    assert (again.progress.finished, again.progress.earlier) == (4, 1)
    assert engine.queries.batch_rows(["words"])[0].runs == 4


def test_a_condition_that_fails_for_a_line_redoes_none(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "one", "fail").results())
    again = start(shout, "one", "fail")

    with pytest.raises(SubmissionRefused, match="line 2: size: null"):
        redo(again, "size(output) > 0")
    list(again.results())

    assert again.progress.earlier == 2


def test_a_redo_that_was_stopped_goes_on(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "one", "two").results())
    # The command dies before it submits the next run.
    engine.store.runs.leave_batch("words", run_id_of("words", "one", 1))
    list(start(shout, "one", "two").results())
    again = start(shout, "one", "two")

    chosen = redo(again, "redone == 0")
    list(again.results())

    assert chosen == (1, 2)
    redone = {
        line["id"]: line["redone"] for _, line in ResultLines(engine.client).of_batch("words")
    }
    assert redone == {"one": 1, "two": 1}


def test_results_of_removed_runs_count_too(
    engine: Engine, start: Start, shout: PreparedAgent, tmp_path: Path
) -> None:
    def write(started: Started, condition: str | None = None) -> list[dict[str, Any]]:
        lines = ResultLines(engine.client)
        file = tmp_path / "results.jsonl"
        with ResultsFile(file, started.ledger, "words", ordered=True) as results:
            if condition is not None:
                redo(started, condition, results=results)
            for finished in map(lines.completed, started.batch.results()):
                results.append(finished)
        return [json.loads(line) for line in file.read_text().splitlines()]

    write(start(shout, "one", "two", ordered=True))
    engine.redis.flushall()
    shout = engine.client.prepare("shout")

    found = write(start(shout, "one", "two", ordered=True), 'output == "TWO"')
    again = write(start(shout, "one", "two", ordered=True), "redone == 1")

    assert [(line["id"], line["redone"]) for line in found] == [("one", 0), ("two", 1)]
    assert [(line["id"], line["redone"]) for line in again] == [("one", 0), ("two", 2)]


def test_a_retried_line_that_fails_alike_is_counted(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    list(start(shout, "fail").results())

    again = start(shout, "fail", retried=FAILED)
    list(again.results())

    assert (again.progress.failed, again.progress.failed_again) == (1, 1)


def test_finished_lines_are_counted_by_the_version_of_their_agent(
    engine: Engine, start: Start, shout: PreparedAgent
) -> None:
    versions = AgentVersions(engine.store.bundles)
    list(start(shout, "one", "two").results())
    engine.write("shout", SHOUT, {"shout.py": SCRIPT, "notes.md": "x", "tests/a.py": "x"})
    same = engine.client.prepare("shout")
    engine.write("shout", SHOUT, {"shout.py": SCRIPT + "# changed"})
    other = engine.client.prepare("shout")
    ledger = start(other, "one", "two", "three").ledger
    ledger.note_reported("three", Reported("0" * 16, 1, "good", NO_USAGE, "aaaaaaaaaaaa"))

    found = FinishedVersions(engine.queries, versions, "words", other).count(ledger)

    before, now = versions.of(shout.digest, {}), versions.of(other.digest, {})
    assert shout.digest != same.digest
    assert versions.of(same.digest, {}) == before != now
    assert found.describe(4).startswith("3 of 4 lines were run with versions ")
    assert (found.others, found.unknown) == ({before: 2, "aaaaaaaaaaaa": 1}, 0)


def test_the_version_of_an_agent_depends_on_those_that_its_nodes_run(engine: Engine) -> None:
    versions = AgentVersions(engine.store.bundles)
    parent = "start: a\nnodes: {a: {type: agent, agent: child, prompt: x, next: z}, z: {type: end}}"
    found = set()
    for output in ("one", "two"):
        engine.write("child", f"start: z\nnodes: {{z: {{type: end, output: {output}}}}}")
        engine.write("parent", parent)
        prepared = engine.client.prepare("parent")
        found.add(versions.of(prepared.digest, prepared.agents))

    assert len(found) == 2
    assert None not in found


def test_the_version_of_an_agent_depends_on_its_prompt_files(engine: Engine) -> None:
    versions = AgentVersions(engine.store.bundles)
    graph = (
        "start: a\nnodes: {a: {type: llm, model: 'openai:m', prompt: {file: ./ask.md}, next: z}, "
        "z: {type: end}}"
    )
    found = []
    for prompt, notes in (("one", "x"), ("two", "x"), ("two", "y")):
        engine.write("asks", graph, {"ask.md": prompt, "notes.md": notes})
        found.append(versions.of(engine.client.prepare("asks").digest, {}))

    assert found[0] != found[1] == found[2]


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


PAID_CALL = """
start: ask
nodes:
  ask: {type: llm, prompt: "{{initial_prompt}}", model: "openai:gpt-4o-mini", max_tokens: 10,
        next: end}
  end: {type: end, output: done}
"""
# Of one call, which uses 10 tokens of the prompt and 5 of the reply.
PRICES = {"openai:gpt-4o-mini": {"prompt": 1000.0, "completion": 2000.0}}
COST_USD = 0.02


@pytest.fixture
def paid(engine: Engine, server: ModelServer) -> PreparedAgent:
    server.when(lambda _request: True, says("fine"))
    engine.configure(models={"prices": PRICES})
    engine.write("paid", PAID_CALL)
    return engine.client.prepare("paid")


def test_models_of_searches_need_a_price_too(engine: Engine) -> None:
    graph = """
start: find
nodes:
  find: {type: rag, documents: [notes.md], chunk_size: 500, chunk_overlap: 50,
         embedding_model: "openai:own-embeddings", reranker_model: "openai:own-ranking",
         next: words}
  words: {type: rag, documents: [notes.md], chunk_size: 500, chunk_overlap: 50,
          embedding_model: none, next: end}
  end: {type: end}
"""
    engine.write("find", graph, {"notes.md": "Tea is in the kitchen."})
    agent = engine.client.prepare("find")

    found = unpriced_models(agent, engine.store.bundles, engine.store.settings)

    assert found == ["openai:own-embeddings", "openai:own-ranking"]


def test_a_batch_spends_no_more_than_its_budget_and_goes_on_with_a_higher_one(
    engine: Engine, start: Start, paid: PreparedAgent
) -> None:
    lines = [f"{number}" for number in range(40)]
    first = start(paid, *lines, budget_usd=25 * COST_USD)
    done = list(first.results())
    spent, _ = first.batch._limits.spent("batch:words")

    second = start(paid, *lines, budget_usd=60 * COST_USD)
    rest = list(second.results())

    assert first.widest <= 10
    assert 0.8 * 25 * COST_USD <= spent <= 25 * COST_USD
    assert first.progress.failed <= 1  # which reserved more than the rest
    assert first.progress.left + first.progress.failed == 40 - first.progress.good > 0
    assert len(done) < 40
    assert (second.progress.good, second.progress.over_budget) == (40, False)
    assert len(rest) == 40
    assert first.batch._limits.spent("batch:words")[0] == pytest.approx(40 * COST_USD)


def test_few_lines_run_before_their_cost_is_known(
    engine: Engine, start: Start, paid: PreparedAgent
) -> None:
    started = start(paid, *"abcdefghijklmnopqrst", budget_usd=100.0, max_in_flight=20)

    list(started.results())

    assert started.progress.good == 20
    assert started.widest == 8


def test_a_spent_budget_starts_no_more_runs(
    engine: Engine, start: Start, paid: PreparedAgent
) -> None:
    list(start(paid, "a").results())

    started = start(paid, "a", "b", "c", budget_usd=COST_USD / 2)

    assert [item for item, *_ in started.results()] == ["a"]
    assert (started.progress.over_budget, started.progress.left) == (True, 2)
    assert engine.queued() == []


def test_a_line_that_the_budget_refused_fails_and_goes_on_with_a_higher_one(
    engine: Engine, start: Start, paid: PreparedAgent
) -> None:
    first = start(paid, "a", budget_usd=COST_USD / 2)
    refused = list(first.results())
    why = engine.failure(run_id_of("words", "a", 1))

    second = start(paid, "a", budget_usd=20 * COST_USD)

    assert [status for _, status, _ in refused] == ["failed"]
    assert why.code == "R025"
    assert "batch --budget" in why.message
    assert list(second.results()) == [("a", "succeeded", "done")]
    assert engine.run(run_id_of("words", "a", 1)).tries == 2


TWO_CALLS = """
model: openai:gpt-4o-mini
max_tokens: 10
start: first
nodes:
  first: {type: llm, prompt: "{{initial_prompt}}", fallback: end, next: second}
  second: {type: llm, prompt: "Again.", state_updates: {said: "{{output}}"}, next: end}
  end: {type: end, output: "{{said}}"}
"""


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.chaos)])
def test_a_refusal_amid_a_batch_is_in_no_result_and_has_nothing_paid_for_twice(
    engine: Engine, start: Start, server: ModelServer, count: int
) -> None:
    server.when(lambda _request: True, says("fine"))
    # For a half of all calls and one more, so that a line is stopped between its two.
    usd = (count + 1.5) * COST_USD
    engine.configure(models={"prices": PRICES, "budgets": {"batch": {"usd": usd}}})
    engine.write("twice", TWO_CALLS)
    lines = [str(number) for number in range(count)]
    first = {item: rest for item, *rest in start(engine.client.prepare("twice"), *lines).results()}
    made = len(server.requests)

    engine.configure(models={"prices": PRICES, "budgets": {"batch": {"usd": 4 * usd}}})
    again = start(engine.client.prepare("twice"), *lines, retried=FAILED)
    then = {item: rest for item, *rest in again.results()}

    good = [end for end in first.values() if end[0] == "succeeded"]
    assert good == [["succeeded", "fine"]] * (count // 2)
    assert [end[0] for end in first.values() if end not in good] == ["failed"] * (count // 2)
    assert made == count + 1
    assert then == {line: ["succeeded", "fine"] for line in lines}
    assert len(server.requests) == 2 * count


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
