"""Hooks are told once a batch has finished."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.intake import load_input
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.options import BatchOptions, Progress
from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.store.hooks.batch_ends import BatchTimer
from tests.support.engine import Engine
from tests.support.hooks import deliver_all, delivering, hook_key, open_deliveries, verified
from tests.support.web_server import Page, WebServer

# Its name has a blank, as names of batches may.
BATCH = "red words"
GRAPH = """
start: say
nodes:
  say: {type: script, script: say.py}
  done: {type: end, output: said}
"""
SAY = 'import json, pathlib\npathlib.Path("@").read_text()\nprint(json.dumps({"_next": "done"}))'


@pytest.fixture
def receiver() -> Iterator[WebServer]:
    with WebServer({"/in": Page("thanks")}) as server:
        yield server


@pytest.fixture
def secret(engine: Engine, receiver: WebServer, tmp_path: Path) -> Iterator[str]:
    """That of a hook which is told of the ends of batches."""
    engine.configure(
        hook_key_file=hook_key(tmp_path),
        allow_private_addresses=True,
        monitor_public_url="https://runs.example",
    )
    # Signatures of another day are not accepted.
    engine.clock.ms = 1000 * cast(Any, engine.redis).time()[0]
    wanted = {"url": receiver.url("/in"), "events": ["batch.*"]}
    yield engine.client.hooks.create("ops", wanted).secret
    engine.redis.flushall()


@pytest.fixture
def scheduler(engine: Engine) -> Iterator[Scheduler]:
    with delivering(engine) as scheduler:
        yield scheduler


@pytest.fixture
def word(tmp_path: Path) -> Path:
    """A file without which runs fail."""
    return tmp_path / "word"


def a_batch(engine: Engine, ledger: Ledger, word: Path, *lines: str, **options: Any) -> Batch:
    engine.write("say", GRAPH, {"say.py": SAY.replace("@", str(word))})
    text = "".join(json.dumps({"id": line, "prompt": line}) + "\n" for line in lines)
    load_input(ledger, io.StringIO(text), "jsonl", lambda _: None, Request(), 10_000)
    wanted = BatchOptions(**{"name": BATCH, "max_in_flight": 10} | options)

    def work(_progress: Progress) -> None:
        engine.drive()

    return Batch(engine.client, engine.client.prepare("say"), ledger, wanted, on_progress=work)


def look(engine: Engine, scheduler: Scheduler) -> None:
    """Let schedulers notice that a batch has finished, and tell of it."""
    engine.clock.move(2)
    scheduler.run_once()
    deliver_all(engine, scheduler)


def documents(receiver: WebServer, secret: str) -> list[dict[str, Any]]:
    return [verified(visit, secret) for visit in receiver.visits]


def test_a_batch_has_finished_once_its_last_run_has(
    engine: Engine, receiver: WebServer, secret: str, scheduler: Scheduler, word: Path
) -> None:
    word.write_text("red")
    with Ledger() as ledger:
        a_batch(engine, ledger, word, "a", "b", "c").submit_all()
    engine.work_once()
    look(engine, scheduler)
    before = documents(receiver, secret)

    engine.drive()
    look(engine, scheduler)
    look(engine, scheduler)

    assert before == []
    (document,) = documents(receiver, secret)
    assert document["type"] == "batch.finished"
    data = document["data"]
    assert (data["batch"], data["agent"], data["lines"]) == (BATCH, "say", 3)
    assert (data["succeeded"], data["open"]) == (3, 0)
    assert data["url"] == "https://runs.example/batches/red%20words"


def test_a_batch_finishes_again_after_a_retry(
    engine: Engine, receiver: WebServer, secret: str, scheduler: Scheduler, word: Path
) -> None:
    with Ledger() as ledger:
        list(a_batch(engine, ledger, word, "a", "b").results())
    look(engine, scheduler)
    word.write_text("red")
    engine.client.retry(run_id_of(BATCH, "a", 1))
    look(engine, scheduler)
    during = documents(receiver, secret)

    engine.drive()
    look(engine, scheduler)

    assert [document["data"]["failed"] for document in during] == [2]
    assert [document["data"]["failed"] for document in documents(receiver, secret)] == [2, 1]
    first, second = (visit.headers["webhook-id"] for visit in receiver.visits)
    assert first != second


def test_a_batch_has_not_finished_while_lines_are_retried_one_by_one(
    engine: Engine, receiver: WebServer, secret: str, scheduler: Scheduler, word: Path
) -> None:
    with Ledger() as ledger:
        list(a_batch(engine, ledger, word, "a", "b").results())
    look(engine, scheduler)
    receiver.visits.clear()

    with Ledger() as ledger:
        again = a_batch(
            engine, ledger, word, "a", "b", max_in_flight=1, retried=frozenset({"failed"})
        )
        for _ in again.results():
            engine.clock.move(2)
            scheduler.run_once()
            assert open_deliveries(engine) == 0
    look(engine, scheduler)

    assert len(receiver.visits) == 1


def test_a_batch_whose_command_has_died_finishes_a_little_later(
    engine: Engine, receiver: WebServer, secret: str, scheduler: Scheduler, word: Path
) -> None:
    word.write_text("red")
    with Ledger() as ledger:
        a_batch(engine, ledger, word, "a").submit_all()
    engine.store.batch_ends.hold(BATCH, 15)
    engine.drive()
    look(engine, scheduler)
    held = list(receiver.visits)

    engine.clock.move(15)
    look(engine, scheduler)

    assert held == []
    assert len(receiver.visits) == 1


def test_a_batch_of_which_lines_are_left_has_not_finished(
    engine: Engine, receiver: WebServer, secret: str, scheduler: Scheduler, word: Path
) -> None:
    word.write_text("red")
    with Ledger() as ledger:
        a_batch(engine, ledger, word, "a", lines=2).submit_all()
    engine.drive()
    look(engine, scheduler)
    engine.clock.move(60)
    look(engine, scheduler)

    assert receiver.visits == []


def test_a_batch_of_unknown_size_has_finished_once_nothing_comes_for_a_minute(
    engine: Engine, receiver: WebServer, secret: str, scheduler: Scheduler, word: Path
) -> None:
    word.write_text("red")
    files = {"say.py": SAY.replace("@", str(word))}

    def submit_one() -> None:
        engine.finish(GRAPH, files, batch=BATCH)
        look(engine, scheduler)

    submit_one()
    engine.clock.move(50)
    submit_one()
    engine.clock.move(50)
    look(engine, scheduler)
    early = list(receiver.visits)
    engine.clock.move(10)
    look(engine, scheduler)
    look(engine, scheduler)
    submit_one()
    engine.clock.move(60)
    look(engine, scheduler)

    assert early == []
    told = [document["data"] for document in documents(receiver, secret)]
    assert [(data["lines"], data["succeeded"]) for data in told] == [(None, 2), (None, 3)]


@pytest.fixture
def own(engine: Engine, receiver: WebServer, secret: str) -> str:
    """A URL that a submission may name, which others than hooks for ends of batches are told."""
    engine.client.hooks.delete("ops")
    engine.client.hooks.create("default", {"url": receiver.url("/in"), "events": ["run.failed"]})
    receiver.pages["/own"] = Page("thanks")
    return receiver.url("/own")


def ends_at(receiver: WebServer, target: str) -> list[dict[str, Any]]:
    found = [json.loads(visit.body) for visit in receiver.visits if visit.target == target]
    return [each["data"] for each in found if each["type"] == "batch.finished"]


def test_the_end_of_a_batch_is_told_to_the_url_of_its_own(
    engine: Engine, receiver: WebServer, own: str, scheduler: Scheduler, word: Path
) -> None:
    word.write_text("red")
    with Ledger() as ledger:
        a_batch(engine, ledger, word, "a", "b", defaults=Request(webhook=own)).submit_all()
    engine.drive()
    look(engine, scheduler)

    (data,) = ends_at(receiver, "/own")
    assert (data["batch"], data["succeeded"]) == (BATCH, 2)
    assert ends_at(receiver, "/in") == []


def test_a_batch_of_unknown_size_has_the_url_of_its_last_submission(
    engine: Engine, receiver: WebServer, own: str, scheduler: Scheduler, word: Path
) -> None:
    word.write_text("red")
    files = {"say.py": SAY.replace("@", str(word))}
    receiver.pages["/earlier"] = Page("thanks")

    engine.finish(GRAPH, files, batch=BATCH, webhook=receiver.url("/earlier"))
    engine.finish(GRAPH, files, batch=BATCH, webhook=own)
    engine.clock.move(60)
    look(engine, scheduler)

    assert [data["succeeded"] for data in ends_at(receiver, "/own")] == [2]
    assert ends_at(receiver, "/earlier") == []


def test_who_dies_before_it_has_told_leaves_that_to_another(
    engine: Engine,
    receiver: WebServer,
    secret: str,
    scheduler: Scheduler,
    word: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    word.write_text("red")
    with Ledger() as ledger:
        a_batch(engine, ledger, word, "a").submit_all()
    engine.drive()
    with monkeypatch.context() as patch:
        patch.setattr(engine.store.batch_ends, "settle", lambda *_: None)
        look(engine, scheduler)

    look(engine, scheduler)

    assert len(receiver.visits) == 1
    assert engine.store.batch_ends.read(BatchTimer.own(BATCH)) == (None, 0)


def test_what_waits_to_be_told_is_no_inconsistency(
    engine: Engine, receiver: WebServer, secret: str, word: Path
) -> None:
    word.write_text("red")
    with Ledger() as ledger:
        a_batch(engine, ledger, word, "a").submit_all()
    engine.drive()
    engine.client.hooks.test("ops")

    assert list(ConsistencyCheck(engine.redis).violations()) == []
