"""Events arrive, are signed, and are sent again until they have arrived."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.hooks import deliverer
from sleipnir.scheduler.hooks.bodies import MOST_BYTES
from sleipnir.scheduler.hooks.deliverer import Deliverer
from sleipnir.scheduler.hooks.sending import post
from sleipnir.scheduler.runs.events import QuestionAnswered
from sleipnir.scheduler.runs.hooks.attempts import ATTEMPTS, pause_s
from sleipnir.scheduler.runs.hooks.model import MOST_OPEN
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.service.sweeps.hooks import HookUpkeep
from sleipnir.scheduler.store.hooks.records import HookEvent
from sleipnir.scheduler.store.keys import timers_key
from tests.support.engine import Engine
from tests.support.hooks import (
    attempts,
    deliver_all,
    delivering,
    events_at,
    hook_key,
    open_deliveries,
    verified,
)
from tests.support.site import ServedSite
from tests.support.wait import wait_until
from tests.support.web_server import Page, WebServer

OK = Page("thanks")
GRAPH = "start: done\nnodes: {done: {type: end, output: fine}}"
FAILING = "start: s\nnodes: {s: {type: script, script: no.py, next: e}, e: {type: end}}"
ASKING = """
start: ask
nodes:
  ask: {type: input, question: "Which colour?", state_updates: {c: "{{input}}"}, next: done}
  done: {type: end, output: "{{c}}"}
"""


@pytest.fixture(autouse=True)
def hooks_allowed(engine: Engine, tmp_path: Path) -> Iterator[None]:
    # Receivers of tests are on this machine.
    engine.configure(
        hook_key_file=hook_key(tmp_path),
        allow_private_addresses=True,
        monitor_public_url="https://runs.example/",
    )
    # Signatures of another day are not accepted.
    engine.clock.ms = 1000 * cast(Any, engine.redis).time()[0]
    yield
    engine.redis.flushall()


@pytest.fixture
def receiver() -> Iterator[WebServer]:
    with WebServer({"/in": OK}) as server:
        yield server


@pytest.fixture
def scheduler(engine: Engine) -> Iterator[Scheduler]:
    with delivering(engine) as scheduler:
        yield scheduler


def hooked(engine: Engine, server: WebServer, *events: str, **more: Any) -> str:
    """Make a hook, and return its secret."""
    wanted = {"url": server.url("/in"), "events": list(events), **more}
    return engine.client.hooks.create("ops", wanted).secret


def test_the_end_of_a_run_arrives_signed(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    secret = hooked(engine, receiver, "run.succeeded")

    run = engine.finish(GRAPH)
    deliver_all(engine, scheduler)

    (visit,) = receiver.visits
    assert visit.method == "POST"
    document = verified(visit, secret)
    assert document["type"] == "run.succeeded"
    assert document["data"]["run_id"] == run.run_id
    assert document["data"]["output"] == "fine"
    assert document["data"]["url"] == f"https://runs.example/runs/{run.run_id}"


def test_events_of_a_run_come_as_they_are_wanted(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "run.*", "question.*")

    run = engine.finish(ASKING)
    deliver_all(engine, scheduler)
    asked = {json.loads(visit.body)["type"]: json.loads(visit.body) for visit in receiver.visits}
    engine.client.answer(run.run_id, "blue")
    engine.drive()
    deliver_all(engine, scheduler)

    assert sorted(events_at(receiver)) == [
        "question.answered",
        "question.asked",
        "run.started",
        "run.succeeded",
        "run.waiting",
    ]
    assert asked["question.asked"]["data"]["question"]["text"] == "Which colour?"


def test_a_question_comes_with_a_link_to_answer_it(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "question.asked")
    receiver.pages["/in"] = Page("out of order", status=503)

    run = engine.finish(ASKING)
    attempts(engine, scheduler, "ops", 1)
    receiver.pages["/in"] = OK
    engine.clock.move(6)
    attempts(engine, scheduler, "ops", 2)

    first, second = (json.loads(visit.body)["data"]["answer_url"] for visit in receiver.visits)
    assert first == second  # who has seen the first attempt ignores the second
    assert first.startswith("https://runs.example/a/")
    with ServedSite(engine.client) as site:
        path = urlsplit(first).path
        assert site.ask(path, "POST", headers={}, form={"answer": "blue"}).status == 303
    (told,) = engine.events(run.run_id, QuestionAnswered)
    assert (told.by, told.via) == ("hook ops", "link")


def test_a_question_that_nobody_may_answer_by_a_link_comes_without_one(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "question.asked")
    approval = (
        "start: a\nnodes: {a: {type: approval, question: Go?, options: [go], routes: {go: e}, "
        "on_other: e, answer_link: false}, e: {type: end}}"
    )

    engine.finish(approval)
    deliver_all(engine, scheduler)

    (visit,) = receiver.visits
    data = json.loads(visit.body)["data"]
    assert data["question"]["text"] == "Go?"
    assert data["answer_url"] is None


def test_filters_leave_out_what_others_do(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "run.succeeded", filter={"label": {"team": "a"}})

    wanted = engine.finish(GRAPH, labels={"team": "a"})
    engine.finish(GRAPH, labels={"team": "b"})
    engine.finish(GRAPH)
    deliver_all(engine, scheduler)

    assert [json.loads(visit.body)["data"]["run_id"] for visit in receiver.visits] == [
        wanted.run_id
    ]


def test_a_run_has_events_sent_to_a_url_of_its_own(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    receiver.pages["/own"] = OK
    wanted = {"url": receiver.url("/in"), "events": ["run.failed"]}
    secret = engine.client.hooks.create("default", wanted).secret

    run = engine.finish(GRAPH, webhook=receiver.url("/own"))
    engine.finish(GRAPH)
    deliver_all(engine, scheduler)

    assert {visit.target for visit in receiver.visits} == {"/own"}
    told = [verified(visit, secret) for visit in receiver.visits]
    assert sorted(each["type"] for each in told) == ["run.started", "run.succeeded"]
    assert {each["data"]["run_id"] for each in told} == {run.run_id}


def test_a_url_of_a_run_needs_the_default_hook(engine: Engine, receiver: WebServer) -> None:
    with pytest.raises(SubmissionRefused, match="hook create default"):
        engine.submit(GRAPH, webhook=receiver.url("/own"))

    engine.client.hooks.create("default", {"url": receiver.url("/in"), "enabled": False})

    with pytest.raises(SubmissionRefused, match="edit default --enable"):
        engine.submit(GRAPH, webhook=receiver.url("/own"))


def test_instants_that_a_schedule_has_missed_are_told(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "schedule.missed", filter={"agent": "tested"})
    engine.write("tested", GRAPH)
    engine.client.schedules.create("often", {"agent": "tested", "every": "1h"})

    engine.clock.move(5 * 3600)
    deliver_all(engine, scheduler)
    missed = engine.client.schedules.get("often").missed
    engine.client.schedules.delete("often")

    (document,) = [json.loads(visit.body) for visit in receiver.visits]
    assert document["type"] == "schedule.missed"
    assert (document["data"]["name"], document["data"]["missed"]) == ("often", missed)


def test_the_runs_of_a_schedule_have_its_webhook(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    receiver.pages["/own"] = OK
    engine.client.hooks.create("default", {"url": receiver.url("/in"), "events": ["run.failed"]})
    engine.write("tested", GRAPH)
    wanted = {"agent": "tested", "every": "1d", "webhook": receiver.url("/own")}
    engine.client.schedules.create("daily", wanted)

    engine.client.schedules.trigger("daily")
    engine.drive()
    deliver_all(engine, scheduler)
    engine.client.schedules.delete("daily")

    assert sorted(events_at(receiver)) == ["run.started", "run.succeeded"]


def test_instants_that_are_missed_are_told_to_the_webhook_of_a_schedule(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    receiver.pages["/own"] = OK
    engine.client.hooks.create("default", {"url": receiver.url("/in"), "events": ["run.failed"]})
    engine.write("tested", GRAPH)
    for name, more in (("own", {"webhook": receiver.url("/own")}), ("other", {})):
        engine.client.schedules.create(name, {"agent": "tested", "every": "1h", **more})

    engine.clock.move(5 * 3600)
    deliver_all(engine, scheduler)
    for name in ("own", "other"):
        engine.client.schedules.delete(name)

    (visit,) = receiver.visits
    assert (visit.target, json.loads(visit.body)["data"]["name"]) == ("/own", "own")


def test_what_fails_is_sent_again_with_the_same_id(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    secret = hooked(engine, receiver, "run.succeeded")
    receiver.pages["/in"] = Page("out of order", status=503)

    engine.finish(GRAPH)
    failed = attempts(engine, scheduler, "ops", 1)[0]
    receiver.pages["/in"] = OK
    engine.clock.move(6)
    delivered = attempts(engine, scheduler, "ops", 2)[0]

    assert (failed.status, failed.number) == (503, 1)
    assert failed.problem == "the reply is 503: out of order"
    assert (delivered.status, delivered.number, delivered.next_ms) == (200, 2, None)
    first, second = receiver.visits
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert verified(second, secret)["type"] == "run.succeeded"
    assert open_deliveries(engine) == 0


def test_what_cannot_be_sent_at_all_is_a_failed_attempt(
    engine: Engine, receiver: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    hooked(engine, receiver, "run.succeeded")

    def broken(event: HookEvent, hook: str) -> bytes:
        raise ArithmeticError(event.event_id, hook)

    sender = Deliverer(engine.store, broken)
    sender.start()
    scheduler = Scheduler(engine.store, monotonic=engine.clock.passed_s, deliverer=sender)
    engine.finish(GRAPH)
    (attempt,) = attempts(engine, scheduler, "ops", 1)
    sender.stop()

    assert (attempt.number, attempt.status) == (1, None)
    assert attempt.problem.startswith("not sent: ArithmeticError")
    assert attempt.next_ms is not None
    assert receiver.visits == []
    assert "cannot deliver to hook 'ops'" in caplog.text


def test_pauses_grow_and_end(engine: Engine) -> None:
    pauses = [pause_s(attempt) for attempt in range(1, ATTEMPTS)]

    assert pause_s(ATTEMPTS) is None
    assert [round(pause or 0) for pause in pauses] == pytest.approx(
        [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400], rel=0.11
    )
    assert pause_s(1, asked_s=600) == 600
    assert pause_s(1, asked_s=86_400) == 3_600


def test_a_receiver_that_is_gone_is_told_no_more(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "run.succeeded")
    receiver.pages["/in"] = Page(status=410)

    engine.finish(GRAPH)
    attempts(engine, scheduler, "ops", 1)
    deliver_all(engine, scheduler)
    engine.finish(GRAPH)

    hook = engine.client.hooks.get("ops")
    assert hook.disabled == "the receiver replied 410 Gone"
    assert open_deliveries(engine) == 0


def test_a_hook_that_fails_for_days_is_disabled(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "run.succeeded")
    receiver.pages["/in"] = Page(status=500)

    engine.finish(GRAPH)
    attempts(engine, scheduler, "ops", 1)
    engine.clock.move(5 * 86_400 + 1)
    attempts(engine, scheduler, "ops", 2)
    disabled = engine.client.hooks.get("ops").disabled
    engine.client.hooks.edit("ops", {"enabled": True})

    assert (disabled or "").startswith("every attempt has failed since")
    assert engine.client.hooks.figures()["ops"].failing_since_ms is None


def test_an_event_is_sent_again_on_demand(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    secret = hooked(engine, receiver, "run.succeeded")
    engine.finish(GRAPH)
    deliver_all(engine, scheduler)
    (known,) = engine.client.hooks.attempts("ops")

    engine.client.hooks.redeliver("ops", known.event_id)
    deliver_all(engine, scheduler)

    first, second = receiver.visits
    assert verified(first, secret) == verified(second, secret)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_what_a_hook_was_not_told_a_later_one_of_its_name_is_not(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    hooked(engine, receiver, "run.succeeded")
    engine.client.hooks.create("other", {"url": receiver.url("/in")})
    engine.finish(GRAPH)
    engine.client.hooks.delete("ops")
    kept = engine.client.hooks.open_deliveries()

    secret = hooked(engine, receiver, "run.failed")
    event_id = engine.client.hooks.test("ops")
    deliver_all(engine, scheduler)

    assert kept == {"other": 1}
    (told,) = [each for each in receiver.visits if each.headers["webhook-id"] == event_id]
    assert verified(told, secret)["type"] == "hook.test"
    assert len(receiver.visits) == 2


def test_of_a_hook_that_is_deleted_while_it_is_told_nothing_remains(
    engine: Engine, receiver: WebServer
) -> None:
    hooked(engine, receiver, "run.succeeded")
    engine.client.hooks.create("other", {"url": receiver.url("/in"), "events": ["run.succeeded"]})
    told = []

    def body_of(_event: HookEvent, hook: str) -> bytes:
        told.append(hook)
        if hook == "ops":
            engine.client.hooks.delete("ops")
            raise ArithmeticError
        return b"{}"

    sender = Deliverer(engine.store, body_of, threads=1)
    sender.start()
    scheduler = Scheduler(engine.store, monotonic=engine.clock.passed_s, deliverer=sender)
    engine.finish(GRAPH)
    attempts(engine, scheduler, "other", 1)
    sender.stop()

    assert told == ["ops", "other"]
    assert open_deliveries(engine) == 0
    assert engine.client.hooks.figures().keys() == {"other"}
    assert engine.store.deliveries.attempts("ops") == []


def test_what_its_host_had_no_room_for_is_sent_once_it_has(
    engine: Engine, receiver: WebServer
) -> None:
    names = ("a", "b", "c")
    for name in names:
        engine.client.hooks.create(name, {"url": receiver.url("/in"), "events": ["run.succeeded"]})
    may_go = Event()

    def body_of(_event: HookEvent, _hook: str) -> bytes:
        may_go.wait(60)
        return b"{}"

    sender = Deliverer(engine.store, body_of)
    sender.start()
    scheduler = Scheduler(engine.store, monotonic=engine.clock.passed_s, deliverer=sender)
    engine.finish(GRAPH)
    places = [place for place, _ in engine.store.deliveries.read_open()]
    scheduler.run_once()

    def are_taken() -> bool:
        due = [engine.redis.zscore(timers_key(each.partition), each.timer) for each in places]
        return all(at > engine.clock.ms for at in due)

    wait_until(are_taken, "all are taken, and two under way")
    may_go.set()
    wait_until(lambda: len(receiver.visits) == 3, "all were sent, without another tick")
    sender.stop()

    assert len(places) == 3


def test_a_test_says_what_came_of_it(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    secret = hooked(engine, receiver, "run.failed")

    event_id = engine.client.hooks.test("ops")
    deliver_all(engine, scheduler)

    attempt = engine.client.hooks.wait_for("ops", event_id, 5)
    assert attempt is not None
    assert attempt.is_delivered
    assert verified(receiver.visits[0], secret)["data"] == {"hook": "ops"}


def test_what_a_dead_scheduler_had_taken_is_sent_by_another(
    engine: Engine, receiver: WebServer
) -> None:
    hooked(engine, receiver, "run.succeeded")
    engine.finish(GRAPH)
    ((place, _),) = engine.store.deliveries.read_open()
    engine.store.deliveries.take(place, 180)

    with delivering(engine) as other:
        other.run_once()
        waiting = open_deliveries(engine)
        engine.clock.move(181)
        deliver_all(engine, other)

    assert waiting == 1
    assert events_at(receiver) == ["run.succeeded"]


def test_runs_without_hooks_leave_nothing_to_deliver(engine: Engine) -> None:
    engine.finish(GRAPH)

    assert not list(engine.redis.scan_iter("*deliveries*"))


def test_at_most_eight_hooks_are_told_of_one_event(
    engine: Engine, receiver: WebServer, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10):
        url = receiver.url("/in")
        engine.client.hooks.create(f"h{number}", {"url": url, "events": ["run.succeeded"]})

    engine.finish(GRAPH)
    told = [place.hook for place, _ in engine.store.deliveries.read_open()]
    deliver_all(engine, scheduler)

    assert sorted(told) == [f"h{number}" for number in range(8)]
    assert "2 more hooks; only the first 8 by name are told" in caplog.text


def test_the_oldest_of_too_many_events_are_given_up(
    engine: Engine, receiver: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooked(engine, receiver, "run.succeeded")
    old = {
        f"ops evt_{number}": json.dumps({"type": "run.succeeded", "at": number, "run": "0" * 16})
        for number in range(MOST_OPEN + 5)
    }
    engine.redis.hset("{p00}:deliveries", mapping=old)

    HookUpkeep(engine.store).run_once()

    left = {place.event_id for place, _ in engine.store.deliveries.read_open()}
    assert len(left) == MOST_OPEN
    assert {"evt_4", "evt_5"} & left == {"evt_5"}
    assert engine.client.hooks.figures()["ops"].given_up == 5


def test_who_dies_amid_a_change_leaves_no_partition_behind(
    engine: Engine, receiver: WebServer
) -> None:
    hooked(engine, receiver, "run.succeeded")
    engine.redis.delete("{p07}:hooks")

    HookUpkeep(engine.store).run_once()

    assert engine.redis.get("{p07}:hooks") == engine.redis.get("{p08}:hooks")


def test_a_body_that_is_too_large_is_cut(
    engine: Engine, receiver: WebServer, scheduler: Scheduler
) -> None:
    secret = hooked(engine, receiver, "run.succeeded")
    graph = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'

    run = engine.finish(graph, prompt="é" * 200_000)
    deliver_all(engine, scheduler)

    (visit,) = receiver.visits
    data = verified(visit, secret)["data"]
    assert len(visit.body) <= MOST_BYTES
    assert (data["run_id"], data["cut"]) == (run.run_id, True)
    assert data["output"] == "é" * 32_000


def test_a_receiver_that_hangs_keeps_nobody_else_waiting(
    engine: Engine, receiver: WebServer, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its requests last longer than the test, however slow this machine is.
    monkeypatch.setattr(deliverer, "post", partial(post, total_s=600))
    hooked(engine, receiver, "run.*")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/in"
        engine.client.hooks.create("hangs", {"url": url, "events": ["run.*"]})
        waits = engine.finish(ASKING, timeout_s=600)
        run_ids = {engine.finish(GRAPH).run_id for _ in range(10)}

        def all_is_told() -> bool:
            engine.clock.move(0.1)
            scheduler.run_once()
            return len(receiver.visits) == 2 + 2 * len(run_ids)

        wait_until(all_is_told, "the other receiver has got everything")
        engine.clock.move(601)
        scheduler.run_once()
        hanging = engine.client.hooks.attempts("hangs")

    assert str(engine.run(waits.run_id).status) == "timed_out"
    assert hanging == []
